package upstream

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/h1"
	"soapway/proxy"
)

// errTooManyInterim is the reason of a node that sends 1xx answers without end.
var errTooManyInterim = errors.New("upstream: too many interim answers")

const (
	maxInterim = 32

	// wholeMost bounds what is copied to leave in one write with the head.
	wholeMost = 64 << 10

	// afterWrite is how long an answer is waited for when the request could not
	// be written to its end: it may have come before. And for how long the end
	// of a request is waited for whose answer is complete.
	afterWrite = 50 * time.Millisecond
)

// outBuffers are what requests are written from.
var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

func putOut(out *[]byte, b []byte) {
	if cap(b) <= 128<<10 {
		*out = b[:0]
		outBuffers.Put(out)
	}
}

// attempt is one try over HTTP, with a connection of its own.
//
// A request that is short and here as a whole is written by the goroutine that
// reads the answer; any other by a second one, so that an early answer is seen.
type attempt struct {
	n      *HTTP
	ctx    context.Context
	answer time.Duration
	c      *conn
	reused bool
	keep   *proxy.CallerConn // c is his from now on; nil: it is everybody's
	src    *source           // of a body that streams; nil otherwise
	ending *proxy.Ending     // ctx, if it is one
	unhook func() bool       // else
	over   sync.Once

	before  int64         // octets that c had taken before
	inWrite atomic.Int64  // writes under way
	began   atomic.Bool   // writing has begun
	last    atomic.Bool   // what is being written is the end of a body that streams
	done    chan struct{} // closed when the body that streams is written, or never will be

	mu      sync.Mutex // guards the read deadline while two goroutines are at work
	sent    bool       // the request is written to its end
	stuck   bool       // it never will be
	counted bool       // the first octet of the head has set the clock back
	inBody  bool       // the head is read
	hurry   bool       // what is left of the answer is wanted only if it comes soon
	ioErr   error      // the first one, of writing

	// What Send returns, in one piece of memory with the try.
	resp proxy.Response
	body answerBody
}

// take gives the try its connection. From then on the caller's leaving closes
// it.
func (a *attempt) take(c *conn) {
	a.c = c
	a.before = c.raw.written.Load()
	c.in.Before = a
	if a.src != nil {
		a.done = make(chan struct{})
		c.readUntil(time.Time{}) // until the request is written
	}
	if e, ok := a.ctx.(*proxy.Ending); ok {
		a.ending = e
		e.Tell(a)
		return
	}
	a.unhook = context.AfterFunc(a.ctx, a.Stop)
}

// Stop implements [proxy.Stopper]: the caller has left.
func (a *attempt) Stop() {
	a.c.Close()
	if a.src != nil {
		a.src.Close()
	}
}

// untell reports whether the caller is still there.
func (a *attempt) untell() bool {
	if a.ending != nil {
		return a.ending.Untell(a)
	}
	return a.unhook()
}

// written is how many octets of the request the kernel took.
func (a *attempt) written() int64 { return a.c.raw.written.Load() - a.before }

// write writes a piece of the request. The first octet goes only to a connection
// that is still good.
func (a *attempt) write(p []byte) error {
	if !a.began.Load() {
		if a.reused && a.src != nil && a.c.stale() { // time has passed since get
			return errStale
		}
		a.began.Store(true)
	}
	a.inWrite.Add(1)
	defer a.inWrite.Add(-1)
	for len(p) > 0 {
		a.c.writeWithin(a.answer)
		n, err := a.c.Write(p[:min(len(p), writePiece)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// wrote notes how the writing ended and starts the clock of the answer.
func (a *attempt) wrote(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.sent = true
		a.c.readWithin(a.answer)
		return
	}
	a.stuck, a.ioErr = true, err
	a.c.readUntil(time.Now().Add(afterWrite))
}

// stream writes a body that streams behind head.
func (a *attempt) stream(out *[]byte, head []byte) {
	data := make([]byte, 32<<10)
	var err error
	for end := false; !end && err == nil; {
		var n int
		n, err = a.src.Read(data)
		end = err == io.EOF
		if end {
			err = nil
		}
		if err != nil {
			break
		}
		if a.src.left < 0 {
			if n > 0 {
				head = append(strconv.AppendInt(head, int64(n), 16), "\r\n"...)
				head = append(append(head, data[:n]...), "\r\n"...)
			}
			if end {
				head = append(head, "0\r\n\r\n"...)
			}
		} else {
			head = append(head, data[:n]...)
		}
		a.last.Store(end)
		if len(head) > 0 {
			err = a.write(head)
		}
		head = head[:0]
	}
	defer close(a.done)
	putOut(out, head)
	if err != nil && (a.src.failed() != nil || err == errStale) {
		a.c.Close() // nothing can come of it
	}
	a.wrote(err)
}

// BeforeRead implements [h1.Reading]: it sets the deadline of a read from the
// connection.
func (a *attempt) BeforeRead(begun bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.hurry:
		a.c.readWithin(min(a.answer, drainFor))
	case a.inBody:
		a.c.readWithin(a.answer)
	case !a.sent: // the writer sets it
	case begun && !a.counted:
		// The rest of the head has as much time as its first octet had.
		a.counted = true
		a.c.readWithin(a.answer)
	}
	return nil
}

// head reads the head of the answer.
func (a *attempt) head(method string, most int) (h1.Answer, error) {
	for interim := 0; ; interim++ {
		ans, err := a.c.in.ReadHead(method, most)
		switch {
		case err != nil:
			return h1.Answer{}, err
		case !a.began.Load():
			return h1.Answer{}, errUnsolicited
		case ans.Status >= 200:
			return ans, nil
		case ans.Status == 101:
			return h1.Answer{}, errors.New("upstream: the node switched protocols")
		case interim == maxInterim:
			return h1.Answer{}, errTooManyInterim
		}
		a.mu.Lock()
		if a.counted = false; a.sent {
			a.c.readWithin(a.answer)
		}
		a.mu.Unlock()
	}
}

// end lets go of the connection, which can be used again if that is good and
// the request was written.
func (a *attempt) end(good bool) {
	a.over.Do(func() {
		if a.c != nil {
			if good && a.src != nil && a.last.Load() {
				// The answer is here before its request is known to be written.
				select {
				case <-a.done:
				case <-time.After(afterWrite):
				}
			}
			free := a.untell()
			a.mu.Lock()
			good = good && free && a.sent && a.c.in.Unused() == 0
			a.mu.Unlock()
			if good {
				a.c.in.Before = nil
			}
			switch {
			case !good:
				a.n.pool.drop(a.c)
			case a.keep != nil:
				a.n.keep(a.c, a.keep)
			default:
				a.n.pool.put(a.c)
			}
		}
		if a.src != nil {
			a.src.Close()
		}
	})
}

// failure turns an error into the outcome of the try.
func (a *attempt) failure(err error) *proxy.SendError {
	e := &proxy.SendError{Class: proxy.NotSent, Err: err}
	// In this order: a write is counted before it is over.
	if a.c != nil && (a.inWrite.Load() > 0 || a.written() > 0) {
		e.Class = proxy.Maybe
	}
	if a.src != nil {
		if serr := a.src.failed(); serr != nil {
			e.Source, e.Err = true, serr
			return e
		}
	}
	a.mu.Lock()
	// What we did about a connection that could not be written to is not the
	// reason; its error is.
	if a.ioErr != nil && !errors.Is(a.ioErr, errSourceClosed) {
		e.Err = a.ioErr
	}
	a.mu.Unlock()
	if cause := context.Cause(a.ctx); cause != nil {
		e.Err = cause
	}
	if e.Err == io.EOF {
		e.Err = io.ErrUnexpectedEOF
	}
	e.Timeout = errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
	return e
}
