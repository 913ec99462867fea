package soapcodec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"soapway/xmlstream"
)

// acceptanceCase is what this package can judge of a case.json.
type acceptanceCase struct {
	ID, Kind string
	Request  struct {
		Headers map[string]*string
		Body    string `json:"body_file"`
	}
	Response struct {
		Body string `json:"body_file"`
	}
	Bodies []struct {
		File       string
		WellFormed bool  `json:"well_formed"`
		Namespaces *bool `json:"namespace_well_formed"`
		Legal      *bool `json:"soap_legal"`
	}
	Variants []struct {
		Name    string
		Body    json.RawMessage
		Headers map[string]*string
		Expect  json.RawMessage
	}
	Expect struct {
		Verdict string
		Facts   json.RawMessage // an object, where the case has one envelope
	}
}

// TestCases reads the acceptance cases that concern one envelope: which bodies
// must be refused, and the facts of those that must not.
func TestCases(t *testing.T) {
	dir := testData(t, "CASES", "../../shared/cases")
	paths, err := filepath.Glob(filepath.Join(dir, "*", "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"charset", "media-type", "namespaces", "xml-syntax", "envelope", "faults", "limits", "security", "messaging"}
	n := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var c acceptanceCase
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		folder := filepath.Dir(path)
		ct := c.Request.Headers["Content-Type"]
		if !slices.Contains(kinds, c.Kind) || ct == nil || strings.HasPrefix(*ct, "multipart/") {
			continue
		}
		n++
		t.Run(filepath.Base(folder), func(t *testing.T) { c.check(t, folder) })
	}
	if n < 25 {
		t.Errorf("%s: got %d cases, want at least 25", dir, n)
	}
}

func (c *acceptanceCase) check(t *testing.T, folder string) {
	for _, b := range c.Bodies {
		facts, err := decodeFile(t, filepath.Join(folder, b.File), c.label(b.File))
		good := b.WellFormed && (b.Namespaces == nil || *b.Namespaces) && (b.Legal == nil || *b.Legal)
		switch e, isError := err.(*Error); {
		case err != nil && !isError:
			t.Errorf("%s: got %v, want an *Error", b.File, err)
		case !good && err == nil:
			t.Errorf("%s: accepted with\n%s, want a fault", b.File, dump(facts))
		case c.Kind == "xml-syntax" && !good && e.Code != CodeNotWellFormed && e.Code != CodeCharset:
			t.Errorf("%s: got %v, want it not well-formed", b.File, err)
		case c.Kind == "namespaces" && !good && e.Code != CodeNotWellFormed:
			t.Errorf("%s: got %v, want %s", b.File, err, CodeNotWellFormed)
		case c.Kind == "security" && !good && e.Code != CodeDoctype:
			t.Errorf("%s: got %v, want %s", b.File, err, CodeDoctype)
		case c.Kind == "envelope" && !good && e.Code != CodeVersionMismatch:
			t.Errorf("%s: got %v, want %s", b.File, err, CodeVersionMismatch)
		case good && err != nil && !c.mayRefuse(b.File, e):
			t.Errorf("%s: got %v, want it accepted", b.File, err)
		}
	}
	file := c.Request.Body
	if c.Kind == "faults" {
		file = c.Response.Body
	}
	got, err := decodeFile(t, filepath.Join(folder, file), c.label(file))
	if err != nil {
		return // judged above
	}
	var facts map[string]any
	if len(c.Expect.Facts) > 0 {
		if err := json.Unmarshal(c.Expect.Facts, &facts); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range facts {
		if have, known := fact(got, name); known && !equalFact(have, want) {
			t.Errorf("%s of %s: got %v, want %v", name, file, have, want)
		}
	}
}

// mayRefuse tells the refusals of well-formed bodies that a case asks for.
func (c *acceptanceCase) mayRefuse(file string, e *Error) bool {
	return file == "variant-12-bad-lexical.bin" && e.Code == CodeInvalidEnvelope
}

// label is the charset that the request or the variant with this body has in
// its Content-Type.
func (c *acceptanceCase) label(file string) string {
	field := c.Request.Headers["Content-Type"]
	for _, v := range c.Variants {
		if string(v.Body) == `"`+file+`"` && v.Headers["Content-Type"] != nil {
			field = v.Headers["Content-Type"]
		}
	}
	if ct, err := ParseContentType(*field); err == nil {
		return ct.Charset
	}
	return ""
}

func decodeFile(t *testing.T, path, label string) (*Facts, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := NewDecoder(Options{})
	r, err := xmlstream.NewReader(f, label)
	if err != nil {
		return nil, d.explain(err)
	}
	d.Reset(r)
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return d.Facts(), nil
}

// fact finds what a case calls by this name.
func fact(f *Facts, name string) (got any, known bool) {
	switch name {
	case "soap_version", "soap_version_by_namespace":
		return f.Version.String(), true
	case "body_qname":
		if f.Operation.IsZero() {
			return nil, true
		}
		return f.Operation.String(), true
	case "body_child_count":
		return float64(f.BodyChildren), true
	case "header_qnames":
		names := []any{}
		for _, b := range f.Headers {
			names = append(names, b.Name.String())
		}
		return names, true
	case "header":
		return f.Headers[0].Name.String(), true
	case "is_fault":
		return f.Fault != nil, true
	case "faultcode", "Code/Value":
		return f.Fault.Code.String(), true
	case "Subcode/Value":
		return f.Fault.Subcodes[0].String(), true
	case "action":
		return f.Action, f.Action != ""
	}
	return nil, false
}

func equalFact(got, want any) bool {
	list, ok := got.([]any)
	if !ok {
		return got == want
	}
	wanted, ok := want.([]any)
	return ok && slices.Equal(list, wanted)
}
