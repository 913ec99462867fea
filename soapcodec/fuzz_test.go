package soapcodec

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

func addSeeds(f *testing.F) {
	for _, pattern := range []string{"testdata/facts/*.txtar", "testdata/normalize/*.txtar"} {
		for _, c := range golden.Glob(f, pattern) {
			f.Add(c.File("in.xml"))
		}
	}
	for _, row := range faultTable {
		f.Add((&Fault{Code: row.code}).Append(nil, V11))
		f.Add((&Fault{Code: row.code}).Append(nil, V12))
	}
	f.Add([]byte("\xEF\xBB\xBF <!--x--> " + open12 + "<s:Body >&#x20;</s:Body >" + shut))
	f.Add([]byte(open11 + "<s:Header><h:A xmlns:h='h' s:actor='http://schemas.xmlsoap.org/soap/actor/next'/></s:Header><s:Body/>" + shut))
}

// FuzzDecode: the verdict and the facts do not depend on how the octets
// arrive; what xmlstream refuses is never accepted; an error has a place inside
// the document, and its fault is an envelope.
func FuzzDecode(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		opt := Options{Limits: xmlstream.Limits{Depth: 40}}
		d := NewDecoder(opt)
		d.ResetBytes(doc)
		err := d.Finish()
		facts := dumpPlaces(d.Facts())
		half := io.MultiReader(bytes.NewReader(doc[:len(doc)/2]), iotest.OneByteReader(bytes.NewReader(doc[len(doc)/2:])))
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(doc)), half} {
			again := NewDecoder(opt)
			again.Reset(r)
			second := again.Finish()
			if (err == nil) != (second == nil) || err != nil && err.Error() != second.Error() {
				t.Fatalf("Finish in pieces: got %v, want %v", second, err)
			}
			if got := dumpPlaces(again.Facts()); got != facts {
				t.Fatalf("Facts in pieces: got\n%s, want\n%s", got, facts)
			}
		}
		if err == nil {
			if err := scan(doc, opt.Limits); err != nil {
				t.Fatalf("accepted, but the scanner says %v", err)
			}
			return
		}
		e, ok := err.(*Error)
		if !ok {
			t.Fatalf("Finish: got %v, want an *Error", err)
		}
		se, ok := errors.AsType[*xmlstream.SyntaxError](err)
		if !ok || se.Offset < 0 || se.Offset > int64(len(doc)) {
			t.Fatalf("Finish: got %v, want a place inside the document", err)
		}
		for _, v := range []Version{V11, V12} {
			if facts, err := Decode(e.Fault().Append(nil, v), Options{}); err != nil || facts.Fault == nil {
				t.Fatalf("fault for %q: got %v, want an envelope", e.Fault().Reason, err)
			}
		}
	})
}

func scan(doc []byte, lim xmlstream.Limits) error {
	s := xmlstream.NewScanner(lim)
	s.ResetBytes(doc)
	for {
		if _, err := s.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// FuzzNormalize: see checkNormalize; and a node removes whole header blocks and
// nothing else.
func FuzzNormalize(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := Decode(doc, Options{}); err != nil {
			return
		}
		checkNormalize(t, doc)
		d := NewDecoder(Options{Node: true})
		d.ResetBytes(doc)
		if err := d.Finish(); err != nil {
			if e, ok := err.(*Error); !ok || e.Code != CodeMustUnderstand || len(e.NotUnderstood) == 0 {
				t.Fatalf("Finish as a node: got %v, want nil or %s", err, CodeMustUnderstand)
			}
			return
		}
		edits := d.TakeEdits()
		checkEdits(t, doc, edits)
		out := Apply(nil, doc, edits)
		again := NewDecoder(Options{Node: true})
		again.ResetBytes(out)
		if err := again.Finish(); err != nil || again.TakeEdits() != nil {
			t.Fatalf("Finish of %q, what a node made of %q: got %v, want nil and no edits", out, doc, err)
		}
		if got, want := len(again.Facts().Headers), len(d.Facts().Headers)-len(edits); got != want {
			t.Fatalf("a node left %d header blocks of %q, want %d", got, doc, want)
		}
	})
}

// FuzzTranslate: see checkTranslate.
func FuzzTranslate(f *testing.F) {
	addSeeds(f)
	for _, c := range golden.Glob(f, "testdata/translate/*.txtar") {
		f.Add(c.File("in.xml"))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := Decode(doc, Options{}); err == nil {
			checkTranslate(t, doc)
		}
	})
}

// FuzzEdits: whatever options change a message at once, their edits fit together, a
// stream is changed as a whole message is, the result is an envelope of the
// version that was asked for, and it has the blocks that were asked for.
func FuzzEdits(f *testing.F) {
	seed := func(doc []byte) {
		for _, bits := range []byte{0, 0x1F, 0x2A, 0x35, 0x3F} {
			f.Add(doc, bits)
		}
	}
	for _, pattern := range []string{"testdata/facts/*.txtar", "testdata/normalize/*.txtar", "testdata/translate/*.txtar"} {
		for _, c := range golden.Glob(f, pattern) {
			seed(c.File("in.xml"))
		}
	}
	seed([]byte(open11 + "<s:Header ><a:To xmlns:a='" + nsAddressing + "' s:mustUnderstand='1' s:actor=''> s:x </a:To></s:Header > <s:Body/>" + shut))
	add, mark := []byte(`<x:Add xmlns:x="urn:x"/>`), DeliveryMark(Delivery{ID: "1"})
	f.Fuzz(func(t *testing.T, doc []byte, bits byte) {
		before, err := Decode(doc, Options{})
		if err != nil {
			return
		}
		opt := Options{Node: bits&1 != 0}
		if bits&2 != 0 {
			opt.Normalize = Envelope
		}
		if bits&4 != 0 {
			opt.Translate = other(before.Version)
		}
		if bits&8 != 0 {
			opt.Add = add
		}
		if bits&16 != 0 {
			opt.Late = &Late{To: "urn:node", Mark: mark}
		}
		opt.Strict = bits&32 != 0
		d := NewDecoder(opt)
		d.ResetBytes(doc)
		if err := d.Finish(); err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("Finish(%q, %+v): got %v, want an *Error", doc, opt, err)
			}
			return
		}
		skipped := d.Facts().NormalizeSkipped
		edits := d.TakeEdits()
		checkEdits(t, doc, edits)
		out := Apply(nil, doc, edits)
		if streamed, err := streamWith(opt, iotest.OneByteReader(bytes.NewReader(doc)), doc); err != nil || !bytes.Equal(streamed, out) && !skipped {
			t.Fatalf("streaming %q with %+v: got %q, %v, want %q", doc, opt, streamed, err, out)
		}
		after, err := Decode(out, Options{})
		if err != nil {
			t.Fatalf("Decode(%q), made of %q with %+v: %v", out, doc, opt, err)
		}
		if opt.Translate != V0 && after.Version != opt.Translate {
			t.Fatalf("%q, made of %q, is in version %v", out, doc, after.Version)
		}
		if n := len(after.Headers); opt.Add != nil && (n == 0 || after.Headers[0].Name != QName{"urn:x", "Add"}) ||
			opt.Late != nil && (n == 0 || after.Headers[n-1].Name != QName{NSDelivery, deliveryBlock}) {
			t.Fatalf("%q, made of %q with %+v, has not the blocks in their places", out, doc, opt)
		}
		if opt.Late != nil && after.To != "" && after.To != "urn:node" {
			t.Fatalf("%q, made of %q, goes to %q", out, doc, after.To)
		}
	})
}

// FuzzReason: whatever stands in a message, the text of a fault is well-formed
// and bounded.
func FuzzReason(f *testing.F) {
	f.Add("plain", "urn:x", "L")
	f.Add("\x00\xff]]>", "\"<&", "a b")
	f.Fuzz(func(t *testing.T, reason, space, local string) {
		fault := &Fault{Code: CodeMustUnderstand, Reason: reason, NotUnderstood: []QName{{space, local}}}
		for _, v := range []Version{V11, V12} {
			doc := fault.Append(nil, v)
			if strings.ContainsAny(space, "\x00") || !isName(local) || space == nsXMLNS {
				fault.NotUnderstood = nil // the decoder never yields such a name
				doc = fault.Append(nil, v)
			}
			if _, err := Decode(doc, Options{}); err != nil {
				t.Fatalf("Decode(%q): %v", doc, err)
			}
		}
	})
}

const nsXMLNS = "http://www.w3.org/2000/xmlns/"

func isName(s string) bool {
	return scan([]byte("<"+s+"/>"), xmlstream.Limits{}) == nil && !strings.ContainsAny(s, ": />=\t\r\n")
}
