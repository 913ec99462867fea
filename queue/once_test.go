package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAtMostOnce: what may have been processed is never given again; what was
// not sent, or was answered, is.
func TestAtMostOnce(t *testing.T) {
	answers := map[string][]Outcome{
		"lost":     {lost},
		"refused":  {refused, {}},
		"fault":    {fault, fault, lost},
		"accepted": {{}},
	}
	for name, outcomes := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{}
				n.deliver = func(_ context.Context, d *Delivery) Outcome { return outcomes[d.Attempt-1] }
				r := newRig(t, NewMemory(), n, Route{AtMostOnce: true})
				id := r.put(t, "")
				time.Sleep(time.Hour)
				g := n.given()
				if len(g) != len(outcomes) {
					t.Errorf("attempts: got %d, want %d", len(g), len(outcomes))
				}
				for _, a := range g {
					if a.dup {
						t.Errorf("attempt %d is marked", a.attempt)
					}
				}
				d, err := r.Get(id)
				if last := outcomes[len(outcomes)-1]; last.Maybe {
					if err != nil || d.State != StateDead || d.Reason != ReasonUnknown || len(d.History) != len(outcomes) {
						t.Errorf("Get: got %+v, %v, want a dead letter %s", d, err, ReasonUnknown)
					}
				} else if err == nil {
					t.Errorf("Get: got %+v, want nothing: it was delivered", d)
				}
			})
		})
	}
}

// TestAtMostOnceCrash: an attempt that a crash has cut is noted before its first
// octet, so that the message is not given again.
func TestAtMostOnceCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		hang := &node{deliver: func(ctx context.Context, _ *Delivery) Outcome {
			<-ctx.Done()
			return Outcome{Verdict: Aborted, Maybe: true}
		}}
		old := newRig(t, s, hang, Route{AtMostOnce: true})
		id := old.put(t, "")
		time.Sleep(time.Second)

		n := &node{}
		again := s.Reopen() // the old process is gone with its store
		r := newRig(t, again, n, Route{AtMostOnce: true})
		time.Sleep(time.Hour)
		if g := n.given(); len(g) != 0 {
			t.Errorf("given again: %+v", g)
		}
		d, err := r.Get(id)
		if err != nil || d.State != StateDead || d.Reason != ReasonUnknown || len(d.History) != 1 || !d.History[0].Maybe {
			t.Fatalf("Get: got %+v, %v, want a dead letter %s with the attempt", d, err, ReasonUnknown)
		}
		if err := r.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if g := n.given(); len(g) != 1 || !g[0].dup {
			t.Errorf("replayed by hand: got %+v, want one marked attempt", g)
		}
	})
}

// TestAtMostOnceStop: an attempt that a stop cuts off is not repeated either,
// and one that had not been sent is.
func TestAtMostOnceStop(t *testing.T) {
	for _, maybe := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewMemory()
			hang := &node{deliver: func(ctx context.Context, _ *Delivery) Outcome {
				<-ctx.Done()
				return Outcome{Verdict: Aborted, Maybe: maybe}
			}}
			old := newRig(t, s, hang, Route{AtMostOnce: true})
			old.put(t, "")
			time.Sleep(time.Second)
			if err := old.stop(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			n := &node{}
			r := newRig(t, s.Reopen(), n, Route{AtMostOnce: true})
			time.Sleep(time.Hour)
			want, dead := 1, 0
			if maybe {
				want, dead = 0, 1
			}
			if g := n.given(); len(g) != want || r.Stats()[0].Dead != dead {
				t.Errorf("maybe %v: given %+v and %d dead, want %d and %d", maybe, g, r.Stats()[0].Dead, want, dead)
			}
		})
	}
}
