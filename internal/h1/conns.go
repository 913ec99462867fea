package h1

import (
	"context"
	"sync"
	"sync/atomic"
)

// Conns are the connections that a server has open, from which it has to part one
// day. It is for package h2 as well. Its zero value is not usable, see [NewConns].
type Conns[C comparable] struct {
	draining atomic.Bool

	mu    sync.Mutex
	all   map[C]struct{} // nil once closed
	empty chan struct{}  // closed when draining and none is left
}

// NewConns returns a set that is empty.
func NewConns[C comparable]() *Conns[C] {
	return &Conns[C]{all: make(map[C]struct{}), empty: make(chan struct{})}
}

// Add takes in a connection, and calls counted before Close can; false if that was
// called.
func (s *Conns[C]) Add(c C, counted func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		return false
	}
	s.all[c] = struct{}{}
	counted()
	return true
}

// Remove takes out a connection that has ended.
func (s *Conns[C]) Remove(c C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
	if s.draining.Load() && len(s.all) == 0 {
		s.signalEmpty()
	}
}

// Each calls f for each connection, with the set locked.
func (s *Conns[C]) Each(f func(C)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		f(c)
	}
}

// signalEmpty is called with mu held.
func (s *Conns[C]) signalEmpty() {
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// Draining reports whether Drain or Close was called.
func (s *Conns[C]) Draining() bool { return s.draining.Load() }

// Drain calls end for each connection, and returns nil when none is left, or the
// cause of ctx.
func (s *Conns[C]) Drain(ctx context.Context, end func(C)) error {
	s.draining.Store(true)
	s.mu.Lock()
	for c := range s.all {
		end(c)
	}
	if len(s.all) == 0 {
		s.signalEmpty()
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close calls end for each connection; none is taken in any more.
func (s *Conns[C]) Close(end func(C)) {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		end(c)
	}
	s.all = nil
}
