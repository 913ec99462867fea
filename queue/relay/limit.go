package relay

import (
	"context"
	"io"
	"sync"
	"time"
)

// bucket bounds octets per second: what was used too early is waited for.
type bucket struct {
	rate int64 // 0: unlimited

	mu   sync.Mutex
	free time.Time // until when all that was used would have taken
}

// burst is how much may be ahead of the rate.
const burst = 100 * time.Millisecond

// wait uses n octets and waits until they may go.
func (b *bucket) wait(ctx context.Context, n int) error {
	if b.rate <= 0 || n == 0 {
		return nil
	}
	b.mu.Lock()
	now := time.Now()
	if b.free.Before(now) {
		b.free = now
	}
	b.free = b.free.Add(time.Duration(float64(n) / float64(b.rate) * float64(time.Second)))
	pause := b.free.Sub(now) - burst
	b.mu.Unlock()
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// step is how much is read at once, so that a slow link is used evenly.
func (b *bucket) step() int {
	if b.rate <= 0 {
		return 1 << 20
	}
	return int(min(max(b.rate/20, 512), 1<<20))
}

// slow reads no faster than a bucket lets it, and counts.
type slow struct {
	ctx  context.Context
	r    io.Reader
	b    *bucket
	read func(int)
}

func (s *slow) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), s.b.step())])
	s.read(n)
	if e := s.b.wait(s.ctx, n); e != nil {
		return 0, e
	}
	return n, err
}

// gate lets links go by their priority: while one that is up has a batch under way
// or waiting, those below it wait.
type gate struct {
	mu     sync.Mutex
	busy   [256]int      // batches that wait or are under way, by priority
	change chan struct{} // closed when busy has become less
}

// enter waits until nothing of a higher priority is under way; leave must follow
// unless it fails. A link that is not up holds nobody.
func (g *gate) enter(ctx context.Context, priority uint8) error {
	g.mu.Lock()
	g.busy[priority]++
	for {
		higher := false
		for _, n := range g.busy[int(priority)+1:] {
			higher = higher || n > 0
		}
		if !higher {
			g.mu.Unlock()
			return nil
		}
		if g.change == nil {
			g.change = make(chan struct{})
		}
		change := g.change
		g.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			g.leave(priority)
			return context.Cause(ctx)
		}
		g.mu.Lock()
	}
}

func (g *gate) leave(priority uint8) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy[priority]--
	if g.change != nil {
		close(g.change)
		g.change = nil
	}
}
