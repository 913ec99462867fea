package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

// node is a scripted destination with a ledger of what it was given.
type node struct {
	mu      sync.Mutex
	ledger  []given
	deliver func(context.Context, *Delivery) Outcome
	probe   func() error
	probes  []time.Time
}

type given struct {
	id, body string
	attempt  int
	dup      bool
	at       time.Time
}

func (n *node) Deliver(ctx context.Context, d *Delivery) Outcome {
	n.mu.Lock()
	n.ledger = append(n.ledger, given{d.ID, string(d.Body), d.Attempt, d.PossibleDuplicate, time.Now()})
	f := n.deliver
	n.mu.Unlock()
	if f == nil {
		return Outcome{}
	}
	return f(ctx, d)
}

func (n *node) Probe(context.Context, string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probes = append(n.probes, time.Now())
	if n.probe == nil {
		return nil
	}
	return n.probe()
}

func (n *node) given() []given {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ledger)
}

var (
	refused = Outcome{Verdict: Retry, Unhealthy: true, Reason: "connection refused"}
	fault   = Outcome{Verdict: Retry, Status: 500, Reason: "Server fault"}
	bad     = Outcome{Verdict: Dead, Status: 500, Reason: "Client fault", Reply: []byte("<fault/>"), ReplyType: "text/xml"}
	lost    = Outcome{Verdict: Retry, Unhealthy: true, Maybe: true, Reason: "connection reset"}
)

// rig is a queue over a store in memory with one route and one destination.
type rig struct {
	*Queue
	store Store
	node  *node
	n     int
	stop  func() error
}

func newRig(t *testing.T, s Store, n *node, r Route) *rig {
	t.Helper()
	return newRigWith(t, s, n, r, Options{})
}

func newRigWith(t *testing.T, s Store, n *node, r Route, opt Options) *rig {
	t.Helper()
	opt.Rand, opt.Drain = func() float64 { return 0.5 }, 5*time.Second
	q, err := New(s, n, opt)
	if err != nil {
		t.Fatal(err)
	}
	r.Name, r.Destination = "orders", "depot"
	if err := q.Configure([]Route{r}, []Destination{{Name: "depot"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	var once sync.Once
	rg := &rig{Queue: q, store: s, node: n}
	rg.stop = func() (err error) {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() {
		if err := rg.stop(); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
	return rg
}

func (r *rig) put(t *testing.T, lane string) string {
	t.Helper()
	r.n++
	id := fmt.Sprintf("01a22cd3-%04d", r.n)
	m := &Message{
		ID: id, Route: "orders", Destination: "depot", Lane: lane, Operation: "Place",
		Accepted: time.Now(), Body: []byte("body of " + id),
	}
	if err := r.Put(t.Context(), m); err != nil {
		t.Fatalf("Put(%s): %v", id, err)
	}
	return id
}

func ids(g []given) (ids []string) {
	for _, x := range g {
		ids = append(ids, x.id)
	}
	return ids
}

func TestDeliversInOrderOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		flying := 0
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			n.mu.Lock()
			flying++
			if flying > 1 {
				t.Errorf("two messages of a lane are under way")
			}
			n.mu.Unlock()
			time.Sleep(time.Millisecond)
			n.mu.Lock()
			flying--
			n.mu.Unlock()
			if d.Attempt < 3 && strings.HasSuffix(d.ID, "3") {
				return fault
			}
			return Outcome{}
		}
		r := newRig(t, NewMemory(), n, Route{})
		var want []string
		for i := range 20 {
			id := r.put(t, "lane")
			want = append(want, id)
			if i == 2 || i == 12 {
				want = append(want, id, id)
			}
		}
		time.Sleep(time.Minute)
		if got := ids(n.given()); !slices.Equal(got, want) {
			t.Errorf("order of attempts: got %v, want %v", got, want)
		}
		if got := r.Waiting(); got != 0 {
			t.Errorf("Waiting: got %d, want 0", got)
		}
		for _, g := range n.given() {
			if g.body != "body of "+g.id || g.dup {
				t.Errorf("attempt: got %+v, want the octets put and no mark", g)
			}
		}
	})
}

// TestOutage is the promise of SPEC.md §4: a destination that is down costs
// nobody attempts, is probed on its own clock, and takes everything at full
// speed once it is back, without a hand.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		down := true
		n.deliver = func(context.Context, *Delivery) Outcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			if down {
				return refused
			}
			return Outcome{}
		}
		n.probe = func() error {
			if down {
				return errors.New("refused")
			}
			return nil
		}
		r := newRig(t, NewMemory(), n, Route{})
		const messages = 10000
		for range messages {
			r.put(t, "")
		}
		began := time.Now()
		time.Sleep(15 * time.Minute)
		charged := len(n.given())
		if charged > 5+64 {
			t.Errorf("attempts while down: got %d, want at most a full set and the row that opened the circuit", charged)
		}
		if got := n.probes[0].Sub(began); got > 6*time.Second {
			t.Errorf("first probe after %v, want 5s", got)
		}
		for i := 4; i < len(n.probes); i++ {
			if gap := n.probes[i].Sub(n.probes[i-1]); gap != 30*time.Second {
				t.Errorf("probe %d came %v after the one before, want 30s", i, gap)
			}
		}
		if s := r.Stats()[0]; !s.Down || s.LastError == "" || s.Pending+s.Retrying != messages {
			t.Errorf("Stats while down: got %+v", s)
		}

		n.mu.Lock()
		down = false
		n.mu.Unlock()
		back := time.Now()
		time.Sleep(35 * time.Second)
		g := n.given()[charged:]
		if len(g) != messages {
			t.Fatalf("35s after its return: got %d delivered, want all %d", len(g), messages)
		}
		if first := g[0].at.Sub(back); first > 30*time.Second {
			t.Errorf("first delivery %v after the return, want at most 30s", first)
		}
		if spread := g[len(g)-1].at.Sub(g[0].at); spread > time.Second {
			t.Errorf("the rest took %v, want no waiting", spread)
		}
		if s := r.Stats()[0]; s.Down || s.Pending+s.Retrying+s.Dead != 0 {
			t.Errorf("Stats afterwards: got %+v", s)
		}
	})
}

func TestRetrySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			if d.Attempt == 3 {
				o := fault
				o.RetryAfter = 45 * time.Second
				return o
			}
			return fault
		}
		r := newRig(t, NewMemory(), n, Route{Retry: retry.Policy{Attempts: 5, Jitter: -1}})
		id := r.put(t, "")
		time.Sleep(time.Hour)
		var gaps []time.Duration
		g := n.given()
		for i := 1; i < len(g); i++ {
			gaps = append(gaps, g[i].at.Sub(g[i-1].at))
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 45 * time.Second, 8 * time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("waits: got %v, want %v", gaps, want)
		}
		d, err := r.Get(id)
		if err != nil || d.State != StateDead || d.Reason != ReasonAttempts || len(d.History) != 5 {
			t.Errorf("Get: got %+v, %v, want a dead letter after 5 attempts", d, err)
		}
	})
}

func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			if strings.HasSuffix(d.ID, "1") {
				return bad
			}
			return Outcome{}
		}
		r := newRig(t, NewMemory(), n, Route{})
		id := r.put(t, "lane")
		r.put(t, "lane")
		time.Sleep(time.Second)
		if got := n.given(); len(got) != 2 {
			t.Fatalf("attempts: got %d, want 1 for the dead head and 1 for the message behind it", len(got))
		}
		d, err := r.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		if d.Reason != ReasonPermanent || d.Text != bad.Reason || string(d.Reply) != "<fault/>" ||
			string(d.Message.Body) != "body of "+id || d.Attempts != 1 {
			t.Errorf("Get: got %+v", d)
		}

		n.mu.Lock()
		n.deliver = nil
		n.mu.Unlock()
		if err := r.Replay(t.Context(), id); err != nil {
			t.Fatalf("Replay: %v", err)
		}
		time.Sleep(time.Second)
		g := n.given()
		if last := g[len(g)-1]; last.id != id || last.attempt != 1 || last.dup {
			t.Errorf("replayed: got %+v, want %s, attempt 1, no mark", last, id)
		}
		if _, err := r.Get(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get after its delivery: got %v, want %v", err, ErrNotFound)
		}
	})
}

func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{
			deliver: func(context.Context, *Delivery) Outcome { return refused },
			probe:   func() error { return errors.New("refused") },
		}
		r := newRig(t, NewMemory(), n, Route{Retry: retry.Policy{Expire: time.Hour}})
		for range 100 {
			r.put(t, "")
		}
		for range 5 {
			r.put(t, "lane")
		}
		time.Sleep(time.Hour - time.Second)
		if s := r.Stats()[0]; s.Dead != 0 {
			t.Errorf("just before: got %d dead, want 0", s.Dead)
		}
		time.Sleep(5 * time.Second)
		if s := r.Stats()[0]; s.Dead != 105 || s.Pending+s.Retrying != 0 {
			t.Errorf("just after: got %+v, want 105 dead", s)
		}
		page, next, err := r.List(Filter{State: StateDead, Limit: 100})
		if err != nil || len(page) != 100 || next == "" || page[0].Reason != ReasonExpired {
			t.Fatalf("List: got %d entries, next %q, %v", len(page), next, err)
		}
		rest, next, err := r.List(Filter{State: StateDead, Limit: 100, After: next})
		if err != nil || len(rest) != 5 || next != "" {
			t.Errorf("List, second page: got %d entries, next %q, %v", len(rest), next, err)
		}
	})
}

// TestExpiredKeepsTheLastReply: also over a restart, and when the last attempt
// had no answer.
func TestExpiredKeepsTheLastReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			if d.Attempt == 1 {
				o := fault
				o.Reply, o.ReplyType = []byte("<busy/>"), "text/xml"
				return o
			}
			return refused
		}
		r := newRig(t, s, n, Route{Retry: retry.Policy{Expire: 2 * time.Hour, Initial: 45 * time.Minute, Max: time.Hour}})
		id := r.put(t, "")
		time.Sleep(time.Hour)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = newRig(t, s.Reopen(), n, Route{Retry: retry.Policy{Expire: 2 * time.Hour, Initial: 45 * time.Minute, Max: time.Hour}})
		time.Sleep(2 * time.Hour)
		d, err := r.Get(id)
		if err != nil || d.Reason != ReasonExpired || string(d.Reply) != "<busy/>" || d.ReplyType != "text/xml" {
			t.Errorf("Get: got %+v, %v, want an expired message with its last reply", d, err)
		}
		if len(n.given()) < 2 {
			t.Errorf("attempts: got %d, want one with an answer and one without", len(n.given()))
		}
	})
}

// TestRestart: attempts survive, and after a stop that was not clean whatever
// waits is marked.
func TestRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewMemory()
				n := &node{deliver: func(context.Context, *Delivery) Outcome { return fault }}
				r := newRig(t, s, n, Route{Retry: retry.Policy{Initial: time.Hour, Max: time.Hour, Jitter: -1}})
				id := r.put(t, "")
				time.Sleep(time.Minute)
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if clean {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				again := s.Reopen()
				n2 := &node{}
				newRig(t, again, n2, Route{})
				time.Sleep(30 * time.Minute)
				if len(n2.given()) != 0 {
					t.Error("the wait did not survive the restart")
				}
				time.Sleep(31 * time.Minute)
				g := n2.given()
				if len(g) != 1 || g[0].id != id || g[0].attempt != 2 || g[0].dup == clean {
					t.Errorf("after the restart: got %+v, want attempt 2, mark %v", g, !clean)
				}
			})
		})
	}
}

func TestMaybeIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			if d.Attempt == 1 {
				return lost
			}
			return Outcome{}
		}
		r := newRig(t, NewMemory(), n, Route{})
		r.put(t, "")
		time.Sleep(time.Minute)
		if g := n.given(); len(g) != 2 || g[0].dup || !g[1].dup {
			t.Errorf("attempts: got %+v, want the second marked", g)
		}
	})
}

// TestStopBurnsNoAttempt: an attempt that a stop cuts off is not charged, and
// marks the next.
func TestStopBurnsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := &node{deliver: func(ctx context.Context, _ *Delivery) Outcome {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrShutdown) {
				t.Errorf("cause: got %v, want %v", context.Cause(ctx), ErrShutdown)
			}
			return Outcome{Verdict: Aborted, Maybe: true}
		}}
		r := newRig(t, s, n, Route{})
		r.put(t, "")
		time.Sleep(time.Second)
		began := time.Now()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stop took %v, want the drain of 5s", took)
		}
		n2 := &node{}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		newRig(t, s.Reopen(), n2, Route{})
		time.Sleep(time.Second)
		if g := n2.given(); len(g) != 1 || g[0].attempt != 1 || !g[0].dup {
			t.Errorf("after the restart: got %+v, want attempt 1, marked", g)
		}
	})
}

func TestPauseResumeFlushDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := &node{deliver: func(context.Context, *Delivery) Outcome { return fault }}
		r := newRig(t, s, n, Route{Retry: retry.Policy{Initial: time.Hour, Max: time.Hour}})
		first := r.put(t, "")
		time.Sleep(time.Second)
		if err := r.Pause(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		second := r.put(t, "")
		time.Sleep(2 * time.Hour)
		if got := len(n.given()); got != 1 {
			t.Errorf("attempts while paused: got %d, want none", got-1)
		}
		if !r.Stats()[0].Paused {
			t.Error("Stats: not paused")
		}
		if err := r.Drop(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		if err := r.Drop(t.Context(), second); !errors.Is(err, ErrNotFound) {
			t.Errorf("second Drop: got %v, want %v", err, ErrNotFound)
		}
		if err := r.Resume(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := r.Flush(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want := []string{first, first, first}
		if got := ids(n.given()); !slices.Equal(got, want) {
			t.Errorf("attempts: got %v, want %v", got, want)
		}
		for _, do := range []func(context.Context, string) error{r.Pause, r.Resume, r.Flush} {
			if err := do(t.Context(), "nope"); !errors.Is(err, ErrNoRoute) {
				t.Errorf("unknown route: got %v, want %v", err, ErrNoRoute)
			}
		}
	})
}

// TestOrphans: messages of a route that is gone wait, and go on when it is back.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{deliver: func(context.Context, *Delivery) Outcome { return fault }}
		r := newRig(t, NewMemory(), n, Route{})
		r.put(t, "")
		time.Sleep(time.Millisecond)
		if err := r.Configure(nil, []Destination{{Name: "depot"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s := r.Stats()[0]; s.Orphaned != 1 || len(n.given()) != 1 {
			t.Errorf("gone: got %+v and %d attempts, want 1 orphan and no attempt", s, len(n.given())-1)
		}
		if page, _, _ := r.List(Filter{State: StateOrphaned}); len(page) != 1 {
			t.Errorf("List: got %d orphans, want 1", len(page))
		}
		n.mu.Lock()
		n.deliver = nil
		n.mu.Unlock()
		if err := r.Configure([]Route{{Name: "orders", Destination: "depot"}}, []Destination{{Name: "depot"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := r.Waiting(); got != 0 {
			t.Errorf("back: %d messages still wait", got)
		}
	})
}

// TestBuriedIsNotDeliveredAgain: a crash between the burial and the removal
// from the log leaves both; the dead letter holds.
func TestBuriedIsNotDeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		m := &Message{ID: "01a22cd3-0001", Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte("x")}
		s.OnCommit(func(uint64, *Message) {})
		if _, err := s.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := s.Bury(t.Context(), &DeadLetter{Message: m, Died: time.Now(), Reason: ReasonPermanent}); err != nil {
			t.Fatal(err)
		}
		n := &node{}
		r := newRig(t, s.Reopen(), n, Route{})
		time.Sleep(time.Minute)
		if got := n.given(); len(got) != 0 {
			t.Errorf("got %+v, want no attempt", got)
		}
		if s := r.Stats()[0]; s.Dead != 1 || s.Pending != 0 {
			t.Errorf("Stats: got %+v, want 1 dead", s)
		}
	})
}

// TestDoubtOutlivesACleanStop: what may have been delivered before a crash is
// marked also when a clean stop lies between the crash and the next attempt
// that is processed; what was accepted after the crash is not.
func TestDoubtOutlivesACleanStop(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("stop at once=%v", early), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewMemory()
				// The first gateway dies before it hears what became of its attempt.
				r := newRig(t, s, &node{deliver: func(ctx context.Context, _ *Delivery) Outcome {
					<-ctx.Done()
					return Outcome{Verdict: Aborted}
				}}, Route{})
				old := r.put(t, "")
				time.Sleep(time.Second)
				s = s.Reopen()

				r2 := newRig(t, s, &node{deliver: func(context.Context, *Delivery) Outcome { return refused }}, Route{})
				r2.n = 1
				if !early {
					time.Sleep(time.Minute)
				}
				young := r2.put(t, "")
				time.Sleep(time.Second)
				if err := r2.stop(); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = s.Reopen()

				n := &node{}
				r3 := newRig(t, s, n, Route{})
				time.Sleep(time.Hour)
				marks := map[string]bool{}
				for _, g := range n.given() {
					marks[g.id] = g.dup
				}
				if len(marks) != 2 || !marks[old] || marks[young] {
					t.Errorf("marks: got %v, want one for %s and none for %s", marks, old, young)
				}
				if err := r3.stop(); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = s.Reopen()
				newRig(t, s, n, Route{})
				time.Sleep(time.Second)
				if v, err := s.State("doubt"); err != nil || v != nil {
					t.Errorf("the doubt stays when nothing is in doubt: got %q, %v", v, err)
				}
			})
		})
	}
}

// TestDoubtOutlivesTheDeath: a message that may have been delivered before a
// crash and then dies keeps its mark when it is replayed.
func TestDoubtOutlivesTheDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		r := newRig(t, s, &node{deliver: func(ctx context.Context, _ *Delivery) Outcome {
			<-ctx.Done()
			return Outcome{Verdict: Aborted}
		}}, Route{})
		id := r.put(t, "")
		time.Sleep(time.Second)
		s = s.Reopen()
		n := &node{deliver: func(context.Context, *Delivery) Outcome { return bad }}
		r2 := newRig(t, s, n, Route{})
		time.Sleep(time.Second)
		n.mu.Lock()
		n.deliver = nil
		n.mu.Unlock()
		if err := r2.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if g := n.given(); len(g) != 2 || !g[1].dup || g[1].attempt != 1 {
			t.Errorf("attempts: got %+v, want the replayed one marked", g)
		}
	})
}

// TestMarkOutlivesManyAttempts: of a long history only a part is kept, and the
// attempt that asks for the mark is in it.
func TestMarkOutlivesManyAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := &node{deliver: func(_ context.Context, d *Delivery) Outcome {
			if d.Attempt == 2 {
				return lost
			}
			return fault
		}}
		policy := retry.Policy{Initial: time.Second, Max: time.Second, Jitter: -1}
		r := newRig(t, s, n, Route{Retry: policy})
		id := r.put(t, "")
		time.Sleep(2 * keptAttempts * time.Second)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if d, err := r.Get(id); err != nil || len(d.History) != keptAttempts || d.History[0].N != 1 || d.History[1].N != 2 {
			t.Errorf("Get: got %d attempts kept, %v, want %d with the first two", len(d.History), err, keptAttempts)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		n2 := &node{}
		newRig(t, s.Reopen(), n2, Route{})
		time.Sleep(time.Minute)
		if g := n2.given(); len(g) != 1 || !g[0].dup || g[0].attempt < keptAttempts {
			t.Errorf("after the restart: got %+v, want one attempt, marked", g)
		}
	})
}

// lateNews is a store that tells of a message only after a Scan has shown it.
type lateNews struct {
	*Memory
	tell func(uint64, *Message)
}

func (s *lateNews) OnCommit(f func(uint64, *Message)) {
	s.tell = f
	s.Memory.OnCommit(func(uint64, *Message) {})
}

func (s *lateNews) Scan(ctx context.Context, f func(uint64, *Message, int64) error) error {
	m := &Message{ID: "01a22cd3-0001", Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte("x")}
	seq, err := s.Put(ctx, m)
	if err != nil {
		return err
	}
	if err := s.Memory.Scan(ctx, f); err != nil {
		return err
	}
	s.tell(seq, m)
	return nil
}

// TestSeenTwiceWhileLoading: a message that is accepted while the index is
// rebuilt may be met in the log before the store tells of it; it is delivered
// once.
func TestSeenTwiceWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		r := newRig(t, &lateNews{Memory: NewMemory()}, n, Route{})
		time.Sleep(time.Minute)
		if g := n.given(); len(g) != 1 {
			t.Errorf("got %+v, want one attempt", g)
		}
		if got := r.Waiting(); got != 0 {
			t.Errorf("%d messages still wait", got)
		}
	})
}

// TestNoReplayWhileLoading: the scan of the log removes messages that are also
// dead letters, so none may be put back before it has ended.
func TestNoReplayWhileLoading(t *testing.T) {
	s := NewMemory()
	m := &Message{ID: "01a22cd3-0001", Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte("x")}
	if err := s.Bury(t.Context(), &DeadLetter{Message: m, Died: time.Now(), Reason: ReasonPermanent}); err != nil {
		t.Fatal(err)
	}
	q, err := New(s, &node{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Replay(t.Context(), m.ID); !errors.Is(err, ErrBusy) {
		t.Errorf("Replay before Load: got %v, want %v", err, ErrBusy)
	}
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Replay(t.Context(), m.ID); err != nil {
		t.Errorf("Replay after Load: got %v, want nil", err)
	}
}
