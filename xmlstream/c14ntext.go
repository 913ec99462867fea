package xmlstream

import (
	"bytes"
	"unicode/utf8"
)

// appendCanonicalText appends character data as written, or the content of a
// CDATA section, in canonical form: line ends normalized, references replaced,
// and &, <, > and the carriage return written as references (Canonical XML 1.0
// §2.3).
//
// Hot path: must not allocate (TestCanonicalAllocs). Measure:
//
//	go test ./xmlstream -run '^$' -bench Canonical -count 10
func appendCanonicalText(dst, b []byte, references bool) []byte {
	from := 0
	for i := 0; i < len(b); {
		i = canonicalStop(b, i)
		if i == len(b) {
			break
		}
		dst = append(dst, b[from:i]...)
		switch c := b[i]; {
		case c == '\r':
			dst = append(dst, '\n')
			if i++; i < len(b) && b[i] == '\n' {
				i++
			}
		case c == '&' && references:
			var r rune
			var n int
			r, n = referenced(b[i:])
			dst = appendCanonicalRune(dst, r)
			i += n
		default:
			dst = appendCanonicalRune(dst, rune(c))
			i++
		}
		from = i
	}
	return append(dst, b[from:]...)
}

// canonicalStop returns the index, from i on, of the first octet that the
// canonical form writes in another way, or len(b).
func canonicalStop(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case '&', '<', '>', '\r':
			return i
		}
	}
	return i
}

func appendCanonicalRune(dst []byte, r rune) []byte {
	switch r {
	case '&':
		return append(dst, "&amp;"...)
	case '<':
		return append(dst, "&lt;"...)
	case '>':
		return append(dst, "&gt;"...)
	case '\r':
		return append(dst, "&#xD;"...)
	}
	return utf8.AppendRune(dst, r)
}

// referenced returns what the reference at the start of b stands for and its
// length. It has been checked.
func referenced(b []byte) (rune, int) {
	var room [utf8.UTFMax]byte
	text, n := appendReference(room[:0], b)
	r, _ := utf8.DecodeRune(text)
	return r, n
}

// appendCanonicalAttr appends a blank and an attribute in canonical form.
func appendCanonicalAttr(dst []byte, a *Attr) []byte {
	dst = append(dst, ' ')
	if len(a.Name.Prefix) > 0 {
		dst = append(append(dst, a.Name.Prefix...), ':')
	}
	dst = append(append(dst, a.Name.Local...), '=', '"')
	if a.plain && a.Quote == '"' {
		// No reference, and none of what must be one.
		return append(append(dst, a.Raw...), '"')
	}
	b := a.Raw
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '&':
			r, n := referenced(b[i:])
			i += n - 1
			if r < utf8.RuneSelf {
				dst = appendCanonicalOctet(dst, byte(r))
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		case '\r':
			dst = append(dst, ' ')
			if i+1 < len(b) && b[i+1] == '\n' {
				i++
			}
		case '\t', '\n':
			dst = append(dst, ' ')
		default:
			dst = appendCanonicalOctet(dst, c)
		}
	}
	return append(dst, '"')
}

// appendCanonicalValue appends a normalized value as it stands between the
// double quotes of the canonical form.
func appendCanonicalValue(dst, value []byte) []byte {
	if !bytes.ContainsAny(value, "&<\"\t\n\r") {
		return append(dst, value...)
	}
	for _, c := range value {
		dst = appendCanonicalOctet(dst, c)
	}
	return dst
}

func appendCanonicalOctet(dst []byte, c byte) []byte {
	switch c {
	case '&':
		return append(dst, "&amp;"...)
	case '<':
		return append(dst, "&lt;"...)
	case '"':
		return append(dst, "&quot;"...)
	case '\t':
		return append(dst, "&#x9;"...)
	case '\n':
		return append(dst, "&#xA;"...)
	case '\r':
		return append(dst, "&#xD;"...)
	}
	return append(dst, c)
}
