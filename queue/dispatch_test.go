package queue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDownIsLeftAsleep: a message for a destination that is down does not wake the
// dispatcher, and yet the destination is looked at no later than its probe is due,
// also after it had nothing to do for a while, and is delivered to once it is up.
func TestDownIsLeftAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{probe: func() error { return errors.New("refused") }}
		r := newRig(t, NewMemory(), n, Route{})
		d := r.dests["depot"]
		r.Tell("depot", false, "refused")
		var waiting []string
		woken := 0
		put := func() {
			t.Helper()
			r.mu.Lock()
			asleep := d.asleep()
			r.mu.Unlock()
			waiting = append(waiting, r.put(t, ""))
			r.mu.Lock()
			if d.poked { // or it was, and the dispatcher was faster
				woken++
			}
			r.mu.Unlock()
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if asleep && d.poked {
				t.Error("poked in its sleep")
			}
			if c := &d.circuit; !c.probing && (d.place < 0 || d.alarm > max(c.next, r.clock.now())) {
				t.Errorf("the alarm is set (%t) for %v, the probe is due at %v", d.place >= 0, d.alarm, c.next)
			}
		}
		for range 600 {
			put()
			time.Sleep(time.Second)
		}
		if len(n.probes) < 10 || woken > len(n.probes)+1 {
			t.Errorf("%d probes in 10 minutes, and the dispatcher was woken %d times", len(n.probes), woken)
		}
		for _, id := range waiting {
			if err := r.Drop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		waiting = nil
		probes := len(n.probes)
		time.Sleep(time.Hour)
		if got := len(n.probes) - probes; got > 1 {
			t.Errorf("%d probes while nothing waits", got)
		}
		put()
		n.mu.Lock()
		n.probe = nil
		n.mu.Unlock()
		for range 30 {
			waiting = append(waiting, r.put(t, ""))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if got := len(n.given()); got != len(waiting) || r.Waiting() != 0 {
			t.Errorf("%d of %d were delivered once it was up", got, len(waiting))
		}
	})
}
