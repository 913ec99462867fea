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

// walk shows every reference of a document to v.
func walk(doc []byte, v visitor) error {
	w := walker{s: xmlstream.NewScanner(xmlstream.Limits{}), v: v}
	w.s.ResetBytes(doc)
	return w.walk()
}

// A walker looks for references, token by token.
type walker struct {
	s    *xmlstream.Scanner
	v    visitor
	epr  epr
	kind Kind // of the root

	rooted bool  // the root has begun
	closed bool  // and ended,
	end    int64 // where its end tag begins: what stands there must wait
	whole  bool  // all of the document was good
}

// settled is the offset before which nothing depends on what follows: all references
// that stand there were shown. The end of the root is settled with that of the
// document. It may be called while the scanner reads.
func (w *walker) settled() int64 {
	switch {
	case w.whole:
		return w.s.InputOffset()
	case w.closed:
		return w.end
	case w.epr.inner > 0:
		return w.epr.from
	case !w.rooted:
		return 0
	}
	return w.s.Offset()
}

// next is the next token that may matter.
func (w *walker) next() (xmlstream.Kind, error) {
	if w.rooted && w.epr.outer == 0 {
		return w.s.Seek()
	}
	return w.s.Next()
}

// walk goes to the end of the document. Hot path: the scanner passes over what
// refers to nothing. Measure: go test ./soapcodec/wsdl -run '^$' -bench Rewrite
func (w *walker) walk() error {
	s := w.s
	s.Watch(refers)
	for {
		kind, err := w.next()
		switch {
		case err == io.EOF:
			w.whole = true
			return nil
		case err != nil:
			return err
		}
		switch kind {
		case xmlstream.Start:
			w.start()
		case xmlstream.End:
			if w.epr.outer > 0 {
				w.epr.close(s, w.v)
			}
			if s.Depth() == 1 && !w.closed {
				w.closed, w.end = true, s.Offset()
			}
		case xmlstream.Text, xmlstream.CDATA:
			if w.epr.inner > 0 {
				w.epr.add(s)
			}
		case xmlstream.Comment, xmlstream.ProcInst:
			w.epr.mixed = w.epr.mixed || w.epr.inner > 0
		}
	}
}

// start takes a start tag that may matter.
func (w *walker) start() {
	if !w.rooted {
		w.rooted, w.kind = true, kindOf(w.s)
		w.closed, w.end = w.s.SelfClosing(), w.s.Offset()
	}
	startTag(w.s, w.v)
	w.epr.open(w.s)
}

// startTag shows the references in the attributes of a start tag.
func startTag(s *xmlstream.Scanner, v visitor) {
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
		start := int(at.Offset-s.Offset()) + len(at.Name.Local)
		for s.Raw()[start] != at.Quote {
			start++
		}
		start += int(s.Offset()) + 1
		v.attribute(Ref{use, trimmed(at.AppendValue(nil))}, start, start+len(at.Raw), at.Quote)
	}
}

func trimmed(b []byte) string { return string(bytes.Trim(b, " \t\r\n")) }

func addressing(space []byte) bool { return string(space) == nsWSA || string(space) == nsWSA2004 }

// epr follows an Address in an EndpointReference of WS-Addressing, the one
// reference that is text.
type epr struct {
	outer      int   // depth of the EndpointReference, 0 outside
	inner      int   // depth of the Address, 0 outside
	from       int64 // where that begins
	value      []byte
	start, end int // octets of its text
	mixed      bool
}

// open enters an element.
func (a *epr) open(s *xmlstream.Scanner) {
	switch {
	case a.inner > 0:
		a.mixed = true
	case !addressing(s.Space()):
	case string(s.Local()) == "EndpointReference":
		a.outer = s.Depth()
	case string(s.Local()) == "Address" && a.outer > 0 && s.Depth() == a.outer+1:
		*a = epr{outer: a.outer, inner: s.Depth(), from: s.Offset(), value: a.value[:0], start: -1}
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
