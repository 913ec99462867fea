package soapcodec

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

// TestNormalize: in.xml is a message, out.xml what goes on in mode envelope,
// facts what the decoder says. A last line break is the archive's.
// Accept with: go test ./soapcodec -run TestNormalize -update
func TestNormalize(t *testing.T) {
	golden.Run(t, "testdata/normalize/*.txtar", func(t *testing.T, c *golden.Case) {
		in := c.File("in.xml")
		d := NewDecoder(Options{Normalize: Envelope})
		for _, r := range readers {
			r.reset(d, in)
			if err := d.Finish(); err != nil {
				t.Fatalf("Finish over %s: got %v, want nil", r.name, err)
			}
			out := Apply(nil, in, d.TakeEdits())
			c.Check(t, "out.xml", string(out))
			c.Check(t, "facts", dump(d.Facts()))
			if d.Facts().NormalizeSkipped && !bytes.Equal(out, in) {
				t.Errorf("over %s: skipped, but the message is changed", r.name)
			}
		}
		if strings.HasPrefix(c.Name, "canonical") && !bytes.Equal(c.File("in.xml"), append(c.File("out.xml"), '\n')) && !bytes.Equal(c.File("in.xml"), c.File("out.xml")) {
			t.Errorf("a canonical message is changed")
		}
		checkNormalize(t, in)
	})
}

// checkNormalize holds for any message that is accepted: the edits are in
// order, keep the facts and the infoset, are made by a stream as by a whole
// document, and are needed only once.
func checkNormalize(t *testing.T, in []byte) {
	t.Helper()
	plain := NewDecoder(Options{})
	plain.ResetBytes(in)
	if err := plain.Finish(); err != nil {
		t.Fatalf("Finish(%q): %v", in, err)
	}
	d := NewDecoder(Options{Normalize: Envelope})
	d.ResetBytes(in)
	if err := d.Finish(); err != nil {
		t.Fatalf("Finish(%q) with Normalize: got %v, want nil as without", in, err)
	}
	if got := d.Settled(); got != int64(len(in)) {
		t.Fatalf("Settled(%q) at the end: got %d, want %d", in, got, len(in))
	}
	skipped := d.Facts().NormalizeSkipped
	edits := d.TakeEdits()
	checkEdits(t, in, edits)
	out := Apply(nil, in, edits)
	if skipped {
		if len(edits) != 0 {
			t.Fatalf("TakeEdits(%q): got %v, want none, normalization is skipped", in, edits)
		}
		return
	}
	if before, after := infoset(t, in), infoset(t, out); before != after {
		t.Fatalf("infoset of %q changed from\n%s to\n%s", in, before, after)
	}
	again := NewDecoder(Options{Normalize: Envelope})
	again.ResetBytes(out)
	if err := again.Finish(); err != nil {
		t.Fatalf("Finish(%q), normalized from %q: got %v, want nil", out, in, err)
	}
	if before, after := dump(plain.Facts()), dump(again.Facts()); before != after {
		t.Fatalf("facts of %q changed from\n%s to\n%s", in, before, after)
	}
	if more := again.TakeEdits(); len(more) != 0 {
		t.Fatalf("TakeEdits(%q), normalized from %q: got %v, want none", out, in, more)
	}
	for i, b := range plain.Facts().Headers {
		a := again.Facts().Headers[i]
		if !bytes.Equal(in[b.Start:b.End], out[a.Start:a.End]) {
			t.Fatalf("block %v of %q changed to %q", b.Name, in[b.Start:b.End], out[a.Start:a.End])
		}
	}
	// A stream that takes edits as they settle, token by token.
	streamed, err := stream(iotest.OneByteReader(bytes.NewReader(in)), in)
	if err != nil {
		t.Fatalf("streaming %q: %v", in, err)
	}
	if !bytes.Equal(streamed, out) {
		t.Fatalf("streaming %q: got %q, want %q", in, streamed, out)
	}
}

// stream copies doc as a proxy does that must pass octets on before it has seen
// the end: whatever is settled goes out at once.
func stream(r io.Reader, doc []byte) ([]byte, error) {
	d := NewDecoder(Options{Normalize: Envelope})
	d.Reset(r)
	var out []byte
	at := int64(0)
	for {
		err := d.Step()
		for _, e := range d.TakeEdits() {
			if e.Start < at {
				return nil, fmt.Errorf("edit %v comes after %d went out", e, at)
			}
			out = append(out, doc[at:e.Start]...)
			out = append(out, e.With...)
			at = e.End
		}
		if n := d.Settled(); n > at {
			out = append(out, doc[at:n]...)
			at = n
		}
		if err == io.EOF {
			return append(out, doc[at:]...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func checkEdits(t *testing.T, doc []byte, edits []Edit) {
	t.Helper()
	at := int64(0)
	for _, e := range edits {
		if e.Start < at || e.End < e.Start || e.End > int64(len(doc)) {
			t.Fatalf("edits %v are not ascending and inside %d octets", edits, len(doc))
		}
		at = e.End
	}
}

// infoset renders all of a document that normalization must keep: everything
// but white space, comments and processing instructions between the tags of
// the frame. Text runs are joined, however they were delivered.
func infoset(t *testing.T, doc []byte) string {
	t.Helper()
	var out strings.Builder
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	text := ""
	header, frame := false, true
	for {
		kind, err := s.Next()
		if kind != xmlstream.Text && kind != xmlstream.CDATA && text != "" {
			fmt.Fprintf(&out, "text %q\n", text)
			text = ""
		}
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatalf("scanning %q: %v", doc, err)
		}
		switch kind {
		case xmlstream.Start, xmlstream.End:
			if s.Depth() == sectionDepth {
				header = string(s.Name().Local) == "Header" && kind == xmlstream.Start
			}
			fmt.Fprintf(&out, "%v %s:%v\n", kind, s.Name().Prefix, s.Name())
			if kind == xmlstream.Start {
				for _, a := range s.Attrs() {
					fmt.Fprintf(&out, "  %s:%v=%q\n", a.Name.Prefix, a.Name, a.Value())
				}
			}
			depth := s.Depth() // of what follows
			if kind == xmlstream.End {
				depth--
			}
			frame = depth < sectionDepth || depth == sectionDepth && header
		case xmlstream.Text, xmlstream.CDATA:
			if !frame {
				text += string(s.AppendText(nil))
			}
		case xmlstream.Comment, xmlstream.ProcInst:
			if !frame {
				fmt.Fprintf(&out, "%v %q\n", kind, s.Raw())
			}
		}
	}
}

func TestApply(t *testing.T) {
	doc := []byte("abcdef")
	tests := []struct {
		edits []Edit
		want  string
	}{
		{nil, ">abcdef"},
		{[]Edit{{0, 0, []byte("x")}}, ">xabcdef"},
		{[]Edit{{0, 1, nil}, {1, 2, []byte("B")}, {6, 6, []byte("!")}}, ">Bcdef!"},
		{[]Edit{{0, 6, nil}}, ">"},
	}
	for _, tt := range tests {
		if got := string(Apply([]byte(">"), doc, tt.edits)); got != tt.want {
			t.Errorf("Apply(%v): got %q, want %q", tt.edits, got, tt.want)
		}
	}
}

// A signature in Body that covers the whole document is too late for a stream
// whose head has gone out; then the rest is normalized as the head was.
func TestLateSignature(t *testing.T) {
	head := "<s:Envelope  xmlns:s='" + NS11 + "'> <s:Body >"
	doc := head + "<d:Reference xmlns:d='" + nsSignature + "' URI=''/></s:Body > </s:Envelope>"
	d := NewDecoder(Options{Normalize: Envelope})
	d.ResetBytes([]byte(doc))
	if err := d.Finish(); err != nil || !d.Facts().NormalizeSkipped || d.TakeEdits() != nil {
		t.Errorf("held whole: got %v, skipped %t, want no edits", err, d.Facts().NormalizeSkipped)
	}
	late := strings.Replace(doc, "<d:Reference", "<p/><d:Reference", 1)
	d.ResetBytes([]byte(late))
	if err := d.Head(); err != nil {
		t.Fatal(err)
	}
	edits := d.TakeEdits()
	if len(edits) == 0 {
		t.Fatal("TakeEdits after Head: got none, want those of the head")
	}
	if err := d.Finish(); err != nil || d.Facts().NormalizeSkipped {
		t.Errorf("Finish: got %v, skipped %t, want neither", err, d.Facts().NormalizeSkipped)
	}
	want := `<s:Envelope xmlns:s="` + NS11 + `"><s:Body><p/><d:Reference xmlns:d='` + nsSignature + `' URI=''/></s:Body></s:Envelope>`
	if got := string(Apply(nil, []byte(late), append(edits, d.TakeEdits()...))); got != want {
		t.Errorf("streamed: got %s, want %s", got, want)
	}
}

// Nothing may be handed out before the header has been read for signatures.
func TestSettled(t *testing.T) {
	doc := []byte(" <!--x--> <s:Envelope  xmlns:s='" + NS12 + "'> <s:Header> <h:h xmlns:h='h'/> </s:Header> <s:Body> <p/></s:Body></s:Envelope>")
	first := int64(bytes.Index(doc, []byte("<p/>")))
	d := NewDecoder(Options{Normalize: Envelope})
	d.Reset(bytes.NewReader(doc))
	for {
		err := d.Step()
		if n := d.Settled(); n != 0 && n < first {
			t.Fatalf("Settled: got %d, want 0 before %d", n, first)
		} else if n == 0 && d.TakeEdits() != nil {
			t.Fatal("TakeEdits: got edits while nothing is settled")
		}
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	// Without edits to come all that is checked is settled.
	k := NewDecoder(Options{})
	k.Reset(bytes.NewReader(doc))
	if err := k.Step(); err != nil || k.Settled() != 1 {
		t.Errorf("Settled of mode keep after one octet of white space: got %d, %v, want 1", k.Settled(), err)
	}
}

// A hostile message must not cost many times its size in edits.
func TestEditsBounded(t *testing.T) {
	quotes := strings.Repeat(`"`, 60_000)
	comments := strings.Repeat("<!---->\n", 50_000)
	doc := []byte("<s:Envelope xmlns:s='" + NS11 + "' a='" + quotes + "'>" + comments + "<s:Body/>" + comments + "</s:Envelope>")
	d := NewDecoder(Options{Normalize: Envelope})
	d.ResetBytes(doc)
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	if edits := d.TakeEdits(); len(edits) > 5 {
		t.Errorf("TakeEdits: got %d edits, want one for the value, two for the quotes and one a gap", len(edits))
	}
	checkNormalize(t, []byte(open11+"<s:Body/>"+shut))
}

// Header blocks aimed at role next, SPEC.md "Default role" with node: true.
func TestNode(t *testing.T) {
	const next11, next12 = "http://schemas.xmlsoap.org/soap/actor/next", NS12 + "/role/next"
	env := func(open, blocks string) string { return open + "<s:Header>" + blocks + "</s:Header><s:Body/>" + shut }
	tests := []struct {
		name, doc string
		removed   string   // the blocks that go
		faulted   []string // or the names that are not understood
	}{
		{"1.1 optional", env(open11, `<h:A xmlns:h="h" s:actor="`+next11+`" s:mustUnderstand="0">7</h:A>`), `<h:A xmlns:h="h" s:actor="` + next11 + `" s:mustUnderstand="0">7</h:A>`, nil},
		{"1.1 mandatory", env(open11, `<h:A xmlns:h="h" s:actor="`+next11+`" s:mustUnderstand="1"/>`), "", []string{"{h}A"}},
		{"1.1 true", env(open11, `<h:A xmlns:h="h" s:actor="`+next11+`" s:mustUnderstand="true"/>`), "", []string{"{h}A"}},
		{"1.1 junk", env(open11, `<h:A xmlns:h="h" s:actor="`+next11+`" s:mustUnderstand="ja"/>`), "", []string{"{h}A"}},
		{"1.1 with the role of 1.2", env(open11, `<h:A xmlns:h="h" s:actor="`+next12+`"/>`), "", nil},
		{"1.1 knows no relay", env(open11, `<h:A xmlns:h="h" s:actor="`+next11+`" s:relay="1"/>`), `<h:A xmlns:h="h" s:actor="` + next11 + `" s:relay="1"/>`, nil},
		{"1.2 optional", env(open12, `<h:A xmlns:h="h" s:role="`+next12+`"/>`), `<h:A xmlns:h="h" s:role="` + next12 + `"/>`, nil},
		{"1.2 relay", env(open12, `<h:A xmlns:h="h" s:role="`+next12+`" s:relay="true"/>`), "", nil},
		{"1.2 mandatory relay", env(open12, `<h:A xmlns:h="h" s:role="`+next12+`" s:relay="true" s:mustUnderstand=" 1 "/>`), "", []string{"{h}A"}},
		{"1.2 two", env(open12, `<h:A xmlns:h="h" s:role="`+next12+`" s:mustUnderstand="1"/><h:Z xmlns:h="h"/><h:B xmlns:h="k" s:role="`+next12+`" s:mustUnderstand="true"/>`), "", []string{"{h}A", "{k}B"}},
		{"others' blocks", env(open12, `<h:A xmlns:h="h" s:mustUnderstand="1"/><h:B xmlns:h="h" s:role="urn:x" s:mustUnderstand="1"/><h:C xmlns:h="h" s:role="" s:mustUnderstand="1"/>`), "", nil},
		{"nested", env(open12, `<h:A xmlns:h="h"><h:B s:role="`+next12+`" s:mustUnderstand="1"/></h:A>`), "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := []byte(tt.doc)
			if _, err := Decode(doc, Options{}); err != nil {
				t.Errorf("as a relay: got %v, want it passed on", err)
			}
			d := NewDecoder(Options{Node: true})
			d.ResetBytes(doc)
			err := d.Head()
			if tt.faulted != nil {
				e, ok := err.(*Error)
				if !ok || e.Code != CodeMustUnderstand {
					t.Fatalf("Head: got %v, want %s", err, CodeMustUnderstand)
				}
				var got []string
				for _, q := range e.NotUnderstood {
					got = append(got, q.String())
				}
				if !slices.Equal(got, tt.faulted) {
					t.Errorf("NotUnderstood: got %v, want %v", got, tt.faulted)
				}
				f := e.Fault()
				checkFault(t, f, d.Facts().Version)
				if got := qnames(t, f.Append(nil, V12), "NotUnderstood"); !slices.Equal(got, tt.faulted) {
					t.Errorf("NotUnderstood blocks: got %v, want %v", got, tt.faulted)
				}
				return
			}
			if err == nil {
				err = d.Finish()
			}
			if err != nil {
				t.Fatalf("Finish: got %v, want nil", err)
			}
			want := strings.Replace(tt.doc, tt.removed, "", 1)
			if got := string(Apply(nil, doc, d.TakeEdits())); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// A block that is removed as a node's duty goes also where a signature keeps
// the rest from being normalized.
func TestNodeAndNormalize(t *testing.T) {
	block := `<h:A xmlns:h="h" s:role="` + NS12 + `/role/next"/>`
	doc := open12 + "\n<s:Header>\n" + block + "\n<h:B xmlns:h='h'/>\n</s:Header>\n<s:Body/>" + shut
	d := NewDecoder(Options{Node: true, Normalize: Envelope})
	d.ResetBytes([]byte(doc))
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	edits := d.TakeEdits()
	checkEdits(t, []byte(doc), edits)
	want := open12 + "<s:Header><h:B xmlns:h='h'/></s:Header><s:Body/>" + shut
	if got := string(Apply(nil, []byte(doc), edits)); got != want {
		t.Errorf("normalized: got %s, want %s", got, want)
	}
	signed := strings.Replace(doc, "<h:B", "<d:Reference xmlns:d='"+nsSignature+"' URI=''/><h:B", 1)
	d.ResetBytes([]byte(signed))
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	want = strings.Replace(signed, block, "", 1)
	if got := string(Apply(nil, []byte(signed), d.TakeEdits())); got != want || !d.Facts().NormalizeSkipped {
		t.Errorf("signed: got %s, want %s", got, want)
	}
}
