package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s spans
		want := map[uint64]bool{}
		for range 300 {
			n := r.Uint64N(120) + 1
			if got := s.add(n); got == want[n] {
				t.Fatalf("add(%d) to %v: got %v", n, s, got)
			}
			want[n] = true
		}
		for n := range uint64(125) {
			if s.has(n) != want[n] {
				t.Fatalf("has(%d) of %v: got %v", n, s, s.has(n))
			}
		}
		for i := 1; i < len(s); i++ {
			if s[i].from <= s[i-1].to+1 || s[i].to < s[i].from {
				t.Fatalf("spans %v touch at %d", s, i)
			}
		}
		back, err := parseSpans(s.append(nil))
		if err != nil || !slices.Equal(back, s) {
			t.Fatalf("parseSpans(%v): got %v, %v", s, back, err)
		}
	}
}

func FuzzSpans(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSpans(b)
		if err != nil {
			return
		}
		again, err := parseSpans(s.append(nil))
		if err != nil || !slices.Equal(again, s) {
			t.Fatalf("%v is written as what reads %v, %v", s, again, err)
		}
	})
}

func TestLabelOption(t *testing.T) {
	for _, l := range []Label{
		{Stream{"", 1 << 62, "hq", 0}, 1},
		{Stream{"plant-7/01939f3e-0000-7000-8000-000000000000", 0xabc, "region", 255}, 1<<63 + 5},
	} {
		got := parseLabel(l.option())
		if got == nil || *got != l {
			t.Errorf("parseLabel(%s): got %v", l.option(), got)
		}
	}
	for _, s := range []string{"", "1.2.3", "x.1.1.hq", "1.300.1.hq", "1.1.0.hq", "1.1.1.", "1.1.1.HQ", "1.1.1.hq/a b"} {
		if l := parseLabel(s); l != nil {
			t.Errorf("parseLabel(%q): got %v, want none", s, l)
		}
	}
}

// labelled is a message that has come from another site.
func labelled(n uint64) *Message {
	return &Message{
		ID: fmt.Sprintf("01a22cd4-%04d", n), Route: "orders", Destination: "depot", Operation: "Place", Accepted: time.Now(), Body: []byte("body"),
		Came: &Label{Stream{"plant/store", 7, "hq", 0}, n},
	}
}

// TestSeen: under one label one message is kept, over deliveries, dead letters, drops,
// and starts of whatever kind.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{deliver: func(_ context.Context, d *Delivery) Outcome {
			if d.Came.N == 2 {
				return Outcome{Verdict: Dead, Reason: "no"}
			}
			return Outcome{}
		}}
		s := NewMemory()
		r := newRig(t, s, n, Route{})
		<-r.complete
		for i := range uint64(5) {
			if err := r.Put(t.Context(), labelled(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		refuse := func(when string) {
			t.Helper()
			for i := range uint64(5) {
				again := labelled(i + 1)
				again.ID = "again" + again.ID
				if err := r.Put(t.Context(), again); !errors.Is(err, ErrSeen) {
					t.Errorf("%s: Put of label %d once more: got %v, want ErrSeen", when, i+1, err)
				}
			}
		}
		refuse("at once")
		time.Sleep(2 * seenEvery)
		synctest.Wait()
		if got := len(n.given()); got != 5 {
			t.Errorf("%d deliveries, want 5", got)
		}
		if got := s.Info().Messages; got != 0 {
			t.Errorf("%d messages are left in the log, want none", got)
		}
		refuse("after the removal")
		for range 2 {
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			s = s.Reopen()
			r = newRig(t, s, n, Route{})
			refuse("after a start")
		}
		if err := r.Drop(t.Context(), labelled(2).ID); err != nil { // the dead one
			t.Fatal(err)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = newRig(t, s.Reopen(), n, Route{})
		refuse("after the drop of a dead letter, and a start")
	})
}

// TestSeenAtOnce: of many with one label that come at once one is kept, also where the
// first of them fails.
func TestSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		s.SetDelay(time.Millisecond)
		r := newRig(t, s, &node{}, Route{})
		<-r.complete
		var kept, seen atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				m := labelled(1)
				m.ID = fmt.Sprintf("01a22cd5-%04d", i)
				switch err := r.Put(t.Context(), m); {
				case err == nil:
					kept.Add(1)
				case errors.Is(err, ErrSeen):
					seen.Add(1)
				}
			})
		}
		wg.Wait()
		if kept.Load() != 1 || seen.Load() != 19 {
			t.Errorf("%d kept and %d refused, want 1 and 19", kept.Load(), seen.Load())
		}
		s.SetFull(true)
		if err := r.Put(t.Context(), labelled(2)); !errors.Is(err, ErrFull) {
			t.Errorf("Put into a full store: got %v, want ErrFull", err)
		}
		s.SetFull(false)
		if err := r.Put(t.Context(), labelled(2)); err != nil {
			t.Errorf("Put of a label that found no room: got %v", err)
		}
	})
}

// TestLabels: numbers are dense on a link, also where the store refuses some, and a
// message keeps its label over attempts and starts; each start has its own epoch.
func TestLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		labels := map[string]Label{}
		changed := false
		up := false
		n := &node{deliver: func(_ context.Context, d *Delivery) Outcome {
			mu.Lock()
			defer mu.Unlock()
			if old, ok := labels[d.ID]; ok && old != *d.Label {
				changed = true
			}
			labels[d.ID] = *d.Label
			if up {
				return Outcome{}
			}
			return Outcome{Verdict: Retry, Reason: "down"}
		}}
		s := NewMemory()
		lead := func(r *rig) {
			t.Helper()
			if err := r.Configure([]Route{{Name: "orders", Destination: "depot"}}, []Destination{{Name: "depot", Link: "hq", Class: 3}}); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig(t, s, n, Route{})
		early := r.put(t, "") // before the route leads to a link
		lead(r)
		first := r.put(t, "a")
		s.SetFull(true)
		for range 3 {
			if err := r.Put(t.Context(), labelled(99)); !errors.Is(err, ErrFull) {
				t.Fatalf("Put: got %v, want ErrFull", err)
			}
		}
		s.SetFull(false)
		second := r.put(t, "a")
		r.put(t, "b")
		time.Sleep(time.Minute)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		s = s.Reopen()
		next := newRig(t, s, n, Route{})
		next.n = 100
		lead(next)
		<-next.complete
		third := next.put(t, "b")
		mu.Lock()
		up = true
		mu.Unlock()
		time.Sleep(time.Hour)
		if w := next.Waiting(); w != 0 {
			t.Fatalf("%d messages wait, want none", w)
		}
		mu.Lock()
		defer mu.Unlock()
		a, b, c := labels[first], labels[second], labels[third]
		switch {
		case changed:
			t.Error("a message has changed its label between attempts")
		case labels[early].Epoch != 0 || labels[early].N == 0 || labels[early].Link != "hq":
			t.Errorf("label of a message from before: %+v", labels[early])
		case a.N != 1 || b.N != 2 || a.Stream != b.Stream || a.Link != "hq" || a.Class != 3:
			t.Errorf("labels: got %+v and %+v, want numbers 1 and 2 of a stream", a, b)
		case c.N != 1 || c.Epoch == a.Epoch:
			t.Errorf("label after a start: got %+v, want number 1 of another epoch than %x", c, a.Epoch)
		}
	})
}
