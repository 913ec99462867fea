package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/frame"
	"soapway/proxy"
)

var (
	errIdle         = errors.New("upstream: idle")
	errCutReply     = errors.New("upstream: the reply was not read to its end")
	errCutUpload    = errors.New("upstream: another request on the connection broke off")
	errOtherTimeout = errors.New("upstream: another request on the connection timed out")
	errOtherLeft    = errors.New("upstream: the caller of another request on the connection left")
	errEarlyReply   = errors.New("upstream: the node answered before the request was complete")
)

// frameConn is one connection to a framed node. Requests are written one after
// the other and answered in that order, so replies find their request by their
// place in the queue. Nothing in the protocol can take back a request or skip a
// reply: every failure ends the connection for all that are on it.
type frameConn struct {
	n     *Framed
	c     net.Conn
	raw   *countConn
	plain bool
	r     *frame.Reader
	idle  *time.Timer

	// Guarded by n.mu.
	load   int       // requests that hold the connection
	since  time.Time // when load became 0
	reused bool

	long    atomic.Bool   // a message that streams is being written
	writing chan struct{} // holds one token while a message is being written

	mu      sync.Mutex
	pending []*call // written, or being written, and not answered
	err     error
	done    chan struct{} // closed with err

	// Reading side: the read loop, or the body of a streaming reply, which
	// takes turns with it.
	inFrame time.Duration // pause between octets that is allowed; 0 = any
}

// call is one request in the queue of a connection. It holds the connection
// until both its writing and its reply are over, whichever is later: a node may
// answer before it has read the request to its end.
type call struct {
	answer time.Duration
	result chan frameReply // one slot; exactly one reply is put there
	begun  atomic.Bool     // the first octet of the reply is here
	holds  atomic.Int32    // of writing and reply, those that are not over

	// Written by the writer, read once wrote has its error.
	octets int64         // that the kernel took
	wrote  chan struct{} // closed when writing is over
	err    error         // why it was not written to its end

	answered bool // guarded by frameConn.mu: stop writing, nobody waits for it
}

type frameReply struct {
	payload []byte
	length  int64
	body    *frameBody // instead of payload
	err     error
}

func newCall(answer time.Duration) *call {
	p := &call{answer: answer, result: make(chan frameReply, 1), wrote: make(chan struct{})}
	p.holds.Store(2)
	return p
}

// take and weight are called with n.mu held.
func (c *frameConn) take() {
	c.load++
	c.idle.Stop()
}

func (c *frameConn) weight() int {
	if c.long.Load() {
		return c.load + 1<<20
	}
	return c.load
}

// expire closes a connection that nobody used for IdleTimeout.
func (c *frameConn) expire() {
	c.n.mu.Lock()
	unused := c.load == 0
	if unused {
		c.n.forget(c) // before anybody can take it
	}
	c.n.mu.Unlock()
	if unused {
		c.fail(errIdle)
	}
}

// fail ends the connection and gives its place back. The first error counts.
func (c *frameConn) fail(err error) {
	if c.end(err) {
		c.n.budget.give()
	}
}

// end ends the connection, once; its place is left to the caller.
func (c *frameConn) end(err error) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.err = err
	pending := c.pending
	c.pending = nil
	close(c.done)
	c.mu.Unlock()
	c.n.drop(c)
	c.c.Close()
	for _, p := range pending {
		p.result <- frameReply{err: err}
	}
	return true
}

// push queues a request that is about to be written.
func (c *frameConn) push(p *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.pending = append(c.pending, p)
	return nil
}

// pop takes the request whose reply comes next; nil when none was asked.
func (c *frameConn) pop() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return nil
	}
	p := c.pending[0]
	c.pending[0] = nil
	c.pending = c.pending[1:]
	return p
}

// release ends one of the two parts of a call.
func (c *frameConn) release(p *call) {
	if p.holds.Add(-1) == 0 {
		c.n.put(c)
	}
}

// exchange sends one message and waits for its reply.
func (c *frameConn) exchange(ctx context.Context, m *message, connect, answer time.Duration) (*proxy.Response, *proxy.SendError) {
	if e := c.startWriting(ctx, connect); e != nil {
		c.n.put(c)
		return nil, e
	}
	if c.isReused() {
		if pending, closed := c.raw.peek(); closed || pending && c.plain && c.isIdle() {
			c.fail(errStale)
		}
	}
	p := newCall(answer)
	if err := c.push(p); err != nil {
		<-c.writing
		c.n.put(c)
		return nil, &proxy.SendError{Class: proxy.NotSent, Err: err}
	}
	if m.src == nil {
		c.write(p, m)
	} else {
		c.long.Store(true)
		go c.write(p, m)
	}
	return c.await(ctx, p, m)
}

// startWriting waits for the messages in front to be written.
func (c *frameConn) startWriting(ctx context.Context, limit time.Duration) *proxy.SendError {
	select {
	case c.writing <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(limit)
	defer patience.Stop()
	e := &proxy.SendError{Class: proxy.NotSent}
	select {
	case c.writing <- struct{}{}:
		return nil
	case <-c.done:
		e.Err = c.err
	case <-ctx.Done():
		e.Err = context.Cause(ctx)
	case <-patience.C:
		e.Err, e.Timeout = proxy.ErrNoConnection, true
	}
	return e
}

func (c *frameConn) isReused() bool {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.reused
}

// isIdle reports that no reply is due, so that octets which wait are not ours.
func (c *frameConn) isIdle() bool {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.load == 1
}

// write writes the message and gives up the right to write. A message that was
// not written to its end ends the connection, since the rest of its frame can
// never follow: at once, or after a reply that came early.
func (c *frameConn) write(p *call, m *message) {
	p.err = c.writePieces(p, m)
	if p.err != nil {
		c.n.drop(c)
		c.mu.Lock()
		answered := p.answered
		c.mu.Unlock()
		switch {
		case answered: // the read loop ends the connection
		case m.src != nil && m.src.failed() != nil:
			c.fail(errCutUpload)
		default:
			c.fail(p.err)
		}
	}
	c.long.Store(false)
	<-c.writing
	close(p.wrote)
	c.release(p)
}

func (c *frameConn) writePieces(p *call, m *message) error {
	buf := m.buf
	if m.src != nil {
		buf = append(make([]byte, 0, framePiece), m.buf...)
	}
	for end := m.src == nil; ; {
		for !end && len(buf) < cap(buf) {
			n, err := m.src.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			if err == io.EOF {
				end = true
			} else if err != nil {
				return err
			}
		}
		if err := c.writePiece(p, buf); err != nil {
			return err
		}
		if end {
			return nil
		}
		buf = buf[:0]
	}
}

// writePiece sets the deadline under the lock under which [frameConn.early]
// sets its own, so that neither undoes the other's.
func (c *frameConn) writePiece(p *call, buf []byte) error {
	c.mu.Lock()
	if p.answered {
		c.mu.Unlock()
		return errEarlyReply
	}
	c.c.SetWriteDeadline(time.Now().Add(p.answer))
	c.mu.Unlock()
	before := c.raw.written.Load()
	_, err := c.c.Write(buf)
	p.octets += c.raw.written.Load() - before
	return err
}

// early stops the writing of a request whose reply is here, unless it is over.
func (c *frameConn) early(p *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-p.wrote:
	default:
		p.answered = true
		c.c.SetWriteDeadline(time.Unix(1, 0))
	}
}

// await waits for the reply and tells what became of the request.
func (c *frameConn) await(ctx context.Context, p *call, m *message) (*proxy.Response, *proxy.SendError) {
	var clock <-chan time.Time
	var cause error
	var timeout bool
	var reply frameReply
	wrote := p.wrote
	for got := false; !got; {
		select {
		case reply = <-p.result:
			got = true
		case <-wrote:
			wrote = nil
			timer := time.NewTimer(p.answer)
			defer timer.Stop()
			clock = timer.C
		case <-clock:
			clock = nil
			if !p.begun.Load() { // else the pauses between its octets count
				timeout = true
				c.fail(errOtherTimeout)
			}
		case <-ctx.Done():
			cause = context.Cause(ctx)
			c.fail(errOtherLeft)
			reply = <-p.result
			got = true
		}
	}
	if reply.err == nil && cause == nil {
		return c.response(ctx, p, reply), nil
	}
	if reply.body != nil {
		reply.body.finish(errOtherLeft)
	} else {
		c.release(p)
	}
	// A streaming body may wait for its sender: it ends here, and what the
	// writer knows counts.
	if m.src != nil {
		m.src.Close()
	}
	<-p.wrote
	e := &proxy.SendError{Class: proxy.NotSent, Err: reply.err}
	if p.octets > 0 {
		e.Class = proxy.Maybe
	}
	switch {
	case m.src != nil && m.src.failed() != nil:
		e.Source, e.Err = true, m.src.failed()
		return nil, e
	case timeout:
		e.Err = os.ErrDeadlineExceeded
	case cause != nil:
		e.Err = cause
	}
	e.Timeout = errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
	return nil, e
}

// response hands a reply out.
func (c *frameConn) response(ctx context.Context, p *call, reply frameReply) *proxy.Response {
	resp := &proxy.Response{Status: 202, Framed: true, Length: reply.length}
	if reply.length > 0 {
		resp.Status = 200
	}
	if reply.body != nil {
		reply.body.ctx = ctx
		reply.body.unhook = context.AfterFunc(ctx, func() { c.fail(errOtherLeft) })
		resp.Body = reply.body
		return resp
	}
	c.release(p)
	if reply.length > 0 {
		w := &wholeReply{n: c.n}
		w.Reset(reply.payload)
		resp.Body, resp.Data = w, reply.payload
	}
	return resp
}

// readLoop reads replies until the connection ends. It also notices that the
// peer has closed an idle connection, before it is used again.
func (c *frameConn) readLoop() {
	for {
		if err := c.readReply(); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *frameConn) readReply() error {
	c.inFrame = 0
	if err := c.r.Wait(); err != nil {
		return noEOF(err)
	}
	p := c.pop()
	if p == nil {
		return errUnsolicited
	}
	p.begun.Store(true)
	c.early(p)
	c.inFrame = p.answer
	length, err := c.r.Next()
	reply := frameReply{length: length}
	if err == nil && length > framePiece {
		body := &frameBody{c: c, p: p, over: make(chan struct{})}
		reply.body = body
		p.result <- reply
		<-body.over
		if body.end != nil {
			return body.end
		}
		return c.writerDone(p)
	}
	if err == nil {
		reply.payload = make([]byte, length)
		_, err = io.ReadFull(c.r, reply.payload)
	}
	if err != nil {
		err = noEOF(err)
		c.fail(err)
		p.result <- frameReply{err: err}
		return err
	}
	p.result <- reply
	return c.writerDone(p)
}

// writerDone waits until the request of a reply is written, or was given up.
// Nothing else can arrive before: the next request is not written yet.
func (c *frameConn) writerDone(p *call) error {
	select {
	case <-p.wrote:
		return p.err
	case <-c.done:
		return c.err
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameInput is the connection as the frame reader sees it: inside a frame each
// read has its deadline, between frames the requests have theirs.
type frameInput frameConn

func (c *frameInput) Read(p []byte) (int, error) {
	var deadline time.Time
	if c.inFrame > 0 {
		deadline = time.Now().Add(c.inFrame)
	}
	c.c.SetReadDeadline(deadline)
	return c.c.Read(p)
}
