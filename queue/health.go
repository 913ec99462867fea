package queue

import "time"

// Tell says what is known of a destination from elsewhere, such as from messages
// that are not stored and from health checks: that it is down, and why, or that
// something has shown it to be up again. A destination that is down is not
// charged attempts to find that out; one that is up again is asked at once, and
// not when its clock would have come to it. It may be called at any time, for
// any name.
func (q *Queue) Tell(destination string, up bool, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.dests[destination]
	if d == nil {
		return
	}
	switch now := time.Now(); {
	case !up:
		if d.circuit.trip(d.cfg, now, why) {
			q.opened(d, why)
		}
	case d.circuit.open && !d.hasWork() && d.flying == 0:
		q.closed(d, now) // nothing waits that could show it
	case d.circuit.open && !d.circuit.probing:
		d.circuit.next = now
	}
	d.poke()
}

// trip opens the circuit, unless it is open.
func (c *circuit) trip(cfg Destination, now time.Time, why string) (opened bool) {
	if c.open {
		return false
	}
	*c = circuit{failures: c.failures, open: true, since: now, wait: cfg.Initial, next: now.Add(cfg.Initial), last: why}
	return true
}

// opened tells that a destination is down. mu is held.
func (q *Queue) opened(d *destState, why string) {
	q.opt.Observer.Circuit(d.cfg.Name, true)
	q.opt.Log.Warn("destination is down", "destination", d.cfg.Name, "failures", d.circuit.failures, "reason", why)
}

// closed closes the circuit of a destination if it is open, and tells so. mu is
// held.
func (q *Queue) closed(d *destState, now time.Time) {
	since := d.circuit.since
	if !d.circuit.healthy() {
		return
	}
	q.opt.Observer.Circuit(d.cfg.Name, false)
	q.opt.Log.Info("destination is back", "destination", d.cfg.Name, "down", now.Sub(since).Round(time.Millisecond))
	for _, r := range d.routes {
		r.hasten(false)
	}
}
