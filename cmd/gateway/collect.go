package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// leastGarbage is how much may lie about before it is collected, however
	// little is alive. A gateway that keeps little has a heap of 2 MiB; by the rule
	// that a heap may double it was collected for every 400 exchanges, for a
	// twelfth of its time.
	leastGarbage = 16 << 20

	// usual is the runtime's own percentage.
	usual = 100
)

// calm has the garbage collector wait for leastGarbage where the heap is small. A
// large heap doubles as ever, so that what bounds the memory for connections and
// messages bounds it still. It changes nothing where GOGC does. It holds for the
// process until stop is called.
func calm() (stop func()) {
	if before := debug.SetGCPercent(usual); before != usual {
		debug.SetGCPercent(before)
		return func() {}
	}
	c := &collector{percent: usual, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.watch()
	return func() {
		c.stopped.Store(true)
		debug.SetGCPercent(usual)
	}
}

type collector struct {
	stopped atomic.Bool

	// Only finalizers use these, of which one runs at a time.
	percent int
	live    []metrics.Sample
}

// A cycle is garbage at once, so that its finalizer tells the end of a run.
type cycle struct{ c *collector }

func (c *collector) watch() {
	runtime.SetFinalizer(&cycle{c}, func(y *cycle) {
		if !y.c.stopped.Load() {
			y.c.adjust()
			y.c.watch()
		}
	})
}

// adjust follows what is alive, in steps: each stops the world for a moment.
func (c *collector) adjust() {
	metrics.Read(c.live)
	want := percentFor(c.live[0].Value.Uint64())
	if want*8 < c.percent*7 || want*7 > c.percent*8 {
		c.percent = want
		debug.SetGCPercent(want)
	}
}

// percentFor is by how much a heap of which so much is alive may grow.
func percentFor(live uint64) int {
	return int(max(usual, leastGarbage*100/max(live, 1<<20)))
}
