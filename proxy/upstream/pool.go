package upstream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// shardCount is how many callers may be busy with the idle connections of a node
// at the same moment without waiting for each other.
const shardCount = 8

// pool has the idle connections to a node. The one that was used last is used
// next, so that those which are not needed grow old and are closed.
//
// They lie in shards, each under a lock of its own. Everybody begins at the first
// one and goes on to the next where the lock is taken: while nobody is in the way
// all are in the first and the order is exact; with many callers at once nobody
// waits, and the order is that of each shard.
type pool struct {
	budget  *Budget
	idleFor time.Duration // then an idle one is closed
	shards  [shardCount]shard
	closed  atomic.Bool

	reapMu sync.Mutex
	reaper *time.Timer // guarded by reapMu
	reaps  atomic.Bool // the reaper is set

	ownMu sync.Mutex
	own   []*conn // guarded by ownMu: idle ones that belong to a caller's connection, the oldest first
}

type shard struct {
	n    atomic.Int64 // len(idle)
	mu   sync.Mutex
	idle []*conn // guarded by mu; the oldest first
	_    [64]byte
}

var _ member = (*pool)(nil)

func (p *pool) init(b *Budget, idleFor time.Duration) {
	p.budget, p.idleFor = b, idleFor
	b.join(p)
}

// get returns an idle connection, or nil for the right to make one. When none may
// be made it waits; the error is [proxy.ErrNoConnection] after limit, or the cause
// of ctx. Whoever got something must put or drop it.
func (p *pool) get(ctx context.Context, limit time.Duration) (*conn, error) {
	for {
		c := p.pop()
		if c == nil {
			var err error
			if c, err = p.budget.take(ctx, limit, p); c == nil || err != nil {
				return nil, err
			}
		}
		if !c.stale() {
			return c, nil
		}
		p.drop(c)
	}
}

// pop takes an idle connection, the last one used first.
func (p *pool) pop() *conn {
	busy := false
	for i := range p.shards {
		s := &p.shards[i]
		if s.n.Load() == 0 {
			continue
		}
		if !s.mu.TryLock() {
			busy = true
			continue
		}
		if c := s.pop(); c != nil {
			return c
		}
	}
	for i := range p.shards {
		if s := &p.shards[i]; busy && s.n.Load() > 0 {
			s.mu.Lock()
			if c := s.pop(); c != nil {
				return c
			}
		}
	}
	return nil
}

// pop takes the last one, if there is any, and gives up the lock.
func (s *shard) pop() *conn {
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	c := s.idle[n-1]
	s.idle[n-1] = nil
	s.idle = s.idle[:n-1]
	s.n.Store(int64(n - 1))
	return c
}

// push adds c and gives up the lock.
func (s *shard) push(c *conn) {
	s.idle = append(s.idle, c)
	s.n.Store(int64(len(s.idle)))
	s.mu.Unlock()
}

// put gives back a connection that can be used again.
func (p *pool) put(c *conn) {
	c.in.Release()
	if p.closed.Load() || c.raw.moved() {
		p.drop(c)
		return
	}
	switch passed, wanted := p.budget.pass(c, p); {
	case passed:
		return
	case wanted:
		p.drop(c)
		return
	}
	c.idleSince = time.Now()
	p.push(c)
	if !p.reaps.Load() {
		p.watch()
	}
	p.budget.serve() // who began to wait meanwhile has seen no idle one
	if p.closed.Load() {
		p.closeIdle(true)
	}
}

func (p *pool) push(c *conn) {
	for i := range p.shards {
		if s := &p.shards[i]; s.mu.TryLock() {
			s.push(c)
			return
		}
	}
	s := &p.shards[shardCount-1]
	s.mu.Lock()
	s.push(c)
}

// drop closes a connection and gives its place to the next one; nil is one that
// could not be made.
func (p *pool) drop(c *conn) {
	if c != nil {
		c.Close() // its buffer may still be read into
	}
	p.budget.give()
}

// watch sets the reaper, unless it is set.
func (p *pool) watch() {
	p.reapMu.Lock()
	defer p.reapMu.Unlock()
	switch {
	case p.reaps.Swap(true):
	case p.reaper == nil:
		p.reaper = time.AfterFunc(p.idleFor, p.reap)
	default:
		p.reaper.Reset(p.idleFor)
	}
}

// reap closes what has been idle for too long.
func (p *pool) reap() {
	now := time.Now()
	p.remove(func(c *conn) bool { return now.Sub(c.idleSince) >= p.idleFor })
	p.reapMu.Lock()
	defer p.reapMu.Unlock()
	at, left := p.oldestShared()
	if !left {
		p.reaps.Store(false)
		// Who has put one meanwhile may have found the reaper set.
		if at, left = p.oldestShared(); !left {
			return
		}
		p.reaps.Store(true)
	}
	p.reaper.Reset(max(p.idleFor-now.Sub(at), time.Millisecond))
}

// remove closes the idle connections that are to go. Those of callers stay.
func (p *pool) remove(gone func(*conn) bool) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		var old []*conn
		kept := s.idle[:0]
		for _, c := range s.idle {
			if gone(c) {
				old = append(old, c)
			} else {
				kept = append(kept, c)
			}
		}
		clear(s.idle[len(kept):])
		s.idle = kept
		s.n.Store(int64(len(kept)))
		s.mu.Unlock()
		for _, c := range old {
			p.drop(c)
		}
	}
}

// closeIdle closes what is idle now, or only what has moved.
func (p *pool) closeIdle(all bool) {
	gone := func(c *conn) bool { return all || c.raw.moved() }
	p.remove(gone)
	p.ownMu.Lock()
	var old []*conn
	p.own = slices.DeleteFunc(p.own, func(c *conn) bool {
		if !gone(c) {
			return false
		}
		old = append(old, c)
		return true
	})
	p.ownMu.Unlock()
	for _, c := range old {
		p.drop(c)
	}
}

// close closes what is idle, now and from now on.
func (p *pool) close() {
	p.closed.Store(true)
	p.closeIdle(true)
	p.reapMu.Lock()
	if p.reaper != nil {
		p.reaper.Stop()
	}
	p.reapMu.Unlock()
	p.budget.leave(p)
}

// oldest implements [member]. Connections of callers count only once they are
// idle for long, and then come last: their callers have to prove again who they are.
func (p *pool) oldest() (since time.Time, ok bool) {
	if since, ok = p.oldestShared(); ok {
		return since, ok
	}
	p.ownMu.Lock()
	defer p.ownMu.Unlock()
	if len(p.own) == 0 || time.Since(p.own[0].idleSince) < p.idleFor {
		return since, false
	}
	return p.own[0].idleSince.Add(ownLast), true
}

// ownLast is by how much younger than they are connections of callers count.
const ownLast = 24 * time.Hour

func (p *pool) oldestShared() (since time.Time, ok bool) {
	for i := range p.shards {
		s := &p.shards[i]
		if s.n.Load() == 0 {
			continue
		}
		s.mu.Lock()
		if len(s.idle) > 0 && (!ok || s.idle[0].idleSince.Before(since)) {
			since, ok = s.idle[0].idleSince, true
		}
		s.mu.Unlock()
	}
	return since, ok
}

// shed implements [member].
func (p *pool) shed() bool {
	c := p.takeOldest()
	if c == nil {
		p.ownMu.Lock()
		if len(p.own) > 0 && time.Since(p.own[0].idleSince) >= p.idleFor {
			c = p.own[0]
			p.own = slices.Delete(p.own, 0, 1)
		}
		p.ownMu.Unlock()
	}
	if c == nil {
		return false
	}
	c.Close()
	return true
}

// takeOldest takes the connection that has been idle longest.
func (p *pool) takeOldest() *conn {
	at, ok := p.oldestShared()
	if !ok {
		return nil
	}
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		if len(s.idle) > 0 && !s.idle[0].idleSince.After(at) {
			c := s.idle[0]
			s.idle = slices.Delete(s.idle, 0, 1)
			s.n.Store(int64(len(s.idle)))
			s.mu.Unlock()
			return c
		}
		s.mu.Unlock()
	}
	return nil
}
