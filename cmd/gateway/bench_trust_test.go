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
	"time"

	"soapway/bench"
)

var trust = flag.Bool("trust", false, "run TestTrust, which needs a quiet machine and five minutes")

// runBenchBinary runs gateway bench and returns its results.
func runBenchBinary(t *testing.T, args ...string) *bench.Results {
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
	return &r
}

// burn uses all processors until the returned function is called.
func burn() (stop func()) {
	var quit atomic.Bool
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
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
	stop := burn()
	defer stop()
	r := runBenchBinary(t, "ping", "--combo", "rr", "--duration", "1500ms", "--runs", "1", "--max-runs", "1")
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
	little := func(t *testing.T, r *bench.Results) {
		t.Helper()
		for _, row := range r.Tests {
			for _, run := range row.Runs {
				if row.Verdict == bench.Valid && run.Little != nil {
					within(t, row.Name+"."+row.Combo+" Little", *run.Little, 1, 0.05)
				}
			}
		}
	}
	t.Run("a pause of 20 ms in each second", func(t *testing.T) {
		// 2 % of the requests are due in the pause, spread evenly over it: p99 is its
		// half, and the largest its whole length. Then they are served like others.
		r := runBenchBinary(t, "threads", "--combo", "rr", "--pause", "20ms", "--threads", "1000", "--duration", "10s")
		l := r.Tests[0].Summary.Latency
		within(t, "p99 (ms)", l.P99/1e3, 10+l.P50/1e3, 0.1)
		within(t, "max (ms)", l.Max/1e3, 20+l.P50/1e3, 0.1)
		little(t, r)
	})
	t.Run("a server of 500 replies a second", func(t *testing.T) {
		r := runBenchBinary(t, "threads", "--combo", "rr", "--cap", "500")
		within(t, "stable threads", r.Tests[0].Summary.Mean, 500, 0.02)
		little(t, r)
	})
	t.Run("Little's law on every valid row", func(t *testing.T) {
		little(t, runBenchBinary(t, "ping"))
	})
	t.Run("an idle machine is not disturbed", func(t *testing.T) {
		r := runBenchBinary(t, "ping", "--combo", "rr", "--duration", (2 * time.Second).String(), "--runs", "3", "--max-runs", "3")
		for _, run := range r.Tests[0].Runs {
			if run.Verdict != bench.Valid {
				t.Errorf("got %s %q", run.Verdict, run.Reasons)
			}
		}
	})
}
