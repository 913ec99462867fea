package soapcodec

import "strings"

const typeXOP = "application/xop+xml"

// maxBoundary is the longest boundary that is taken. RFC 2046 §5.1.1 allows 70
// octets, and some senders need a few more.
const maxBoundary = 200

// parsePackage reads the parameters of a package. One of them that occurs
// twice, or in the extended form of RFC 2231 (boundary*0), is read differently
// by different receivers, and which part is checked depends on it: then
// Boundary stays empty and the field is that of no package.
func (c *ContentType) parsePackage(field string) {
	var seen [4]bool
	var inner string // the type parameter with its own parameters
	clear := true
	for p := range parameters(field) {
		base, _, extended := strings.Cut(p.name, "*")
		for i, name := range [...]string{"boundary", "type", "start", "start-info"} {
			if !strings.EqualFold(base, name) {
				continue
			}
			rest := field[p.end:]
			rest = rest[:typeEnd(rest)] // `boundary="a"b` is two things to two receivers
			clear = clear && !extended && !seen[i] && strings.Trim(rest, blanks) == ""
			seen[i] = true
			value := p.unquoted()
			switch i {
			case 0:
				clear = clear && isBoundary(value, p.quoted)
				c.Boundary = value
			case 1:
				inner, c.TypeParam = value, essence(value)
			case 2:
				c.Start = contentID(value)
			default:
				c.StartInfo = value
			}
		}
	}
	if !clear {
		c.Boundary = ""
	}
	// Both hold the media type that a message without attachments would have, and
	// some senders leave its action there (XOP 1.0 §4.1, §5).
	for _, field := range [...]string{c.StartInfo, inner} {
		if c.HasAction || strings.IndexByte(field, ';') < 0 {
			continue
		}
		if ct, err := ParseContentType(field); err == nil {
			c.Action, c.HasAction = ct.Action, ct.HasAction
		}
	}
}

// isBoundary reports whether a boundary can stand in delimiter lines and means
// the same to every receiver. Wider than RFC 2046 §5.1.1, which some stacks
// break with other printable characters; an unquoted one with a blank or a quote
// in it is cut by some receivers and not by others.
func isBoundary(s string, quoted bool) bool {
	if s == "" || len(s) > maxBoundary || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7F || !quoted && (c == ' ' || c == '"') {
			return false
		}
	}
	return true
}

// isRootType reports a media type that the root of a package may have.
func isRootType(t string) bool {
	return t == typeXOP || t != "" && ContentType{Type: t}.IsSOAP()
}

// essence is the media type in a field, lower case and without parameters.
func essence(field string) string {
	return strings.ToLower(strings.Trim(field[:typeEnd(field)], blanks))
}

// contentID takes the angle brackets from a message id (RFC 2045 §7). Senders
// forget one or both, so neither is asked for.
func contentID(s string) string {
	s = strings.Trim(s, blanks)
	s = strings.TrimPrefix(s, "<")
	return strings.TrimSuffix(s, ">")
}

// ContentIDOf returns the Content-ID, without angle brackets, that a cid URL
// names (RFC 2392 §2): the rest of the URL with its percent-encoding removed; a
// plus sign is one. false for what is no cid URL.
func ContentIDOf(url string) (id string, ok bool) {
	const scheme = "cid:"
	if len(url) <= len(scheme) || !strings.EqualFold(url[:len(scheme)], scheme) {
		return "", false
	}
	rest := url[len(scheme):]
	if strings.IndexByte(rest, '%') < 0 {
		return rest, true
	}
	out := make([]byte, 0, len(rest))
	for i := 0; i < len(rest); i++ {
		if rest[i] != '%' {
			out = append(out, rest[i])
			continue
		}
		if i+2 >= len(rest) {
			return "", false
		}
		hi, lo := hexDigit(rest[i+1]), hexDigit(rest[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
