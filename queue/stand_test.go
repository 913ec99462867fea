package queue

import (
	"sync"
	"testing"
)

// stands has the stand of each store that a test has opened, by its directory.
var stands sync.Map

// A stand lets a store stand still while its files are copied one after the other:
// what a kill leaves is the files as they are at one moment. What the store writes
// goes by the committer, which writes nothing while it waits for a sync.
type stand struct {
	s    *Embedded
	mu   sync.Mutex
	hold chan struct{} // syncs wait until it is closed; nil = they do not
	held chan struct{} // closed by the first that waits
}

func (d *stand) between(sync func() error) func() error {
	return func() error {
		d.mu.Lock()
		hold, held := d.hold, d.held
		d.held = nil
		d.mu.Unlock()
		if held != nil {
			close(held)
		}
		if hold != nil {
			<-hold
		}
		return sync()
	}
}

// standStill returns once nothing is written to the store in dir any more, if one
// is open there, and what lets it go on.
func standStill(t *testing.T, dir string) (goOn func()) {
	t.Helper()
	v, ok := stands.Load(dir)
	if !ok {
		return func() {}
	}
	d := v.(*stand)
	hold, held := make(chan struct{}), make(chan struct{})
	d.mu.Lock()
	d.hold, d.held = hold, held
	d.mu.Unlock()
	goOn = sync.OnceFunc(func() {
		d.mu.Lock()
		d.hold, d.held = nil, nil
		d.mu.Unlock()
		close(hold)
	})
	if err := d.s.commit.submit(&job{urgent: true}); err != nil {
		goOn() // it is closed
		return func() {}
	}
	select {
	case <-held:
	case <-d.s.commit.gone:
	case <-d.s.Failed():
	}
	return goOn
}
