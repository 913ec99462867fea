package xmlstream

import (
	"encoding/binary"
	"math/bits"
)

// after says what the token before the next one allows to take for granted, so
// that Next can go on with a single comparison.
type after uint8

const (
	afterOther   after = iota // nothing: the start, an error, a piece, text outside the root element
	afterContent              // inside the root element, behind a complete token
	afterEmpty                // behind the Start of an empty element
	afterEnd                  // behind an End, whose element is not yet closed
)

// Next advances to the next token. It returns io.EOF once the document is
// complete and well-formed, a [*SyntaxError] for the document's faults, and
// the reader's own errors as they came. All of them are sticky.
//
// What is usual and lies in the window as a whole is scanned here and in the
// quick functions, which either take all of a token or nothing. All else, and
// everything that may be a fault, is left to the careful ones: they alone
// report errors and read on.
//
// Hot path: must not allocate (TestAllocs). Measure:
//
//	go test ./xmlstream -run '^$' -bench VersusStdlib -benchtime 100x
func (s *Scanner) Next() (Kind, error) {
	p := s.pos
	switch s.after {
	case afterContent:
	case afterEnd:
		if s.close(); len(s.open) == 0 {
			s.tok = p
			return s.settle(s.content())
		}
	case afterEmpty:
		s.tok, s.lo, s.hi = p, p, p
		s.selfEnd = false
		s.kind, s.after = End, afterEnd
		return End, nil
	default:
		return s.settle(s.careful())
	}
	s.tok = p
	b := s.buf
	if p+1 >= len(b) {
		return s.settle(s.content())
	}
	switch {
	case b[p] != '<':
		if b[p] == '\n' { // most likely an indented tag follows
			if i := blanksEnd(b, p+1); i < len(b) && b[i] == '<' && i-p <= s.piece && int64(i-p) <= s.lim.Text {
				s.lo, s.hi, s.pos = p, i, i
				s.kind, s.after = Text, afterContent
				return Text, nil
			}
		}
		i, done := s.quickText(b, p)
		if !done {
			s.run = 0
			return s.settle(s.text(i - p))
		}
		s.lo, s.hi, s.pos = p, i, i
		s.kind, s.after = Text, afterContent
		return Text, nil
	case b[p+1] == '/':
		e := &s.open[len(s.open)-1]
		name := s.names[e.name.start:e.name.end]
		i := p + 2 + len(name)
		if i < len(b) && b[i] == '>' && string(b[p+2:i]) == string(name) {
			i++
			s.lo, s.hi, s.pos = i, i, i
			s.kind, s.after = End, afterEnd
			s.forms.trail = trailEnd + uint(e.form)
			return End, nil
		}
	case s.quickTag(b, p):
		s.kind = Start
		return Start, nil
	}
	return s.settle(s.content())
}

// close takes the innermost element off the open ones, with its declarations.
func (s *Scanner) close() {
	n := len(s.open) - 1
	e := &s.open[n]
	s.open, s.names = s.open[:n], s.names[:e.name.start]
	if e.mark != len(s.scope.bindings) {
		s.scope.truncate(e.mark)
	}
}

// settle notes the outcome of the careful functions.
func (s *Scanner) settle(k Kind, err error) (Kind, error) {
	if err != nil {
		if s.err == nil {
			s.err = err
			s.pos, s.lo, s.hi = s.tok, s.tok, s.tok
			s.partial, s.selfEnd = false, false
		}
		k = 0
	}
	s.kind = k
	switch {
	case k == End:
		s.after = afterEnd
	case s.selfEnd:
		s.after = afterEmpty
	case k == 0 || s.partial || len(s.open) == 0:
		s.after = afterOther
	default:
		s.after = afterContent
	}
	return k, err
}

// quickText scans character data from p on. done says that it is complete and
// ends before i, where a tag begins; otherwise it is good up to i, and what is
// there needs care.
func (s *Scanner) quickText(b []byte, p int) (i int, done bool) {
	b = b[:min(len(b), p+s.piece)]
	i = p
	for {
		i = textNear(b, i)
		if i == len(b) {
			return i, false
		}
		switch c := b[i]; {
		case c == '<':
			return i, int64(i-p) <= s.lim.Text
		case c >= 0x80:
			n := characters(b, i)
			if n == i {
				return i, false
			}
			i = n
		case c == '&':
			n := quickReference(b[i:])
			if n == 0 {
				return i, false
			}
			i += n
		case c == ']':
			if i+3 > len(b) || b[i+1] == ']' {
				return i, false
			}
			i++
		case class[c]&stopText == 0:
			i = textStop(b, i)
		default:
			return i, false
		}
	}
}

// blanksEnd returns the index behind the blanks that begin at i, if it is eight
// octets or more from the end of b; else it may be one of theirs.
func blanksEnd(b []byte, i int) int {
	for i+8 <= len(b) {
		if x := binary.LittleEndian.Uint64(b[i:]) ^ ' '*ones; x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
		i += 8
	}
	return i
}

// quickReference returns the length of the reference that b begins with, 0 if
// it is not a short one or not good.
func quickReference(b []byte) int {
	if len(b) < 8 {
		return 0
	}
	w := binary.LittleEndian.Uint64(b)
	switch {
	case w&0xFF_FFFF_FFFF == '&'|'a'<<8|'m'<<16|'p'<<24|';'<<32:
		return len("&amp;")
	case w&0xFFFF_FFFF == '&'|'l'<<8|'t'<<16|';'<<24, w&0xFFFF_FFFF == '&'|'g'<<8|'t'<<16|';'<<24:
		return len("&lt;")
	case w&0xFFFF_FFFF_FFFF == '&'|'q'<<8|'u'<<16|'o'<<24|'t'<<32|';'<<40,
		w&0xFFFF_FFFF_FFFF == '&'|'a'<<8|'p'<<16|'o'<<24|'s'<<32|';'<<40:
		return len("&quot;")
	case w&0xFFFF == '&'|'#'<<8:
		return quickCharReference(b)
	}
	return 0
}

// quickCharReference is quickReference for &#…; and &#x…; of up to seven digits,
// which is less than any limit.
func quickCharReference(b []byte) int {
	i, base := 2, rune(10)
	if b[i] == 'x' {
		i, base = 3, 16
	}
	var r rune
	for from := i; i < len(b) && i < from+8; i++ {
		d := digit(b[i])
		if d < base {
			r = r*base + d
			continue
		}
		if b[i] == ';' && i > from && isChar(r) {
			return i + 1
		}
		break
	}
	return 0
}

// characters returns the index behind the run of characters that are not ASCII
// and begin at i. It stops early at any that is not in b as a whole, is not
// UTF-8 or that XML does not allow.
func characters(b []byte, i int) int {
	for i < len(b) {
		c := b[i]
		switch {
		case c < 0xC2:
			return i
		case c < 0xE0:
			if i+2 > len(b) || b[i+1]&0xC0 != 0x80 {
				return i
			}
			i += 2
		default:
			n := sequenceLen(c)
			if n == 0 || i+n > len(b) || !isChar(sequence(b[i:i+n])) {
				return i
			}
			i += n
		}
	}
	return i
}

// quickTag scans the start tag whose '<' is at p if its form is known, and opens
// its element. If it returns false nothing has changed.
func (s *Scanner) quickTag(b []byte, p int) bool {
	m := &s.forms
	if !s.roomy || len(s.open) >= s.lim.Depth || s.elements >= s.lim.Elements || len(s.open) == 0 && s.rooted {
		return false
	}
	guess := &m.follow[m.trail%uint(len(m.follow))]
	id := *guess
	f := &m.list[id]
	end := 0
	if f.cuts > 0 {
		end = s.matchValues(f, b, p)
	} else if o := m.octets[f.start:f.end]; len(b)-p >= len(o) && string(b[p:p+len(o)]) == string(o) {
		end = p + len(o)
	}
	if end == 0 {
		if id, end = s.findForm(b, p); end == 0 {
			return false
		}
		f = &m.list[id]
		*guess = id
	}
	mark := len(s.scope.bindings)
	if f.declares && !s.declareForm(f) || f.generation != s.scope.generation && !s.resolveForm(f) {
		s.scope.truncate(mark)
		return false
	}
	s.openForm(f, id, mark)
	s.elements++
	s.rooted = true
	s.lo, s.hi, s.pos = end, end, end
	s.attrs = s.attrs[:0]
	s.pending = pendingNone
	if f.attrs != f.attrsEnd {
		s.pending = pendingForm
	}
	m.trail = uint(id)
	if f.self {
		s.selfEnd, s.after = true, afterEmpty
	} else {
		s.after = afterContent
	}
	return true
}

// openForm opens an element with form f, whose declarations are the bindings from
// mark on.
func (s *Scanner) openForm(f *form, id uint8, mark int) {
	n := len(s.names)
	if n+len(f.name) <= cap(s.names) {
		*(*formName)(s.names[n : n+len(f.name)]) = f.name
		s.names = s.names[:n+int(f.nameLen)]
	} else {
		s.names = append(s.names, f.name[:f.nameLen]...)
	}
	e := s.push()
	e.name.start, e.name.colon, e.name.end = n, n+int(f.colon), n+int(f.nameLen)
	e.uri, e.mark, e.form = int(f.uri), mark, id
}

// valueEnd returns the index of the quote that ends a value of which b[i] has
// stopped the search, and whether all of the value from there on is plain. It
// returns 0 if what is there needs care.
func valueEnd(b []byte, i int, quote byte) (end int, plain bool) {
	plain = true
	for i < len(b) {
		from := i
		switch c := b[i]; {
		case c == quote:
			return i, plain
		case c == '&':
			i += quickReference(b[i:])
			plain = false
		case class[c]&blank != 0:
			i++
			plain = false
		default:
			i = characters(b, i)
		}
		if i == from {
			return 0, false
		}
		i = valueStop(b, i, quote)
	}
	return 0, false
}

// matchValues returns the end of the tag at p if it has form f, else 0.
func (s *Scanner) matchValues(f *form, b []byte, p int) int {
	m := &s.forms
	from, k := f.start, 0
	for i := f.attrs; i < f.attrsEnd; i++ {
		a := &m.attrs[i]
		if a.xmlns {
			continue
		}
		o := m.octets[from : f.start+uint32(a.value)]
		value := p + len(o)
		if value > len(b) || string(b[p:value]) != string(o) {
			return 0
		}
		p = valueStop(b, value, a.quote)
		s.plain[k] = true
		if p == len(b) {
			return 0
		}
		if b[p] != a.quote {
			if p, s.plain[k] = valueEnd(b, p, a.quote); p == 0 {
				return 0
			}
		}
		if p-value > s.lim.AttributeValue {
			return 0
		}
		s.ends[k] = p
		k++
		from = f.start + uint32(a.value)
	}
	o := m.octets[from:f.end]
	if end := p + len(o); end <= len(b) && string(b[p:end]) == string(o) {
		return end
	}
	return 0
}
