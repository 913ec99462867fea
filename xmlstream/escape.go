package xmlstream

import "unicode/utf8"

// AppendEscapedText appends s as character data. It escapes &, <, > and the
// carriage return, which a reader would turn into a newline. Whatever XML has
// no way to write (XML 1.0 §2.2: most controls, U+FFFE, U+FFFF), and what is
// not UTF-8, becomes U+FFFD, so that the result is well-formed for any s.
func AppendEscapedText(dst []byte, s string) []byte { return appendEscaped(dst, s, false) }

// AppendEscapedAttr appends s as a value between double quotes: as
// [AppendEscapedText], and quotes, tabs and newlines are escaped too.
func AppendEscapedAttr(dst []byte, s string) []byte { return appendEscaped(dst, s, true) }

func appendEscaped(dst []byte, s string, attr bool) []byte {
	from := 0
	for i := 0; i < len(s); {
		c, n, with := s[i], 1, ""
		switch {
		case c >= 0x80:
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 || !isChar(r) {
				with = "\uFFFD"
			}
		case !attr && (c == '"' || c == '\t' || c == '\n'): // as they are
		case !isChar(rune(c)):
			with = "\uFFFD"
		default:
			with = reference(c)
		}
		if with != "" {
			dst = append(append(dst, s[from:i]...), with...)
			from = i + n
		}
		i += n
	}
	return append(dst, s[from:]...)
}

// reference returns what stands for an octet of ASCII that may not stand for
// itself in text or between double quotes, and "" for any other.
func reference(c byte) string {
	switch c {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case '"':
		return "&quot;"
	case '\t':
		return "&#9;"
	case '\n':
		return "&#10;"
	case '\r':
		return "&#13;"
	}
	return ""
}
