package upstream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy"
)

// Budget bounds the connections that several nodes have open, all of them
// together. A node that needs one while none may be opened gets the place of the
// connection that has been idle longest, at whatever node; when all are in use it
// waits for one, and who has waited longest is served first.
type Budget struct {
	most int64
	open atomic.Int64 // connections, and those that are being made

	waiting atomic.Int64 // len(queue), or more while somebody decides to wait

	mu      sync.Mutex // never taken while that of a member is held
	members []member   // guarded by mu
	queue   []turn     // guarded by mu; the longest wait first
}

// member is a node's part of a Budget.
type member interface {
	// oldest says since when its longest idle connection is idle.
	oldest() (since time.Time, ok bool)
	// shed closes that connection and leaves its place to the caller; false if
	// there is none any more.
	shed() bool
}

// turn is somebody's wait for a connection to one node: what it gets is such a
// connection, or nil for the right to make one.
type turn struct {
	pool *pool // whose connections will do; nil: none
	got  chan *conn
}

// NewBudget returns a budget of n connections, at least one.
func NewBudget(n int) *Budget { return &Budget{most: int64(max(n, 1))} }

// budgetOf is the one that the options of a node name, or one of its own.
func budgetOf(shared *Budget, n int) *Budget {
	if shared != nil {
		return shared
	}
	return NewBudget(n)
}

func (b *Budget) join(m member) {
	b.mu.Lock()
	b.members = append(b.members, m)
	b.mu.Unlock()
}

func (b *Budget) leave(m member) {
	b.mu.Lock()
	b.members = slices.DeleteFunc(b.members, func(o member) bool { return o == m })
	b.mu.Unlock()
}

// try takes a place if there is one, or if an idle connection can make room.
func (b *Budget) try() bool {
	if b.free() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free() || b.room()
}

// free takes a place that nobody has.
func (b *Budget) free() bool {
	for {
		n := b.open.Load()
		if n >= b.most {
			return false
		}
		if b.open.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// room closes the connection that has been idle longest; its place is the
// caller's. b.mu is held.
func (b *Budget) room() bool {
	for {
		var best member
		var since time.Time
		for _, m := range b.members {
			if at, ok := m.oldest(); ok && (best == nil || at.Before(since)) {
				best, since = m, at
			}
		}
		if best == nil {
			return false
		}
		if best.shed() {
			return true
		}
	}
}

// take waits for a place, or for a connection of pool, which may be nil. The error
// is [proxy.ErrNoConnection] after limit, or the cause of ctx.
func (b *Budget) take(ctx context.Context, limit time.Duration, of *pool) (*conn, error) {
	if b.free() {
		return nil, nil
	}
	t := turn{of, make(chan *conn, 1)}
	b.mu.Lock()
	b.waiting.Add(1) // before the last look: whoever gives a place later sees it
	if b.free() || b.room() {
		b.waiting.Add(-1)
		b.mu.Unlock()
		return nil, nil
	}
	b.queue = append(b.queue, t)
	b.mu.Unlock()

	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case c := <-t.got:
		return c, nil
	case <-timer.C:
		err = proxy.ErrNoConnection
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	i := slices.IndexFunc(b.queue, func(o turn) bool { return o.got == t.got })
	if i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
		b.waiting.Add(-1)
	}
	b.mu.Unlock()
	if i >= 0 {
		return nil, err
	}
	return <-t.got, nil // it came in the same moment
}

// next is the turn of whoever has waited longest. b.mu is held.
func (b *Budget) next() turn {
	t := b.queue[0]
	b.queue = slices.Delete(b.queue, 0, 1)
	b.waiting.Add(-1)
	return t
}

// give gives a place back: that of a connection which is closed, or was never made.
func (b *Budget) give() {
	if b.waiting.Load() > 0 {
		b.mu.Lock()
		if len(b.queue) > 0 {
			b.next().got <- nil
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
	b.open.Add(-1)
	b.serve()
}

// pass hands a connection of p that is free to whoever has waited longest, if that
// is for p; if it is for another node, the connection should be dropped. It reports
// false for both that and when nobody waits.
func (b *Budget) pass(c *conn, p *pool) (passed, wanted bool) {
	if b.waiting.Load() == 0 {
		return false, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return false, false
	}
	if b.queue[0].pool != p {
		return false, true
	}
	b.next().got <- c
	return true, true
}

// serve gives those who wait what has become free or idle while they decided to.
func (b *Budget) serve() {
	for b.waiting.Load() > 0 {
		b.mu.Lock()
		if len(b.queue) == 0 || !(b.free() || b.room()) {
			b.mu.Unlock()
			return
		}
		b.next().got <- nil
		b.mu.Unlock()
	}
}
