package redact

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"soapway/xmlstream"
)

// The bounds of what is looked for as a quotation: a shorter value could be anything,
// a longer one is not what a fault quotes.
const (
	minDigits  = 4 // octets of a value with a digit in it, such as a PIN
	minLetters = 6 // of others
	minInside  = 8 // of one that is found within a longer word too
	maxQuote   = 1024
	maxQuotes  = 256
)

// Quotes are values that are hidden, to be hidden also where somebody repeats them: a
// service that refuses a card may well say which. The zero value is none.
type Quotes struct {
	values []string // the longest first, since one may be part of another
}

// Quotes returns what the mask hides of a message, for [Quotes.Document] of the answer
// to it. Of a message that cannot be read it is what was found before.
func (m *Mask) Quotes(r io.Reader, contentType string) *Quotes {
	q := new(Quotes)
	_, _, _ = m.copy(io.Discard, r, contentType, q)
	return q
}

// Add adds a value that is hidden, such as that of a header field. One that is too
// short to tell from other text is passed over.
func (q *Quotes) Add(v string) {
	v = strings.TrimSpace(v)
	least := minLetters
	if strings.ContainsAny(v, "0123456789") {
		least = minDigits
	}
	if len(v) < least || len(v) > maxQuote || len(q.values) >= maxQuotes || slices.Contains(q.values, v) {
		return
	}
	at, _ := slices.BinarySearchFunc(q.values, v, func(a, b string) int { return len(b) - len(a) })
	q.values = slices.Insert(q.values, at, v)
}

// Document hides the values in an answer that may be shown otherwise, and returns how
// many it was. Of XML only texts and values of attributes are changed, so that it stays
// well-formed.
func (q *Quotes) Document(doc []byte) ([]byte, int) {
	if len(q.values) == 0 || len(doc) == 0 {
		return doc, 0
	}
	s := xmlstream.NewScanner(limits)
	s.ResetBytes(doc)
	var out []byte
	n := 0
	for {
		kind, err := s.Next()
		switch {
		case err == io.EOF:
			return out, n
		case err != nil: // from here on it is no XML
			rest, more := q.text(doc[s.Offset():], nil)
			return append(out, rest...), n + more
		}
		raw, more := s.Raw(), 0
		switch kind {
		case xmlstream.Start:
			out, more = q.tag(out, s)
		case xmlstream.End:
			out = append(out, raw...)
		default:
			raw, more = q.text(raw, escaper)
			out = append(out, raw...)
		}
		n += more
	}
}

// tag appends a start tag.
func (q *Quotes) tag(out []byte, s *xmlstream.Scanner) ([]byte, int) {
	raw, from, n := s.Raw(), 0, 0
	for _, a := range s.Attrs() {
		name := int(a.Offset - s.Offset())
		at := bytes.IndexByte(raw[name:], a.Quote)
		if a.IsNamespace() || at < 0 {
			continue
		}
		at += name + 1
		value, more := q.text(a.Raw, escaper)
		out = append(append(out, raw[from:at]...), value...)
		from, n = at+len(a.Raw), n+more
	}
	return append(out, raw[from:]...), n
}

// escaper writes a value as it stands in XML.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;")

// text hides the values in a text; as says how they are written there.
func (q *Quotes) text(b []byte, as *strings.Replacer) (out []byte, n int) {
	for _, v := range q.values {
		for _, form := range forms(v, as) {
			var more int
			b, more = hideWord(b, form)
			n += more
		}
	}
	return b, n
}

// forms are the ways to write a value, of which there is one where nothing is to be
// escaped.
func forms(v string, as *strings.Replacer) []string {
	if as != nil {
		if e := as.Replace(v); e != v {
			return []string{e, v}
		}
	}
	return []string{v}
}

// hideWord replaces v in b. A short one must be a word of its own.
func hideWord(b []byte, v string) ([]byte, int) {
	var out []byte
	n, from, look := 0, 0, 0
	for {
		at := bytes.Index(b[look:], []byte(v))
		if at < 0 {
			break
		}
		at += look
		end := at + len(v)
		if len(v) < minInside && (wordEnds(b[:at]) || wordBegins(b[end:])) {
			look = at + 1
			continue
		}
		out = append(append(out, b[from:at]...), hidden...)
		from, look = end, end
		n++
	}
	if n == 0 {
		return b, 0
	}
	return append(out, b[from:]...), n
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func wordEnds(b []byte) bool {
	r, _ := utf8.DecodeLastRune(b)
	return len(b) > 0 && inWord(r)
}

func wordBegins(b []byte) bool {
	r, _ := utf8.DecodeRune(b)
	return len(b) > 0 && inWord(r)
}

// told matches where a text that is no XML gives a secret away: a name that speaks of
// one with a value behind it, as in headers, forms and JSON, or credentials of a scheme.
var told = regexp.MustCompile(`(?i)passw|(?:auth|cookie|token|secret|credential|api[-_]?key|access[-_]?key|session|signature)[a-z0-9_-]*["']?\s{0,8}[:=]\s{0,8}[^\s]|\b(?:bearer|basic)\s{1,8}[a-z+/._~-]*[0-9=]`)
