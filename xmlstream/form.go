package xmlstream

import "encoding/binary"

// A form is a start tag that has been scanned with care, less the values of
// its attributes: what stays the same where elements repeat. A tag that agrees
// with it octet by octet, and whose values end at their quotes and hold nothing
// special, must be as good, so its syntax and its names need not be looked at
// again. Namespace declarations belong to the form with their values.
//
// What a form means depends on the bindings in force; it is kept with their
// generation.
type form struct {
	start, end      uint32 // octets[start:end] is the tag without the values that are cut out
	attrs, attrsEnd uint32 // of forms.attrs
	cuts            uint16 // how many values are cut out
	nameLen, colon  int8   // of the element; colon is -1 if there is none
	declares        bool
	self            bool
	apart           bool   // skim leaves it to Next: it declares, or is watched
	bare            bool   // <name> and nothing else
	pieces          uint16 // of forms.pieces; 0 if it has none
	uri             int32  // of the element, in the scope of generation
	generation      uint64
	before, after   uint64 // with declarations: the generation after is what they make of before
	name            formName
}

// A formName is the name of an element, and a '>' behind it.
type formName [maxFormName + 8]byte

// is reports whether w begins with the name, of n octets, and a '>'. What is
// behind them does not count: a word is compared as a whole.
func (f *formName) is(w *[maxFormName + 1]byte, n int) bool {
	first := binary.LittleEndian.Uint64(w[:]) ^ binary.LittleEndian.Uint64(f[:])
	if n < 8 {
		return first<<(8*(7-n)&63) == 0
	}
	return first == 0 && f.rest(w, n)
}

// rest is is behind the first eight octets.
func (f *formName) rest(w *[maxFormName + 1]byte, n int) bool {
	if n < 16 {
		return (binary.LittleEndian.Uint64(w[8:])^binary.LittleEndian.Uint64(f[8:]))<<(8*(15-n)&63) == 0
	}
	return string(w[8:n+1]) == string(f[8:n+1])
}

// formAttr is an attribute of a form, by offsets from the tag's start, without
// what is cut out before.
type formAttr struct {
	name, colon, nameEnd uint16 // colon is name-1 if there is none
	value, valueEnd      uint16 // equal if the value is cut out
	quote                byte
	xmlns                bool
	uri                  int32 // in the scope of the form's generation; what is declared for a declaration
}

// A piece is the part of a form up to the next value, for who compares forms and
// wants nothing else of them: short enough to be compared at once.
type piece struct {
	octets, mask [4]uint64 // mask is 0 where octets does not count
	size         int
	quote        uint64 // of the value that follows, eight times; 0 for the last piece
}

const maxPiece = 32

// The bounds of what is kept. A scanner that has seen too much starts afresh.
const (
	maxForms      = 256 // an id is one octet
	maxFormOctets = 1 << 10
	maxFormAttrs  = 16
	maxFormName   = 32
	formSets      = 64
	formWays      = 4

	maxAllOctets = 16 << 10
	maxAllAttrs  = 1 << 10

	// trailEnd is added to a form's id when its element has ended.
	trailEnd = maxForms
)

// forms are the start tags that a scanner knows, for any document. Form 0 is
// none: no tag begins with its octet.
//
// Where a tag's form is looked for first is what followed the last time that
// the same tag, start or end, stood before.
type forms struct {
	list   []form
	octets []byte
	attrs  []formAttr
	pieces []piece // those of a form one behind the other
	trail  uint    // id of the form of the last tag, plus trailEnd if it was an end tag
	follow [2 * maxForms]uint8
	byName [formSets][formWays]uint8
	seen   [32]uint64 // bits of the hashes of names that have been seen
	seenN  int        // how many bits are set
}

// roomy reports whether whatever has a form keeps these limits.
func (l *Limits) roomy() bool {
	return l.Name >= maxFormOctets && l.AttributeValue >= maxFormOctets &&
		l.Attributes >= maxFormAttrs && l.Namespaces >= maxFormAttrs
}

// nameHash hashes the name b[i:end]; b has at least eight octets from i on.
func nameHash(b []byte, i, end int) uint64 {
	k := binary.LittleEndian.Uint64(b[i:])
	if n := end - i; n < 8 {
		k &= 1<<(8*n) - 1
	} else {
		k ^= binary.LittleEndian.Uint64(b[end-8:]) * 0xC2B2AE3D27D4EB4F
	}
	return (k + uint64(end-i)) * 0x9E3779B97F4A7C15
}

// nameEnd returns the index behind the name of the tag at p, without a check
// that it is one, or 0 if it is not for a form.
func nameEnd(b []byte, p int) int {
	i := p + 1
	if i+maxFormName+1 >= len(b) {
		return 0
	}
	for class[b[i]]&nameChar != 0 || b[i] == ':' || b[i] >= 0x80 {
		if i++; i == len(b) {
			return 0
		}
	}
	if n := i - p - 1; n == 0 || n > maxFormName {
		return 0
	}
	return i
}

// findForm returns the form of the tag at p, and the end of the tag, which is 0
// if there is none.
func (s *Scanner) findForm(b []byte, p int) (id uint8, end int) {
	i := nameEnd(b, p)
	if i == 0 {
		return 0, 0
	}
	m := &s.forms
	h := nameHash(b, p+1, i)
	for _, id := range m.byName[h>>58] {
		if id == 0 {
			break
		}
		if end := s.matchValues(&m.list[id], b, p); end != 0 {
			return id, end
		}
	}
	return 0, 0
}

// declareForm puts the namespace declarations of f in force. It returns false
// if they are too many; the caller takes them back.
//
// The same declarations make of the same bindings always the same, down to the
// indices of the namespaces: so what the forms within an Envelope mean stays
// known from one message to the next.
func (s *Scanner) declareForm(f *form) bool {
	m := &s.forms
	o := m.octets[f.start:f.end]
	before := s.scope.generation
	known := f.before == before
	for i := f.attrs; i < f.attrsEnd; i++ {
		if a := &m.attrs[i]; a.xmlns {
			var prefix []byte
			if a.colon >= a.name {
				prefix = o[a.colon+1 : a.nameEnd]
			}
			uri, uris := o[a.value:a.valueEnd], len(s.scope.uris)
			if !known {
				a.uri = int32(s.scope.intern(uri))
			} else if int(a.uri) == uris {
				s.scope.pushURI(uri)
			}
			s.scope.bind(prefix, int(a.uri), uris)
			if len(s.scope.text) > s.inForce {
				f.before = 0
				return false
			}
		}
	}
	if known {
		s.scope.generation = f.after
	} else {
		f.before, f.after = before, s.scope.generation
	}
	return true
}

// resolveForm finds the namespaces of f's names among the bindings in force. It
// returns false if there is a fault.
func (s *Scanner) resolveForm(f *form) bool {
	m := &s.forms
	o := m.octets[f.start:f.end]
	var prefix []byte
	if f.colon >= 0 {
		prefix = f.name[:f.colon]
	}
	uri, ok := s.scope.lookup(prefix)
	if !ok || uri == xmlnsURI {
		return false
	}
	f.uri = int32(uri)
	for i := f.attrs; i < f.attrsEnd; i++ {
		a := &m.attrs[i]
		if a.xmlns || a.colon < a.name {
			continue
		}
		uri, ok := s.scope.lookup(o[a.name:a.colon])
		if !ok || uri == xmlnsURI {
			return false
		}
		a.uri = int32(uri)
	}
	f.generation = s.scope.generation
	return true
}

// learn keeps the form of the tag just scanned with care, once its name has
// been seen before: one message alone should not pay for what nobody will use.
// It returns the form's id, 0 if it has none.
func (s *Scanner) learn(w []byte, name span, self bool) uint8 {
	m := &s.forms
	n := name.end - name.start
	if !s.roomy || n > maxFormName || len(s.spans) > maxFormAttrs || len(w) < 1+8 {
		return 0
	}
	h := nameHash(w, name.start, name.end)
	if !m.again(h) {
		return 0
	}
	size := s.pos - s.tok
	for i := range s.spans {
		a := &s.spans[i]
		switch {
		case !a.xmlns:
			size -= a.end - a.value
			if a.name.prefixed() && s.hasNamesake(w, i) {
				return 0
			}
		case !a.plain:
			return 0
		}
	}
	if size > maxFormOctets {
		return 0
	}
	if len(m.list) == maxForms || len(m.octets)+size > maxAllOctets || len(m.attrs)+len(s.spans) > maxAllAttrs {
		m.clear()
	}
	id := len(m.list)
	f := form{
		start:   uint32(len(m.octets)),
		attrs:   uint32(len(m.attrs)),
		nameLen: int8(n),
		colon:   int8(name.colon - name.start),
		self:    self,
		bare:    size == len("<>")+n && !self,
	}
	copy(f.name[:], w[name.start:name.end])
	f.name[n] = '>'
	from, cut := 0, 0 // octets of the tag that are done, and of them cut out
	for i := range s.spans {
		a := &s.spans[i]
		to := formAttr{
			name:    uint16(a.name.start - cut),
			colon:   uint16(a.name.colon - cut),
			nameEnd: uint16(a.name.end - cut),
			value:   uint16(a.value - cut),
			quote:   a.quote,
			xmlns:   a.xmlns,
		}
		if a.xmlns {
			f.declares = true
			to.valueEnd = uint16(a.end - cut)
		} else {
			f.cuts++
			to.valueEnd = to.value
			m.octets = append(m.octets, w[from:a.value]...)
			from = a.end
			cut += a.end - a.value
		}
		m.attrs = append(m.attrs, to)
	}
	m.octets = append(m.octets, w[from:s.pos-s.tok]...)
	f.end, f.attrsEnd = uint32(len(m.octets)), uint32(len(m.attrs))
	set := &m.byName[h>>58]
	for _, id := range set {
		// Known already: it was a value that needed care.
		if o := &m.list[id]; id != 0 && string(m.octets[o.start:o.end]) == string(m.octets[f.start:]) {
			m.octets, m.attrs = m.octets[:f.start], m.attrs[:f.attrs]
			return id
		}
	}
	f.apart = f.declares || s.watch != nil && s.watch(w[name.colon+1:name.end])
	m.cut(&f)
	m.list = append(m.list, f)
	copy(set[1:], set[:])
	set[0] = uint8(id)
	return uint8(id)
}

// cut makes the pieces of a form, unless one would be too long, or it declares
// namespaces.
func (m *forms) cut(f *form) {
	if f.declares {
		return
	}
	first := len(m.pieces)
	from := f.start
	for i := f.attrs; i <= f.attrsEnd; i++ {
		to, quote := f.end, uint64(0)
		if i < f.attrsEnd {
			to, quote = f.start+uint32(m.attrs[i].value), uint64(m.attrs[i].quote)*ones
		}
		if to-from > maxPiece {
			m.pieces = m.pieces[:first]
			return
		}
		var octets, mask [maxPiece]byte
		for i := range copy(octets[:], m.octets[from:to]) {
			mask[i] = 0xFF
		}
		p := piece{size: int(to - from), quote: quote}
		for i := range p.octets {
			p.octets[i] = binary.LittleEndian.Uint64(octets[8*i:])
			p.mask[i] = binary.LittleEndian.Uint64(mask[8*i:])
		}
		m.pieces = append(m.pieces, p)
		from = to
	}
	f.pieces = uint16(first)
}

// again reports whether a name with hash h has, probably, been seen before.
func (m *forms) again(h uint64) bool {
	word, bit := &m.seen[h>>53&31], uint64(1)<<(h>>47&63)
	if *word&bit != 0 {
		return true
	}
	if m.seenN++; m.seenN > 16*len(m.seen) {
		m.seen, m.seenN = [len(m.seen)]uint64{}, 1
	}
	*word |= bit
	return false
}

// hasNamesake reports whether another prefixed attribute has the local name of
// the i-th: whether they are the same depends on what their prefixes mean.
func (s *Scanner) hasNamesake(w []byte, i int) bool {
	n := s.spans[i].name
	for k := range s.spans[:i] {
		o := s.spans[k].name
		if o.prefixed() && string(w[o.colon+1:o.end]) == string(w[n.colon+1:n.end]) {
			return true
		}
	}
	return false
}

// clear forgets all forms.
func (m *forms) clear() {
	m.list = append(m.list[:0], form{end: 1})
	m.octets = append(m.octets[:0], 0)
	m.attrs = m.attrs[:0]
	m.pieces = append(m.pieces[:0], piece{})
	m.follow, m.byName = [len(m.follow)]uint8{}, [formSets][formWays]uint8{}
}

// formAttrs makes the attributes of the current tag, which has form f, what
// Attrs returns.
func (s *Scanner) formAttrs(f *form) {
	w, from := s.buf[s.tok:s.pos], s.forms.attrs[f.attrs:f.attrsEnd]
	attrs := s.roomFor(len(from))
	shift, k := 0, 0 // octets cut out before, and how many values
	for i := range from {
		a, to := &from[i], &attrs[i]
		to.Name.Prefix, to.Name.Space = nil, nil
		if a.colon >= a.name {
			end := shift + int(a.colon)
			to.Name.Prefix = w[shift+int(a.name) : end : end]
		}
		end := shift + int(a.nameEnd)
		to.Name.Local = w[shift+int(a.colon)+1 : end : end]
		if a.xmlns {
			to.Name.Space = s.scope.uri(xmlnsURI)
		} else if a.uri != noURI {
			to.Name.Space = s.scope.uri(int(a.uri))
		}
		value, plain := shift+int(a.value), true
		end = shift + int(a.valueEnd)
		if !a.xmlns {
			end = s.ends[k] - s.tok
			plain = s.plain[k]
			k++
			shift += end - value
		}
		to.Raw = w[value:end:end]
		to.Quote = a.quote
		to.Offset = s.base + int64(s.tok+value-int(a.value)+int(a.name))
		to.plain, to.xmlns = plain, a.xmlns
	}
}
