package soapcodec

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"soapway/internal/conformance"
	"soapway/internal/golden"
	"soapway/xmlstream"
)

// An element is a tree that encoding/xml has read, for a second opinion on what
// an envelope says.
type element struct {
	name                        xml.Name
	attrs                       []xml.Attr
	kids                        []*element
	text                        string // directly in it
	start, inner, innerEnd, end int64
}

// readElement returns the root element of doc.
func readElement(doc []byte) (*element, error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	top := &element{}
	open := []*element{top}
	for {
		from := d.InputOffset()
		token, err := d.Token()
		if err == io.EOF {
			if len(top.kids) != 1 {
				return nil, fmt.Errorf("%d root elements", len(top.kids))
			}
			return top.kids[0], nil
		}
		if err != nil {
			return nil, err
		}
		in := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name, attrs: token.Copy().Attr, start: from, inner: d.InputOffset()}
			in.kids = append(in.kids, e)
			open = append(open, e)
		case xml.EndElement:
			in.innerEnd, in.end = from, d.InputOffset()
			open = open[:len(open)-1]
		case xml.CharData:
			in.text += string(token)
		}
	}
}

func (e *element) is(space, local string) bool { return e.name == xml.Name{Space: space, Local: local} }

func (e *element) attr(space, local string) (value string, ok bool) {
	for _, a := range e.attrs {
		if (a.Name == xml.Name{Space: space, Local: local}) {
			return strings.Trim(flat(a.Value), " "), true
		}
	}
	return "", false
}

// flat hides that encoding/xml does not normalize values.
func flat(v string) string { return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(v) }

func (e *element) any(is func(*element) bool) bool {
	if is(e) {
		return true
	}
	for _, k := range e.kids {
		if k.any(is) {
			return true
		}
	}
	return false
}

// facts renders what the specifications find in an envelope that is known to be
// good: a reading of them that shares no line with the decoder.
func (e *element) facts() string {
	var out strings.Builder
	ns := e.name.Space
	v12 := ns == "http://www.w3.org/2003/05/soap-envelope"
	fmt.Fprintf(&out, "1.2: %v\n", v12)
	var blocks []*element
	var body *element
	for _, k := range e.kids {
		if k.is(ns, "Header") && body == nil {
			blocks = k.kids
			out.WriteString("header\n")
		}
		if k.is(ns, "Body") && body == nil {
			body = k
		}
	}
	ultimate := map[*element]bool{}
	for _, b := range blocks {
		role, _ := b.attr(ns, "actor")
		relay, must := "", false
		value, given := b.attr(ns, "mustUnderstand")
		switch {
		case v12:
			role, _ = b.attr(ns, "role")
			if role == ns+"/role/ultimateReceiver" {
				role = ""
			}
			relay, _ = b.attr(ns, "relay")
			must = value == "1" || value == "true"
		default:
			must = given && value != "0" && value != "false"
		}
		ultimate[b] = role == ""
		fmt.Fprintf(&out, "block {%s}%s at %d-%d role %q must %v relay %v\n", flat(b.name.Space), b.name.Local, b.start, b.end, cutRole(role), must, relay == "1" || relay == "true")
	}
	// The headers of one addressing namespace, for the ultimate receiver.
	first := func(local string, value func(b *element) (string, bool)) (string, int) {
		for _, space := range []string{"http://www.w3.org/2005/08/addressing", "http://schemas.xmlsoap.org/ws/2004/08/addressing"} {
			found, n := "", 0
			for _, b := range blocks {
				if !ultimate[b] || !b.is(space, local) {
					continue
				}
				if v, ok := value(b); ok {
					if n == 0 {
						found = v
					}
					n++
				}
			}
			if n > 0 {
				return found, n
			}
		}
		return "", 0
	}
	own := func(b *element) (string, bool) { return strings.Trim(b.text, " \t\r\n"), true }
	for _, local := range []string{"Action", "To", "MessageID"} {
		v, n := first(local, own)
		if local == "MessageID" {
			fmt.Fprintf(&out, "%d ids\n", n)
		}
		fmt.Fprintf(&out, "%s %q\n", local, v)
	}
	v, _ := first("RelatesTo", func(b *element) (string, bool) {
		if kind, given := b.attr("", "RelationshipType"); given && kind != "http://www.w3.org/2005/08/addressing/reply" && kind != "Reply" && !strings.HasSuffix(kind, ":Reply") {
			return "", false
		}
		return own(b)
	})
	fmt.Fprintf(&out, "RelatesTo %q\n", v)
	v, _ = first("ReplyTo", func(b *element) (string, bool) {
		for _, k := range b.kids {
			if k.is(b.name.Space, "Address") {
				return own(k)
			}
		}
		return "", false
	})
	fmt.Fprintf(&out, "ReplyTo %q\n", v)
	fmt.Fprintf(&out, "%d children\n", len(body.kids))
	if len(body.kids) > 0 {
		op := body.kids[0]
		fmt.Fprintf(&out, "operation {%s}%s, a fault: %v\n", flat(op.name.Space), op.name.Local, op.is(ns, "Fault"))
	}
	if body.inner < body.innerEnd {
		fmt.Fprintf(&out, "body %d-%d\n", body.inner, body.innerEnd)
	}
	for _, b := range blocks {
		if isSecurity(QName{b.name.Space, b.name.Local}) && b.any(func(e *element) bool { return e.is("http://www.w3.org/2000/09/xmldsig#", "Signature") }) {
			out.WriteString("signed\n")
			break
		}
	}
	return out.String()
}

// cutRole bounds a role as the decoder does.
func cutRole(s string) string { return s[:min(len(s), maxRole)] }

// render gives the decoder's facts the form of [element.facts].
func render(f *Facts) string {
	var out strings.Builder
	fmt.Fprintf(&out, "1.2: %v\n", f.Version == V12)
	if f.HasHeader {
		out.WriteString("header\n")
	}
	for _, b := range f.Headers {
		fmt.Fprintf(&out, "block {%s}%s at %d-%d role %q must %v relay %v\n", flat(b.Name.Space), b.Name.Local, b.Start, b.End, flat(b.Role), b.MustUnderstand, b.Relay)
	}
	fmt.Fprintf(&out, "Action %q\nTo %q\n%d ids\nMessageID %q\nRelatesTo %q\nReplyTo %q\n%d children\n", f.Action, f.To, f.MessageIDs, f.MessageID, f.RelatesTo, f.ReplyTo, f.BodyChildren)
	if f.BodyChildren > 0 {
		fmt.Fprintf(&out, "operation {%s}%s, a fault: %v\n", flat(f.Operation.Space), f.Operation.Local, f.Fault != nil)
	}
	if f.BodyStart < f.BodyEnd {
		fmt.Fprintf(&out, "body %d-%d\n", f.BodyStart, f.BodyEnd)
	}
	if f.Signed {
		out.WriteString("signed\n")
	}
	return out.String()
}

// checkFacts compares the facts of an envelope with the second opinion, and says
// whether there is one: encoding/xml knows other names, and versions of XML as
// errors.
func checkFacts(t *testing.T, d *Decoder, doc []byte) (compared bool) {
	t.Helper()
	d.ResetBytes(doc)
	if err := d.Finish(); err != nil {
		return false
	}
	root, err := readElement(doc)
	if err != nil {
		return false
	}
	// What is cut is cut in octets, which may leave half a character.
	if len(doc) > maxRole && strings.Contains(render(d.Facts()), `\ufffd`) {
		return false
	}
	if got, want := render(d.Facts()), root.facts(); got != want {
		t.Errorf("Facts(%.2000q): got\n%s\nwant\n%s", doc, got, want)
	}
	return true
}

// TestFactsOracle compares facts on the corpus, our own cases and random
// envelopes.
func TestFactsOracle(t *testing.T) {
	d := NewDecoder(Options{})
	compared := 0
	check := func(doc []byte) {
		if checkFacts(t, d, doc) {
			compared++
		}
	}
	// The corpus adds real messages; what it is for is held without it too.
	if messages, err := conformance.Messages(cmp.Or(os.Getenv("CORPUS"), "../../shared/corpus")); err == nil {
		for name, doc := range messages {
			if utf8, _, err := xmlstream.DecodeBytes(doc, ""); err != nil {
				t.Errorf("%s: %v", name, err)
			} else {
				check(utf8)
			}
		}
	}
	for _, c := range golden.Glob(t, "testdata/facts/*.txtar") {
		check(c.File("in.xml"))
	}
	g := &generator{Rand: rand.New(rand.NewPCG(9, 2))}
	for range 3000 {
		check([]byte(g.envelope()))
	}
	if compared < 1000 {
		t.Errorf("%d envelopes were compared, want at least 1000", compared)
	}
	t.Logf("%d envelopes compared", compared)
}

// FuzzFacts compares facts with the second opinion.
func FuzzFacts(f *testing.F) {
	addSeeds(f)
	g := &generator{Rand: rand.New(rand.NewPCG(10, 2))}
	for range 50 {
		f.Add([]byte(g.envelope()))
	}
	d := NewDecoder(Options{})
	f.Fuzz(func(t *testing.T, doc []byte) { checkFacts(t, d, doc) })
}
