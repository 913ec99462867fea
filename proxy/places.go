package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// errNoPlace is why a message was not sent to a backend that has as many under
// way as it may. It is no news about the backend, but for the caller it is what
// having no free connection is.
var errNoPlace = fmt.Errorf("proxy: the backend has as many exchanges under way as it may: %w", ErrNoConnection)

// Places bounds how many exchanges are under way at a backend. Who finds none
// free waits for one, for a short time, in the order of arrival.
type Places struct {
	wait time.Duration

	free    atomic.Int64
	waiting atomic.Int64 // len(queue), or more while somebody decides to wait

	mu    sync.Mutex
	queue []chan struct{} // guarded by mu; who waits, the longest first; closed = has a place
}

// NewPlaces returns n places, which callers wait for no longer than wait.
func NewPlaces(n int, wait time.Duration) *Places {
	p := &Places{wait: wait}
	p.free.Store(int64(n))
	return p
}

// quick takes a place that is free.
func (p *Places) quick() bool {
	for {
		n := p.free.Load()
		if n <= 0 {
			return false
		}
		if p.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// take takes a place. Its error is errNoPlace after patience, or the context's.
// Nobody who comes later is served before those who wait.
func (p *Places) take(ctx context.Context, patience time.Duration) error {
	if p.waiting.Load() == 0 && p.quick() {
		return nil
	}
	turn := make(chan struct{})
	p.mu.Lock()
	p.waiting.Add(1) // before the last look: whoever gives a place later sees it
	if len(p.queue) == 0 && p.quick() {
		p.waiting.Add(-1)
		p.mu.Unlock()
		return nil
	}
	p.queue = append(p.queue, turn)
	p.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case <-turn:
		return nil
	case <-timer.C:
		err = errNoPlace
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	for i, t := range p.queue {
		if t == turn {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			p.waiting.Add(-1)
			p.mu.Unlock()
			return err
		}
	}
	p.mu.Unlock()
	if err == errNoPlace {
		return nil // the place came in the same moment
	}
	p.give()
	return err
}

// give gives a place back, to who has waited longest.
func (p *Places) give() {
	p.free.Add(1)
	for p.waiting.Load() > 0 {
		p.mu.Lock()
		if len(p.queue) == 0 || !p.quick() {
			p.mu.Unlock()
			return
		}
		close(p.queue[0])
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.waiting.Add(-1)
		p.mu.Unlock()
	}
}

// takePlace makes the exchange one of those under way at the backend, until
// tries.end. A stored message, whose turn it is, is as patient as with an answer.
func (c *call) takePlace() error {
	b := c.route.backend
	if b.Places == nil {
		return nil
	}
	patience := b.Places.wait
	if c.patient {
		patience = b.Answer
	}
	if err := b.Places.take(c.ctx, patience); err != nil {
		return c.blame(&SendError{Class: NotSent, Timeout: err == errNoPlace, Err: err})
	}
	c.tries.place = b.Places
	return nil
}
