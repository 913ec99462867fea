package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A contender is one row of the table.
type contender struct {
	name    string
	process string // in which of the processes it lives
	id      string // what that process calls it
	// What its tally can't be asked for.
	noSpaces, rawText, noTally bool
}

// The processes.
const (
	goUsual  = "go"
	goPure   = "go-purego"
	goPeers  = "peers"
	standard = "encoding/xml" // the row that all tallies are compared with
)

var rows = []contender{
	{name: standard, process: goUsual, id: "encoding/xml"},
	{name: "gosax", process: goUsual, id: "gosax", noSpaces: true},
	{name: "expat", process: goPeers, id: "expat"},
	{name: "libxml2", process: goPeers, id: "libxml2"},
	{name: "libxml2-push", process: goPeers, id: "libxml2-push"},
	{name: "pugixml", process: goPeers, id: "pugixml", noSpaces: true},
	{name: "scanner-purego", process: goPure, id: "scan", rawText: true},
	{name: "scanner", process: goUsual, id: "scan", rawText: true},
	{name: "scanner+text-purego", process: goPure, id: "scan+text"},
	{name: "scanner+text", process: goUsual, id: "scan+text"},
	{name: "decode-purego", process: goPure, id: "decode", noTally: true},
	{name: "decode", process: goUsual, id: "decode", noTally: true},
	{name: "decode+envelope", process: goUsual, id: "decode+envelope", noTally: true},
}

// A figure is of one contender on one family.
type figure struct {
	passes int             // of a slice
	slices []time.Duration // CPU time of each round
	cost   float64         // median, in nanoseconds for one octet
}

type results map[string]map[string]*figure // by row, then family

// mbs is in 10^6 octets a second; 0 where nothing was measured.
func (r results) mbs(row, family string) float64 {
	if f := r[row][family]; f != nil {
		return 1e3 / f.cost
	}
	return 0
}

// ratio is how many times faster a is than b.
func (r results) ratio(a, b, family string) float64 { return r[b][family].cost / r[a][family].cost }

// measure gives every contender a slice of each family by turns, round by round.
func measure(children map[string]*child, fams []family, rounds int, slice time.Duration) (results, error) {
	all := results{}
	for _, f := range fams {
		want, err := reference(children[goUsual], f)
		if err != nil {
			return nil, err
		}
		for _, c := range rows {
			if all[c.name] == nil {
				all[c.name] = map[string]*figure{}
			}
			passes, err := calibrate(children[c.process], c, f, slice, want)
			if err != nil {
				return nil, err
			}
			all[c.name][f.name] = &figure{passes: passes}
		}
	}
	for range rounds {
		for _, f := range fams {
			for _, c := range rows {
				fig := all[c.name][f.name]
				took, _, err := children[c.process].run(c.id, f.name, fig.passes)
				if err != nil {
					return nil, err
				}
				fig.slices = append(fig.slices, took)
			}
		}
	}
	for _, f := range fams {
		for _, c := range rows {
			fig := all[c.name][f.name]
			slices.Sort(fig.slices)
			cycles := fig.passes / len(f.variants)
			fig.cost = float64(fig.slices[len(fig.slices)/2]) / float64(cycles*f.size())
			if fig.cost <= 0 {
				return nil, fmt.Errorf("%s, %s: a slice took no time", c.name, f.name)
			}
		}
	}
	return all, nil
}

// reference is the tally of each family's variants together.
func reference(c *child, f family) (tally, error) {
	_, t, err := c.run(standard, f.name, len(f.variants))
	if err == nil && (t.starts == 0 || t.starts != t.ends || t.text == 0) {
		err = errors.New("the reference saw nothing: " + t.String())
	}
	return t, err
}

// calibrate finds how many passes, through all variants equally often, fill a
// slice, and checks that the contender does the work.
func calibrate(c *child, who contender, f family, slice time.Duration, want tally) (int, error) {
	for passes := len(f.variants); ; passes *= 2 {
		took, got, err := c.run(who.id, f.name, passes)
		if err != nil {
			return 0, err
		}
		want := want.times(uint64(passes / len(f.variants)))
		if who.noSpaces {
			got.spaced, want.spaced = 0, 0
		}
		if who.rawText {
			if got.text < want.text {
				return 0, fmt.Errorf("%s, %s: %d octets of text as written, less than the %d that they mean", who.name, f.name, got.text, want.text)
			}
			got.text, want.text = 0, 0
		}
		if got != want && !who.noTally {
			return 0, fmt.Errorf("%s, %s: saw %v, want %v as %s", who.name, f.name, &got, &want, standard)
		}
		if took >= slice/2 {
			return max(1, int(int64(passes/len(f.variants))*int64(slice)/int64(took))) * len(f.variants), nil
		}
	}
}
