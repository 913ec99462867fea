package wsdl

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

// A folder has documents by their path.
type folder struct {
	docs    map[string][]byte
	sources map[string]*Source
}

func newFolder(docs map[string][]byte) *folder {
	return &folder{docs: docs, sources: map[string]*Source{}}
}

// source is a document of the folder, nil if there is none.
func (f *folder) source(name string) *Source {
	if s := f.sources[name]; s != nil || f.docs[name] == nil {
		return s
	}
	s := &Source{Doc: f.docs[name]}
	f.sources[name] = s
	s.Target = func(r Ref) *Source {
		if strings.Contains(r.Value, ":") {
			return nil
		}
		return f.source(path.Join(path.Dir(name), r.Value))
	}
	s.Map = func(r Ref) (string, bool) {
		if r.Use == Address {
			return "http://gw.test/?a&b", true
		}
		return "~" + r.Value, r.Use != Policy
	}
	return s
}

// names are the attributes whose values are names.
var names = map[string]bool{
	"type": true, "element": true, "ref": true, "base": true, "message": true, "binding": true, "itemType": true, "refer": true, "substitutionGroup": true,
}

// facts lists what a document says, whatever its prefixes are: its elements but
// for those that Flatten makes, moves or removes, with the names that their
// attributes have. What has no namespace counts as if it had target.
func facts(t *testing.T, doc []byte, target string) []string {
	t.Helper()
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	var list []string
	skip := 0 // depth of an element that is left out
	for {
		kind, err := s.Next()
		if err == io.EOF {
			slices.Sort(list)
			return list
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if kind == xmlstream.End && s.Depth() == skip {
			skip = 0
		}
		if kind != xmlstream.Start || skip > 0 {
			continue
		}
		local := string(s.Local())
		switch {
		case string(s.Space()) == nsWSDL && local == "documentation" && s.Depth() == 2, local == "import", local == "include":
			skip = s.Depth()
			continue
		case local == "definitions", local == "types", local == "schema":
			continue
		}
		var line strings.Builder
		line.WriteString("{" + string(s.Space()) + "}" + local)
		for _, a := range s.Attrs() {
			value := a.Value()
			if names[string(a.Name.Local)] && len(a.Name.Prefix) == 0 {
				prefix, rest, ok := strings.Cut(value, ":")
				if !ok {
					prefix, rest = "", value
				}
				space, _ := s.Lookup([]byte(prefix))
				if len(space) == 0 {
					space = []byte(target)
				}
				value = "{" + string(space) + "}" + rest
			}
			if !a.IsNamespace() && string(a.Name.Local) != "location" && string(a.Name.Local) != "schemaLocation" {
				line.WriteString(" " + string(a.Name.Local) + "=" + value)
			}
		}
		list = append(list, line.String())
	}
}

// What is flattened says the same as before, each file once for each namespace
// that it is part of: the section "sum" names them, with that namespace.
func TestFlatten(t *testing.T) {
	golden.Run(t, "testdata/flat/*.txtar", func(t *testing.T, c *golden.Case) {
		docs := map[string][]byte{}
		var before []string
		for line := range strings.Lines(string(c.File("sum"))) {
			name, target, _ := strings.Cut(strings.TrimSpace(line), " ")
			if docs[name] = c.File(name); docs[name] == nil {
				t.Fatalf("no file %s", name)
			}
			if target != "stays" {
				before = append(before, facts(t, docs[name], target)...)
			}
		}
		slices.Sort(before)
		flat, err := Flatten(newFolder(docs).source("root.wsdl"))
		if err != nil {
			t.Fatal(err)
		}
		c.Check(t, "want", string(flat))
		if d := cmp.Diff(before, facts(t, flat, "")); d != "" {
			t.Errorf("what the documents say (-before +after):\n%s", d)
		}
	})
}

// A document that refers to nothing stays as it is, octet for octet.
func TestFlattenAlone(t *testing.T) {
	for _, name := range []string{"depot.wsdl", "two.wsdl"} {
		doc := read(t, name)
		flat, err := Flatten(&Source{Doc: doc, Target: func(Ref) *Source { return nil }, Map: func(Ref) (string, bool) { return "", false }})
		if err != nil || string(flat) != string(doc) {
			t.Errorf("%s: %v, %s", name, err, cmp.Diff(string(doc), string(flat)))
		}
	}
}

// Documents that are small and refer to each other a lot do not become large.
func TestFlattenLimit(t *testing.T) {
	const includers = 300
	docs := map[string][]byte{"common.xsd": []byte(`<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"><!--` + strings.Repeat("-x", 300_000) + `--></x:schema>`)}
	var imports strings.Builder
	for i := range includers {
		name := fmt.Sprintf("n%d.xsd", i)
		docs[name] = fmt.Appendf(nil, `<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:%d"><x:include schemaLocation="common.xsd"/></x:schema>`, i)
		imports.WriteString(fmt.Sprintf(`<x:import namespace="urn:%d" schemaLocation="%s"/>`, i, name))
	}
	docs["root.wsdl"] = []byte(`<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/"><d:types><x:schema xmlns:x="http://www.w3.org/2001/XMLSchema">` + imports.String() + `</x:schema></d:types></d:definitions>`)
	if flat, err := Flatten(newFolder(docs).source("root.wsdl")); !errors.Is(err, ErrFlat) {
		t.Errorf("got %d octets, %v; want %v", len(flat), err, ErrFlat)
	}
}

// A document of many small parts does not take many times its size.
func TestFlattenParts(t *testing.T) {
	for name, doc := range map[string]string{
		"children": `<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/">` + strings.Repeat("<a/>", maxParts+1) + `</d:definitions>`,
		"notes":    `<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/"><b xmlns="http://www.w3.org/2001/XMLSchema">` + strings.Repeat("<appinfo/>", maxParts+1) + `</b></d:definitions>`,
	} {
		if _, err := Flatten(newFolder(map[string][]byte{"root.wsdl": []byte(doc)}).source("root.wsdl")); !errors.Is(err, ErrFlat) {
			t.Errorf("%s: got %v, want %v", name, err, ErrFlat)
		}
	}
}

// The published descriptions say the same when they are one.
func TestFlattenCorpus(t *testing.T) {
	docs := map[string][]byte{}
	for name, doc := range corpus(t) {
		_, name, _ = strings.Cut(strings.ReplaceAll(name, "\\", "/"), "/corpus/wsdl/")
		utf8, _, err := xmlstream.DecodeBytes(doc, "")
		if err != nil {
			t.Fatal(err)
		}
		docs[name] = utf8
	}
	with := map[string][]string{}
	const common, onvif = "onvif/ver10/schema/common.xsd", "onvif/ver10/schema/onvif.xsd"
	with["onvif/ver10/device/wsdl/devicemgmt.wsdl"] = []string{common, onvif}
	with["onvif/ver20/ptz/wsdl/ptz.wsdl"] = []string{common, onvif}
	for name, doc := range docs {
		if !strings.HasSuffix(name, ".wsdl") {
			continue
		}
		flat, err := Flatten(newFolder(docs).source(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		before := facts(t, doc, "")
		for _, other := range with[name] {
			before = append(before, facts(t, docs[other], "")...)
		}
		slices.Sort(before)
		if d := cmp.Diff(before, facts(t, flat, "")); d != "" {
			t.Errorf("%s: what the documents say (-before +after):\n%s", name, d)
		}
	}
}

// Documents that are well-formed make one that is, whatever they say and however
// they refer to each other.
func FuzzFlatten(f *testing.F) {
	cases := golden.Glob(f, "testdata/flat/*.txtar")
	for _, c := range cases {
		for line := range strings.Lines(string(c.File("sum"))) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			f.Add(c.File("root.wsdl"), c.File(name), name)
			f.Add(c.File(name), c.File("root.wsdl"), name)
		}
	}
	f.Add([]byte(`<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/"><d:types/><d:import location="a"><d:import location="b"/></d:import></d:definitions>`),
		[]byte(`<schema xmlns="http://www.w3.org/2001/XMLSchema" targetNamespace=""><include schemaLocation="a"/></schema>`), "a")
	f.Fuzz(func(t *testing.T, root, other []byte, name string) {
		a, b := &Source{Doc: root}, &Source{Doc: other}
		target := func(r Ref) *Source {
			switch r.Value {
			case name:
				return b
			case "":
				return nil
			}
			return a
		}
		rename := func(r Ref) (string, bool) { return visible(r.Value) + "'", r.Use != Policy }
		a.Target, b.Target, a.Map, b.Map = target, target, rename, rename
		_, errA := Parse(root)
		_, errB := Parse(other)
		flat, err := Flatten(a)
		if errA == nil && errB == nil && err != nil && !errors.Is(err, ErrFlat) {
			t.Fatalf("Flatten: %v", err)
		}
		if err != nil {
			return
		}
		if _, err := Parse(flat); err != nil {
			t.Fatalf("%v in %q", err, flat)
		}
	})
}
