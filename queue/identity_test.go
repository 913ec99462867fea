package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// once offers a message with an identity: n makes its id, key what it repeats,
// sum its content.
func (r *rig) once(n int, key, sum string) (Kept, error) {
	m := &Message{ID: uid(n), Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte(sum)}
	m.Identity.Until = time.Now().Add(24 * time.Hour)
	copy(m.Identity.Key[:], key)
	copy(m.Identity.Sum[:], sum)
	return r.PutOnce(context.Background(), m)
}

func (r *rig) wantOnce(t *testing.T, when string, n int, key, sum string, want Kept, wantErr error) {
	t.Helper()
	got, err := r.once(n, key, sum)
	if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Errorf("%s: PutOnce of %q, %q: got %+v and %v, want %+v and %v", when, key, sum, got, err, want, wantErr)
	}
}

// TestPutOnce follows one identity through everything that can become of its
// message, each time at once, after a clean restart and after a crash.
func TestPutOnce(t *testing.T) {
	for _, when := range []string{"at once", "after a stop", "after a crash"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testPutOnce(t, when) })
		})
	}
}

func testPutOnce(t *testing.T, when string) {
	n := &node{}
	answer := refused
	n.deliver = func(_ context.Context, d *Delivery) Outcome {
		n.mu.Lock()
		defer n.mu.Unlock()
		if string(d.Body) == "deadly" {
			return bad
		}
		return answer
	}
	s := NewMemory()
	r := newRig(t, s, n, Route{})
	again := func() {
		t.Helper()
		if when == "at once" {
			return
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if when == "after a stop" {
			closeStore(t, s)
		}
		s = s.Reopen()
		r = newRig(t, s, n, Route{})
	}
	first := uid(1)
	r.wantOnce(t, "first", 1, "a", "x", Kept{ID: first}, nil)
	r.wantOnce(t, "another id", 2, "deadly", "deadly", Kept{ID: uid(2)}, nil)
	r.wantOnce(t, "waiting", 3, "a", "x", Kept{ID: first, Repeat: true}, nil)
	again()
	r.wantOnce(t, "waiting", 4, "a", "x", Kept{ID: first, Repeat: true}, nil)
	r.wantOnce(t, "other content", 5, "a", "y", Kept{}, ErrOtherContent)
	time.Sleep(time.Minute)
	again()
	dead := Kept{ID: uid(2), Repeat: true, Fate: FateDead}
	r.wantOnce(t, "dead", 6, "deadly", "deadly", dead, nil)
	r.wantOnce(t, "dead, other content", 7, "deadly", "y", Kept{}, ErrOtherContent)
	if st := r.route(t); st.IDs != 2 || st.Dead != 1 {
		t.Errorf("Stats: got %+v, want two identities and one dead letter", st)
	}
	n.mu.Lock()
	answer = Outcome{}
	n.mu.Unlock()
	time.Sleep(time.Hour)
	again()
	r.wantOnce(t, "delivered", 8, "a", "x", Kept{ID: first, Repeat: true, Fate: FateDelivered}, nil)
	if err := r.Replay(t.Context(), uid(2)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	again()
	r.wantOnce(t, "dead again", 9, "deadly", "deadly", dead, nil)
	if err := r.Drop(t.Context(), uid(2)); err != nil {
		t.Fatal(err)
	}
	again()
	r.wantOnce(t, "dropped", 10, "deadly", "deadly", Kept{ID: uid(2), Repeat: true, Fate: FateDropped}, nil)
	if err := r.Pause(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	r.wantOnce(t, "to be dropped", 11, "b", "x", Kept{ID: uid(11)}, nil)
	if err := r.Drop(t.Context(), uid(11)); err != nil {
		t.Fatal(err)
	}
	again()
	r.wantOnce(t, "dropped while it waits", 12, "b", "x", Kept{ID: uid(11), Repeat: true, Fate: FateDropped}, nil)
	if err := r.Resume(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	given := len(n.given())
	time.Sleep(25 * time.Hour)
	again()
	if st := r.route(t); st.IDs != 0 {
		t.Errorf("Stats after the window: got %d identities, want none", st.IDs)
	}
	r.wantOnce(t, "after the window", 13, "a", "x", Kept{ID: uid(13)}, nil)
	time.Sleep(time.Minute)
	if got := n.given()[given:]; len(got) != 1 || got[0].id != uid(13) {
		t.Errorf("after the window: got %v, want the new message", ids(got))
	}
}

// TestRepeatOfWhatIsCommitted: those that come while the first is being
// committed share its outcome, and none is kept beside it.
func TestRepeatOfWhatIsCommitted(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(*Memory)
		want error
	}{
		{"kept", func(*Memory) {}, nil},
		{"full", func(s *Memory) { s.SetFull(true) }, ErrFull},
		{"unknown", func(s *Memory) { s.FailNextSync(errors.New("EIO")) }, ErrUnknown},
		{"unknown, and kept after all", func(s *Memory) { s.UnknownNext(1) }, ErrUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{}
				s := NewMemory()
				r := newRig(t, s, n, Route{})
				synctest.Wait()
				s.SetDelay(time.Second)
				tt.fail(s)
				kept := make([]Kept, 50)
				errs := make([]error, 50)
				var wg sync.WaitGroup
				for i := range kept {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * 10 * time.Millisecond)
						kept[i], errs[i] = r.once(100+i, "a", "x")
					})
				}
				var other error
				wg.Go(func() {
					time.Sleep(100 * time.Millisecond)
					_, other = r.once(500, "a", "y")
				})
				wg.Wait()
				stored := s.Info().Messages + uint64(len(n.given()))
				for i := range kept {
					if !errors.Is(errs[i], tt.want) || (errs[i] == nil) != (tt.want == nil) {
						t.Fatalf("call %d: got %v, want %v", i, errs[i], tt.want)
					}
					if want := (Kept{ID: uid(100), Repeat: i > 0}); tt.want == nil && (kept[i].ID != want.ID || kept[i].Repeat != want.Repeat) {
						t.Errorf("call %d: got %+v, want %+v", i, kept[i], want)
					}
				}
				switch {
				case tt.want == nil && (stored > 1 || !errors.Is(other, ErrOtherContent)):
					t.Errorf("got %d messages and, for other content, %v; want one and %v", stored, other, ErrOtherContent)
				case tt.want != nil && !errors.Is(other, tt.want):
					t.Errorf("other content: got %v, want %v", other, tt.want)
				}
				switch tt.name {
				case "full":
					s.SetFull(false)
					r.wantOnce(t, "once there is room", 900, "a", "y", Kept{ID: uid(900)}, nil)
				case "unknown, and kept after all":
					time.Sleep(time.Second)
					r.wantOnce(t, "afterwards", 900, "a", "x", Kept{ID: uid(100), Repeat: true, Fate: FateDelivered}, nil)
				}
			})
		})
	}
}

// TestUnknownIsKnownAfterARestart: what was kept although nobody could tell is
// a repeat once the log has been read.
func TestUnknownIsKnownAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		s := NewMemory()
		r := newRig(t, s, n, Route{})
		synctest.Wait()
		s.FailNextSync(errors.New("EIO"))
		r.wantOnce(t, "the sync fails", 1, "a", "x", Kept{}, ErrUnknown)
		r.wantOnce(t, "again, on the same store", 2, "a", "x", Kept{}, ErrUnknown)
		_ = r.stop()
		r = newRig(t, s.Reopen(), n, Route{})
		time.Sleep(time.Minute)
		r.wantOnce(t, "after the restart", 3, "a", "x", Kept{ID: uid(1), Repeat: true, Fate: FateDelivered}, nil)
	})
}

// TestPutOnceWaitsForTheIndex: nobody can tell a repeat while the store is being
// read.
func TestPutOnceWaitsForTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := New(NewMemory(), &node{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{Queue: q}
		began := time.Now()
		r.wantOnce(t, "never loaded", 1, "a", "x", Kept{}, ErrFull)
		if time.Since(began) != loadPatience {
			t.Errorf("waited %v, want %v", time.Since(began), loadPatience)
		}
		var wg sync.WaitGroup
		wg.Go(func() { r.wantOnce(t, "loaded meanwhile", 2, "a", "x", Kept{ID: uid(2)}, nil) })
		time.Sleep(time.Second)
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if _, err := q.PutOnce(t.Context(), &Message{ID: "x", Route: "orders"}); err == nil {
			t.Error("PutOnce without an identity: got nil, want an error")
		}
	})
}

// TestMostIDs: ids cannot fill the memory.
func TestMostIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory(), &node{}, Route{})
		r.ids.most = 3
		for i, key := range []string{"a", "b", "c"} {
			r.wantOnce(t, "room", i, key, "x", Kept{ID: uid(i)}, nil)
		}
		time.Sleep(time.Minute)
		r.wantOnce(t, "no room", 4, "d", "x", Kept{}, ErrFull)
		r.wantOnce(t, "a repeat", 5, "a", "x", Kept{ID: uid(0), Repeat: true, Fate: FateDelivered}, nil)
		time.Sleep(24*time.Hour + 2*time.Minute) // identities go by the minute
		r.wantOnce(t, "room again", 6, "d", "x", Kept{ID: uid(6)}, nil)
	})
}

// TestIDsMemory holds the index to the promise of 1,000,000 identities in 200
// MiB, and to giving them up again.
func TestIDsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("fills an index with a million identities")
	}
	synctest.Test(t, func(t *testing.T) {
		const many = 1_000_000
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		x := newIdentities()
		for i := range many { // spread over the day
			var id Identity
			copy(id.Key[:], fmt.Sprintf("%016d", i))
			id.Until = time.Now().Add(24*time.Hour + time.Duration(i)*86400*time.Microsecond)
			x.set(&id, "01999999-0000-7000-8000-000000000000", "orders", FateDelivered)
		}
		took := heap() - before
		t.Logf("%d identities take %d MiB, %d octets each", many, took>>20, took/many)
		if took > 200<<20 || x.count("orders") != many {
			t.Errorf("%d identities take %d MiB, want %d and at most 200 MiB", x.count("orders"), took>>20, many)
		}
		time.Sleep(36 * time.Hour)
		for range many/mostExpired + 2000 {
			x.expire(mostExpired)
		}
		if n := x.count("orders"); n != len(x.known) || n < many/2-1000 || n > many/2+1000 {
			t.Errorf("after half of the time: %d identities are counted and %d known, want half", n, len(x.known))
		}
		time.Sleep(13 * time.Hour)
		for range many/mostExpired + 2000 {
			x.expire(mostExpired)
		}
		if n := x.count("orders"); n != 0 || len(x.known) != 0 || len(x.buckets) != 0 {
			t.Errorf("after all of the time: %d identities are counted, %d known in %d buckets, want none", n, len(x.known), len(x.buckets))
		}
	})
}
