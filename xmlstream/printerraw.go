package xmlstream

// Raw writes the current token of s octet for octet. A start tag whose parent
// was not written by Raw before it gets the declarations that are in force at s
// and not here, so that all names in it, also those in its content and values,
// keep their meaning; nothing else is added. A caller that leaves tokens out, or
// puts others between, still writes what is well-formed: an octet that would
// then mean something else, such as the '>' of "]]" and ">", is escaped.
//
// What comes in pieces must come whole: see [Scanner.Partial]. Character data
// outside the root element must be white space, an end tag must be that of the
// innermost element.
func (p *Printer) Raw(s *Scanner) {
	if p.err != nil {
		return
	}
	raw := s.Raw()
	switch s.kind {
	case Declaration:
		if p.begun {
			p.fail(errPlacement)
			return
		}
		p.begun = true
		p.buf = append(p.buf, raw...)
	case Start:
		p.rawStart(s, raw)
	case End:
		p.rawEnd(s, raw)
	case Text:
		p.rawText(raw)
	case CDATA, Comment, ProcInst:
		p.rawSection(s, raw)
	default:
		p.fail(errNoToken)
	}
}

// RawElement writes the element whose start tag is the current token of s octet
// for octet, as Raw does, and leaves s at its end tag. It returns the printer's
// first error or the scanner's; after the latter the document can't be finished.
func (p *Printer) RawElement(s *Scanner) error {
	if s.kind != Start {
		p.fail(errNoToken)
		return p.err
	}
	for depth := s.Depth(); ; {
		p.Raw(s)
		if p.err != nil {
			return p.err
		}
		if s.kind == End && s.Depth() == depth {
			return nil
		}
		if _, err := s.Next(); err != nil {
			if p.err == nil {
				p.err = err
			}
			return err
		}
	}
}

func (p *Printer) rawStart(s *Scanner, raw []byte) {
	if !p.mayOpen() {
		return
	}
	p.tail = tailNone
	name, attrs := s.Name(), s.Attrs()
	length := len(name.Local)
	if len(name.Prefix) > 0 {
		length += len(name.Prefix) + 1
	}
	mark := len(p.scope.bindings)
	within := false
	if n := len(p.open); n > 0 {
		within = p.source == s && p.open[n-1].copied > 0 && p.open[n-1].copied == s.Depth()-1
	}
	start := len(p.buf)
	p.buf = append(p.buf, raw[:1+length]...)
	p.ownSpaces(s, attrs)
	if !within || !p.means(name, attrs) {
		p.scope.truncate(mark)
		p.missingSpaces(s)
		p.ownSpaces(s, attrs)
	}
	p.push(p.buf[start+1:start+1+length], len(name.Prefix), mark)
	e := &p.open[len(p.open)-1]
	e.copied, e.ended = s.Depth(), s.SelfClosing()
	p.source = s
	p.buf = append(p.buf, raw[1+length:]...)
	p.gathered()
}

// ownSpaces notes the declarations of the tag.
func (p *Printer) ownSpaces(s *Scanner, attrs []Attr) {
	for i := range attrs {
		a := &attrs[i]
		if !a.IsNamespace() {
			continue
		}
		prefix := a.Name.Local
		if len(a.Name.Prefix) == 0 {
			prefix = nil
		}
		uri, _ := s.Lookup(prefix)
		p.scope.declare(prefix, uri)
	}
}

// means reports whether the names of the tag mean here what they mean at their
// source: a caller may have reset the scanner in between.
func (p *Printer) means(name Name, attrs []Attr) bool {
	if id, ok := p.scope.lookup(name.Prefix); !ok || string(p.scope.uri(id)) != string(name.Space) {
		return false
	}
	for i := range attrs {
		a := &attrs[i]
		if len(a.Name.Prefix) == 0 || a.IsNamespace() {
			continue
		}
		if id, ok := p.scope.lookup(a.Name.Prefix); !ok || string(p.scope.uri(id)) != string(a.Name.Space) {
			return false
		}
	}
	return true
}

// missingSpaces declares what is in force at the current tag of s, is not
// declared in it, and is not in force here.
func (p *Printer) missingSpaces(s *Scanner) {
	x := &s.scope
	own := s.open[len(s.open)-1].mark
	hasDefault := false
	for i := range x.bindings {
		b := &x.bindings[i]
		prefix := x.text[b.prefix:b.prefixEnd]
		hasDefault = hasDefault || len(prefix) == 0
		if i >= own || x.binding(prefix) != i {
			continue
		}
		uri := x.uri(b.uri)
		if id, ok := p.scope.lookup(prefix); ok && string(p.scope.uri(id)) == string(uri) {
			continue
		}
		p.declareOctets(prefix, uri)
	}
	if id, _ := p.scope.lookup(nil); id != noURI && !hasDefault {
		p.declareOctets(nil, nil)
	}
}

func (p *Printer) declareOctets(prefix, uri []byte) {
	p.buf = append(p.buf, " xmlns"...)
	if len(prefix) > 0 {
		p.buf = append(append(p.buf, ':'), prefix...)
	}
	p.buf = append(p.buf, '=', '"')
	// It has come from a scanner, so there is nothing to refuse.
	p.buf, _ = appendChecked(p.buf, uri, inValue)
	p.buf = append(p.buf, '"')
	p.scope.declare(prefix, uri)
}

func (p *Printer) rawEnd(s *Scanner, raw []byte) {
	if !p.whole() {
		return
	}
	if len(p.open) == 0 {
		p.fail(errStrayEnd)
		return
	}
	e := &p.open[len(p.open)-1]
	p.scrap = appendName(p.scrap[:0], s.Name())
	if string(p.scrap) != string(p.names[e.name.start:e.name.end]) {
		p.fail(ErrMismatch)
		return
	}
	if e.ended || len(raw) == 0 {
		p.End()
		return
	}
	if !p.content() {
		return
	}
	p.buf = append(p.buf, raw...)
	p.pop()
}

func (p *Printer) rawText(raw []byte) {
	if !p.content() || len(raw) == 0 {
		return
	}
	if len(p.open) == 0 {
		for _, c := range raw {
			if class[c]&blank == 0 {
				p.fail(errOutside)
				return
			}
		}
		p.buf = append(p.buf, raw...)
		p.gathered()
		return
	}
	// What joins the octets before must not change their meaning.
	rest := raw
	bracket := p.tail == tailBracket || p.tail == tailSection
	if bracket && len(rest) > 1 && rest[0] == ']' && rest[1] == '>' {
		p.buf = append(p.buf, ']')
		p.tail, rest = tailSection, rest[1:]
	}
	switch {
	case p.tail == tailSection && rest[0] == '>':
		p.buf = append(p.buf, "&gt;"...)
		p.tail, rest = tailNone, rest[1:]
	case p.tail == tailReturn && rest[0] == '\n':
		p.buf = append(p.buf, "&#10;"...)
		p.tail, rest = tailNone, rest[1:]
	}
	p.tail = tailAfter(p.tail, rest)
	p.buf = append(p.buf, rest...)
	p.gathered()
}

func (p *Printer) rawSection(s *Scanner, raw []byte) {
	first := s.lo > s.tok && raw[0] == '<'
	switch {
	case first:
		if !p.content() {
			return
		}
		if s.kind == CDATA && len(p.open) == 0 {
			p.fail(errOutside)
			return
		}
		p.tail = tailNone
	case p.going != s.kind:
		p.fail(errNoPiece)
		return
	}
	p.buf = append(p.buf, raw...)
	p.going = 0
	if s.Partial() {
		p.going = s.kind
	}
	p.gathered()
}
