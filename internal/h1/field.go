package h1

import (
	"encoding/binary"
)

// Classes of octets, as bits of octets[c].
const (
	isToken = 1 << iota // tchar (RFC 9110 §5.6.2)
	isHost              // may stand in a Host field, with its port
	isPlain             // of a target that needs no look at its escapes
	isHex
)

var octets = func() (t [256]byte) {
	set := func(class byte, chars string) {
		for i := range len(chars) {
			t[chars[i]] |= class
		}
	}
	const alnum = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(isToken, alnum+"!#$%&'*+-.^_`|~")
	set(isHost, alnum+"!$%&()*+,-.:;=[']_~")
	set(isPlain, alnum+"-._~/?:@!$&'()*+,;=")
	set(isHex, "0123456789abcdefABCDEF")
	return t
}()

// all reports whether every octet of s is of a class.
func all[T string | []byte](s T, class byte) bool {
	for i := range len(s) {
		if octets[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// canonical spells a field name in place as net/textproto does, each part from
// a hyphen on with a capital, and reports whether it is a name at all.
func canonical(name []byte) bool {
	upper := true
	for i, c := range name {
		if octets[c]&isToken == 0 {
			return false
		}
		switch {
		case upper && 'a' <= c && c <= 'z':
			name[i] = c - ('a' - 'A')
		case !upper && 'A' <= c && c <= 'Z':
			name[i] = c + ('a' - 'A')
		}
		upper = c == '-'
	}
	return len(name) > 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// isValue reports whether v may be the value of a field (RFC 9110 §5.5): no
// control octets but the tab. Eight octets at a time: the first term of the sum
// finds those below a blank, the second DEL.
func isValue(v []byte) bool {
	for ; len(v) >= 8; v = v[8:] {
		x := binary.LittleEndian.Uint64(v)
		del := x ^ 0x7f*ones
		if ((x-0x20*ones)&^x|(del-ones)&^del)&highs != 0 && !isValueSlow(v[:8]) {
			return false
		}
	}
	return isValueSlow(v)
}

func isValueSlow(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// trim removes optional white space at both ends (RFC 9110 §5.6.3).
func trim(b []byte, start, end int) (int, int) {
	for start < end && (b[start] == ' ' || b[start] == '\t') {
		start++
	}
	for start < end && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	return start, end
}

// equalFold reports whether b is s, which is in lower case, in any case.
func equalFold[T string | []byte](b T, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range len(b) {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != s[i] {
			return false
		}
	}
	return true
}

// hasToken reports whether a list field has an element, whatever its case; token
// is in lower case.
func hasToken(list []byte, token string) bool {
	for len(list) > 0 {
		end := 0
		for end < len(list) && list[end] != ',' {
			end++
		}
		if from, to := trim(list, 0, end); equalFold(list[from:to], token) {
			return true
		}
		list = list[min(end+1, len(list)):]
	}
	return false
}

// number reads a Content-Length: digits only, at most what fits in 63 bits.
func number(v []byte) (int64, bool) {
	if len(v) == 0 || len(v) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
