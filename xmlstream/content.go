package xmlstream

// text scans a run of character data inside the root element, or a piece of
// one (XML 1.0 §2.4 [14]). Its first i octets are good.
//
// What must not be cut (a UTF-8 sequence, a reference, a "]]>" that is an
// error) is put off to the next piece when it might not end within this one.
// That is decided by its place in the token alone, never by what has been
// read, so the pieces do not depend on the size of the reads.
func (s *Scanner) text(i int) (Kind, error) {
	w := s.window()
	for {
		if n := min(len(w), s.piece); i < n {
			i = textStop(w[:n], i)
		}
		if i == len(w) {
			if !s.more() {
				return 0, s.ended()
			}
			w = s.window()
			continue
		}
		c := w[i]
		switch {
		case c == '<':
			return Text, s.deliver(0, i, i, false)
		case i >= s.piece:
			if w[i-1] == '\r' {
				i--
			}
			return Text, s.deliver(0, i, i, true)
		case c == '&':
			end, err := s.reference(i)
			if err != nil {
				return 0, err
			}
			if end > s.piece && i > 0 {
				return Text, s.deliver(0, i, i, true)
			}
			i = end
			w = s.window()
		case c == ']':
			if i+3 > s.piece {
				return Text, s.deliver(0, i, i, true)
			}
			end, err := s.delimiter(i, "]]>")
			if err != nil {
				return 0, err
			}
			if end {
				return 0, s.fault(i, errSectionEnd)
			}
			i++
			w = s.window()
		case c < 0x80:
			return 0, s.fault(i, ErrCharacter)
		default:
			if i+sequenceLen(c) > s.piece {
				return Text, s.deliver(0, i, i, true)
			}
			_, n, err := s.rune(i)
			if err != nil {
				return 0, err
			}
			i += n
			w = s.window()
		}
	}
}

// space scans white space outside the root element, the only character data
// that may stand there (XML 1.0 §2.8 [27]).
func (s *Scanner) space() (Kind, error) {
	w, i := s.window(), 0
	for {
		for n := min(len(w), s.piece); i < n && class[w[i]]&blank != 0; {
			i++
		}
		if i == len(w) {
			if s.more() {
				w = s.window()
				continue
			}
			// Behind the root element white space may end the document.
			if !s.rooted || !s.inputEnded() {
				return 0, s.ended()
			}
			return Text, s.deliver(0, i, i, false)
		}
		switch c := w[i]; {
		case c == '<':
			return Text, s.deliver(0, i, i, false)
		case class[c]&blank == 0:
			return 0, s.fault(i, errOutside)
		}
		if w[i-1] == '\r' {
			i--
		}
		return Text, s.deliver(0, i, i, true)
	}
}

// delimiter reports whether text follows at i, reading no further than the
// first octet that differs.
func (s *Scanner) delimiter(i int, text string) (bool, error) {
	for k := range len(text) {
		c, ok := s.at(i + k)
		if !ok {
			return false, s.ended()
		}
		if c != text[k] {
			return false, nil
		}
	}
	return true, nil
}

// deliver ends the token at end, its content being [lo,hi), all counted from
// the token's start.
func (s *Scanner) deliver(lo, hi, end int, partial bool) error {
	if n := int64(hi - lo); n > s.lim.Text-s.run {
		return s.exceeded(lo+int(s.lim.Text-s.run), limitText, s.lim.Text)
	} else {
		s.run += n
	}
	s.lo, s.hi, s.pos = s.tok+lo, s.tok+hi, s.tok+end
	s.partial = partial
	return nil
}

// goOn scans the next piece of what the last token began.
func (s *Scanner) goOn() (Kind, error) {
	if s.kind == Text {
		if len(s.open) == 0 {
			return s.space()
		}
		return s.text(0)
	}
	return s.section(s.kind, 0)
}

// markup scans what begins with "<!".
func (s *Scanner) markup() (Kind, error) {
	c, ok := s.at(2)
	if !ok {
		return 0, s.ended()
	}
	switch c {
	case '-':
		if err := s.expect(2, "--", errMarkup); err != nil {
			return 0, err
		}
		return s.section(Comment, len("<!--"))
	case '[':
		if err := s.expect(2, "[CDATA[", errMarkup); err != nil {
			return 0, err
		}
		if len(s.open) == 0 {
			return 0, s.fault(0, errOutside)
		}
		return s.section(CDATA, len("<![CDATA["))
	case 'D':
		if err := s.expect(2, "DOCTYPE", errMarkup); err != nil {
			return 0, err
		}
		return 0, s.fault(0, ErrDoctype)
	}
	return 0, s.fault(2, errMarkup)
}

// expect demands text at i, and reports the first octet that differs.
func (s *Scanner) expect(i int, text string, reason error) error {
	for k := range len(text) {
		c, ok := s.at(i + k)
		if !ok {
			return s.ended()
		}
		if c != text[k] {
			return s.fault(i+k, reason)
		}
	}
	return nil
}

// instruction scans what begins with "<?" and is not the XML declaration
// (XML 1.0 §2.6).
func (s *Scanner) instruction() (Kind, error) {
	name, err := s.qname(2)
	if err != nil {
		return 0, err
	}
	target := s.window()[name.start:name.end]
	switch {
	case string(target) == "xml":
		if s.kind == 0 {
			return 0, s.fault(name.end, errDeclaration)
		}
		return 0, s.fault(0, errPlacement)
	case len(target) == 3 && target[0]|0x20 == 'x' && target[1]|0x20 == 'm' && target[2]|0x20 == 'l':
		return 0, s.fault(name.start, errTarget)
	case name.prefixed():
		// Namespaces in XML 1.0 §7: no colon in a target.
		return 0, s.fault(name.colon, errColon)
	}
	c, ok := s.at(name.end)
	switch {
	case !ok:
		return 0, s.ended()
	case class[c]&blank != 0:
	case c != '?':
		return 0, s.fault(name.end, errNameChar)
	default:
		if err := s.expect(name.end, "?>", errPI); err != nil {
			return 0, err
		}
	}
	s.target = append(s.target[:0], s.window()[name.start:name.end]...)
	s.trim = true
	return s.section(ProcInst, name.end)
}

// section scans a CDATA section, comment or processing instruction, or a
// piece of one, whose content begins at from.
func (s *Scanner) section(k Kind, from int) (Kind, error) {
	closing, stop, first, t := "]]>", uint8(stopCDATA), byte(']'), cdataNibbles
	switch k {
	case Comment:
		closing, stop, first, t = "-->", stopOther, '-', otherNibbles
	case ProcInst:
		closing, stop, first, t = "?>", stopOther, '?', otherNibbles
	}
	piece := max(s.piece, from)
	w, i := s.window(), from
	for {
		if n := min(len(w), piece); i < n {
			i = classStop(w[:n], i, stop, t)
		}
		if i >= piece {
			if w[i-1] == '\r' {
				i--
			}
			return k, s.part(k, from, i, i, true)
		}
		if i == len(w) {
			if !s.more() {
				return 0, s.ended()
			}
			w = s.window()
			continue
		}
		switch c := w[i]; {
		case c == first:
			if i+len(closing) > piece {
				return k, s.part(k, from, i, i, true)
			}
			end, err := s.delimiter(i, closing)
			if err != nil {
				return 0, err
			}
			if end {
				return k, s.part(k, from, i, i+len(closing), false)
			}
			w = s.window()
			if k == Comment && w[i+1] == '-' {
				return 0, s.fault(i, errHyphens)
			}
			i++
		case c < 0x20:
			return 0, s.fault(i, ErrCharacter)
		case c < 0x80:
			i++ // the other kind's delimiter
		default:
			if i+sequenceLen(c) > piece {
				return k, s.part(k, from, i, i, true)
			}
			_, n, err := s.rune(i)
			if err != nil {
				return 0, err
			}
			i += n
			w = s.window()
		}
	}
}

// part is deliver, less the white space that divides a PI's target from its
// data, which is neither's.
func (s *Scanner) part(k Kind, lo, hi, end int, partial bool) error {
	if k == ProcInst && s.trim {
		w := s.window()
		for lo < hi && class[w[lo]]&blank != 0 {
			lo++
		}
		s.trim = lo == hi
	}
	return s.deliver(lo, hi, end, partial)
}
