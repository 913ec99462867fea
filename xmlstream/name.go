package xmlstream

// Name is an expanded name and the prefix it was written with. Its slices
// alias the scanner's buffers and die at the next [Scanner.Next].
type Name struct{ Prefix, Local, Space []byte }

// Is reports whether the expanded name is {space}local. It does not allocate.
func (n Name) Is(space, local string) bool {
	return string(n.Local) == local && string(n.Space) == space
}

// String returns {space}local, or local alone for a name in no namespace.
func (n Name) String() string {
	if len(n.Space) == 0 {
		return string(n.Local)
	}
	b := make([]byte, 0, len(n.Space)+len(n.Local)+2)
	b = append(b, '{')
	b = append(b, n.Space...)
	b = append(b, '}')
	return string(append(b, n.Local...))
}

// span is a qualified name in the window: w[start:end], the colon at w[colon],
// colon = start-1 if there is none, so that the local part begins at colon+1.
type span struct{ start, colon, end int }

func (n span) prefixed() bool { return n.colon >= n.start }

// qname reads the qualified name that begins start behind the token's start
// (Namespaces in XML 1.0 §4 [7]). A name that XML allows and Namespaces does
// not is ErrNamespace, any other is ErrMalformed.
//
// The limit is looked at before whatever else may be wrong, wherever the scan
// pauses, so that the result does not depend on where the reads end.
func (s *Scanner) qname(start int) (span, error) {
	n := span{start: start, colon: start - 1}
	w, i := s.window(), start
	for {
		for i < len(w) && class[w[i]]&nameChar != 0 {
			i++
		}
		if i-start > s.lim.Name {
			return n, s.exceeded(start+s.lim.Name, limitName, int64(s.lim.Name))
		}
		if i == len(w) {
			if !s.more() {
				return n, s.ended()
			}
			w = s.window()
			continue
		}
		if c := w[i]; c == ':' {
			if n.prefixed() {
				return n, s.fault(i, errColon)
			}
			n.colon = i
			i++
		} else if c >= 0x80 {
			size, err := s.nameRune(i, i == start, i == n.colon+1)
			if err != nil {
				return n, err
			}
			w = s.window()
			i += size
		} else {
			break
		}
	}
	n.end = i
	switch c := w[start]; {
	case i == start:
		return n, s.fault(start, errName)
	case c < 0x80 && class[c]&nameStart == 0 && c != ':':
		return n, s.fault(start, errName)
	}
	if n.prefixed() {
		if n.colon == start || n.colon+1 == i {
			return n, s.fault(n.colon, errColon)
		}
		if c := w[n.colon+1]; c < 0x80 && class[c]&nameStart == 0 {
			return n, s.fault(n.colon+1, errColon)
		}
	}
	return n, nil
}

// nameRune checks the character of a name that begins at i and is not ASCII,
// and returns its length.
func (s *Scanner) nameRune(i int, first, firstOfPart bool) (int, error) {
	r, size, err := s.rune(i)
	switch {
	case err != nil:
		return 0, err
	case isNameStart(r):
		return size, nil
	case !isNameChar(r):
		return 0, s.fault(i, errNameChar)
	case first:
		return 0, s.fault(i, errName)
	case firstOfPart:
		return 0, s.fault(i, errColon)
	}
	return size, nil
}

// rune decodes the sequence that begins at i, which is not ASCII, and checks
// that XML allows the character.
func (s *Scanner) rune(i int) (r rune, size int, err error) {
	c := s.buf[s.tok+i]
	size = sequenceLen(c)
	if size == 0 {
		return 0, 0, s.fault(i, errUTF8)
	}
	if _, ok := s.at(i + size - 1); !ok {
		return 0, 0, s.ended()
	}
	r = sequence(s.buf[s.tok+i : s.tok+i+size])
	switch {
	case r < 0:
		return 0, 0, s.fault(i, errUTF8)
	case !isChar(r):
		return 0, 0, s.fault(i, ErrCharacter)
	}
	return r, size, nil
}
