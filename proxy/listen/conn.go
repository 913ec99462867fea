package listen

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"soapway/proxy"
	"soapway/proxy/guard"
)

// bounded is a socket that accepts no more than a number of connections at a
// time: more wait in its backlog. It knows those that are open.
type bounded struct {
	net.Listener
	slots chan struct{}
	entry *entrance // nil: connections are served as they come

	mu    sync.Mutex
	conns map[*conn]struct{}

	closing   chan struct{}
	closeOnce sync.Once
}

// bind listens on a TCP address.
func bind(name, address string, limit int) (*bounded, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: listener %q: %w", name, err)
	}
	return newBounded(ln, limit), nil
}

func newBounded(ln net.Listener, limit int) *bounded {
	return &bounded{
		Listener: ln,
		slots:    make(chan struct{}, limit),
		conns:    make(map[*conn]struct{}),
		closing:  make(chan struct{}),
	}
}

// Accept implements [net.Listener].
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.accept()
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (b *bounded) accept() (*conn, error) {
	if b.entry != nil {
		return b.entry.next(b)
	}
	raw, err := b.take()
	if err != nil {
		return nil, err
	}
	return b.admit(&conn{Conn: raw}), nil
}

// take waits for a place and then for a connection to have it.
func (b *bounded) take() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closing:
		return nil, net.ErrClosed
	}
	raw, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return raw, nil
}

// admit makes c, which has a place, one of the open connections.
func (b *bounded) admit(c *conn) *conn {
	c.ln = b
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	return c
}

// wait returns once no goroutine of the listener is left. It is closed, and
// nobody accepts any more.
func (b *bounded) wait() {
	if b.entry != nil {
		b.entry.open.Wait()
	}
}

// Close implements [net.Listener].
func (b *bounded) Close() error {
	var err error
	b.closeOnce.Do(func() {
		close(b.closing)
		if b.entry != nil {
			b.entry.cancel()
		}
		err = b.Listener.Close()
	})
	return err
}

// closeSilent closes the connections on which nothing was ever received.
func (b *bounded) closeSilent() {
	b.mu.Lock()
	var silent []*conn
	for c := range b.conns {
		if !c.spoke.Load() {
			silent = append(silent, c)
		}
	}
	b.mu.Unlock()
	for _, c := range silent {
		c.Close()
	}
}

// conn is one accepted connection.
type conn struct {
	net.Conn
	ln    *bounded
	once  sync.Once
	spoke atomic.Bool // something was received
	watch *lengths    // HTTP/1.1 under net/http only
	early []byte      // received before it was served, and not yet read

	// ending is the context of its exchanges, which the engine makes; only the
	// goroutine that serves it looks at it.
	ending *proxy.Ending

	client net.Addr // as a proxy has told it; nil is the peer

	caller proxy.CallerConn // ends with the connection

	tls         bool
	h2          bool               // it speaks HTTP/2
	certificate *guard.Certificate // of the peer, verified; nil without
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	var n int
	var err error
	if len(c.early) > 0 {
		n = copy(p, c.early)
		c.early = c.early[n:]
	} else {
		n, err = c.Conn.Read(p)
	}
	if n > 0 {
		c.spoke.Store(true)
		if c.watch != nil {
			c.watch.feed(p[:n])
		}
	}
	return n, err
}

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr {
	if c.client != nil {
		return c.client
	}
	return c.Conn.RemoteAddr()
}

// Inner is the connection with the same octets after those of Early: whoever
// reads and writes it directly closes c all the same.
func (c *conn) Inner() net.Conn { return c.Conn }

// Early gives away what was received before the connection was served.
func (c *conn) Early() []byte {
	early := c.early
	c.early = nil
	return early
}

// Close implements [net.Conn] and gives the place to the next connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.caller.Close()
		c.ln.mu.Lock()
		delete(c.ln.conns, c)
		c.ln.mu.Unlock()
		<-c.ln.slots
	})
	return err
}

// CloseWrite sends a FIN and leaves the other direction open, so that the last
// answer is not lost in a reset. net/http looks for this method.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// reset makes the coming Close send a RST: the peer must not take what it has
// for a complete answer.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
}

// lengths counts the lines on a connection that give a message a length.
//
// net/http takes a request with both Transfer-Encoding and Content-Length as
// chunked, drops Content-Length in silence and keeps the connection; under
// HTTP/1.0 it drops Transfer-Encoding. RFC 9112 §6.1 has the server close such
// a connection after the answer, since the two ends may disagree on what comes
// next. So the lines that came are compared with those that the requests had.
// There may be more without harm, in bodies or in heads that wait behind
// (pipelining): the connection is then closed without need. There are never
// fewer.
type lengths struct {
	line [24]byte // start of the current line; only Read touches it and n
	n    int

	length, coding atomic.Int64 // lines that came

	// Only the handler touches these: net/http serves the requests of a
	// connection one after the other.
	lengthUsed, codingUsed int64
}

func (l *lengths) feed(p []byte) {
	for {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if l.n < len(l.line) {
			copy(l.line[l.n:], part)
		}
		l.n += len(part)
		if end < 0 {
			return
		}
		line := l.line[:min(l.n, len(l.line))]
		switch {
		case isField(line, "content-length"):
			l.length.Add(1)
		case isField(line, "transfer-encoding"):
			l.coding.Add(1)
		}
		l.n = 0
		p = p[end+1:]
	}
}

// isField reports whether a line is a field of that name, in any case.
func isField(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name))
}

// conflict takes the lines of one request off the count, and reports whether
// what is left may be of the same head.
func (l *lengths) conflict(length, coding bool) bool {
	if length {
		l.lengthUsed++
	}
	if coding {
		l.codingUsed++
		return l.length.Load() > l.lengthUsed
	}
	return l.coding.Load() > l.codingUsed
}
