package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// server is a pretended server that serves so many a second, at one request a
// second and thread.
func server(capacity int) func(context.Context, int, time.Duration) (Probe, error) {
	return func(_ context.Context, n int, window time.Duration) (Probe, error) {
		due := int64(float64(n) * window.Seconds())
		p := Probe{Threads: n, Window: window.Seconds(), Scheduled: due, Sent: due, P50: 300, P99: 900, First: 300, Last: 300}
		if n > capacity {
			// What is over waits: half of what gathers in the window at its middle.
			late := float64(n-capacity) / float64(capacity) * window.Seconds() * 1e6
			p.First, p.Last, p.P99 = 300+late/6, 300+late*5/6, 900+late
		}
		return p, nil
	}
}

func TestSearch(t *testing.T) {
	for _, capacity := range []int{64, 65, 100, 500, 777, 5120, 20_000} {
		s := &search{probe: server(capacity)}
		f, err := s.run(t.Context())
		if err != nil || !f.Confirmed {
			t.Errorf("capacity %d: got %+v, %v", capacity, f, err)
		}
		// A probe cannot see an excess that gathers less than 5 ms in its window.
		if off := math.Abs(float64(f.Stable-capacity)) / float64(capacity); off > 0.02 {
			t.Errorf("capacity %d: found %d", capacity, f.Stable)
		}
		if f.Unstable <= f.Stable || f.Why == "" {
			t.Errorf("capacity %d: stable %d, unstable %d, %q", capacity, f.Stable, f.Unstable, f.Why)
		}
		if last := f.Probes[len(f.Probes)-1]; last.Window != 30 || last.Threads != f.Stable {
			t.Errorf("capacity %d: the last stage was %+v", capacity, last)
		}
	}
}

func TestSearchEnds(t *testing.T) {
	ctx := t.Context()
	t.Run("the first fails", func(t *testing.T) {
		s := &search{probe: server(10)}
		f, err := s.run(ctx)
		if err != nil || f.Stable != 0 || f.Confirmed || !strings.HasPrefix(f.Note, "not even the first number, 64, is stable") || len(f.Probes) != 2 {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("the machine allows no more", func(t *testing.T) {
		s := &search{opt: SearchOptions{Most: 300}, probe: server(1000)}
		f, err := s.run(ctx)
		if err != nil || f.Stable != 300 || !f.Confirmed || f.Unstable != 0 || f.Note == "" {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("probes are spent", func(t *testing.T) {
		s := &search{opt: SearchOptions{Probes: 8, First: 512}, probe: server(5120)}
		f, err := s.run(ctx)
		if err != nil || !f.Confirmed || f.Stable < 4096 || f.Note == "" {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("too bold a beginning", func(t *testing.T) {
		s := &search{opt: SearchOptions{First: 512}, probe: server(100)}
		f, err := s.run(ctx)
		if err != nil || !f.Confirmed || f.Stable < 99 || f.Stable > 101 {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("a bad beginning", func(t *testing.T) {
		probes, probe := 0, server(5120)
		s := &search{opt: SearchOptions{First: 512, Probes: 7}, probe: func(ctx context.Context, n int, w time.Duration) (Probe, error) {
			p, err := probe(ctx, n, w)
			if probes++; probes <= 2 {
				p.LagP99 = 1e6
			}
			return p, err
		}}
		// 64 to 1024 are stable after that: 512 is no number that was not.
		if f, err := s.run(ctx); err != nil || f.Stable != 1024 || f.Unstable != 0 || f.Generator || f.Why != "" {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("one bad moment", func(t *testing.T) {
		probes, probe := 0, server(500)
		s := &search{probe: func(ctx context.Context, n int, w time.Duration) (Probe, error) {
			p, err := probe(ctx, n, w)
			if probes++; probes == 2 {
				p.P99 = 1e6
			}
			return p, err
		}}
		if f, err := s.run(ctx); err != nil || f.Stable < 490 {
			t.Errorf("a probe that failed once decided: %+v, %v", f, err)
		}
	})
	t.Run("not confirmed at first", func(t *testing.T) {
		probe := server(500)
		s := &search{probe: func(ctx context.Context, n int, w time.Duration) (Probe, error) {
			p, err := probe(ctx, n, w)
			if w == 30*time.Second && n > 480 {
				p.P99 = 1e6
			}
			return p, err
		}}
		f, err := s.run(ctx)
		if err != nil || !f.Confirmed || f.Stable > 480 || f.Stable < 470 || f.Unstable <= f.Stable {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("never confirmed", func(t *testing.T) {
		probe := server(500)
		s := &search{probe: func(ctx context.Context, n int, w time.Duration) (Probe, error) {
			p, err := probe(ctx, n, w)
			if w == 30*time.Second {
				p.Errors = p.Scheduled
			}
			return p, err
		}}
		f, err := s.run(ctx)
		if err != nil || f.Confirmed || f.Note != "no number was confirmed" {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("it breaks off", func(t *testing.T) {
		broken := errors.New("broken")
		probe := server(500)
		s := &search{probe: func(ctx context.Context, n int, w time.Duration) (Probe, error) {
			if n == 256 {
				return Probe{}, broken
			}
			return probe(ctx, n, w)
		}}
		f, err := s.run(ctx)
		if !errors.Is(err, broken) || f.Stable != 128 || len(f.Probes) != 2 {
			t.Errorf("got %+v, %v", f, err)
		}
	})
}

func TestJudgeProbe(t *testing.T) {
	good := func() Probe {
		return Probe{Threads: 100, Scheduled: 1000, Sent: 1000, P99: 249_000, First: 1000, Last: 6200, LagP99: 25_000}
	}
	for _, tt := range []struct {
		name      string
		change    func(*Probe)
		why       string
		generator bool
	}{
		{"everything just within", func(p *Probe) { p.Sent, p.Errors = 990, 1 }, "", false},
		{"a refused connection", func(p *Probe) { p.Refused = 1 }, "1 of 100 connections were not made", false},
		{"not sent", func(p *Probe) { p.Sent = 989 }, "sent 98.9 % of what was due < 99 %", false},
		{"errors", func(p *Probe) { p.Errors = 2 }, "2 of 1000 replies failed or were wrong > 0.1 %", false},
		{"slow", func(p *Probe) { p.P99 = 251_000 }, "p99 251 ms > 250 ms", false},
		{"growing", func(p *Probe) { p.Last = 6300 }, "it grows: median 1.0 ms in the first third, 6.3 ms in the last", false},
		{"the generator's fault comes first", func(p *Probe) { p.LagP99, p.P99 = 26_000, 1e6 }, "the generator was late by its own fault: p99 26 ms > 25 ms", true},
		{"nothing came back", func(p *Probe) { p.Scheduled, p.Sent = 0, 0 }, "0 of 0 replies failed or were wrong > 0.1 %", false},
	} {
		p := good()
		tt.change(&p)
		judgeProbe(&p, 250*time.Millisecond)
		if p.Why != tt.why || p.Stable != (tt.why == "") || p.Generator != tt.generator {
			t.Errorf("%s: got %v %q, want %q", tt.name, p.Stable, p.Why, tt.why)
		}
	}
}
