package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJudgeRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  Run
		spec Spec
		want Verdict
		why  string
	}{
		{"all well", Run{Ops: 1000, Little: new(0.99)}, Spec{}, Valid, ""},
		{"one wrong reply", Run{Ops: 999, Errors: 1, FirstError: "x"}, Spec{}, Wrong, "1 of 1000 replies failed or were wrong, first: x"},
		{"few enough for an open loop", Run{Ops: 999, Errors: 1}, Spec{ErrorsAllowed: 0.001}, Valid, ""},
		{"callers that are not accounted for", Run{Ops: 10, Seconds: 1, Little: new(0.9)}, Spec{}, Invalid, "Little's law: the callers are accounted for to 90 %, want 100 ± 5"},
		{"a short run and one interruption", Run{Ops: 10, Seconds: 0.01, Little: new(0.85)}, Spec{}, Valid, ""},
		{"a short run and more than that", Run{Ops: 10, Seconds: 0.01, Little: new(0.75)}, Spec{}, Invalid, "Little's law"},
		{"too much is accounted for", Run{Ops: 10, Seconds: 1, Little: new(1.2)}, Spec{}, Invalid, "Little's law"},
		{"a late sender", Run{Ops: 10, Lag: &Latency{P99: 26_000}}, Spec{}, Generator, "the sender was late by its own fault: p99 26 ms > 25 ms"},
		{"not steady is a remark", Run{Ops: 10, Series: []float64{80, 90, 100, 110, 120}}, Spec{}, Valid, "not steady, the rate changed by +50 % within the run"},
		{"wrong is worse than the rest", Run{Ops: 10, Errors: 1, Seconds: 1, Little: new(0.5), Lag: &Latency{P99: 1e6}}, Spec{}, Wrong, ""},
	} {
		tt.run.Verdict = Valid
		judgeRun(&tt.run, &tt.spec)
		got := strings.Join(tt.run.Reasons, "; ")
		if tt.run.Verdict != tt.want || !strings.Contains(got, tt.why) || tt.why == "" && tt.want == Valid && got != "" {
			t.Errorf("%s: got %s %q, want %s %q", tt.name, tt.run.Verdict, got, tt.want, tt.why)
		}
	}
}

func TestJudgeStrangers(t *testing.T) {
	for _, tt := range []struct {
		name           string
		foreign, steal float64
		wall           time.Duration
		want           Verdict
	}{
		{"quiet", 0.04, 0.01, time.Second, Valid},
		{"a neighbour", 0.12, 0, time.Second, Disturbed},
		{"steal", 0, 0.03, time.Second, Disturbed},
		{"the clock is too coarse to say", 0.12, 0, 200 * time.Millisecond, Valid},
		{"so much is beyond its error", 0.30, 0, 200 * time.Millisecond, Disturbed},
	} {
		r := Run{Verdict: Valid, Foreign: &tt.foreign, Steal: &tt.steal}
		judgeStrangers(&r, tt.wall)
		if r.Verdict != tt.want {
			t.Errorf("%s: got %s %v, want %s", tt.name, r.Verdict, r.Reasons, tt.want)
		}
	}
}

// TestStrangers: what the machine did and our processes did not is others'.
func TestStrangers(t *testing.T) {
	now := time.Now()
	a := sample{at: now, okOwn: true, okAll: true, machine: Load{CPUs: 2}}
	b := sample{
		at: now.Add(time.Second), okOwn: true, okAll: true,
		own:     time.Second,
		machine: Load{CPUs: 2, Busy: 1240 * time.Millisecond, Steal: 60 * time.Millisecond, Pressure: 100 * time.Millisecond},
	}
	foreign, steal, pressure, ok := strangers(a, b)
	for _, f := range []struct {
		name      string
		got, want float64
	}{{"foreign", foreign, 0.12}, {"steal", steal, 0.03}, {"pressure", pressure, 0.1}} {
		if d := f.got - f.want; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: got %.3f, want %.3f", f.name, f.got, f.want)
		}
	}
	if !ok {
		t.Error("not known")
	}
	if b.okAll = false; true {
		if _, _, _, ok := strangers(a, b); ok {
			t.Error("known without the samples")
		}
	}
}

func TestLimiter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cores  float64
		p50    float64 // µs
		serial bool
		csw    float64
		want   string
	}{
		{"one busy processor is all that a serial loop can use", 0.95, 100, true, 0, "cpu"},
		{"all processors", 0.95 * cpus(), 100, false, 0, "cpu"},
		{"woken up for each reply", 0.6, 100, true, 2, "waiting (wake-up)"},
		{"idle", 0.05, 5000, true, 2, "waiting"},
		{"the founding puzzle: 24.9 messages a second", 0.02, 40_200, true, 2, "WAITING: 40 ms on an idle processor looks like Nagle x delayed ACK; head and body written in two writes?"},
		{"the same elsewhere", 0.02, 200_000, true, 2, "WAITING: 200 ms on an idle processor looks like Nagle x delayed ACK; head and body written in two writes?"},
		{"40 ms of work are no stall", 0.8, 40_000, true, 0.5, "waiting"},
		{"51 ms are something else", 0.02, 51_000, true, 2, "waiting"},
	} {
		row := Test{
			Runs:    []Run{{Seconds: 1, Client: Cost{CPU: tt.cores / 2}, Server: &Cost{CPU: tt.cores / 2}}},
			Summary: Summary{Latency: Latency{P50: tt.p50}, PerOp: &PerOp{Switches: tt.csw}},
		}
		if got := limiter(&row, &Spec{Serial: tt.serial}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		row  Test
		spec Spec
		want string
	}{
		{"a full line, by a score in Mbit/s", Test{Unit: "Mbit/s", Summary: Summary{Mean: 860}}, Spec{Line: 941}, "network"},
		{"a line that is not full", Test{Unit: "Mbit/s", Summary: Summary{Mean: 700}, Runs: []Run{{Seconds: 1}}}, Spec{Line: 941}, "unknown (the server's processor time is not known here)"},
		{"messages of 10,000 octets that do not fill it", Test{Unit: "messages/s", Runs: []Run{{Rate: 9000}, {Rate: 9100}}}, Spec{Line: 941, Size: 10_000}, "unknown (the server's processor time is not known here)"},
		{"more of them do", Test{Unit: "messages/s", Runs: []Run{{Rate: 10_900}, {Rate: 11_000}}}, Spec{Line: 941, Size: 10_000}, "network"},
		{"a client that has no more to give, a server elsewhere", Test{Runs: []Run{{Seconds: 1, Client: Cost{CPU: 0.95}}}}, Spec{Serial: true}, "generator (its processors are busy)"},
		{"processors that others use", Test{Runs: []Run{{Seconds: 1, Client: Cost{CPU: 0.2}, Server: &Cost{CPU: 0.2}, Foreign: new(1 - 0.5/cpus())}}}, Spec{}, "cpu (others use most of the rest)"},
		{"others who leave enough", Test{Runs: []Run{{Seconds: 1, Client: Cost{CPU: 0.2}, Server: &Cost{CPU: 0.2}, Foreign: new(0.2)}}}, Spec{}, "waiting"},
		{"both in one process", Test{Runs: []Run{{Seconds: 1, Client: Cost{CPU: 0.95 * cpus()}}}}, Spec{Processes: "one"}, "cpu"},
	} {
		if got := limiter(&tt.row, &tt.spec); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := limiter(&Test{Runs: []Run{{Seconds: 1}}}, &Spec{}); !strings.HasPrefix(got, "unknown") {
		t.Errorf("a server elsewhere: got %q", got)
	}
}

func TestReasons(t *testing.T) {
	runs := []Run{{Reasons: []string{"a"}}, {Reasons: []string{"a", "b"}}, {Reasons: []string{"a"}}, {}, {Reasons: []string{"a"}}}
	want := []string{"runs 1-3, 5: a", "run 2: b"}
	if got := reasonsOf(runs); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	runs = []Run{{Reasons: []string{"12 % is used"}}, {}, {Reasons: []string{"13.5 % is used", "c"}}}
	want = []string{"runs 1, 3: 12 % is used (run 1, the others are like it)", "run 3: c"}
	if got := reasonsOf(runs); !slices.Equal(got, want) {
		t.Errorf("figures that differ: got %q, want %q", got, want)
	}
	runs = []Run{{Reasons: []string{"a"}}}
	if got := reasonsOf(runs[:1]); !slices.Equal(got, []string{"a"}) {
		t.Errorf("one run: got %q", got)
	}
}

func TestExitCode(t *testing.T) {
	row := func(v Verdict) []Test { return []Test{{Verdict: Valid}, {Verdict: v}} }
	failed, void := []Check{{}}, []Check{{Void: true}}
	for _, tt := range []struct {
		name       string
		r          Results
		regression bool
		want       int
	}{
		{"nothing", Results{}, false, ExitOK},
		{"disturbed rows that agree", Results{Tests: row(Disturbed)}, false, ExitOK},
		{"invalid", Results{Tests: row(Invalid)}, false, ExitInvalid},
		{"the generator's fault", Results{Tests: row(Generator)}, false, ExitInvalid},
		{"a threshold", Results{Tests: row(Invalid), Require: failed}, false, ExitThreshold},
		{"a threshold on a row that cannot be believed", Results{Tests: row(Valid), Require: void}, false, ExitInvalid},
		{"a regression", Results{Tests: row(Invalid)}, true, ExitRegression},
		{"wrong replies are worse than all else", Results{Tests: row(Wrong), Require: failed}, true, ExitWrong},
	} {
		if got := ExitCode(&tt.r, tt.regression); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
		Conclude(&tt.r, tt.want)
		if tt.r.Verdict == "" {
			t.Errorf("%s: no verdict", tt.name)
		}
	}
}

// TestVerdictSaysWhy: the line names the worst rows first, and not all of many.
func TestVerdictSaysWhy(t *testing.T) {
	r := &Results{Tests: []Test{
		{Name: "web", Verdict: Valid},
		{Name: "ping", Combo: "hr", Verdict: Disturbed, Reasons: []string{"run 3: 12 % of the machine was used by others"}},
		{Name: "ping", Combo: "ff", Verdict: Invalid, Reasons: []string{"run 1: x", "spread 14 % > 5 %"}},
	}}
	Conclude(r, ExitInvalid)
	want := "invalid: 1 valid, 1 DISTURBED, 1 INVALID (ping.ff: spread 14 % > 5 %; ping.hr: run 3: 12 % of the machine was used by others)"
	if r.Verdict != want {
		t.Errorf("got %q, want %q", r.Verdict, want)
	}
	for range 3 {
		r.Tests = append(r.Tests, Test{Name: "mem", Combo: "idle", Verdict: Wrong})
	}
	Conclude(r, ExitWrong)
	want = "wrong replies: 1 valid, 1 DISTURBED, 1 INVALID, 3 WRONG (mem.idle; mem.idle; mem.idle; and 2 more)"
	if r.Verdict != want {
		t.Errorf("got %q, want %q", r.Verdict, want)
	}
}
