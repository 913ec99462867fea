package proxy

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

type stopped struct{ n atomic.Int32 }

func (s *stopped) Stop() { s.n.Add(1) }

func TestEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		e := NewEnding(ctx)
		var a, b, c, late stopped
		e.Tell(&a)
		e.Tell(&b)
		e.Tell(&c)
		if !e.Untell(&b) {
			t.Error("Untell of one who waits: got false")
		}
		if e.Untell(&b) {
			t.Error("Untell of one who does not wait any more: got true")
		}
		cancel(errGone)
		synctest.Wait()
		if a.n.Load() != 1 || b.n.Load() != 0 || c.n.Load() != 1 {
			t.Errorf("told %d, %d and %d times, want 1, 0, 1", a.n.Load(), b.n.Load(), c.n.Load())
		}
		if e.Untell(&a) {
			t.Error("Untell of one who was told: got true")
		}
		e.Tell(&late)
		if late.n.Load() != 1 || e.Untell(&late) {
			t.Error("who comes after the end is not told at once")
		}
		if context.Cause(e) != errGone || e.Err() != context.Canceled {
			t.Errorf("got %v, %v, want the context's own", context.Cause(e), e.Err())
		}
	})
}

// TestEndingAllocs: who waits costs nothing once somebody has waited.
func TestEndingAllocs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := NewEnding(ctx)
	s := new(stopped)
	if n := testing.AllocsPerRun(100, func() { e.Tell(s); e.Untell(s) }); n != 0 {
		t.Errorf("Tell and Untell allocate %v times, want never", n)
	}
}
