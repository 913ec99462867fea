package upstream

import (
	"context"
	"errors"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy"
)

// errTooManyInterim is the reason of a node that sends 1xx answers without end.
var errTooManyInterim = errors.New("upstream: too many interim answers")

const maxInterim = 32

// attempt is one try over HTTP. Its timer has one duty at a time: wait for a
// free connection, make one, get the first octet of the answer, get the rest of the head, get
// the next octets of the body.
type attempt struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	connect time.Duration
	answer  time.Duration

	conn    atomic.Pointer[conn] // the only one that it may write to
	reused  atomic.Bool
	dialled atomic.Bool
	writing atomic.Bool  // writing has begun: an answer may come before it is counted
	inWrite atomic.Int64 // writes under way
	written atomic.Int64 // octets that the kernel took
	sawHead atomic.Bool  // the answer's head came after the request began

	mu       sync.Mutex // guards the timer and its duty
	timer    *time.Timer
	sent     bool // the request is written to its end
	answered bool // the first octet of the answer is here
	interim  int
	over     bool // no timer any more
	timedOut atomic.Bool

	src   *source            // nil without a body
	abort context.CancelFunc // closes a streaming body; nil without one
	ioErr atomic.Pointer[error]
}

// broken notes the first error of the connection.
func (a *attempt) broken(err error) { a.ioErr.CompareAndSwap(nil, &err) }

type attemptKey struct{}

func newAttempt(ctx context.Context, wait, connect, answer time.Duration) *attempt {
	a := &attempt{connect: connect, answer: answer}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{
		GetConn:              a.getConn,
		GotConn:              a.gotConn,
		PutIdleConn:          a.putIdleConn,
		WroteRequest:         a.wroteRequest,
		GotFirstResponseByte: a.gotFirstByte,
		Got1xxResponse:       a.gotInterim,
	})
	a.timer = time.AfterFunc(min(wait, connect), a.expire)
	return a
}

// dialling ends the wait for a free connection: one is being made for this
// try, unless another has become free in the same moment.
func (a *attempt) dialling() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.dialled.Swap(true) && !a.over && a.conn.Load() == nil {
		a.timer.Reset(a.connect)
	}
}

func (a *attempt) expire() {
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	if over {
		return
	}
	a.timedOut.Store(true)
	a.cancel(os.ErrDeadlineExceeded)
}

// getConn runs before every search for a connection. A second one after octets
// were written is net/http's own retry, which must not happen.
func (a *attempt) getConn(string) {
	if a.written.Load() > 0 {
		a.cancel(errSecondTry)
	}
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := info.Conn.(*conn) // every connection of the Transport is dialled by HTTP.dial
	if a.written.Load() == 0 {
		a.reused.Store(info.Reused)
		a.conn.Store(c)
	}
	c.begin(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
}

func (a *attempt) putIdleConn(error) {
	if c := a.conn.Load(); c != nil {
		c.end(a)
		if c.raw.moved() {
			c.Close()
		}
	}
}

func (a *attempt) wroteRequest(info httptrace.WroteRequestInfo) {
	if info.Err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = true
	if !a.answered && !a.over {
		a.timer.Reset(a.answer)
	}
}

// wrote counts octets, and sets the clock back for those that leave the
// Transport's buffer after it reported the request as written.
func (a *attempt) wrote(n int64) {
	a.written.Add(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent && !a.answered && !a.over {
		a.timer.Reset(a.answer)
	}
}

// gotFirstByte gives the rest of the head as much time as its first octet had.
func (a *attempt) gotFirstByte() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered = true
	if !a.over {
		a.timer.Reset(a.answer)
	}
}

func (a *attempt) gotInterim(int, textproto.MIMEHeader) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interim++; a.interim > maxInterim {
		return errTooManyInterim
	}
	if !a.over {
		a.timer.Reset(a.answer)
	}
	return nil
}

// fresh fails when the connection of the try was pooled and is dead by now.
func (a *attempt) fresh() error {
	if c := a.conn.Load(); c != nil && a.reused.Load() && a.written.Load() == 0 && c.stale() {
		return errStale
	}
	return nil
}

// pause stops the clock while nothing is asked of the node, resume starts it.
func (a *attempt) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
}

func (a *attempt) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.timer.Reset(a.answer)
	}
}

// end releases what the try holds; a second call does nothing.
func (a *attempt) end() {
	a.mu.Lock()
	a.over = true
	a.timer.Stop()
	a.mu.Unlock()
	a.cancel(nil)
}

// failure turns an error of net/http into the outcome of the try.
func (a *attempt) failure(err error) *proxy.SendError {
	e := &proxy.SendError{Class: proxy.NotSent, Err: err}
	// In this order: a write is counted before it is over.
	if a.inWrite.Load() > 0 || a.written.Load() > 0 {
		e.Class = proxy.Maybe
	}
	if a.src != nil {
		if serr := a.src.failed(); serr != nil {
			e.Source, e.Err = true, serr
			return e
		}
	}
	cause := context.Cause(a.ctx)
	if cause != nil {
		e.Err = cause
	}
	// What we did about a broken connection is not the reason; its error is.
	if errors.Is(e.Err, errSourceClosed) || errors.Is(e.Err, errSecondTry) {
		if p := a.ioErr.Load(); p != nil {
			e.Err = *p
		}
	}
	e.Timeout = a.timedOut.Load() || errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
	if e.Timeout && a.conn.Load() == nil && !a.dialled.Load() {
		e.Err = proxy.ErrNoConnection
	}
	return e
}
