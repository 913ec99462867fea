package bench

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// What a figure must keep to be believed (docs/bench.md says why).
const (
	maxSpread   = 0.05 // (max−min)/mean of the runs
	maxForeign  = 0.05 // of all processors, used by others
	maxSteal    = 0.02
	littleSlack = 0.05
	maxSlope    = 0.05 // change of the rate over a run, as a share of its mean
	maxLag      = 25 * time.Millisecond
	// interruption is what the system may take from a caller between two requests
	// once in a run: in a run of 50 messages it is more than 5 %.
	interruption = 2 * time.Millisecond
)

// judgeRun passes the verdicts that a run alone allows.
func judgeRun(r *Run, spec *Spec) {
	if total := r.Ops + r.Errors; r.Errors > 0 && float64(r.Errors) > spec.ErrorsAllowed*float64(total) {
		r.judge(Wrong, fmt.Sprintf("%d of %d replies failed or were wrong, first: %s", r.Errors, total, r.FirstError))
	}
	if r.Little != nil && math.Abs(*r.Little-1) > max(littleSlack, interruption.Seconds()/max(r.Seconds, 1e-9)) {
		r.judge(Invalid, fmt.Sprintf("Little's law: the callers are accounted for to %.0f %%, want 100 ± %.0f", 100**r.Little, 100*littleSlack))
	}
	if r.Lag != nil && r.Lag.P99 > float64(maxLag.Microseconds()) {
		r.judge(Generator, fmt.Sprintf("the sender was late by its own fault: p99 %.0f ms > %d ms", r.Lag.P99/1e3, maxLag.Milliseconds()))
	}
	if s, ok := slope(r.Series); ok && math.Abs(s) > maxSlope {
		// The runs may agree all the same: this is for the reader, no verdict.
		r.Reasons = append(r.Reasons, fmt.Sprintf("not steady, the rate changed by %+.0f %% within the run: lengthen --warmup", 100*s))
	}
}

// judgeStrangers marks a run during which others used the machine. The shares
// are over wall, and exact to two ticks.
func judgeStrangers(r *Run, wall time.Duration) {
	slack := 0.0
	if wall < enough {
		slack = float64(20*time.Millisecond) / float64(wall)
	}
	pressure := ""
	if r.Pressure != nil {
		pressure = fmt.Sprintf(", some task waited for a processor %.0f %% of the time", 100**r.Pressure)
	}
	if r.Foreign != nil && *r.Foreign > maxForeign+slack {
		r.judge(Disturbed, fmt.Sprintf("%.0f %% of the machine was used by others%s", 100**r.Foreign, pressure))
	}
	if r.Steal != nil && *r.Steal > maxSteal+slack {
		r.judge(Disturbed, fmt.Sprintf("%.0f %% of the machine was given to other machines (steal)%s", 100**r.Steal, pressure))
	}
}

// judgeSpread says why runs disagree, or "" when they agree: when the largest
// and the smallest are within 5 % of the mean, or the 95 % interval of the mean
// is narrow enough. byInterval leaves only the latter.
func judgeSpread(values []float64, byInterval bool, ci float64) string {
	if len(values) < 2 {
		return ""
	}
	s := summarizeValues(values)
	narrow := s.CI95 != nil && *s.CI95 <= ci
	switch {
	case byInterval && narrow, !byInterval && s.Spread <= maxSpread, narrow:
		return ""
	case byInterval:
		return fmt.Sprintf("95 %% interval ± %.1f %% > %.1f %%", 100**s.CI95, 100*ci)
	}
	return fmt.Sprintf("spread %.0f %% > %.0f %%", 100*s.Spread, 100*maxSpread)
}

// judgeTest passes the verdict of a row and names what held it back.
func judgeTest(t *Test, spec *Spec, ci float64) {
	t.Verdict = Valid
	for i := range t.Runs {
		r := &t.Runs[i]
		t.Verdict = worse(t.Verdict, r.Verdict)
	}
	t.Reasons = reasonsOf(t.Runs)
	if why := judgeSpread(values(t.Runs), spec.ByInterval, ci); why != "" {
		t.Verdict = worse(t.Verdict, Invalid)
		t.Reasons = append(t.Reasons, why)
	}
	if len(t.Runs) == 0 {
		return
	}
	if t.Limit != nil && t.Summary.Mean > 0 && t.Limit.Value > 0 {
		eff := t.Summary.Mean / t.Limit.Value
		if t.LowerIsBetter {
			eff = 1 / eff
		}
		t.Eff = &eff
	}
	if t.Limiter = spec.Limiter; t.Limiter == "" {
		t.Limiter = limiter(t, spec)
	}
}

// reasonsOf lists the reasons of all runs: each kind once, with the runs that have
// it and the text of the first.
func reasonsOf(runs []Run) (reasons []string) {
	type kind struct {
		text  string
		runs  []int
		alike bool // other runs have other figures
	}
	var kinds []*kind
	byMask := map[string]*kind{}
	for i := range runs {
		for _, why := range runs[i].Reasons {
			mask := figures.ReplaceAllString(why, "#")
			k := byMask[mask]
			if k == nil {
				k = &kind{text: why}
				byMask[mask] = k
				kinds = append(kinds, k)
			}
			k.alike = k.alike || k.text != why
			k.runs = append(k.runs, i+1)
		}
	}
	for _, k := range kinds {
		why := k.text
		if len(runs) > 1 {
			why = runNumbers(k.runs) + ": " + why
		}
		if k.alike {
			why += fmt.Sprintf(" (run %d, the others are like it)", k.runs[0])
		}
		reasons = append(reasons, why)
	}
	return reasons
}

var figures = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// runNumbers writes 3, or 1-3, 5.
func runNumbers(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, fmt.Sprint(n[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		}
		i = j + 1
	}
	word := "run "
	if len(n) > 1 {
		word = "runs "
	}
	return word + strings.Join(parts, ", ")
}
