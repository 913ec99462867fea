package queue

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestBulk: changes of 100,000 messages select exactly what their filter says, and
// hold little more than the ids meanwhile.
func TestBulk(t *testing.T) {
	const n = 100_000
	s := NewMemory()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		m := &Message{ID: uid(i), Route: "orders", Destination: "to-orders", Operation: []string{"place", "cancel"}[i%2], Accepted: began.Add(time.Duration(i) * time.Millisecond)}
		if err := s.Bury(t.Context(), &DeadLetter{Message: m, Reason: ReasonPermanent, Text: fmt.Sprintf("fault %d", i%10)}); err != nil {
			t.Fatal(err)
		}
	}
	q := newMover(t, s, idleNode{}, Route{Name: "orders"}, Route{Name: "bills"})
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}

	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	jobs, err := q.selected(Filter{Route: "orders", State: StateDead})
	if held := heap() - before; err != nil || len(jobs) != n || held > 100*n && held < 1<<40 {
		t.Errorf("selected: %d messages, %v, %d octets for each, want at most 100", len(jobs), err, held/n)
	}
	runtime.KeepAlive(jobs)

	late := began.Add(n / 2 * time.Millisecond)
	wait := func(f Filter) int { return len(entries(t, q, f)) }
	if got, err := q.ReplayAll(t.Context(), Filter{Route: "orders", Operation: "cancel", Text: "fault 3", Since: late}); got != n/20 || err != nil {
		t.Errorf("replay: got %d, %v, want %d", got, err, n/20)
	}
	if got := wait(Filter{State: StatePending}); got != n/20 {
		t.Errorf("%d wait, want %d", got, n/20)
	}
	if got, err := q.DropAll(t.Context(), Filter{Route: "orders", State: StatePending, Operation: "place"}); got != 0 || err != nil {
		t.Errorf("drop of what no message is: %d, %v", got, err)
	}
	if got, err := q.DropAll(t.Context(), Filter{Route: "orders", State: StatePending}); got != n/20 || err != nil || q.Waiting() != 0 {
		t.Errorf("drop of what waits: %d, %v, %d are left", got, err, q.Waiting())
	}
	if sum, err := q.MoveAll(t.Context(), Filter{Route: "orders", Text: "fault 5"}, "bills"); sum.Count != n/10 || err != nil {
		t.Errorf("move: %+v, %v, want %d", sum, err, n/10)
	}
	if got, err := q.DropAll(t.Context(), Filter{Route: "orders"}); got != n-n/20-n/10 || err != nil {
		t.Errorf("drop: %d, %v, want %d", got, err, n-n/20-n/10)
	}
	left := entries(t, q, Filter{})
	if len(left) != n/10 || slices.ContainsFunc(left, func(e string) bool { return e[:5] != "bills" }) {
		t.Errorf("%d are left, want %d on the route bills", len(left), n/10)
	}
}
