package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a destination that counts how many attempts are under way at once.
type crowd struct {
	node
	takes  time.Duration // each attempt that is no retry
	flying int
	most   int
	answer func(flying int) Outcome // called with the lock held
}

func newCrowd(takes time.Duration) *crowd {
	c := &crowd{takes: takes}
	c.deliver = func(ctx context.Context, _ *Delivery) Outcome {
		c.mu.Lock()
		c.flying++
		c.most = max(c.most, c.flying)
		o := Outcome{}
		if c.answer != nil {
			o = c.answer(c.flying)
		}
		c.mu.Unlock()
		takes := c.takes
		if o.Verdict == Retry {
			takes = time.Millisecond
		}
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			o = Outcome{Verdict: Aborted}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flying--
		return o
	}
	return c
}

// peak returns the most attempts at once since the last call.
func (c *crowd) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.most
	c.most = c.flying
	return n
}

func (c *crowd) set(answer func(flying int) Outcome, probe error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
	c.probe = func() error { return probe }
}

// TestSlowStart: a destination that is back gets one message, then some, and all
// that it may have within a few round trips.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		n := newCrowd(trip)
		n.set(func(int) Outcome { return refused }, errors.New("refused"))
		r := newRig(t, NewMemory(), &n.node, Route{})
		for range 2000 {
			r.put(t, "")
		}
		time.Sleep(10 * time.Minute)
		n.peak()
		n.set(nil, nil)
		r.Tell("depot", true, "") // so that it begins now
		time.Sleep(trip / 2)
		want := 1
		for trips := range 5 {
			if got := n.peak(); got != want {
				t.Errorf("after %d round trips: %d attempts at once, want %d", trips, got, want)
			}
			time.Sleep(trip)
			want = []int{8, 16, 32, 64, 64}[trips]
			n.peak() // of the moment at which one set follows another
		}
		time.Sleep(10 * time.Second)
		if got := r.Waiting(); got != 0 {
			t.Errorf("%d messages wait, want none", got)
		}
	})
}

// TestPaceKeepsToParallel: whatever succeeds, no more than Parallel at once.
func TestPaceKeepsToParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCrowd(time.Millisecond)
		r := newRig(t, NewMemory(), &n.node, Route{})
		if err := r.Configure([]Route{{Name: "orders", Destination: "depot"}}, []Destination{{Name: "depot", Parallel: 3}}); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			r.put(t, "")
		}
		time.Sleep(time.Minute)
		if got := n.peak(); got != 3 {
			t.Errorf("%d attempts at once, want 3", got)
		}
		if got := r.Waiting(); got != 0 {
			t.Errorf("%d messages wait, want none", got)
		}
	})
}

// TestPaceSettles: a destination that can bear ten at once, and says so, is asked
// for little more than that.
func TestPaceSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCrowd(100 * time.Millisecond)
		given, turnedAway := 0, 0
		n.set(func(flying int) Outcome {
			given++
			if flying > 10 {
				turnedAway++
				return Outcome{Verdict: Retry, Status: 503, Reason: "overloaded"}
			}
			return Outcome{}
		}, nil)
		r := newRig(t, NewMemory(), &n.node, Route{})
		const messages = 5000
		for range messages {
			r.put(t, "")
		}
		time.Sleep(20 * time.Second)
		n.mu.Lock()
		given, turnedAway = 0, 0
		n.mu.Unlock()
		n.peak()
		time.Sleep(20 * time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.most > 20 || turnedAway*3 > given {
			t.Errorf("at most %d at once and %d of %d turned away, want little more than 10", n.most, turnedAway, given)
		}
		if taken := given - turnedAway; taken < 1700 { // it depends on who is given first
			t.Errorf("%d were taken in 20 s, want nearly the 2000 that it can bear", taken)
		}
	})
}

// TestDestinationAsksForPatience: a 429 or 503 with Retry-After is about the
// destination: no other message is tried before its time.
func TestDestinationAsksForPatience(t *testing.T) {
	for name, o := range map[string]Outcome{
		"429":             {Verdict: Retry, Status: 429, RetryAfter: 90 * time.Second},
		"fault with 503":  {Verdict: Retry, Status: 503, RetryAfter: 90 * time.Second},
		"503 in a row":    {Verdict: Retry, Status: 503, RetryAfter: 10 * time.Minute, Unhealthy: true},
		"asks for a year": {Verdict: Retry, Status: 429, RetryAfter: 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newCrowd(time.Millisecond)
				n.set(func(int) Outcome { return o }, nil)
				r := newRig(t, NewMemory(), &n.node, Route{})
				for range 100 {
					r.put(t, "")
				}
				time.Sleep(time.Second)
				before := len(n.given())
				if before > firstPace+1 {
					t.Errorf("%d attempts before it could be heard, want at most %d", before, firstPace+1)
				}
				wish := min(o.RetryAfter, time.Hour)
				time.Sleep(wish - 2*time.Second)
				if got := len(n.given()) - before; got != 0 {
					t.Errorf("%d attempts before the time it asked for", got)
				}
				n.set(nil, nil)
				// The messages that were tried have their own wait, which is as long.
				time.Sleep(wish/10 + 35*time.Second)
				if got := r.Waiting(); got != 0 {
					t.Errorf("%d messages wait after that time, want none", got)
				}
			})
		})
	}
}
