package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// twoWay is a rig whose answers go on to a second destination, by route replies.
func twoWay(t *testing.T, s Store, n *node, r Route) *rig {
	t.Helper()
	g := newRig(t, s, n, r)
	r.Name, r.Destination = "orders", "depot"
	routes := []Route{r, {Name: "replies", Destination: "caller"}}
	if err := g.Configure(routes, []Destination{{Name: "depot"}, {Name: "caller"}}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *rig) ask(t *testing.T, id string) time.Time {
	t.Helper()
	m := &Message{ID: id, Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte("question"), Forwards: true}
	if err := r.Put(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m.Accepted
}

func onward(v Verdict) Outcome {
	return Outcome{Verdict: v, Status: 200, Reason: "r", Next: &Message{Route: "replies", Destination: "caller", Meta: []byte("to"), Body: []byte("answer")}}
}

// asked answers questions by o, and counts what comes to the caller as delivered.
func asked(o Outcome) *node {
	return &node{deliver: func(_ context.Context, d *Delivery) Outcome {
		if d.Route == "replies" {
			return Outcome{}
		}
		return o
	}}
}

func (n *node) bodies() (all []string) {
	for _, g := range n.given() {
		b := g.body
		if g.dup {
			b += "!"
		}
		all = append(all, b)
	}
	return all
}

func wantBodies(t *testing.T, when string, n *node, want ...string) {
	t.Helper()
	if got := n.bodies(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s: given %q, want %q (! is the mark)", when, got, want)
	}
}

// TestNext: an answer is a message of its own, with an id that follows from the
// first one's; a fault leaves a dead letter too.
func TestNext(t *testing.T) {
	for _, v := range []Verdict{Delivered, Dead} {
		synctest.Test(t, func(t *testing.T) {
			n := asked(onward(v))
			r := twoWay(t, NewMemory(), n, Route{})
			id := uuid.Must(uuid.NewV7()).String()
			at := r.ask(t, id)
			time.Sleep(time.Minute)
			wantBodies(t, "answered", n, "question", "answer")
			next := n.given()[1].id
			u, err := uuid.Parse(next)
			if next != nextKey(id, at).String() || next == id || err != nil || u.Version() != 7 || next[:13] != id[:13] {
				t.Errorf("the answer to %s has the id %s", id, next)
			}
			f, err := r.Follow(id)
			if v == Dead && (err != nil || f.Fate != FateDead) || v == Delivered && !errors.Is(err, ErrNotFound) {
				t.Errorf("verdict %d: Follow: got %+v, %v", v, f, err)
			}
			if r.Waiting() != 0 {
				t.Errorf("%d wait", r.Waiting())
			}
		})
	}
}

// TestNextBeforeRemoval: a crash between the two brings the message back, which is
// not given again.
func TestNextBeforeRemoval(t *testing.T) {
	for _, once := range []bool{false, true} {
		for _, fate := range []Fate{FateDelivered, FateDead} {
			synctest.Test(t, func(t *testing.T) {
				s := NewMemory()
				hang := &node{deliver: func(ctx context.Context, _ *Delivery) Outcome { <-ctx.Done(); return Outcome{Verdict: Aborted} }}
				old := twoWay(t, s, hang, Route{AtMostOnce: once})
				at := old.ask(t, "q1")
				time.Sleep(time.Second) // the attempt has begun
				// As the queue does it; the crash comes before the removal.
				m := *onward(Delivered).Next
				m.ID, m.Accepted, m.After = nextKey("q1", at).String(), time.Now(), fate
				if _, err := s.Put(t.Context(), &m); err != nil {
					t.Fatal(err)
				}
				n := asked(onward(Delivered))
				r := twoWay(t, s.Reopen(), n, Route{AtMostOnce: once})
				time.Sleep(time.Minute)
				wantBodies(t, "after the crash", n, "answer!")
				f, err := r.Follow("q1")
				if fate == FateDead && (err != nil || f.Fate != FateDead) || fate == FateDelivered && !errors.Is(err, ErrNotFound) {
					t.Errorf("once %t, fate %d: Follow: got %+v, %v", once, fate, f, err)
				}
			})
		}
	}
}

// TestNextWaitsForRoom: a message whose answer finds no room is not given again, and
// goes once there is room; a stop marks it.
func TestNextWaitsForRoom(t *testing.T) {
	for _, v := range []Verdict{Delivered, Dead} {
		for _, stop := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := NewMemory()
				n := asked(onward(v))
				r := twoWay(t, s, n, Route{})
				s.SetRepliesFull(true)
				r.ask(t, "q1")
				time.Sleep(time.Hour)
				wantBodies(t, "without room", n, "question")
				if !stop {
					s.SetRepliesFull(false)
					time.Sleep(time.Minute)
					wantBodies(t, "with room", n, "question", "answer")
					return
				}
				if err := errors.Join(r.stop(), s.Close()); err != nil {
					t.Fatal(err)
				}
				twoWay(t, s.Reopen(), n, Route{})
				time.Sleep(time.Minute)
				wantBodies(t, "after a stop", n, "question", "question!", "answer")
			})
		}
	}
}

// TestNextOfAReplay: what follows from a replay is another message than what follows
// from the dead letter, which may still wait.
func TestNextOfAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var verdict atomic.Int32
		verdict.Store(int32(Dead))
		n := &node{deliver: func(_ context.Context, d *Delivery) Outcome {
			if d.Route == "replies" {
				return Outcome{Verdict: Retry, Reason: "later"}
			}
			return onward(Verdict(verdict.Load()))
		}}
		r := twoWay(t, NewMemory(), n, Route{})
		r.ask(t, "q1")
		time.Sleep(time.Millisecond)
		verdict.Store(int32(Delivered))
		if err := r.Replay(t.Context(), "q1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		page, _, err := r.List(Filter{Route: "replies"})
		if err != nil || len(page) != 2 || page[0].ID == page[1].ID {
			t.Errorf("got %+v, %v, want two answers", page, err)
		}
	})
}

// buryless is a store without room for dead letters.
type buryless struct{ *Memory }

func (buryless) Bury(context.Context, *DeadLetter) error { return ErrFull }

// TestNextOfOneThatCannotDie: a message whose fault is on its way is not given
// again, also when its dead letter finds no room.
func TestNextOfOneThatCannotDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := asked(onward(Dead))
		r := twoWay(t, buryless{NewMemory()}, n, Route{})
		r.ask(t, "q1")
		time.Sleep(time.Hour)
		wantBodies(t, "without room for dead letters", n, "question", "answer")
		if f, err := r.Follow("q1"); err != nil || f.Fate != FateWaiting {
			t.Errorf("Follow: got %+v, %v, want it to wait", f, err)
		}
	})
}

// TestNextTooLarge: the start of an answer that no record holds stays with the dead letter.
func TestNextTooLarge(t *testing.T) {
	for _, v := range []Verdict{Delivered, Dead} {
		synctest.Test(t, func(t *testing.T) {
			o := onward(v)
			o.Next.Meta = make([]byte, maxData+1)
			n := asked(o)
			r := twoWay(t, NewMemory(), n, Route{})
			r.ask(t, "q1")
			time.Sleep(time.Minute)
			wantBodies(t, "too large", n, "question")
			if d, err := r.Get("q1"); err != nil || d.State != StateDead {
				t.Errorf("got %+v, %v, want a dead letter", d, err)
			}
		})
	}
}
