package wsdl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The references of a document and nothing else change, in place.
func TestRewrite(t *testing.T) {
	doc := read(t, "depot.wsdl")
	var seen []string
	got, err := Rewrite([]byte("before"), doc, func(r Ref) (string, bool) {
		seen = append(seen, fmt.Sprintf("%v %s", r.Use, r.Value))
		rest, ok := strings.CutPrefix(r.Value, "http://backend.test:9000/")
		return "https://gw.test/" + rest + "'<", ok
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"import http://backend.test:9000/depot?wsdl=types", "import near.wsdl",
		"schema http://backend.test:9000/depot?xsd=1&v=2", "schema ../types/common.xsd", "schema http://elsewhere.test/common.xsd",
		"address http://backend.test:9000/depot", "address http://backend.test:9000/depot12", "address http://backend.test:9000/depot12",
		"address http://backend.test:9000/get", "address mailto:dock@depot.test", "policy http://backend.test:9000/policy", "policy #local",
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("references (-want +got):\n%s", d)
	}
	wantDoc := string(doc)
	for _, r := range [][2]string{
		{`location="http://backend.test:9000/depot?wsdl=types"`, `location="https://gw.test/depot?wsdl=types'&lt;"`},
		{`'http://backend.test:9000/depot?xsd=1&amp;v=2'`, `'https://gw.test/depot?xsd=1&amp;v=2&#39;&lt;'`},
		{`<soap:address location="http://backend.test:9000/depot"`, `<soap:address location="https://gw.test/depot'&lt;"`},
		{"&#x68;ttp://backend.test:9000/depot12\n    ", `https://gw.test/depot12'&lt;`},
		{"http://backend.test:9000/<![CDATA[depot12]]>", `https://gw.test/depot12'&lt;`},
		{`location="http://backend.test:9000/get"`, `location="https://gw.test/get'&lt;"`},
		{`URI="http://backend.test:9000/policy"`, `URI="https://gw.test/policy'&lt;"`},
	} {
		if strings.Count(wantDoc, r[0]) != 1 {
			t.Fatalf("%q is in the document %d times", r[0], strings.Count(wantDoc, r[0]))
		}
		wantDoc = strings.Replace(wantDoc, r[0], r[1], 1)
	}
	if d := cmp.Diff("before"+wantDoc, string(got)); d != "" {
		t.Errorf("document (-want +got):\n%s", d)
	}
}

func TestRewriteRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"not XML":   "<html><br></html>",
		"cut":       `<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"><import location="a"/>`,
		"a DOCTYPE": `<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><d>&e;</d>`,
		"empty":     "",
	} {
		t.Run(name, func(t *testing.T) {
			var syntax *xmlstream.SyntaxError
			if _, err := Rewrite(nil, []byte(doc), func(Ref) (string, bool) { return "", false }); !errors.As(err, &syntax) {
				t.Errorf("Rewrite: got error %v, want a syntax error", err)
			}
			if _, err := Parse([]byte(doc)); !errors.As(err, &syntax) {
				t.Errorf("Parse: got error %v, want a syntax error", err)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	in := func(space, local string) soapcodec.QName { return soapcodec.QName{Space: space, Local: local} }
	const depot = "http://backend.test:9000/depot"
	tests := []struct {
		file string
		kind Kind
		want Catalog
	}{
		{"depot.wsdl", WSDL11, Catalog{
			Services: []Service{{Name: in(depot, "DepotService"), Ports: []Port{
				{Name: "P11", Version: soapcodec.V11, Address: depot, Operations: []Operation{
					{Name: "Store", Space: depot, InputAction: depot + "/Depot/StoreRequest", Action: "urn:store", Input: in(depot, "Store")},
					{Name: "Ping", Space: depot, InputAction: depot + "/Depot/Ping", OneWay: true},
					{Name: "Count", Space: depot, InputAction: depot + "/Depot/CountRequest", Input: in("urn:count", "Count")},
					{Name: "Notify", Space: depot, AnyInput: true},
					{Name: "Lost", Space: depot, InputAction: depot + "/Depot/Lost", OneWay: true, AnyInput: true},
				}},
				{Name: "P12", Version: soapcodec.V12, Address: "http://backend.test:9000/depot12", Operations: []Operation{
					{Name: "Store", Space: depot, InputAction: depot + "/Depot/StoreRequest", Action: "urn:store12", Input: in(depot, "Ticket")},
				}},
				{Name: "Get", Address: "http://backend.test:9000/get", Operations: []Operation{
					{Name: "Store", Space: depot, InputAction: depot + "/Depot/StoreRequest", Input: in(depot, "Ticket")},
					{Name: "Ping", Space: depot, InputAction: depot + "/Depot/Ping", OneWay: true},
					{Name: "Count", Space: depot, InputAction: depot + "/Depot/CountRequest", AnyInput: true},
					{Name: "Notify", Space: depot, AnyInput: true},
					{Name: "Lost", Space: depot, InputAction: depot + "/Depot/Lost", OneWay: true, AnyInput: true},
				}},
				{Name: "Mail", Address: "mailto:dock@depot.test"},
			}}},
			Unresolved: []string{"message {" + depot + "}Nowhere", "operation {" + depot + "}Gone", "binding {" + depot + "}Missing"},
		}},
		{"two.wsdl", WSDL20, Catalog{Services: []Service{{Name: in("urn:two", "S"), Ports: []Port{
			{Name: "one", Version: soapcodec.V11, Address: "http://backend.test:9000/two", Operations: []Operation{
				{Name: "Ask", Space: "urn:two", Action: "urn:ask", Input: in("urn:elements", "Ask")},
				{Name: "Stop", Space: "urn:two", OneWay: true, Input: in("urn:elements", "Stop")},
			}},
			{Name: "all", Version: soapcodec.V12, Address: "http://backend.test:9000/two12", Operations: []Operation{
				{Name: "Ask", Space: "urn:two", Input: in("urn:elements", "Ask")},
				{Name: "Anything", Space: "urn:two", AnyInput: true},
				{Name: "Nothing", Space: "urn:two", OneWay: true},
				{Name: "Stop", Space: "urn:two", OneWay: true, Input: in("urn:elements", "Stop")},
			}},
		}}}}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			doc := read(t, tt.file)
			d, err := Parse(doc)
			if err != nil {
				t.Fatal(err)
			}
			kind, err := KindOf(doc)
			if d.Kind != tt.kind || kind != tt.kind || err != nil {
				t.Errorf("got kinds %v and %v (%v), want %v", d.Kind, kind, err, tt.kind)
			}
			if diff := cmp.Diff(&tt.want, Merge(d, d)); diff != "" { // the same document twice changes nothing
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Interfaces that extend each other end the search.
func TestMergeCycle(t *testing.T) {
	d, err := Parse([]byte(`<description xmlns="http://www.w3.org/ns/wsdl" targetNamespace="urn:c" xmlns:t="urn:c">
		<interface name="A" extends="t:B"/><interface name="B" extends="t:A t:B"/>
		<binding name="X" interface="t:A" type="http://www.w3.org/ns/wsdl/soap"><operation ref="t:No"/></binding>
		<binding name="Y" interface="t:A" type="http://www.w3.org/ns/wsdl/soap"/>
		<service name="S"><endpoint name="x" binding="t:X"/><endpoint name="y" binding="t:Y"/></service></description>`))
	if err != nil {
		t.Fatal(err)
	}
	c := Merge(d)
	if len(c.Operations()) != 0 || len(c.Unresolved) != 1 {
		t.Errorf("got %d operations and %q unresolved", len(c.Operations()), c.Unresolved)
	}
}

// corpus are the descriptions that are published beside the checkout.
func corpus(t testing.TB) map[string][]byte {
	t.Helper()
	root := filepath.Join("..", "..", "..", "shared", "corpus", "wsdl")
	if dir := os.Getenv("CORPUS"); dir != "" {
		root = filepath.Join(dir, "wsdl")
	}
	if _, err := os.Stat(root); err != nil {
		t.Skip("no corpus of WSDLs beside the checkout; testdata has the constructs")
	}
	docs := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		docs[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestCorpus(t *testing.T) {
	ops := 0
	for path, doc := range corpus(t) {
		name := filepath.Base(path)
		doc, _, err := xmlstream.DecodeBytes(doc, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d, err := Parse(doc)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d.Kind == Other {
			t.Errorf("%s: not recognised", name)
		}
		ops += len(Merge(d).Operations())
		same, err := Rewrite(nil, doc, func(Ref) (string, bool) { return "", false })
		if err != nil || !bytes.Equal(same, doc) {
			t.Errorf("%s: a rewriting of nothing changed the document, or failed: %v", name, err)
		}
		const mark = "urn:changed"
		changed, err := Rewrite(nil, doc, func(r Ref) (string, bool) { return mark, strings.Contains(r.Value, "://") })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := tokens(t, doc, changed, mark); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if ops < 1000 {
		t.Errorf("the corpus describes %d operations, want some thousand", ops)
	}
}

// tokens compares two documents token by token; only tags with the mark may differ.
func tokens(t *testing.T, a, b []byte, mark string) string {
	t.Helper()
	sa, sb := xmlstream.NewScanner(xmlstream.Limits{}), xmlstream.NewScanner(xmlstream.Limits{})
	sa.ResetBytes(a)
	sb.ResetBytes(b)
	for {
		ka, ea := sa.Next()
		kb, eb := sb.Next()
		if ka != kb || (ea == nil) != (eb == nil) {
			return fmt.Sprintf("at %d: %v %v, then %v %v", sa.Offset(), ka, ea, kb, eb)
		}
		if ea != nil {
			return ""
		}
		if !bytes.Equal(sa.Raw(), sb.Raw()) && !bytes.Contains(sb.Raw(), []byte(mark)) {
			return fmt.Sprintf("at %d: %.80q became %.80q", sa.Offset(), sa.Raw(), sb.Raw())
		}
	}
}

// What is rewritten stays well-formed, and what f leaves alone is not touched.
func FuzzRewrite(f *testing.F) {
	for _, name := range []string{"depot.wsdl", "two.wsdl"} {
		f.Add(read(f, name), "https://gw.test/a'b\"<&>")
	}
	f.Add([]byte(`<a:EndpointReference xmlns:a="http://www.w3.org/2005/08/addressing"><a:Address> x<b/></a:Address></a:EndpointReference>`), "y")
	f.Fuzz(func(t *testing.T, doc []byte, with string) {
		var before []Ref
		if err := References(doc, func(r Ref) { before = append(before, r) }); err != nil {
			if _, err := Rewrite(nil, doc, func(Ref) (string, bool) { return with, true }); err == nil {
				t.Fatal("References refuses what Rewrite takes")
			}
			return
		}
		same, err := Rewrite(nil, doc, func(Ref) (string, bool) { return with, false })
		if err != nil || !bytes.Equal(same, doc) {
			t.Fatalf("changed without being asked to: %v", err)
		}
		clean := visible(with)
		out, err := Rewrite(nil, doc, func(Ref) (string, bool) { return clean, true })
		if err != nil {
			t.Fatal(err)
		}
		var after []Ref
		if err := References(out, func(r Ref) { after = append(after, r) }); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		if len(after) > len(before) {
			t.Fatalf("%d references became %d", len(before), len(after))
		}
		for _, r := range after {
			if r.Value != clean {
				t.Fatalf("got %q, want %q", r.Value, clean)
			}
		}
	})
}

// visible makes of anything a value that a URI could be: visible ASCII.
func visible(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return 'x'
		}
		return r
	}, s)
	if s == "" {
		return "x"
	}
	return s
}

// BenchmarkRewrite shows what a rewriting costs beside a plain copy of the
// document, for the largest of the corpus where there is one.
func BenchmarkRewrite(b *testing.B) {
	doc := read(b, "depot.wsdl")
	root := filepath.Join("..", "..", "..", "shared", "corpus", "wsdl", "vboxweb.wsdl")
	if large, err := os.ReadFile(root); err == nil {
		doc = large
	}
	out := make([]byte, 0, len(doc)+len(doc)/8)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		var err error
		if out, err = Rewrite(out[:0], doc, func(r Ref) (string, bool) { return "http://gw.test/x", r.Use == Address }); err != nil {
			b.Fatal(err)
		}
	}
}
