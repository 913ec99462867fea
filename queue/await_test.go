package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// overThere hands messages of orders over to site hq, which is to answer them, and
// takes what goes on to others.
func overThere() *node {
	return &node{deliver: func(_ context.Context, d *Delivery) Outcome {
		if d.Route == "replies" {
			return Outcome{}
		}
		return Outcome{Status: 202, Awaits: &Awaited{Site: "hq", Meta: []byte("wish")}}
	}}
}

func hqLabel(n uint64) *Label { return &Label{Stream{"hq/s", 7, "plant", 0}, n} }

func (r *rig) handOver(t *testing.T) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	r.ask(t, id)
	time.Sleep(time.Second)
	return id
}

func keeping(body string) *Answer {
	return &Answer{Keep: &Reply{Meta: []byte("m"), Body: []byte(body), Until: time.Now().Add(time.Hour)}}
}

func sentOn(body string) *Answer {
	return &Answer{Next: &Message{Route: "replies", Destination: "caller", Meta: []byte("to"), Body: []byte(body)}}
}

// TestAwaited: a message that another site has taken is gone from the log and is known
// to be awaited, through a kill, until its answer is there.
func TestAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := overThere()
		r := twoWay(t, s, n, Route{})
		id := r.handOver(t)
		check := func(when string) {
			t.Helper()
			if r.Waiting() != 0 || r.AwaitedOf("hq") != 1 || r.AwaitedOf("elsewhere") != 0 {
				t.Errorf("%s: %d wait, %d are awaited", when, r.Waiting(), r.AwaitedOf("hq"))
			}
			f, err := r.Follow(id)
			if err != nil || f.Fate != FateWaiting || f.Route != "orders" || string(f.Meta) != "wish" || f.Expired {
				t.Errorf("%s: Follow: got %+v, %v", when, f, err)
			}
			d, err := r.Get(id)
			if err != nil || d.State != StateAwaiting || d.Site != "hq" || d.Destination != "depot" || string(d.Message.Meta) != "wish" || d.Text == "" {
				t.Errorf("%s: Get: got %+v, %v", when, d, err)
			}
			page, _, err := r.List(Filter{Route: "orders", State: StateAwaiting})
			if err != nil || len(page) != 1 || page[0].ID != id {
				t.Errorf("%s: List: got %+v, %v", when, page, err)
			}
			if page, _, err := r.List(Filter{Route: "orders"}); err != nil || len(page) != 0 {
				t.Errorf("%s: List of all states: got %+v, %v, want none", when, page, err)
			}
			for _, st := range r.Stats() {
				if want := map[string]int{"orders": 1}[st.Route]; st.Awaiting != want {
					t.Errorf("%s: Stats of %s: %d awaited, want %d", when, st.Route, st.Awaiting, want)
				}
			}
		}
		check("handed over")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		s = s.Reopen()
		r = twoWay(t, s, n, Route{})
		time.Sleep(time.Second)
		check("after a kill")

		if _, err := r.Awaited(t.Context(), id, "elsewhere"); !errors.Is(err, ErrNotAwaited) {
			t.Errorf("Awaited of another site: got %v, want ErrNotAwaited", err)
		}
		if err := r.Answer(t.Context(), hqLabel(1), id, "elsewhere", keeping("forged")); !errors.Is(err, ErrNotAwaited) {
			t.Errorf("Answer of another site: got %v, want ErrNotAwaited", err)
		}
		if err := r.Answer(t.Context(), hqLabel(2), "none", "hq", keeping("forged")); !errors.Is(err, ErrNotAwaited) {
			t.Errorf("Answer to no message: got %v, want ErrNotAwaited", err)
		}
		check("after forged answers")
		if err := r.Answer(t.Context(), hqLabel(3), id, "hq", keeping("answer")); err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"answered", "after a second kill"} {
			f, err := r.Follow(id)
			if err != nil || f.Reply == nil || string(f.Reply.Body) != "answer" || f.Reply.Route != "orders" || r.AwaitedOf("hq") != 0 {
				t.Errorf("%s: Follow: got %+v, %v, %d awaited", when, f, err, r.AwaitedOf("hq"))
			}
			if before, _, err := r.Seen(t.Context(), hqLabel(3)); err != nil || !before {
				t.Errorf("%s: the label is not known: %v", when, err)
			}
			if err := r.Answer(t.Context(), hqLabel(3), id, "hq", keeping("answer")); !errors.Is(err, ErrSeen) {
				t.Errorf("%s: the same answer: got %v, want ErrSeen", when, err)
			}
			if err := r.Answer(t.Context(), hqLabel(4), id, "hq", keeping("another")); !errors.Is(err, ErrNotAwaited) {
				t.Errorf("%s: another answer: got %v, want ErrNotAwaited", when, err)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			s = s.Reopen()
			r = twoWay(t, s, n, Route{})
			time.Sleep(time.Second)
		}
		wantBodies(t, "in the end", n, "question")
	})
}

// TestAwaitedCrashes: a crash between any two steps loses no answer, gives none twice
// and leaves nothing awaited for ever.
func TestAwaitedCrashes(t *testing.T) {
	for _, way := range []struct {
		name   string
		answer func() *Answer
	}{
		{"kept", func() *Answer { return keeping("answer") }},
		{"sent on", func() *Answer { return sentOn("answer") }},
		{"dead", func() *Answer { return &Answer{Dead: true, Reason: "status 404"} }},
		{"fault", func() *Answer { a := sentOn("fault"); a.Dead, a.Reason = true, "status 500"; return a }},
	} {
		for step := range 4 {
			t.Run(fmt.Sprintf("%s/%d", way.name, step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := NewMemory()
					n := overThere()
					cutting := &cutStore{Store: s}
					cutting.left.Store(1 << 40)
					r := twoWay(t, cutting, n, Route{})
					id := r.handOver(t)
					cutting.left.Store(int64(step)) // the write of that number fails
					err := r.Answer(t.Context(), hqLabel(1), id, "hq", way.answer())
					_ = r.stop()
					r = twoWay(t, s.Reopen(), n, Route{})
					time.Sleep(time.Second)
					if err != nil && !errors.Is(err, errCutStore) {
						t.Fatalf("Answer: %v", err)
					}
					// Unanswered, or with its answer lost, the site tells it again.
					for range 2 {
						if err := r.Answer(t.Context(), hqLabel(1), id, "hq", way.answer()); err != nil && !errors.Is(err, ErrSeen) {
							t.Fatalf("Answer again: %v", err)
						}
					}
					time.Sleep(time.Minute)
					a := way.answer()
					if want := map[bool]int{true: 1}[a.Dead]; r.AwaitedOf("hq") != want || r.DeadThere(id) != a.Dead {
						t.Errorf("%d are awaited, dead there %t; want %d, %t", r.AwaitedOf("hq"), r.DeadThere(id), want, a.Dead)
					}
					f, err := r.Follow(id)
					switch {
					case a.Keep != nil && (err != nil || f.Reply == nil || string(f.Reply.Body) != "answer"),
						a.Dead && (err != nil || f.Fate != FateDead),
						a.Keep == nil && !a.Dead && !errors.Is(err, ErrNotFound):
						t.Errorf("Follow: got %+v, %v", f, err)
					}
					sent := 0
					for i, g := range n.given() {
						switch {
						case g.body == "question" && i > 0:
							t.Error("the message was handed over again")
						case g.body != "question":
							if sent++; sent > 1 && !g.dup {
								t.Error("the answer was sent twice without a mark")
							}
						}
					}
					if want := a.Next != nil; (sent > 0) != want {
						t.Errorf("the answer was sent on %d times, want any: %t", sent, want)
					}
				})
			})
		}
	}
}

var errCutStore = errors.New("the power is cut")

// cutStore fails every durable write once so many were made, as a machine does that
// loses its power; the writes before are there.
type cutStore struct {
	Store
	left atomic.Int64
}

func (s *cutStore) cut() error {
	if s.left.Add(-1) < 0 {
		return errCutStore
	}
	return nil
}

func (s *cutStore) Put(ctx context.Context, m *Message) (uint64, error) {
	if err := s.cut(); err != nil {
		return 0, err
	}
	return s.Store.Put(ctx, m)
}

func (s *cutStore) KeepReply(ctx context.Context, r *Reply) error {
	if err := s.cut(); err != nil {
		return err
	}
	return s.Store.KeepReply(ctx, r)
}

func (s *cutStore) KeepAwaited(ctx context.Context, a *Awaited) error {
	if err := s.cut(); err != nil {
		return err
	}
	return s.Store.KeepAwaited(ctx, a)
}

func (s *cutStore) ForgetAwaited(ctx context.Context, id string) error {
	if err := s.cut(); err != nil {
		return err
	}
	return s.Store.ForgetAwaited(ctx, id)
}

func (s *cutStore) SaveState(ctx context.Context, name string, v []byte) error {
	if err := s.cut(); err != nil {
		return err
	}
	return s.Store.SaveState(ctx, name, v)
}

// TestHandOverCrash: a message that is back after a crash, and is awaited already, is
// not handed over once more.
func TestHandOverCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		hang := &node{deliver: func(ctx context.Context, _ *Delivery) Outcome { <-ctx.Done(); return Outcome{Verdict: Aborted} }}
		old := twoWay(t, s, hang, Route{})
		at := old.ask(t, "q1")
		time.Sleep(time.Second)
		// As the queue does it; the crash comes before the removal.
		a := &Awaited{ID: "q1", Route: "orders", Site: "hq", Accepted: at, Handed: at, Until: at.Add(AwaitFor), Meta: []byte("wish")}
		if err := s.KeepAwaited(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		n := overThere()
		r := twoWay(t, s.Reopen(), n, Route{})
		time.Sleep(time.Minute)
		wantBodies(t, "after the crash", n)
		if r.Waiting() != 0 || r.AwaitedOf("hq") != 1 {
			t.Errorf("%d wait, %d are awaited; want 0, 1", r.Waiting(), r.AwaitedOf("hq"))
		}
	})
}

// TestHandOverRoom: what is awaited needs room; without it the message stays under way.
func TestHandOverRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := overThere()
		r := twoWay(t, s, n, Route{})
		s.SetRepliesFull(true)
		r.ask(t, "q1")
		time.Sleep(time.Hour)
		if r.Waiting() != 1 || r.AwaitedOf("hq") != 0 {
			t.Errorf("without room: %d wait, %d are awaited; want 1, 0", r.Waiting(), r.AwaitedOf("hq"))
		}
		s.SetRepliesFull(false)
		time.Sleep(time.Minute)
		if r.Waiting() != 0 || r.AwaitedOf("hq") != 1 {
			t.Errorf("with room: %d wait, %d are awaited; want 0, 1", r.Waiting(), r.AwaitedOf("hq"))
		}
		s.SetRepliesFull(true)
		if err := r.Answer(t.Context(), hqLabel(1), "q1", "hq", keeping("answer")); !errors.Is(err, ErrFull) {
			t.Errorf("Answer without room: got %v, want ErrFull", err)
		}
		s.SetRepliesFull(false)
		if err := r.Answer(t.Context(), hqLabel(1), "q1", "hq", keeping("answer")); err != nil {
			t.Errorf("Answer with room: %v", err)
		}
		wantBodies(t, "in the end", n, "question")
	})
}

// TestDeadThenAnswered: after a replay over there the answer comes all the same.
func TestDeadThenAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := overThere()
		r := twoWay(t, s, n, Route{})
		id := r.handOver(t)
		dead := sentOn("fault")
		dead.Dead, dead.Reason = true, "status 500: fault"
		if err := r.Answer(t.Context(), hqLabel(1), id, "hq", dead); err != nil {
			t.Fatal(err)
		}
		d, err := r.Get(id)
		if err != nil || d.State != StateAwaiting || d.Died.IsZero() || d.Text != "dead at site hq: status 500: fault" {
			t.Errorf("Get: got %+v, %v", d, err)
		}
		time.Sleep(time.Hour)
		if err := r.Answer(t.Context(), hqLabel(2), id, "hq", sentOn("answer")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantBodies(t, "in the end", n, "question", "fault", "answer")
		if r.AwaitedOf("hq") != 0 {
			t.Error("it is still awaited")
		}
	})
}

// TestAwaitedEnds: after its time, and after an operator has dropped it, a message is
// not awaited any longer; an answer that comes then is refused.
func TestAwaitedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		late := uuid.Must(uuid.NewV7()).String()
		now := time.Now()
		a := &Awaited{ID: late, Route: "orders", Site: "hq", Accepted: now, Handed: now, Until: now.Add(10 * time.Minute), Meta: []byte("wish")}
		if err := s.KeepAwaited(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		r := twoWay(t, s, overThere(), Route{})
		dropped := r.handOver(t)
		if a, err := r.Awaited(t.Context(), dropped, "hq"); err != nil || a.Until.Sub(a.Handed) != AwaitFor {
			t.Errorf("Awaited: got %+v, %v", a, err)
		}
		if err := r.Drop(t.Context(), dropped); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Follow(dropped); !errors.Is(err, ErrNotFound) {
			t.Errorf("Follow of one that was dropped: got %v", err)
		}
		time.Sleep(8 * time.Minute)
		if f, err := r.Follow(late); err != nil || f.Expired {
			t.Errorf("Follow before its time is over: got %+v, %v", f, err)
		}
		time.Sleep(3 * time.Minute)
		if f, err := r.Follow(late); err != nil || !f.Expired {
			t.Errorf("Follow after its time: got %+v, %v, want that it has expired", f, err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := r.Follow(late); !errors.Is(err, ErrNotFound) || r.AwaitedOf("hq") != 0 {
			t.Errorf("Follow later: got %v, %d awaited", err, r.AwaitedOf("hq"))
		}
		for i, id := range []string{late, dropped} {
			if err := r.Answer(t.Context(), hqLabel(uint64(i+1)), id, "hq", keeping("late")); !errors.Is(err, ErrNotAwaited) {
				t.Errorf("Answer: got %v, want ErrNotAwaited", err)
			}
		}
	})
}

// mourner tells others of what ends.
type mourner struct{ *node }

func (mourner) LastWord(m *Message, reason, text string) *Message {
	if string(m.Body) != "question" {
		return nil
	}
	return &Message{Route: "replies", Destination: "caller", Body: []byte(reason + ": " + text)}
}

// mourning is a rig whose deliverer is a mourner.
func mourning(t *testing.T, s Store, n *node, r Route) *rig {
	t.Helper()
	g := twoWay(t, s, n, r)
	g.Queue.deliv = mourner{n}
	return g
}

// TestLastWord: what ends without an answer is told once, whatever ends it, and before
// it is gone.
func TestLastWord(t *testing.T) {
	answers := func(o Outcome) *node {
		return &node{deliver: func(_ context.Context, d *Delivery) Outcome {
			if d.Route == "replies" {
				return Outcome{}
			}
			return o
		}}
	}
	for _, c := range []struct {
		name  string
		n     *node
		route Route
		want  string
	}{
		{"permanent", answers(Outcome{Verdict: Dead, Status: 404, Reason: "status 404"}), Route{}, "permanent: status 404"},
		{"expired", answers(fault), Route{}, "expired: " + expiredText},
		{"at most once", answers(lost), Route{AtMostOnce: true}, "outcome-unknown: connection reset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.route.Retry.Expire = time.Hour
				r := mourning(t, NewMemory(), c.n, c.route)
				r.ask(t, "q1")
				time.Sleep(2 * time.Hour)
				var told []string
				for _, g := range c.n.given() {
					if g.body != "question" {
						told = append(told, g.body)
					}
				}
				if len(told) != 1 || told[0] != c.want {
					t.Errorf("told: %q, want %q once", told, c.want)
				}
				if f, err := r.Follow("q1"); err != nil || f.Fate != FateDead {
					t.Errorf("Follow: got %+v, %v, want a dead letter", f, err)
				}
			})
		})
	}
	t.Run("dropped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := answers(fault)
			r := mourning(t, NewMemory(), n, Route{})
			r.ask(t, "q1")
			time.Sleep(1500 * time.Millisecond)
			if err := r.Drop(t.Context(), "q1"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			got := n.bodies()
			if last := got[len(got)-1]; last != "dropped: an operator has dropped it" || r.Waiting() != 0 {
				t.Errorf("given %q, %d wait", got, r.Waiting())
			}
		})
	})
	t.Run("without room", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := answers(Outcome{Verdict: Dead, Status: 404, Reason: "status 404"})
			s := NewMemory()
			r := mourning(t, s, n, Route{})
			s.SetRepliesFull(true)
			r.ask(t, "q1")
			time.Sleep(time.Hour)
			wantBodies(t, "without room", n, "question")
			if f, err := r.Follow("q1"); err != nil || f.Fate != FateWaiting {
				t.Errorf("Follow without room: got %+v, %v, want that it waits", f, err)
			}
			s.SetRepliesFull(false)
			time.Sleep(time.Hour)
			wantBodies(t, "with room", n, "question", "permanent: status 404")
		})
	})
}
