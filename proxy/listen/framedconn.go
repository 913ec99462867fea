package listen

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"soapway/internal/frame"
	"soapway/internal/h1"
	"soapway/proxy"
)

const (
	// frameBuffer is read from a connection at once: many short frames cost
	// one read.
	frameBuffer = 16 << 10

	// gatherMost bounds what is gathered into one write, and a reply above it
	// streams.
	gatherMost = 64 << 10

	// heldFactor times FramedOptions.Buffer bounds the octets of requests that
	// one connection holds in memory.
	heldFactor = 4
)

// framedConn is one connection of a framed listener. One goroutine reads
// frames, one goroutine each serves a request, and one writes the replies in
// the order of the requests:
//
//	read -> turns (FIFO, at most Pipeline) -> write
//	          \-> serve -> turn.ready -/
//
// A request of up to Buffer octets is read whole, then the next one is read
// while it is served. A longer one streams, and reading goes on when its server
// has returned and its frame is read to its end.
type framedConn struct {
	l    *Framed
	size framedSizes // of the listener when the connection was made
	c    *conn
	peer netip.AddrPort
	r    *frame.Reader
	stop context.Context // done when no further frame may be read

	ctx    context.Context // of all exchanges of the connection
	cancel context.CancelCauseFunc
	turns  chan *turn
	served sync.WaitGroup

	mu       sync.Mutex
	room     sync.Cond // signalled when held shrinks or the connection ends
	held     int64     // octets of requests in memory
	underway int       // turns that are not written yet
	waiting  bool      // the reader waits for the first octet of a frame
	stopped  bool      // no further frames
	ended    bool      // the writer has given up
}

// turn is the place of one request in the order of replies.
type turn struct {
	ready chan struct{} // closed when out, reply and last are set
	out   []byte        // a complete frame, or the prefix of reply
	reply *proxy.Reply  // streams after out; nil if out is all
	last  bool          // the connection ends after it
}

func (t *turn) isReady() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

func newFramedConn(l *Framed, c *conn, work, stop context.Context) *framedConn {
	f := &framedConn{l: l, size: *l.sizes.Load(), c: c, stop: stop, turns: make(chan *turn, l.opt.Pipeline)}
	f.room.L = &f.mu
	f.ctx, f.cancel = context.WithCancelCause(work)
	f.peer, _ = netip.ParseAddrPort(c.RemoteAddr().String())
	f.r = frame.NewReader((*framedInput)(f), l.opt.Length, f.size.message, frameBuffer)
	return f
}

// run serves the connection until it ends, and returns once nothing of it is
// left.
func (f *framedConn) run() {
	cut := context.AfterFunc(f.ctx, func() { f.c.Close() })
	defer cut()
	unstop := context.AfterFunc(f.stop, f.stopReading)
	defer unstop()
	written := make(chan struct{})
	go func() { f.writeLoop(); close(written) }()

	err := f.readLoop()
	close(f.turns)
	if !gentle(err) {
		// The peer is gone, so nobody waits for what is under way.
		f.cancel(ErrGone)
	}
	<-written
	f.served.Wait()
	f.linger(err)
	f.cancel(nil)
	f.c.Close()
}

// gentle reports whether the end of reading leaves a peer that still reads: it
// has sent its last request, or it broke a rule, or it was silent for too long.
func gentle(err error) bool {
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, frame.ErrTooLong)
}

// linger takes in what the peer still sends, so that the last replies are not
// lost in a reset.
func (f *framedConn) linger(err error) {
	if err == io.EOF || !gentle(err) || f.ctx.Err() != nil || f.c.CloseWrite() != nil {
		return
	}
	budget := lingerFor
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		budget = drainFor // it was between frames, most likely
	}
	f.c.SetReadDeadline(time.Now().Add(budget))
	io.CopyN(io.Discard, f.c.Conn, drainMost)
}

// stopReading ends the wait for a frame; one that has begun is still read.
func (f *framedConn) stopReading() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.room.Broadcast()
	if f.waiting {
		f.c.SetReadDeadline(past)
	}
}

// wait marks the time between two frames, and reports whether there may be
// another one. Only a connection with nothing under way is idle.
func (f *framedConn) wait() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = !f.stopped && !f.ended
	f.arm()
	return f.waiting
}

// arm is called with mu held whenever waiting or underway has changed.
func (f *framedConn) arm() {
	switch {
	case !f.waiting || f.stopped:
	case f.underway > 0:
		f.c.SetReadDeadline(time.Time{})
	default:
		f.c.SetReadDeadline(time.Now().Add(f.l.opt.Timeouts.Idle))
	}
}

// framedInput is the connection as the frame reader sees it: inside a frame
// each read has its own deadline.
type framedInput framedConn

func (in *framedInput) Read(p []byte) (int, error) {
	f := (*framedConn)(in)
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	}
	if !f.waiting {
		f.c.SetReadDeadline(time.Now().Add(f.l.opt.Timeouts.BodyIdle))
	}
	f.mu.Unlock()
	n, err := f.c.Read(p)
	if n > 0 {
		f.mu.Lock()
		f.waiting = false
		f.mu.Unlock()
	}
	return n, err
}

// readLoop reads frames until the connection ends: nil when it was told to stop.
func (f *framedConn) readLoop() error {
	for f.wait() {
		if err := f.r.Wait(); err != nil {
			f.mu.Lock()
			stopped := f.stopped || f.ended
			f.mu.Unlock()
			if stopped {
				return nil
			}
			return err
		}
		f.mu.Lock()
		f.waiting = false
		f.mu.Unlock()
		n, err := f.r.Next()
		if err != nil {
			if errors.Is(err, frame.ErrTooLong) {
				f.l.opt.Log.Warn("connection closed", "listener", f.l.opt.Name, "client", f.peer.String(), "err", err)
			}
			return err
		}
		last, err := f.take(n)
		if err != nil || last {
			return err
		}
	}
	return nil
}

// take takes one request of n octets into the order and has it served.
func (f *framedConn) take(n int64) (last bool, err error) {
	t := &turn{ready: make(chan struct{})}
	switch {
	case n == 0: // keep-alive
		t.out, _ = frame.AppendLength(nil, f.l.opt.Length, 0)
		close(t.ready)
		return !f.enqueue(t), nil
	case n > f.size.buffer:
		return f.stream(t, n)
	}
	if !f.hold(n) {
		return true, nil
	}
	payload, err := readPayload(f.r, n)
	if err != nil {
		f.release(n)
		return false, err
	}
	if !f.enqueue(t) {
		f.release(n)
		return true, nil
	}
	f.served.Add(1)
	f.l.workers.run(func() {
		defer f.served.Done()
		defer f.release(n)
		f.serve(t, &wholeBody{data: payload}, n)
	})
	return false, nil
}

// stream serves a request while it is read. What its server leaves of the frame
// is skipped: the next frame begins at a known place.
func (f *framedConn) stream(t *turn, n int64) (last bool, err error) {
	if !f.enqueue(t) {
		return true, nil
	}
	b := &frameStream{f: f}
	b.still.L = &b.mu
	f.served.Add(1)
	f.l.workers.run(func() {
		defer f.served.Done()
		f.serve(t, b, n)
	})
	<-t.ready
	b.shut()
	if b.err != nil {
		return false, b.err
	}
	if t.last {
		return true, nil
	}
	if _, err := io.Copy(io.Discard, f.r); err != nil {
		return false, err
	}
	return false, nil
}

// enqueue gives the turn its place. It waits while Pipeline others are under
// way, and fails when the writer has given up.
func (f *framedConn) enqueue(t *turn) bool {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return false
	}
	f.underway++
	f.mu.Unlock()
	f.turns <- t // the writer takes turns until the channel is closed
	return true
}

// hold waits until n more octets may be held in memory.
func (f *framedConn) hold(n int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.held > 0 && f.held+n > heldFactor*f.size.buffer && !f.ended {
		f.room.Wait()
	}
	f.held += n
	return !f.ended
}

func (f *framedConn) release(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held -= n
	f.room.Broadcast()
}

// written takes turns off the count of those under way.
func (f *framedConn) written(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.underway -= n
	if n > 0 && f.underway == 0 {
		f.arm()
	}
}

// giveUp ends reading and whatever is under way, after the last turn or when
// the peer does not take its replies.
func (f *framedConn) giveUp() {
	f.mu.Lock()
	f.ended = true
	f.room.Broadcast()
	f.c.SetReadDeadline(past)
	f.mu.Unlock()
}

// writeLoop writes the replies in order. Those that are ready leave in one
// write; it goes out when the next one is not ready yet, or is large.
func (f *framedConn) writeLoop() {
	var out gather
	good := true
	for t := range f.turns {
		if out.turns > 0 && !t.isReady() {
			runtime.Gosched() // it may be about to be
			if !t.isReady() {
				good = good && f.flush(&out)
			}
		}
		<-t.ready
		if good {
			out.add(t)
			switch {
			case t.reply != nil:
				good = f.send(out.buf) && f.sendBody(t.reply)
				out.buf = out.buf[:0]
				good = f.flush(&out) && good
				if !good && t.reply.Cut != nil {
					t.reply.Cut(errCut)
				}
			case len(out.buf) >= gatherMost || t.last || f.drained():
				good = f.flush(&out)
			}
			if !good {
				f.cancel(ErrGone)
			}
			if !good || t.last {
				good = false
				f.giveUp()
			}
		}
		if t.reply != nil && t.reply.Close != nil {
			t.reply.Close()
		}
	}
}

// drained reports whether no further request has its turn. It gives those that
// are being read a moment, since a write costs more than that.
func (f *framedConn) drained() bool {
	if len(f.turns) > 0 {
		return false
	}
	runtime.Gosched()
	return len(f.turns) == 0
}

// gather is what leaves in one write.
type gather struct {
	buf    []byte
	pooled *[]byte // where buf came from
	turns  int
}

var gatherBuffers = sync.Pool{New: func() any { return new([]byte) }}

func (g *gather) add(t *turn) {
	if g.buf == nil {
		g.pooled = gatherBuffers.Get().(*[]byte)
		g.buf = (*g.pooled)[:0]
	}
	g.buf = append(g.buf, t.out...)
	g.turns++
	t.out = nil
}

// drop gives the buffer back, unless it has grown too large to be kept.
func (g *gather) drop() {
	if g.pooled != nil && cap(g.buf) <= 2*gatherMost {
		*g.pooled = g.buf
		gatherBuffers.Put(g.pooled)
	}
	g.buf, g.pooled = nil, nil
}

// flush writes what was gathered.
func (f *framedConn) flush(g *gather) bool {
	ok := f.send(g.buf)
	f.written(g.turns)
	g.turns = 0
	g.buf = g.buf[:0]
	if len(f.turns) == 0 { // quiet connections must not hold a buffer each
		g.drop()
	}
	return ok
}

// send writes b, with a deadline per piece: a slow reader passes.
func (f *framedConn) send(b []byte) bool {
	for len(b) > 0 {
		piece := b[:min(len(b), gatherMost)]
		f.c.SetWriteDeadline(time.Now().Add(f.l.opt.Timeouts.BodyIdle))
		if _, err := f.c.Write(piece); err != nil {
			return false
		}
		b = b[len(piece):]
	}
	return true
}

// sendBody streams a reply whose length has been written. One that fails or has
// another length ends the connection, and its last octets are never written.
func (f *framedConn) sendBody(reply *proxy.Reply) bool {
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	buf := *bp
	for left := reply.Length; left > 0; {
		n, err := reply.Body.Read(buf[:min(int64(len(buf)), left)])
		left -= int64(n)
		if err == nil && left == 0 {
			err = h1.AtEnd(reply.Body)
		}
		if err != nil && (err != io.EOF || left > 0) {
			return false
		}
		if !f.send(buf[:n]) {
			return false
		}
	}
	return true
}
