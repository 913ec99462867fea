package xmlstream

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// reference checks the reference that begins with the '&' at i and returns
// the index behind its ';' (XML 1.0 §4.1). It reads no further than it must
// and never searches for the ';', so a text of ampersands costs linear time.
func (s *Scanner) reference(i int) (int, error) {
	p := i + 1
	c, ok := s.at(p)
	if !ok {
		return 0, s.ended()
	}
	if c == '#' {
		return s.charReference(i)
	}
	// The longest name has four letters.
	for p-i <= 4 && class[c]&nameStart != 0 {
		p++
		if c, ok = s.at(p); !ok {
			return 0, s.ended()
		}
	}
	if c != ';' || predefined(s.buf[s.tok+i+1:s.tok+p]) == 0 {
		return 0, s.fault(i, ErrReference)
	}
	return p + 1, nil
}

// charReference is reference for &#…; and &#x…;.
func (s *Scanner) charReference(i int) (int, error) {
	p, base := i+2, rune(10)
	c, ok := s.at(p)
	if ok && c == 'x' {
		p, base = p+1, 16
		c, ok = s.at(p)
	}
	first, r := p, rune(0)
	for ; ok; c, ok = s.at(p) {
		if p-i > max(s.lim.Name, leastName) {
			return 0, s.exceeded(i, limitName, int64(s.lim.Name))
		}
		d := digit(c)
		if d >= base {
			break
		}
		r = min(r*base+d, utf8.MaxRune+1)
		p++
	}
	switch {
	case !ok:
		return 0, s.ended()
	case p == first || c != ';':
		return 0, s.fault(i, ErrReference)
	case !isChar(r):
		return 0, s.fault(i, ErrCharacter)
	}
	return p + 1, nil
}

// digit returns the value of a hexadecimal digit, or 16.
func digit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return 16
}

// predefined returns what a predefined entity stands for (XML 1.0 §4.6), or 0.
func predefined(name []byte) byte {
	switch string(name) {
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "amp":
		return '&'
	case "apos":
		return '\''
	case "quot":
		return '"'
	}
	return 0
}

// appendReference appends what the reference at the start of b stands for and
// returns its length. The reference has been checked.
func appendReference(dst, b []byte) ([]byte, int) {
	if b[1] != '#' {
		n := 1
		for b[n] != ';' {
			n++
		}
		return append(dst, predefined(b[1:n])), n + 1
	}
	n, base, r := 2, rune(10), rune(0)
	if b[n] == 'x' {
		n, base = 3, 16
	}
	for ; b[n] != ';'; n++ {
		r = r*base + digit(b[n])
	}
	return utf8.AppendRune(dst, r), n + 1
}

// appendText appends character data: line ends become \n (XML 1.0 §2.11) and,
// outside a CDATA section, references are replaced.
func appendText(dst, b []byte, references bool) []byte {
	from := 0
	for i := changes(b, 0); i < len(b); i = changes(b, i) {
		switch {
		case b[i] == '\r':
			dst = append(append(dst, b[from:i]...), '\n')
			if i++; i < len(b) && b[i] == '\n' {
				i++
			}
			from = i
		case references:
			var n int
			dst, n = appendReference(append(dst, b[from:i]...), b[i:])
			i += n
			from = i
		default:
			i++
		}
	}
	return append(dst, b[from:]...)
}

// changes returns the index, from i on, of the first '&' or '\r' of b, len(b)
// if there is none.
func changes(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		amp, cr := w^('&'*ones), w^('\r'*ones)
		if m := ((amp-ones)&^amp | (cr-ones)&^cr) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(b) && b[i] != '&' && b[i] != '\r' {
		i++
	}
	return i
}

// appendValue appends an attribute's normalized value: literal white space
// becomes blanks, what references stand for does not (XML 1.0 §3.3.3).
func appendValue(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '&':
			var n int
			dst, n = appendReference(dst, b[i:])
			i += n
			continue
		case '\t', '\n':
			dst = append(dst, ' ')
		case '\r':
			dst = append(dst, ' ')
			if i+1 < len(b) && b[i+1] == '\n' {
				i++
			}
		default:
			dst = append(dst, c)
		}
		i++
	}
	return dst
}
