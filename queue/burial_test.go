package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

// fullOfDead is a store that has no room for dead letters until it is told so.
type fullOfDead struct {
	*Memory
	room atomic.Bool
}

func (s *fullOfDead) Bury(ctx context.Context, d *DeadLetter) error {
	if !s.room.Load() {
		return fmt.Errorf("%w: of dead letters", ErrFull)
	}
	return s.Memory.Bury(ctx, d)
}

// TestDoomedIsNotSentAgain: a message whose end is known is not given again, however
// long its dead letter waits for room, over a restart too.
func TestDoomedIsNotSentAgain(t *testing.T) {
	cases := map[string]struct {
		route  Route
		answer Outcome
		reason string
	}{
		"at most once":        {Route{AtMostOnce: true}, lost, ReasonUnknown},
		"at most once, fault": {Route{AtMostOnce: true}, bad, ReasonPermanent},
		"fault":               {Route{}, bad, ReasonPermanent},
		"last attempt":        {Route{Retry: retry.Policy{Attempts: 1}}, fault, ReasonAttempts},
	}
	for name, c := range cases {
		for _, restart := range []string{"", "kill", "stop"} {
			t.Run(fmt.Sprint(name, ", restart: ", restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := &node{deliver: func(context.Context, *Delivery) Outcome { return c.answer }}
					s := &fullOfDead{Memory: NewMemory()}
					r := newRig(t, s, n, c.route)
					id := r.put(t, "lane")
					time.Sleep(10 * time.Minute)
					if g := n.given(); len(g) != 1 {
						t.Fatalf("without room: given %+v, want once", g)
					}
					want := 1
					if restart == "stop" {
						if err := errors.Join(r.stop(), s.Close()); err != nil {
							t.Fatal(err)
						}
					}
					if restart != "" {
						again := s.Reopen()
						s = &fullOfDead{Memory: again}
						r = newRig(t, s, n, c.route)
						time.Sleep(10 * time.Minute)
						if !c.route.AtMostOnce { // it may be, if it is marked
							g := n.given()
							mark := c.reason == ReasonPermanent || restart == "kill"
							if want = len(g); want != 2 || g[1].dup != mark {
								t.Errorf("after the restart: given %+v, want once more, marked %t", g, mark)
							}
						}
					}
					s.room.Store(true)
					time.Sleep(2 * time.Minute)
					if g := n.given(); len(g) != want {
						t.Errorf("with room: given %+v, want %d", g, want)
					}
					d, err := r.Get(id)
					if err != nil || d.State != StateDead {
						t.Fatalf("Get: %+v, %v, want a dead letter", d, err)
					}
					reason := c.reason
					if restart != "" && c.route.AtMostOnce {
						reason = ReasonUnknown
					}
					if d.Reason != reason || string(d.Reply) != string(c.answer.Reply) {
						t.Errorf("Get: reason %q, reply %q; want %q, %q", d.Reason, d.Reply, reason, c.answer.Reply)
					}
				})
			})
		}
	}
}
