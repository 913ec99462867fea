package xmlstream

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"unicode/utf8"
)

// Namespace declares a namespace in the start tag that is being written, unless
// prefix means it already; "" is the default namespace. It is for content that
// holds qualified names, such as xsi:type, since names of elements and
// attributes declare what they need. It must come before the tag's attributes,
// and the tag must not use the prefix for another namespace. space must not be
// "" for a prefix.
func (p *Printer) Namespace(prefix, space string) {
	if p.err != nil {
		return
	}
	if p.tag < 0 || p.attributed || p.going != 0 {
		p.fail(errLateSpace)
		return
	}
	if err := checkName(prefix, "a", space); err != nil {
		p.fail(err)
		return
	}
	if space == xmlSpace && prefix != "xml" {
		p.fail(errXMLPrefix)
		return
	}
	if prefix == "xml" || p.bound(prefix, space) {
		return
	}
	e := &p.open[len(p.open)-1]
	used := e.name.prefixed() && string(p.names[e.name.start:e.name.colon]) == prefix || !e.name.prefixed() && prefix == ""
	if used || p.innermost(prefix) >= e.mark {
		p.fail(errOtherSpace)
		return
	}
	p.declare(prefix, space)
}

// Attr adds an attribute to the start tag that is being written. space may be
// "", no namespace; then prefix must be "" too.
func (p *Printer) Attr(prefix, local, space, value string) {
	if p.err != nil {
		return
	}
	if p.tag < 0 || p.going != 0 {
		p.fail(errLate)
		return
	}
	if space == xmlSpace {
		prefix = "xml"
	}
	if err := checkName(prefix, local, space); err != nil {
		p.fail(err)
		return
	}
	if prefix == "" && space == "" && local == "xmlns" {
		p.fail(errXMLNSPrefix)
		return
	}
	p.attributed = true
	uri := noURI
	if space != "" {
		prefix = p.attrPrefix(prefix, space)
		p.scrap = append(p.scrap[:0], prefix...)
		uri, _ = p.scope.lookup(p.scrap)
	}
	p.buf = append(p.buf, ' ')
	a := attrSpan{uri: uri}
	a.name.start = len(p.buf) - p.tag
	a.name.colon = a.name.start - 1
	if prefix != "" {
		a.name.colon = a.name.start + len(prefix)
	}
	p.buf = appendQName(p.buf, prefix, local)
	a.name.end = len(p.buf) - p.tag
	p.attrs = append(p.attrs, a)
	p.buf = append(p.buf, '=', '"')
	p.value(value)
	p.buf = append(p.buf, '"')
}

// value appends what stands between double quotes.
func (p *Printer) value(s string) {
	var err error
	if p.buf, err = appendChecked(p.buf, s, inValue); err != nil {
		p.fail(err)
	}
}

// unique reports whether the attributes of the tag differ.
func (p *Printer) unique() bool {
	if len(p.attrs) > 1 && p.twins.find(p.scope.seed, p.buf[p.tag:], p.attrs, true) >= 0 {
		p.fail(ErrDuplicate)
		return false
	}
	return true
}

// attrPrefix returns a prefix that means space in the tag, the one that was
// wished for if that is free: what is bound may have been used in the tag.
func (p *Printer) attrPrefix(wish, space string) string {
	if wish != "" {
		if p.bound(wish, space) {
			return wish
		}
		if p.innermost(wish) < 0 {
			p.declare(wish, space)
			return wish
		}
	}
	for i := len(p.scope.bindings) - 1; i >= 0; i-- {
		b := &p.scope.bindings[i]
		prefix := p.scope.text[b.prefix:b.prefixEnd]
		if len(prefix) > 0 && string(p.scope.uri(b.uri)) == space && p.scope.binding(prefix) == i {
			return string(prefix)
		}
	}
	for {
		p.generated++
		prefix := "ns" + strconv.Itoa(p.generated)
		if p.innermost(prefix) < 0 {
			p.declare(prefix, space)
			return prefix
		}
	}
}

// bound reports whether prefix means space now.
func (p *Printer) bound(prefix, space string) bool {
	p.scrap = append(p.scrap[:0], prefix...)
	id, ok := p.scope.lookup(p.scrap)
	return ok && string(p.scope.uri(id)) == space
}

// innermost returns the index of the binding of prefix in force, or -1.
func (p *Printer) innermost(prefix string) int {
	p.scrap = append(p.scrap[:0], prefix...)
	return p.scope.binding(p.scrap)
}

// binding returns the index of the binding of prefix in force, or -1.
func (x *scope) binding(prefix []byte) int {
	if x.prefixes.heads == nil {
		for i := len(x.bindings) - 1; i >= 0; i-- {
			if b := &x.bindings[i]; bytes.Equal(x.text[b.prefix:b.prefixEnd], prefix) {
				return i
			}
		}
		return -1
	}
	h := maphash.Bytes(x.seed, prefix)
	for i := x.prefixes.head(h); i >= 0; i = x.bindings[i].next {
		if b := &x.bindings[i]; b.hash == h && bytes.Equal(x.text[b.prefix:b.prefixEnd], prefix) {
			return i
		}
	}
	return -1
}

// declare writes a declaration that is needed.
func (p *Printer) declare(prefix, space string) {
	p.buf = append(p.buf, " xmlns"...)
	if prefix != "" {
		p.buf = append(append(p.buf, ':'), prefix...)
	}
	p.buf = append(p.buf, '=', '"')
	p.value(space)
	p.buf = append(p.buf, '"')
	p.scrap = append(append(p.scrap[:0], prefix...), space...)
	p.scope.declare(p.scrap[:len(prefix)], p.scrap[len(prefix):])
}

// checkName checks the parts of a name that is to be written.
func checkName(prefix, local, space string) error {
	switch {
	case !isNCName(local), prefix != "" && !isNCName(prefix):
		return errName
	case prefix == "xmlns":
		return errXMLNSPrefix
	case space == xmlnsSpace:
		return errXMLNSSpace
	case prefix == "xml" && space != xmlSpace:
		return errXMLPrefix
	case prefix != "" && space == "":
		return errNoSpace
	}
	return nil
}

// isNCName reports whether s is a name without a colon (Namespaces in XML 1.0
// §3 [4]).
func isNCName(s string) bool {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if class[c]&nameChar == 0 || i == 0 && class[c]&nameStart == 0 {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || !isNameChar(r) || i == 0 && !isNameStart(r) {
			return false
		}
		i += n
	}
	return s != ""
}

func appendQName(dst []byte, prefix, local string) []byte {
	if prefix != "" {
		dst = append(append(dst, prefix...), ':')
	}
	return append(dst, local...)
}
