package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTellDown: what others have found out costs stored messages no attempt, and
// what they find out next brings the destination back at once.
func TestTellDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		up := false
		n.probe = func() error {
			if !up {
				return errors.New("refused")
			}
			return nil
		}
		r := newRig(t, NewMemory(), n, Route{})
		r.Tell("depot", false, "every node refuses connections")
		r.Tell("depot", false, "and again")
		r.Tell("somebody else", false, "whom nobody knows")
		for range 100 {
			r.put(t, "")
		}
		time.Sleep(10 * time.Minute)
		if g := n.given(); len(g) != 0 {
			t.Errorf("%d attempts while down, want none", len(g))
		}
		if s := r.Stats()[0]; !s.Down || s.Pending != 100 {
			t.Errorf("Stats while down: got %+v", s)
		}
		probes := len(n.probes)
		if probes < 15 {
			t.Errorf("%d probes in ten minutes, want one every 30s at least", probes)
		}

		n.mu.Lock()
		up = true
		n.mu.Unlock()
		time.Sleep(time.Second) // a moment at which no probe is due
		r.Tell("depot", true, "")
		synctest.Wait()
		if g := n.given(); len(g) != 100 || g[0].attempt != 1 {
			t.Errorf("%d messages delivered at once, want all 100", len(g))
		}
		if s := r.Stats()[0]; s.Down || s.Pending+s.Retrying+s.Dead != 0 {
			t.Errorf("Stats afterwards: got %+v", s)
		}
	})
}

// TestTellUpIsNoProof: a destination is up for stored messages once one of them
// has arrived; who tells too early changes nothing.
func TestTellUpIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{deliver: func(context.Context, *Delivery) Outcome { return refused }}
		r := newRig(t, NewMemory(), n, Route{})
		for range 100 {
			r.put(t, "")
		}
		time.Sleep(time.Minute)
		before := len(n.given())
		r.Tell("depot", true, "")
		synctest.Wait()
		if got := len(n.given()) - before; got != 1 {
			t.Errorf("%d attempts after somebody told that it is up, want one", got)
		}
		if s := r.Stats()[0]; !s.Down {
			t.Error("it counts as up, though that one failed")
		}
	})
}

// TestTellUpWithoutWork: where nothing waits, nothing could show it.
func TestTellUpWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		r := newRig(t, NewMemory(), n, Route{})
		synctest.Wait()
		r.Tell("depot", true, "") // it was not down
		r.Tell("depot", false, "refused")
		r.Tell("depot", true, "")
		r.put(t, "")
		synctest.Wait()
		if len(n.given()) != 1 || len(n.probes) != 0 {
			t.Errorf("%d deliveries after %d probes, want one and none", len(n.given()), len(n.probes))
		}
	})
}
