package bench

import (
	"fmt"
	"strings"
)

// The exit codes of the commands.
const (
	ExitOK         = 0
	ExitInternal   = 1
	ExitUsage      = 2
	ExitInvalid    = 3 // a row cannot be believed: noise, the generator, Little's law
	ExitThreshold  = 4 // --require was not met
	ExitRegression = 5 // worse than --baseline
	ExitWrong      = 6 // replies failed or were wrong
)

// ExitCode is the code for results without an internal error: wrong replies come
// first, since figures of them mean nothing; then what was asked for and not met,
// on rows that can be believed; then rows that cannot. regression says that the
// comparison with a baseline found one.
func ExitCode(r *Results, regression bool) int {
	worst := Valid
	for i := range r.Tests {
		worst = worse(worst, r.Tests[i].Verdict)
	}
	failed, void := false, false
	for _, c := range r.Require {
		failed = failed || !c.OK && !c.Void
		void = void || c.Void
	}
	switch {
	case worst == Wrong:
		return ExitWrong
	case failed:
		return ExitThreshold
	case regression:
		return ExitRegression
	case void, worst == Invalid, worst == Generator:
		return ExitInvalid
	}
	return ExitOK
}

// Conclude writes the verdict of r for people: whether all is well and how many
// rows are not plainly valid.
func Conclude(r *Results, code int) {
	counts := map[Verdict]int{}
	for i := range r.Tests {
		counts[r.Tests[i].Verdict]++
	}
	word := "ok"
	switch code {
	case ExitInvalid:
		word = "invalid"
	case ExitThreshold:
		word = "threshold failed"
	case ExitRegression:
		word = "regression"
	case ExitWrong:
		word = "wrong replies"
	}
	var parts []string
	for _, v := range []Verdict{Valid, Disturbed, Generator, Invalid, Wrong} {
		if n := counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	r.Verdict = word
	if len(parts) > 0 {
		r.Verdict += ": " + strings.Join(parts, ", ")
	}
	r.Verdict += whyNot(r)
}

// namedRows is how many rows a verdict names that are not plainly valid.
const namedRows = 3

// whyNot names the worst rows and why they are not valid, in brackets.
func whyNot(r *Results) string {
	var why []string
	for _, v := range []Verdict{Wrong, Invalid, Generator, Disturbed} {
		for i := range r.Tests {
			t := &r.Tests[i]
			if t.Verdict != v {
				continue
			}
			reason := rowName(t.Name, t.Combo)
			if n := len(t.Reasons); n > 0 {
				reason += ": " + t.Reasons[n-1] // that of the whole row, if it has one
			}
			why = append(why, reason)
		}
	}
	if len(why) == 0 {
		return ""
	}
	more := ""
	if n := len(why) - namedRows; n > 0 {
		why, more = why[:namedRows], fmt.Sprintf("; and %d more", n)
	}
	return " (" + strings.Join(why, "; ") + more + ")"
}
