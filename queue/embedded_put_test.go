package queue

import (
	"context"
	"sync/atomic"
	"testing"
)

// A caller that leaves does not leave its message's identity, body and room in
// nobody's hands: what became of it is waited for.
func TestPutWaitsForItsOutcome(t *testing.T) {
	dir := t.TempDir()
	var held atomic.Bool
	entered, gate := make(chan struct{}, 1), make(chan struct{})
	s := openStore(t, StoreOptions{Dir: dir, Durability: durabilityHere(dir), syncWith: func(disk func() error) func() error {
		return func() error {
			if held.CompareAndSwap(true, false) {
				entered <- struct{}{}
				<-gate
			}
			return disk()
		}
	}})
	if s.commit.sync == nil {
		t.Skip("each record is synced by itself")
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	held.Store(true)
	go func() {
		_, err := s.Put(ctx, message(1))
		result <- err
	}()
	<-entered
	cancel()
	select {
	case err := <-result:
		t.Errorf("Put came back before its sync had ended: %v", err)
	default:
	}
	close(gate)
	if err := <-result; err != nil {
		t.Errorf("Put: got %v for a message that is stored", err)
	}
}
