package soapcodec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"soapway/xmlstream"
)

// inEnvelope puts an element into the Body of an envelope.
func inEnvelope(v Version, element string) []byte {
	return []byte(`<s:Envelope xmlns:s="` + v.Namespace() + `"><s:Header/><s:Body>` + element + `</s:Body></s:Envelope>`)
}

// bodyOf cuts the content of Body out of what Marshal has returned.
func bodyOf(t testing.TB, envelope []byte) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(envelope), "<soap:Body>")
	body, _, closed := strings.Cut(rest, "</soap:Body>")
	if !ok || !closed {
		t.Fatalf("no Body in %s", envelope)
	}
	return body
}

// Types with every tag there is. XMLName is of the type that encoding/xml wants,
// so that it can read them too.
type bindEvery struct {
	XMLName xml.Name  `xml:"urn:t every"`
	Attr    string    `xml:"a,attr"`
	Attr2   *int      `xml:"urn:a b,attr,omitempty"`
	Text    string    `xml:",chardata"`
	Comment string    `xml:",comment"`
	Str     string    `xml:"str"`
	Other   string    `xml:"urn:o str"`
	Bool    bool      `xml:"bool"`
	I8      int8      `xml:"i8"`
	U16     uint16    `xml:"u16"`
	F       float64   `xml:"f"`
	F32     *float32  `xml:"f32"`
	Octets  []byte    `xml:"octets"`
	Time    time.Time `xml:"time"`
	Big     *big.Int  `xml:"big"`
	Ptr     **string  `xml:"ptr"`
	List    []string  `xml:"list"`
	Ptrs    []*int    `xml:"ptrs"`
	Deep    []int     `xml:"p>q>deep"`
	Deep2   string    `xml:"p>q>deep2"`
	Deep3   string    `xml:"p>deep3"`
	Sub     bindSub   `xml:"sub"`
	Subs    []bindSub `xml:"subs"`
	bindEmbedded
	*BindShallow
	Self   *bindEvery `xml:"urn:t every"`
	Skip   string     `xml:"-"`
	hidden string
	Plain  string
	Any    []bindLoose `xml:",any"`
}

type bindSub struct {
	X    int    `xml:"x"`
	Data string `xml:",cdata"`
}

type bindEmbedded struct {
	Inner string `xml:"inner"`
	Str   string `xml:"str"` // hidden by the outer one
}

type BindShallow struct {
	Shallow string `xml:"shallow"`
}

type bindLoose struct {
	XMLName xml.Name
	V       string `xml:"v,attr"`
	Text    string `xml:",chardata"`
}

func TestUnmarshalEvery(t *testing.T) {
	const doc = `<every xmlns="urn:t" xmlns:p="urn:a" xmlns:o="urn:o" a=" x&#10;y " p:b="-5" unknown="u">
<!--one--><!--two-->text &lt;<![CDATA[<&>]]>
<str>in<skipped>not</skipped>side</str><o:str>other</o:str><o:inner/>
<bool> true </bool><i8>-128</i8><u16>+65535</u16><f>1.5e3</f><f32>INF</f32>
<octets>&#233;</octets><time>2026-11-30T12:00:00.5+01:00</time><big>123456789012345678901234567890</big><ptr>p</ptr>
<list>1</list><list/><list>3</list><ptrs>1</ptrs><ptrs>2</ptrs>
<p><q><deep>1</deep></q><q><deep>2</deep><deep2>d2</deep2></q><deep3>d3</deep3><deep>no</deep></p>
<sub><x>1</x>data</sub><subs><x>2</x></subs><subs/>
<inner>i</inner><shallow>s</shallow><every><str>self</str></every><Skip>no</Skip><hidden>no</hidden><Plain>pl</Plain>
<x:more xmlns:x="urn:x" v="1">m</x:more><more xmlns="">n</more>
</every>`
	var got bindEvery
	if err := Unmarshal(inEnvelope(V12, doc), &got); err != nil {
		t.Fatal(err)
	}
	p := "p"
	pp := &p
	name := xml.Name{Space: "urn:t", Local: "every"}
	want := bindEvery{
		XMLName: name, Attr: " x\ny ", Attr2: new(-5), Comment: "onetwo",
		Str: "inside", Other: "other", Bool: true, I8: -128, U16: 65535, F: 1500, F32: new(float32(math.Inf(1))),
		Octets: []byte("é"), Time: time.Date(2026, 11, 30, 12, 0, 0, 5e8, time.FixedZone("", 3600)),
		Ptr: &pp, List: []string{"1", "", "3"}, Ptrs: []*int{new(1), new(2)},
		Deep: []int{1, 2}, Deep2: "d2", Deep3: "d3",
		Sub: bindSub{1, "data"}, Subs: []bindSub{{X: 2}, {}},
		bindEmbedded: bindEmbedded{Inner: "i"}, BindShallow: &BindShallow{"s"},
		Self: &bindEvery{XMLName: name, Str: "self"}, Plain: "pl",
		Any: []bindLoose{
			{xml.Name{Space: "urn:o", Local: "inner"}, "", ""},
			{xml.Name{Local: "Skip"}, "", "no"},
			{xml.Name{Local: "hidden"}, "", "no"},
			{xml.Name{Space: "urn:x", Local: "more"}, "1", "m"},
			{xml.Name{Local: "more"}, "", "n"},
		},
	}
	want.Any[1].XMLName.Space, want.Any[2].XMLName.Space = "urn:t", "urn:t"
	want.Big, _ = new(big.Int).SetString("123456789012345678901234567890", 10)
	if got.hidden != "" || strings.TrimSpace(got.Text) != "text <<&>" {
		t.Errorf("hidden %q, text %q", got.hidden, got.Text)
	}
	got.Text = ""
	if !got.Time.Equal(want.Time) {
		t.Errorf("time: got %v, want %v", got.Time, want.Time)
	}
	got.Time = want.Time
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Unmarshal: got\n%+v\nwant\n%+v", got, want)
	}

	// What has been read is written with the same names, and reads the same.
	envelope, err := Marshal(V11, &want)
	if err != nil {
		t.Fatal(err)
	}
	want.Self.Octets = []byte{} // no octets are written as an empty element
	var again bindEvery
	if err := Unmarshal(envelope, &again); err != nil {
		t.Fatalf("%v\n%s", err, envelope)
	}
	again.Time = want.Time
	if again.Self != nil {
		again.Self.Time = want.Self.Time
	}
	if !reflect.DeepEqual(again, want) {
		t.Errorf("Unmarshal of %s: got\n%+v\nwant\n%+v", envelope, again, want)
	}
	if facts, err := Decode(envelope, Options{}); err != nil || facts.Version != V11 {
		t.Errorf("Decode: %v", err)
	}
}

func TestUnmarshalValues(t *testing.T) {
	type anyAttrs struct {
		A     string     `xml:"a,attr"`
		Attrs []BindAttr `xml:",any,attr"`
	}
	type stdAttrs struct {
		Attrs []xml.Attr `xml:",any,attr"`
		One   BindAttr   `xml:"-"`
	}
	type exact struct {
		None string `xml:"v" soap:"unqualified"`
		U    string `xml:"urn:u v"`
		Any  string `xml:"w"`
	}
	type face struct {
		V any `xml:"v"`
	}
	held := 0
	for _, tt := range []struct {
		name, doc string
		v, want   any
	}{
		{"string", `<a>x<b/>y</a>`, new(string), "xy"},
		{"int", `<a> 7 </a>`, new(int), 7},
		{"empty int", `<a/>`, new(7), 0},
		{"empty float", `<a/>`, new(7.5), 0.0},
		{"bool 1", `<a>1</a>`, new(bool), true},
		{"bool 0", `<a>0</a>`, new(true), false},
		{"minus infinity", `<a>-INF</a>`, new(float64), math.Inf(-1)},
		{"octets", `<a>x</a>`, new([]byte), []byte("x")},
		{"pointer", `<a>7</a>`, new(*int), new(7)},
		{"dateTime", `<a> 2026-01-02T03:04:05 </a>`, new(time.Time), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{"date", `<a>2026-01-02</a>`, new(time.Time), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
		{"nil", `<a xmlns:i="` + nsXSI + `" i:nil=" true "><b/></a>`, new(new(7)), (*int)(nil)},
		{"nil value", `<a xmlns:i="` + nsXSI + `" i:nil="1"/>`, new(7), 0},
		{"not nil", `<a xmlns:i="` + nsXSI + `" i:nil="false">7</a>`, new(*int), new(7)},
		{"nil in a list", `<a xmlns:i="` + nsXSI + `"><v>1</v><v i:nil="true"/><v>3</v></a>`, new(struct {
			V []*int `xml:"v"`
		}), struct {
			V []*int `xml:"v"`
		}{[]*int{new(1), nil, new(3)}}},
		{"any attributes", `<a xmlns:p="urn:p" a="1" b="2" p:a="3" p:c="4"/>`, new(anyAttrs), anyAttrs{"1", []BindAttr{{QName{"", "b"}, "2"}, {QName{"urn:p", "a"}, "3"}, {QName{"urn:p", "c"}, "4"}}}},
		{"an attribute in a namespace", `<a xmlns:p="urn:p" p:a="3"/>`, new(anyAttrs), anyAttrs{A: "3"}},
		{"xml.Attr", `<a xmlns:p="urn:p" p:c="4"/>`, new(stdAttrs), stdAttrs{Attrs: []xml.Attr{{Name: xml.Name{Space: "urn:p", Local: "c"}, Value: "4"}}}},
		{"exact", `<a xmlns:u="urn:u"><v>1</v><u:v>2</u:v><x:v xmlns:x="x">3</x:v><u:w>4</u:w></a>`, new(exact), exact{"1", "2", "4"}},
		{"interface", `<a><v>7</v></a>`, &face{&held}, face{new(7)}},
		{"inner", `<a xmlns="urn:d" xmlns:p="urn:p">x &lt;<b c='d'  ><p:e/></b><!-- c --><f xmlns=""/></a>`, new(struct {
			X string `xml:",innerxml"`
		}), struct {
			X string `xml:",innerxml"`
		}{`x &lt;<b xmlns:s="` + NS12 + `" xmlns="urn:d" xmlns:p="urn:p" c='d'  ><p:e/></b><!-- c --><f xmlns:s="` + NS12 + `" xmlns:p="urn:p" xmlns=""/>`}},
		{"inner and others", `<a><b>1</b></a>`, new(struct {
			X []byte `xml:",innerxml"`
			B int    `xml:"b"`
		}), struct {
			X []byte `xml:",innerxml"`
			B int    `xml:"b"`
		}{[]byte(`<b xmlns:s="` + NS12 + `">1</b>`), 1}},
		{"no inner", `<a></a>`, new(struct {
			X string `xml:",innerxml"`
		}), struct {
			X string `xml:",innerxml"`
		}{}},
	} {
		if err := Unmarshal(inEnvelope(V12, tt.doc), tt.v); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := reflect.ValueOf(tt.v).Elem().Interface(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %#v, want %#v", tt.name, got, tt.want)
		}
	}
}

type bindMethods struct{}

func (bindMethods) MarshalXML(*xml.Encoder, xml.StartElement) error    { return nil }
func (*bindMethods) UnmarshalXML(*xml.Decoder, xml.StartElement) error { return nil }

func TestUnmarshalErrors(t *testing.T) {
	type field[T any] struct {
		F T `xml:"f"`
	}
	for _, tt := range []struct {
		name, doc, field string
		v                any
		reason           error
	}{
		{"not a pointer", `<a/>`, "int", 7, errNotPointer},
		{"nil", `<a/>`, "*int", (*int)(nil), errNotPointer},
		{"nothing", `<a/>`, "<nil>", nil, errNotPointer},
		{"int", `<a>x</a>`, "int", new(int), errNotNumber},
		{"range", `<a><f>128</f></a>`, "F", new(field[int8]), errRange},
		{"unsigned", `<a><f>-1</f></a>`, "F", new(field[uint]), errNotNumber},
		{"float", `<a><f>0x1p-2</f></a>`, "F", new(field[float32]), errNotNumber},
		{"bool", `<a><f>yes</f></a>`, "F", new(field[bool]), errNotBool},
		{"time", `<a><f>noon</f></a>`, "F", new(field[time.Time]), errNotTime},
		{"in a list", `<a><f>1</f><f>x</f></a>`, "F", new(field[[]int]), errNotNumber},
		{"interface", `<a><f>1</f></a>`, "F", new(field[any]), errNoFace},
		{"list", `<a>1</a>`, "[]int", new([]int), errNotOne},
		{"name", `<a/>`, "bindEvery.XMLName", new(bindEvery), errOtherName},
		{"namespace", `<every/>`, "bindEvery.XMLName", new(bindEvery), errOtherName},
		{"map", `<a><f/></a>`, "F", new(field[map[string]int]), errTagUnsupported},
		{"methods", `<a><f/></a>`, "F", new(field[bindMethods]), errTagXMLMethods},
	} {
		err := Unmarshal(inEnvelope(V11, tt.doc), tt.v)
		be, ok := errors.AsType[*BindError](err)
		if !ok || !strings.HasSuffix(be.Field, tt.field) || !errors.Is(err, tt.reason) {
			t.Errorf("%s: got %v, want %s: %v", tt.name, err, tt.field, tt.reason)
		}
	}

	// The envelope as a whole comes first.
	v := 7
	for _, tt := range []struct {
		doc  string
		code Code
	}{
		{`<s:Envelope xmlns:s="` + NS11 + `"><s:Body><a>8</a></s:Body>`, CodeNotWellFormed},
		{`<a>8</a>`, CodeVersionMismatch},
		{`<s:Envelope xmlns:s="` + NS12 + `"><s:Body><a>8</a></s:Body><s:Body/></s:Envelope>`, CodeInvalidEnvelope},
		{"\xFF\xFE<", CodeNotWellFormed},
	} {
		err := Unmarshal([]byte(tt.doc), &v)
		if e, ok := errors.AsType[*Error](err); !ok || tt.doc[0] == '<' && e.Code != tt.code || v != 7 {
			t.Errorf("Unmarshal(%q): got %v and %d", tt.doc, err, v)
		}
	}
	if err := Unmarshal(inEnvelope(V11, " <!-- -->"), &v); err != ErrEmptyBody || v != 7 {
		t.Errorf("an empty Body: got %v", err)
	}
}

// An error repeats little of the message.
func TestBindErrorText(t *testing.T) {
	err := Unmarshal(inEnvelope(V11, "<a>"+strings.Repeat("\nx", 1<<20)+"</a>"), new(int))
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("got %d octets of error", len(err.Error()))
	}
	if se, ok := errors.AsType[*xmlstream.SyntaxError](err); !ok || se.Path != "/s:Envelope/s:Body/a" {
		t.Errorf("no place in %v", err)
	}
}

// structOf makes a struct type whose fields A, B… have these types and tags, the
// xml tag and the soap tag with a bar between.
func structOf(typesAndTags ...any) reflect.Type {
	var fields []reflect.StructField
	for i := 0; i < len(typesAndTags); i += 2 {
		xml, soap, _ := strings.Cut(typesAndTags[i+1].(string), "|")
		fields = append(fields, reflect.StructField{
			Name: string(rune('A' + i/2)),
			Type: reflect.TypeOf(typesAndTags[i]),
			Tag:  reflect.StructTag(`xml:"` + xml + `" soap:"` + soap + `"`),
		})
	}
	return reflect.StructOf(fields)
}

// Tags that can't be are refused, each with its field.
func TestBindTags(t *testing.T) {
	type badName struct {
		XMLName string `xml:"a"`
	}
	for _, tt := range []struct {
		t      reflect.Type
		field  string
		reason error
	}{
		{structOf(0, "a,attr,chardata"), "A", errTagModes},
		{structOf(0, "a,chardata"), "A", errTagName},
		{structOf(0, ",comment,omitempty"), "A", errTagOmit},
		{structOf(new(int), ",attr|nillable"), "A", errTagOmit},
		{structOf(0, "urn:a "), "A", errTagSpace},
		{structOf(0, "urn:a b|unqualified"), "A", errTagSpace},
		{structOf(0, "a>b>"), "A", errTagPath},
		{structOf(0, "a>>b"), "A", errTagPath},
		{structOf(0, "a>b,attr"), "A", errTagPath},
		{reflect.TypeFor[badName](), "XMLName", errTagXMLName},
		{structOf(0, "b", 0, "b"), "B", errTagTwice},
		{structOf(0, "b", 0, "b>c"), "B", errTagTwice},
		{structOf(0, "b>c", 0, "b"), "B", errTagTwice},
		{structOf(0, "urn:a b", 0, "b"), "B", errTagTwice},
		{structOf("", ",chardata", "", ",chardata"), "B", errTagTwice},
		{structOf(bindEvery{}, "other"), "A", errTagOther},
		{structOf(map[string]string{}, ",any,attr"), "A", errTagAnyAttr},
		{structOf(0, ",innerxml"), "A", errTagInner},
		{structOf(make(chan int), "a"), "A", errTagUnsupported},
		{structOf([]int{}, "a,attr"), "A", errTagUnsupported},
		{structOf(bindMethods{}, "a"), "A", errTagXMLMethods},
		{reflect.TypeFor[struct{ *bindEmbedded }](), "bindEmbedded", errTagEmbedded},
	} {
		p := reflect.New(tt.t)
		err := Unmarshal(inEnvelope(V11, "<a/>"), p.Interface())
		be, ok := errors.AsType[*BindError](err)
		if !ok || !errors.Is(err, tt.reason) || !strings.HasSuffix(be.Field, "."+tt.field) {
			t.Errorf("%v: got %v, want %v", tt.t, err, tt.reason)
		}
		if _, again := Marshal(V11, p.Interface()); !errors.Is(again, tt.reason) {
			t.Errorf("Marshal(%v): got %v, want %v", tt.t, again, tt.reason)
		}
	}
	for _, typ := range []reflect.Type{structOf(0, "a,sometimes"), structOf(0, "a|sometimes")} {
		err := Unmarshal(inEnvelope(V11, "<a/>"), reflect.New(typ).Interface())
		if err == nil || !strings.Contains(err.Error(), `unknown flag "sometimes"`) {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

func TestFaultError(t *testing.T) {
	type reason struct {
		XMLName QName `xml:"urn:x why"`
		Text    string
		Type    string `xml:"type,attr"`
	}
	const detail = `<x:why type="x:t"><x:Text>because</x:Text></x:why><x:more/>`
	for _, tt := range []struct {
		v   Version
		doc string
	}{
		{V11, `<s:Fault xmlns:x="urn:x"><faultcode>x:Lost.It</faultcode><faultstring>lost</faultstring><detail>` + detail + `</detail></s:Fault>`},
		{V12, `<s:Fault xmlns:x="urn:x"><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>x:Lost.It</s:Value></s:Subcode></s:Code><s:Reason><s:Text xml:lang="en">lost</s:Text></s:Reason><s:Detail>` + detail + `</s:Detail></s:Fault>`},
	} {
		var v int
		err := Unmarshal(inEnvelope(tt.v, tt.doc), &v)
		fault, ok := errors.AsType[*FaultError](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		code := fault.Facts.Code
		if tt.v == V12 {
			code = fault.Facts.Subcodes[0]
		}
		if fault.Version != tt.v || code != (QName{"urn:x", "Lost.It"}) || fault.Facts.Reason != "lost" {
			t.Errorf("got %+v", fault)
		}
		var why reason
		if err := fault.Detail(&why); err != nil || why.Text != "because" || why.Type != "x:t" {
			t.Errorf("Detail: %+v, %v", why, err)
		}
		if err := fault.Detail(nil); !errors.Is(err, errNotPointer) {
			t.Errorf("Detail(nil): %v", err)
		}
		if !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("Error: %v", err)
		}
	}
	err := Unmarshal(inEnvelope(V11, `<s:Fault><faultcode>s:Server</faultcode><detail> </detail></s:Fault>`), new(int))
	if fault, ok := errors.AsType[*FaultError](err); !ok || fault.Detail(new(int)) != io.EOF {
		t.Errorf("no detail: %v", err)
	}
}

type BindSelf struct {
	*BindSelf
	X int `xml:"x"`
}

// A message can't make values that are out of all proportion to it.
func TestBindBounded(t *testing.T) {
	type wide struct {
		Room [4096]byte `xml:"-"`
		V    string     `xml:"v"`
	}
	type lists struct {
		W []wide  `xml:"w"`
		P []*wide `xml:"p"`
	}
	for _, name := range []string{"w", "p"} {
		doc := inEnvelope(V11, "<a>"+strings.Repeat("<"+name+"/>", 20_000)+"</a>")
		var v lists
		err := Unmarshal(doc, &v)
		if !errors.Is(err, errTooMuch) {
			t.Errorf("%s: got %v", name, err)
		}
		if n := (cap(v.W) + len(v.P)) * int(unsafe.Sizeof(wide{})); n > 4*(leastBindRoom+bindRoom*len(doc)) {
			t.Errorf("%s: %d octets of values", name, n)
		}
	}

	// The content of elements that each keep theirs is bounded together.
	type nest struct {
		Inner string `xml:",innerxml"`
		N     *nest  `xml:"n"`
	}
	doc := inEnvelope(V11, strings.Repeat("<n>", 200)+strings.Repeat("x", 100_000)+strings.Repeat("</n>", 200))
	if err := Unmarshal(doc, new(nest)); !errors.Is(err, errTooMuch) {
		t.Errorf("nested innerxml: got %v", err)
	}

	// A value without end is not written.
	type ring struct {
		R *ring `xml:"r"`
	}
	r := &ring{}
	r.R = r
	if _, err := Marshal(V11, r); !errors.Is(err, errTooDeep) {
		t.Errorf("a ring: got %v", err)
	}
	var self any
	self = &self
	if _, err := Marshal(V11, self); !errors.Is(err, errTooDeep) {
		t.Errorf("a pointer to itself: got %v", err)
	}
	if err := Unmarshal(inEnvelope(V11, "<a/>"), self); !errors.Is(err, errTooDeep) {
		t.Errorf("a pointer to itself: got %v", err)
	}

	// A type that embeds itself has the fields of one.
	var e BindSelf
	if err := Unmarshal(inEnvelope(V11, "<a><x>1</x></a>"), &e); err != nil || e.X != 1 || e.BindSelf != nil {
		t.Errorf("a type that embeds itself: got %+v, %v", e, err)
	}
}

// Types are planned once, by whoever comes first.
func TestBindConcurrent(t *testing.T) {
	doc := inEnvelope(V12, `<every xmlns="urn:t"><str>x</str><sub><x>1</x></sub></every>`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				var v bindEvery
				if err := Unmarshal(doc, &v); err != nil || v.Str != "x" || v.Sub.X != 1 {
					t.Errorf("got %+v, %v", v, err)
				}
				if b, err := Marshal(V12, v); err != nil || !bytes.Contains(b, []byte("<str>x</str>")) {
					t.Errorf("got %s, %v", b, err)
				}
			}
		})
	}
	wg.Wait()
}
