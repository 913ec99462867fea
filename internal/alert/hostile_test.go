package alert

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlapping: a condition that is over for longer than the calm and comes back, again
// and again, is told a few times and then is one alarm that goes on; once it has been
// good for long it closes, and later begins anew.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := &world{}, &hook{}
		end := watch(t, w, h, "", io.Discard)
		for range 90 { // three hours
			w.set(false, dead)
			time.Sleep(time.Minute)
			w.set(false)
			time.Sleep(time.Minute)
		}
		if n := strings.Count(h.told(), "\n"); n < 3 || n > 7 {
			t.Errorf("told %d times in three hours:\n%s", n, h.told())
		}
		if !strings.HasSuffix(h.told(), "open\n") {
			t.Errorf("it comes and goes, and is told to be over:\n%s", h.told())
		}
		time.Sleep(time.Hour)
		if !strings.HasSuffix(h.told(), "closed\n") {
			t.Errorf("it has been over for an hour:\n%s", h.told())
		}
		time.Sleep(24 * time.Hour)
		before := strings.Count(h.told(), "\n")
		w.set(false, dead)
		time.Sleep(time.Minute)
		w.set(false)
		time.Sleep(time.Minute)
		end()
		if n := strings.Count(h.told(), "\n"); n != before+2 {
			t.Errorf("a day later: told %d times more, want open and closed", n-before)
		}
	})
}

// TestFlappingBounds: what is remembered of conditions that were there is bounded.
func TestFlappingBounds(t *testing.T) {
	w := New(Options{Source: (&world{}).source})
	now := time.Now()
	for i := range 3 * maxAlarms {
		w.over(&alarm{Condition: Condition{Kind: "k", Subject: strings.Repeat("x", i)}, ended: now, calm: w.opt.Calm})
	}
	if len(w.past) != maxAlarms {
		t.Errorf("%d are remembered, want %d", len(w.past), maxAlarms)
	}
	if got := w.calmOf(key{"other", ""}, now.Add(time.Hour)); got != w.opt.Calm || len(w.past) > 0 {
		t.Errorf("an hour later: calm %v, %d are remembered", got, len(w.past))
	}
}

// slowHook takes a notice and answers after a while; 0 is never.
type slowHook struct {
	hook

	after time.Duration
	begun int
}

func (h *slowHook) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.begun++
	after := h.after
	h.mu.Unlock()
	var done <-chan time.Time
	if after > 0 {
		done = time.After(after)
	}
	select {
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	case <-done:
		return h.hook.RoundTrip(r)
	}
}

// TestSlow: one that does not answer is given up after ten seconds and tried again ever
// more seldom, one at a time; one that takes its time is enough; a stop waits for none.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := &world{}, &slowHook{}
		a := New(Options{Source: w.source, Transport: h})
		a.Set("http://hook.example/", "")
		stop, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(stop, t.Context()) }()
		w.set(false, dead)
		time.Sleep(time.Hour)
		h.mu.Lock()
		if h.begun < 8 || h.begun > 30 {
			t.Errorf("%d tries in an hour", h.begun)
		}
		h.after = sendTimeout - time.Second
		h.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if got := h.told(); got != "dead-letters orders open\n" {
			t.Errorf("told %s", got)
		}
		h.mu.Lock()
		h.after = 0
		h.mu.Unlock()
		w.set(false)
		time.Sleep(35 * time.Second) // a try is under way
		began := time.Now()
		end()
		if err := <-done; err != nil || time.Since(began) > 0 {
			t.Errorf("Run: %v after %v", err, time.Since(began))
		}
	})
}

// TestMended: where the URL was wrong, the right one is told at once, and not when the
// wrong one would have been tried again.
func TestMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := &world{}, &hook{refuse: 404}
		a := New(Options{Source: w.source, Transport: h})
		a.Set("http://wrong.example/", "")
		stop, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(stop, t.Context()) }()
		w.set(false, dead)
		time.Sleep(time.Hour)
		h.set(0)
		a.Set("http://right.example/", "")
		synctest.Wait()
		if got := h.told(); got != "dead-letters orders open\n" {
			t.Errorf("told %q", got)
		}
		end()
		<-done
	})
}

// TestOffAndOn: who is told again after a while without a webhook hears of no alarm
// twice, and of the end of one that is over.
func TestOffAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "alerts.json")
		w, h := &world{}, &hook{}
		gone := Condition{Kind: "circuit-open", Subject: "erp", Text: "down"}
		w.set(false, dead, gone)
		a := New(Options{Source: w.source, Transport: h})
		a.Set("http://hook.example/", path)
		stop, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(stop, t.Context()) }()
		time.Sleep(time.Minute)
		a.Set("", path)
		time.Sleep(time.Minute)
		w.set(false, dead)
		a.Set("http://hook.example/", path)
		time.Sleep(2 * time.Minute)
		end()
		<-done
		if got, want := h.told(), "circuit-open erp open\ndead-letters orders open\ncircuit-open erp closed\n"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}
