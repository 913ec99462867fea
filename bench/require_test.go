package bench

import (
	"strings"
	"testing"
)

func TestRequire(t *testing.T) {
	tests := sampleResults().Tests
	tests[1].Verdict = Invalid
	tests = append(tests,
		Test{Name: "ping", Combo: "ff/1500", Unit: "messages/s", Summary: Summary{Mean: 500}, Verdict: Valid},
		Test{Name: "startup", Unit: "ms", Summary: Summary{Mean: 80, Max: 120}, Verdict: Valid},
		Test{Name: "mem", Combo: "idle", Unit: "MiB", Summary: Summary{Mean: 20}, Measures: []Measure{{"rss", 20 << 20, "B"}}, Verdict: Valid},
		Test{Name: "net", Combo: "raw", Unit: "Mbit/s", Summary: Summary{Mean: 900}, Verdict: Disturbed},
	)
	for _, tt := range []struct{ expr, want string }{
		{"ping.ff.rate>=1000", "ping.ff ok"},
		{"ping.ff.rate>=1000/s", "ping.ff ok"},
		{"ping.framed.rate > 1e9", "ping.ff no"},
		{"ping.*.rate<600", "ping.ff no, ping.ff/1500 ok"},
		{"ping.ff.p99<5ms", "ping.ff ok"},
		{"ping.ff.p99<500us", "ping.ff no"},
		{"ping.ff.max<=1.2ms", "ping.ff ok"},
		{"ping.ff.eff>=5%", "ping.ff ok"},
		{"ping.ff.eff>=0.06", "ping.ff no"},
		{"ping.ff.err==0", "ping.ff ok"},
		{"ping.ff.cpu<100µs", "ping.ff ok"},
		{"ping.ff.csw<=2", "ping.ff ok"},
		{"ping.ff.rd<4", "ping.ff no"},
		{"ping.ff.spread<2%", "ping.ff ok"},
		{"startup.mean<250ms", "startup ok"},
		{"startup.max<0.1s", "startup no"},
		{"mem.idle.rss<64MiB", "mem.idle ok"},
		{"mem.idle.rss<20MB", "mem.idle no"},
		{"net.raw.mean>=800Mbit/s", "net.raw ok"},
		{"net.raw.mean>=1Gbit/s", "net.raw no"},
		{"threads.http.max>=2000", "threads.hh void"},
		{"threads.ff.max>=2000", "none"},
		{"calls.lookup.mean<1us", "none"},
		{"ping.ff.beauty>1", "none"},
	} {
		r, err := ParseRequirement(tt.expr)
		if err != nil {
			t.Errorf("%s: %v", tt.expr, err)
			continue
		}
		checks, err := r.Apply(tests)
		if err != nil {
			t.Errorf("%s: %v", tt.expr, err)
		}
		var got []string
		for _, c := range checks {
			word := "no"
			switch {
			case c.Row == "":
				got = append(got, "none")
				continue
			case c.Void:
				word = "void"
			case c.OK:
				word = "ok"
			}
			got = append(got, c.Row+" "+word)
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s: got %s, want %s", tt.expr, s, tt.want)
		}
	}
	for expr, want := range map[string]string{
		"ping.ff.p99<5":        "units of time",
		"ping.ff.rate>5ms":     "plain numbers",
		"mem.idle.rss<5ms":     "octets",
		"net.raw.mean>100":     "bits a second",
		"ping.ff.rate":         "no comparison",
		"rate>5":               "want TEST.MEASURE",
		"a.b.c.d>5":            "want TEST.MEASURE",
		"ping.ff.rate=5":       "the comparisons are",
		"ping.ff.rate>=lots":   `"lots" is not a value`,
		"ping.[.rate>1":        "a pattern is broken",
		"ping.ff.p99 < 5 days": "is not a value",
	} {
		r, err := ParseRequirement(expr)
		if err == nil {
			_, err = r.Apply(tests)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", expr, err, want)
		}
	}
}

func TestTax(t *testing.T) {
	row := func(combo string, mean, cpu float64) Test {
		return Test{Name: "ping", Combo: combo, Summary: Summary{Latency: Latency{Mean: mean}, PerOp: &PerOp{ClientCPU: cpu}}}
	}
	tests := []Test{row("hh", 100, 80), row("hh+gw", 180, 130), row("ff+gw", 90, 1)}
	AddTax(tests)
	if len(tests[0].Measures) != 0 || len(tests[2].Measures) != 0 {
		t.Errorf("a tax without its pair: %+v", tests)
	}
	got := map[string]float64{}
	for _, m := range tests[1].Measures {
		got[m.Name] = m.Value * 1e6
	}
	near(t, "tax", got["tax"], 80, 1e-9)
	near(t, "tax-cpu", got["tax-cpu"], 50, 1e-9)
}
