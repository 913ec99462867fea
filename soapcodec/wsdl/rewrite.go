package wsdl

import (
	"bytes"
	"fmt"
	"io"

	"soapway/xmlstream"
)

// A Ref is a reference that a document makes.
type Ref struct {
	Use Use
	// Value is the URI as it is meant: character references are resolved, white
	// space around it is removed.
	Value string
}

// Rewrite appends doc to dst with the references that f replaces; f returns the
// new value, and false to leave the reference as it is. All other octets are
// copied. doc is UTF-8, see [ToUTF8].
// Errors: *xmlstream.SyntaxError, *xmlstream.LimitError; dst is then cut short.
func Rewrite(dst, doc []byte, f func(Ref) (string, bool)) ([]byte, error) {
	w := rewriter{dst: dst, doc: doc, f: f}
	err := walk(doc, &w)
	if err != nil {
		return w.dst, fmt.Errorf("wsdl: rewrite: %w", err)
	}
	return append(w.dst, doc[w.done:]...), nil
}

// Pieces is Rewrite for the octets that d was made of: pieces of these, and new
// values between them. It looks at nothing but the references.
func (d *Document) Pieces(f func(Ref) (string, bool)) (pieces [][]byte) {
	done := 0
	for i := range d.places {
		p := &d.places[i]
		if value, ok := f(p.Ref); ok {
			pieces = append(pieces, d.doc[done:p.start], []byte(p.with(value).text))
			done = p.end
		}
	}
	return append(pieces, d.doc[done:])
}

// References calls f for each reference of a document, in its order.
func References(doc []byte, f func(Ref)) error {
	if err := walk(doc, reader(f)); err != nil {
		return fmt.Errorf("wsdl: references: %w", err)
	}
	return nil
}

// reader is a visitor that only looks.
type reader func(Ref)

func (r reader) attribute(ref Ref, _, _ int, _ byte) { r(ref) }
func (r reader) text(ref Ref, _, _ int)              { r(ref) }

type rewriter struct {
	dst, doc []byte
	done     int // octets of doc that are copied
	f        func(Ref) (string, bool)
}

func (w *rewriter) attribute(ref Ref, start, end int, quote byte) {
	if value, ok := w.f(ref); ok {
		w.dst = append(w.dst, w.doc[w.done:start]...)
		w.dst = appendAttr(w.dst, value, quote)
		w.done = end
	}
}

func (w *rewriter) text(ref Ref, start, end int) {
	if value, ok := w.f(ref); ok {
		w.dst = append(w.dst, w.doc[w.done:start]...)
		w.dst = xmlstream.AppendEscapedText(w.dst, value)
		w.done = end
	}
}

// appendAttr writes a value between quotes of the given kind.
func appendAttr(dst []byte, value string, quote byte) []byte {
	at := len(dst)
	dst = xmlstream.AppendEscapedAttr(dst, value)
	if quote == '\'' && bytes.IndexByte(dst[at:], '\'') >= 0 {
		escaped := bytes.ReplaceAll(dst[at:], []byte("'"), []byte("&#39;"))
		dst = append(dst[:at], escaped...)
	}
	return dst
}

// A visitor is told of each reference and of the octets that it stands in.
type visitor interface {
	attribute(ref Ref, start, end int, quote byte)
	text(ref Ref, start, end int)
}

// epr follows an Address in an EndpointReference of WS-Addressing, the one
// reference that is text.
type epr struct {
	outer      int // depth of the EndpointReference, 0 outside
	inner      int // depth of the Address, 0 outside
	value      []byte
	start, end int // octets of its text
	mixed      bool
}

// walk shows every reference of a document to v.
func walk(doc []byte, v visitor) error {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	var a epr
	for {
		kind, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind {
		case xmlstream.Start:
			startTag(s, doc, v)
			a.open(s)
		case xmlstream.Text, xmlstream.CDATA:
			if a.inner > 0 {
				a.add(s)
			}
		case xmlstream.Comment, xmlstream.ProcInst:
			a.mixed = a.mixed || a.inner > 0
		case xmlstream.End:
			a.close(s, v)
		}
	}
}

// startTag shows the references in the attributes of a start tag.
func startTag(s *xmlstream.Scanner, doc []byte, v visitor) {
	if !referring[string(s.Local())] {
		return
	}
	p := place{space: string(s.Space()), local: string(s.Local())}
	attrs := s.Attrs()
	for i := range attrs {
		at := &attrs[i]
		if len(at.Name.Prefix) > 0 {
			continue
		}
		p.attr = string(at.Name.Local)
		use, ok := places[p]
		if !ok {
			continue
		}
		start := int(at.Offset) + len(at.Name.Local)
		for doc[start] != at.Quote {
			start++
		}
		start++
		v.attribute(Ref{use, trimmed(at.AppendValue(nil))}, start, start+len(at.Raw), at.Quote)
	}
}

func trimmed(b []byte) string { return string(bytes.Trim(b, " \t\r\n")) }

func addressing(space []byte) bool { return string(space) == nsWSA || string(space) == nsWSA2004 }

// open enters an element.
func (a *epr) open(s *xmlstream.Scanner) {
	switch {
	case a.inner > 0:
		a.mixed = true
	case !addressing(s.Space()):
	case string(s.Local()) == "EndpointReference":
		a.outer = s.Depth()
	case string(s.Local()) == "Address" && a.outer > 0 && s.Depth() == a.outer+1:
		*a = epr{outer: a.outer, inner: s.Depth(), value: a.value[:0], start: -1}
	}
}

// add takes a piece of the address. The octets of the white space around the
// address are not part of it.
func (a *epr) add(s *xmlstream.Scanner) {
	raw := s.Raw()
	at := int(s.Offset())
	if a.start < 0 {
		lead := len(raw) - len(bytes.TrimLeft(raw, " \t\r\n"))
		if lead == len(raw) {
			return
		}
		a.start = at + lead
	}
	a.value = s.AppendText(a.value)
	if tail := bytes.TrimRight(raw, " \t\r\n"); len(tail) > 0 {
		a.end = at + len(tail)
	}
}

// close leaves an element.
func (a *epr) close(s *xmlstream.Scanner, v visitor) {
	switch s.Depth() {
	case a.inner:
		if a.start >= 0 && !a.mixed {
			v.text(Ref{Address, trimmed(a.value)}, a.start, a.end)
		}
		a.inner = 0
	case a.outer:
		a.outer = 0
	}
}
