package listen

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/frame"
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

// framedConn is one connection of a framed listener. One goroutine at a time
// reads it. It serves each request itself, where that lies in the read buffer,
// and gathers the replies until nothing more is there to be read:
//
//	read -> serve -> out -> write
//
// An exchange that is about to wait for somebody else takes a place in the queue
// for its reply, and another goroutine goes on reading (see [turn.Wait]):
//
//	read -> serve -> queue (at most Pipeline) -> out -> write
//	  \-> read …
//
// A request of more than Buffer octets is read while it is served, and nothing
// behind it before its end.
type framedConn struct {
	l     *Framed
	size  framedSizes // of the listener when the connection was made
	c     *conn
	peer  netip.AddrPort
	r     *frame.Reader
	quick *tryWriter // nil: whoever writes may have to wait
	over  func()     // called when nothing of the connection is left

	ctx    *proxy.Ending // of all exchanges of the connection
	cancel context.CancelCauseFunc
	unhook [2]func() bool

	// The functions that workers run, made once.
	goOn, goWrite func()

	halted atomic.Bool // stopped or ended

	mu      sync.Mutex
	room    sync.Cond // signalled when there may be room for the next frame, or the connection ends
	readBy  time.Time // the deadlines that are set; writeBy is the writer's
	writeBy time.Time
	waiting bool  // the reader waits for the first octet of a frame
	stopped bool  // no further frames
	ended   bool  // nothing more can be written
	read    bool  // nobody reads any more,
	readErr error // for this reason
	torn    bool  // the end has begun

	queue   []*turn // those whose replies are not in out yet, in the order of requests
	held    int64   // octets of their requests
	out     []byte  // frames that may leave; nil, or of the pool
	last    *turn   // leaves behind out, before anything else: it streams, or the connection ends
	writing bool    // out has been taken by somebody who writes it
}

func newFramedConn(l *Framed, c *conn, work, stop context.Context, over func()) *framedConn {
	f := &framedConn{l: l, size: *l.sizes.Load(), c: c, over: over, quick: newTryWriter(c.Conn)}
	f.room.L = &f.mu
	ctx, cancel := context.WithCancelCause(work)
	f.ctx, f.cancel = proxy.NewEnding(ctx), cancel
	f.goOn, f.goWrite = f.readOn, f.write
	f.peer, _ = netip.ParseAddrPort(c.RemoteAddr().String())
	f.r = frame.NewReader((*framedInput)(f), l.opt.Length, f.size.message, frameBuffer)
	f.unhook = [2]func() bool{
		context.AfterFunc(ctx, func() { f.c.Close() }),
		context.AfterFunc(stop, f.stopReading),
	}
	return f
}

// gentle reports whether the end of reading leaves a peer that still reads: it
// has sent its last request, or it broke a rule, or it was silent for too long.
func gentle(err error) bool {
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, frame.ErrTooLong)
}

// finish ends the connection once nobody reads and nothing is left to be
// written. It is called with mu held after every step towards that, and unlocks.
func (f *framedConn) finish() {
	over := f.read && !f.torn && !f.writing && len(f.queue) == 0 && len(f.out) == 0 && f.last == nil
	f.torn = f.torn || over
	f.mu.Unlock()
	if !over {
		return
	}
	f.linger(f.readErr)
	for _, unhook := range f.unhook {
		unhook()
	}
	f.cancel(nil)
	f.c.Close()
	f.over()
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
	f.halted.Store(true)
	f.room.Broadcast()
	if f.waiting {
		f.readUntil(past)
	}
}

// giveUp is called with mu held. It ends reading, and whatever is under way has
// nobody to go to: after the last reply, or when the peer does not take any.
func (f *framedConn) giveUp() {
	f.ended = true
	f.halted.Store(true)
	f.room.Broadcast()
	f.readUntil(past)
}

// arm is called with mu held when the reader waits for a frame, and whenever
// what is under way meanwhile has ended: only a connection with nothing under
// way is idle.
func (f *framedConn) arm() {
	switch {
	case !f.waiting || f.stopped || f.ended:
	case len(f.queue) > 0 || len(f.out) > 0 || f.writing || f.last != nil:
		if !f.readBy.IsZero() {
			f.readUntil(time.Time{})
		}
	default:
		f.readWithin(f.l.opt.Timeouts.Idle)
	}
}

// readWithin is called with mu held. A deadline may come up to 1/32 early, so
// that it need not be set anew for every frame.
func (f *framedConn) readWithin(limit time.Duration) {
	if want := time.Now().Add(limit); f.readBy.After(want) || f.readBy.Before(want.Add(-limit/32)) {
		f.readUntil(want)
	}
}

// readUntil is called with mu held.
func (f *framedConn) readUntil(t time.Time) {
	f.readBy = t
	f.c.SetReadDeadline(t)
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
		f.readWithin(f.l.opt.Timeouts.BodyIdle)
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

// errStopped ends reading because no further frame is wanted.
var errStopped = errors.New("listen: stopped")

// readOn reads frames and has them served until another goroutine goes on with
// that, or the connection ends.
func (f *framedConn) readOn() {
	t := newTurn(f)
	for {
		n, err := f.next()
		switch {
		case err != nil:
		case n == 0: // keep-alive
			t.frame, _ = frame.AppendLength(t.frame[:0], f.l.opt.Length, 0)
			t = f.add(t)
		case n > f.size.buffer:
			t, err = f.stream(t, n)
		default:
			t, err = f.serve(t, n)
		}
		if err != nil {
			t.free()
			f.stopRead(err)
			return
		}
		if t == nil {
			return
		}
	}
}

// stopRead notes that nobody reads any more.
func (f *framedConn) stopRead(err error) {
	if err != errStopped && !gentle(err) {
		// The peer is gone, so nobody waits for what is under way.
		f.cancel(ErrGone)
	}
	f.flush()
	f.mu.Lock()
	f.read = true
	if f.waiting = false; err != errStopped && !f.stopped && !f.ended {
		f.readErr = err
	}
	f.finish()
}

// next waits for the next frame, and for room for it, and returns its length.
func (f *framedConn) next() (int64, error) {
	if f.halted.Load() {
		return 0, errStopped
	}
	if !f.r.Ready() {
		f.flush() // what it has answered may be what the peer waits for
		f.mu.Lock()
		f.waiting = !f.stopped && !f.ended
		f.arm()
		wait := f.waiting
		f.mu.Unlock()
		if !wait {
			return 0, errStopped
		}
		err := f.r.Wait()
		f.mu.Lock()
		f.waiting = false
		f.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
	n, err := f.r.Next()
	if err != nil {
		if errors.Is(err, frame.ErrTooLong) {
			f.l.opt.Log.Warn("connection closed", "listener", f.l.opt.Name, "client", f.peer.String(), "err", err)
		}
		return 0, err
	}
	return n, f.await(n)
}

// await waits for room for a request of n octets: in the queue, in memory, and
// for its reply.
func (f *framedConn) await(n int64) error {
	n = min(n, f.size.buffer)
	f.mu.Lock()
	defer f.mu.Unlock()
	for flushed := false; ; {
		full := len(f.queue) >= f.l.opt.Pipeline || len(f.out) >= gatherMost ||
			f.held > 0 && f.held+n > heldFactor*f.size.buffer
		switch {
		case f.ended:
			return errStopped
		case !full:
			return nil
		case !flushed:
			f.mu.Unlock()
			f.flush()
			f.mu.Lock()
			flushed = true
		default:
			f.room.Wait()
			flushed = false
		}
	}
}
