package listen

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// streamBody is the body of a request on a stream. It keeps what [body] does,
// but a deadline of net/http ends the stream also while nobody reads, and costs
// its connection a message. So the silence of the sender is measured here.
type streamBody struct {
	rc   *http.ResponseController
	src  io.ReadCloser
	idle time.Duration

	mu      sync.Mutex
	still   sync.Cond // signalled when reading becomes false
	timer   *time.Timer
	by      time.Time // when the silence is too long
	reading bool
	closed  bool  // no further reads
	eof     bool  // read to its end
	err     error // sticky, never io.EOF
}

func newStreamBody(rc *http.ResponseController, r *http.Request, idle time.Duration) *streamBody {
	b := &streamBody{rc: rc, src: r.Body, idle: idle, eof: r.ContentLength == 0}
	b.still.L = &b.mu
	return b
}

// Read implements [io.Reader]. Besides io.EOF it returns [ErrBodyIdle], or
// io.ErrUnexpectedEOF, with what net/http says, for a body that broke off or
// does not have the length that was announced.
func (b *streamBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	switch {
	case b.err != nil:
		defer b.mu.Unlock()
		return 0, b.err
	case b.eof:
		b.mu.Unlock()
		return 0, io.EOF
	case b.closed || b.reading:
		b.mu.Unlock()
		return 0, errBodyClosed
	case len(p) == 0:
		b.mu.Unlock()
		return 0, nil
	}
	b.reading = true
	b.by = time.Now().Add(b.idle)
	if b.timer == nil {
		b.timer = time.AfterFunc(b.idle, b.late)
	} else {
		b.timer.Reset(b.idle)
	}
	b.mu.Unlock()

	n, err := b.src.Read(p)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	b.reading = false
	b.still.Broadcast()
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.eof = true
		return n, io.EOF
	case b.closed:
		b.err = errBodyClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.err = ErrBodyIdle
	default:
		b.err = fmt.Errorf("listen: request body: %w: %w", io.ErrUnexpectedEOF, err)
	}
	return n, b.err
}

// late ends a read that takes too long; the timer may be that of an earlier one.
func (b *streamBody) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading && !time.Now().Before(b.by) {
		b.rc.SetReadDeadline(past)
	}
}

// Close ends the reading of the body: a read under way returns soon, later ones
// fail. It may be called while another goroutine reads.
func (b *streamBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.reading {
		b.rc.SetReadDeadline(past)
	}
	return nil
}

// shut closes the body and waits until nobody reads it.
func (b *streamBody) shut() {
	b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.reading {
		b.still.Wait()
	}
}
