package queue

import (
	"net/http"
	"time"

	"soapway/internal/retry"
)

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
	switch now := q.clock.now(); {
	case !up:
		if d.circuit.trip(d.cfg, now, q.opt.Rand(), why) {
			q.opened(d, why)
		}
	case d.circuit.denied: // whether its credentials are good shows only a message
	case d.circuit.open && !d.hasWork() && d.flying == 0:
		q.closed(d, now) // nothing waits that could show it
	case d.circuit.open && !d.circuit.probing:
		d.circuit.next = now
	}
	d.poke()
}

// health tells the circuit and the pace of a destination of an outcome. mu is held.
func (q *Queue) health(d *destState, o *Outcome, scout bool) {
	now := q.clock.now()
	if o.Verdict == Delivered {
		d.delivered = now
	}
	switch {
	case o.Unhealthy:
		d.pace.failed(d.cfg.Parallel)
		if d.circuit.unhealthy(d.cfg, now, q.opt.Rand(), o, scout) {
			q.opened(d, o.Reason)
		}
		return
	case o.busy():
		d.pace.failed(d.cfg.Parallel)
		d.quiet = max(d.quiet, now+min(o.RetryAfter, retry.MaxRetryAfter))
	default:
		d.pace.succeeded(d.cfg.Parallel)
	}
	q.closed(d, now)
}

// busy reports an answer that asks to come back later with less: it is about the
// destination and not about the message.
func (o *Outcome) busy() bool {
	return o.Status == http.StatusTooManyRequests || o.Status == http.StatusServiceUnavailable
}

// opened tells that a destination is down. mu is held.
func (q *Queue) opened(d *destState, why string) {
	q.opt.Observer.Circuit(d.cfg.Name, true)
	q.opt.Log.Warn("destination is down", "destination", d.cfg.Name, "failures", d.circuit.failures, "reason", why)
}

// closed closes the circuit of a destination if it is open, and tells so. mu is
// held.
func (q *Queue) closed(d *destState, now time.Duration) {
	since := d.circuit.since
	if !d.circuit.healthy() {
		return
	}
	d.pace = newPace()
	q.opt.Observer.Circuit(d.cfg.Name, false)
	q.opt.Log.Info("destination is back", "destination", d.cfg.Name, "down", (now - since).Round(time.Millisecond))
	for _, r := range d.routes {
		r.hasten(false)
	}
}
