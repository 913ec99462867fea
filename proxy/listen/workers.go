package listen

import (
	"slices"
	"sync"
	"time"
)

// workerIdle is how long a goroutine without work is kept.
const workerIdle = 5 * time.Second

// workers runs functions on goroutines that are used again. The stack of a new
// goroutine is small and is copied again and again while an exchange goes
// deeper; that was a fifth of the cost of a short frame. The goroutine that was
// used last is used next, so that those which are not needed end.
type workers struct {
	mu     sync.Mutex
	idle   []*worker   // the one that has waited longest first
	reaper *time.Timer // runs while somebody is idle
	closed bool
	all    sync.WaitGroup
}

type worker struct {
	work  chan func() // closed: end
	since time.Time
}

// run has f run on a goroutine of its own. It does not wait.
func (p *workers) run(f func()) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		w.work <- f // it has room for one
		return
	}
	p.all.Add(1)
	p.mu.Unlock()
	go p.loop(&worker{work: make(chan func(), 1)}, f)
}

func (p *workers) loop(w *worker, f func()) {
	defer p.all.Done()
	for {
		f()
		if f = nil; !p.rest(w) {
			return
		}
		if f = <-w.work; f == nil {
			return
		}
	}
}

// rest takes in a worker that has nothing to do, and reports whether it is to wait.
func (p *workers) rest(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	w.since = time.Now()
	p.idle = append(p.idle, w)
	switch {
	case p.reaper == nil:
		p.reaper = time.AfterFunc(workerIdle, p.reap)
	case len(p.idle) == 1:
		p.reaper.Reset(workerIdle)
	}
	return true
}

// reap ends those that have been idle for too long.
func (p *workers) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) >= workerIdle {
		close(p.idle[n].work)
		n++
	}
	p.idle = slices.Delete(p.idle, 0, n)
	if len(p.idle) > 0 {
		p.reaper.Reset(workerIdle - time.Since(p.idle[0].since))
	}
}

// close ends all, once they have nothing to do, and waits for that.
func (p *workers) close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
	if p.reaper != nil {
		p.reaper.Stop()
	}
	p.mu.Unlock()
	p.all.Wait()
}
