package bench

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"golang.org/x/perf/benchmath"
)

// compareRuns is how many runs a side must have: with three even the clearest
// difference comes about by chance once in ten times.
const compareRuns = 4

// ErrOtherMachine means that two results are of different machines, so that
// their difference says nothing about the gateway.
var ErrOtherMachine = errors.New("bench: measured on different machines")

// CompareOptions are the settings of [Compare].
type CompareOptions struct {
	// Tolerance is the share by which a row may get worse without being a
	// regression. Default 0.05.
	Tolerance float64
	// Force compares results of different machines.
	Force bool
}

// A Comparison is two results side by side.
type Comparison struct {
	Rows        []ComparedRow `json:"rows"`
	Regressions int           `json:"regressions"`
	Warnings    []string      `json:"warnings,omitempty"`
}

// Outcomes of a [ComparedRow].
const (
	Same       = "~"          // no difference that could not be chance
	Better     = "better"     // a difference, and to the good
	Tolerable  = "worse"      // a difference, within the tolerance
	Regression = "REGRESSION" // a difference, to the bad, and beyond the tolerance
	TooFew     = "too few"    // runs to say anything
	Missing    = "missing"    // on one side
	NotTrue    = "void"       // a side that cannot be believed
)

// A ComparedRow is a row of both sides.
type ComparedRow struct {
	Row     string  `json:"row"`
	Unit    string  `json:"unit"`
	Old     float64 `json:"old"` // median of the runs
	New     float64 `json:"new"`
	Change  float64 `json:"change"` // New/Old − 1
	P       float64 `json:"p"`      // of the Mann-Whitney U test: how likely chance alone does this
	OldRuns int     `json:"old_runs"`
	NewRuns int     `json:"new_runs"`
	Outcome string  `json:"outcome"`
	Why     string  `json:"why,omitempty"`
}

// Compare compares the rows that both have, by a rank test that assumes nothing
// about how runs are spread. Its error is [ErrOtherMachine].
func Compare(old, now *Results, opt CompareOptions) (*Comparison, error) {
	if opt.Tolerance == 0 {
		opt.Tolerance = 0.05
	}
	c := &Comparison{}
	if differ := otherMachine(old.Env, now.Env); differ != "" {
		if !opt.Force {
			return nil, fmt.Errorf("%w: %s", ErrOtherMachine, differ)
		}
		c.Warnings = append(c.Warnings, "different machines: "+differ)
	}
	for i := range old.Tests {
		a := &old.Tests[i]
		b := findTest(now.Tests, rowName(a.Name, a.Combo))
		if b == nil {
			c.Rows = append(c.Rows, ComparedRow{Row: rowName(a.Name, a.Combo), Unit: a.Unit, Old: a.Summary.Median, OldRuns: len(a.Runs), Outcome: Missing, Why: "not in the new results"})
			continue
		}
		row := compareRow(a, b, opt.Tolerance)
		if row.Outcome == Regression {
			c.Regressions++
		}
		c.Rows = append(c.Rows, row)
	}
	for i := range now.Tests {
		b := &now.Tests[i]
		if findTest(old.Tests, rowName(b.Name, b.Combo)) == nil {
			c.Rows = append(c.Rows, ComparedRow{Row: rowName(b.Name, b.Combo), Unit: b.Unit, New: b.Summary.Median, NewRuns: len(b.Runs), Outcome: Missing, Why: "not in the old results"})
		}
	}
	return c, nil
}

// otherMachine says in what two machines differ that matters, "" if in nothing.
func otherMachine(a, b Env) string {
	var differ []string
	add := func(what, x, y string) {
		if x != y {
			differ = append(differ, fmt.Sprintf("%s %.60s and %.60s", what, or(printable(x), "unknown"), or(printable(y), "unknown")))
		}
	}
	add("processor", a.CPU, b.CPU)
	add("kernel", a.Kernel, b.Kernel)
	add("system", a.OS+"/"+a.Arch, b.OS+"/"+b.Arch)
	add("GOMAXPROCS", fmt.Sprint(a.GOMAXPROCS), fmt.Sprint(b.GOMAXPROCS))
	return strings.Join(differ, ", ")
}

func compareRow(a, b *Test, tolerance float64) ComparedRow {
	row := ComparedRow{Row: rowName(a.Name, a.Combo), Unit: a.Unit, OldRuns: len(a.Runs), NewRuns: len(b.Runs), P: 1}
	x := benchmath.NewSample(values(a.Runs), &benchmath.DefaultThresholds)
	y := benchmath.NewSample(values(b.Runs), &benchmath.DefaultThresholds)
	if len(x.Values) > 0 {
		row.Old = a.Summary.Median
	}
	if len(y.Values) > 0 {
		row.New = b.Summary.Median
	}
	switch {
	case a.Unit != b.Unit || a.LowerIsBetter != b.LowerIsBetter || a.Size != b.Size || a.Conns != b.Conns:
		row.Outcome, row.Why = NotTrue, "not the same measure: unit, size or connections differ"
		return row
	case a.Verdict == Wrong || a.Verdict == Generator || b.Verdict == Wrong || b.Verdict == Generator:
		row.Outcome, row.Why = NotTrue, fmt.Sprintf("old is %s, new is %s", a.Verdict, b.Verdict)
		return row
	case len(x.Values) < compareRuns || len(y.Values) < compareRuns:
		row.Outcome, row.Why = TooFew, fmt.Sprintf("%d and %d runs, want at least %d a side", len(x.Values), len(y.Values), compareRuns)
		return row
	}
	if row.Old != 0 {
		row.Change = row.New/row.Old - 1
	}
	row.P = benchmath.AssumeNothing.Compare(x, y).P
	worse := row.Change
	if !a.LowerIsBetter {
		worse = -worse
	}
	switch {
	case row.P >= benchmath.DefaultThresholds.CompareAlpha || row.Change == 0:
		row.Outcome = Same
	case worse > tolerance:
		row.Outcome = Regression
	case worse > 0:
		row.Outcome = Tolerable
	default:
		row.Outcome = Better
	}
	return row
}

// String is the comparison for people.
func (c *Comparison) String() string {
	var b strings.Builder
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	width := len("row")
	for _, r := range c.Rows {
		width = max(width, len(r.Row))
	}
	fmt.Fprintf(&b, "%-*s  %12s  %12s  %8s  %7s  %5s\n", width, "row", "old", "new", "change", "p", "runs")
	for _, r := range c.Rows {
		change, p := "-", "-"
		if r.Outcome != Missing && r.Outcome != TooFew && r.Outcome != NotTrue {
			change, p = fmt.Sprintf("%+.1f%%", 100*r.Change), fmt.Sprintf("%.3f", r.P)
		}
		fmt.Fprintf(&b, "%-*s  %12s  %12s  %8s  %7s  %5s  %s", width, r.Row, figureOr(r.Old, r.OldRuns), figureOr(r.New, r.NewRuns), change, p,
			fmt.Sprintf("%d+%d", r.OldRuns, r.NewRuns), r.Outcome)
		if r.Why != "" {
			fmt.Fprintf(&b, ": %s", r.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func figureOr(v float64, runs int) string {
	if runs == 0 || math.IsNaN(v) {
		return "-"
	}
	return figure(v)
}

// Alternate adds the runs of one more turn of a side to what it has: rows are
// matched by name. It is how two binaries are compared that take turns.
func Alternate(sum, turn *Results) *Results {
	if sum == nil {
		return turn
	}
	for i := range turn.Tests {
		t := &turn.Tests[i]
		s := findTest(sum.Tests, rowName(t.Name, t.Combo))
		if s == nil {
			sum.Tests = append(sum.Tests, *t)
			continue
		}
		s.Runs = append(s.Runs, t.Runs...)
		s.Verdict = worse(s.Verdict, t.Verdict)
		latency := s.Summary.Latency
		s.Summary = summarize(s.Runs)
		s.Summary.Latency = latency // of the first turn: histograms are not merged here
	}
	sum.Env.Seconds += turn.Env.Seconds
	return sum
}
