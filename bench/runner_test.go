package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeScenario does runs that take a second and have these rates; the first is
// the cold pass.
type fakeScenario struct {
	spec   Spec
	rates  []int
	breaks int // before which run it fails; 0: never
	ran    int
	closed bool
	during func(n int)
}

func (s *fakeScenario) Prepare(context.Context) error { return nil }
func (s *fakeScenario) Spec() Spec                    { return s.spec }
func (s *fakeScenario) Close() error                  { s.closed = true; return nil }

func (s *fakeScenario) Once(_ context.Context, m *Meter) error {
	n := s.ran
	s.ran++
	if s.breaks > 0 && n == s.breaks {
		return errors.New("broken")
	}
	m.Callers(1)
	rate := s.rates[min(n, len(s.rates)-1)]
	m.Start()
	for range rate {
		began := time.Now()
		time.Sleep(time.Second / time.Duration(rate))
		m.Shard(0).Done(began)
	}
	if s.during != nil {
		s.during(n)
	}
	m.Stop()
	return nil
}

// fakeMachine has two processors. Ours use what the test says, others too.
type fakeMachine struct {
	own, busy, steal time.Duration
}

func (f *fakeMachine) Process(pid int) (Usage, error) {
	if pid != self {
		return Usage{}, nil
	}
	return Usage{CPU: f.own}, nil
}

func (f *fakeMachine) Machine() (Load, error) {
	return Load{CPUs: 2, Busy: f.busy, Steal: f.steal, Pressure: -1}, nil
}

func (f *fakeMachine) Reaped() time.Duration { return 0 }

func measure(t *testing.T, opt Options, s *fakeScenario) (row Test, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		row, err = NewRunner(opt).Measure(t.Context(), s)
	})
	if !s.closed {
		t.Error("the scenario was not closed")
	}
	return row, err
}

func TestRunner(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opt   Options
		spec  Spec
		rates []int
		runs  int
		want  Verdict
		why   string
	}{
		{"runs that agree", Options{}, Spec{}, []int{10, 1000, 1010, 1005, 995, 1000}, 5, Valid, ""},
		{
			"more runs, until the mean is known",
			Options{},
			Spec{},
			[]int{10, 1000, 1060, 1000, 1010, 1000, 1020, 1010, 1000, 1005, 1010},
			6, Valid, "",
		},
		{"runs that never agree", Options{}, Spec{}, []int{10, 500, 1000, 500, 1000, 500, 1000, 500, 1000, 500, 1000}, 10, Invalid, "spread 67 % > 5 %"},
		{"fewer runs at most", Options{Runs: 2, MaxRuns: 3}, Spec{}, []int{10, 500, 1000, 500}, 3, Invalid, "spread"},
		{"a row of one run", Options{}, Spec{Runs: 1, NoCold: true}, []int{1000}, 1, Valid, ""},
		{"a row of its own number", Options{}, Spec{Runs: 2, MaxRuns: 4, ByInterval: true}, []int{10, 500, 1000, 500, 1000}, 4, Invalid, "95 % interval"},
	} {
		s := &fakeScenario{spec: tt.spec, rates: tt.rates}
		s.spec.Name = "ping"
		row, err := measure(t, tt.opt, s)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(row.Runs) != tt.runs || row.Verdict != tt.want || !strings.Contains(strings.Join(row.Reasons, "; "), tt.why) {
			t.Errorf("%s: got %d runs, %s %q, want %d, %s %q", tt.name, len(row.Runs), row.Verdict, row.Reasons, tt.runs, tt.want, tt.why)
		}
		if cold := !tt.spec.NoCold; cold != (row.Cold != nil) || cold && row.Cold.Ops != 10 {
			t.Errorf("%s: the cold pass: %+v", tt.name, row.Cold)
		}
		for _, r := range row.Runs {
			if r.Little == nil || *r.Little < 0.99 || *r.Little > 1.01 {
				t.Errorf("%s: Little's law: %v", tt.name, r.Little)
			}
		}
	}
}

// TestExtra: when the time for added runs is used up, rows have the least that they
// are to have, and what disagrees is said.
func TestExtra(t *testing.T) {
	rates := []int{10, 500, 1000, 500, 1000, 500, 1000}
	synctest.Test(t, func(t *testing.T) {
		r := NewRunner(Options{Runs: 2, MaxRuns: 6, Extra: 2500 * time.Millisecond})
		for _, want := range []int{5, 2} { // three more, each of a second; then none
			row, err := r.Measure(t.Context(), &fakeScenario{spec: Spec{Name: "ping"}, rates: rates})
			if err != nil || len(row.Runs) != want || row.Verdict != Invalid {
				t.Errorf("got %d runs, %s, %v, want %d", len(row.Runs), row.Verdict, err, want)
			}
		}
	})
}

// TestRunnerBreaks: what was measured before an error is not lost.
func TestRunnerBreaks(t *testing.T) {
	row, err := measure(t, Options{}, &fakeScenario{spec: Spec{Name: "ping"}, rates: []int{1000}, breaks: 3})
	if err == nil || !strings.Contains(err.Error(), "bench: ping: broken") || len(row.Runs) != 2 {
		t.Errorf("got %d runs, %v", len(row.Runs), err)
	}
}

// TestNeighbour: a run during which others used the machine is marked with how
// much, and only that run.
func TestNeighbour(t *testing.T) {
	m := &fakeMachine{}
	s := &fakeScenario{spec: Spec{Name: "ping", Loop: LoopClosed}, rates: []int{1000}}
	s.during = func(n int) {
		m.own += 900 * time.Millisecond
		m.busy += 900 * time.Millisecond
		switch n {
		case 2:
			m.busy += 240 * time.Millisecond // 12 % of two processors
		case 4:
			m.steal += 100 * time.Millisecond
		}
	}
	row, err := measure(t, Options{Sampler: m}, s)
	if err != nil {
		t.Fatal(err)
	}
	var got []Verdict
	for _, r := range row.Runs {
		got = append(got, r.Verdict)
	}
	if want := []Verdict{Valid, Disturbed, Valid, Disturbed, Valid}; !slices.Equal(got, want) {
		t.Errorf("runs: got %v, want %v", got, want)
	}
	want := []string{"run 2: 12 % of the machine was used by others", "run 4: 5 % of the machine was given to other machines (steal)"}
	if row.Verdict != Disturbed || !slices.Equal(row.Reasons, want) {
		t.Errorf("got %s %q, want %q", row.Verdict, row.Reasons, want)
	}
	near(t, "client cpu/op", row.Summary.PerOp.ClientCPU, 900, 0.01)
}

// TestShortRuns: the clock of the machine is too coarse for runs of 50 ms: they
// are watched together, until a second is full.
func TestShortRuns(t *testing.T) {
	m := &fakeMachine{}
	s := &shortScenario{machine: m}
	var row Test
	synctest.Test(t, func(t *testing.T) {
		var err error
		if row, err = NewRunner(Options{Runs: 45, Sampler: m}).Measure(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	})
	for i, r := range row.Runs {
		disturbed := i < 20 // the neighbour was there in the first of two full seconds
		if i < 40 && (r.Foreign == nil || (r.Verdict == Disturbed) != disturbed) {
			t.Errorf("run %d: %s, %v", i+1, r.Verdict, r.Foreign)
		}
	}
}

// shortScenario has runs of 50 ms; in the fifth of them a neighbour uses 200 ms.
type shortScenario struct {
	fakeScenario
	machine *fakeMachine
}

func (s *shortScenario) Spec() Spec { return Spec{Name: "ping", Loop: LoopClosed} }

func (s *shortScenario) Once(_ context.Context, m *Meter) error {
	m.Start()
	began := time.Now()
	time.Sleep(50 * time.Millisecond)
	if s.ran++; s.ran == 6 { // the cold pass is the first
		s.machine.busy += 200 * time.Millisecond
	}
	m.Shard(0).Done(began)
	m.Stop()
	return nil
}
