package proxy

import (
	"errors"
	"io"

	"soapway/soapcodec"
)

// holdBack is how many octets at the end of what was read stay here until
// every check has passed (SPEC.md §3.5).
const holdBack = 16 << 10

// tee sits between a source and the decoder and remembers what passed until it
// is released.
type tee struct {
	src  io.Reader
	held []byte // octets [base, base+len(held)) of the source, from off on
	off  int    // held[:off] is released
	base int64  // offset of held[0]
	next int    // index in held that the decoder gets next; len(held) unless restarted

	// most is how many unreleased octets may be held; beyond it reading fails
	// with tooMuch. It bounds the memory of a message whose head, or whose
	// header block that is to be removed, does not end.
	most    int64
	tooMuch error
	eof     bool

	// gone is told of the octets that are released, and where they stood; it may be nil.
	gone func(at int64, octets []byte)
}

// total is the number of octets read from the source.
func (t *tee) total() int64 { return t.base + int64(len(t.held)) }

func (t *tee) Read(p []byte) (int, error) {
	if t.next < len(t.held) {
		n := copy(p, t.held[t.next:])
		t.next += n
		return n, nil
	}
	if int64(len(t.held)-t.off) > t.most {
		return 0, t.tooMuch
	}
	n, err := t.src.Read(p)
	t.held = append(t.held, p[:n]...)
	t.next = len(t.held)
	t.eof = t.eof || err == io.EOF
	return n, err
}

// restart makes the decoder read from the start again; nothing may have been
// released.
func (t *tee) restart() { t.next = 0 }

// at is the offset of the first octet that is not released.
func (t *tee) at() int64 { return t.base + int64(t.off) }

// view are the unreleased octets before the offset upto.
func (t *tee) view(upto int64) []byte { return t.held[t.off : upto-t.base] }

// drop releases n octets. Moving the rest costs at most as much as was
// released, so the whole is linear.
func (t *tee) drop(n int) {
	if t.gone != nil {
		t.gone(t.at(), t.held[t.off:t.off+n])
	}
	t.off += n
	if t.off >= len(t.held)-t.off {
		rest := copy(t.held, t.held[t.off:])
		t.held = t.held[:rest]
		t.next -= t.off
		t.base += int64(t.off)
		t.off = 0
	}
}

// pass is a reader of a message that is too large for memory. Reading drives
// the decoder, and gives away only octets that the decoder has seen and that
// are not among the last holdBack ones; those follow when every check has
// passed. Edits are made as soon as they are settled. Its error is that of the
// message (*soapcodec.Error) or of the source.
//
// It works in one of two places: behind the charset conversion, where the octets
// given away are those that the decoder read, with its edits; or, raw, before
// the content coding is removed, where they are the source's own. What a related
// gives, or is read by, passes raw too: its octets are edited already.
type pass struct {
	tee tee
	dec *soapcodec.Decoder
	raw bool

	// rel is set for a message with attachments: its parts are checked by reading
	// from, which is either what goes on, behind it, or rel itself, in front of it.
	rel  *related
	from io.Reader
	room []byte

	edits   bool // the decoder may make edits
	edited  bool // it has made one
	pending []soapcodec.Edit
	with    []byte // what is left of the replacement being given away
	done    bool   // every check has passed
	err     error  // sticky; io.EOF when done
}

var errLateEdit = errors.New("proxy: an edit came after its octets had left")

// chunk is how much a Read tries to gather before it returns.
const chunk = 32 << 10

// Read implements io.Reader.
func (p *pass) Read(dst []byte) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		if n := p.release(dst); n > 0 {
			return n, nil
		}
		if p.err != nil {
			return 0, p.err
		}
		p.advance(p.wanted(len(dst)))
	}
}

// wanted is the offset before which octets must be free to go for the next
// release to give any: an edit goes as a whole, however small the reader's
// buffer is.
func (p *pass) wanted(room int) int64 {
	upto := p.tee.at() + min(chunk, int64(room))
	if len(p.pending) > 0 && p.pending[0].Start == p.tee.at() {
		upto = max(upto, p.pending[0].End)
	}
	return upto
}

// advance steps until octets before the offset upto may go, or the end.
func (p *pass) advance(upto int64) {
	for p.err == nil && p.limit() < upto {
		p.step()
	}
	p.collect()
}

// collect takes the edits that the decoder has made. It must come between a
// step and the next release, or octets leave unedited and their edits lie behind.
func (p *pass) collect() {
	if p.edits {
		p.pending = append(p.pending, p.dec.TakeEdits()...)
		p.edited = p.edited || len(p.pending) > 0
	}
}

// prime steps until n octets were read or the message has ended, so that what
// is wrong early is known before a byte is given away.
func (p *pass) prime(n int64) error {
	for p.err == nil && p.tee.total() < n {
		p.step()
	}
	p.collect()
	if p.err != nil && p.err != io.EOF {
		return p.err
	}
	return nil
}

func (p *pass) step() {
	err := p.check()
	if err == nil {
		return
	}
	p.err = err
	if err != io.EOF {
		return
	}
	if p.raw && !p.tee.eof {
		// The decoder has met the end of the document; so must the body.
		var one [1]byte
		for {
			n, err := p.tee.Read(one[:])
			if n > 0 {
				p.err = &codingError{errTrailing}
				return
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				p.err = err
				return
			}
		}
	}
	p.done = true
}

// check takes one more piece of the message; io.EOF when every check has passed.
func (p *pass) check() error {
	if p.rel == nil {
		return p.dec.Step()
	}
	if p.room == nil {
		p.room = make([]byte, chunk)
	}
	_, err := p.from.Read(p.room)
	return err
}

// checked is how many octets of an envelope were checked.
func (p *pass) checked() int64 {
	if p.rel != nil {
		return p.rel.octets
	}
	return p.tee.total()
}

// limit is the offset before which octets may go.
func (p *pass) limit() int64 {
	switch {
	case p.done:
		return p.tee.total()
	case p.raw:
		return p.tee.total() - holdBack
	}
	return p.dec.Settled() - holdBack
}

// release copies what may go.
func (p *pass) release(dst []byte) int {
	n := 0
	limit := p.limit()
	for n < len(dst) {
		if len(p.with) > 0 {
			k := copy(dst[n:], p.with)
			p.with = p.with[k:]
			n += k
			continue
		}
		upto := limit
		if len(p.pending) > 0 {
			e := p.pending[0]
			if e.Start < p.tee.at() { // the decoder broke its promise: rather cut than corrupt
				p.err, p.pending, p.done = errLateEdit, nil, false
				return n
			}
			if e.Start == p.tee.at() && e.End <= limit {
				p.tee.drop(int(e.End - e.Start))
				p.with = e.With
				p.pending = p.pending[1:]
				continue
			}
			upto = min(upto, e.Start)
		}
		if upto <= p.tee.at() {
			break
		}
		k := copy(dst[n:], p.tee.view(upto))
		p.tee.drop(k)
		n += k
	}
	return n
}
