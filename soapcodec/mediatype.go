package soapcodec

import (
	"errors"
	"strings"
)

// ErrMediaType reports a Content-Type field without a type and subtype.
var ErrMediaType = errors.New("soapcodec: not a media type")

// ContentType is a parsed Content-Type field.
type ContentType struct {
	Type      string // lower case, such as text/xml; "" if the field is absent or empty
	Charset   string // lower case; "" if absent
	Action    string // action parameter, quotes removed; of a package, also that in start-info
	HasAction bool

	// Of multipart/related (RFC 2387 §3) and application/xop+xml (XOP 1.0 §5)
	// only; see parsePackage.
	Boundary  string // without "--"; "" also where it is ambiguous or unusable
	TypeParam string // type parameter: the media type of the root, or of the envelope; lower case, without parameters
	Start     string // Content-ID of the root, without angle brackets; "" = the first part
	StartInfo string // quotes removed
}

// ParseContentType reads a field (RFC 9110 §5.6.6, §8.3) leniently: names in
// any case, parameters in any order, empty ones, blanks around "=", single
// quotes around a charset and values that should have been quoted, such as an
// action URI, are all taken. Of equal parameters the first counts. The error is
// [ErrMediaType].
func ParseContentType(field string) (ContentType, error) {
	name := strings.Trim(field[:typeEnd(field)], blanks)
	if strings.Trim(field, blanks) == "" {
		return ContentType{}, nil
	}
	if top, sub, ok := strings.Cut(name, "/"); !ok || !isToken(top) || !isToken(sub) {
		return ContentType{}, ErrMediaType
	}
	ct := ContentType{Type: strings.ToLower(name)}
	hasCharset := false
	for p := range parameters(field) {
		switch {
		case strings.EqualFold(p.name, "charset") && !hasCharset:
			hasCharset = true
			ct.Charset = strings.ToLower(strings.Trim(p.unquoted(), " \t'"))
		case strings.EqualFold(p.name, "action") && !ct.HasAction:
			ct.HasAction = true
			ct.Action = p.unquoted()
		}
	}
	if ct.IsMultipart() || ct.Type == typeXOP {
		ct.parsePackage(field)
	}
	return ct, nil
}

// IsSOAP reports text/xml, application/soap+xml, application/xml or none: what
// a single SOAP message comes in.
func (c ContentType) IsSOAP() bool {
	switch c.Type {
	case "", "text/xml", "application/soap+xml", "application/xml":
		return true
	}
	return false
}

// IsMultipart reports multipart/related, the package of MTOM and of SOAP with
// Attachments.
func (c ContentType) IsMultipart() bool { return c.Type == "multipart/related" }

// IsPackage reports a multipart/related that can hold a SOAP message: it has a
// usable boundary, and its type parameter, if it has one, names a root that
// may be an envelope.
func (c ContentType) IsPackage() bool {
	return c.IsMultipart() && c.Boundary != "" && (c.TypeParam == "" || isRootType(c.TypeParam))
}

// EnvelopeType is the media type of the envelope, as far as the field tells it:
// of a package that of its root, of a root in XOP form that of the envelope.
func (c ContentType) EnvelopeType() string {
	if !c.IsMultipart() && c.Type != typeXOP {
		return c.Type
	}
	if c.TypeParam != "" && c.TypeParam != typeXOP {
		return c.TypeParam
	}
	return essence(c.StartInfo)
}

// WithCharset rewrites the value of the charset parameter of a Content-Type
// field and keeps every other octet, quotes included. A field without the
// parameter gets it right after the type; an empty field stays empty, since a
// media type must not be invented. charset must be a token.
func WithCharset(field, charset string) string {
	if strings.Trim(field, blanks) == "" {
		return field
	}
	var out strings.Builder
	at := 0
	for p := range parameters(field) {
		if !strings.EqualFold(p.name, "charset") {
			continue
		}
		// Every occurrence: receivers differ in which of two they believe.
		start, end := p.start, p.end
		if p.quoted {
			start, end = start+1, end-1
		}
		out.WriteString(field[at:start])
		out.WriteString(charset)
		at = end
	}
	if at == 0 {
		n := len(strings.TrimRight(field[:typeEnd(field)], blanks))
		return field[:n] + "; charset=" + charset + field[n:]
	}
	out.WriteString(field[at:])
	return out.String()
}

// A parameter is a slice of the field: value is field[start:end], with its
// quotes if quoted.
type parameter struct {
	name       string
	value      string
	start, end int
	quoted     bool
}

// unquoted is the value without quotes and quoted pairs (RFC 9110 §5.6.4).
func (p *parameter) unquoted() string {
	if !p.quoted {
		return p.value
	}
	v := p.value[1 : len(p.value)-1]
	if strings.IndexByte(v, '\\') < 0 {
		return v
	}
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == '\\' && i+1 < len(v) {
			i++
		}
		out = append(out, v[i])
	}
	return string(out)
}

// parameters yields the parameters of a field in order. One without "=" is
// passed over; a string whose closing quote is missing is taken as written.
func parameters(field string) func(yield func(parameter) bool) {
	return func(yield func(parameter) bool) {
		i := typeEnd(field)
		for i < len(field) {
			i++ // the semicolon
			name := i
			for i < len(field) && field[i] != '=' && field[i] != ';' {
				i++
			}
			if i == len(field) || field[i] == ';' {
				continue
			}
			p := parameter{name: strings.Trim(field[name:i], blanks)}
			i++
			for i < len(field) && isBlankByte(field[i]) {
				i++
			}
			p.start = i
			p.end, p.quoted = valueEnd(field, i)
			p.value = field[p.start:p.end]
			if !yield(p) {
				return
			}
			i = p.end
			for i < len(field) && field[i] != ';' {
				i++
			}
		}
	}
}

// valueEnd finds the end of the value at field[i:].
func valueEnd(field string, i int) (end int, quoted bool) {
	if i < len(field) && field[i] == '"' {
		for j := i + 1; j < len(field); j++ {
			switch field[j] {
			case '\\':
				j++
			case '"':
				return j + 1, true
			}
		}
	}
	end = i
	for end < len(field) && field[end] != ';' {
		end++
	}
	for end > i && isBlankByte(field[end-1]) {
		end--
	}
	return end, false
}

// typeEnd is the index of the semicolon behind the media type, or len(field).
func typeEnd(field string) int {
	if i := strings.IndexByte(field, ';'); i >= 0 {
		return i
	}
	return len(field)
}

// isBlankByte reports what may stand around the pieces of a field. CR and LF
// occur only in the folded fields of a part of a package (RFC 2822 §2.2.3); HTTP
// has none.
func isBlankByte(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// isToken reports a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7F || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
