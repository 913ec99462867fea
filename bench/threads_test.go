package bench

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeServer answers in the bubble of a test, each call after its own time.
type fakeServer struct {
	wait   func() time.Duration // of one call
	fail   func(n int64) error  // of the n-th call
	refuse int                  // from which connection on none is made; 0: never
	conns  atomic.Int64
	calls  atomic.Int64
	busy   atomic.Int64 // calls under way
}

func (s *fakeServer) dial(context.Context, Target) (Caller, error) {
	if n := s.conns.Add(1); s.refuse > 0 && n >= int64(s.refuse) {
		return nil, errors.New("refused")
	}
	return fakeConn{s}, nil
}

type fakeConn struct{ s *fakeServer }

func (c fakeConn) Call(_ context.Context, message []byte) ([]byte, error) {
	c.s.busy.Add(1)
	defer c.s.busy.Add(-1)
	n := c.s.calls.Add(1)
	time.Sleep(c.s.wait())
	if c.s.fail != nil {
		if err := c.s.fail(n); err != nil {
			return nil, err
		}
	}
	return message, nil
}

func (fakeConn) Close() error { return nil }

// fakeThreads is the test threads against s.
func fakeThreads(t *testing.T, s *fakeServer) *threads {
	t.Helper()
	m, err := NewPing(1, PingSize)
	if err != nil {
		t.Fatal(err)
	}
	return &threads{ends: &ends{opt: EchoOptions{Messages: []*Message{m}}, message: m, dial: s.dial, check: Echoed}}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s: got %.4g, want %.4g ± %.0f %%", what, got, want, 100*within)
	}
}

// TestPause: a server that stops for 20 ms in each second makes 2 % of the
// requests wait, up to 20 ms, evenly: p99 is 10 ms and the largest is 20 ms. A
// closed loop would have seen one slow request in each second.
func TestPause(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			const pause, service = 20 * time.Millisecond, 200 * time.Microsecond
			s := &fakeServer{wait: func() time.Duration {
				return max(0, pause-time.Since(began)%time.Second) + service
			}}
			th := fakeThreads(t, s)
			th.opt.Poisson, th.opt.Threads = poisson, 1000
			m := newMeter(nil, nil, nil)
			p, err := th.probe(t.Context(), m, 1000, time.Second, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := m.run()
			near(t, "p99", r.Latency.P99, 10_200, 0.1)
			near(t, "max", r.Latency.Max, 20_200, 0.1)
			near(t, "p50", r.Latency.P50, 200, 0.01)
			near(t, "little", *r.Little, 1, 0.01)
			if p.Scheduled != 10_000 || p.Sent != 10_000 || r.Ops != 10_000 || p.Errors != 0 || p.Refused != 0 {
				t.Errorf("got %+v, %d ops", p, r.Ops)
			}
			if p.LagP99 > 1 {
				t.Errorf("the sender was late: %v µs", p.LagP99)
			}
		})
	}
}

// TestIntendedTimes: a server that takes 1.2 s for each message makes its callers
// later with every one. That is its fault, not the sender's, and counts from the
// time at which the message was due.
func TestIntendedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{wait: func() time.Duration { return 1200 * time.Millisecond }}
		th := fakeThreads(t, s)
		th.opt.Threads = 10
		m := newMeter(nil, nil, nil)
		p, err := th.probe(t.Context(), m, 10, 0, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := m.run()
		// The k-th message of a thread is sent 0.2 k s late: nine are sent in the
		// window, the last of them 1.6 s late.
		near(t, "max", r.Latency.Max, 2.8e6, 0.01)
		near(t, "service", r.Service.Mean, 1.2e6, 0.01)
		if r.Lag.Max > 1 {
			t.Errorf("lag %v µs: the sender is not to blame", r.Lag.Max)
		}
		if p.Scheduled != 100 || p.Sent >= 91 || p.Sent < 80 {
			t.Errorf("scheduled %d, sent %d, want 100 and fewer than 91", p.Scheduled, p.Sent)
		}
		judgeProbe(&p, time.Hour)
		if p.Stable {
			t.Error("it is stable")
		}
		near(t, "little", *r.Little, 1, 0.01)
	})
}

// TestCapped: the search finds what a server that gives 500 replies a second can
// serve, to 2 %, and leaves nothing in flight between its probes.
func TestCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaults(Faults{Cap: 500})
		s := &fakeServer{wait: func() time.Duration { return max(0, time.Until(f.next())) + 100*time.Microsecond }}
		th := fakeThreads(t, s)
		m := newMeter(nil, nil, nil)
		se := &search{opt: SearchOptions{First: 64}, probe: func(ctx context.Context, n int, window time.Duration) (Probe, error) {
			if busy := s.busy.Load(); busy != 0 {
				t.Errorf("%d in flight when the probe of %d begins", busy, n)
			}
			m.Reset()
			return th.probe(ctx, m, n, 3*time.Second, window)
		}}
		found, err := se.run(t.Context())
		if err != nil || !found.Confirmed {
			t.Fatalf("got %+v, %v", found, err)
		}
		near(t, "stable", float64(found.Stable), 500, 0.02)
		th.found = &found
		th.conclude(m)
		r, _ := m.run()
		near(t, "score", r.Value, 500, 0.02)
		near(t, "little", *r.Little, 1, 0.01)
	})
}

// TestFailures: what fails is counted and reconnected; what is not connected is
// told.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{
			wait: func() time.Duration { return time.Millisecond },
			fail: func(n int64) error {
				if n%20 == 0 {
					return errors.New("broken")
				}
				return nil
			},
		}
		th := fakeThreads(t, s)
		th.opt.Threads = 100
		m := newMeter(nil, nil, nil)
		p, err := th.probe(t.Context(), m, 100, 0, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := m.run()
		if p.Errors != 50 || r.Ops != 950 || r.FirstError != "broken" || s.conns.Load() != 150 {
			t.Errorf("got %+v, %d ops, %q, %d connections", p, r.Ops, r.FirstError, s.conns.Load())
		}
		judgeRun(&r, &Spec{ErrorsAllowed: maxErrors})
		if r.Verdict != Wrong {
			t.Errorf("5 %% of errors: %s %v", r.Verdict, r.Reasons)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{wait: func() time.Duration { return time.Millisecond }, refuse: 91}
		th := fakeThreads(t, s)
		th.opt.Threads = 100
		p, err := th.probe(t.Context(), newMeter(nil, nil, nil), 100, 0, 2*time.Second)
		if err != nil || p.Refused != 10 {
			t.Errorf("got %+v, %v", p, err)
		}
	})
}

// TestInterrupt: a run that is interrupted ends at once and counts what it has.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{wait: func() time.Duration { return time.Millisecond }}
		th := fakeThreads(t, s)
		th.opt.Threads = 10
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { time.Sleep(3500 * time.Millisecond); stop() })
		began := time.Now()
		m := newMeter(nil, nil, nil)
		p, err := th.probe(ctx, m, 10, 0, time.Hour)
		wg.Wait()
		r, _ := m.run()
		if took := time.Since(began); err != nil || took > 4*time.Second {
			t.Fatalf("%v after %v", err, took)
		}
		if r.Seconds < 3.4 || r.Seconds > 3.6 || r.Errors != 0 || r.Ops < 30 || p.Sent != r.Ops {
			t.Errorf("got %+v", r)
		}
		near(t, "rate", r.Rate, 10, 0.1)
		near(t, "little", *r.Little, 1, 0.05)
	})
}
