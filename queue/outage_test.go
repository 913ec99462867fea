package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// drain lets a queue of its own deliver messages to a destination that was never
// down, and returns how long that took.
func drain(t *testing.T, messages int, trip time.Duration) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		n := newCrowd(trip)
		s := NewMemory()
		fill(t, s, messages, "orders", "depot")
		began := time.Now()
		r := newRig(t, s.Reopen(), &n.node, Route{})
		<-r.complete
		for r.Waiting() > 0 {
			time.Sleep(trip)
		}
		took = time.Since(began)
	})
	return took
}

// fill puts messages into a store of which nobody delivers.
func fill(t *testing.T, s Store, messages int, route, destination string) {
	t.Helper()
	for i := range messages {
		_, err := s.Put(t.Context(), &Message{
			ID: fmt.Sprintf("%s-%06d", route, i), Route: route, Destination: destination, Operation: "Place",
			Accepted: time.Now(), Body: []byte("body"),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDayLongOutage: a backend is down for a day while 100,000 messages come; they
// begin to arrive within 35 s of its return and have arrived within three times
// what they would have needed had it never been down, without a hand, none twice,
// while those for another backend do not wait at all.
func TestDayLongOutage(t *testing.T) {
	const (
		messages = 100_000
		day      = 24 * time.Hour
		trip     = 20 * time.Millisecond
	)
	direct := drain(t, messages, trip)
	synctest.Test(t, func(t *testing.T) {
		n := newCrowd(trip)
		n.set(func(int) Outcome { return refused }, errors.New("refused"))
		slowest := time.Duration(0)
		depot := n.deliver
		n.deliver = func(ctx context.Context, d *Delivery) Outcome {
			if d.Route != "other" {
				return depot(ctx, d)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			slowest = max(slowest, time.Since(d.Accepted))
			return Outcome{}
		}
		r := newRig(t, NewMemory(), &n.node, Route{})
		routes := []Route{{Name: "orders", Destination: "depot"}, {Name: "other", Destination: "healthy"}}
		if err := r.Configure(routes, []Destination{{Name: "depot"}, {Name: "healthy"}}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range messages {
			time.Sleep(time.Until(began.Add(day * time.Duration(i) / messages)))
			r.put(t, "")
			if i%100 == 0 {
				m := &Message{ID: fmt.Sprintf("other-%06d", i), Route: "other", Destination: "healthy", Accepted: time.Now()}
				if err := r.Put(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Until(began.Add(day + 7*time.Second)))
		charged := map[string]bool{}
		for _, g := range n.given() {
			if charged[g.id] && g.attempt < 2 {
				t.Fatalf("%s was tried twice as attempt %d", g.id, g.attempt)
			}
			charged[g.id] = true
		}
		tries := len(n.given()) - messages/100
		if tries > 100 {
			t.Errorf("%d attempts while it was down, want a set of them at most", tries)
		}
		if slowest > 0 {
			t.Errorf("a message for the other backend waited %v", slowest)
		}

		n.set(nil, nil)
		before, back := len(n.given()), time.Now()
		for r.Waiting() > 0 && time.Since(back) < time.Hour {
			time.Sleep(trip)
		}
		g := n.given()[before:]
		if len(g) != messages {
			t.Fatalf("%d were delivered after its return, want each of %d once", len(g), messages)
		}
		first, took := g[0].at.Sub(back), time.Since(g[0].at)
		t.Logf("first delivery %v after the return, all delivered within %v; a direct send takes %v", first, took, direct)
		if first > 35*time.Second {
			t.Errorf("first delivery %v after its return, want at most 35s", first)
		}
		if took > 3*direct {
			t.Errorf("all were delivered within %v, want at most three times %v", took, direct)
		}
	})
}

// TestFlappingOrder: whatever a backend does that comes and goes, messages of 100
// keys arrive in the order of their acceptance.
func TestFlappingOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, each = 100, 50
		rnd := rand.New(rand.NewPCG(5, 21))
		n := newCrowd(30 * time.Millisecond)
		arrived := map[string][]string{}
		up := true
		crowd := n.deliver
		n.deliver = func(ctx context.Context, d *Delivery) Outcome {
			o := crowd(ctx, d)
			n.mu.Lock()
			defer n.mu.Unlock()
			switch {
			case o.Verdict == Aborted:
			case !up:
				o = refused
			case !slices.Contains(arrived[d.Lane], d.ID):
				arrived[d.Lane] = append(arrived[d.Lane], d.ID)
			}
			return o
		}
		n.probe = func() error { // called with the lock held
			if !up {
				return errors.New("refused")
			}
			return nil
		}
		flap := func(now bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			up = now
		}
		r := newRig(t, NewMemory(), &n.node, Route{})
		put := map[string][]string{}
		for range each {
			for k := range keys {
				key := fmt.Sprintf("key-%02d", k)
				put[key] = append(put[key], r.put(t, key))
			}
			flap(rnd.IntN(3) > 0)
			time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Millisecond)
		}
		flap(true)
		time.Sleep(15 * time.Minute)
		if got := r.Waiting(); got != 0 {
			t.Errorf("%d messages wait", got)
		}
		for key, want := range put {
			if !slices.Equal(arrived[key], want) {
				t.Errorf("%s: arrived %v, want %v", key, arrived[key], want)
			}
		}
	})
}
