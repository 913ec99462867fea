package xmlstream

import "unicode/utf8"

// where says what an octet must be written as, by the place where it stands.
type where uint8

const (
	inText    where = 1 << iota
	inValue         // between double quotes
	inSection       // in a CDATA section
	inOther         // in a comment or a processing instruction
)

// printStop has, for each octet, the places where it can't simply be copied.
var printStop = func() (t [256]where) {
	for c := range t {
		switch {
		case c >= utf8.RuneSelf, c == '\r', c < 0x20 && c != '\t' && c != '\n':
			t[c] = inText | inValue | inSection | inOther
		case c == '\t', c == '\n', c == '"':
			t[c] = inValue
		case c == '&', c == '<':
			t[c] = inText | inValue
		case c == '>':
			t[c] = inText | inValue | inSection
		}
	}
	return t
}()

// appendChecked appends s as it is written in that place, or fails at what XML
// can't say.
//
// Hot path: must not allocate (TestPrinterAllocs). Measure:
//
//	go test ./xmlstream -run '^$' -bench Printer -count 10
func appendChecked[T string | []byte](dst []byte, s T, in where) ([]byte, error) {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if printStop[c]&in == 0 {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			var room [utf8.UTFMax]byte
			r, n := utf8.DecodeRune(room[:copy(room[:], s[i:])])
			switch {
			case r == utf8.RuneError && n == 1:
				return dst, errUTF8
			case !isChar(r):
				return dst, ErrCharacter
			}
			i += n
			continue
		}
		with := ""
		switch {
		case c == '\r' && in == inSection:
			with = "]]>&#13;<![CDATA["
		case c == '\r' && in == inOther:
			return dst, errReturn
		case c == '>' && in == inSection:
			if i < 2 || s[i-1] != ']' || s[i-2] != ']' {
				i++
				continue
			}
			with = "]]><![CDATA[>"
		default:
			if with = reference(c); with == "" {
				return dst, ErrCharacter
			}
		}
		dst = append(append(dst, s[from:i]...), with...)
		i++
		from = i
	}
	return append(dst, s[from:]...), nil
}

// printPieces writes s, in several calls of the writer if it is long.
func printPieces[T string | []byte](p *Printer, s T, in where) {
	for len(s) > 0 && p.err == nil {
		n := len(s)
		// What a CDATA section can't hold must be seen whole.
		if p.w != nil && n > printBlock && in != inSection {
			n = printBlock
			for n > printBlock-utf8.UTFMax && s[n]&0xC0 == 0x80 {
				n-- // not inside a character
			}
		}
		var err error
		if p.buf, err = appendChecked(p.buf, s[:n], in); err != nil {
			p.fail(err)
			return
		}
		s = s[n:]
		p.gathered()
	}
}

func printText[T string | []byte](p *Printer, s T) {
	if len(s) == 0 || !p.content() {
		return
	}
	if len(p.open) == 0 {
		for i := range len(s) {
			if s[i] == '\r' {
				p.fail(errReturn)
				return
			}
			if class[s[i]]&blank == 0 {
				p.fail(errOutside)
				return
			}
		}
		p.buf = append(p.buf, s...)
		p.gathered()
		return
	}
	if p.tail == tailReturn && s[0] == '\n' {
		p.buf = append(p.buf, "&#10;"...)
		p.tail = tailNone
		s = s[1:]
	}
	p.tail = tailAfter(p.tail, s)
	printPieces(p, s, inText)
	if p.tail == tailReturn {
		p.tail = tailNone // it was written as a reference
	}
}

// tailAfter returns the tail when s has been written behind t.
func tailAfter[T string | []byte](t tail, s T) tail {
	n := len(s)
	if n == 0 {
		return t
	}
	switch s[n-1] {
	case '\r':
		return tailReturn
	case ']':
		if n > 1 && s[n-2] == ']' || n == 1 && (t == tailBracket || t == tailSection) {
			return tailSection
		}
		return tailBracket
	}
	return tailNone
}
