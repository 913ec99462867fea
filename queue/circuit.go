package queue

import (
	"time"

	"soapway/internal/retry"
)

// circuit says whether a destination is taken for down (SPEC.md §4): its last
// outcomes were all unhealthy. It then has a clock of its own, on which it is
// probed, and no other message is charged an attempt. Its times are on the clock
// of the queue.
type circuit struct {
	failures int // unhealthy outcomes in a row
	open     bool
	denied   bool // open because the gateway's own credentials are refused
	// suspects are the messages that were refused in a row. While they are few any
	// other is tried at once: it tells whether it is the credentials or they.
	suspects int
	since    time.Duration
	probing  bool // a probe, or the one message behind it, is under way
	next     time.Duration
	wait     time.Duration
	last     string
}

// unhealthy counts an outcome and reports whether it opened the circuit. While
// it is open only the outcome of the scout moves the clock: attempts that began
// before it opened may still be coming back. draw is from [0,1).
func (c *circuit) unhealthy(cfg Destination, now time.Duration, draw float64, o *Outcome, scout bool) (opened bool) {
	c.failures++
	c.last = o.Reason
	if scout {
		c.failed(cfg, now, draw, o.Reason)
	}
	if opened = !c.open && c.failures >= cfg.Failures; opened {
		c.trip(cfg, now, draw, o.Reason)
	}
	if c.open && (opened || scout) {
		// The destination itself has said how long it will be (RFC 9110 §10.2.3).
		c.next = max(c.next, now+min(o.RetryAfter, retry.MaxRetryAfter))
	}
	return opened
}

// trip opens the circuit, unless it is open.
func (c *circuit) trip(cfg Destination, now time.Duration, draw float64, why string) (opened bool) {
	if c.open {
		return false
	}
	*c = circuit{failures: c.failures, open: true, since: now, wait: cfg.Initial, last: why}
	c.next = now + spread(c.wait, draw)
	return true
}

// failed sets the time of the next probe after one that failed.
func (c *circuit) failed(cfg Destination, now time.Duration, draw float64, reason string) {
	c.probing = false
	c.last = reason
	c.suspects = cfg.Failures // it is down, or was: no other message is tried out of turn
	c.wait = min(2*c.wait, cfg.Max)
	c.next = now + spread(c.wait, draw)
}

// spread varies a wait by a tenth, so that destinations that went down together
// are not all probed at the same moment.
func spread(wait time.Duration, draw float64) time.Duration {
	return wait + time.Duration(float64(wait)/10*(2*draw-1))
}

// healthy ends a row of failures and reports whether it closed the circuit.
func (c *circuit) healthy() (closed bool) {
	closed = c.open
	*c = circuit{}
	return closed
}
