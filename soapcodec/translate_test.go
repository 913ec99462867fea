package soapcodec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

// TestTranslate: in.xml is a message, out what it becomes in the other version,
// or why it can't.
// Accept with: go test ./soapcodec -run TestTranslate -update
func TestTranslate(t *testing.T) {
	golden.Run(t, "testdata/translate/*.txtar", func(t *testing.T, c *golden.Case) {
		in := bytes.TrimSuffix(c.File("in.xml"), []byte("\n"))
		for _, r := range readers {
			d := NewDecoder(Options{Translate: other(versionOf(t, in))})
			r.reset(d, in)
			if err := d.Finish(); err != nil {
				c.Check(t, "out", err.Error())
				continue
			}
			c.Check(t, "out", string(Apply(nil, in, d.TakeEdits())))
		}
		checkTranslate(t, in)
	})
}

func other(v Version) Version {
	if v == V11 {
		return V12
	}
	return V11
}

func versionOf(t *testing.T, doc []byte) Version {
	t.Helper()
	f, err := Decode(doc, Options{})
	if err != nil {
		t.Fatalf("Decode(%q): %v", doc, err)
	}
	return f.Version
}

// translated is a message in the other version, nil if it can't be.
func translated(t *testing.T, in []byte) []byte {
	t.Helper()
	to := other(versionOf(t, in))
	d := NewDecoder(Options{Translate: to})
	d.ResetBytes(in)
	if err := d.Finish(); err != nil {
		e, ok := err.(*Error)
		if !ok || e.Code != CodeSigned && !errors.Is(e, errTrailer) && !errors.Is(e, errUnqualified) {
			t.Fatalf("translating %q: got %v, want a reason why it has no form in SOAP %v", in, err, to)
		}
		return nil
	}
	edits := d.TakeEdits()
	checkEdits(t, in, edits)
	return Apply(nil, in, edits)
}

// checkTranslate holds for any message: what it becomes is a message of the
// other version that says the same, a stream becomes what a whole document
// becomes, and the way back leads to what was there before.
func checkTranslate(t *testing.T, in []byte) {
	t.Helper()
	out := translated(t, in)
	streamed, err := streamWith(Options{Translate: other(versionOf(t, in))}, iotest.OneByteReader(bytes.NewReader(in)), in)
	if out == nil {
		if err == nil {
			t.Fatalf("streaming %q: got no error, want one as for the whole", in)
		}
		return
	}
	if err != nil || !bytes.Equal(streamed, out) {
		t.Fatalf("streaming %q: got %q, %v, want %q", in, streamed, err, out)
	}
	before, err := Decode(in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := Decode(out, Options{})
	if err != nil {
		t.Fatalf("Decode(%q), translated from %q: %v", out, in, err)
	}
	if after.Version != other(before.Version) {
		t.Fatalf("%q, translated from %q, is in version %v", out, in, after.Version)
	}
	sameMeaning(t, in, out, before, after)
	same := NewDecoder(Options{Translate: before.Version})
	same.ResetBytes(in)
	if err := same.Finish(); err != nil || same.TakeEdits() != nil {
		t.Fatalf("translating %q into its own version: got %v or edits", in, err)
	}
	if before.Operation == (QName{after.Version.Namespace(), "Fault"}) {
		return // it is a Fault only now
	}
	back := translated(t, out)
	if back == nil {
		t.Fatalf("%q, translated from %q, has no way back", out, in)
	}
	again, err := Decode(back, Options{})
	if err != nil {
		t.Fatalf("Decode(%q), translated there and back from %q: %v", back, in, err)
	}
	sameMeaning(t, in, back, before, again)
}

// sameMeaning compares two messages, but for what differs between versions.
func sameMeaning(t *testing.T, in, out []byte, before, after *Facts) {
	t.Helper()
	if got, want := payload(t, out), payload(t, in); got != want {
		t.Fatalf("the content of %q, translated from %q, is\n%s, want\n%s", out, in, got, want)
	}
	if before.Operation == (QName{after.Version.Namespace(), "Fault"}) {
		return // a Fault of the other version: none here, and one there
	}
	if (before.Fault == nil) != (after.Fault == nil) || before.Fault == nil && before.Operation != after.Operation {
		t.Fatalf("%q, translated from %q, has operation %v, want %v", out, in, after.Operation, before.Operation)
	}
	if before.Fault != nil {
		want, got := before.Fault.Status(V12), after.Fault.Status(V12)
		if want != got {
			t.Fatalf("the fault of %q has status %d, want %d as that of %q", out, got, want, in)
		}
	}
	for i := range before.Headers {
		b, a := &before.Headers[i], &after.Headers[i]
		role := translateRole(b.Role, after.Version)
		if before.Version != after.Version && after.Version == V12 && role == roleUltimate {
			role = ""
		}
		if b.Name != a.Name || b.MustUnderstand != a.MustUnderstand || before.Version != after.Version && a.Role != role {
			t.Fatalf("block %+v of %q became %+v in %q", b, in, a, out)
		}
	}
	if before.Action != after.Action || before.MessageID != after.MessageID || before.To != after.To || before.ReplyTo != after.ReplyTo || before.RelatesTo != after.RelatesTo {
		t.Fatalf("addressing of %q became\n%s in %q", in, dump(after), out)
	}
}

// payload renders what belongs to the application: header blocks without the
// attributes of SOAP, the content of Body, and of a Fault the content of its
// detail, with the meaning of what looks like qualified names.
func payload(t *testing.T, doc []byte) string {
	t.Helper()
	var out strings.Builder
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	text := ""
	leaf := false           // nothing but comments came since the last start tag
	fault, skip := false, 0 // skip: depth of the element that is passed over
	children := 0
	names := func(v string) {
		for word := range strings.FieldsSeq(v) {
			if prefix, local, _ := strings.Cut(word, ":"); isSubcode(prefix) && isSubcode(local) {
				if uri, ok := s.Lookup([]byte(prefix)); ok {
					fmt.Fprintf(&out, "   %s is %q\n", prefix, uri)
				}
			}
		}
	}
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
		wasLeaf := leaf
		leaf = kind == xmlstream.Start || leaf && kind == xmlstream.Comment
		depth := s.Depth()
		top := strings.HasSuffix(strings.SplitN(s.Path()+"///", "/", 4)[2], "Body")
		if skip > 0 {
			if kind == xmlstream.End && depth == skip {
				skip = 0
			}
			continue
		}
		switch kind {
		case xmlstream.Start:
			if depth < childDepth {
				continue
			}
			soap := string(s.Name().Space) == NS11 || string(s.Name().Space) == NS12
			if depth == childDepth && top {
				children++
				fault = children == 1 && soap && string(s.Name().Local) == "Fault"
				if fault {
					continue
				}
			}
			if fault && depth == partDepth && (soap || len(s.Name().Space) == 0) {
				if !strings.EqualFold(string(s.Name().Local), "detail") {
					skip = depth
				}
				continue
			}
			fmt.Fprintf(&out, "%d %v\n", depth, s.Name())
			var attrs []string
			for _, a := range s.Attrs() {
				own := string(a.Name.Space) == NS11 || string(a.Name.Space) == NS12
				if a.IsNamespace() || own && (string(a.Name.Local) == "encodingStyle" || depth == childDepth && !top) {
					continue
				}
				attrs = append(attrs, fmt.Sprintf("  %v=%q\n", a.Name, a.Value()))
				names(a.Value())
			}
			slices.Sort(attrs)
			out.WriteString(strings.Join(attrs, ""))
		case xmlstream.Text, xmlstream.CDATA:
			if depth >= childDepth && (!fault || depth > partDepth) {
				text += string(s.AppendText(nil))
				if wasLeaf {
					names(string(s.AppendText(nil)))
				}
			}
		}
	}
}

// streamWith copies doc as a proxy does that passes octets on before it has
// seen the end.
func streamWith(opt Options, r io.Reader, doc []byte) ([]byte, error) {
	d := NewDecoder(opt)
	d.Reset(r)
	var out []byte
	at := int64(0)
	for {
		err := d.Step()
		for _, e := range d.TakeEdits() {
			if e.Start < at {
				return nil, fmt.Errorf("edit %v comes after %d went out", e, at)
			}
			out = append(append(out, doc[at:e.Start]...), e.With...)
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
