package xmlstream

import (
	"encoding/binary"
	"math/bits"
)

// Skip passes over the content of the element at that depth: it is Next again and
// again, with the same checks, limits and errors, up to the first token that is
// neither below that element nor its own text, comment or processing instruction.
// Inside the element that is its End; elsewhere Skip is a single Next.
//
// Hot path: must not allocate (TestAllocs). Measure:
//
//	go test ./xmlstream -run '^$' -bench Skip -count 10
func (s *Scanner) Skip(depth int) (Kind, error) {
	for {
		if s.inContent(depth) {
			s.skim()
		}
		k, err := s.Next()
		switch open := len(s.open); {
		case err != nil:
			return 0, err
		case open > depth:
		case open < depth, k == Start, k == End:
			return k, nil
		}
	}
}

// inContent makes the scanner ready for skim, and reports whether what comes next
// is content of the element at that depth or of one below.
func (s *Scanner) inContent(depth int) bool {
	n := len(s.open)
	switch {
	case !s.roomy:
	case s.after == afterContent:
		return n >= depth
	case s.after == afterEnd && n > depth:
		s.close()
		s.after = afterContent
		return true
	}
	return false
}

// maxDeep is how many elements skim opens without noting more of each than its
// form.
const maxDeep = 64

// skim passes over the text and the tags that come next in the innermost open
// element, as long as each is here as a whole, known, and not unusual in any way.
// It leaves the scanner as Next would behind the last of them: what Next notes of
// each element is noted only of those that are open in the end.
func (s *Scanner) skim() {
	var (
		m     = &s.forms
		b     = s.buf
		p     = s.pos
		trail = m.trail
		left  = s.lim.Elements - s.elements // that may still come
		most  = min(maxDeep, s.lim.Depth-len(s.open))
		short = int(min(wideFrom, s.lim.Text, int64(s.piece)))
		deep  [maxDeep]uint8 // the forms of the elements that are open here
		n     int            // how many they are
	)
scan:
	for p+len("</")+maxFormName+len(">") <= len(b) {
		switch {
		case b[p] != '<':
			if b[p] == '\n' { // most likely an indented tag follows
				if i := blanksEnd(b, p+1); i < len(b) && b[i] == '<' && i-p <= short {
					p = i
					continue
				}
			}
			i := textNear(b, p)
			if i == len(b) || b[i] != '<' || i-p > short {
				var done bool
				if i, done = s.quickText(b, p); !done {
					break scan
				}
			}
			p = i
			continue
		case b[p+1] == '/':
			if n == 0 {
				break scan
			}
			id := deep[n-1]
			f := &m.list[id]
			if !f.name.is((*[maxFormName + 1]byte)(b[p+2:]), int(f.nameLen)) {
				break scan
			}
			n--
			p += len("</>") + int(f.nameLen)
			trail = trailEnd + uint(id)
			continue
		case n >= most || left <= 0:
			break scan
		}
		guess := &m.follow[trail%uint(len(m.follow))]
		id := *guess
		f := &m.list[id]
		end := 0
		switch {
		case f.bare:
			if f.name.is((*[maxFormName + 1]byte)(b[p+1:]), int(f.nameLen)) {
				end = p + len("<>") + int(f.nameLen)
			}
		case f.pieces != 0:
			end = s.matchPieces(f, b, p)
		}
		if end == 0 {
			if id, end = s.findForm(b, p); end == 0 {
				break scan
			}
			f = &m.list[id]
			*guess = id
		}
		if f.apart || f.generation != s.scope.generation && !s.resolveForm(f) {
			break
		}
		p = end
		left--
		trail = uint(id)
		if !f.self {
			deep[n] = id
			n++
		}
	}
	s.pos, m.trail = p, trail
	s.elements = s.lim.Elements - left
	for _, id := range deep[:n] {
		s.openForm(&m.list[id], id, len(s.scope.bindings))
	}
}

// matchPieces is matchValues for who does not ask for the values, and for a form
// that has pieces. It may return 0 also for a tag near the end of b.
func (s *Scanner) matchPieces(f *form, b []byte, p int) int {
	pieces := s.forms.pieces[f.pieces:]
	for i := range pieces {
		g := &pieces[i]
		if p+maxPiece+8 > len(b) {
			return 0
		}
		d := (*[maxPiece + 8]byte)(b[p : p+maxPiece+8])
		if (binary.LittleEndian.Uint64(d[0:])^g.octets[0])&g.mask[0]|
			(binary.LittleEndian.Uint64(d[8:])^g.octets[1])&g.mask[1]|
			(binary.LittleEndian.Uint64(d[16:])^g.octets[2])&g.mask[2]|
			(binary.LittleEndian.Uint64(d[24:])^g.octets[3])&g.mask[3] != 0 {
			return 0
		}
		p += g.size
		if g.quote == 0 {
			return p
		}
		value := p
		w := binary.LittleEndian.Uint64(b[p:])
		less, amp, end := w^('<'*ones), w^('&'*ones), w^g.quote
		stop := (w | (w - 0x20*ones) | (less-ones)&^less | (amp-ones)&^amp | (end-ones)&^end) & highs
		if stop != 0 {
			p += bits.TrailingZeros64(stop) / 8
		} else if p = valueStop(b, p+8, byte(g.quote)); p == len(b) {
			return 0
		}
		if b[p] != byte(g.quote) {
			if p, _ = valueEnd(b, p, byte(g.quote)); p == 0 {
				return 0
			}
		}
		if p-value > s.lim.AttributeValue {
			return 0
		}
	}
	return 0
}
