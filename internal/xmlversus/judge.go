package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A promise is one line of the output: how many times faster ours is than theirs,
// or a cost that must stay below a bound.
type promise struct {
	name       string
	got        float64
	must, goal float64 // 0: nothing is promised
	atMost     bool
}

func (p promise) verdict() string {
	reached := func(bound float64) bool { return p.got == bound || p.atMost == (p.got < bound) }
	hasMust, hasGoal := p.must != 0 || p.atMost, p.goal != 0 || p.atMost
	switch {
	case hasMust && !reached(p.must):
		return "MISSED"
	case hasGoal && reached(p.goal):
		return "goal"
	case hasMust:
		return "must"
	}
	return "-"
}

// String is the line: name, ratio, must, goal, verdict.
func (p promise) String() string {
	bound := func(b float64) string {
		if b == 0 && !p.atMost {
			return "-"
		}
		return fmt.Sprintf("%g", b)
	}
	return fmt.Sprintf("%s\t%.2f\t%s\t%s\t%s", p.name, p.got, bound(p.must), bound(p.goal), p.verdict())
}

// promises are judged on these results; vector says that the usual build has, on
// this machine, more than Go to work with.
func promises(r results, vector bool) (all []promise) {
	add := func(ours, theirs, family string, must, goal float64) {
		all = append(all, promise{name: family + ":" + ours + ":" + theirs, got: r.ratio(ours, theirs, family), must: must, goal: goal})
	}
	soap := []string{order2k, orders1m}
	for _, f := range soap {
		add("scanner-purego", "encoding/xml", f, 10, 14)
	}
	for _, f := range soap {
		if vector {
			add("scanner", "encoding/xml", f, 13, 20)
		} else {
			add("scanner", "encoding/xml", f, 10, 14)
		}
	}
	for _, f := range append(soap, base64of1m) {
		// Its two ways to read from memory: the one that is faster counts.
		libxml := "libxml2"
		if r.ratio("libxml2-push", libxml, f) > 1 {
			libxml = "libxml2-push"
		}
		add("scanner", libxml, f, 1.6, 2.3)
		add("scanner", "expat", f, 3, 4.5)
		add("scanner", "pugixml", f, 0, 0.6)
		add("scanner", "gosax", f, 0, 0)
	}
	add("decode", "encoding/xml", envelope1k, 10, 0)
	all = append(all, promise{
		name: envelope1k + ":decode+envelope:decode", got: 1 / r.ratio("decode+envelope", "decode", envelope1k), must: 1.5, goal: 1.5, atMost: true,
	})
	return all
}

// table prints the speeds.
func table(w io.Writer, r results, fams []family) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "MB/s\t")
	for _, f := range fams {
		fmt.Fprintf(t, "%s\t", f.name)
	}
	for _, c := range rows {
		fmt.Fprintf(t, "\n%s\t", c.name)
		for _, f := range fams {
			fmt.Fprintf(t, "%.0f\t", r.mbs(c.name, f.name))
		}
	}
	fmt.Fprintln(t)
	return t.Flush()
}
