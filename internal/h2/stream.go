package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"soapway/internal/h1"
)

const (
	maxStreams   = 100
	streamWindow = 256 << 10
	connWindow   = 1 << 20

	// What was read of a body is given back to its sender in steps of these.
	streamStep = streamWindow / 4
	connStep   = connWindow / 4
)

// errBodyClosed is what a request body gives once its exchange is over.
var errBodyClosed = errors.New("h2: the request body is closed")

// A stream is one exchange, with its request and its answer in one piece of
// memory. All but Request and resp is under conn.mu.
type stream struct {
	c  *conn
	id uint32

	Request
	body   Body
	resp   h1.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	told   bool // the handler knows what became of its response

	changed sync.Cond // of anything that somebody may wait for

	sendWindow int64
	answered   bool // the head of the answer is on its way
	ended      bool // so is its end
	gone       bool // reset by either side, or the connection has ended
	over       bool // ended for both sides, though the exchange still runs
}

// Body is the body of a request. It may be read by one goroutine at a time, also
// by another one than that of the handler, and until the exchange is over.
type Body struct {
	s *stream

	got    []byte // received and not yet read: got[r:]
	r      int
	left   int64 // octets that are still announced, -1 if nothing is
	window int   // octets that the client may still send
	read   int   // octets that were read and are not yet given back
	whole  bool  // received to its end
	closed bool  // no further reads
	err    error // sticky, never io.EOF
	expect bool  // the client waits for a 100 Continue
}

// Read implements [io.Reader]. Besides io.EOF it returns io.ErrUnexpectedEOF for
// a body that breaks off or has another length than announced, and [h1.ErrIdle].
// Errors are sticky.
func (b *Body) Read(p []byte) (int, error) {
	c := b.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	var by time.Time
	for {
		switch {
		case b.closed:
			return 0, errBodyClosed
		case b.r < len(b.got):
			n := copy(p, b.got[b.r:])
			b.take(n)
			c.flushElsewhere() // which keeps mu: what is known of the body stays true
			if b.r == len(b.got) && b.whole && b.err == nil {
				return n, io.EOF
			}
			return n, nil
		case b.err != nil:
			return 0, b.err
		case b.whole:
			return 0, io.EOF
		}
		if b.expect && !b.s.answered {
			b.expect = false
			c.appendStatus(b.s.id, 100, 0)
			c.flushElsewhere() // with mu given away here, the body could come unnoticed
		}
		if by.IsZero() {
			by = time.Now().Add(c.srv.opt.BodyTimeout)
		} else if !time.Now().Before(by) {
			b.fail(h1.ErrIdle)
			continue
		}
		b.s.wait(&b.s.changed, by)
	}
}

// Close ends the reading of the body: a read under way returns, later ones fail.
// It may be called from any goroutine.
func (b *Body) Close() error {
	b.s.c.mu.Lock()
	defer b.s.c.mu.Unlock()
	b.shut()
	return nil
}

// shut closes the body and lets go of what is left of it.
func (b *Body) shut() {
	if b.closed {
		return
	}
	b.closed = true
	b.s.c.giveBack(len(b.got) - b.r)
	b.got, b.r = nil, 0
	b.s.changed.Broadcast()
}

// take counts n octets as read, and gives the client room for more.
func (b *Body) take(n int) {
	b.r += n
	if b.r == len(b.got) && !b.whole {
		b.got, b.r = b.got[:0], 0
	}
	b.s.c.giveBack(n)
	if b.whole || b.s.gone {
		return
	}
	b.widen(n)
}

// widen gives the client room on the stream for n octets more.
func (b *Body) widen(n int) {
	if b.read += n; b.read >= streamStep {
		b.window += b.read
		b.s.c.out = append4(b.s.c.out, kindWindow, b.s.id, uint32(b.read))
		b.read = 0
	}
}

// fail makes err the end of the body, if it has none.
func (b *Body) fail(err error) {
	if b.err == nil && !b.whole {
		b.err = err
		b.s.changed.Broadcast()
	}
}

// receive takes in octets of the body, padding aside; false is more than was
// announced.
func (b *Body) receive(p []byte) bool {
	if b.left >= 0 {
		if b.left -= int64(len(p)); b.left < 0 {
			return false
		}
	}
	if b.closed || b.err != nil {
		b.s.c.giveBack(len(p))
		return true
	}
	if b.r > 0 && len(b.got)+len(p) > cap(b.got) {
		b.got = b.got[:copy(b.got, b.got[b.r:])]
		b.r = 0
	}
	b.got = append(b.got, p...)
	b.s.changed.Broadcast()
	return true
}

// end takes in the end of the body.
func (b *Body) end() {
	if b.left > 0 {
		b.fail(fmt.Errorf("h2: request body: %w: %d octets of its Content-Length are missing", io.ErrUnexpectedEOF, b.left))
	}
	b.whole = true
	b.s.changed.Broadcast()
}

// wait waits for a change, at most until a time. It is called with conn.mu held.
func (s *stream) wait(change *sync.Cond, by time.Time) {
	t := time.AfterFunc(time.Until(by), func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		change.Broadcast()
	})
	defer t.Stop()
	change.Wait()
}

// lose ends a stream whose caller is not there any more, or whose connection has
// ended: the exchange may go on, but nothing of it is sent.
func (s *stream) lose() {
	if s.gone {
		return
	}
	s.gone = true
	s.body.fail(fmt.Errorf("h2: request body: %w: the stream is closed", io.ErrUnexpectedEOF))
	s.cancel(h1.ErrGone)
	s.changed.Broadcast()
	s.c.room.Broadcast() // it may be the connection's window that its answer waits for
}
