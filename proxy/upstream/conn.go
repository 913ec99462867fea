package upstream

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Reasons for which a connection refuses to go on.
var (
	errStale       = errors.New("upstream: the node has closed the idle connection")
	errUnsolicited = errors.New("upstream: the node spoke before it was asked")
	errSecondTry   = errors.New("upstream: the request was already written to another connection")
	errAmbiguous   = errors.New("upstream: the answer has an ambiguous length")
)

// writePiece bounds one write, so that a deadline per write means progress.
const writePiece = 64 << 10

// conn is a connection to an HTTP node as net/http's Transport sees it. It
// knows which try uses it, counts what that try writes, and looks at the heads
// of the answers for what net/http hides.
//
// Under TLS, Conn is the *tls.Conn and raw the TCP connection: octets are
// counted where they go to the kernel, but only while the Transport writes, so
// that those of the handshake are not the request's.
type conn struct {
	net.Conn
	raw  *countConn
	peek bool // a plain connection: octets that wait while idle are not ours
	cur  atomic.Pointer[attempt]
	head headScan // reads only, by the Transport's read loop
	seen *attempt // whose answer head is scanning
}

// countConn counts the octets that the kernel took.
type countConn struct {
	net.Conn
	written atomic.Int64

	// names has the address at as of version; nil if it is not to be followed.
	names   *names
	at      netip.Addr
	version uint64
}

// moved reports that the node is not at the other end any more.
func (c *countConn) moved() bool { return c.names != nil && c.names.gone(c.at, c.version) }

func (c *countConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// begin gives the connection to a try. It is called from httptrace.GotConn,
// before the Transport writes anything.
func (c *conn) begin(a *attempt) {
	c.cur.Store(a)
}

// end takes the connection from a try, unless the next one has it already: the
// Transport pools a connection before it tells the caller.
func (c *conn) end(a *attempt) { c.cur.CompareAndSwap(a, nil) }

// stale reports whether a reused connection must not be written to: its peer
// has closed it, or has spoken while nothing was asked.
func (c *conn) stale() bool {
	pending, closed := peekConn(c.raw.Conn)
	return closed || pending && c.peek
}

// Write counts for the current try. The first octet of a request goes only to a
// connection that is still good, and a try that has written to one connection
// never writes to another: what net/http would send again by itself (RFC 9110
// §9.2.2 allows that for some methods) could be processed twice.
func (c *conn) Write(p []byte) (int, error) {
	a := c.cur.Load()
	if a == nil {
		return c.Conn.Write(p)
	}
	if a.conn.Load() != c {
		return 0, errSecondTry
	}
	if a.written.Load() == 0 && a.reused.Load() && c.stale() {
		return 0, errStale
	}
	a.writing.Store(true)
	a.inWrite.Add(1)
	defer a.inWrite.Add(-1)
	before := c.raw.written.Load()
	total := 0
	for {
		piece := p[total:min(len(p), total+writePiece)]
		c.Conn.SetWriteDeadline(time.Now().Add(a.answer))
		n, err := c.Conn.Write(piece)
		total += n
		now := c.raw.written.Load()
		a.wrote(now - before)
		before = now
		if err != nil {
			a.broken(err)
			return total, err
		}
		if total == len(p) {
			return total, nil
		}
	}
}

// Read passes on what the node sends, once it was asked.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	a := c.cur.Load()
	if err != nil && a != nil {
		a.broken(err)
	}
	if n == 0 {
		return n, err
	}
	if a == nil || !a.writing.Load() {
		return 0, errUnsolicited
	}
	if c.seen != a {
		c.seen, c.head = a, headScan{}
	}
	if !c.head.done {
		c.head.feed(p[:n])
		if c.head.ambiguous {
			return 0, errAmbiguous
		}
		if c.head.done {
			a.sawHead.Store(true)
		}
	}
	return n, err
}

// Close also ends the reading of a streaming request body: its sender may be
// silent, and nobody is left to give the octets to.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if a := c.cur.Load(); a != nil && a.abort != nil {
		a.abort()
	}
	return err
}

// headScan follows the octets of an answer up to the end of its final head. It
// sees what net/http's parser drops in silence: a Content-Length next to a
// Transfer-Encoding (RFC 9112 §6.3: ought to be handled as an error), a
// Transfer-Encoding under HTTP/1.0 (§6.1: faulty framing), and either of them
// with a blank before its colon.
type headScan struct {
	line      [24]byte // start of the current line
	n         int      // octets of the line, without its end
	lines     int      // lines before the current one
	interim   bool     // a 1xx head: another one follows
	old       bool     // HTTP/1.0
	length    bool
	coding    bool
	odd       bool // one of them with a blank before its colon
	ambiguous bool
	done      bool
}

func (h *headScan) feed(p []byte) {
	for len(p) > 0 && !h.done {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if h.n < len(h.line) {
			copy(h.line[h.n:], part)
		}
		h.n += len(part)
		if end < 0 {
			return
		}
		p = p[end+1:]
		h.endLine()
	}
}

func (h *headScan) endLine() {
	line := h.line[:min(h.n, len(h.line))]
	empty := h.n == 0 || h.n == 1 && line[0] == '\r'
	switch {
	case h.lines == 0:
		h.old = bytes.HasPrefix(line, []byte("HTTP/1.0 "))
		h.interim = len(line) >= 12 && line[9] == '1' && !bytes.Equal(line[9:12], []byte("101"))
	case empty && h.interim:
		*h = headScan{}
		return
	case empty:
		h.done = true
		h.ambiguous = h.odd || h.coding && (h.length || h.old)
	case fieldName(line, "content-length", ':'):
		h.length = true
	case fieldName(line, "transfer-encoding", ':'):
		h.coding = true
	case blankAfter(line, "content-length"), blankAfter(line, "transfer-encoding"):
		h.odd = true
	}
	h.lines++
	h.n = 0
}

// fieldName reports whether a line begins with that name, in any case, and then
// the octet next.
func fieldName(line []byte, name string, next byte) bool {
	return len(line) > len(name) && line[len(name)] == next && bytes.EqualFold(line[:len(name)], []byte(name))
}

// blankAfter reports whether a blank follows the name of the field, which
// net/http takes for another field (RFC 9112 §5.1).
func blankAfter(line []byte, name string) bool {
	return fieldName(line, name, ' ') || fieldName(line, name, '\t')
}
