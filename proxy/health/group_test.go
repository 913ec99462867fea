package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fail counts n failures of node i.
func fail(g *Group, i, n int) {
	for range n {
		g.Failed(i, "refused")
	}
}

// changesAfter measures how long, from now, node i stays out, or in.
func changesAfter(g *Group, i int) time.Duration {
	began, was := time.Now(), g.Up(i)
	for g.Up(i) == was && time.Since(began) < time.Hour {
		time.Sleep(time.Second)
	}
	return time.Since(began)
}

func TestEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(2, Options{})
		fail(g, 0, 4)
		g.Succeeded(0)
		fail(g, 0, 4)
		if !g.Up(0) {
			t.Fatal("ejected by failures that a success had cut in two")
		}
		fail(g, 0, 1)
		if g.Up(0) || !g.Up(1) || g.Down() {
			t.Fatal("five failures in a row: not ejected, or not alone")
		}
		fail(g, 0, 50) // of messages that were on their way
		if d := changesAfter(g, 0); d != 30*time.Second {
			t.Errorf("ejected for %v, want 30s", d)
		}
		// On trial: one failure ejects it again, for longer.
		for _, want := range []time.Duration{60, 90, 120, 150, 180, 210, 240, 270, 300, 300} {
			fail(g, 0, 1)
			if d := changesAfter(g, 0); d != want*time.Second {
				t.Errorf("ejected again for %v, want %v", d, want*time.Second)
			}
		}
		g.Succeeded(0)
		fail(g, 0, 4)
		if !g.Up(0) {
			t.Error("still on trial after a success")
		}
		// It has not held out for as long as it was out.
		fail(g, 0, 1)
		if d := changesAfter(g, 0); d != 300*time.Second {
			t.Errorf("ejected for %v, want 5m", d)
		}
		g.Succeeded(0)
		time.Sleep(301 * time.Second)
		fail(g, 0, 5)
		if d := changesAfter(g, 0); d != 30*time.Second {
			t.Errorf("ejected after a good time for %v, want 30s", d)
		}
	})
}

// TestState: who looks is told why a node is out, and until when.
func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(2, Options{})
		check := func(wantUp bool, wantWhy string, wantUntil time.Time) {
			t.Helper()
			if up, why, until := g.State(0); up != wantUp || why != wantWhy || !until.Equal(wantUntil) {
				t.Errorf("State(0): got %v, %q, %v; want %v, %q, %v", up, why, until, wantUp, wantWhy, wantUntil)
			}
		}
		check(true, "", time.Time{})
		fail(g, 0, 4)
		check(true, "", time.Time{})
		fail(g, 0, 1)
		check(false, "refused", time.Now().Add(30*time.Second))
		time.Sleep(30 * time.Second)
		check(true, "", time.Time{})
		g.checked(0, false, "no answer")
		g.checked(0, false, "no answer")
		check(false, "no answer", time.Time{})
		g.checked(0, true, "")
		check(true, "", time.Time{})
	})
}

func TestEjectLongerThanTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(1, Options{Failures: 1, Eject: 10 * time.Minute})
		for range 2 {
			fail(g, 0, 1)
			if d := changesAfter(g, 0); d != 10*time.Minute {
				t.Errorf("ejected for %v, want 10m", d)
			}
		}
	})
}

// TestWithin: only failures that lie close together count.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(1, Options{Failures: 3, Within: 10 * time.Second})
		for range 20 {
			fail(g, 0, 1)
			time.Sleep(5*time.Second + time.Millisecond) // never three within 10s
			if !g.Up(0) {
				t.Fatal("ejected by failures that lie far apart")
			}
		}
		fail(g, 0, 1)
		time.Sleep(4 * time.Second)
		fail(g, 0, 1)
		if g.Up(0) {
			t.Error("three failures within 10s: not ejected")
		}
	})
}

// TestSlowStart: the share of a node that is back grows from a tenth.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(1, Options{Failures: 1})
		if s := g.Share(0, 1000); s != 1000 {
			t.Errorf("Share of a new node: got %d, want all", s)
		}
		fail(g, 0, 1)
		time.Sleep(29 * time.Second)
		if s := g.Share(0, 1000); s != 0 {
			t.Errorf("Share of an ejected node: got %d", s)
		}
		time.Sleep(time.Second)
		var got []int64
		for range 7 {
			got = append(got, g.Share(0, 1000))
			time.Sleep(2 * time.Second)
		}
		if want := []int64{100, 280, 460, 640, 820, 1000, 1000}; !slices.Equal(got, want) {
			t.Errorf("Share in the time after the return: got %v, want %v", got, want)
		}
		g.Succeeded(0)
		if !g.nodes[0].quiet.Load() {
			t.Error("a node that is well again is still looked at under the lock")
		}
	})
}

// TestSuccessBringsBack: a message that had nowhere else to go proves it.
func TestSuccessBringsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(2, Options{})
		var told []string
		g.Watch(func(up bool, why string) { told = append(told, fmt.Sprint(up, why)) })
		fail(g, 0, 5)
		fail(g, 1, 5)
		if !g.Down() || len(told) != 1 || told[0] != "falserefused" {
			t.Fatalf("both ejected: down %v, told %q", g.Down(), told)
		}
		g.Succeeded(1)
		if g.Up(0) || !g.Up(1) || g.Down() || len(told) != 2 || told[1] != "true" {
			t.Errorf("after a success of node 1: up %v and %v, told %q", g.Up(0), g.Up(1), told)
		}
		fail(g, 1, 5)
		time.Sleep(time.Hour) // both are on trial, and nobody has proved anything
		if g.Down() || len(told) != 3 {
			t.Errorf("an hour after the ejection: down %v, told %q", g.Down(), told)
		}
		late := ""
		g.Watch(func(up bool, why string) { late = fmt.Sprint(up, why) })
		if late != "falserefused" {
			t.Errorf("a new watcher of a backend that is down was told %q", late)
		}
		g.Succeeded(0)
		if late != "true" {
			t.Errorf("after a success: told %q", late)
		}
	})
}

func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		g := NewGroup(2, Options{UnhealthyAfter: 3, HealthyAfter: 2})
		var well [2]atomic.Bool
		var asked atomic.Int64
		well[0].Store(true)
		well[1].Store(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			g.Run(ctx, Checks{Interval: 10 * time.Second, Timeout: time.Second, Check: func(ctx context.Context, i int) error {
				asked.Add(1)
				if well[i].Load() {
					return nil
				}
				if i == 1 { // hangs
					<-ctx.Done()
					return ctx.Err()
				}
				return errors.New("status 503")
			}})
		})
		synctest.Wait()
		if n := asked.Load(); n != 2 {
			t.Fatalf("%d checks at the start, want one of each node", n)
		}
		well[0].Store(false)
		if d := changesAfter(g, 0); d < 26*time.Second || d > 34*time.Second {
			t.Errorf("out after %v, want after three checks", d)
		}
		if !g.Up(1) {
			t.Error("the other node is out too")
		}
		fail(g, 0, 5) // ejected as well
		well[0].Store(true)
		if d := changesAfter(g, 0); d < 8*time.Second || d > 23*time.Second {
			t.Errorf("back after %v, want after two checks", d)
		}
		if s := g.Share(0, 1000); s < 100 || s > 300 {
			t.Errorf("Share on return: got %d, want about a tenth", s)
		}
		well[1].Store(false)
		if d := changesAfter(g, 1); d < 19*time.Second || d > 40*time.Second {
			t.Errorf("a node that hangs is out after %v, want after three checks", d)
		}
		// A success of a message says nothing against the checks.
		g.Succeeded(1)
		if g.Up(1) {
			t.Error("a message has overruled the checks")
		}
		before := asked.Load()
		stop()
		wg.Wait()
		time.Sleep(time.Minute)
		if n := asked.Load(); n != before {
			t.Errorf("%d checks after the stop", n-before)
		}
	})
}

// TestStopCutsACheck: a check that a stop has cut off does not count.
func TestStopCutsACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(1, Options{UnhealthyAfter: 1})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			g.Run(ctx, Checks{Check: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }})
		})
		synctest.Wait()
		stop()
		wg.Wait()
		if !g.Up(0) {
			t.Error("a check that was cut off has put the node out")
		}
	})
}

func TestConcurrent(t *testing.T) {
	g := NewGroup(3, Options{Failures: 2, Eject: time.Nanosecond})
	g.Watch(func(bool, string) {})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for k := range 500 {
				i := (w + k) % 3
				switch k % 4 {
				case 0:
					g.Failed(i, "x")
				case 1:
					g.Succeeded(i)
				case 2:
					g.checked(i, k%8 == 2, "y")
				}
				if s := g.Share(i, 10); s < 0 || s > 10 {
					t.Errorf("Share: got %d", s)
				}
			}
		})
	}
	wg.Wait()
}

func TestAllocs(t *testing.T) {
	g := NewGroup(1, Options{})
	if a := testing.AllocsPerRun(100, func() { g.Share(0, 1000); g.Succeeded(0); g.Up(0) }); a != 0 {
		t.Errorf("a node that is well costs %v allocations", a)
	}
}

func BenchmarkShare(b *testing.B) {
	g := NewGroup(1, Options{})
	for b.Loop() {
		g.Share(0, 1000)
		g.Succeeded(0)
	}
}
