package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"soapway/proxy"
)

// pool has the connections to a node. The one that was used last is used next,
// so that those which are not needed grow old and are closed.
type pool struct {
	most    int           // open connections
	idleFor time.Duration // then an idle one is closed

	mu      sync.Mutex
	open    int     // those in use and those being made included
	idle    []*conn // the oldest first
	waiting []chan *conn
	reaper  *time.Timer // runs while something is idle
	closed  bool
}

// get returns an idle connection, or nil for the right to make one. When the
// most are in use it waits; the error is [proxy.ErrNoConnection] after limit, or
// the cause of ctx. Whoever got something must put or drop it.
func (p *pool) get(ctx context.Context, limit time.Duration) (*conn, error) {
	for {
		c, err := p.next(ctx, limit)
		if c == nil || err != nil {
			return nil, err
		}
		if !c.stale() {
			return c, nil
		}
		p.drop(c)
	}
}

func (p *pool) next(ctx context.Context, limit time.Duration) (*conn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	if p.open < p.most {
		p.open++
		p.mu.Unlock()
		return nil, nil
	}
	turn := make(chan *conn, 1)
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case c := <-turn:
		return c, nil
	case <-timer.C:
		err = proxy.ErrNoConnection
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, turn); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return nil, err
	}
	return <-turn, nil // it came in the same moment
}

// put gives back a connection that can be used again.
func (p *pool) put(c *conn) {
	c.in.Release()
	p.mu.Lock()
	switch {
	case p.closed || c.raw.moved():
		p.mu.Unlock()
		p.drop(c)
		return
	case len(p.waiting) > 0:
		p.pass(c)
	default:
		c.idleSince = time.Now()
		p.idle = append(p.idle, c)
		if p.reaper == nil {
			p.reaper = time.AfterFunc(p.idleFor, p.reap)
		} else if len(p.idle) == 1 {
			p.reaper.Reset(p.idleFor)
		}
	}
	p.mu.Unlock()
}

// drop closes a connection and gives its place to the next one; nil is one that
// could not be made.
func (p *pool) drop(c *conn) {
	if c != nil {
		c.Close() // its buffer may still be read into
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		p.pass(nil) // the place
		return
	}
	p.open--
}

// pass is called with mu held and somebody waiting.
func (p *pool) pass(c *conn) {
	p.waiting[0] <- c
	p.waiting = slices.Delete(p.waiting, 0, 1)
}

// reap closes what has been idle for too long.
func (p *pool) reap() {
	p.mu.Lock()
	now := time.Now()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= p.idleFor {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.open -= n
	if len(p.idle) > 0 {
		p.reaper.Reset(p.idleFor - now.Sub(p.idle[0].idleSince))
	}
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// closeIdle closes what is idle now, or only what has moved.
func (p *pool) closeIdle(all bool) {
	p.mu.Lock()
	var old []*conn
	kept := p.idle[:0]
	for _, c := range p.idle {
		if all || c.raw.moved() {
			old = append(old, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	p.open -= len(old)
	if len(kept) == 0 && p.reaper != nil {
		p.reaper.Stop()
	}
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// close closes what is idle, now and from now on.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.closeIdle(true)
}
