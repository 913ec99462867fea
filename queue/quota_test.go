package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestQuota: a route takes no more than may wait, however many ask at once, and
// takes on as soon as something has left. Dead letters and replays do not count.
func TestQuota(t *testing.T) {
	for _, r := range []Route{{MaxMessages: 10}, {MaxBytes: 10 * 20}} {
		t.Run(fmt.Sprintf("%d messages, %d octets", r.MaxMessages, r.MaxBytes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testQuota(t, r) })
		})
	}
}

func testQuota(t *testing.T, route Route) {
	n := &node{}
	answer := refused
	n.deliver = func(context.Context, *Delivery) Outcome {
		n.mu.Lock()
		defer n.mu.Unlock()
		return answer
	}
	s := NewMemory()
	r := newRig(t, s, n, route)
	offer := func(i int) error {
		return r.Put(context.Background(), &Message{
			ID: fmt.Sprintf("id-%04d", i), Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte("twenty octets, fully"),
		})
	}
	s.SetDelay(time.Millisecond)
	var took atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			switch err := offer(i); {
			case err == nil:
				took.Add(1)
			case !errors.Is(err, ErrFull):
				t.Errorf("Put: got %v, want %v", err, ErrFull)
			}
		})
	}
	wg.Wait()
	if took.Load() != 10 || r.Waiting() != 10 {
		t.Fatalf("got %d accepted and %d waiting, want 10", took.Load(), r.Waiting())
	}
	_ = r.stop()
	s = s.Reopen()
	r = newRig(t, s, n, route)
	time.Sleep(time.Minute)
	if err := offer(100); !errors.Is(err, ErrFull) {
		t.Errorf("Put after a restart: got %v, want %v", err, ErrFull)
	}
	n.mu.Lock()
	answer = bad
	n.mu.Unlock()
	time.Sleep(time.Hour)
	if st := r.route(t); st.Dead != 10 {
		t.Fatalf("Stats: got %+v, want ten dead letters", st)
	}
	n.mu.Lock()
	answer = refused
	n.mu.Unlock()
	for i := range 10 {
		if err := offer(200 + i); err != nil {
			t.Fatalf("Put beside dead letters: got %v, want nil", err)
		}
	}
	if err := offer(300); !errors.Is(err, ErrFull) {
		t.Errorf("Put: got %v, want %v", err, ErrFull)
	}
	if replayed, err := r.ReplayAll(t.Context(), Filter{Route: "orders"}); replayed != 10 || err != nil {
		t.Errorf("ReplayAll over the quota: got %d and %v, want all ten", replayed, err)
	}
	n.mu.Lock()
	answer = Outcome{}
	n.mu.Unlock()
	time.Sleep(time.Hour)
	if err := offer(400); err != nil {
		t.Errorf("Put once all is delivered: got %v, want nil", err)
	}
}
