package listen

import (
	"errors"
	"sync/atomic"
	"time"
)

const (
	// readAhead is read from a connection at once: frames are often short, and
	// net/http reads the head of each by itself.
	readAhead = 4 << 10

	frameHead = 9 // octets (RFC 9113 §4.1)

	// A client may send mostFrames at once, and framesPerSecond, that carry no
	// message; framesPerRequest more for each request that is served, and one
	// more for each octetsPerFrame that it is sent.
	mostFrames       = 1000
	framesPerSecond  = 100
	framesPerRequest = 5
	octetsPerFrame   = 512
)

// errFlood is why a connection ends whose client keeps it busy with nothing.
var errFlood = errors.New("listen: too many frames of HTTP/2 for what they carry")

// http2Conn is a connection of HTTP/2 as net/http sees it. It watches the frames
// for what net/http does not: how long a client takes to complete one, and how
// many it sends that carry nothing.
type http2Conn struct {
	*conn
	opt  HTTPOptions
	lost atomic.Int64 // exchanges that the client gave up
	flow frameFlow

	armed bool // a read deadline is set; only Read touches this and what follows
	buf   [readAhead]byte
	r, w  int // buf[r:w] is received and not yet given on
}

func newHTTP2Conn(c *conn, opt HTTPOptions) *http2Conn {
	return &http2Conn{conn: c, opt: opt, flow: newFrameFlow(time.Now())}
}

// Read implements [net.Conn].
func (c *http2Conn) Read(p []byte) (int, error) {
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		return n, nil
	}
	into := c.buf[:]
	if len(p) >= readAhead {
		into = p
	}
	c.arm()
	n, err := c.conn.Read(into)
	if flood := c.flow.feed(into[:n], time.Now()); flood != nil {
		c.opt.Log.Info("connection closed", "listener", c.opt.Name, "client", c.RemoteAddr().String(), "err", flood)
		return 0, flood
	}
	if len(p) >= readAhead || n == 0 {
		return n, err
	}
	c.r, c.w = copy(p, into[:n]), n
	return c.r, nil // an error comes again
}

// arm gives the next read the time that is left for a head, or that a sender may
// be silent inside another frame. Between two frames it has all the time that
// net/http gives it.
func (c *http2Conn) arm() {
	switch f := &c.flow; {
	case !f.began():
		return // the deadline is that of net/http
	case !f.headSince.IsZero():
		c.SetReadDeadline(f.headSince.Add(c.opt.Timeouts.Header))
	case f.inside():
		c.SetReadDeadline(time.Now().Add(c.opt.Timeouts.BodyIdle))
	case c.armed:
		c.SetReadDeadline(time.Time{})
		c.armed = false
		return
	default:
		return
	}
	c.armed = true
}

// Write implements [net.Conn].
func (c *http2Conn) Write(p []byte) (int, error) {
	n, err := c.conn.Write(p)
	c.flow.sent(n)
	return n, err
}

// Kinds of frames and their flags (RFC 9113 §6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameContinuation = 9

	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
)

// frameFlow counts the frames that a client sends.
//
// net/http answers each SETTINGS and PING, decodes each head also of a stream
// that it refuses, and takes frames that carry nothing for as long as they come:
// each costs little, but a client can send a million a second. So there is a
// budget for all frames but those with octets of a body. It grows with time and
// with what the client gets done.
type frameFlow struct {
	preface int // octets of the preface that are still to come
	head    [frameHead]byte
	n       int // octets of head that are there
	left    int // octets of the frame that are still to come

	// headSince is when the head of a request began that is not complete.
	headSince time.Time

	budget float64
	at     time.Time // when budget was right
	earned atomic.Int64
	octets atomic.Int64 // sent, and not yet earned
}

func newFrameFlow(now time.Time) frameFlow {
	return frameFlow{preface: len(preface), budget: mostFrames, at: now}
}

// began reports whether the preface is over.
func (f *frameFlow) began() bool { return f.preface == 0 }

// inside reports whether a frame has begun and not ended.
func (f *frameFlow) inside() bool { return f.n > 0 || f.left > 0 }

// earn adds to the budget, from any goroutine.
func (f *frameFlow) earn(frames int64) { f.earned.Add(frames) }

// sent notes octets that the client was sent.
func (f *frameFlow) sent(n int) { f.octets.Add(int64(n)) }

// feed takes what was received at a time.
func (f *frameFlow) feed(p []byte, now time.Time) error {
	for len(p) > 0 {
		switch {
		case f.preface > 0:
			n := min(f.preface, len(p))
			f.preface -= n
			p = p[n:]
		case f.left > 0:
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
		default:
			n := copy(f.head[f.n:], p)
			f.n += n
			p = p[n:]
			if f.n < frameHead {
				break
			}
			f.n = 0
			if err := f.begin(now); err != nil {
				return err
			}
		}
		if f.left == 0 && f.n == 0 && f.endsHead() {
			f.headSince = time.Time{}
		}
	}
	return nil
}

// begin judges a frame by its head.
func (f *frameFlow) begin(now time.Time) error {
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	kind, flags := f.head[3], f.head[4]
	if kind == frameHeaders && f.headSince.IsZero() {
		f.headSince = now
	}
	if kind == frameData {
		padding := flags&flagPadded != 0 && f.left <= 256 // it may be all of it
		if f.left > 0 && !padding || flags&flagEndStream != 0 {
			return nil
		}
	}
	return f.spend(now)
}

// endsHead reports whether the frame that has begun is the last one of a head.
func (f *frameFlow) endsHead() bool {
	return !f.headSince.IsZero() && (f.head[3] == frameHeaders || f.head[3] == frameContinuation) && f.head[4]&flagEndHeaders != 0
}

// spend takes a frame off the budget.
func (f *frameFlow) spend(now time.Time) error {
	f.budget--
	if f.budget >= 0 {
		return nil
	}
	octets := f.octets.Swap(0)
	f.budget += now.Sub(f.at).Seconds()*framesPerSecond + float64(f.earned.Swap(0)) + float64(octets)/octetsPerFrame
	f.budget = min(f.budget, mostFrames)
	f.at = now
	if f.budget < 0 {
		return errFlood
	}
	return nil
}
