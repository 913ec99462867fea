package listen

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"soapway/internal/h1"
	"soapway/proxy"
)

// turn is one request and its reply.
type turn struct {
	f     *framedConn
	n     int64 // octets of the request
	body  wholeBody
	frame []byte       // the reply as a complete frame, or the prefix of reply
	reply *proxy.Reply // streams after frame; nil if frame is all
	last  bool         // the connection ends after it

	queued bool // has a place in the queue; its goroutine does not read any more
	ready  bool // guarded by framedConn.mu: frame, reply and last are set
}

var _ proxy.Waiter = (*turn)(nil)

var turns = sync.Pool{New: func() any { return new(turn) }}

func newTurn(f *framedConn) *turn {
	t := turns.Get().(*turn)
	t.f = f
	return t
}

// keptFrame is the largest memory for a reply that a turn keeps.
const keptFrame = 4 << 10

// free gives t back; nobody else knows it any more.
func (t *turn) free() {
	if t == nil {
		return
	}
	kept := t.frame[:0]
	if cap(kept) > keptFrame {
		kept = nil
	}
	*t = turn{frame: kept}
	turns.Put(t)
}

// reset makes t fit for the next request.
func (t *turn) reset() {
	t.n, t.body, t.frame, t.reply, t.last, t.queued, t.ready = 0, wholeBody{}, t.frame[:0], nil, false, false, false
}

// Wait implements [proxy.Waiter]: the exchange takes its place in the queue, and
// another goroutine reads on.
func (t *turn) Wait() {
	f := t.f
	if t.body.lent && len(t.body.data) > 0 {
		t.body.data = bytes.Clone(t.body.data)
	}
	t.queued = true
	f.mu.Lock()
	f.queue = append(f.queue, t)
	f.held += t.n
	f.mu.Unlock()
	f.l.workers.run(f.goOn)
}

// wholeBody is a request that is in memory.
type wholeBody struct {
	data []byte
	lent bool // data is the reader's
}

func (b *wholeBody) Read(p []byte) (int, error) {
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

// serve has a request of up to Buffer octets served. It returns the turn for the
// next request, nil if another goroutine reads that.
func (f *framedConn) serve(t *turn, n int64) (*turn, error) {
	t.reset()
	t.n = n
	var err error
	t.body.lent = true
	if t.body.data, err = f.r.Take(); t.body.data == nil && err == nil {
		t.body.lent = false
		t.body.data, err = readPayload(f.r, n)
	}
	if err != nil {
		return t, err
	}
	f.fill(t, f.exchange(&t.body, n, t))
	if t.queued {
		f.complete(t)
		return nil, nil
	}
	last := t.last
	if t = f.add(t); last {
		return t, errStopped
	}
	return t, nil
}

// stream serves a request while it is read. What its server leaves of the frame
// is skipped: the next frame begins at a known place.
func (f *framedConn) stream(t *turn, n int64) (*turn, error) {
	f.flush()
	t.reset()
	b := &frameStream{f: f}
	b.still.L = &b.mu
	f.mu.Lock()
	f.queue = append(f.queue, t) // it is under way
	f.mu.Unlock()
	f.fill(t, f.exchange(b, n, nil))
	last := t.last
	f.mu.Lock()
	t.ready = true
	f.mu.Unlock()
	f.flush()
	t = newTurn(f)
	b.shut()
	if b.err != nil {
		return t, b.err
	}
	if last {
		return t, errStopped
	}
	_, err := io.Copy(io.Discard, f.r)
	return t, err
}

// add puts the reply of a request that was served by the reader behind all that
// came before, and returns a turn for the next.
func (f *framedConn) add(t *turn) *turn {
	f.mu.Lock()
	if len(f.queue) == 0 && f.last == nil && t.reply == nil && !t.last {
		f.gather(t)
		f.mu.Unlock()
		return t
	}
	t.ready = true
	f.queue = append(f.queue, t)
	streams := t.reply != nil
	f.mu.Unlock()
	if streams {
		f.flush()
	}
	return newTurn(f)
}

// complete makes the reply of a queued turn ready, and sees to it that it leaves.
func (f *framedConn) complete(t *turn) {
	f.mu.Lock()
	t.ready = true
	f.held -= t.n
	f.room.Broadcast()
	first, others := f.queue[0] == t, len(f.queue) > 1
	busy := f.writing
	f.mu.Unlock()
	if !first || busy {
		return // whoever is first, or writes, takes it along
	}
	if others {
		runtime.Gosched() // they may be about to be ready, and a write costs more than that
	}
	f.write()
}

// gatherBuffers are what replies are gathered in.
var gatherBuffers = sync.Pool{New: func() any { return new([]byte) }}

// gather is called with mu held.
func (f *framedConn) gather(t *turn) {
	if f.out == nil {
		f.out = (*gatherBuffers.Get().(*[]byte))[:0]
	}
	f.out = append(f.out, t.frame...)
}

// dropGathered gives a buffer back, unless it has grown too large to be kept.
func dropGathered(b []byte) {
	if cap(b) > 0 && cap(b) <= 2*gatherMost {
		gatherBuffers.Put(&b)
	}
}

// collect is called with mu held by who is about to write: what is ready of the
// queue may leave.
func (f *framedConn) collect() {
	n := 0
	for f.last == nil && n < len(f.queue) && f.queue[n].ready && (f.ended || len(f.out) < gatherMost) {
		t := f.queue[n]
		n++
		switch {
		case f.ended:
			if t.reply != nil && t.reply.Close != nil {
				t.reply.Close()
			}
			t.free()
		case t.reply != nil || t.last:
			f.gather(t)
			f.last = t
		default:
			f.gather(t)
			t.free()
		}
	}
	f.queue = slices.Delete(f.queue, 0, n)
	if f.ended && f.last == nil {
		dropGathered(f.out)
		f.out = nil
	}
	if n > 0 {
		f.room.Broadcast()
	}
}

// flush is write for the reader, which must not wait: the peer may send all of
// its requests before it reads a reply.
func (f *framedConn) flush() {
	f.mu.Lock()
	for !f.writing {
		f.collect()
		if f.last == nil && len(f.out) == 0 {
			break
		}
		if f.last != nil || f.quick == nil {
			f.mu.Unlock()
			f.l.workers.run(f.goWrite)
			return
		}
		b := f.out
		f.out, f.writing = nil, true
		f.mu.Unlock()
		n, err := f.quick.try(b)
		if err == nil && n < len(b) {
			f.l.workers.run(func() {
				f.wrote(b, nil, f.send(b[n:]))
				f.write()
			})
			return
		}
		f.wrote(b, nil, err == nil)
		f.mu.Lock()
	}
	f.mu.Unlock()
}

// write writes what may leave, and what becomes ready meanwhile, unless somebody
// is at it, who then looks again.
func (f *framedConn) write() {
	f.mu.Lock()
	for !f.writing {
		f.collect()
		b, last := f.out, f.last
		if len(b) == 0 && last == nil {
			break
		}
		f.out, f.writing = nil, true
		f.mu.Unlock()
		good := f.send(b)
		if last != nil && last.reply != nil {
			good = good && f.sendBody(last.reply)
			if !good && last.reply.Cut != nil {
				last.reply.Cut(errCut)
			}
		}
		f.wrote(b, last, good)
		f.mu.Lock()
	}
	f.finish()
}

// wrote ends a write of b and of the last turn behind it, if there is one.
func (f *framedConn) wrote(b []byte, last *turn, good bool) {
	dropGathered(b)
	if !good {
		f.cancel(ErrGone)
	}
	f.mu.Lock()
	f.writing = false
	if last != nil {
		f.last = nil
	}
	if !good || last != nil && last.last {
		f.giveUp()
	}
	f.room.Broadcast()
	f.arm()
	f.mu.Unlock()
	if last != nil {
		if last.reply != nil && last.reply.Close != nil {
			last.reply.Close()
		}
		last.free()
	}
}

// send writes b, with a deadline per piece: a slow reader passes. Only who has
// set writing may call it.
func (f *framedConn) send(b []byte) bool {
	for len(b) > 0 {
		piece := b[:min(len(b), gatherMost)]
		limit := f.l.opt.Timeouts.BodyIdle
		if want := time.Now().Add(limit); f.writeBy.After(want) || f.writeBy.Before(want.Add(-limit/32)) {
			f.writeBy = want
			f.c.SetWriteDeadline(want)
		}
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
