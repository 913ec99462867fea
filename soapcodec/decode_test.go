package soapcodec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

// readers are the ways a document can reach a decoder; all must agree.
var readers = []struct {
	name  string
	reset func(d *Decoder, doc []byte)
}{
	{"bytes", (*Decoder).ResetBytes},
	{"reader", func(d *Decoder, doc []byte) { d.Reset(bytes.NewReader(doc)) }},
	{"one byte", func(d *Decoder, doc []byte) { d.Reset(iotest.OneByteReader(bytes.NewReader(doc))) }},
	{"data with EOF", func(d *Decoder, doc []byte) { d.Reset(iotest.DataErrReader(bytes.NewReader(doc))) }},
}

// TestFacts: in.xml is a message, want is what the decoder says about it.
// Accept with: go test ./soapcodec -run TestFacts -update
func TestFacts(t *testing.T) {
	golden.Run(t, "testdata/facts/*.txtar", func(t *testing.T, c *golden.Case) {
		d := NewDecoder(Options{})
		first := ""
		for _, r := range readers {
			r.reset(d, c.File("in.xml"))
			if err := d.Finish(); err != nil {
				t.Fatalf("Finish over %s: got %v, want nil", r.name, err)
			}
			if first == "" {
				first = dumpPlaces(d.Facts())
				c.Check(t, "want", dump(d.Facts()))
			}
			if got := dumpPlaces(d.Facts()); got != first {
				t.Errorf("Facts over %s: got\n%s, want\n%s", r.name, got, first)
			}
		}
	})
}

const (
	open11 = `<s:Envelope xmlns:s="` + NS11 + `">`
	open12 = `<s:Envelope xmlns:s="` + NS12 + `">`
	shut   = `</s:Envelope>`
)

func TestReject(t *testing.T) {
	long := strings.Repeat("x", maxAddressing+1)
	tests := []struct {
		name, doc string
		opt       Options
		code      Code
		version   Version
		text      string // in the fault's reason
	}{
		{"empty", "", Options{}, CodeNotWellFormed, V0, ""},
		{"blank", " \n", Options{}, CodeNotWellFormed, V0, ""},
		{"no XML", "hello", Options{}, CodeNotWellFormed, V0, ""},
		{"cut", open11 + "<s:Body>", Options{}, CodeNotWellFormed, V11, ""},
		{"mismatch", open11 + "<s:Body></s:Header>", Options{}, CodeNotWellFormed, V11, ""},
		{"unbound prefix", open11 + "<s:Body><q:a/></s:Body>" + shut, Options{}, CodeNotWellFormed, V11, ""},
		{"second root", open11 + "<s:Body/>" + shut + "<a/>", Options{}, CodeNotWellFormed, V11, ""},
		{"text behind", open11 + "<s:Body/>" + shut + "x", Options{}, CodeNotWellFormed, V11, ""},
		{"blank before declaration", "\n<?xml version=\"1.0\"?>" + open11 + "<s:Body/>" + shut, Options{}, CodeNotWellFormed, V0, ""},
		{"doctype", "<!DOCTYPE s:Envelope>" + open11 + "<s:Body/>" + shut, Options{}, CodeDoctype, V0, "document type declaration, at line 1, column 1"},
		{"bad octets", open11 + "<s:Body>\xff</s:Body>" + shut, Options{}, CodeCharset, V11, ""},
		{"depth", open11 + "<s:Body><a><b/></a></s:Body>" + shut, Options{Limits: xmlstream.Limits{Depth: 3}}, CodeLimit, V11, "limit"},
		{"other namespace", `<e:Envelope xmlns:e="http://schemas.depot.test/soap/2031/envelope"><e:Body/></e:Envelope>`, Options{}, CodeVersionMismatch, V0, `"{http://schemas.depot.test/soap/2031/envelope}Envelope"`},
		{"no namespace", `<Envelope><Body/></Envelope>`, Options{}, CodeVersionMismatch, V0, `element "Envelope" is not`},
		{"trailing slash", `<e:Envelope xmlns:e="` + NS12 + `/"><e:Body/></e:Envelope>`, Options{}, CodeVersionMismatch, V0, ""},
		{"upper case", `<e:Envelope xmlns:e="` + strings.ToUpper(NS12) + `"><e:Body/></e:Envelope>`, Options{}, CodeVersionMismatch, V0, ""},
		{"other name", `<e:Message xmlns:e="` + NS11 + `"><e:Body/></e:Message>`, Options{}, CodeVersionMismatch, V0, ""},
		{"1.1 not accepted", open11 + "<s:Body/>" + shut, Options{Accept12: true}, CodeVersionMismatch, V11, ""},
		{"1.2 not accepted", open12 + "<s:Body/>" + shut, Options{Accept11: true}, CodeVersionMismatch, V12, ""},
		{"no Body", open11 + shut, Options{}, CodeInvalidEnvelope, V11, "no Body"},
		{"Header alone", open12 + "<s:Header/>" + shut, Options{}, CodeInvalidEnvelope, V12, "no Body"},
		{"self-closing", `<s:Envelope xmlns:s="` + NS11 + `"/>`, Options{}, CodeInvalidEnvelope, V11, "no Body"},
		{"two Headers", open11 + "<s:Header/><s:Header/><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "second Header"},
		{"late Header", open11 + "<s:Body/><s:Header/>" + shut, Options{}, CodeInvalidEnvelope, V11, "before Body"},
		{"two Bodies", open11 + "<s:Body/><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "second Body"},
		{"two Bodies, trailer between", open11 + "<s:Body/><t:t xmlns:t='t'/><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "second Body"},
		{"other version's Body", open11 + "<t:Body xmlns:t='" + NS12 + "'/>" + shut, Options{}, CodeInvalidEnvelope, V11, "before Body"},
		{"unqualified Body", open11 + "<Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "before Body"},
		{"element first", open11 + "<x/><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "before Body"},
		{"trailer in 1.2", open12 + "<s:Body/><t:t xmlns:t='t'/>" + shut, Options{}, CodeInvalidEnvelope, V12, "after Body"},
		{"text in Envelope", open11 + "x<s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "character data"},
		{"text behind Body", open11 + "<s:Body/> x" + shut, Options{}, CodeInvalidEnvelope, V11, "character data"},
		{"reference in Envelope", open11 + "&#65;<s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V11, "character data"},
		{"text in Header", open12 + "<s:Header>x</s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "character data"},
		{"CDATA in Header", open12 + "<s:Header><![CDATA[x]]></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "character data"},
		{"CDATA that looks blank", open12 + "<s:Header><![CDATA[&#32;]]></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "character data"},
		{"unqualified block in 1.2", open12 + "<s:Header><x/></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "no namespace"},
		{"PI before 1.2", "<?a b?>" + open12 + "<s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "processing instruction"},
		{"PI in Envelope 1.2", open12 + "<?a b?><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "processing instruction"},
		{"PI in Header 1.2", open12 + "<s:Header><?a b?></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "processing instruction"},
		{"PI in a block 1.2", open12 + "<s:Header><h:h xmlns:h='h'><?a b?></h:h></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, "processing instruction"},
		{"PI behind Body 1.2", open12 + "<s:Body/><?a b?>" + shut, Options{}, CodeInvalidEnvelope, V12, "processing instruction"},
		{"PI behind Envelope 1.2", open12 + "<s:Body/>" + shut + "<?a b?>", Options{}, CodeInvalidEnvelope, V12, "processing instruction"},
		{"mustUnderstand 1.2", open12 + "<s:Header><h:h xmlns:h='h' s:mustUnderstand='yes'/></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, `mustUnderstand="yes"`},
		{"relay 1.2", open12 + "<s:Header><h:h xmlns:h='h' s:relay=''/></s:Header><s:Body/>" + shut, Options{}, CodeInvalidEnvelope, V12, `relay=""`},
		{"blocks", open11 + "<s:Header>" + strings.Repeat("<h/>", maxHeaderBlocks+1) + "</s:Header><s:Body/>" + shut, Options{}, CodeLimit, V11, "header blocks"},
		{"message id", open11 + "<s:Header><a:MessageID xmlns:a='" + nsAddressing + "'>" + long + "</a:MessageID></s:Header><s:Body/>" + shut, Options{}, CodeLimit, V11, "addressing value"},
		{"reply address", open11 + "<s:Header><a:ReplyTo xmlns:a='" + nsAddressing + "'><a:Address>" + long + "</a:Address></a:ReplyTo></s:Header><s:Body/>" + shut, Options{}, CodeLimit, V11, "addressing value"},
	}
	d := NewDecoder(Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := ""
			for _, r := range readers {
				d.SetOptions(tt.opt)
				r.reset(d, []byte(tt.doc))
				err := d.Finish()
				e, ok := err.(*Error)
				if !ok {
					t.Fatalf("Finish over %s: got %v, want an *Error", r.name, err)
				}
				if e.Code != tt.code || e.Version != tt.version {
					t.Errorf("Finish over %s: got %s in version %q (%v), want %s in %q", r.name, e.Code, e.Version, err, tt.code, tt.version)
				}
				se, ok := errors.AsType[*xmlstream.SyntaxError](err)
				if !ok || se.Line < 1 || se.Column < 1 || se.Offset < 0 || se.Offset > int64(len(tt.doc)) {
					t.Errorf("Finish over %s: got place %+v, want one inside the document", r.name, se)
				}
				f := e.Fault()
				if !strings.Contains(f.Reason, tt.text) || !strings.HasSuffix(f.Reason, ".") || !strings.Contains(f.Reason, "line ") {
					t.Errorf("Fault over %s: got %q, want a sentence with %q and a line", r.name, f.Reason, tt.text)
				}
				if strings.Contains(f.Reason, "xmlstream") || strings.Contains(f.Reason, "soapcodec") {
					t.Errorf("Fault over %s: got %q, want no internals", r.name, f.Reason)
				}
				if first == "" {
					first = err.Error()
				}
				if err.Error() != first {
					t.Errorf("Finish over %s: got %q, want %q as over %s", r.name, err, first, readers[0].name)
				}
				if again := d.Step(); again != err {
					t.Errorf("Step after a fault: got %v, want the same error", again)
				}
			}
		})
	}
}

// A reader's own error is not the message's fault and must arrive as it is.
func TestReaderError(t *testing.T) {
	broken := errors.New("connection reset")
	for _, doc := range []string{"", "<", open11, open11 + "<s:Body><a>text", open11 + "<s:Body/>" + shut} {
		d := NewDecoder(Options{})
		d.Reset(io.MultiReader(strings.NewReader(doc), iotest.ErrReader(broken)))
		if err := d.Finish(); err != broken {
			t.Errorf("Finish of %q and then a broken reader: got %v, want %v", doc, err, broken)
		}
		d.Reset(io.MultiReader(strings.NewReader(doc), iotest.ErrReader(io.ErrUnexpectedEOF)))
		if err := d.Finish(); err != io.ErrUnexpectedEOF {
			t.Errorf("Finish of %q and then a cut: got %v, want %v", doc, err, io.ErrUnexpectedEOF)
		}
	}
}

// A charset fault comes out of a reader, but it is the message's.
func TestCharsetReader(t *testing.T) {
	doc := open11 + "<s:Body>caf\xe9 \x81</s:Body>" + shut
	r, err := xmlstream.NewReader(strings.NewReader(doc), "windows-1252")
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(Options{})
	d.Reset(r)
	err = d.Finish()
	if e, ok := err.(*Error); !ok || e.Code != CodeCharset {
		t.Errorf("Finish of an undecodable octet: got %v, want an *Error of %s", err, CodeCharset)
	}
}

// Head must not wait for more than the start tag of the first child of Body:
// a route is chosen on it while the rest is still on its way.
func TestHead(t *testing.T) {
	head := open12 + `<s:Header><a:Action xmlns:a="` + nsAddressing + `">urn:act</a:Action></s:Header><s:Body><p:Op xmlns:p="urn:p">`
	d := NewDecoder(Options{})
	late := errors.New("asked for more")
	d.Reset(io.MultiReader(strings.NewReader(head), iotest.ErrReader(late)))
	if err := d.Head(); err != nil {
		t.Fatalf("Head: got %v, want nil", err)
	}
	f := d.Facts()
	if f.Version != V12 || f.Action != "urn:act" || f.Operation != (QName{"urn:p", "Op"}) || len(f.Headers) != 1 {
		t.Errorf("Facts after Head: got\n%s", dump(f))
	}
	if d.Settled() != int64(len(head)) {
		t.Errorf("Settled after Head: got %d, want %d", d.Settled(), len(head))
	}
	if err := d.Finish(); err != late {
		t.Errorf("Finish: got %v, want %v", err, late)
	}
	d.ResetBytes([]byte(open11 + "<s:Body>text</s:Body>" + shut))
	if err := d.Head(); err != nil || !d.Facts().Operation.IsZero() {
		t.Errorf("Head of an empty Body: got %v and operation %v, want nil and none", err, d.Facts().Operation)
	}
	if err := d.Finish(); err != nil {
		t.Errorf("Finish: got %v, want nil", err)
	}
	if err := d.Step(); err != io.EOF {
		t.Errorf("Step after the end: got %v, want io.EOF", err)
	}
	if err := d.Head(); err != nil {
		t.Errorf("Head after the end: got %v, want nil", err)
	}
}

// The names of one message must not show in the facts of the next.
func TestReset(t *testing.T) {
	d := NewDecoder(Options{Normalize: Envelope, Node: true})
	fault := open12 + `<s:Header><a:MessageID xmlns:a="` + nsAddressing + `">urn:1</a:MessageID></s:Header><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>x</s:Value></s:Subcode></s:Code></s:Fault></s:Body>` + shut
	plain := open11 + `<s:Body/>` + shut
	want := NewDecoder(Options{Normalize: Envelope, Node: true})
	want.ResetBytes([]byte(plain))
	if err := want.Finish(); err != nil {
		t.Fatal(err)
	}
	for n := range len(fault) { // every prefix, so that every state is left behind once
		d.ResetBytes([]byte(fault[:n]))
		_ = d.Finish() // each prefix fails; TestReject is about how
		d.ResetBytes([]byte(plain))
		if err := d.Finish(); err != nil {
			t.Fatalf("Finish after %d octets of another message: got %v, want nil", n, err)
		}
		if got := dumpPlaces(d.Facts()); got != dumpPlaces(want.Facts()) {
			t.Fatalf("Facts after %d octets of another message: got\n%s, want\n%s", n, got, dumpPlaces(want.Facts()))
		}
		if edits := d.TakeEdits(); len(edits) != 0 {
			t.Fatalf("TakeEdits after %d octets of another message: got %v, want none", n, edits)
		}
	}
}

func TestInterner(t *testing.T) {
	in := new(interner)
	for i := range 10 * maxInterned {
		name := fmt.Sprint("name", i)
		if got := in.get([]byte(name)); got != name {
			t.Fatalf("get(%q): got %q", name, got)
		}
		if len(in.all) > maxInterned {
			t.Fatalf("get: %d strings are kept, want at most %d", len(in.all), maxInterned)
		}
	}
	long := strings.Repeat("x", maxInternedLength+1)
	if got := in.get([]byte(long)); got != long || len(in.all) > maxInterned {
		t.Errorf("get of a long string: got %q", got)
	}
	if _, kept := in.all[long]; kept {
		t.Errorf("get of a long string: it is kept")
	}
}

var benchMessage = []byte(`<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:soap="` + NS11 + `" xmlns:wsa="` + nsAddressing + `">
  <soap:Header>
    <wsa:Action soap:mustUnderstand="1">urn:depot:parcel#Book</wsa:Action>
    <wsa:To>http://depot.test/parcel</wsa:To>
    <wsa:ReplyTo><wsa:Address>` + nsAddressing + `/anonymous</wsa:Address></wsa:ReplyTo>
    <t:Trace xmlns:t="urn:depot:trace" soap:actor="http://schemas.xmlsoap.org/soap/actor/next">77</t:Trace>
  </soap:Header>
  <soap:Body>
    <p:Book xmlns:p="urn:depot:parcel">` + strings.Repeat("<p:line no=\"1\">two  blanks &amp; more</p:line>", 30) + `</p:Book>
  </soap:Body>
</soap:Envelope>
`)

func TestAllocs(t *testing.T) {
	tests := []struct {
		name string
		doc  []byte
		max  float64
	}{
		{"all names known", benchMessage, 0},
		{"a message id", bytes.Replace(benchMessage, []byte("<wsa:To>"), []byte("<wsa:MessageID>urn:uuid:1</wsa:MessageID><wsa:To>"), 1), 1},
	}
	for _, tt := range tests {
		d := NewDecoder(Options{})
		got := testing.AllocsPerRun(100, func() {
			d.ResetBytes(tt.doc)
			if err := d.Finish(); err != nil {
				t.Fatal(err)
			}
		})
		if got > tt.max {
			t.Errorf("decoding with %s: got %v allocations, want at most %v", tt.name, got, tt.max)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, bench := range []struct {
		name string
		opt  Options
	}{{"keep", Options{}}, {"envelope", Options{Normalize: Envelope}}} {
		b.Run(bench.name, func(b *testing.B) {
			d := NewDecoder(bench.opt)
			b.SetBytes(int64(len(benchMessage)))
			b.ReportAllocs()
			for b.Loop() {
				d.ResetBytes(benchMessage)
				if err := d.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
