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
	f := &benchFlags{quick: true, runs: 5, maxRuns: 10}
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
	if f.maxRuns != quickMaxRuns {
		t.Errorf("at most %d runs, want %d", f.maxRuns, quickMaxRuns)
	}
}
