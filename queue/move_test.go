package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

// mover is a queue with the routes orders and bills, whose destinations are in
// the ledger of n, and with messages of a route that is gone.
func newMover(t *testing.T, s Store, d Deliverer, routes ...Route) *Queue {
	t.Helper()
	q, err := New(s, d, Options{Drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	dests := map[string]bool{}
	var all []Destination
	for i := range routes {
		if routes[i].Destination == "" {
			routes[i].Destination = "to-" + routes[i].Name
		}
		if !dests[routes[i].Destination] {
			dests[routes[i].Destination] = true
			all = append(all, Destination{Name: routes[i].Destination})
		}
	}
	if err := q.Configure(routes, all); err != nil {
		t.Fatal(err)
	}
	return q
}

func runs(t *testing.T, q *Queue) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// routed is a Deliverer that notes under which route each message is given.
type routed struct {
	mu    sync.Mutex
	given []string // ROUTE ID, and ! where it is marked
	hold  map[string]chan struct{}
}

func (r *routed) Deliver(ctx context.Context, d *Delivery) Outcome {
	r.mu.Lock()
	mark := ""
	if d.PossibleDuplicate {
		mark = "!"
	}
	r.given = append(r.given, d.Route+" "+d.ID+mark)
	hold := r.hold[d.ID]
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return Outcome{Verdict: Aborted}
		}
	}
	return Outcome{}
}

func (r *routed) Probe(context.Context, string) error { return nil }

func (r *routed) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.given)
}

func sameAs(key, sum string, window time.Duration) (i Identity) {
	copy(i.Key[:], key)
	copy(i.Sum[:], sum)
	i.Until = time.Now().Add(window)
	return i
}

func mustPut(t *testing.T, s Store, m *Message) {
	t.Helper()
	m.Destination = "to-" + m.Route
	if m.Accepted.IsZero() {
		m.Accepted = time.Now()
	}
	m.Body = []byte("body of " + m.ID)
	if _, err := s.Put(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T, q *Queue, f Filter) (out []string) {
	t.Helper()
	for {
		page, next, err := q.List(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			out = append(out, fmt.Sprintf("%s %s %s", e.Route, e.ID, e.State))
		}
		if f.After = next; next == "" {
			return out
		}
	}
}

// TestMoveOrphans: what a removed route has left goes to another, with all that
// is known of it, in its order and behind what waits there.
func TestMoveOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		for i, lane := range []string{"a", "b", "a", "", "a"} {
			mustPut(t, s, &Message{ID: fmt.Sprintf("old-%d", i), Route: "old", Lane: lane, Identity: sameAs(fmt.Sprint(i), "sum", time.Hour)})
		}
		mustPut(t, s, &Message{ID: "new-1", Route: "orders", Lane: "a"})
		maybe := []AttemptRecord{{N: 1, At: time.Now(), Reason: "refused"}, {N: 2, At: time.Now(), Reason: "reset", Maybe: true, NotBefore: time.Now().Add(time.Hour)}}
		if err := s.SaveAttempts("old-2", maybe); err != nil {
			t.Fatal(err)
		}
		dead := &DeadLetter{
			Message: &Message{ID: "old-dead", Route: "old", Destination: "to-old", Lane: "b", Body: []byte("dead"), Identity: sameAs("dead", "sum", time.Hour)},
			Reason:  ReasonPermanent, Text: "fault Client", Attempts: maybe, Reply: []byte("<fault/>"), ReplyType: "text/xml", Stops: true,
		}
		if err := s.Bury(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		n := &routed{hold: map[string]chan struct{}{"new-1": make(chan struct{})}}
		q := newMover(t, s, n, Route{Name: "orders"}, Route{Name: "sync", Closed: true})
		defer runs(t, q)()
		synctest.Wait()

		if _, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "nowhere"); !errors.Is(err, ErrNoTarget) {
			t.Errorf("to a route that is none: %v", err)
		}
		if _, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "sync"); !errors.Is(err, ErrNoTarget) {
			t.Errorf("to a route that stores nothing: %v", err)
		}
		if _, err := q.MoveAll(t.Context(), Filter{Route: "odl"}, "orders"); !errors.Is(err, ErrNoRoute) {
			t.Errorf("from a route that is none: %v", err)
		}
		if _, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "old"); !errors.Is(err, ErrNoTarget) {
			t.Errorf("to a route that is gone: %v", err)
		}
		if got := len(entries(t, q, Filter{Route: "old"})); got != 6 {
			t.Fatalf("refused moves have left %d messages, want 6", got)
		}
		sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders")
		if err != nil || sum.Count != 6 || sum.Busy+sum.Damaged != 0 {
			t.Fatalf("MoveAll: %+v, %v", sum, err)
		}
		if got := entries(t, q, Filter{Route: "old"}); len(got) != 0 {
			t.Errorf("left on the old route: %q", got)
		}
		d, err := q.Get("old-dead")
		if err != nil || d.Route != "orders" || d.Destination != "to-orders" || d.State != StateDead || d.Stops ||
			len(d.History) != 2 || string(d.Reply) != "<fault/>" || d.Text != "fault Client" || string(d.Message.Body) != "dead" {
			t.Errorf("dead letter: %+v, %v", d, err)
		}
		synctest.Wait()
		g := n.all()
		if slices.Sort(g[1:]); !slices.Equal(g, []string{"orders new-1", "orders old-1", "orders old-3"}) {
			t.Errorf("given while the head of lane a is under way: %q", g)
		}
		close(n.hold["new-1"])
		synctest.Wait()
		if g := n.all()[3:]; !slices.Equal(g, []string{"orders old-0", "orders old-2!", "orders old-4"}) {
			t.Errorf("lane a: %q", g)
		}
		// Repeats are still known, also of the dead letter, and a replay goes to
		// the new route, marked.
		if err := q.Replay(t.Context(), "old-dead"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if g := n.all(); g[len(g)-1] != "orders old-dead!" {
			t.Errorf("replayed: %q", g[len(g)-1])
		}
	})
}

// TestMoveIdentity: a repeat of a message that was moved is still one.
func TestMoveIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		q := newMover(t, s, &routed{}, Route{Name: "old"}, Route{Name: "orders"})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		message := func(n int) *Message {
			return &Message{ID: uid(n), Route: "old", Destination: "to-old", Body: []byte("x"), Accepted: time.Now(), Identity: sameAs("k", "sum", time.Hour)}
		}
		if _, err := q.PutOnce(t.Context(), message(1)); err != nil {
			t.Fatal(err)
		}
		if sum, err := q.Move(t.Context(), []string{uid(1), uid(1), "none"}, "orders"); err != nil || sum.Count != 1 || !slices.Equal(sum.Unknown, []string{"none"}) {
			t.Fatalf("Move: %+v, %v", sum, err)
		}
		if kept, err := q.PutOnce(t.Context(), message(2)); err != nil || kept.ID != uid(1) || kept.Fate != FateWaiting {
			t.Errorf("a repeat: %+v, %v", kept, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		n := &routed{}
		q = newMover(t, s.Reopen(), n, Route{Name: "old"}, Route{Name: "orders"})
		defer runs(t, q)()
		synctest.Wait()
		if kept, err := q.PutOnce(t.Context(), message(3)); err != nil || kept.ID != uid(1) || kept.Fate != FateDelivered {
			t.Errorf("a repeat after the delivery: %+v, %v", kept, err)
		}
		if g := n.all(); !slices.Equal(g, []string{"orders " + uid(1)}) {
			t.Errorf("given: %q", g)
		}
	})
}

// TestMoveLeavesWhatIsUnderWay: and what stands behind it in its lane.
func TestMoveLeavesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		for _, m := range []*Message{{ID: "a1", Lane: "a"}, {ID: "a2", Lane: "a"}, {ID: "b1", Lane: "b"}, {ID: "free"}, {ID: "c1"}} {
			m.Route = "old"
			mustPut(t, s, m)
		}
		hold := make(chan struct{})
		n := &routed{hold: map[string]chan struct{}{"a1": hold, "free": hold}}
		q := newMover(t, s, n, Route{Name: "old"}, Route{Name: "orders"})
		if err := q.Pause(t.Context(), "old"); err != nil {
			t.Fatal(err)
		}
		defer runs(t, q)()
		synctest.Wait()
		// Only two of them get under way.
		q.mu.Lock()
		for _, id := range []string{"a1", "free"} {
			it, d := q.byID[keyOf(id)], q.dests["to-old"]
			d.launch(q.run, it)
		}
		q.mu.Unlock()
		synctest.Wait()
		sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders")
		if err != nil || sum.Count != 2 || sum.Busy != 3 {
			t.Errorf("MoveAll: %+v, %v, want 2 moved and 3 busy", sum, err)
		}
		if sum, err := q.Move(t.Context(), []string{"a2"}, "orders"); err != nil || sum.Busy != 1 {
			t.Errorf("Move of what stands behind one under way: %+v, %v", sum, err)
		}
		synctest.Wait()
		if got := n.all()[2:]; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"orders b1", "orders c1"}) {
			t.Errorf("given: %q", got)
		}
		close(hold)
		synctest.Wait()
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil || sum.Count != 1 || sum.Busy != 0 {
			t.Errorf("MoveAll again: %+v, %v", sum, err)
		}
		synctest.Wait()
		if got := n.all(); len(got) != 5 || got[4] != "orders a2" || q.Waiting() != 0 {
			t.Errorf("given: %q, %d wait", got, q.Waiting())
		}
	})
}

// TestMoveStops: a lane that stands still for a dead letter does so on the other
// route, if that has its lanes stop, and nothing of it is sent in between.
func TestMoveStops(t *testing.T) {
	for _, stop := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewMemory()
			s.SetDelay(time.Millisecond)
			dead := &DeadLetter{Message: &Message{ID: "a0", Route: "old", Destination: "to-old", Lane: "a"}, Stops: true}
			if err := s.Bury(t.Context(), dead); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"a1", "a2", "a3"} {
				mustPut(t, s, &Message{ID: id, Route: "old", Lane: "a"})
			}
			n := &routed{}
			q := newMover(t, s, n, Route{Name: "old", StopOnDead: true}, Route{Name: "orders", StopOnDead: stop})
			defer runs(t, q)()
			time.Sleep(time.Second)
			if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil || sum.Count != 4 {
				t.Fatalf("MoveAll: %+v, %v", sum, err)
			}
			time.Sleep(time.Second)
			want := []string{"orders a1", "orders a2", "orders a3"}
			if stop {
				if g := n.all(); len(g) != 0 {
					t.Fatalf("given while the lane stands still: %q", g)
				}
				if err := q.Replay(t.Context(), "a0"); err != nil {
					t.Fatal(err)
				}
				want = slices.Insert(want, 0, "orders a0")
			}
			time.Sleep(time.Second)
			if g := n.all(); !slices.Equal(g, want) {
				t.Errorf("stop %t: given %q, want %q", stop, g, want)
			}
			for _, st := range q.Stats() {
				if st.Stopped != 0 {
					t.Errorf("stop %t: %+v stands still", stop, st)
				}
			}
		})
	}
}

// TestMoveQuota: what does not fit is not begun; dead letters do not count.
func TestMoveQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		for i := range 5 {
			mustPut(t, s, &Message{ID: fmt.Sprintf("m%d", i), Route: "old"})
		}
		if err := s.Bury(t.Context(), &DeadLetter{Message: &Message{ID: "dead", Route: "old", Destination: "to-old"}}); err != nil {
			t.Fatal(err)
		}
		q := newMover(t, s, &routed{}, Route{Name: "few", MaxMessages: 4}, Route{Name: "small", MaxBytes: 49}, Route{Name: "fits", MaxMessages: 5, MaxBytes: 50})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"few", "small"} {
			if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, to); !errors.Is(err, ErrFull) || sum.Count != 0 {
				t.Errorf("to %s: %+v, %v, want ErrFull", to, sum, err)
			}
		}
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old", State: StateDead}, "few"); err != nil || sum.Count != 1 {
			t.Errorf("a dead letter: %+v, %v", sum, err)
		}
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "fits"); err != nil || sum.Count != 5 {
			t.Errorf("to fits: %+v, %v", sum, err)
		}
	})
}

// TestMoveExpired: what has waited for longer than its new route allows is not
// moved into its grave; what has not keeps its time.
func TestMoveExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		mustPut(t, s, &Message{ID: "old", Route: "gone", Accepted: time.Now().Add(-48 * time.Hour)})
		mustPut(t, s, &Message{ID: "young", Route: "gone", Accepted: time.Now().Add(-time.Hour)})
		q := newMover(t, s, &routed{}, Route{Name: "orders", Retry: retry.Policy{Expire: 24 * time.Hour}})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "gone"}, "orders"); err != nil || sum.Count != 2 {
			t.Fatalf("MoveAll: %+v, %v", sum, err)
		}
		for id, want := range map[string]time.Duration{"old": 0, "young": time.Hour} {
			if d, err := q.Get(id); err != nil || time.Since(d.Accepted) != want || time.Since(d.Message.Accepted) != want {
				t.Errorf("%s: accepted %v ago, %v, want %v", id, time.Since(d.Accepted), err, want)
			}
		}
	})
}

// TestMoveDamaged: what cannot be read stays, and the others go.
func TestMoveDamaged(t *testing.T) {
	s := NewMemory()
	for i := range 3 {
		mustPut(t, s, &Message{ID: fmt.Sprintf("m%d", i), Route: "gone", Lane: "a"})
	}
	s.Damage(2)
	q := newMover(t, s, &routed{}, Route{Name: "orders"})
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum, err := q.MoveAll(t.Context(), Filter{Route: "gone"}, "orders"); err != nil || sum.Count != 2 || sum.Damaged != 1 {
		t.Errorf("MoveAll: %+v, %v", sum, err)
	}
	if got := entries(t, q, Filter{Route: "gone"}); !slices.Equal(got, []string{"gone m1 orphaned"}) {
		t.Errorf("left: %q", got)
	}
}

// TestMoveFull: a store without room for one ends the move, and what was not
// moved is where it was.
func TestMoveFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		for i := range 4 {
			mustPut(t, s, &Message{ID: fmt.Sprintf("m%d", i), Route: "old", Lane: "a"})
		}
		n := &routed{}
		q := newMover(t, s, n, Route{Name: "old"}, Route{Name: "orders"})
		if err := q.Pause(t.Context(), "old"); err != nil {
			t.Fatal(err)
		}
		defer runs(t, q)()
		synctest.Wait()
		s.SetFull(true)
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); !errors.Is(err, ErrFull) || sum.Count != 0 {
			t.Fatalf("MoveAll: %+v, %v, want ErrFull", sum, err)
		}
		s.SetFull(false)
		if err := q.Resume(t.Context(), "old"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if g := n.all(); !slices.Equal(g, []string{"old m0", "old m1", "old m2", "old m3"}) {
			t.Errorf("given: %q", g)
		}
	})
}

// crashes is a store that can be looked at as a kill at any moment of a change
// leaves it. Removals may or may not have reached the disk.
type crashes struct {
	*Memory
	mu     sync.Mutex
	log    map[uint64]memoryRecord // all there has ever been
	seen   []*Memory
	active bool
}

func (c *crashes) snap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.active {
		return
	}
	c.Memory.mu.Lock()
	defer c.Memory.mu.Unlock()
	d := c.data
	maps.Copy(c.log, d.log)
	for _, log := range []map[uint64]memoryRecord{d.log, c.log} {
		copied := &memoryData{
			last: d.last, log: maps.Clone(log), dead: maps.Clone(d.dead), attempts: maps.Clone(d.attempts),
			state: maps.Clone(d.state), known: slices.Clone(d.known), replies: maps.Clone(d.replies),
		}
		c.seen = append(c.seen, newMemory(copied, nil, Info{ID: "memory", Durability: Strict}))
	}
}

func (c *crashes) Put(ctx context.Context, m *Message) (uint64, error) {
	c.snap()
	seq, err := c.Memory.Put(ctx, m)
	c.snap()
	return seq, err
}

func (c *crashes) Remove(seqs ...uint64) error {
	c.snap()
	err := c.Memory.Remove(seqs...)
	c.snap()
	return err
}

func (c *crashes) Bury(ctx context.Context, d *DeadLetter) error {
	c.snap()
	err := c.Memory.Bury(ctx, d)
	c.snap()
	return err
}

func (c *crashes) SaveAttempts(id string, a []AttemptRecord) error {
	c.snap()
	if len(a) == 0 {
		return nil // that a removal reaches the disk last is the worst case
	}
	return c.Memory.SaveAttempts(id, a)
}

// TestMoveCrash: whenever the gateway is killed, each message is on one of the
// two routes, once, in its order; and it is given once, marked.
func TestMoveCrash(t *testing.T) {
	for _, live := range []bool{false, true} { // the route it comes from is there as well
		synctest.Test(t, func(t *testing.T) {
			s := &crashes{Memory: NewMemory(), log: map[uint64]memoryRecord{}}
			var want []string
			for i := range 9 {
				id := fmt.Sprintf("m%d", i)
				want = append(want, id)
				mustPut(t, s, &Message{ID: id, Route: "old", Lane: []string{"a", "b", ""}[i%3]})
			}
			for i := range 3 {
				id := fmt.Sprintf("x%d", i)
				if err := s.Bury(t.Context(), &DeadLetter{Message: &Message{ID: id, Route: "old", Destination: "to-old"}}); err != nil {
					t.Fatal(err)
				}
			}
			routes := []Route{{Name: "orders", AtMostOnce: true}}
			if live {
				routes = append(routes, Route{Name: "old", AtMostOnce: true})
			}
			q := newMover(t, s, idleNode{}, slices.Clone(routes)...)
			if err := q.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.active = true
			if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil || sum.Count != 12 {
				t.Fatalf("MoveAll: %+v, %v", sum, err)
			}
			s.snap()
			if len(s.seen) < 40 {
				t.Fatalf("only %d moments", len(s.seen))
			}
			for i, crashed := range s.seen {
				n := &routed{}
				q := newMover(t, crashed, n, slices.Clone(routes)...)
				stop := runs(t, q)
				synctest.Wait()
				if !live {
					if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil && !errors.Is(err, ErrNoRoute) || sum.Busy != 0 {
						t.Errorf("moment %d: the second move: %+v, %v", i, sum, err)
					}
					synctest.Wait()
				}
				var got []string
				lanes := map[int][]string{}
				for _, g := range n.all() {
					route, id, _ := strings.Cut(g, " ")
					if !strings.HasSuffix(id, "!") || !live && route != "orders" {
						t.Errorf("moment %d: given %q", i, g)
					}
					id = strings.TrimSuffix(id, "!")
					got = append(got, id)
					if k := int(id[1]-'0') % 3; k < 2 && !live {
						lanes[k] = append(lanes[k], id)
					}
				}
				for _, l := range lanes {
					if !slices.IsSorted(l) {
						t.Errorf("moment %d: lane %q", i, l)
					}
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("moment %d: given %q, want each once", i, got)
				}
				dead := map[string]int{}
				for _, e := range entries(t, q, Filter{State: StateDead}) {
					dead[strings.Fields(e)[1]]++
				}
				if len(dead) != 3 || dead["x0"]+dead["x1"]+dead["x2"] != 3 || q.Waiting() != 0 {
					t.Errorf("moment %d: dead letters %v, %d wait", i, dead, q.Waiting())
				}
				stop()
			}
		})
	}
}

type idleNode struct{}

func (idleNode) Deliver(context.Context, *Delivery) Outcome { return Outcome{Verdict: Aborted} }
func (idleNode) Probe(context.Context, string) error        { return nil }

// TestMoveCrashUnderWay: with deliveries going on, no kill makes the at-most-once
// target get a message twice, nor lose one.
func TestMoveCrashUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &crashes{Memory: NewMemory(), log: map[uint64]memoryRecord{}}
		for i := range 6 {
			mustPut(t, s, &Message{ID: fmt.Sprintf("m%d", i), Route: "old", Lane: "a"})
		}
		before := &routed{}
		routes := []Route{{Name: "orders", AtMostOnce: true}}
		q := newMover(t, s, before, slices.Clone(routes)...)
		stop := runs(t, q)
		synctest.Wait()
		s.active = true
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil || sum.Count != 6 {
			t.Fatalf("MoveAll: %+v, %v", sum, err)
		}
		synctest.Wait()
		stop()
		for i, crashed := range s.seen {
			n := &routed{}
			there, begun := map[string]bool{}, map[string]bool{}
			for _, r := range crashed.data.log {
				m, _, err := decodeHead(r.header)
				if err != nil {
					t.Fatal(err)
				}
				there[m.ID] = true
			}
			for id := range crashed.data.attempts {
				begun[id] = true
			}
			q := newMover(t, crashed, n, slices.Clone(routes)...)
			stop := runs(t, q)
			synctest.Wait()
			if _, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil && !errors.Is(err, ErrNoRoute) {
				t.Fatal(err)
			}
			synctest.Wait()
			// What had begun before the kill is a dead letter, all else that the log
			// had is given.
			dead := entries(t, q, Filter{State: StateDead})
			got := n.all()
			for _, g := range got {
				if id := strings.TrimSuffix(strings.TrimPrefix(g, "orders "), "!"); begun[id] {
					t.Errorf("moment %d: %s was under way, and is given again", i, id)
				}
			}
			if len(got)+len(dead) != len(there) || q.Waiting() != 0 {
				t.Errorf("moment %d: given %q, dead %q, %d wait, of %d", i, got, dead, q.Waiting(), len(there))
			}
			stop()
		}
	})
}

// TestMoveEmbedded: on the disk as in memory, also after a kill.
func TestMoveEmbedded(t *testing.T) {
	for _, clean := range []bool{true, false} {
		s := openStore(t, testOptions(t, t.TempDir()))
		for i := range 20 {
			mustPut(t, s, &Message{ID: uid(i), Route: "old", Lane: []string{"a", ""}[i%2], Identity: sameAs(fmt.Sprint(i), "sum", time.Hour)})
		}
		for i := 20; i < 25; i++ {
			if err := s.Bury(t.Context(), &DeadLetter{Message: &Message{ID: uid(i), Route: "old", Destination: "to-old", Body: []byte("dead")}}); err != nil {
				t.Fatal(err)
			}
		}
		q := newMover(t, s, idleNode{}, Route{Name: "orders"})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil || sum.Count != 25 {
			t.Fatalf("MoveAll: %+v, %v", sum, err)
		}
		again := embeddedMaker(func(t *testing.T) StoreObserver { return noGaps{t: t} }).reopen(t, s, clean)
		q = newMover(t, again, idleNode{}, Route{Name: "orders"})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 25 {
			state := StatePending
			if i >= 20 {
				state = StateDead
			}
			want = append(want, fmt.Sprintf("orders %s %s", uid(i), state))
		}
		got := entries(t, q, Filter{})
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("clean %t: got %q", clean, got)
		}
		_ = again.Close()
		_ = s.Close()
	}
}

// TestDeadLatest: a crash between a dead letter and the removal of the one that it
// replaces leaves both, and the later one holds.
func TestDeadLatest(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	for _, route := range []string{"z", "b", "a"} {
		d := deadLetter(1)
		d.Route = route
		header, data, err := encodeDead(d)
		if err != nil {
			t.Fatal(err)
		}
		token, err := subjectToken(d.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.commit.do(t.Context(), &job{rec: record{subjectDead + token, headerDead, header, data}, urgent: true}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := s.ScanDead(t.Context(), func(d *DeadLetter, _ int64) error { got = append(got, d.Route); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"a"}) {
		t.Errorf("ScanDead: got routes %q, want the last only", got)
	}
}

// TestMoveKeepsDoubt: that a message may have been given before a kill stays known
// over the move and a clean stop; what the move has noted does not stay for ever.
func TestMoveKeepsDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		mustPut(t, s, &Message{ID: "m", Route: "old"})
		s = s.Reopen() // as after a kill
		q := newMover(t, s, &routed{}, Route{Name: "orders"})
		stop := runs(t, q)
		synctest.Wait()
		if err := q.Pause(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		if sum, err := q.MoveAll(t.Context(), Filter{Route: "old"}, "orders"); err != nil || sum.Count != 1 {
			t.Fatalf("MoveAll: %+v, %v", sum, err)
		}
		for _, noted := range []string{"1", ""} {
			stop()
			if v, err := s.State(movedState + "old"); err != nil || string(v) != noted {
				t.Errorf("noted: %q, %v, want %q", v, err, noted)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = s.Reopen()
			n := &routed{}
			q = newMover(t, s, n, Route{Name: "orders"}, Route{Name: "old"})
			stop = runs(t, q)
			synctest.Wait()
			if v, err := s.State(movedState + "old"); err != nil || len(v) != 0 {
				t.Errorf("noted after a clean stop: %q, %v", v, err)
			}
			if noted == "" {
				if err := q.Resume(t.Context(), "orders"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if g := n.all(); !slices.Equal(g, []string{"orders m!"}) {
					t.Errorf("given: %q, want it marked", g)
				}
			}
		}
		stop()
	})
}
