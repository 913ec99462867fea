package main

import (
	"slices"
	"strings"
	"testing"

	"soapway/bench"
)

// TestAllCoversTheFoundingMeasures: there is a test for every measure of the
// founding documents in bench all, and an explanation for each.
func TestAllCoversTheFoundingMeasures(t *testing.T) {
	c := &cli{}
	f := &benchFlags{quick: true, runs: 5, maxRuns: 10, size: bench.PingSize}
	jobs, err := c.allJobs(c.benchAll(f), f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range jobs {
		names = append(names, j.name)
		if _, ok := bench.Explain(j.name); !ok {
			t.Errorf("%s has no explanation", j.name)
		}
	}
	for _, row := range bench.FoundingRows(&bench.Results{}) {
		if test, _, _ := strings.Cut(row.Row, "."); !slices.Contains(names, test) {
			t.Errorf("%q is measured by %s, which is not among %s", row.What, row.Row, names)
		}
	}
	if f.maxRuns != quickPlan.maxRuns || f.extra != quickPlan.extra {
		t.Errorf("at most %d runs and %v for those that are added, want %d and %v", f.maxRuns, f.extra, quickPlan.maxRuns, quickPlan.extra)
	}
	for _, plan := range []*benchPlan{&quickPlan, &fullPlan} {
		sum := plan.extra
		for _, name := range names {
			if plan.took[name] == 0 {
				t.Errorf("nobody knows how long %s takes", name)
			}
			sum += plan.took[name]
		}
		if sum > plan.most*9/10 {
			t.Errorf("the tests and the added runs take %v, which leaves no margin to %v", sum, plan.most)
		}
	}
	if got := quickPlan.tell(jobs); !strings.Contains(got, "at most some 2m30s: limits 2s · startup 3s · ") {
		t.Errorf("what is told at the start: %q", got)
	}
}
