package faultlab

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

const (
	deadTurn = time.Second
	// deadMost is how much slower, at the 99th percentile, messages may become for
	// others where one backend of fifty is dead.
	deadMost = 1.3
)

// oneDead measures how long messages take to their backends, by turns with two
// gateways that have fifty of them: of one gateway all are well, of the other one
// takes every connection and never answers. In a long run the ratio is asserted;
// in a short one it is said, since other work on the machine moves it.
func oneDead(t *testing.T, d time.Duration) {
	well, ill := newFifty(t, false), newFifty(t, true)
	var p99 [2][]time.Duration
	for turn, end := 0, time.Now().Add(max(d, 8*deadTurn)); time.Now().Before(end); turn++ {
		for i, f := range []*fifty{well, ill} {
			from := f.rec.now()
			c := f.send(16, 0, 10*time.Millisecond, 0, f.routes...)
			pause(deadTurn)
			c.halt()
			pause(100 * time.Millisecond) // the last ones arrive
			if turn > 0 {                 // the first is for warmth, and for the dead one to be found dead
				p99[i] = append(p99[i], f.percentile(from))
			}
		}
	}
	a, b := median(p99[0]), median(p99[1])
	ratio := float64(b) / float64(a)
	t.Logf("to the other backends, 99th percentile, median of %d turns: all well %v, one of %d dead %v: ratio %.2f, must %.2f", len(p99[0]), a, destinations, b, ratio, deadMost)
	if ratio > deadMost && *faultTime >= 10*time.Minute {
		t.Errorf("one dead backend makes the others' messages %.2f times slower, want at most %.2f", ratio, deadMost)
	}
	for _, f := range []*fifty{well, ill} {
		f.dead.down()
		f.dead.raw = nil
		f.dead.up()
		f.finish()
	}
}

// fifty is a lab with as many backends, the last of which may be dead.
type fifty struct {
	*lab
	dead *backend
}

func newFifty(t *testing.T, ill bool) *fifty {
	t.Helper()
	f := &fifty{lab: newLab(t)}
	node := newBackend(t, f.rec, f.seed, "flock")
	f.dead = newBackend(t, f.rec, f.seed, deadRoute)
	if ill {
		f.dead.raw = func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	}
	node.up()
	f.dead.up()
	plans := []plan{{name: deadRoute, node: f.dead}}
	for i := range destinations - 1 {
		plans = append(plans, plan{name: fmt.Sprintf("plant-%02d", i), node: node})
	}
	f.configure(plans...)
	f.start()
	return f
}

// percentile is the 99th of how long messages took from their senders to their
// backends, of those sent since, and not to the backend that may be dead.
func (f *fifty) percentile(since time.Duration) time.Duration {
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	arrived := map[string]time.Duration{}
	for i := range f.rec.h.Receipts {
		x := &f.rec.h.Receipts[i]
		if _, again := arrived[x.Key]; !again && x.At >= since {
			arrived[x.Key] = x.At
		}
	}
	var took []time.Duration
	for i := range f.rec.h.Ops {
		o := &f.rec.h.Ops[i]
		if o.Start < since || o.Route == deadRoute || o.Outcome != accepted {
			continue
		}
		at, ok := arrived[o.Key]
		if !ok {
			at = f.rec.now()
		}
		took = append(took, at-o.Start)
	}
	if len(took) == 0 {
		return time.Hour
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
