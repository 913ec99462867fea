package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// uid is the id of the i-th message with an identity.
func uid(i int) string { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)).String() }

// identified makes the i-th message with an identity.
func identified(i int, window time.Duration) *Message {
	m := message(i)
	m.ID, m.Destination = uid(i), "depot"
	m.Identity = Identity{Until: time.Now().Add(window).Truncate(time.Second).UTC()}
	copy(m.Identity.Key[:], uid(i))
	copy(m.Identity.Sum[:], "sum"+uid(i))
	return m
}

func knownOf(m *Message, f Fate) Known {
	return Known{Identity: m.Identity, ID: m.ID, Route: m.Route, Fate: f}
}

func scanKnown(t *testing.T, s Store) map[string]Known {
	t.Helper()
	all := map[string]Known{}
	if err := s.ScanKnown(t.Context(), func(k Known) error { all[k.ID] = k; return nil }); err != nil {
		t.Fatalf("ScanKnown: %v", err)
	}
	return all
}

// contractKnown: what is known of a message outlives it, until its time is over.
func contractKnown(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	want := map[string]Known{}
	var left []uint64
	for i := range 100 {
		m := identified(i, time.Hour+time.Duration(i)*time.Minute)
		seq := put(t, s, m)
		got, err := s.Get(seq)
		if err != nil || got.Identity != m.Identity {
			t.Fatalf("Get: identity %+v and %v, want %+v", got.Identity, err, m.Identity)
		}
		if i%5 == 0 {
			left = append(left, seq)
			continue
		}
		k := knownOf(m, FateDelivered)
		if i%7 == 0 {
			k.Fate = FateDropped
		}
		if err := s.RemoveKnown(seq, k); err != nil {
			t.Fatalf("RemoveKnown: %v", err)
		}
		if err := s.RemoveKnown(seq, k); err != nil { // twice does no harm
			t.Fatalf("RemoveKnown: %v", err)
		}
		want[m.ID] = k
	}
	kept := []Known{knownOf(identified(200, 2*time.Hour), FateDropped), knownOf(identified(201, 26*time.Hour), FateDelivered)}
	kept[1].Route = "of a route with a space\n"
	if err := s.KeepKnown(t.Context(), kept...); err != nil {
		t.Fatalf("KeepKnown: %v", err)
	}
	for _, k := range kept {
		want[k.ID] = k
	}
	if err := s.KeepKnown(t.Context(), knownOf(identified(202, -5*time.Hour), FateDelivered)); err != nil {
		t.Fatalf("KeepKnown of what is over: %v", err)
	}
	if err := s.RemoveKnown(left[0], Known{ID: "no UUID"}); err == nil {
		t.Error("RemoveKnown with an id that is no UUID: got nil, want an error")
	}
	check := func(when string) {
		t.Helper()
		if got := scanSeqs(t, s); !slices.Equal(got, left) {
			t.Errorf("%s: Scan: %v, want %v", when, got, left)
		}
		if got := s.Info().Messages; got != uint64(len(left)) {
			t.Errorf("%s: Info().Messages = %d, want %d", when, got, len(left))
		}
	}
	check("at once")
	for _, when := range []string{"after Close", "after another"} {
		s = mk.reopen(t, s, true)
		got := scanKnown(t, s)
		delete(got, uid(202)) // it may be there
		if !maps.EqualFunc(got, want, func(a, b Known) bool {
			return a.Key == b.Key && a.Sum == b.Sum && a.ID == b.ID && a.Route == b.Route && a.Fate == b.Fate && a.Until.Equal(b.Until)
		}) {
			t.Errorf("%s: ScanKnown: got %v, want %v", when, got, want)
		}
		check(when)
	}
	heads := map[string]Identity{}
	if err := s.Scan(t.Context(), func(_ uint64, m *Message, _ int64) error { heads[m.ID] = m.Identity; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if id, there := heads[uid(i)]; there && (id.Key != identified(i, 0).Identity.Key || id.IsZero()) {
			t.Errorf("Scan: message %d has the identity %+v", i, id)
		}
	}
	dead := deadLetter(3)
	dead.Message = identified(300, time.Hour)
	dead.Stops = true
	if err := s.Bury(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	s = mk.reopen(t, s, true)
	if err := s.ScanDead(t.Context(), func(d *DeadLetter, _ int64) error {
		if d.Identity != dead.Identity || !d.Stops {
			t.Errorf("ScanDead: got identity %+v and stops %t, want %+v and true", d.Identity, d.Stops, dead.Identity)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
}

// contractKnownCrash: whenever the process ends, a message that was accepted is
// in the log or known.
func contractKnownCrash(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	var mu sync.Mutex
	accepted := map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; ctx.Err() == nil; i += 4 {
				m := identified(i, time.Hour)
				seq, err := s.Put(context.WithoutCancel(ctx), m)
				if err != nil {
					return // the store in memory ends with its first reopening
				}
				mu.Lock()
				accepted[m.ID] = true
				mu.Unlock()
				if err := s.RemoveKnown(seq, knownOf(m, FateDelivered)); err != nil {
					return
				}
			}
		})
	}
	for range 5 {
		<-time.After(150 * time.Millisecond)
		mu.Lock()
		want := maps.Clone(accepted)
		mu.Unlock()
		c := mk.reopen(t, s, false)
		known := scanKnown(t, c)
		if err := c.Scan(t.Context(), func(_ uint64, m *Message, _ int64) error { known[m.ID] = Known{}; return nil }); err != nil {
			t.Fatal(err)
		}
		for id := range want {
			if _, ok := known[id]; !ok {
				t.Fatalf("message %s of %d is neither in the log nor known", id, len(want))
			}
		}
		closeStore(t, c)
	}
	cancel()
	wg.Wait()
}

// TestOlderStore: a store that was made before there were identities takes them.
func TestOlderStore(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openStore(t, o)
	i, err := s.js.info(streamState)
	if err != nil {
		t.Fatal(err)
	}
	i.Config.Subjects = slices.DeleteFunc(i.Config.Subjects, func(s string) bool { return s == subjectKnown+"*" })
	if err := s.js.call("STREAM.UPDATE."+streamState, i.Config, nil); err != nil {
		t.Fatal(err)
	}
	seq := put(t, s, identified(1, time.Hour))
	closeStore(t, s)
	s = openStore(t, o)
	if err := s.RemoveKnown(seq, knownOf(identified(1, time.Hour), FateDelivered)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openStore(t, o)
	if known := scanKnown(t, s); len(known) != 1 {
		t.Errorf("ScanKnown: got %v, want one", known)
	}
	closeStore(t, s)
}

// TestKnownIsForgotten: records of which all is over leave the disk, others stay.
func TestKnownIsForgotten(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	for i, window := range []time.Duration{-3 * time.Hour, -2 * time.Hour, time.Hour} {
		if err := s.KeepKnown(t.Context(), knownOf(identified(i, window), FateDelivered)); err != nil {
			t.Fatal(err)
		}
	}
	s.trim.mu.Lock()
	s.trim.debts.forgotAt = time.Time{}
	s.trim.mu.Unlock()
	s.trim.poke()
	waitFor(t, "the records that are over", func() bool {
		n := 0
		err := s.js.values(t.Context(), subjectKnown+"*", func(scanned) error { n++; return nil })
		return err == nil && n == 1
	})
	if known := scanKnown(t, s); len(known) != 1 || known[uid(2)].ID == "" {
		t.Errorf("ScanKnown: got %v, want the one that is not over", known)
	}
}
