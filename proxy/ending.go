package proxy

import (
	"context"
	"slices"
	"sync"
)

// An Ending is a context that tells others of its end at little cost: who waits
// for it is a value that exists anyway, and no goroutine, closure or child
// context. Listeners give one to all exchanges of a connection; nodes look for it
// ([Ending.Tell]) where they would use context.AfterFunc.
type Ending struct {
	context.Context

	mu    sync.Mutex
	begun bool      // ctx is asked to tell us
	ended bool      // and has
	wait  []Stopper // who waits; the order does not matter
}

// A Stopper is told that the exchange it works for is over.
type Stopper interface {
	// Stop is called at most once for each Tell, at any moment until Untell has
	// returned, by a goroutine of its own. It must not wait for the exchange.
	Stop()
}

// NewEnding returns ctx as an Ending. It needs no release but that of ctx.
func NewEnding(ctx context.Context) *Ending { return &Ending{Context: ctx} }

// Tell has s told when the context ends, at once if it has.
func (e *Ending) Tell(s Stopper) {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		s.Stop()
		return
	}
	e.wait = append(e.wait, s)
	first := !e.begun
	e.begun = true
	e.mu.Unlock()
	if first {
		context.AfterFunc(e.Context, e.end)
	}
}

// Untell takes a Tell back, and reports whether s was not told: if it was, Stop
// may not have returned yet.
func (e *Ending) Untell(s Stopper) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.wait, s)
	if i < 0 {
		return false
	}
	last := len(e.wait) - 1
	e.wait[i] = e.wait[last]
	e.wait[last] = nil
	e.wait = e.wait[:last]
	return true
}

func (e *Ending) end() {
	e.mu.Lock()
	e.ended = true
	all := e.wait
	e.wait = nil
	e.mu.Unlock()
	for _, s := range all {
		s.Stop()
	}
}
