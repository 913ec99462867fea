package xmlstream

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"soapway/internal/golden"
)

func sorted(list []string) string {
	slices.Sort(list)
	return fmt.Sprint(list)
}

// absolute is what xmllint takes for an absolute namespace.
var absolute = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-~]*$`)

// xmllintDeviates says why xmllint makes no form of doc, or another one; ""
// if it must agree.
func xmllintDeviates(doc []byte) string {
	s := NewScanner(Limits{})
	s.ResetBytes(doc)
	for {
		k, err := s.Next()
		if err != nil {
			return ""
		}
		if k != Start {
			continue
		}
		attrs := s.Attrs()
		for i := range attrs {
			a := &attrs[i]
			if uri := a.Value(); a.IsNamespace() && uri != "" && !absolute.MatchString(uri) {
				return "Canonical XML 1.0 §1.3 wants relative namespaces refused; a gateway passes on what it is given"
			}
		}
	}
}

// TestCanonicalXmllint compares the forms with comments of our own cases and of
// every well-formed document of the corpus with those that libxml2 makes.
func TestCanonicalXmllint(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint (Debian: libxml2-utils) is not there")
	}
	docs := map[string][]byte{}
	if !testing.Short() { // two processes for each of 1,400 documents
		docs = corpusDocuments(t)
	}
	for _, pattern := range []string{"testdata/*.txtar", "testdata/canonical/*.txtar"} {
		for _, c := range golden.Glob(t, pattern) {
			if doc := c.File("in.xml"); result(string(doc), Limits{}) == nil {
				docs["testdata/"+c.Name+".txtar"] = doc
			}
		}
	}
	for i, tt := range cases {
		// A charset that nobody knows is none of the scanner's business.
		if _, _, err := DecodeBytes([]byte(tt.doc), ""); err == nil && result(tt.doc, Limits{}) == nil {
			docs[fmt.Sprintf("cases/%d", i)] = []byte(tt.doc)
		}
	}
	file := filepath.Join(t.TempDir(), "doc.xml")
	agree, deviations := 0, map[string]int{}
	for name, doc := range docs {
		if err := os.WriteFile(file, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		for flag, opt := range map[string]CanonicalOptions{
			"--c14n":     {Comments: true},
			"--exc-c14n": {Exclusive: true, Comments: true},
		} {
			got, err := canonical(doc, opt)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var diagnosis bytes.Buffer
			cmd := exec.Command(xmllint, "--nonet", "--huge", flag, file)
			cmd.Stderr = &diagnosis
			want, err := cmd.Output()
			deviates := xmllintDeviates(doc) != ""
			switch differs := err != nil || got != string(want); {
			case differs && !deviates:
				t.Errorf("%s %s: got\n%s\nxmllint has\n%s\n%v %s", flag, name, got, want, err, diagnosis.Bytes())
			case !differs && deviates:
				t.Errorf("%s %s: xmllint agrees, which it should not: %s", flag, name, xmllintDeviates(doc))
			case !differs:
				agree++
			default:
				deviations[xmllintDeviates(doc)]++
			}
		}
	}
	t.Logf("%d documents, %d forms agree with xmllint", len(docs), agree)
	for why, n := range deviations {
		t.Logf("%d forms deviate: %s", n, why)
	}
}

// corpusDocuments returns every well-formed document of the corpus, in UTF-8:
// those without a DOCTYPE.
func corpusDocuments(t *testing.T) map[string][]byte {
	t.Helper()
	corpus := os.Getenv("CORPUS")
	if corpus == "" {
		corpus = filepath.Join("..", "..", "shared", "corpus")
	}
	docs := map[string][]byte{}
	read := func(tree fs.FS, archive string) error {
		return fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".zip") {
				return err
			}
			b, err := fs.ReadFile(tree, path)
			if err != nil {
				return err
			}
			if utf8, _, err := DecodeBytes(b, ""); err == nil && result(string(utf8), Limits{}) == nil {
				docs[archive+path] = utf8
			}
			return nil
		})
	}
	if err := read(os.DirFS(corpus), ""); err != nil {
		t.Logf("the corpus is not there (CORPUS names its folder), our own cases only: %v", err)
		return docs
	}
	suite, err := zip.OpenReader(filepath.Join(corpus, "xmlts20130923.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	if err := read(suite, "suite/"); err != nil {
		t.Fatal(err)
	}
	return docs
}

// TestCanonicalXmlsec compares the forms of elements inside a document, which
// xmllint can't make, with those that xmlsec1 digests.
func TestCanonicalXmlsec(t *testing.T) {
	xmlsec, err := exec.LookPath("xmlsec1")
	if err != nil {
		t.Skip("xmlsec1 (Debian: xmlsec1) is not there")
	}
	var docs [][]byte
	for _, c := range golden.Glob(t, "testdata/canonical/*.txtar") {
		if c.Has("apex") {
			docs = append(docs, c.File("in.xml"))
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	random := 40
	if testing.Short() {
		random = 5
	}
	for range random {
		docs = append(docs, randomNamespaces(rnd))
	}
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "doc.xml")
	if err := os.WriteFile(key, []byte("sixteen octets.."), 0o600); err != nil {
		t.Fatal(err)
	}
	agree := 0
	for _, doc := range docs {
		var ids []string
		for _, m := range regexp.MustCompile(`xml:id="([^"]+)"`).FindAllSubmatch(doc, -1) {
			ids = append(ids, string(m[1]))
		}
		signed, opts := withReferences(doc, ids)
		if err := os.WriteFile(file, signed, 0o600); err != nil {
			t.Fatal(err)
		}
		var diagnosis bytes.Buffer
		cmd := exec.Command(xmlsec, "--sign", "--hmackey", key, "--store-references", file)
		cmd.Stderr = &diagnosis
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("xmlsec1: %v %s\n%s", err, diagnosis.Bytes(), signed)
		}
		digested := regexp.MustCompile(`(?s)== PreDigest data - start buffer:\n(.*?)\n== PreDigest data - end buffer`).FindAllSubmatch(out, -1)
		if len(digested) != len(opts) {
			t.Fatalf("xmlsec1: %d references, want %d\n%s%s", len(digested), len(opts), out, diagnosis.Bytes())
		}
		for i, m := range digested {
			s := NewScanner(Limits{})
			s.ResetBytes(signed)
			got, err := canonicalApex(s, ids[i/(len(opts)/len(ids))], opts[i])
			if err != nil || got != string(m[1]) {
				t.Errorf("%+v of\n%s: got\n%s %v\nxmlsec1 has\n%s", opts[i], doc, got, err, m[1])
				continue
			}
			agree++
		}
	}
	t.Logf("%d documents, %d forms agree with xmlsec1", len(docs), agree)
}

// withReferences puts a signature template at the end of the root element of
// doc, with a reference for each of ids and forms, and returns them in order.
func withReferences(doc []byte, ids []string) ([]byte, []CanonicalOptions) {
	const dsig = "http://www.w3.org/2000/09/xmldsig#"
	var opts []CanonicalOptions
	var t strings.Builder
	t.WriteString(`<Signature xmlns="` + dsig + `"><SignedInfo><CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/><SignatureMethod Algorithm="` + dsig + `hmac-sha1"/>`)
	for _, id := range ids {
		for _, form := range canonicalForms {
			for _, prefixes := range [][]string{nil, {"p", "q"}, {"#default", "r"}} {
				opt := form.opt
				algorithm := "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
				list := ""
				if opt.Exclusive {
					algorithm = "http://www.w3.org/2001/10/xml-exc-c14n"
					opt.Inclusive = prefixes
					if prefixes != nil {
						list = `<InclusiveNamespaces xmlns="http://www.w3.org/2001/10/xml-exc-c14n#" PrefixList="` + strings.Join(prefixes, " ") + `"/>`
					}
				} else if prefixes != nil {
					continue
				}
				opts = append(opts, opt)
				// A bare name leaves comments out, an xpointer keeps them.
				uri := "#" + id
				if opt.Comments {
					uri = "#xpointer(id('" + id + "'))"
				}
				switch {
				case opt.Comments:
					algorithm += "#WithComments"
				case opt.Exclusive:
					algorithm += "#"
				}
				t.WriteString(`<Reference URI="` + uri + `"><Transforms><Transform Algorithm="` + algorithm + `">` + list + `</Transform></Transforms><DigestMethod Algorithm="` + dsig + `sha1"/><DigestValue/></Reference>`)
			}
		}
	}
	t.WriteString(`</SignedInfo><SignatureValue/></Signature>`)
	i := bytes.LastIndex(doc, []byte("</"))
	return slices.Concat(doc[:i], []byte(t.String()), doc[i:]), opts
}

// randomNamespaces makes a document whose elements declare, redeclare and use
// a few prefixes, and have xml attributes.
func randomNamespaces(rnd *rand.Rand) []byte {
	prefixes := []string{"", "p", "q", "r"}
	spaces := []string{"urn:1", "urn:2", "urn:3"}
	ids := 0
	var out bytes.Buffer
	var element func(depth int, bound map[string]string)
	element = func(depth int, outer map[string]string) {
		bound := map[string]string{}
		maps.Copy(bound, outer)
		var attrs []string
		for _, p := range prefixes {
			switch {
			case rnd.IntN(3) > 0 && depth > 0:
			case p == "":
				bound[""] = append(spaces, "")[rnd.IntN(4)]
				attrs = append(attrs, fmt.Sprintf(`xmlns="%s"`, bound[""]))
			default:
				bound[p] = spaces[rnd.IntN(3)]
				attrs = append(attrs, fmt.Sprintf(`xmlns:%s="%s"`, p, bound[p]))
			}
		}
		used := map[string]bool{}
		for _, p := range prefixes {
			if rnd.IntN(4) > 0 || p != "" && used[bound[p]] {
				continue
			}
			if p == "" {
				attrs = append(attrs, `z="1"`)
				continue
			}
			used[bound[p]] = true
			attrs = append(attrs, p+`:z="2"`)
		}
		for _, a := range []string{`xml:lang="en"`, `xml:lang="de"`, `xml:space="preserve"`, `xml:own="x"`} {
			name, _, _ := strings.Cut(a, "=")
			if rnd.IntN(6) == 0 && !slices.ContainsFunc(attrs, func(b string) bool { return strings.HasPrefix(b, name+"=") }) {
				attrs = append(attrs, a)
			}
		}
		if depth > 0 && rnd.IntN(3) == 0 {
			ids++
			attrs = append(attrs, fmt.Sprintf(`xml:id="i%d"`, ids))
		}
		rnd.Shuffle(len(attrs), func(i, k int) { attrs[i], attrs[k] = attrs[k], attrs[i] })
		name := "e"
		if p := prefixes[rnd.IntN(len(prefixes))]; p != "" {
			name = p + ":e"
		}
		fmt.Fprintf(&out, "<%s", name)
		for _, a := range attrs {
			out.WriteString(" " + a)
		}
		out.WriteString(">")
		for range rnd.IntN(4) {
			switch {
			case depth < 5:
				element(depth+1, bound)
			default:
				out.WriteString("t&amp;<!--c-->")
			}
		}
		fmt.Fprintf(&out, "</%s>", name)
	}
	for ids == 0 {
		out.Reset()
		element(0, map[string]string{})
	}
	return out.Bytes()
}
