package queue

import (
	"context"
	"time"
)

// destState is a destination: its circuit, and the dispatcher that gives its
// messages their turn. Guarded by Queue.mu.
type destState struct {
	q       *Queue
	cfg     Destination
	routes  []*routeState
	turn    int // index of the route whose turn is next
	flying  int
	started bool
	wake    chan struct{}

	circuit circuit
	scout   *item // the one message that is tried while the circuit is open
}

// poke makes the dispatcher look again.
func (d *destState) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// dispatch starts attempts until the queue stops.
func (d *destState) dispatch(run *running) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := d.startDue(run)
		timer.Reset(wait)
		select {
		case <-run.ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// idleWait is how long a dispatcher sleeps when nothing is due; it is woken
// when something happens.
const idleWait = time.Hour

// startDue starts every attempt, or the probe, whose time has come, and returns
// how long to wait for the next.
func (d *destState) startDue(run *running) time.Duration {
	q := d.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for run.ctx.Err() == nil {
		now := time.Now()
		if d.circuit.open {
			return d.startProbe(run, now)
		}
		if d.flying >= d.cfg.Parallel {
			return idleWait
		}
		it := d.pick(now, false)
		if it == nil {
			return d.untilDue(now)
		}
		d.launch(run, it)
	}
	return idleWait
}

// pick takes the next item, the routes of the destination in turn.
func (d *destState) pick(now time.Time, early bool) *item {
	for i := range d.routes {
		k := (d.turn + i) % len(d.routes)
		r := d.routes[k]
		if r.paused {
			continue
		}
		r.promote(now)
		if it := r.next(early); it != nil {
			d.turn = (k + 1) % len(d.routes)
			return it
		}
	}
	return nil
}

// untilDue is how long it is until the first delayed item is due.
func (d *destState) untilDue(now time.Time) time.Duration {
	wait := idleWait
	for _, r := range d.routes {
		if !r.paused && len(r.delayed) > 0 {
			wait = min(wait, r.delayed[0].due.Sub(now))
		}
	}
	return max(wait, 0)
}

// launch starts an attempt of an item that pick has taken.
func (d *destState) launch(run *running, it *item) {
	it.where = inFlight
	it.route.flying++
	d.flying++
	run.wg.Go(func() { d.q.attempt(run, d, it) })
}

// startProbe asks, when its time has come, whether a destination that is down
// can be reached; only then one message is tried.
func (d *destState) startProbe(run *running, now time.Time) time.Duration {
	c := &d.circuit
	switch {
	case c.probing || !d.hasWork():
		return idleWait
	case now.Before(c.next):
		return c.next.Sub(now)
	}
	c.probing = true
	run.wg.Go(func() { d.probe(run) })
	return idleWait
}

// hasWork reports whether any message waits for the destination: one that
// nothing waits for is not probed.
func (d *destState) hasWork() bool {
	for _, r := range d.routes {
		if !r.paused && (r.ready.peek() != nil || len(r.delayed) > 0) {
			return true
		}
	}
	return false
}

// probeTimeout bounds one probe.
const probeTimeout = 10 * time.Second

func (d *destState) probe(run *running) {
	ctx, cancel := context.WithTimeout(run.ctx, probeTimeout)
	err := d.q.deliv.Probe(ctx, d.cfg.Name)
	cancel()

	q := d.q
	q.mu.Lock()
	defer q.mu.Unlock()
	defer d.poke()
	if run.ctx.Err() != nil {
		d.circuit.probing = false
		return
	}
	if err != nil {
		d.circuit.failed(d.cfg, time.Now(), err.Error())
		return
	}
	it := d.pick(time.Now(), true)
	if it == nil {
		d.circuit.probing = false // paused or dropped meanwhile; the next message asks again
		return
	}
	d.scout = it
	d.launch(run, it)
}

// recall forgets that it was the one message tried, and reports whether it was.
func (d *destState) recall(it *item) bool {
	if d.scout != it {
		return false
	}
	d.scout = nil
	d.circuit.probing = false
	return true
}

// circuit says whether a destination is taken for down (SPEC.md §4): its last
// outcomes were all unhealthy. It then has a clock of its own, on which it is
// probed, and no other message is charged an attempt.
type circuit struct {
	failures int // unhealthy outcomes in a row
	open     bool
	since    time.Time
	probing  bool // a probe, or the one message behind it, is under way
	next     time.Time
	wait     time.Duration
	last     string
}

// unhealthy counts an outcome and reports whether it opened the circuit. While
// it is open only the outcome of the scout moves the clock: attempts that began
// before it opened may still be coming back.
func (c *circuit) unhealthy(cfg Destination, now time.Time, reason string, scout bool) (opened bool) {
	c.failures++
	c.last = reason
	if scout {
		c.failed(cfg, now, reason)
	}
	if c.open || c.failures < cfg.Failures {
		return false
	}
	c.open, c.since, c.probing = true, now, false
	c.wait = cfg.Initial
	c.next = now.Add(c.wait)
	return true
}

// failed sets the time of the next probe after one that failed.
func (c *circuit) failed(cfg Destination, now time.Time, reason string) {
	c.probing = false
	c.last = reason
	c.wait = min(2*c.wait, cfg.Max)
	c.next = now.Add(c.wait)
}

// healthy ends a row of failures and reports whether it closed the circuit.
func (c *circuit) healthy() (closed bool) {
	closed = c.open
	*c = circuit{}
	return closed
}
