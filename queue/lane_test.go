package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

// laneOf is the part of a test message's body that names its lane.
func laneOf(g given) string {
	_, lane, _ := strings.Cut(g.body, " in ")
	return lane
}

// offer puts a message into a lane, and its lane into its body.
func (r *rig) offer(t *testing.T, lane string) string {
	t.Helper()
	r.n++
	id := fmt.Sprintf("01a22cd3-%06d", r.n)
	m := &Message{ID: id, Route: "orders", Destination: "depot", Lane: lane, Accepted: time.Now(), Body: []byte(id + " in " + lane)}
	if err := r.Put(t.Context(), m); err != nil {
		t.Fatalf("Put(%s): %v", id, err)
	}
	return id
}

func (r *rig) route(t *testing.T) RouteStats {
	t.Helper()
	for _, s := range r.Stats() {
		if s.Route == "orders" {
			return s
		}
	}
	t.Fatal("Stats: the route is missing")
	return RouteStats{}
}

// killer makes one message die until it is healed.
type killer struct {
	node
	deadly map[string]bool
}

func newKiller(ids ...string) *killer {
	k := &killer{deadly: map[string]bool{}}
	for _, id := range ids {
		k.deadly[id] = true
	}
	k.node.deliver = func(_ context.Context, d *Delivery) Outcome {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.deadly[d.ID] {
			return bad
		}
		return Outcome{}
	}
	return k
}

func (k *killer) heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.deadly)
}

// TestStopOnDead: the key of a dead head stands still, the others do not, until
// the dead letter is replayed, which then goes first, or dropped.
func TestStopOnDead(t *testing.T) {
	for _, end := range []string{"replay", "drop", "drop all"} {
		for _, when := range []string{"at once", "after a stop", "after a crash"} {
			t.Run(end+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testStopOnDead(t, end, when) })
			})
		}
	}
}

func testStopOnDead(t *testing.T, end, when string) {
	n := newKiller("01a22cd3-000001")
	s := NewMemory()
	route := Route{StopOnDead: true, Retry: retry.Policy{Expire: time.Hour}}
	r := newRig(t, s, &n.node, route)
	first := r.offer(t, "a")
	second := r.offer(t, "a")
	other := r.offer(t, "b")
	third := r.offer(t, "a")
	time.Sleep(time.Minute)
	if got := ids(n.given()); !slices.Equal(got, []string{first, other}) && !slices.Equal(got, []string{other, first}) {
		t.Fatalf("attempts: got %v, want the dead head and the other key's", got)
	}
	switch when {
	case "after a stop":
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		fallthrough
	case "after a crash":
		_ = r.stop()
		s = s.Reopen()
		r2 := newRig(t, s, &n.node, route)
		r2.n = r.n
		r = r2
	}
	fourth := r.offer(t, "a")
	// What stands behind the dead head does not expire while it waits for a person.
	time.Sleep(3 * time.Hour)
	if got := len(n.given()); got != 2 {
		t.Fatalf("attempts while the key stands still: got %v, want none", ids(n.given()[2:]))
	}
	if st := r.route(t); st.Stopped != 1 || st.Dead != 1 || st.Pending != 3 {
		t.Errorf("Stats: got %+v, want one key that stands still, one dead letter, three waiting", st)
	}
	page, _, err := r.List(Filter{})
	if err != nil || len(page) != 4 {
		t.Fatalf("List: got %d entries and %v, want 4", len(page), err)
	}
	for _, e := range page {
		if want := e.State == StateDead; e.Stops != want || (e.WaitsFor == first) == want {
			t.Errorf("List: got %+v, want the dead letter to stop its key and the others to wait for it", e)
		}
	}
	n.heal()
	route.Retry.Expire = -1
	if err := r.Configure([]Route{{Name: "orders", Destination: "depot", StopOnDead: true, Retry: retry.Policy{Expire: -1}}}, []Destination{{Name: "depot"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{first, second, third, fourth}
	switch end {
	case "replay":
		err = r.Replay(t.Context(), first)
	case "drop":
		want = want[1:]
		err = r.Drop(t.Context(), first)
	case "drop all":
		want = want[1:]
		_, err = r.DropAll(t.Context(), Filter{Route: "orders", State: StateDead})
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if got := ids(n.given()[2:]); !slices.Equal(got, want) {
		t.Errorf("after the %s: got %v, want %v", end, got, want)
	}
	if st := r.route(t); st.Stopped != 0 || st.Dead != 0 || st.Pending+st.Retrying != 0 {
		t.Errorf("Stats after the %s: got %+v, want nothing left", end, st)
	}
}

// TestReplayedHeadGoesFirst also when the gateway ends before it has been
// delivered, and when it dies again.
func TestReplayedHeadGoesFirst(t *testing.T) {
	for _, clean := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newKiller("01a22cd3-000001")
			s := NewMemory()
			r := newRig(t, s, &n.node, Route{StopOnDead: true})
			first, second := r.offer(t, "a"), r.offer(t, "a")
			time.Sleep(time.Second)
			if err := r.Replay(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if st := r.route(t); st.Stopped != 1 || st.Dead != 1 || len(n.given()) != 2 {
				t.Fatalf("dead again: got %+v after %v, want the key to stand still", st, ids(n.given()))
			}
			n.heal()
			if err := r.Pause(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			if err := r.Replay(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if clean {
				closeStore(t, s)
			}
			s = s.Reopen()
			r2 := newRig(t, s, &n.node, Route{StopOnDead: true})
			r2.n = r.n
			third := r2.offer(t, "a")
			if err := r2.Resume(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if got, want := ids(n.given()[2:]), []string{first, second, third}; !slices.Equal(got, want) {
				t.Errorf("clean %t: got %v, want %v", clean, got, want)
			}
		})
	}
}

// A head that waits for its next attempt is overtaken by nothing of its key, by
// others at will; a recovery of the destination makes it due at once.
func TestLaneParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		sick := true
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			if sick && d.Lane == "a" {
				return fault
			}
			return Outcome{}
		}
		r := newRig(t, NewMemory(), n, Route{Retry: retry.Policy{Initial: time.Hour, Max: time.Hour}})
		var want []string
		for range 10 {
			want = append(want, r.offer(t, "a"))
			r.offer(t, "b")
		}
		time.Sleep(time.Minute)
		if st := r.route(t); st.Retrying != 1 || st.Pending != 9 {
			t.Errorf("Stats: got %+v, want one that retries and nine behind it", st)
		}
		n.mu.Lock()
		sick = false
		n.mu.Unlock()
		time.Sleep(2 * time.Hour)
		var got []string
		for _, g := range n.given() {
			if laneOf(g) == "a" && (g.attempt > 1 || g.id != want[0]) {
				got = append(got, g.id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the key that was parked: got %v, want %v", got, want)
		}
	})
}

// TestOrderOfManyKeys is the promise of SPEC.md §4: order per key over 100 keys,
// with a destination that comes and goes, faults of single messages, stops and
// crashes.
func TestOrderOfManyKeys(t *testing.T) {
	for _, stop := range []bool{false, true} {
		t.Run(fmt.Sprintf("stop=%t", stop), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOrderOfManyKeys(t, stop) })
		})
	}
}

func testOrderOfManyKeys(t *testing.T, stop bool) {
	const keys, each = 100, 20
	rnd, ours := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
	n := &node{}
	up := true
	flying := map[string]string{}
	taken := map[string][]string{} // by key, first deliveries only
	done := map[string]bool{}
	most := 0
	n.deliver = func(ctx context.Context, d *Delivery) Outcome {
		n.mu.Lock()
		if other := flying[d.Lane]; other != "" {
			t.Errorf("%s is given while %s of the same key is under way", d.ID, other)
		}
		flying[d.Lane] = d.ID
		most = max(most, len(flying))
		mood := rnd.IntN(10)
		wait := time.Duration(rnd.IntN(50)) * time.Millisecond
		n.mu.Unlock()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		aborted := false
		select {
		case <-timer.C:
		case <-ctx.Done():
			aborted = true
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(flying, d.Lane)
		switch {
		case aborted:
			return Outcome{Verdict: Aborted, Maybe: true}
		case !up:
			return refused
		case mood == 0:
			return fault
		case mood == 1:
			return lost
		}
		if !done[d.ID] {
			done[d.ID] = true
			taken[d.Lane] = append(taken[d.Lane], d.ID)
		}
		return Outcome{}
	}
	n.probe = func() error { // called with the lock held
		if !up {
			return context.DeadlineExceeded
		}
		return nil
	}
	route := Route{StopOnDead: stop, Retry: retry.Policy{Initial: 50 * time.Millisecond, Max: time.Second}}
	s := NewMemory()
	r := newRig(t, s, n, route)
	put := map[string][]string{}
	for i := range each {
		for k := range keys {
			key := fmt.Sprintf("key-%02d", k)
			put[key] = append(put[key], r.offer(t, key))
		}
		n.mu.Lock()
		up = i%3 != 1
		n.mu.Unlock()
		time.Sleep(time.Duration(ours.IntN(3000)) * time.Millisecond)
		if i%4 == 3 {
			count := r.n
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if i%8 == 3 {
				closeStore(t, s)
			}
			s = s.Reopen()
			r = newRig(t, s, n, route)
			r.n = count
		}
	}
	n.mu.Lock()
	up = true
	n.mu.Unlock()
	time.Sleep(10 * time.Minute)
	if got := r.Waiting(); got != 0 {
		t.Errorf("Waiting: got %d, want 0", got)
	}
	for key, want := range put {
		if got := taken[key]; !slices.Equal(got, want) {
			t.Errorf("%s: delivered %v, want %v", key, got, want)
		}
	}
	if most < 32 {
		t.Errorf("at most %d keys were under way at once, want many", most)
	}
}

// TestStopOnDeadReload: a reload that lets dead heads pass holds for those that
// die from then on; what stands still waits for the operator.
func TestStopOnDeadReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newKiller("01a22cd3-000001", "01a22cd3-000003")
		r := newRig(t, NewMemory(), &n.node, Route{StopOnDead: true})
		first, second := r.offer(t, "a"), r.offer(t, "a")
		time.Sleep(time.Second)
		if err := r.Configure([]Route{{Name: "orders", Destination: "depot"}}, []Destination{{Name: "depot"}}); err != nil {
			t.Fatal(err)
		}
		dead, after := r.offer(t, "b"), r.offer(t, "b")
		time.Sleep(time.Second)
		if got, want := ids(n.given()), []string{first, dead, after}; !slices.Equal(got, want) {
			t.Errorf("attempts: got %v, want %v: %s stands still, the other key goes on", got, want, second)
		}
		if err := r.Drop(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := ids(n.given()); got[len(got)-1] != second {
			t.Errorf("after the drop: got %v, want %s", got, second)
		}
	})
}
