package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// body is the body of an HTTP request. Every read of it has its own deadline,
// so that a slow sender passes and a silent one does not.
//
// A node may still be reading it when the answer is written, in another
// goroutine. [body.Close] makes such a read return, and shut waits for that:
// after it net/http has the connection for itself again.
type body struct {
	rc   *http.ResponseController
	src  io.ReadCloser
	idle time.Duration
	gone context.CancelCauseFunc

	reading
	started bool  // read at least once: a 100 Continue has been sent if one was due
	left    int64 // -1 = unknown
}

func newBody(rc *http.ResponseController, r *http.Request, idle time.Duration, gone context.CancelCauseFunc) *body {
	b := &body{rc: rc, src: r.Body, idle: idle, gone: gone, left: r.ContentLength}
	b.still.L = &b.mu
	b.eof = r.ContentLength == 0
	return b
}

// Read implements [io.Reader]. Besides io.EOF it returns io.ErrUnexpectedEOF
// for a body that is shorter than announced, [ErrBodyIdle], or what net/http
// says of a broken chunk or connection.
func (b *body) Read(p []byte) (int, error) {
	if begun, err := b.begin(p, b.armed); !begun {
		return 0, err
	}
	n, err := b.src.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, b.end(err, b.reason)
}

// armed gives a read its time.
func (b *body) armed() {
	b.started = true
	b.rc.SetReadDeadline(time.Now().Add(b.idle))
}

// reason is called with mu held. Whoever sends half a body and closes may still
// wait for an answer; whose connection broke does not.
func (b *body) reason(err error) error {
	var opErr *net.OpError
	switch {
	case b.closed:
		return errBodyClosed
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrBodyIdle
	case errors.As(err, &opErr):
		b.gone(ErrGone)
		return fmt.Errorf("listen: request body: %w", err)
	}
	return fmt.Errorf("listen: request body: %w", err)
}

// Close ends the reading of the body: a read under way returns soon, later ones
// fail. It may be called while another goroutine reads.
func (b *body) Close() error {
	b.close(func() { b.rc.SetReadDeadline(past) })
	return nil
}

// shut closes the body and waits until nobody reads it.
func (b *body) shut() {
	b.Close()
	b.wait()
}

// inRead reports whether somebody reads, who will see and judge what happens to
// the connection.
func (b *body) inRead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy
}

// broken reports whether reading has failed already.
func (b *body) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil
}

// complete reports whether the body was read to its end.
func (b *body) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.eof
}

// drain reads what little may be left, for a short time, and reports whether
// that was all. Nothing is drained while somebody else reads, nor before the
// first read: that one would ask an Expect: 100-continue client for its body.
func (b *body) drain(most int64, budget time.Duration, expects bool) bool {
	b.mu.Lock()
	switch {
	case b.eof:
		b.mu.Unlock()
		return true
	case b.err != nil || b.closed || b.busy || b.left > most || expects && !b.started:
		b.mu.Unlock()
		return false
	}
	b.busy = true
	b.rc.SetReadDeadline(time.Now().Add(budget))
	b.mu.Unlock()
	_, err := io.CopyN(io.Discard, b.src, most+1)
	if err == nil {
		err = errBodyClosed // there is more
	}
	return b.end(err, func(error) error { return errBodyClosed }) == io.EOF
}

// linger takes in what a client still sends after the last answer on its
// connection, so that the answer is not lost in a reset. Call it after shut.
func (b *body) linger(most int64, budget time.Duration) {
	b.rc.SetReadDeadline(time.Now().Add(budget))
	io.CopyN(io.Discard, b.src, most)
	// net/http reads on when the handler returns: not a moment longer.
	b.rc.SetReadDeadline(past)
}
