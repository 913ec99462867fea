package listen

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// streamBody is the body of a request on a stream. It keeps what [body] does,
// but a deadline of net/http ends the stream also while nobody reads, and costs
// its connection a message. So the silence of the sender is measured here.
type streamBody struct {
	rc   *http.ResponseController
	src  io.ReadCloser
	idle time.Duration

	reading
	timer *time.Timer
	by    time.Time // when the silence is too long
}

func newStreamBody(rc *http.ResponseController, r *http.Request, idle time.Duration) *streamBody {
	b := &streamBody{rc: rc, src: r.Body, idle: idle}
	b.still.L = &b.mu
	b.eof = r.ContentLength == 0
	return b
}

// Read implements [io.Reader]. Besides io.EOF it returns [ErrBodyIdle], or
// io.ErrUnexpectedEOF, with what net/http says, for a body that broke off or
// does not have the length that was announced.
func (b *streamBody) Read(p []byte) (int, error) {
	if begun, err := b.begin(p, b.armed); !begun {
		return 0, err
	}
	n, err := b.src.Read(p)
	b.timer.Stop()
	return n, b.end(err, b.reason)
}

// armed gives a read its time.
func (b *streamBody) armed() {
	b.by = time.Now().Add(b.idle)
	if b.timer == nil {
		b.timer = time.AfterFunc(b.idle, b.late)
	} else {
		b.timer.Reset(b.idle)
	}
}

// reason is called with mu held.
func (b *streamBody) reason(err error) error {
	switch {
	case b.closed:
		return errBodyClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrBodyIdle
	}
	return fmt.Errorf("listen: request body: %w: %w", io.ErrUnexpectedEOF, err)
}

// late ends a read that takes too long; the timer may be that of an earlier one.
func (b *streamBody) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy && !time.Now().Before(b.by) {
		b.rc.SetReadDeadline(past)
	}
}

// Close ends the reading of the body: a read under way returns soon, later ones
// fail. It may be called while another goroutine reads.
func (b *streamBody) Close() error {
	b.close(func() { b.rc.SetReadDeadline(past) })
	return nil
}

// shut closes the body and waits until nobody reads it.
func (b *streamBody) shut() {
	b.Close()
	b.wait()
}
