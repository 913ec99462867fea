package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

// wallClock is one that can be set.
type wallClock struct{ off atomic.Int64 }

func (w *wallClock) now() time.Time      { return time.Now().Add(time.Duration(w.off.Load())) }
func (w *wallClock) set(d time.Duration) { w.off.Add(int64(d)) }

// alarms counts what an observer hears of the clock.
type clockAlarms struct {
	nobody
	heard []time.Duration
}

func (a *clockAlarms) ClockSet(by time.Duration) { a.heard = append(a.heard, by) }

// clockRig is a rig with a wall clock of its own.
func clockRig(t *testing.T, s Store, n *node, w *wallClock, r Route) (*rig, *clockAlarms) {
	t.Helper()
	heard := &clockAlarms{}
	return newRigWith(t, s, n, r, Options{Wall: w.now, Observer: heard}), heard
}

func down() *node {
	return &node{
		deliver: func(context.Context, *Delivery) Outcome { return refused },
		probe:   func() error { return errors.New("refused") },
	}
}

// TestClockForward: when the wall clock jumps ahead nothing expires for ten
// minutes, and what expires then does so by the time that has passed.
func TestClockForward(t *testing.T) {
	for name, c := range map[string]struct{ at, by, dies time.Duration }{
		"long before":        {20 * time.Minute, 48 * time.Hour, time.Hour},
		"just before":        {55 * time.Minute, 48 * time.Hour, 65 * time.Minute},
		"less than an hour":  {55 * time.Minute, 59 * time.Minute, time.Hour},
		"back":               {30 * time.Minute, -48 * time.Hour, time.Hour},
		"back by a bit":      {59 * time.Minute, -10 * time.Minute, time.Hour},
		"ahead by ten years": {59 * time.Minute, 87600 * time.Hour, 69 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wallClock{}
				r, heard := clockRig(t, NewMemory(), down(), w, Route{Retry: retry.Policy{Expire: time.Hour}})
				for range 10 {
					r.put(t, "")
				}
				time.Sleep(c.at)
				w.set(c.by)
				time.Sleep(c.dies - c.at - 2*time.Second)
				if s := r.Stats()[0]; s.Dead != 0 {
					t.Errorf("%d dead before %v", s.Dead, c.dies)
				}
				time.Sleep(5 * time.Second)
				if s := r.Stats()[0]; s.Dead != 10 {
					t.Errorf("%d dead after %v, want all 10", s.Dead, c.dies)
				}
				alarm := 0
				if c.by.Abs() > time.Hour {
					alarm = 1
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if len(heard.heard) != alarm || alarm == 1 && (heard.heard[0]-c.by).Abs() > time.Second {
					t.Errorf("alarms: got %v, want %d of %v", heard.heard, alarm, c.by)
				}
			})
		})
	}
}

// TestClockMovesNoWait: attempts come when they would have come, whatever the wall
// clock does, and listings show its time.
func TestClockMovesNoWait(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": 30 * 24 * time.Hour, "back": -30 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wallClock{}
				n := &node{deliver: func(context.Context, *Delivery) Outcome { return fault }}
				r, _ := clockRig(t, NewMemory(), n, w, Route{Retry: retry.Policy{Jitter: -1, Attempts: 6}})
				id := r.put(t, "")
				time.Sleep(2 * time.Second)
				w.set(by)
				time.Sleep(2 * time.Second)
				d, err := r.Get(id)
				if err != nil {
					t.Fatal(err)
				}
				if wait := d.NextAttempt.Sub(w.now()); wait < 0 || wait > 4*time.Second {
					t.Errorf("the next attempt is shown in %v, want within 4s", wait)
				}
				time.Sleep(time.Minute)
				var gaps []time.Duration
				g := n.given()
				for i := 1; i < len(g); i++ {
					gaps = append(gaps, g[i].at.Sub(g[i-1].at))
				}
				if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}; !slices.Equal(gaps, want) {
					t.Errorf("waits: got %v, want %v", gaps, want)
				}
			})
		})
	}
}

// TestClockWhileStopped: the wall clock was set while no gateway was running.
func TestClockWhileStopped(t *testing.T) {
	for name, c := range map[string]struct {
		by   time.Duration
		kill bool
		dies time.Duration // after the start; the messages are 30 minutes old, of 2 hours
	}{
		"not at all":       {0, false, 90 * time.Minute},
		"ahead":            {48 * time.Hour, false, 10 * time.Minute},
		"ahead, killed":    {48 * time.Hour, true, 10 * time.Minute},
		"a little ahead":   {50 * time.Minute, false, 40 * time.Minute},
		"behind":           {-48 * time.Hour, false, 2 * time.Hour},
		"behind, killed":   {-48 * time.Hour, true, 2 * time.Hour},
		"a little behind":  {-20 * time.Minute, false, 110 * time.Minute},
		"killed, no step":  {0, true, 90 * time.Minute},
		"behind by a year": {-8760 * time.Hour, false, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w, n := NewMemory(), &wallClock{}, down()
				policy := Route{Retry: retry.Policy{Expire: 2 * time.Hour, Jitter: -1}}
				r, _ := clockRig(t, s, n, w, policy)
				for range 10 {
					r.put(t, "")
				}
				time.Sleep(30 * time.Minute)
				if c.kill {
					s = s.Reopen()
				}
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if !c.kill {
					closeStore(t, s)
					s = s.Reopen()
				}
				w.set(c.by)
				began := len(n.given())
				r, heard := clockRig(t, s, n, w, policy)
				time.Sleep(9 * time.Minute)
				if s := r.Stats()[0]; s.Dead != 0 {
					t.Errorf("%d dead within ten minutes", s.Dead)
				}
				if got := len(n.given()) - began; got == 0 {
					t.Error("nothing was tried within ten minutes: a wait has become longer")
				}
				time.Sleep(c.dies - 9*time.Minute - 3*time.Second)
				if s := r.Stats()[0]; s.Dead != 0 {
					t.Errorf("%d dead before %v", s.Dead, c.dies)
				}
				time.Sleep(6 * time.Second)
				if s := r.Stats()[0]; s.Dead != 10 {
					t.Errorf("%d dead after %v, want all 10", s.Dead, c.dies)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if (len(heard.heard) > 0) != (c.by.Abs() > time.Hour) {
					t.Errorf("alarms: got %v after a step by %v", heard.heard, c.by)
				}
			})
		})
	}
}

// TestClockCalmSurvivesRestart: a restart within the ten minutes ends them no sooner.
func TestClockCalmSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, n := NewMemory(), &wallClock{}, down()
		policy := Route{Retry: retry.Policy{Expire: time.Hour}}
		r, _ := clockRig(t, s, n, w, policy)
		for range 10 {
			r.put(t, "")
		}
		time.Sleep(30 * time.Minute)
		w.set(240 * time.Hour)
		time.Sleep(2 * time.Minute)
		s = s.Reopen()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r, _ = clockRig(t, s, n, w, policy)
		time.Sleep(7 * time.Minute)
		if s := r.Stats()[0]; s.Dead != 0 {
			t.Errorf("%d dead within ten minutes of the step", s.Dead)
		}
	})
}
