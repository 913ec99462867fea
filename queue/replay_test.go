package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestReplayThatDiesAgain: a message whose backend refuses it once more, while
// its first dead letter is still being removed, is a dead letter again. It was
// lost where that removal took the second one for the first.
func TestReplayThatDiesAgain(t *testing.T) {
	for _, lane := range []string{"", "a"} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{deliver: func(context.Context, *Delivery) Outcome { return bad }}
			s := NewMemory()
			r := newRig(t, s, n, Route{})
			id := r.put(t, lane)
			synctest.Wait()
			for round := range 3 {
				s.SetDelay(10 * time.Millisecond)
				if err := r.Replay(t.Context(), id); err != nil {
					t.Fatalf("Replay: %v", err)
				}
				s.SetDelay(0)
				time.Sleep(time.Second)
				page, _, err := r.List(Filter{})
				if err != nil || len(page) != 1 || page[0].State != StateDead {
					t.Errorf("lane %q, round %d: got %+v, %v, want one dead letter", lane, round, page, err)
				}
				if _, err := s.Dead(id); err != nil {
					t.Errorf("lane %q, round %d: the store has no dead letter: %v", lane, round, err)
				}
				if got := len(n.given()); got != round+2 {
					t.Errorf("lane %q, round %d: %d attempts, want %d", lane, round, got, round+2)
				}
			}
		})
	}
}

// TestReplayIsDoneOnce: of replays at the same time one is done, nothing is
// sent before the dead letter is gone, and it is not dropped meanwhile.
func TestReplayIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := bad
		s := NewMemory()
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			if _, err := s.Dead(d.ID); err == nil {
				t.Error("it is sent while it is still a dead letter")
			}
			return answer
		}
		r := newRig(t, s, n, Route{})
		id := r.put(t, "")
		synctest.Wait()
		answer = Outcome{}
		s.SetDelay(10 * time.Millisecond)
		var wg sync.WaitGroup
		errs := make(chan error, 8)
		for range 8 {
			wg.Go(func() { errs <- r.Replay(t.Context(), id) })
		}
		synctest.Wait()
		if err := r.Drop(t.Context(), id); !errors.Is(err, ErrBusy) {
			t.Errorf("Drop while it is replayed: got %v, want ErrBusy", err)
		}
		wg.Wait()
		close(errs)
		good := 0
		for err := range errs {
			if err == nil {
				good++
			} else if !errors.Is(err, ErrBusy) {
				t.Errorf("Replay: got %v, want ErrBusy", err)
			}
		}
		time.Sleep(time.Second)
		if got := len(n.given()); good != 1 || got != 2 || r.Waiting() != 0 {
			t.Errorf("%d replays done, %d attempts, %d wait; want 1, 2, 0", good, got, r.Waiting())
		}
	})
}

// TestReplayGivenUp: a caller that leaves does not leave half a replay behind.
func TestReplayGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := bad
		n := &node{deliver: func(context.Context, *Delivery) Outcome { return answer }}
		s := NewMemory()
		r := newRig(t, s, n, Route{})
		id := r.put(t, "")
		synctest.Wait()
		answer = Outcome{}
		s.SetDelay(10 * time.Millisecond)
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer leave()
		if err := r.Replay(ctx, id); err != nil {
			t.Errorf("Replay: %v", err)
		}
		time.Sleep(time.Second)
		if page, _, _ := r.List(Filter{}); len(page) != 0 || len(n.given()) != 2 {
			t.Errorf("got %+v after %d attempts, want nothing after 2", page, len(n.given()))
		}
	})
}

// TestReplayUnknown: when the store cannot tell whether it has kept the
// message, the message is sent if it was.
func TestReplayUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := bad
		n := &node{deliver: func(context.Context, *Delivery) Outcome { return answer }}
		s := NewMemory()
		r := newRig(t, s, n, Route{})
		id := r.put(t, "")
		synctest.Wait()
		answer = Outcome{}
		s.UnknownNext(1)
		if err := r.Replay(t.Context(), id); !errors.Is(err, ErrUnknown) {
			t.Errorf("Replay: got %v, want ErrUnknown", err)
		}
		synctest.Wait()
		if r.Waiting() != 0 || len(n.given()) != 2 {
			t.Errorf("%d wait after %d attempts, want 0 after 2", r.Waiting(), len(n.given()))
		}
	})
}

// TestReplayAllKeepsLanes: many at once share the syncs, and the messages of a
// lane still go in their order.
func TestReplayAllKeepsLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		answer := bad
		n := &node{deliver: func(context.Context, *Delivery) Outcome {
			mu.Lock()
			defer mu.Unlock()
			return answer
		}}
		s := NewMemory()
		r := newRig(t, s, n, Route{})
		lane := map[string]string{}
		var want []string
		for i := range 300 {
			key := []string{"", "a", "b"}[i%3]
			id := r.put(t, key)
			lane[id] = key
			want = append(want, id)
		}
		synctest.Wait()
		mu.Lock()
		answer = Outcome{}
		mu.Unlock()
		s.SetDelay(time.Millisecond)
		if got, err := r.ReplayAll(t.Context(), Filter{Route: "orders"}); got != 300 || err != nil {
			t.Fatalf("ReplayAll: got %d, %v, want 300", got, err)
		}
		s.SetDelay(0)
		synctest.Wait()
		second := ids(n.given()[300:])
		for _, key := range []string{"a", "b"} {
			other := func(id string) bool { return lane[id] != key }
			if got := slices.DeleteFunc(slices.Clone(second), other); !slices.Equal(got, slices.DeleteFunc(slices.Clone(want), other)) {
				t.Errorf("lane %s: got %q", key, got)
			}
		}
		if slices.Sort(second); !slices.Equal(second, want) {
			t.Errorf("delivered %d messages, want %d, each once", len(second), len(want))
		}
	})
}

// TestDropAllEnds: an error ends a change of many messages and tells how far it came.
func TestDropAllEnds(t *testing.T) {
	s := NewMemory()
	q, err := New(s, &node{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := s.Bury(t.Context(), &DeadLetter{Message: &Message{ID: fmt.Sprintf("01a2-%03d", i), Route: "orders"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	on := errors.New("disk on fire")
	s.FailNextSync(on)
	n, err := q.DropAll(t.Context(), Filter{Route: "orders"})
	if n != 0 || !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrClosed) {
		t.Errorf("DropAll: got %d, %v, want the store's error", n, err)
	}
}
