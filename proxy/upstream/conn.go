package upstream

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"soapway/internal/h1"
)

// Reasons for which a connection refuses to go on.
var (
	errStale       = errors.New("upstream: the node has closed the idle connection")
	errUnsolicited = errors.New("upstream: the node spoke before it was asked")
)

// writePiece bounds one write, so that a deadline per write means progress.
const writePiece = 64 << 10

// countConn counts the octets that the kernel took.
type countConn struct {
	net.Conn
	written atomic.Int64
	peeker  peeker

	// names has the address at as of version; nil if it is not to be followed.
	names   *names
	at      netip.Addr
	version uint64
}

// peek looks at what has come without taking it, see [peeker].
func (c *countConn) peek() (pending, closed bool) { return c.peeker.peek(c.Conn) }

// moved reports that the node is not at the other end any more.
func (c *countConn) moved() bool { return c.names != nil && c.names.gone(c.at, c.version) }

func (c *countConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// conn is a connection to an HTTP node. A try has it for itself.
//
// Under TLS, Conn is the *tls.Conn and raw the TCP connection: octets are
// counted where they go to the kernel.
type conn struct {
	net.Conn
	raw   *countConn
	plain bool // octets that wait while idle are not ours
	in    *h1.ClientConn

	idleSince time.Time
	readBy    time.Time // the deadlines that are set
	writeBy   time.Time
}

func newConn(c net.Conn, raw *countConn) *conn {
	n := &conn{Conn: c, raw: raw, plain: c == net.Conn(raw)}
	if n.plain {
		c = raw.Conn
	}
	n.in = h1.NewClientConn(c)
	return n
}

// stale reports whether an idle connection must not be written to: its peer
// has closed it, or has spoken while nothing was asked, or is elsewhere by now.
func (c *conn) stale() bool {
	pending, closed := c.raw.peek()
	return closed || pending && c.plain || c.raw.moved()
}

// late is how much later than asked for a deadline may come, so that one that
// was set for an earlier message can stay.
func late(limit time.Duration) time.Duration { return limit / 32 }

// close enough to want, and not before it
func near(by, want time.Time, limit time.Duration) bool {
	return !by.Before(want) && !by.After(want.Add(late(limit)))
}

func (c *conn) readWithin(limit time.Duration) {
	if want := time.Now().Add(limit); !near(c.readBy, want, limit) {
		c.readBy = want.Add(late(limit))
		c.SetReadDeadline(c.readBy)
	}
}

func (c *conn) writeWithin(limit time.Duration) {
	if want := time.Now().Add(limit); !near(c.writeBy, want, limit) {
		c.writeBy = want.Add(late(limit))
		c.SetWriteDeadline(c.writeBy)
	}
}

// readUntil sets a deadline of reads for good or, if it is zero, none.
func (c *conn) readUntil(t time.Time) {
	c.readBy = t
	c.SetReadDeadline(t)
}
