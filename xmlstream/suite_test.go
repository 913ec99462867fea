package xmlstream

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

// suiteDeviations are the tests without a DOCTYPE whose result differs from
// what the suite says, and why.
var suiteDeviations = map[string]string{
	"o-p04pass1":  "names with colons that Namespaces in XML does not allow",
	"o-p05pass1":  "names with colons that Namespaces in XML does not allow",
	"hst-lhs-007": "the byte order mark beats a declaration that disagrees",
	"hst-lhs-008": "the byte order mark beats a declaration that disagrees",
}

// TestSuite runs the W3C XML Conformance Test Suite 20130923: the tests of XML
// 1.0 Fifth Edition and Namespaces 1.0. Without a DOCTYPE what is not
// well-formed must be refused and all else accepted; with one, everything is
// refused.
func TestSuite(t *testing.T) {
	corpus := os.Getenv("CORPUS")
	if corpus == "" {
		corpus = filepath.Join("..", "..", "shared", "corpus")
	}
	suite, err := zip.OpenReader(filepath.Join(corpus, "xmlts20130923.zip"))
	if err != nil {
		t.Skipf("the W3C XML suite is not there (CORPUS names its folder): %v", err)
	}
	defer suite.Close()

	type counts struct{ plain, doctype int }
	got := map[string]*counts{"not-wf": {}, "valid": {}, "invalid": {}, "error": {}}
	for _, test := range suiteTests(t, &suite.Reader) {
		doc := suiteFile(t, &suite.Reader, test.path)
		err := scanAny(doc)
		if viaReader := scanReader(doc); (err == nil) != (viaReader == nil) {
			t.Errorf("%s %s: got %v over bytes, %v over a reader", test.id, test.path, err, viaReader)
		}
		if hasDoctype(doc) {
			got[test.kind].doctype++
			// What is at fault before the DOCTYPE may be reported instead.
			if err == nil || test.kind != "not-wf" && test.kind != "error" && !errors.Is(err, ErrDoctype) {
				t.Errorf("%s %s (%s, has a DOCTYPE): got %v", test.id, test.path, test.kind, err)
			}
			continue
		}
		got[test.kind].plain++
		deviates := suiteDeviations[test.id] != ""
		switch test.kind {
		case "not-wf":
			if (err == nil) != deviates {
				t.Errorf("%s %s (not-wf): got %v", test.id, test.path, err)
			}
		case "valid", "invalid":
			if (err != nil) != deviates {
				t.Errorf("%s %s (%s): got %v", test.id, test.path, test.kind, err)
			}
		}
	}
	want := map[string]counts{"not-wf": {244, 773}, "valid": {0, 728}, "invalid": {75, 154}, "error": {1, 26}}
	for kind, n := range want {
		if *got[kind] != n {
			t.Errorf("%s: ran %+v tests, want %+v", kind, *got[kind], n)
		}
	}
}

type suiteTest struct{ id, kind, path string }

// suiteTests reads the catalogues that xmlconf.xml names; their entities' own
// folders are the bases, which is right also where its xml:base is not.
func suiteTests(t *testing.T, z *zip.Reader) (tests []suiteTest) {
	t.Helper()
	index := suiteFile(t, z, "xmlconf/xmlconf.xml")
	for _, m := range regexp.MustCompile(`<!ENTITY\s+\S+\s+SYSTEM\s+"([^"]+)">`).FindAllSubmatch(index, -1) {
		file := path.Join("xmlconf", string(m[1]))
		text := suiteFile(t, z, file)
		// An external parsed entity: a text declaration, and any number of roots.
		if i := bytes.Index(text, []byte("?>")); bytes.HasPrefix(text, []byte("<?xml ")) {
			text = text[i+2:]
		}
		s := NewScanner(Limits{})
		s.Reset(io.MultiReader(strings.NewReader("<catalogue>"), bytes.NewReader(text), strings.NewReader("</catalogue>")))
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if k != Start || !s.Name().Is("", "TEST") {
				continue
			}
			a := map[string]string{}
			attrs := s.Attrs()
			for i := range attrs {
				a[string(attrs[i].Name.Local)] = attrs[i].Value()
			}
			fifth := a["EDITION"] == "" || strings.Contains(a["EDITION"], "5")
			if !fifth || a["VERSION"] == "1.1" || a["RECOMMENDATION"] == "XML1.1" || strings.HasPrefix(a["RECOMMENDATION"], "NS1.1") {
				continue
			}
			tests = append(tests, suiteTest{a["ID"], a["TYPE"], path.Join(path.Dir(file), a["URI"])})
		}
	}
	return tests
}

func suiteFile(t *testing.T, z *zip.Reader, name string) []byte {
	t.Helper()
	f, err := z.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var notMarkup = regexp.MustCompile(`(?s)<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>`)

// hasDoctype does not ask the scanner, but the octets, 8 or 16 bits wide.
func hasDoctype(doc []byte) bool {
	octets := bytes.ReplaceAll(doc, []byte{0}, nil)
	return bytes.Contains(notMarkup.ReplaceAll(octets, nil), []byte("<!DOCTYPE"))
}

// scanAny scans a document in any charset.
func scanAny(doc []byte) error {
	utf8, _, err := DecodeBytes(doc, "")
	if err != nil {
		return err
	}
	return result(string(utf8), Limits{})
}

func scanReader(doc []byte) error {
	r, err := NewReader(iotest.OneByteReader(bytes.NewReader(doc)), "")
	if err != nil {
		return err
	}
	s := NewScanner(Limits{})
	s.Reset(r)
	return drain(s)
}
