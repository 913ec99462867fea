package xmlstream

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"slices"
)

// canonicalBlock is how many octets gather before they are written to an
// io.Writer.
const canonicalBlock = 16 << 10

// maxInherited bounds the xml:* attributes of open elements that a
// [Canonicalizer] keeps for an apex that may come, in octets of their names
// and values.
const maxInherited = 1 << 20

// limitInherited is what maxInherited is called in an error.
const limitInherited = "octets of xml attributes in force"

// errAncestors reports that an apex was met whose ancestors are unknown.
var errAncestors = errors.New("the apex of an inclusive canonical form needs its ancestors: give their tokens to Skip")

// CanonicalOptions selects one of the canonical forms. The zero value is
// inclusive Canonical XML 1.0 without comments.
type CanonicalOptions struct {
	// Exclusive selects Exclusive XML Canonicalization 1.0, which renders a
	// namespace declaration where it is used and not where it was written.
	Exclusive bool
	// Comments keeps comments: the forms whose identifiers end in
	// "WithComments".
	Comments bool
	// Inclusive is the InclusiveNamespaces PrefixList of the exclusive form:
	// prefixes that are treated as the inclusive form treats all. The default
	// namespace is "#default". The inclusive form ignores it.
	Inclusive []string
}

// A Canonicalizer turns the tokens of a [Scanner] into canonical XML, one at a
// time. It keeps the namespace declarations that it has written for the open
// elements and nothing else of the document, so a form of any length is made in
// bounded memory; see [Scanner.Reset].
//
// For the canonical form of a document give all its tokens to
// [Canonicalizer.Append], or use [Canonicalizer.WriteDocument]. For that of one
// element, the apex, give all tokens before it to [Canonicalizer.Skip] and those
// from its start tag to its end tag to Append, or use
// [Canonicalizer.WriteElement] at its start tag. An element within that is left
// out, as the enveloped signature transform asks, is one whose tokens are not
// given to Append.
//
// It is made for reuse by Reset: in the good case a document costs no
// allocation. It is not safe for concurrent use.
type Canonicalizer struct {
	opt            CanonicalOptions
	listedPrefixes [][]byte // opt.Inclusive; the default namespace is ""

	open     int   // elements that Append has started and not ended
	marks    []int // for each of them, len(rendered.bindings) before it
	rendered scope // the declarations written for them
	past     bool  // the root element, or the apex, has ended
	going    bool  // the last token was a piece and goes on
	spaced   bool  // the blank between target and data of a PI is written

	// The ancestors that Skip has seen, for the inclusive form only.
	skipped   int    // elements
	inherited []kept // their xml:* attributes, outermost first
	text      []byte // what inherited points into

	namespaces []declared    // of the current tag
	attrs      []orderedAttr // of the current tag, in canonical order
	order      attrOrder
	extra      []Attr // those that the apex inherits
	out        []byte // for an io.Writer
}

// kept is one xml:* attribute of an ancestor: its local name is text[name:value],
// its value as written text[value:end].
type kept struct {
	depth            int
	name, value, end int
	quote            byte
	plain            bool
}

// declared is a namespace declaration that is about to be written.
type declared struct{ prefix, uri []byte }

// NewCanonicalizer returns one for the form that opt selects.
func NewCanonicalizer(opt CanonicalOptions) *Canonicalizer {
	c := &Canonicalizer{opt: opt}
	for _, p := range opt.Inclusive {
		if p == "#default" {
			p = ""
		}
		c.listedPrefixes = append(c.listedPrefixes, []byte(p))
	}
	c.rendered.seed = maphash.MakeSeed()
	c.Reset()
	return c
}

// Reset makes c ready for another document.
func (c *Canonicalizer) Reset() {
	c.open, c.skipped, c.past, c.going, c.spaced = 0, 0, false, false, false
	c.marks = recycle(c.marks)
	c.rendered.reset()
	c.order.reset()
	c.inherited = recycle(c.inherited)
	c.text = recycle(c.text)
	// What is left in these would keep an earlier document alive.
	clear(c.namespaces[:cap(c.namespaces)])
	clear(c.attrs[:cap(c.attrs)])
	clear(c.extra[:cap(c.extra)])
	c.namespaces, c.attrs, c.extra = recycle(c.namespaces), recycle(c.attrs), recycle(c.extra)
	if cap(c.out) > 4*canonicalBlock {
		c.out = nil
	}
}

// Skip takes note of the current token of s, which is not part of the canonical
// form. Only the tokens before an apex need it, and only in the inclusive form,
// which gives the apex the xml:* attributes of its ancestors (Canonical XML 1.0
// §2.4). It fails where those of all open elements have more than 1 MiB.
func (c *Canonicalizer) Skip(s *Scanner) error {
	if c.opt.Exclusive || c.open > 0 {
		return nil
	}
	switch s.kind {
	case Start:
		c.skipped++
		attrs := s.Attrs()
		for i := range attrs {
			if a := &attrs[i]; string(a.Name.Space) == xmlSpace {
				c.keep(a)
			}
		}
		if len(c.text) > maxInherited {
			return s.Fault(&LimitError{limitInherited, maxInherited})
		}
	case End:
		n := len(c.inherited)
		for n > 0 && c.inherited[n-1].depth == c.skipped {
			n--
			c.text = c.text[:c.inherited[n].name]
		}
		c.inherited = c.inherited[:n]
		c.skipped = max(c.skipped-1, 0)
	}
	return nil
}

func (c *Canonicalizer) keep(a *Attr) {
	k := kept{depth: c.skipped, name: len(c.text), quote: a.Quote, plain: a.plain}
	c.text = append(c.text, a.Name.Local...)
	k.value = len(c.text)
	c.text = append(c.text, a.Raw...)
	k.end = len(c.text)
	c.inherited = append(c.inherited, k)
}

// Append appends the canonical form of the current token of s. The first Start
// token it is given is the root element or the apex. It fails only if that is
// an apex whose ancestors were not given to Skip in the inclusive form, with an
// error that is not about the document.
func (c *Canonicalizer) Append(dst []byte, s *Scanner) ([]byte, error) {
	going := c.going
	c.going = s.Partial()
	switch s.kind {
	case Start:
		if c.open == 0 && !c.opt.Exclusive && s.Depth() > 1 && c.skipped != s.Depth()-1 {
			return dst, errAncestors
		}
		return c.start(dst, s), nil
	case End:
		if c.open == 0 {
			return dst, nil // of an ancestor
		}
		dst = append(appendName(append(dst, '<', '/'), s.Name()), '>')
		c.open--
		c.rendered.truncate(c.marks[c.open])
		c.order.truncate(&c.rendered)
		c.marks = c.marks[:c.open]
		c.past = c.open == 0
	case Text:
		if c.open > 0 {
			dst = appendCanonicalText(dst, s.Text(), true)
		}
	case CDATA:
		if c.open > 0 {
			dst = appendCanonicalText(dst, s.Text(), false)
		}
	case Comment:
		if c.opt.Comments {
			dst = c.comment(dst, s, going)
		}
	case ProcInst:
		dst = c.instruction(dst, s, going)
	}
	return dst, nil
}

// outside reports whether a comment or processing instruction stands outside
// the root element, where it has a line of its own (Canonical XML 1.0 §2.3).
// Beside an apex it is not part of the form, and Append is not given it.
func (c *Canonicalizer) outside() bool { return c.open == 0 }

func (c *Canonicalizer) comment(dst []byte, s *Scanner, going bool) []byte {
	if !going {
		if c.outside() && c.past {
			dst = append(dst, '\n')
		}
		dst = append(dst, "<!--"...)
	}
	dst = appendText(dst, s.Text(), false)
	if !s.Partial() {
		dst = append(dst, "-->"...)
		if c.outside() && !c.past {
			dst = append(dst, '\n')
		}
	}
	return dst
}

func (c *Canonicalizer) instruction(dst []byte, s *Scanner, going bool) []byte {
	if !going {
		if c.outside() && c.past {
			dst = append(dst, '\n')
		}
		dst = append(append(dst, "<?"...), s.Name().Local...)
		c.spaced = false
	}
	if data := s.Text(); len(data) > 0 {
		if !c.spaced {
			dst = append(dst, ' ')
			c.spaced = true
		}
		dst = appendText(dst, data, false)
	}
	if !s.Partial() {
		dst = append(dst, "?>"...)
		if c.outside() && !c.past {
			dst = append(dst, '\n')
		}
	}
	return dst
}

// start appends a start tag: its name, the declarations that no open element
// has written, sorted by prefix, and the attributes, sorted by namespace and
// local name (Canonical XML 1.0 §2.2, §2.3; Exclusive XML Canonicalization §3).
func (c *Canonicalizer) start(dst []byte, s *Scanner) []byte {
	apex := c.open == 0
	c.marks = append(c.marks, len(c.rendered.bindings))
	c.open++
	e := &s.open[len(s.open)-1]
	dst = append(append(dst, '<'), s.names[e.name.start:e.name.end]...)
	c.namespaces, c.attrs = c.namespaces[:0], c.attrs[:0]
	attrs := s.Attrs()
	for i := range attrs {
		if a := &attrs[i]; !a.IsNamespace() {
			c.attrs = append(c.attrs, orderedAttr{a, -1})
		}
	}
	inherited := false
	switch {
	case c.opt.Exclusive:
		c.used(s, attrs, apex)
	case apex:
		c.inScope(s)
		inherited = c.inherit()
	default:
		c.own(s, attrs)
	}
	if len(c.namespaces) > 1 {
		slices.SortFunc(c.namespaces, func(a, b declared) int { return bytes.Compare(a.prefix, b.prefix) })
	}
	if len(c.attrs) > 1 {
		c.rank()
		slices.SortStableFunc(c.attrs, compareAttrs)
	}
	if inherited {
		// Of one name the first counts: the apex's own, else the nearest.
		c.attrs = slices.CompactFunc(c.attrs, func(a, b orderedAttr) bool { return compareAttrs(a, b) == 0 })
	}
	for _, n := range c.namespaces {
		dst = append(dst, " xmlns"...)
		if len(n.prefix) > 0 {
			dst = append(append(dst, ':'), n.prefix...)
		}
		dst = append(dst, '=', '"')
		dst = append(appendCanonicalValue(dst, n.uri), '"')
	}
	for _, a := range c.attrs {
		dst = appendCanonicalAttr(dst, a.Attr)
	}
	return append(dst, '>')
}

// rank finds out the ranks of the long namespaces of the attributes, all of which
// have been declared by now.
func (c *Canonicalizer) rank() {
	for i := range c.attrs {
		if a := &c.attrs[i]; len(a.Name.Space) > longSpace {
			id, _ := c.rendered.lookup(a.Name.Prefix)
			a.rank = c.order.rank(&c.rendered, id)
		}
	}
}

// declare notes that a declaration must be written, unless the nearest open
// element that has one for the prefix says the same. That prefix xml is what
// it is goes without saying.
func (c *Canonicalizer) declare(prefix, uri []byte) {
	if string(prefix) == "xml" {
		return
	}
	if id, ok := c.rendered.lookup(prefix); ok && bytes.Equal(c.rendered.uri(id), uri) {
		return
	}
	c.rendered.declare(prefix, uri)
	c.namespaces = append(c.namespaces, declared{prefix, uri})
}

// own declares what the current tag declares.
func (c *Canonicalizer) own(s *Scanner, attrs []Attr) {
	for i := range attrs {
		if a := &attrs[i]; a.IsNamespace() {
			c.declareOwn(s, a)
		}
	}
}

func (c *Canonicalizer) declareOwn(s *Scanner, a *Attr) {
	prefix := a.Name.Local
	if len(a.Name.Prefix) == 0 {
		prefix = nil
	}
	uri, _ := s.Lookup(prefix)
	c.declare(prefix, uri)
}

// inScope declares all that is in force at the current tag.
func (c *Canonicalizer) inScope(s *Scanner) {
	for i := range s.scope.bindings {
		b := &s.scope.bindings[i]
		prefix := s.scope.text[b.prefix:b.prefixEnd]
		if id, _ := s.scope.lookup(prefix); id == b.uri {
			c.declare(prefix, s.scope.uri(id))
		}
	}
}

// used declares what the names of the current tag use, and of the prefixes in
// the list what the inclusive form would.
func (c *Canonicalizer) used(s *Scanner, attrs []Attr, apex bool) {
	name := s.Name()
	c.declare(name.Prefix, name.Space)
	for i := range attrs {
		switch a := &attrs[i]; {
		case a.IsNamespace():
			if !apex && c.listed(a) {
				c.declareOwn(s, a)
			}
		case len(a.Name.Prefix) > 0:
			c.declare(a.Name.Prefix, a.Name.Space)
		}
	}
	if !apex {
		return
	}
	for _, prefix := range c.listedPrefixes {
		if uri, ok := s.Lookup(prefix); ok {
			c.declare(prefix, uri)
		}
	}
}

// listed reports whether the prefix that a declares is in the PrefixList.
func (c *Canonicalizer) listed(a *Attr) bool {
	declared := a.Name.Local
	if len(a.Name.Prefix) == 0 {
		declared = nil
	}
	for _, prefix := range c.listedPrefixes {
		if bytes.Equal(prefix, declared) {
			return true
		}
	}
	return false
}

// inherit adds the xml:* attributes of the ancestors, the nearest first, to
// those of the apex. It reports whether there were any: then names may occur
// more than once.
func (c *Canonicalizer) inherit() bool {
	c.extra = c.extra[:0]
	for i := len(c.inherited) - 1; i >= 0; i-- {
		k := &c.inherited[i]
		c.extra = append(c.extra, Attr{
			Name:  Name{Prefix: xmlPrefix, Local: c.text[k.name:k.value], Space: xmlSpaceOctets},
			Raw:   c.text[k.value:k.end],
			Quote: k.quote,
			plain: k.plain,
		})
	}
	for i := range c.extra {
		c.attrs = append(c.attrs, orderedAttr{&c.extra[i], -1})
	}
	return len(c.extra) > 0
}

var (
	xmlPrefix      = []byte("xml")
	xmlSpaceOctets = []byte(xmlSpace)
)

// WriteDocument reads s from its next token to the end of the document and
// writes the canonical form to w. What s refuses, and what w fails with, comes
// out as it is.
func (c *Canonicalizer) WriteDocument(w io.Writer, s *Scanner) error {
	c.Reset()
	c.out = c.out[:0]
	for {
		if _, err := s.Next(); err == io.EOF {
			return c.flush(w, 0)
		} else if err != nil {
			return err
		}
		if err := c.write(w, s); err != nil {
			return err
		}
	}
}

// WriteElement writes the canonical form of the element whose start tag is the
// current token of s, and leaves s at its end tag. The inclusive form needs the
// tokens before it: see [Canonicalizer.Skip].
func (c *Canonicalizer) WriteElement(w io.Writer, s *Scanner) error {
	c.out = c.out[:0]
	for depth := s.Depth(); ; {
		if err := c.write(w, s); err != nil {
			return err
		}
		if s.kind == End && s.Depth() == depth {
			c.restart()
			return c.flush(w, 0)
		}
		if _, err := s.Next(); err != nil {
			return err
		}
	}
}

// appendName appends n as it was written.
func appendName(dst []byte, n Name) []byte {
	if len(n.Prefix) > 0 {
		dst = append(append(dst, n.Prefix...), ':')
	}
	return append(dst, n.Local...)
}

// restart lets c render another apex of the same document.
func (c *Canonicalizer) restart() { c.past, c.going = false, false }

func (c *Canonicalizer) write(w io.Writer, s *Scanner) error {
	var err error
	if c.out, err = c.Append(c.out, s); err != nil {
		return err
	}
	return c.flush(w, canonicalBlock)
}

// flush writes what has gathered, if it is at least that much.
func (c *Canonicalizer) flush(w io.Writer, least int) error {
	if len(c.out) < max(least, 1) {
		return nil
	}
	_, err := w.Write(c.out)
	c.out = c.out[:0]
	return err
}
