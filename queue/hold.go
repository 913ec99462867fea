package queue

import (
	"context"
	"slices"
	"time"
)

// Held says why a destination gets no attempts although it can be reached.
type Held string

// The reasons for a hold; none is "".
const (
	// HeldByOperator: until [Queue.Release], also over a restart.
	HeldByOperator Held = "operator"
	// HeldByCredentials: the destination refuses the credentials that are the
	// gateway's own, so that every message would be refused. It is asked again with
	// one message at a time, on a slow clock, and goes on once it takes one.
	HeldByCredentials Held = "credentials"
)

// heldState prefixes the names of the states that say a destination is held by an
// operator.
const heldState = "held."

// The clock on which a destination is asked again that has refused the gateway's
// credentials: a wrong password that is tried too often locks accounts.
const (
	deniedFirst = time.Minute
	deniedMost  = 10 * time.Minute
)

// Hold keeps the destination of a route from getting attempts, from any route,
// until Release, also over a restart. Attempts under way end; messages go on to
// expire. ErrNoRoute, also where the route is gone.
func (q *Queue) Hold(ctx context.Context, route string) error { return q.setHeld(ctx, route, true) }

// Release ends a hold of the destination of a route: at once if an operator has
// made it, and by asking at once if its credentials have. ErrNoRoute.
func (q *Queue) Release(ctx context.Context, route string) error {
	return q.setHeld(ctx, route, false)
}

func (q *Queue) setHeld(ctx context.Context, route string, held bool) error {
	q.mu.Lock()
	r := q.routes[route]
	if r == nil || r.dest == nil {
		q.mu.Unlock()
		return ErrNoRoute
	}
	d := r.dest
	name := d.cfg.Name
	q.mu.Unlock()
	var v []byte
	if held {
		v = []byte(q.opt.Wall().UTC().Format(time.RFC3339))
	}
	if err := q.store.SaveState(ctx, heldState+name, v); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	d.held = held
	if !held {
		d.circuit.next = 0
	}
	d.poke()
	return nil
}

// Renewed says that the settings of a destination have changed: if it has refused
// the credentials of the gateway it is asked again at once. It may be called at any
// time, for any name.
func (q *Queue) Renewed(destination string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.dests[destination]; d != nil && d.circuit.denied {
		d.circuit.next, d.circuit.wait = 0, deniedFirst
		d.poke()
	}
}

// why is what holds the destination.
func (d *destState) why() Held {
	switch {
	case d.held:
		return HeldByOperator
	case d.circuit.denied:
		return HeldByCredentials
	}
	return ""
}

// denied holds a destination that has refused the gateway's own credentials with a
// message, which waits without having been charged an attempt. It reports false
// where that message alone is refused: another has been delivered since it was
// refused before.
func (q *Queue) denied(d *destState, it *item, o *Outcome, scout bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, x := q.clock.now(), it.extra()
	if x.denied != 0 && d.delivered >= x.denied {
		return false
	}
	if x.denied == 0 || x.denied < d.circuit.since {
		d.circuit.suspects++
	}
	x.denied = now
	if d.circuit.deny(now, q.opt.Rand(), o.Reason, scout) {
		q.opt.Observer.Circuit(d.cfg.Name, true)
		q.opt.Log.Error("destination refuses the credentials of the gateway; its messages wait", "destination", d.cfg.Name, "reason", o.Reason)
	}
	return true
}

// deny holds the destination and reports whether it was not held so before.
func (c *circuit) deny(now time.Duration, draw float64, why string, scout bool) (opened bool) {
	switch opened = !c.denied; {
	case opened:
		*c = circuit{open: true, denied: true, suspects: 1, since: now, probing: c.probing, wait: deniedFirst}
		c.next = now + spread(c.wait, draw)
	case scout:
		c.wait = min(2*max(c.wait, deniedFirst/2), deniedMost)
		c.next = now + spread(c.wait, draw)
	}
	c.last = why
	return opened
}

// doubted reports whether the destination is held by the refusal of few messages.
func (c *circuit) doubted(cfg Destination) bool { return c.denied && c.suspects < cfg.Failures }

// hasReady reports whether a message waits for its turn only.
func (d *destState) hasReady() bool {
	return slices.ContainsFunc(d.routes, func(r *routeState) bool { return !r.paused && r.first() != nil })
}

// wait makes a message wait whose attempt is not charged to it.
func (q *Queue) wait(d *destState, it *item, o *Outcome) {
	now := time.Now()
	note := AttemptRecord{At: now, Status: o.Status, Reason: o.Reason, NotBefore: now.Add(deniedFirst)}
	q.mu.Lock()
	if h := it.history(); len(h) > 0 {
		if last := &h[len(h)-1]; last.N == 0 && !last.Maybe && last.Reason == o.Reason {
			it.setHistory(slices.Clip(h[:len(h)-1])) // one of them tells as much as many
		}
	}
	q.mu.Unlock()
	back := *o
	back.Unhealthy, back.RetryAfter = true, 0 // a recovery of the destination makes it due
	q.again(d, it, note, back)
}
