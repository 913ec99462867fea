package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"soapway/proxy"
)

// frameBody is a reply that streams from its connection. While it is open the
// read loop waits.
type frameBody struct {
	c      *frameConn
	p      *call
	ctx    context.Context
	unhook func() bool
	over   chan struct{}
	once   sync.Once
	closed sync.Once
	end    error // nil when the payload was read to its end; set before over is closed
	err    error // what Read returns from now on; only Read touches it
}

func (b *frameBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	select {
	case <-b.over: // closed
		b.err = errCutReply
		return 0, b.err
	default:
	}
	n, err := b.c.r.Read(p)
	if err == nil && b.c.r.Left() > 0 {
		return n, nil
	}
	if err == nil || err == io.EOF {
		b.err = io.EOF
		b.finish(nil)
		return n, io.EOF
	}
	e := &proxy.SendError{Class: proxy.Maybe, Err: noEOF(err)}
	if cause := context.Cause(b.ctx); cause != nil {
		e.Err = cause
	}
	e.Timeout = errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
	b.err = e
	b.finish(e)
	return n, e
}

// finish hands the connection back to the read loop, with the reason why it
// cannot go on if there is one.
func (b *frameBody) finish(err error) {
	b.once.Do(func() {
		if b.unhook != nil {
			b.unhook()
		}
		if err != nil {
			b.c.fail(err)
		}
		b.end = err
		b.c.release(b.p)
		close(b.over)
	})
}

// Close ends the connection unless the reply was read to its end.
func (b *frameBody) Close() error {
	b.finish(errCutReply)
	b.closed.Do(func() { b.c.n.inFlight.Add(-1) })
	return nil
}

// wholeReply is a short reply, which is no longer on the connection.
type wholeReply struct {
	bytes.Reader
	n      *Framed
	closed atomic.Bool
}

func (w *wholeReply) Close() error {
	if w.closed.CompareAndSwap(false, true) {
		w.n.inFlight.Add(-1)
	}
	return nil
}
