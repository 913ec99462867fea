package bench

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// comparedRow makes a row with these values.
func comparedRow(name, combo, unit string, lower bool, values ...float64) Test {
	t := Test{Name: name, Combo: combo, Unit: unit, LowerIsBetter: lower, Verdict: Valid}
	for _, v := range values {
		t.Runs = append(t.Runs, Run{Value: v})
	}
	t.Summary = summarize(t.Runs)
	return t
}

func resultsOf(tests ...Test) *Results {
	return &Results{Schema: Schema, Env: Env{CPU: "cpu", Kernel: "6.18", OS: "linux", Arch: "amd64", GOMAXPROCS: 2}, Tests: tests}
}

// TestCompare prints what every kind of difference looks like.
func TestCompare(t *testing.T) {
	wrong := comparedRow("ping", "rr", "messages/s", false, 1, 2, 3, 4)
	wrong.Verdict = Wrong
	old := resultsOf(
		comparedRow("ping", "hh", "messages/s", false, 100, 101, 102, 103, 104),
		comparedRow("ping", "ff", "messages/s", false, 100, 101, 102, 103, 104),
		comparedRow("ping", "rh", "messages/s", false, 100, 101, 102, 103, 104),
		comparedRow("ping", "hr", "messages/s", false, 100, 101, 102, 103, 104),
		wrong,
		comparedRow("startup", "", "s", true, 0.070, 0.071, 0.072, 0.073, 0.074),
		comparedRow("web", "", "requests/s", false, 1, 2, 3),
		comparedRow("mem", "", "B", true, 1000, 1000, 1000, 1000),
		comparedRow("gone", "", "x", false, 1, 2, 3, 4),
		comparedRow("unit", "", "x", false, 1, 2, 3, 4),
	)
	now := resultsOf(
		comparedRow("ping", "hh", "messages/s", false, 80, 81, 82, 83, 84),
		comparedRow("ping", "ff", "messages/s", false, 130, 131, 132, 133, 134),
		comparedRow("ping", "rh", "messages/s", false, 96, 97, 98, 99, 99.5),
		comparedRow("ping", "hr", "messages/s", false, 99, 100.5, 102.5, 103.5, 105),
		comparedRow("ping", "rr", "messages/s", false, 1, 2, 3, 4),
		comparedRow("startup", "", "s", true, 0.090, 0.091, 0.092, 0.093, 0.094),
		comparedRow("web", "", "requests/s", false, 1, 2, 3, 4, 5),
		comparedRow("mem", "", "B", true, 1000, 1000, 1000, 1000),
		comparedRow("unit", "", "y", false, 1, 2, 3, 4),
		comparedRow("fresh", "", "x", false, 1, 2, 3, 4),
	)
	cmp, err := Compare(old, now, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Regressions != 2 {
		t.Errorf("%d regressions, want ping.hh and startup", cmp.Regressions)
	}
	checkText(t, "testdata/compare.txt", cmp.String())
}

// TestCompareMachines: results of different machines are refused, and what
// differs is said.
func TestCompareMachines(t *testing.T) {
	a, b := resultsOf(comparedRow("ping", "hh", "messages/s", false, 1, 2, 3, 4)), resultsOf(comparedRow("ping", "hh", "messages/s", false, 1, 2, 3, 4))
	b.Env.Kernel, b.Env.GOMAXPROCS = "6.19", 8
	_, err := Compare(a, b, CompareOptions{})
	if !errors.Is(err, ErrOtherMachine) || !strings.Contains(err.Error(), "kernel 6.18 and 6.19, GOMAXPROCS 2 and 8") {
		t.Errorf("Compare: %v, want %v and what differs", err, ErrOtherMachine)
	}
	cmp, err := Compare(a, b, CompareOptions{Force: true})
	if err != nil || len(cmp.Warnings) != 1 {
		t.Errorf("Compare with Force: %v, %v, want a warning", cmp, err)
	}
}

// TestCompareTolerance: the same difference is a regression or not by what is
// tolerated.
func TestCompareTolerance(t *testing.T) {
	a := resultsOf(comparedRow("ping", "hh", "messages/s", false, 100, 101, 102, 103, 104))
	b := resultsOf(comparedRow("ping", "hh", "messages/s", false, 90, 91, 92, 93, 94))
	for tolerance, want := range map[float64]string{0.05: Regression, 0.2: Tolerable} {
		cmp, err := Compare(a, b, CompareOptions{Tolerance: tolerance})
		if err != nil {
			t.Fatal(err)
		}
		if got := cmp.Rows[0].Outcome; got != want {
			t.Errorf("tolerance %v: %s, want %s", tolerance, got, want)
		}
	}
}

// TestAlternate: turns of one run each add up to rows of many.
func TestAlternate(t *testing.T) {
	var sum *Results
	for i := range 5 {
		turn := resultsOf(comparedRow("ping", "hh", "messages/s", false, float64(100+i)))
		if i == 3 {
			turn.Tests[0].Verdict = Disturbed
			turn.Tests = append(turn.Tests, comparedRow("ping", "ff", "messages/s", false, 7))
		}
		sum = Alternate(sum, turn)
	}
	if len(sum.Tests) != 2 || len(sum.Tests[0].Runs) != 5 || sum.Tests[0].Summary.Median != 102 || sum.Tests[0].Verdict != Disturbed {
		t.Errorf("%+v", sum.Tests)
	}
}

// TestFoundingTable prints every measure beside what a self-test found.
func TestFoundingTable(t *testing.T) {
	checkText(t, "testdata/founding.txt", FoundingTable(demoResults(t)))
}

// TestExplain: every text is there, and fits a terminal.
func TestExplain(t *testing.T) {
	for _, name := range Explained() {
		text, ok := Explain(name + ".hh")
		if !ok || !strings.HasPrefix(text, name+":") {
			t.Errorf("Explain(%s.hh): %.40q, %v", name, text, ok)
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(line)); n > 81 {
				t.Errorf("%s: a line of %d characters: %s", name, n, line)
			}
		}
	}
	if text, ok := Explain("nothing"); ok {
		t.Errorf("Explain(nothing): %q", text)
	}
}

// checkText compares got with a golden file, which -update writes anew.
func checkText(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s, got\n%s", file, want, got)
	}
}
