package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	osexec "os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"soapway/bench"
)

var trust = flag.Bool("trust", false, "run TestTrust, which needs a quiet machine and five minutes")

// runBenchBinary runs gateway bench and returns its results and its exit code.
func runBenchBinary(t *testing.T, args ...string) (*bench.Results, int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("what others do to a machine is known on Linux only")
	}
	var stdout, stderr bytes.Buffer
	cmd := osexec.Command(binaryName, append(append([]string{"bench"}, args...), "--no-progress", "--json", "-")...)
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), &stdout, &stderr
	err := cmd.Run()
	var r bench.Results
	if e := json.Unmarshal(stdout.Bytes(), &r); e != nil || len(r.Tests) == 0 {
		t.Fatalf("gateway bench %s: %v, %v\n%s%s", strings.Join(args, " "), err, e, &stdout, &stderr)
	}
	return &r, cmd.ProcessState.ExitCode()
}

// burn uses so many processors until the returned function is called.
func burn(processors int) (stop func()) {
	var quit atomic.Bool
	var wg sync.WaitGroup
	for range processors {
		wg.Go(func() {
			for !quit.Load() {
			}
		})
	}
	return func() { quit.Store(true); wg.Wait() }
}

// TestBusyNeighbour: a run while others use the machine is DISTURBED, with how
// much. This test is the neighbour.
func TestBusyNeighbour(t *testing.T) {
	stop := burn(runtime.NumCPU())
	defer stop()
	r, _ := runBenchBinary(t, "ping", "--combo", "rr", "--duration", "1500ms", "--runs", "1", "--max-runs", "1")
	row := &r.Tests[0]
	run := &row.Runs[0]
	if run.Foreign == nil || *run.Foreign < 0.05 || run.Verdict != bench.Disturbed && run.Verdict != bench.Invalid {
		t.Errorf("got %s %q, foreign %v", run.Verdict, row.Reasons, run.Foreign)
	}
	if !strings.Contains(strings.Join(row.Reasons, "; "), "of the machine was used by others") {
		t.Errorf("it does not say so: %q", row.Reasons)
	}
}

// TestTrust plants what the bench must find, in real time. Run it on a quiet
// machine: go test ./cmd/gateway -run TestTrust -trust -v
func TestTrust(t *testing.T) {
	if !*trust {
		t.Skip("needs a quiet machine and five minutes: -trust")
	}
	within := func(t *testing.T, what string, got, want, share float64) {
		t.Helper()
		t.Logf("%s: %.4g, must be %.4g ± %.0f %%", what, got, want, 100*share)
		if math.Abs(got-want) > share*want {
			t.Errorf("%s: got %.4g, want %.4g ± %.0f %%", what, got, want, 100*share)
		}
	}
	// A row that is valid keeps the law because it would be INVALID otherwise. So no
	// row may be that for the law, and none that has callers may go without it.
	little := func(t *testing.T, r *bench.Results) {
		t.Helper()
		for i := range r.Tests {
			row := &r.Tests[i]
			name := row.Name + "." + row.Combo
			if row.Loop == bench.LoopNone { // nobody waits for a reply
				continue
			}
			if strings.Contains(strings.Join(row.Reasons, "; "), "Little's law") {
				t.Errorf("%s breaks Little's law: %q", name, row.Reasons)
			}
			for _, run := range row.Runs {
				if run.Little == nil {
					t.Errorf("%s: nobody looked at Little's law", name)
					continue
				}
				within(t, name+" Little", *run.Little, 1, 0.05)
			}
		}
	}
	threads := func(t *testing.T, args ...string) bench.Latency {
		t.Helper()
		r, _ := runBenchBinary(t, append([]string{"threads", "--combo", "rr", "--threads", "1000", "--duration", "10s"}, args...)...)
		little(t, r)
		return r.Tests[0].Summary.Latency
	}
	t.Run("a pause of 20 ms in each second", func(t *testing.T) {
		// 2 % of the requests are due in the pause, spread evenly over it: p99 is its
		// half, and the largest its whole length. Then they are served like others.
		l := threads(t, "--pause", "20ms")
		within(t, "p99 (ms)", l.P99/1e3, 10+l.P50/1e3, 0.1)
		within(t, "max (ms)", l.Max/1e3, 20+l.P50/1e3, 0.1)
	})
	t.Run("and without it", func(t *testing.T) {
		if l := threads(t); l.P99 > 5000 {
			t.Errorf("p99 %.1f ms: this machine pauses by itself, and the pause above proves nothing", l.P99/1e3)
		}
	})
	t.Run("a server of 500 replies a second", func(t *testing.T) {
		r, _ := runBenchBinary(t, "threads", "--combo", "rr", "--cap", "500")
		within(t, "stable threads", r.Tests[0].Summary.Mean, 500, 0.02)
		little(t, r)
	})
	t.Run("5 % of wrong replies", func(t *testing.T) {
		r, code := runBenchBinary(t, "ping", "--combo", "rr", "--wrong-every", "20")
		row := &r.Tests[0]
		for _, run := range row.Runs {
			within(t, "wrong replies", float64(run.Errors)/float64(run.Errors+run.Ops), 0.05, 0.01)
		}
		if code != bench.ExitWrong || row.Verdict != bench.Wrong {
			t.Errorf("exit code %d, %s, want %d, %s", code, row.Verdict, bench.ExitWrong, bench.Wrong)
		}
	})
	t.Run("two writes under Nagle's algorithm", func(t *testing.T) {
		for nagle, want := range map[string]bool{"--nagle": true, "--nagle=false": false} {
			r, _ := runBenchBinary(t, "ping", "--combo", "rr", nagle)
			if got := r.Tests[0].Limiter; strings.HasPrefix(got, "WAITING") != want {
				t.Errorf("%s: the limiter is %q", nagle, got)
			}
		}
	})
	t.Run("a neighbour on one processor", func(t *testing.T) {
		stop := burn(1)
		defer stop()
		r, _ := runBenchBinary(t, "ping", "--combo", "rr", "--duration", "2s", "--runs", "3", "--max-runs", "3")
		for _, run := range r.Tests[0].Runs {
			if run.Verdict != bench.Disturbed {
				t.Errorf("got %s %q", run.Verdict, run.Reasons)
			}
			within(t, "foreign share", *run.Foreign, 1/float64(runtime.NumCPU()), 0.3)
		}
	})
	t.Run("Little's law on every row of a closed loop", func(t *testing.T) {
		for _, args := range [][]string{
			{"ping"},
			{"ping", "--combo", "hh,ff", "--conns", "8", "--via", "both"},
			{"web"},
			{"queue", "--quick", "--durability", "relaxed", "--senders", "1,64", "--backlog", "100"},
		} {
			r, _ := runBenchBinary(t, args...)
			little(t, r)
		}
	})
	t.Run("an idle machine is not disturbed", func(t *testing.T) {
		r, _ := runBenchBinary(t, "ping", "--combo", "rr", "--duration", "2s", "--runs", "3", "--max-runs", "3")
		for _, run := range r.Tests[0].Runs {
			if run.Verdict != bench.Valid {
				t.Errorf("got %s %q", run.Verdict, run.Reasons)
			}
		}
	})
}
