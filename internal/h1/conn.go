package h1

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// The states of a connection.
const (
	stateActive  = iota // a head is being read, or an exchange is under way
	stateWaiting        // nothing of a request is here: it may be closed at any time
	stateClosed
)

const (
	// parkAfter is how long a silent connection keeps its buffer.
	parkAfter = time.Second

	// lingerFor and lingerMost bound what a client may go on sending after an
	// answer that ends its connection, so that the answer is not lost in a
	// reset.
	lingerFor  = time.Second
	lingerMost = 256 << 10
)

// conn is one connection of a server.
type conn struct {
	srv    *Server
	outer  net.Conn // to be closed
	raw    net.Conn // to be read and written
	remote netip.AddrPort
	ctx    context.Context
	cancel context.CancelCauseFunc

	state atomic.Int32

	// What the watch looks at: when the exchange began, 0 if there is none, and
	// its body.
	since atomic.Int64
	body  atomic.Pointer[Body]
	watched

	in     source
	first  [64]byte // where a parked connection waits
	head   head
	resp   Response
	gather gather
	told   bool // the handler knows what became of its response

	writeBy  time.Time // the write deadline that is set
	writing  sync.Mutex
	answered bool // the head of the answer has begun, under writing
}

func newConn(s *Server, outer net.Conn) *conn {
	c := &conn{srv: s, outer: outer, raw: inner(outer), remote: AddrPort(outer.RemoteAddr())}
	c.in.conn = c.raw
	c.gather.c = c
	c.state.Store(stateWaiting)
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	if e, ok := outer.(interface{ Early() []byte }); ok {
		if first := e.Early(); len(first) > 0 {
			c.in.take()
			c.in.w = copy(c.in.buf, first)
			c.state.Store(stateActive)
		}
	}
	return c
}

// inner is the connection to read and write.
func inner(c net.Conn) net.Conn {
	if i, ok := c.(interface{ Inner() net.Conn }); ok {
		return i.Inner()
	}
	return c
}

// AddrPort is the address of a peer, the zero value if it is no IP address. One
// of IPv4 that came to a socket of IPv6 is one of IPv4.
func AddrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		p := tcp.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	if a == nil {
		return netip.AddrPort{}
	}
	p, _ := netip.ParseAddrPort(a.String())
	return p
}

// closeIdle closes the connection if nothing of a request is here.
func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(stateWaiting, stateClosed) {
		c.outer.Close()
	}
}

// serve is the life of the connection.
func (c *conn) serve() {
	defer func() {
		if v := recover(); v != nil {
			c.srv.opt.Log.Error("connection panicked", "panic", v, "stack", string(debug.Stack()))
		}
		c.since.Store(0)
		c.cancel(nil)
		c.outer.Close()
		if b := c.body.Load(); b != nil {
			b.shut() // or somebody would still read into the buffer
		}
		c.in.release()
		c.srv.remove(c)
	}()
	now := time.Now()
	until := now.Add(c.srv.opt.HeaderTimeout) // for the first octet
	head := until                             // for the whole head; zero: counted from its first octet
	for {
		if c.in.r == c.in.w && !c.wait(now, until) {
			return
		}
		x := new(exchange)
		n, err := c.readHead(head)
		if err == nil {
			err = c.head.request(c.in.unused()[:n], &x.Request)
		}
		if err != nil {
			if refusal, ok := err.(*Refusal); ok {
				c.refuse(refusal)
			}
			return
		}
		c.in.r += n
		if !c.exchange(x) {
			return
		}
		c.in.settle()
		c.head.shrink()
		now = time.Now()
		until, head = now.Add(c.srv.opt.IdleTimeout), time.Time{}
	}
}

// wait waits for the first octets of a request, and reports whether they came.
func (c *conn) wait(now, until time.Time) bool {
	c.state.Store(stateWaiting)
	if c.srv.conns.Draining() {
		return false
	}
	c.in.take()
	limit := until.Sub(now)
	early := slack(limit)
	parks := limit > parkAfter
	if parks {
		limit, early = parkAfter, parkAfter/2
	}
	c.in.within(now, limit, early)
	err := c.in.fill()
	if parks && errors.Is(err, os.ErrDeadlineExceeded) {
		c.in.release()
		c.in.until(until)
		var n int
		if n, err = c.raw.Read(c.first[:]); n > 0 {
			err = nil
			c.in.take()
			c.in.w = copy(c.in.buf, c.first[:n])
		}
	}
	return err == nil && c.state.CompareAndSwap(stateWaiting, stateActive)
}

// readHead reads until a head is complete and returns its length. Its deadline
// is by, or counts from now if that is zero.
func (c *conn) readHead(by time.Time) (int, error) {
	c.head.reset()
	for armed := false; ; {
		in := c.in.unused()
		n, err := c.head.scan(in)
		switch {
		case err != nil:
			return 0, err
		case n > c.srv.opt.HeaderBytes, n == 0 && len(in) >= c.srv.opt.HeaderBytes:
			return 0, errHeadSize
		case n > 0:
			return n, nil
		}
		if !armed {
			if by.IsZero() {
				by = time.Now().Add(c.srv.opt.HeaderTimeout)
			}
			c.in.until(by)
			armed = true
		}
		if err := c.in.fill(); err != nil {
			return 0, err
		}
	}
}

// refuse answers what is no request, and ends the connection.
func (c *conn) refuse(why *Refusal) {
	c.resp = Response{Status: why.Status, Close: true}
	r := Request{Minor: 1}
	c.begin()
	c.told = true // there is no handler to tell
	if c.write(&r, &c.resp, false) == nil {
		c.linger()
	}
}

// An exchange is a request with its body, in one piece of memory.
type exchange struct {
	Request
	body Body
}

// exchange hands a request to the handler and writes its answer. It reports
// whether the connection goes on.
func (c *conn) exchange(x *exchange) (goesOn bool) {
	r, b := &x.Request, &x.body
	b.init(c, r.Length, c.head.expect && r.Minor > 0)
	r.Body = b
	r.Remote, r.Conn = c.remote, c.outer
	r.Received = time.Now()
	c.resp = Response{}
	c.begin()
	c.body.Store(b)
	c.since.Store(r.Received.UnixNano())

	c.srv.handler.Serve(c.ctx, r, &c.resp)
	c.told = false
	defer c.tell(errPanic) // if writing panics
	keep := c.keeps(r, b)
	cut := c.write(r, &c.resp, keep)
	c.tell(cut)

	whole := b.eof.Load()
	b.shut()
	c.since.Store(0)
	switch {
	case cut != nil:
		if r.Minor == 0 {
			c.reset() // the end of the connection would end the answer
		}
		return false
	case !keep && (!whole || c.in.r < c.in.w):
		c.linger()
		return false
	}
	return keep
}

// keeps decides whether the connection can go on after the answer: what is left
// of the request must never be taken for the next one.
func (c *conn) keeps(r *Request, b *Body) bool {
	return !c.resp.Close && !c.head.close && (r.Minor > 0 || c.head.keepAlive) && !c.srv.conns.Draining() && b.drain()
}

// linger takes in what a client still sends after the last answer on its
// connection. Anything may end it.
func (c *conn) linger() {
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.state.Store(stateWaiting)
	if c.srv.conns.Draining() {
		return
	}
	c.in.r, c.in.w = 0, 0
	c.in.until(time.Now().Add(lingerFor))
	for total := 0; total < lingerMost; {
		n, err := c.raw.Read(c.in.buf)
		if err != nil {
			return
		}
		total += n
	}
}

// reset makes the coming close send a RST: the peer must not take what it has
// for a complete answer.
func (c *conn) reset() {
	if tcp, ok := c.raw.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
}
