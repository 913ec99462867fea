package queue

import (
	"container/heap"
	"context"
	"time"
)

// destState is a destination: its circuit, its pace, and which of its messages has
// its turn. Guarded by Queue.mu.
type destState struct {
	q      *Queue
	cfg    Destination
	routes []*routeState
	turn   int // index of the route whose turn is next
	flying int
	aloft  int // batches, and messages that go alone, under way over a link

	poked bool          // in agenda.poked
	alarm time.Duration // in agenda.alarms, on the clock of the queue
	place int           // in agenda.alarms, -1 if it is not there

	circuit   circuit
	scout     *item // the one message that is tried while the circuit is open
	pace      pace
	quiet     time.Duration // the destination has asked for no attempt before
	held      bool          // by an operator
	delivered time.Duration // when it took a message last
}

// agenda says which destinations the dispatcher has to look at: those at which
// something has happened, and those whose time has come. There is one dispatcher
// with one timer for all of them, so that a destination that is down costs some
// memory and nothing else. Guarded by Queue.mu.
type agenda struct {
	poked  []*destState
	alarms alarms
	wake   chan struct{}
}

func newAgenda() agenda { return agenda{wake: make(chan struct{}, 1)} }

// poke makes the dispatcher look again.
func (d *destState) poke() {
	if d.poked {
		return
	}
	d.poked = true
	d.q.agenda.poked = append(d.q.agenda.poked, d)
	select {
	case d.q.agenda.wake <- struct{}{}:
	default:
	}
}

// dispatch starts attempts until the queue stops.
func (q *Queue) dispatch(run *running) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		q.mu.Lock()
		list := q.agenda.poked
		q.agenda.poked = nil
		for _, d := range list {
			d.poked = false
		}
		now := q.clock.now()
		for len(q.agenda.alarms) > 0 && q.agenda.alarms[0].alarm <= now {
			list = append(list, heap.Pop(&q.agenda.alarms).(*destState))
		}
		q.mu.Unlock()

		for _, d := range list {
			q.mu.Lock()
			if wait := d.startDue(run); wait < idleWait {
				q.agenda.alarms.set(d, q.clock.now()+wait)
			} else {
				q.agenda.alarms.clear(d)
			}
			q.mu.Unlock()
		}
		if len(list) > 0 && run.ctx.Err() == nil {
			continue // meanwhile there may be more
		}

		q.mu.Lock()
		wait := idleWait
		if a := q.agenda.alarms; len(a) > 0 {
			wait = max(0, a[0].alarm-q.clock.now())
		}
		q.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-run.ctx.Done():
			return
		case <-q.agenda.wake:
		case <-timer.C:
		}
	}
}

// alarms is a heap of the destinations that have to be looked at some time, by
// that time.
type alarms []*destState

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].alarm < h[j].alarm }

func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *alarms) Push(x any) {
	d := x.(*destState)
	d.place = len(*h)
	*h = append(*h, d)
}

func (h *alarms) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	d.place = -1
	return d
}

func (h *alarms) set(d *destState, at time.Duration) {
	d.alarm = at
	if d.place < 0 {
		heap.Push(h, d)
		return
	}
	heap.Fix(h, d.place)
}

func (h *alarms) clear(d *destState) {
	if d.place >= 0 {
		heap.Remove(h, d.place)
	}
}

// asleep reports whether one message more changes nothing: no attempt is made
// before a hold, a probe or an attempt ends, which pokes, or before the alarm that
// is set. Without it each message of the log would wake the dispatcher in vain while
// it is read for destinations that are down.
func (d *destState) asleep() bool {
	c := &d.circuit
	return d.held || c.open && !c.doubted(d.cfg) && (c.probing || d.place >= 0)
}

// idleWait says that nothing is due: the destination is looked at again when
// something happens.
const idleWait = time.Hour

// startDue starts every attempt, or the probe, whose time has come, and returns
// how long to wait for the next; idleWait is for ever.
func (d *destState) startDue(run *running) time.Duration {
	for run.ctx.Err() == nil {
		now := d.q.clock.now()
		switch {
		case d.held:
			return idleWait
		case d.circuit.open:
			return d.startProbe(run, now)
		case now < d.quiet:
			return min(d.quiet-now, idleWait-1)
		case !d.room():
			return idleWait
		}
		it := d.pick(now, false)
		switch {
		case it == nil:
			return d.untilDue(now)
		case d.batches() && it.size <= aloneFrom:
			d.launchAll(run, d.batch(now, it))
		default:
			d.launch(run, it)
		}
	}
	return idleWait
}

// room reports whether one more attempt may begin. A link is not felt for.
func (d *destState) room() bool {
	switch {
	case d.batches():
		return d.aloft < batchesAloft
	case d.cfg.Link != "":
		return d.flying < d.cfg.Parallel
	}
	return d.pace.room(d.flying, d.cfg.Parallel)
}

// pick takes the next item, the routes of the destination in turn.
func (d *destState) pick(now time.Duration, early bool) *item {
	for i := range d.routes {
		k := (d.turn + i) % len(d.routes)
		r := d.routes[k]
		if r.waits() {
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

// waits reports whether no attempts are made for the route at present.
func (r *routeState) waits() bool { return r.paused || r.blocked }

// untilDue is how long it is until the first delayed item is due.
func (d *destState) untilDue(now time.Duration) time.Duration {
	wait := idleWait
	for _, r := range d.routes {
		if !r.waits() && len(r.delayed) > 0 {
			wait = min(wait, max(0, r.delayed[0].due()-now), idleWait-1)
		}
	}
	return wait
}

// launch starts an attempt of an item that pick has taken.
func (d *destState) launch(run *running, it *item) {
	d.fly(it)
	d.aloft++
	run.wg.Go(func() {
		d.q.attempt(run, d, it)
		d.landed()
	})
}

// fly takes up that an attempt of an item begins.
func (d *destState) fly(it *item) {
	it.where = inFlight
	it.route.flying++
	d.flying++
}

// landed takes up that what was launched is over.
func (d *destState) landed() {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	d.aloft--
	d.poke()
}

// startProbe asks, when its time has come, whether a destination that is down
// can be reached; only then one message is tried.
func (d *destState) startProbe(run *running, now time.Duration) time.Duration {
	c := &d.circuit
	switch {
	case c.probing || !d.hasWork():
		return idleWait
	case now < c.next && !(c.doubted(d.cfg) && d.hasReady()):
		return min(c.next-now, idleWait-1)
	}
	c.probing = true
	run.wg.Go(func() { d.probe(run) })
	return idleWait
}

// hasWork reports whether any message waits for the destination: one that
// nothing waits for is not probed.
func (d *destState) hasWork() bool {
	for _, r := range d.routes {
		if !r.waits() && (r.first() != nil || len(r.delayed) > 0) {
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
	if run.ctx.Err() != nil || d.held {
		d.circuit.probing = false
		return
	}
	now := q.clock.now()
	if err != nil {
		d.circuit.failed(d.cfg, now, q.opt.Rand(), err.Error())
		return
	}
	it := d.pick(now, false)
	if it == nil {
		it = d.pick(now, true)
	}
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
