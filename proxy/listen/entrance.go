package listen

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// An entrance makes connections ready to be served of those that a socket
// accepts: a header of the PROXY protocol, then a handshake of TLS or a look at
// whether the first octets are those of HTTP/2. Each connection has a goroutine of its own for this, so that a
// client that says nothing keeps nobody waiting, and Timeouts.Header in all.
type entrance struct {
	name     string
	timeouts Timeouts
	log      *slog.Logger
	http     bool
	sniffs   bool // HTTP/2 may come without TLS

	// proxies says whose connections begin with a header of the PROXY protocol;
	// others are closed. nil: none does.
	proxies func(netip.Addr) bool

	// present is for the connections to come; nil is no TLS. Each configuration
	// makes session tickets of its own, so that a client whose certificate an
	// earlier one has verified must show it again.
	present atomic.Pointer[tls.Config]

	ctx    context.Context // of all connections that are not ready
	cancel context.CancelFunc
	once   sync.Once
	open   sync.WaitGroup // goroutines
	ready  chan accepted
	h2     chan *conn // those of HTTP/2, which another server takes
}

// accepted is what one call of accept returns.
type accepted struct {
	c   *conn
	err error
}

func newEntrance(name string, timeouts Timeouts, log *slog.Logger) *entrance {
	e := &entrance{name: name, timeouts: timeouts, log: log, ready: make(chan accepted), h2: make(chan *conn)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// next returns the next connection that is ready, but for those of HTTP/2.
func (e *entrance) next(b *bounded) (*conn, error) {
	e.once.Do(func() { e.open.Go(func() { e.acceptAll(b) }) })
	select {
	case a := <-e.ready:
		return a.c, a.err
	case <-b.closing:
		return nil, net.ErrClosed
	}
}

// acceptAll accepts until the socket is closed or broken. After an error it goes
// on when that was taken, which whoever accepts does in its own time.
func (e *entrance) acceptAll(b *bounded) {
	for {
		raw, err := b.take()
		if err == nil {
			e.open.Go(func() { e.enter(b, raw) })
			continue
		}
		select {
		case e.ready <- accepted{err: err}:
		case <-b.closing:
			return
		}
	}
}

// enter hands raw on when it is ready, or closes it.
func (e *entrance) enter(b *bounded, raw net.Conn) {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeouts.Header)
	defer cancel()
	c := &conn{Conn: raw}
	if err := e.prepare(ctx, c); err != nil {
		raw.Close()
		<-b.slots
		return
	}
	b.admit(c)
	ready, other := e.ready, e.h2
	if c.h2 {
		ready = nil
	} else {
		other = nil
	}
	select {
	case ready <- accepted{c: c}:
	case other <- c:
	case <-b.closing:
		c.Close()
	}
}

// prepare takes the steps that come before c is served.
func (e *entrance) prepare(ctx context.Context, c *conn) error {
	if e.proxies != nil {
		if err := e.unproxy(ctx, c); err != nil {
			e.barred(c, err)
			return err
		}
	}
	if e.present.Load() != nil {
		return e.shake(ctx, c)
	}
	if e.sniffs {
		return sniff(ctx, c)
	}
	return nil
}

// preface is what a client of HTTP/2 says first (RFC 9113 §3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// sniff finds out whether c speaks HTTP/2, and keeps what it has read for that.
func sniff(ctx context.Context, c *conn) error {
	release := hurry(ctx, c.Conn)
	first := make([]byte, len(preface))
	for n := 0; n < len(preface); {
		m, err := c.Conn.Read(first[n:])
		n += m
		c.early = first[:n]
		if string(c.early) != preface[:n] {
			break
		}
		c.h2 = n == len(preface)
		if err != nil && (err != io.EOF || n == 0) {
			return err
		} else if err != nil {
			break // what it has said is for somebody else to judge
		}
	}
	c.spoke.Store(true)
	return release()
}

// hurry has reading from c end with ctx. release, which must be called after
// reading, gives c back without a deadline, or says that ctx is done.
func hurry(ctx context.Context, c net.Conn) (release func() error) {
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(past) })
	return func() error {
		if !stop() {
			return context.Cause(ctx)
		}
		return c.SetReadDeadline(time.Time{})
	}
}
