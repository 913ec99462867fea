package xmlstream

// The classes of an octet, one bit each. A scan loop stops at the octets of
// the classes in its mask and looks at nothing else.
const (
	nameStart  = 1 << iota // ASCII letters and '_'
	nameChar               // nameStart, digits, '-', '.'
	blank                  // space, \t, \n, \r
	stopText               // ends or interrupts character data
	stopDouble             // … a value in double quotes
	stopSingle             // … a value in single quotes
	stopCDATA              // … a CDATA section
	stopOther              // … a comment or a processing instruction
)

// stopAll marks what no content may pass unseen: controls, and octets that are
// not ASCII and so must be checked as UTF-8.
const stopAll = stopText | stopDouble | stopSingle | stopCDATA | stopOther

// class has 256 entries, so an octet indexes it without a bounds check.
var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '_':
			t[c] = nameStart | nameChar
		case '0' <= c && c <= '9', c == '.':
			t[c] = nameChar
		case c == '-':
			t[c] = nameChar | stopOther
		case c == '?':
			t[c] = stopOther
		case c == ' ':
			t[c] = blank
		case c == '\t', c == '\n', c == '\r':
			// A value notes that it holds them; see Attr.plain.
			t[c] = blank | stopDouble | stopSingle
		case c < 0x20, c >= 0x80:
			t[c] = stopAll
		case c == '<':
			t[c] = stopText | stopDouble | stopSingle
		case c == '&':
			t[c] = stopText | stopDouble | stopSingle
		case c == ']':
			t[c] = stopText | stopCDATA
		case c == '"':
			t[c] = stopDouble
		case c == '\'':
			t[c] = stopSingle
		}
	}
	return t
}()

// sequenceLen returns the length that the lead octet of a UTF-8 sequence
// announces, or 0 if c cannot lead one.
func sequenceLen(c byte) int {
	switch {
	case c < 0xC2:
		return 0
	case c < 0xE0:
		return 2
	case c < 0xF0:
		return 3
	case c < 0xF5:
		return 4
	}
	return 0
}

// sequence returns the character that the sequence b encodes, len(b) being
// what its lead octet announced, or -1 if b is not UTF-8 (Unicode §3.9, D92:
// no surrogates, no overlong forms).
func sequence(b []byte) rune {
	switch len(b) {
	case 2:
		if b[1]&0xC0 == 0x80 {
			return rune(b[0]&0x1F)<<6 | rune(b[1]&0x3F)
		}
	case 3:
		if b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 {
			r := rune(b[0]&0x0F)<<12 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F)
			if r >= 0x800 && (r < 0xD800 || r > 0xDFFF) {
				return r
			}
		}
	case 4:
		if b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 && b[3]&0xC0 == 0x80 {
			r := rune(b[0]&0x07)<<18 | rune(b[1]&0x3F)<<12 | rune(b[2]&0x3F)<<6 | rune(b[3]&0x3F)
			if r >= 0x10000 && r <= 0x10FFFF {
				return r
			}
		}
	}
	return -1
}

// isChar reports whether r is a Char (XML 1.0 §2.2 [2]).
func isChar(r rune) bool {
	switch {
	case r < 0x20:
		return r == '\t' || r == '\n' || r == '\r'
	case r < 0xD800:
		return true
	case r < 0x10000:
		return r >= 0xE000 && r < 0xFFFE
	}
	return r <= 0x10FFFF
}

// isNameStart reports whether r, not ASCII, is a NameStartChar (XML 1.0
// Fifth Edition §2.3 [4]).
func isNameStart(r rune) bool {
	switch {
	case r < 0x2000:
		return r >= 0xC0 && r != 0xD7 && r != 0xF7 && (r < 0x300 || r > 0x36F) && r != 0x37E
	case r < 0x3001:
		return r == 0x200C || r == 0x200D || r >= 0x2070 && r <= 0x218F || r >= 0x2C00 && r <= 0x2FEF
	}
	return r <= 0xD7FF || r >= 0xF900 && r <= 0xFDCF || r >= 0xFDF0 && r <= 0xFFFD || r >= 0x10000 && r <= 0xEFFFF
}

// isNameChar reports whether r, not ASCII, is a NameChar (XML 1.0 Fifth
// Edition §2.3 [4a]).
func isNameChar(r rune) bool {
	return isNameStart(r) || r == 0xB7 || r >= 0x300 && r <= 0x36F || r == 0x203F || r == 0x2040
}
