package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrIdle is the reason of a request body whose sender was silent for
// Options.BodyTimeout. It wraps os.ErrDeadlineExceeded.
var ErrIdle = fmt.Errorf("h1: silence inside a request body: %w", os.ErrDeadlineExceeded)

// ErrGone is the cancellation cause of an exchange whose caller has left.
var ErrGone = errors.New("h1: the caller has left")

// errBodyClosed is what a request body gives once its exchange is over.
var errBodyClosed = errors.New("h1: the request body is closed")

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Body is the body of a request.
//
// It may be read by one goroutine at a time, also by another one than that of
// the handler, and after the handler has returned: a node may still be reading
// when its answer is already there. Before the connection goes on the body is
// closed, which makes such a read return, and waited for.
type Body struct {
	c      *conn
	gone   context.CancelCauseFunc
	expect bool // a 100 Continue is due before the first octet

	// Only the reader touches these.
	left   int64 // of a body with a length
	coded  bool
	chunks chunks

	mu       sync.Mutex
	still    sync.Cond // signalled when reading becomes false
	reading  bool
	started  bool  // read at least once
	closed   bool  // no further reads
	err      error // sticky, never io.EOF
	draining time.Time

	eof atomic.Bool // read to its end; the watch looks at it as well
}

func (b *Body) init(c *conn, length int64, expect bool) {
	b.c, b.gone, b.expect = c, c.cancel, expect
	b.left, b.coded = max(length, 0), length < 0
	b.still.L = &b.mu
	b.eof.Store(length == 0)
}

// Read implements [io.Reader]. Besides io.EOF it returns io.ErrUnexpectedEOF
// for a body that is shorter than announced, [ErrIdle], or what is wrong with
// its framing or the connection. Errors are sticky.
func (b *Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	switch {
	case b.err != nil:
		defer b.mu.Unlock()
		return 0, b.err
	case b.eof.Load():
		b.mu.Unlock()
		return 0, io.EOF
	case b.closed || b.reading:
		b.mu.Unlock()
		return 0, errBodyClosed
	case len(p) == 0:
		b.mu.Unlock()
		return 0, nil
	}
	b.reading, b.started = true, true
	b.mu.Unlock()

	n, end, err := b.read(p)
	return n, b.done(end, err)
}

// done ends a read.
func (b *Body) done(end bool, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.still.Broadcast()
	if err != nil {
		b.err = b.reason(err)
		return b.err
	}
	if end {
		b.eof.Store(true)
		return io.EOF
	}
	return nil
}

// read gives octets of the body, which has not ended yet, and says whether they
// are the last.
func (b *Body) read(p []byte) (n int, end bool, err error) {
	if !b.coded {
		n, err = b.some(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		return n, b.left == 0, err
	}
	for {
		used, need, err := b.chunks.next(b.c.in.unused())
		b.c.in.r += used
		switch {
		case err != nil:
			return n, false, err
		case b.chunks.over:
			return n, true, nil
		case n > 0 && (need || n == len(p) || b.c.in.r == b.c.in.w):
			return n, false, nil
		case need:
			if err := b.fill(); err != nil {
				return n, false, err
			}
			continue
		}
		m, err := b.some(p[n : n+int(min(int64(len(p)-n), b.chunks.left))])
		n += m
		b.chunks.left -= int64(m)
		if err != nil {
			return n, false, err
		}
	}
}

// some gives what is there, or waits for more. A large piece goes past the
// buffer.
func (b *Body) some(p []byte) (int, error) {
	in := &b.c.in
	if in.r == in.w {
		if len(p) >= bufSize/4 {
			if err := b.ready(); err != nil {
				return 0, err
			}
			return in.direct(p)
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.unused())
	in.r += n
	return n, nil
}

func (b *Body) fill() error {
	if err := b.ready(); err != nil {
		return err
	}
	in := &b.c.in
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
	return in.fill()
}

// ready prepares a read from the connection: it asks for the body if that is
// waited for (RFC 9110 §10.1.1), and sets the deadline.
func (b *Body) ready() error {
	if b.expect {
		b.expect = false
		if err := b.c.sendContinue(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errBodyClosed
	case !b.draining.IsZero():
		if b.c.in.by != b.draining {
			b.c.in.until(b.draining)
		}
	default:
		limit := b.c.srv.opt.BodyTimeout
		b.c.in.within(time.Now(), limit, slack(limit))
	}
	return nil
}

// reason is called with mu held. Whoever sends half a body and closes may still
// wait for an answer; whose connection broke does not.
func (b *Body) reason(err error) error {
	switch {
	case b.closed:
		return errBodyClosed
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrIdle
	case errors.Is(err, errChunk), errors.Is(err, errChunkSize), errors.Is(err, errChunkExt), errors.Is(err, errTrailers):
		return err
	}
	b.gone(ErrGone)
	return fmt.Errorf("h1: request body: %w", err)
}

// Close ends the reading of the body: a read under way returns soon, later ones
// fail. It may be called while another goroutine reads.
func (b *Body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.reading {
		b.c.in.until(past)
	}
	return nil
}

// shut closes the body and waits until nobody reads it.
func (b *Body) shut() {
	b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.reading {
		b.still.Wait()
	}
}

const (
	// drainMost and drainFor bound what is read of a body that nobody wanted,
	// before the answer, so that the connection can stay.
	drainMost = 256 << 10
	drainFor  = 100 * time.Millisecond
)

// drain reads what little may be left, for a short time, and reports whether
// that was all. Nothing is drained while somebody else reads, nor where that
// would ask for the body.
func (b *Body) drain() bool {
	if b.eof.Load() {
		return true
	}
	b.mu.Lock()
	if b.err != nil || b.closed || b.reading || b.left > drainMost || b.expect {
		b.mu.Unlock()
		return false
	}
	b.reading = true
	b.draining = time.Now().Add(drainFor)
	b.mu.Unlock()

	scratch := buffers.Get().(*[bufSize]byte)
	defer buffers.Put(scratch)
	var (
		n, total int
		end      bool
		err      error
	)
	for err == nil && !end && total <= drainMost {
		n, end, err = b.read(scratch[:])
		total += n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.still.Broadcast()
	b.eof.Store(end)
	if !end {
		b.err = errBodyClosed
	}
	return end
}
