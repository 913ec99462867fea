package wsdl

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"

	"soapway/xmlstream"
)

// An element is where an element stands in a document.
type element struct {
	space, local string
	start, end   int               // its octets
	name         int               // where its name ends: attributes may be added there
	content      int               // where the start tag ends
	close        int               // where the end tag begins; end, if there is none
	declared     map[string]string // namespaces by prefix; "" is the default; nil: none
	namespace    string            // attribute of an import
	target       string            // attribute targetNamespace
	targeted     bool              // has that attribute, which may be empty
	depth        int
}

func (e *element) contains(at int) bool { return e.start <= at && at < e.end }

// selfClosing reports whether the element is one tag.
func (e *element) selfClosing() bool { return e.close == e.end }

// An outline is what has to be known of a document to take it apart.
type outline struct {
	kind     Kind
	root     *element
	prefix   string     // of the root's name, with its colon
	children []*element // of the root
	types    *element   // nil: none
	schemas  []*element // in types, or the root
	places   []placed   // references, in order
	notes    []*element // documentation and appinfo of schemas
	defaults int        // declarations of a default namespace below the root
}

// placed is a reference, and where it stands.
type placed struct {
	Ref
	start, end int // of the value
	quote      byte
	of         *element // import, include, redefine and override; nil for others
}

// gather is a visitor that notes places.
type gather struct{ list *[]placed }

func (g gather) attribute(ref Ref, start, end int, quote byte) {
	*g.list = append(*g.list, placed{Ref: ref, start: start, end: end, quote: quote})
}

func (g gather) text(ref Ref, start, end int) {
	*g.list = append(*g.list, placed{Ref: ref, start: start, end: end})
}

// maxParts bounds what is remembered of a document.
const maxParts = 100_000

// outlineOf takes a document apart.
func outlineOf(doc []byte) (*outline, error) {
	o := &outline{}
	if err := walk(doc, gather{&o.places}); err != nil {
		return nil, fmt.Errorf("wsdl: flatten: %w", err)
	}
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	var open []*element
	next := 0 // reference
	for {
		kind, err := s.Next()
		switch {
		case err == io.EOF:
			return o, nil
		case err != nil:
			return nil, fmt.Errorf("wsdl: flatten: %w", err)
		case kind == xmlstream.Start:
			e := elementOf(s)
			open = append(open, e)
			if o.take(s, e, open); len(o.children)+len(o.notes) > maxParts {
				return nil, ErrFlat
			}
			for ; next < len(o.places) && o.places[next].start < e.content; next++ {
				if p := &o.places[next]; p.start > e.start && (p.Use == Import || p.Use == Schema) {
					p.of = e
				}
			}
		case kind == xmlstream.End:
			e := open[len(open)-1]
			open = open[:len(open)-1]
			e.close = int(s.Offset())
			e.end = e.close + len(s.Raw())
		}
	}
}

// take notes an element that begins.
func (o *outline) take(s *xmlstream.Scanner, e *element, open []*element) {
	if e.depth > 1 {
		if _, ok := e.declared[""]; ok {
			o.defaults++
		}
	}
	switch {
	case e.depth == 1:
		o.kind, o.root = kindOf(s), e
		if p := s.Name().Prefix; len(p) > 0 {
			o.prefix = string(p) + ":"
		}
		if o.kind == XMLSchema {
			o.schemas = append(o.schemas, e)
		}
	case e.depth == 2 && o.kind != XMLSchema:
		o.children = append(o.children, e)
		if o.describes(e) && e.local == "types" && o.types == nil {
			o.types = e
		}
	case e.depth == 3 && o.types != nil && open[1] == o.types && e.space == nsSchema && e.local == "schema":
		o.schemas = append(o.schemas, e)
	}
	if e.space == nsSchema && (e.local == "documentation" || e.local == "appinfo") {
		o.notes = append(o.notes, e)
	}
}

// describes reports whether an element is one of WSDL itself.
func (o *outline) describes(e *element) bool {
	return o.kind == WSDL11 && e.space == nsWSDL || o.kind == WSDL20 && e.space == nsWSDL20
}

// elementOf notes the start tag that the scanner is at.
func elementOf(s *xmlstream.Scanner) *element {
	e := &element{space: string(s.Space()), local: string(s.Local()), start: int(s.Offset()), depth: s.Depth()}
	raw := s.Raw()
	e.content = e.start + len(raw)
	e.name = e.start + 1
	if p := s.Name().Prefix; len(p) > 0 {
		e.name += len(p) + 1
	}
	e.name += len(e.local)
	attrs := s.Attrs()
	for i := range attrs {
		a := &attrs[i]
		value := string(a.AppendValue(nil))
		switch {
		case a.IsNamespace():
			if e.declared == nil {
				e.declared = map[string]string{}
			}
			prefix := ""
			if len(a.Name.Prefix) > 0 {
				prefix = string(a.Name.Local)
			}
			e.declared[prefix] = value
		case len(a.Name.Prefix) > 0:
		case string(a.Name.Local) == "namespace":
			e.namespace = strings.Trim(value, " ")
		case string(a.Name.Local) == "targetNamespace":
			e.target, e.targeted = strings.Trim(value, " "), true
		}
	}
	return e
}

// scope is what is declared around an element by others, the outermost first.
func scope(around ...*element) map[string]string {
	in := map[string]string{}
	for _, e := range around {
		maps.Copy(in, e.declared)
	}
	return in
}

// An edit puts text in the place of octets.
type edit struct {
	start, end int
	text       string
}

// splice appends doc[from:to] with the edits in it, which are in order.
func splice(dst, doc []byte, from, to int, edits []edit) []byte {
	for _, e := range edits {
		if e.start >= from && e.end <= to {
			dst = append(append(dst, doc[from:e.start]...), e.text...)
			from = e.end
		}
	}
	return append(dst, doc[from:to]...)
}

// without is the edit that removes the attribute of a reference, with the white
// space before it.
func (p *placed) without(doc []byte) edit {
	start := bytes.LastIndexByte(doc[:p.start-1], '=')
	start = len(bytes.TrimRight(doc[:start], " \t\r\n"))
	for start > 0 && !strings.ContainsRune(" \t\r\n", rune(doc[start-1])) {
		start--
	}
	return edit{len(bytes.TrimRight(doc[:start], " \t\r\n")), p.end + 1, ""}
}

// with is the edit that gives a reference another value.
func (p *placed) with(value string) edit {
	if p.quote == 0 {
		return edit{p.start, p.end, string(xmlstream.AppendEscapedText(nil, value))}
	}
	return edit{p.start, p.end, string(appendAttr(nil, value, p.quote))}
}
