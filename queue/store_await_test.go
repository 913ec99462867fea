package queue

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func awaitedOf(i int) *Awaited {
	m := message(i)
	now := time.Now().Round(0).UTC()
	return &Awaited{
		ID: m.ID, Route: "orders", Site: "hq", Operation: "Place", Accepted: now.Add(-time.Minute), Handed: now, Until: now.Add(AwaitFor), Size: int64(i),
		Meta: []byte(`{"v":1}`),
	}
}

// contractAwaited: what is awaited of other sites is kept as it is until it is
// forgotten, the newest of each message, through a stop and a crash.
func contractAwaited(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	if _, err := s.Awaited("none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Awaited of an empty store: got %v, want ErrNotFound", err)
	}
	want := map[string]*Awaited{}
	keep := func(a *Awaited) {
		t.Helper()
		if err := s.KeepAwaited(t.Context(), a); err != nil {
			t.Fatalf("KeepAwaited(%s): %v", a.ID, err)
		}
		want[a.ID] = a
	}
	forget := func(id string) {
		t.Helper()
		if err := s.ForgetAwaited(t.Context(), id); err != nil {
			t.Fatalf("ForgetAwaited(%s): %v", id, err)
		}
		delete(want, id)
	}
	for i := range 20 {
		keep(awaitedOf(i))
	}
	for _, id := range hostile[2:5] {
		a := awaitedOf(30)
		a.ID = id
		keep(a)
	}
	dead := awaitedOf(3)
	dead.Died, dead.Reason = dead.Handed, "permanent: status 404"
	keep(dead)
	keep(awaitedOf(4)) // once more, as after a crash
	forget(awaitedOf(5).ID)
	forget(awaitedOf(4).ID)
	forget("none")
	check := func(when string) {
		t.Helper()
		got := map[string]*Awaited{}
		if err := s.ScanAwaited(t.Context(), func(a *Awaited) error { got[a.ID] = a; return nil }); err != nil {
			t.Fatalf("%s: ScanAwaited: %v", when, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: ScanAwaited (-want +got):\n%s", when, d)
		}
		for _, id := range slices.Sorted(maps.Keys(want)) {
			if a, err := s.Awaited(id); err != nil || cmp.Diff(want[id], a) != "" {
				t.Errorf("%s: Awaited(%q): got %+v, %v", when, id, a, err)
			}
		}
		for _, id := range []string{awaitedOf(4).ID, awaitedOf(5).ID, "", "*", ">"} {
			if a, err := s.Awaited(id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: Awaited(%q): got %+v, %v, want ErrNotFound", when, id, a, err)
			}
		}
		on := errors.New("stop")
		if err := s.ScanAwaited(t.Context(), func(*Awaited) error { return on }); !errors.Is(err, on) {
			t.Errorf("%s: ScanAwaited: got %v, want the error of the function", when, err)
		}
	}
	check("at once")
	s = mk.reopen(t, s, true)
	check("after a stop")
	keep(awaitedOf(21))
	forget(dead.ID)
	s = mk.reopen(t, s, false)
	check("after a crash")
}
