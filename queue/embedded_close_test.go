package queue

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestSyncErrorOfClose: what fails while a store is closed counts as before it. What
// was removed last may not be noted then, so the stop is not a clean one, and the
// next sync, which would succeed, proves nothing.
func TestSyncErrorOfClose(t *testing.T) {
	bad := errors.New("input/output error")
	o := testOptions(t, t.TempDir())
	if o.Durability == Relaxed {
		t.Skip("strict is refused on this filesystem")
	}
	var fail, failed atomic.Bool
	var after atomic.Int64
	o.syncWith = func(real func() error) func() error {
		return func() error {
			if failed.Load() {
				after.Add(1)
			}
			if fail.Load() && failed.CompareAndSwap(false, true) {
				return bad // the kernel tells once
			}
			return real()
		}
	}
	s := openStore(t, o)
	seq := put(t, s, message(1))
	fail.Store(true)
	if err := s.Remove(seq); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, bad) {
		t.Errorf("Close: got %v, want %v", err, bad)
	}
	if n := after.Load(); n != 0 {
		t.Errorf("%d syncs after the one that failed", n)
	}
	o.syncWith = nil
	if openStore(t, o).Info().Clean {
		t.Error("the store is clean when it is opened again")
	}
}
