package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/frame"
	"soapway/proxy"
)

var _ proxy.Node = (*Framed)(nil)

// framePiece bounds one write, and what of a message or of a reply is held in
// memory before it streams.
const framePiece = 64 << 10

// Framed is a node over length-prefixed TCP. It prefers a connection that is
// idle, opens new ones as its budget allows, and then pipelines on the one with
// the fewest requests under way.
type Framed struct {
	opt      FramedOptions
	budget   *Budget
	dialer   dialer
	inFlight atomic.Int64

	mu      sync.Mutex
	conns   map[*frameConn]struct{} // those that may be used
	idle    []*frameConn            // of these, those without a request; last used last
	dialing int
	changed chan struct{} // closed and replaced when a dial has ended
	closed  bool
}

// NewFramed returns a node; nothing is dialled before the first Send.
func NewFramed(opt FramedOptions) (*Framed, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	n := &Framed{
		opt:     opt,
		budget:  budgetOf(opt.Budget, opt.MaxConnections),
		conns:   make(map[*frameConn]struct{}),
		changed: make(chan struct{}),
	}
	host, _, err := net.SplitHostPort(opt.Address)
	if err != nil {
		return nil, err
	}
	n.dialer = newDialer(opt.Dial, host, n.moved)
	n.budget.join(n)
	return n, nil
}

// moved closes idle connections to addresses that the node has left.
func (n *Framed) moved() {
	n.mu.Lock()
	var gone []*frameConn
	for _, c := range n.idle {
		if c.raw.moved() {
			gone = append(gone, c)
		}
	}
	n.mu.Unlock()
	for _, c := range gone {
		c.expire()
	}
}

// Name implements [proxy.Node].
func (n *Framed) Name() string {
	if n.opt.TLS != nil {
		return "framed+tls://" + n.opt.Address
	}
	return "framed://" + n.opt.Address
}

// InFlight implements [proxy.Node].
func (n *Framed) InFlight() int64 { return n.inFlight.Load() }

// Close implements [proxy.Node].
func (n *Framed) Close() {
	n.dialer.close()
	n.mu.Lock()
	n.closed = true
	idle := n.idle
	n.idle = nil
	n.mu.Unlock()
	for _, c := range idle {
		c.fail(ErrClosed)
	}
	n.budget.leave(n)
}

// oldest implements [member].
func (n *Framed) oldest() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.idle) == 0 {
		return since, false
	}
	return n.idle[0].since, true
}

// shed implements [member].
func (n *Framed) shed() bool {
	n.mu.Lock()
	if len(n.idle) == 0 {
		n.mu.Unlock()
		return false
	}
	c := n.idle[0]
	n.forget(c) // before anybody can take it
	n.mu.Unlock()
	return c.end(errIdle)
}

// message is a request on its way: whole in buf, prefix included, or its first
// octets there and the rest in src.
type message struct {
	length int64
	buf    []byte
	src    *source // nil when buf has everything
}

// Send implements [proxy.Node]. As with HTTP, a streaming body may still be
// read after an answer that came early.
func (n *Framed) Send(ctx context.Context, req *proxy.Request) (*proxy.Response, error) {
	n.inFlight.Add(1)
	n.dialer.tick()
	resp, err := n.send(ctx, req)
	if err != nil || resp.Body == nil {
		n.inFlight.Add(-1)
	}
	return resp, err
}

func (n *Framed) send(ctx context.Context, req *proxy.Request) (*proxy.Response, error) {
	if req.Multipart {
		return nil, &proxy.SendError{Class: proxy.NotSent, Permanent: true, Err: proxy.ErrMultipart}
	}
	if req.Length < 0 {
		err := errors.New("upstream: a framed node needs to know the length")
		return nil, &proxy.SendError{Class: proxy.NotSent, Permanent: true, Err: err}
	}
	head, err := frame.AppendLength(make([]byte, 0, n.opt.Length+len(req.Data)), n.opt.Length, req.Length)
	if err != nil {
		return nil, &proxy.SendError{Class: proxy.NotSent, Permanent: true, Err: err}
	}
	m := &message{length: req.Length, buf: head}
	if whole := int64(len(req.Data)); whole == req.Length && whole <= framePiece {
		m.buf = append(m.buf, req.Data...)
	} else {
		rc, err := req.Body()
		if err != nil {
			return nil, &proxy.SendError{Class: proxy.NotSent, Source: true, Err: err}
		}
		m.src = newSource(rc, req, nil)
		defer func() {
			if m.src != nil {
				m.src.Close()
			}
		}()
		if req.Length <= framePiece {
			if err := m.load(); err != nil {
				return nil, &proxy.SendError{Class: proxy.NotSent, Source: true, Err: err}
			}
		}
	}
	connect, answer := n.opt.ConnectTimeout, n.opt.Timeout
	if req.Timeouts.Connect > 0 {
		connect = req.Timeouts.Connect
	}
	if req.Timeouts.Answer > 0 {
		answer = req.Timeouts.Answer
	}
	for tries := 0; ; tries++ {
		c, serr := n.get(ctx, connect)
		if serr != nil {
			return nil, serr
		}
		resp, serr := c.exchange(ctx, m, connect, answer)
		if serr == nil {
			return resp, nil
		}
		// A connection that died before an octet of this message left costs
		// nothing: another one may do, as long as the body is untouched.
		again := serr.Class == proxy.NotSent && c.isReused() && !serr.Timeout && !serr.Source &&
			ctx.Err() == nil && tries < maxStale &&
			(m.src == nil || !m.src.touched.Load())
		if !again {
			return nil, serr
		}
	}
}

// load reads a short message whole, so that one that fails was never sent and
// the others leave in one write.
func (m *message) load() error {
	defer m.src.Close()
	defer func() { m.src = nil }()
	if m.length == 0 {
		return nil
	}
	start := len(m.buf)
	m.buf = append(m.buf, make([]byte, m.length)...)
	_, err := io.ReadFull(m.src, m.buf[start:])
	return err
}

// get reserves a connection.
func (n *Framed) get(ctx context.Context, limit time.Duration) (*frameConn, *proxy.SendError) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errConnectTimeout)
	defer cancel()
	for {
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			return nil, &proxy.SendError{Class: proxy.NotSent, Err: ErrClosed}
		}
		if last := len(n.idle) - 1; last >= 0 {
			c := n.idle[last]
			n.idle = n.idle[:last]
			c.take()
			n.mu.Unlock()
			return c, nil
		}
		if n.budget.free() {
			n.dialing++
			n.mu.Unlock()
			return n.dial(ctx)
		}
		some, changed := len(n.conns) > 0, n.changed
		wait := !some && n.dialing > 0
		n.mu.Unlock()
		switch {
		case wait:
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, n.notSent(ctx, proxy.ErrNoConnection)
			}
		case n.budget.try(): // an idle connection of another node has gone
			n.dials()
			return n.dial(ctx)
		case !some: // other nodes have all there are
			n.dials()
			if _, err := n.budget.take(ctx, 2*limit, nil); err != nil {
				n.dialed(nil)
				return nil, n.notSent(ctx, proxy.ErrNoConnection)
			}
			return n.dial(ctx)
		default:
			if c := n.share(); c != nil {
				return c, nil
			}
		}
	}
}

// share reserves the connection with the fewest requests; nil if all have gone.
func (n *Framed) share() *frameConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.leastLoaded()
	if c != nil {
		c.take()
	}
	return c
}

// dials notes that a connection is being made; dial or dialed follows.
func (n *Framed) dials() {
	n.mu.Lock()
	n.dialing++
	n.mu.Unlock()
}

// dialed notes the end of a dial, with the connection that it has made or nil.
func (n *Framed) dialed(c *frameConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialing--
	close(n.changed)
	n.changed = make(chan struct{})
	if c != nil {
		n.conns[c] = struct{}{}
	}
}

var errConnectTimeout = errors.New("upstream: no connection in time")

// notSent is the outcome of a try that has no connection.
func (n *Framed) notSent(ctx context.Context, err error) *proxy.SendError {
	e := &proxy.SendError{Class: proxy.NotSent, Err: err}
	if cause := context.Cause(ctx); cause != nil {
		e.Timeout = errors.Is(cause, errConnectTimeout) || errors.Is(cause, context.DeadlineExceeded)
		if !e.Timeout {
			e.Err = cause
		}
	}
	return e
}

// leastLoaded is called with mu held. A connection with a long message on its
// way comes last: who is behind that one waits for its sender.
func (n *Framed) leastLoaded() *frameConn {
	var best *frameConn
	for c := range n.conns {
		if best == nil || c.weight() < best.weight() {
			best = c
		}
	}
	return best
}

func (n *Framed) dial(ctx context.Context) (*frameConn, *proxy.SendError) {
	c := &frameConn{n: n, load: 1, done: make(chan struct{}), writing: make(chan struct{}, 1)}
	var err error
	c.c, c.raw, err = n.dialer.dial(ctx, n.opt.Address, true)
	if err == nil {
		c.plain = c.c == net.Conn(c.raw)
		if n.opt.TLS != nil {
			c.plain = false
			c.c, err = handshake(ctx, c.c, n.opt.TLS, n.opt.Address)
		}
	}
	if err == nil { // before others can see it
		c.r = frame.NewReader((*frameInput)(c), n.opt.Length, n.opt.MaxReply, 16<<10)
		c.idle = time.AfterFunc(time.Hour, c.expire)
		c.idle.Stop()
	}
	if err != nil {
		n.budget.give()
		n.dialed(nil)
		return nil, n.notSent(ctx, fmt.Errorf("upstream: %w", err))
	}
	n.dialed(c)
	go c.readLoop()
	return c, nil
}

// put gives a connection back after one request. mu must not be held.
func (n *Framed) put(c *frameConn) {
	n.mu.Lock()
	c.load--
	c.reused = true
	_, live := n.conns[c]
	idle := c.load == 0 && live
	closing := idle && (n.closed || c.raw.moved())
	if idle && !closing {
		c.since = time.Now()
		n.idle = append(n.idle, c)
		c.idle.Reset(n.opt.IdleTimeout)
	}
	n.mu.Unlock()
	switch {
	case closing:
		c.fail(ErrClosed)
	case idle:
		n.budget.serve() // another node may wait for its place
	}
}

// drop takes a connection out of the pool for good.
func (n *Framed) drop(c *frameConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(c)
}

// forget is drop with mu held.
func (n *Framed) forget(c *frameConn) {
	delete(n.conns, c)
	if i := slices.Index(n.idle, c); i >= 0 {
		n.idle = slices.Delete(n.idle, i, i+1)
	}
}
