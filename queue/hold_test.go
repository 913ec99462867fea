package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

var denied = Outcome{Verdict: Retry, Denied: true, Status: 401, Reason: "status 401: credentials refused"}

// TestHoldByOperator: nothing is sent to a held destination, from any of its
// routes, over a restart, until it is released; a pause is another thing.
func TestHoldByOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := NewMemory(), &node{}
		routes := []Route{{Name: "orders", Destination: "depot"}, {Name: "returns", Destination: "depot"}}
		r := newRig(t, s, n, Route{})
		if err := r.Configure(routes, []Destination{{Name: "depot"}}); err != nil {
			t.Fatal(err)
		}
		if err := r.Hold(t.Context(), "returns"); err != nil {
			t.Fatalf("Hold: %v", err)
		}
		for range 10 {
			r.put(t, "")
		}
		if err := r.Pause(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		if err := r.Resume(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		if err := r.Flush(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		r.Tell("depot", false, "down")
		r.Tell("depot", true, "")
		time.Sleep(3 * time.Hour)
		if got := r.Stats()[0]; len(n.given()) != 0 || got.Held != HeldByOperator || got.Paused || !got.NextProbe.IsZero() {
			t.Errorf("held: %d attempts, %+v", len(n.given()), got)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		s = s.Reopen()
		r = newRig(t, s, n, Route{})
		r.n = 10
		r.put(t, "")
		time.Sleep(time.Hour)
		if got := len(n.given()); got != 0 {
			t.Errorf("after a restart: %d attempts, want none", got)
		}
		if err := r.Release(t.Context(), "orders"); err != nil {
			t.Fatalf("Release: %v", err)
		}
		synctest.Wait()
		if got := r.Stats()[0]; len(n.given()) != 11 || got.Held != "" {
			t.Errorf("released: %d attempts, want 11 at once; %+v", len(n.given()), got)
		}
		for _, f := range []func(context.Context, string) error{r.Hold, r.Release} {
			if err := f(t.Context(), "nobody"); !errors.Is(err, ErrNoRoute) {
				t.Errorf("of a route that is not there: got %v, want %v", err, ErrNoRoute)
			}
		}
	})
}

// TestHoldKeepsExpiry: a hold is no reason to keep a message for ever.
func TestHoldKeepsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		r := newRig(t, NewMemory(), n, Route{Retry: retry.Policy{Expire: time.Hour}})
		if err := r.Hold(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		id := r.put(t, "")
		time.Sleep(time.Hour + 5*time.Second)
		if d, err := r.Get(id); err != nil || d.Reason != ReasonExpired || len(n.given()) != 0 {
			t.Errorf("Get: got %+v, %v", d, err)
		}
	})
}

// TestDeniedHolds: refused credentials of the gateway cost no message an attempt,
// are asked about with one message on a slow clock, and hold nobody once they work.
func TestDeniedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCrowd(time.Millisecond)
		n.set(func(int) Outcome { return denied }, nil)
		r := newRig(t, NewMemory(), &n.node, Route{Retry: retry.Policy{Attempts: 3}})
		const messages = 200
		for range messages {
			r.put(t, "")
		}
		time.Sleep(time.Second)
		if got := len(n.given()); got > firstPace+1 {
			t.Errorf("%d attempts until it was clear, want at most %d", got, firstPace+1)
		}
		before := len(n.given())
		r.Tell("depot", true, "") // that it answers is not the question
		time.Sleep(10*time.Hour - time.Second)
		if got := len(n.given()) - before; got < 10*5 || got > 10*7+6 {
			t.Errorf("%d attempts in ten hours, want one in ten minutes", got)
		}
		if s := r.Stats()[0]; s.Held != HeldByCredentials || s.Down || s.Pending != messages || s.Retrying+s.Dead != 0 || s.NextProbe.IsZero() {
			t.Errorf("held: got %+v, want all %d pending", s, messages)
		}
		for _, g := range n.given() {
			if g.attempt != 1 || g.dup {
				t.Fatalf("attempt: got %+v, want number 1 and no mark", g)
			}
		}
		n.set(nil, nil)
		time.Sleep(11 * time.Minute)
		if s := r.Stats()[0]; s.Held != "" || r.Waiting() != 0 || s.Dead != 0 {
			t.Errorf("after they work again: %d wait, %+v", r.Waiting(), s)
		}
	})
}

// TestDeniedRenewed: new settings of a destination that has refused the gateway's
// credentials are tried at once, and so is one that an operator releases.
func TestDeniedRenewed(t *testing.T) {
	for name, again := range map[string]func(*Queue) error{
		"renewed":  func(q *Queue) error { q.Renewed("depot"); q.Renewed("nobody"); return nil },
		"released": func(q *Queue) error { return q.Release(context.Background(), "orders") },
		"flushed":  func(q *Queue) error { return q.Flush(context.Background(), "orders") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newCrowd(time.Millisecond)
				n.set(func(int) Outcome { return denied }, nil)
				r := newRig(t, NewMemory(), &n.node, Route{})
				for range 10 {
					r.put(t, "")
				}
				time.Sleep(time.Hour)
				n.set(nil, nil)
				if err := again(r.Queue); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if got := r.Waiting(); got != 0 {
					t.Errorf("%d messages wait, want none", got)
				}
			})
		})
	}
}

// TestDeniedForOneMessage: where others are taken with the same credentials it is
// the message that is refused: it dies, and the others lose a moment at most.
func TestDeniedForOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			time.Sleep(10 * time.Millisecond)
			if strings.HasSuffix(d.ID, "3") {
				return denied
			}
			return Outcome{}
		}
		r := newRig(t, NewMemory(), n, Route{})
		for range 100 {
			r.put(t, "")
		}
		time.Sleep(2 * time.Second)
		if got := r.Waiting(); got > 3 {
			t.Errorf("%d messages wait after two seconds, want those at most that were refused last", got)
		}
		r.put(t, "") // where the last one that is refused had no other behind it
		time.Sleep(2 * time.Minute)
		if s := r.Stats()[0]; s.Dead != 10 || r.Waiting() != 0 || s.Held != "" {
			t.Errorf("got %d dead and %d waiting, %+v; want the ten that are refused dead", s.Dead, r.Waiting(), s)
		}
		page, _, err := r.List(Filter{State: StateDead})
		if err != nil || len(page) == 0 || page[0].Reason != ReasonPermanent || !strings.Contains(page[0].Text, "others are taken") {
			t.Errorf("List: got %+v, %v", page, err)
		}
	})
}

// TestDeniedAlone: one message that is refused, and is alone, keeps none that comes
// later waiting.
func TestDeniedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.deliver = func(_ context.Context, d *Delivery) Outcome {
			if d.Lane == "bad" {
				return denied
			}
			return Outcome{}
		}
		r := newRig(t, NewMemory(), n, Route{})
		bad := r.put(t, "bad")
		time.Sleep(time.Hour)
		r.put(t, "good")
		time.Sleep(time.Second)
		if _, err := r.Get(bad); r.Waiting() != 0 || err != nil {
			t.Errorf("%d wait, want the second delivered at once and the first dead: %v", r.Waiting(), err)
		}
	})
}

// TestDeniedThenDown: a destination that refuses one message and then goes down is
// probed on its clock, though others wait that could tell more.
func TestDeniedThenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCrowd(time.Second)
		n.set(func(int) Outcome { return denied }, nil)
		r := newRig(t, NewMemory(), &n.node, Route{})
		r.put(t, "")
		time.Sleep(500 * time.Millisecond)
		n.set(func(int) Outcome { return refused }, errors.New("refused"))
		time.Sleep(time.Second)
		for range 10 {
			r.put(t, "")
		}
		time.Sleep(time.Hour)
		n.mu.Lock()
		probes := len(n.probes)
		n.mu.Unlock()
		if probes < 60 || probes > 200 {
			t.Errorf("%d probes in an hour, want one in 30s or so", probes)
		}
		n.set(nil, nil)
		time.Sleep(time.Minute)
		if got := r.Waiting(); got != 0 {
			t.Errorf("%d messages wait after its return", got)
		}
	})
}

// TestDeniedAtMostOnce: an answer is known, so a message that is delivered at most
// once waits as well.
func TestDeniedAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := NewMemory(), newCrowd(time.Millisecond)
		n.set(func(int) Outcome { return denied }, nil)
		r := newRig(t, s, &n.node, Route{AtMostOnce: true})
		r.put(t, "")
		time.Sleep(time.Minute / 2)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		n.set(nil, nil)
		r = newRig(t, s.Reopen(), &n.node, Route{AtMostOnce: true}) // as after a crash
		time.Sleep(15 * time.Minute)
		if st := r.Stats()[0]; st.Dead != 0 || r.Waiting() != 0 || len(n.given()) != 2 {
			t.Errorf("%d attempts, %d wait, %+v; want it delivered", len(n.given()), r.Waiting(), st)
		}
	})
}
