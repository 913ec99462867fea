package soapcodec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"soapway/xmlstream"
)

func TestMarshal(t *testing.T) {
	type item struct {
		XMLName QName `xml:"item"`
		V       int   `xml:"v,attr"`
	}
	type page struct {
		XMLName QName  `xml:"urn:p page"`
		Items   []item // named by their type
	}
	type named struct {
		Plain string
		None  string `xml:"none" soap:"unqualified"`
		Other string `xml:"urn:o other"`
	}
	type inner struct {
		XMLName QName  `xml:"urn:i inner"`
		X       string `xml:",innerxml"`
	}
	type cdata struct {
		C string `xml:",cdata"`
	}
	type omits struct {
		A string            `xml:"a,omitempty"`
		B *int              `xml:"b"`
		C []int             `xml:"p>c,omitempty"`
		D any               `xml:"d"`
		E bool              `xml:"e,attr,omitempty"`
		F *int              `xml:"f,attr"`
		G []byte            `xml:"g,omitempty"`
		H *string           `xml:"h" soap:"nillable"`
		I map[string]string `xml:"-"`
	}
	type faces struct {
		A any      `xml:"a"`
		B []any    `xml:"b"`
		C any      `xml:"c,attr"`
		D *[]int   `xml:"d"`
		E []*int   `xml:"e" soap:"nillable"`
		F *float64 `xml:"f"`
	}
	type anyAttrs struct {
		XMLName QName      `xml:"x"`
		One     BindAttr   `xml:",any,attr"`
		Text    *time.Time `xml:",chardata"`
	}
	type anyList struct {
		XMLName QName
		Attrs   []xml.Attr `xml:",any,attr"`
	}
	type lang struct {
		Lang string `xml:"http://www.w3.org/XML/1998/namespace lang,attr"`
		Text string `xml:",chardata"`
	}
	zero := QName{}
	for _, tt := range []struct {
		v    any
		want string
	}{
		{page{Items: []item{{zero, 1}, {zero, 2}}}, `<page xmlns="urn:p"><item v="1"/><item v="2"/></page>`},
		{item{QName{"urn:read", "item"}, 1}, `<item xmlns="urn:read" v="1"/>`},
		{item{QName{"urn:read", "other"}, 1}, `<item v="1"/>`},
		{&named{"a", "b", "c"}, `<named><Plain>a</Plain><none>b</none><other xmlns="urn:o">c</other></named>`},
		{inner{X: `a<b xmlns='urn:i' /><c x="]]&gt;">é</c>`}, `<inner xmlns="urn:i">a<b xmlns='urn:i' /><c xmlns="" x="]]&gt;">é</c></inner>`},
		{inner{}, `<inner xmlns="urn:i"/>`},
		{cdata{"<&>]]>"}, `<cdata><![CDATA[<&>]]]]><![CDATA[>]]></cdata>`},
		{cdata{}, `<cdata/>`},
		{omits{}, `<omits><h xmlns:xsi="` + nsXSI + `" xsi:nil="true"/></omits>`},
		{omits{C: []int{1}, D: 1.5, E: true, G: []byte("<")}, `<omits e="true"><p><c>1</c></p><d>1.5</d><g>&lt;</g><h xmlns:xsi="` + nsXSI + `" xsi:nil="true"/></omits>`},
		{
			faces{1, []any{"x", 2, nil, item{V: 3}}, "c", &[]int{1, 2}, []*int{nil, new(int)}, new(math.NaN())},
			`<faces c="c"><a>1</a><b>x</b><b>2</b><item v="3"/><d>1</d><d>2</d><e xmlns:xsi="` + nsXSI + `" xsi:nil="true"/><e>0</e><f>NaN</f></faces>`,
		},
		{anyAttrs{One: BindAttr{QName{nsXSI, "type"}, "a:b"}}, `<x xmlns:xsi="` + nsXSI + `" xsi:type="a:b"/>`},
		{
			anyList{QName{"urn:l", "l"}, []xml.Attr{{Name: xml.Name{Local: "a"}, Value: "1"}, {Name: xml.Name{Space: "urn:q", Local: "a"}, Value: "2"}}},
			`<l xmlns="urn:l" a="1" xmlns:ns1="urn:q" ns1:a="2"/>`,
		},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `<Time>2026-01-02T03:04:05Z</Time>`},
		{lang{"de", "\r\n\t "}, "<lang xml:lang=\"de\">&#13;\n\t </lang>"},
		{nil, ``},
	} {
		envelope, err := Marshal(V12, tt.v)
		if err != nil {
			t.Errorf("Marshal(%+v): %v", tt.v, err)
			continue
		}
		got := ""
		if tt.v != nil {
			got = bodyOf(t, envelope)
		}
		if got != tt.want {
			t.Errorf("Marshal(%+v): got\n%s\nwant\n%s", tt.v, got, tt.want)
		}
		if facts, err := Decode(envelope, Options{}); err != nil || facts.Version != V12 || facts.HasHeader {
			t.Errorf("Decode(%s): %v", envelope, err)
		}
	}
}

func TestMarshalErrors(t *testing.T) {
	type f[T any] struct {
		F T `xml:"f"`
	}
	type comment struct {
		C string `xml:",comment"`
	}
	type inner struct {
		X string `xml:",innerxml"`
	}
	type twice struct {
		A string     `xml:"a,attr"`
		B []BindAttr `xml:",any,attr"`
	}
	for _, tt := range []struct {
		v      any
		field  string
		reason error
	}{
		{f[string]{"\x00"}, "F", xmlstream.ErrCharacter},
		{f[string]{"\xFF"}, "F", xmlstream.ErrCharset},
		{comment{"--"}, "comment.C", xmlstream.ErrMalformed},
		{twice{"", []BindAttr{{QName{"", "a"}, ""}}}, "", xmlstream.ErrDuplicate},
		{twice{"", []BindAttr{{QName{"", "1"}, ""}}}, "twice.B", xmlstream.ErrMalformed},
		{inner{"<a>"}, "inner.X", errFragment},
		{inner{"</w><w>"}, "inner.X", errFragment},
		{inner{"<p:a/>"}, "inner.X", xmlstream.ErrNamespace},
		{inner{"<!DOCTYPE a>"}, "inner.X", xmlstream.ErrDoctype},
		{f[map[string]int]{}, "F", errTagUnsupported},
		{map[string]int{}, "", errTagUnsupported},
		{[]int{1}, "", errNotOne},
		{(*int)(nil), "", errNotOne},
		{struct{ A int }{}, "", errNoName},
	} {
		got, err := Marshal(V11, tt.v)
		be, ok := errors.AsType[*BindError](err)
		if !ok || !strings.HasSuffix(be.Field, tt.field) || !errors.Is(err, tt.reason) || got != nil {
			t.Errorf("Marshal(%#v): got %s, %v, want %s: %v", tt.v, got, err, tt.field, tt.reason)
		}
	}
	if _, err := Marshal(V0, 1); !errors.Is(err, errNoVersion) {
		t.Errorf("Marshal without a version: %v", err)
	}
	if _, err := Marshal(V11, 1, 2, nil); err == nil {
		t.Error("Marshal with a nil header block: no error")
	}
}

// bindDiff has what encoding/xml gets right: no innerxml, no xsi:nil, and names
// in one namespace.
type bindDiff struct {
	XMLName xml.Name     `xml:"d"`
	Attr    string       `xml:"a,attr"`
	N       *int         `xml:"n,attr"`
	Text    string       `xml:",chardata"`
	S       string       `xml:"s"`
	I       int32        `xml:"i"`
	B       []byte       `xml:"b"`
	L       []string     `xml:"l"`
	P       []uint8Alike `xml:"p>l"`
	Q       string       `xml:"p>q>s"`
	Sub     *bindDiffSub `xml:"sub"`
	Subs    []bindDiffSub
	Any     []bindLoose `xml:",any"`
	bindEmbedded
}

type uint8Alike string

type bindDiffSub struct {
	X string `xml:"x"`
	C string `xml:",comment"`
	D *bindDiff
}

// FuzzBind decodes elements with both packages, which must agree where both
// accept, and writes and reads again what was decoded, which must be the same
// value, also as encoding/xml reads it.
func FuzzBind(f *testing.F) {
	for _, doc := range []string{
		`<d/>`,
		`<d a="1" n="2">t<s>x</s>u<i> 7 </i><b>o</b><l>1</l><l/></d>`,
		`<d><p><l>1</l><q><s>x</s></q><l>2</l></p><p><l>3</l></p><sub><x>y</x><!--c--><D><S/></D></sub></d>`,
		`<d><Subs><x>1</x></Subs><Subs/><more v="1">z</more><o:x xmlns:o="urn:o"/><inner>i</inner><str>s</str></d>`,
		`<d xmlns="urn:d">&#13;<s>a&#x1F600;<![CDATA[<]]></s></d>`,
		`<d a="&#10;&quot;" x="y"><sub><D a="q"><sub/></D></sub></d>`,
	} {
		f.Add(doc)
	}
	f.Fuzz(checkBind)
}

// TestBindRandom is FuzzBind for documents that are mostly what the types ask
// for.
func TestBindRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	names := []string{"s", "i", "b", "l", "p", "q", "sub", "Subs", "D", "x", "inner", "str", "more"}
	texts := []string{"", "1", "23", "x", "&lt;", "é", "<![CDATA[<]]>", "<!--c-->"}
	var element func(out *strings.Builder, name string, depth int)
	element = func(out *strings.Builder, name string, depth int) {
		out.WriteString("<" + name)
		for _, a := range []string{"a", "n", "v"} {
			if rnd.IntN(4) == 0 {
				out.WriteString(" " + a + `="1"`)
			}
		}
		out.WriteString(">")
		if name == "i" {
			out.WriteString("7")
		} else if depth < 6 {
			for range rnd.IntN(6) {
				out.WriteString(texts[rnd.IntN(len(texts))])
				element(out, names[rnd.IntN(len(names))], depth+1)
			}
		}
		out.WriteString(texts[rnd.IntN(2)] + "</" + name + ">")
	}
	for range 400 {
		var out strings.Builder
		element(&out, "d", 0)
		checkBind(t, out.String())
	}
}

func checkBind(t *testing.T, doc string) {
	envelope := inEnvelope(V11, doc)
	var ours bindDiff
	if err := Unmarshal(envelope, &ours); err != nil {
		return
	}
	if comparable := !strings.ContainsAny(doc, "\r\t\n") && !strings.Contains(doc, "nil") && !strings.Contains(doc, "<d xmlns") && !strings.Contains(doc, ":"); comparable {
		var theirs bindDiff
		d := xml.NewDecoder(strings.NewReader(doc))
		if err := d.Decode(&theirs); err == nil && !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%q: got\n%+v\nencoding/xml has\n%+v", doc, ours, theirs)
		}
	}
	written, err := Marshal(V12, &ours)
	if err != nil {
		t.Fatalf("Marshal(%+v): %v", ours, err)
	}
	var again bindDiff
	if err := Unmarshal(written, &again); err != nil {
		t.Fatalf("%s: %v", written, err)
	}
	again, ours = *settled(&again), *settled(&ours)
	if !reflect.DeepEqual(again, ours) {
		t.Fatalf("%q was written as %s: got\n%+v\nwant\n%+v", doc, written, again, ours)
	}
	if bytes.Contains(written, []byte("<xmlns ")) {
		return // encoding/xml knows no default namespace for an element of that name
	}
	var theirs bindDiff
	if err := xml.Unmarshal([]byte(bodyOf(t, written)), &theirs); err != nil {
		if strings.Contains(err.Error(), "invalid XML name") {
			return // it knows the names of the Fourth Edition
		}
		t.Fatalf("encoding/xml refuses %s: %v", written, err)
	}
	if settled(&theirs); !reflect.DeepEqual(theirs, ours) {
		t.Fatalf("%s: encoding/xml has\n%+v\nwant\n%+v", written, theirs, ours)
	}
}

// settled makes no octets and empty ones the same, which XML does not tell
// apart.
func settled(d *bindDiff) *bindDiff {
	if d == nil {
		return nil
	}
	if len(d.B) == 0 {
		d.B = nil
	}
	if d.Sub != nil {
		settled(d.Sub.D)
	}
	for i := range d.Subs {
		settled(d.Subs[i].D)
	}
	return d
}

func BenchmarkBind(b *testing.B) {
	doc := `<d a="1" n="2"><s>x</s><i>7</i>` + strings.Repeat(`<Subs><x>some text</x></Subs><l>1</l>`, 30) + `</d>`
	envelope := inEnvelope(V11, doc)
	b.Run("Unmarshal", func(b *testing.B) {
		b.SetBytes(int64(len(envelope)))
		for b.Loop() {
			var v bindDiff
			if err := Unmarshal(envelope, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Unmarshal by encoding-xml", func(b *testing.B) {
		b.SetBytes(int64(len(envelope)))
		for b.Loop() {
			var v struct {
				D bindDiff `xml:"Body>d"`
			}
			if err := xml.Unmarshal(envelope, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	var v bindDiff
	if err := Unmarshal(envelope, &v); err != nil {
		b.Fatal(err)
	}
	b.Run("Marshal", func(b *testing.B) {
		b.SetBytes(int64(len(envelope)))
		for b.Loop() {
			if _, err := Marshal(V11, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Marshal by encoding-xml", func(b *testing.B) {
		b.SetBytes(int64(len(envelope)))
		for b.Loop() {
			if _, err := xml.Marshal(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
