package queue

import "time"

// clock is the time of a queue: it counts from when the queue was made, by the
// monotonic clock, so that no change of the wall clock makes a wait longer or
// shorter. Guarded by Queue.mu.
type clock struct {
	base  time.Time // with a monotonic reading
	wall  func() time.Time
	steps []step // of the wall clock, the older first
}

// step is a change of the wall clock that no time accounts for.
type step struct {
	at time.Duration // when it was noticed
	by time.Duration
}

func newClock(wall func() time.Time) clock {
	return clock{base: time.Now(), wall: wall}
}

func (c *clock) now() time.Duration { return time.Since(c.base) }

// at is when t is on this clock: exactly if t was taken by this process, else as
// the wall clock was when the queue was made.
func (c *clock) at(t time.Time) time.Duration { return t.Sub(c.base) }

// time is what the wall clock showed, or will show, at d.
func (c *clock) time(d time.Duration) time.Time {
	t := c.base.Round(0).Add(d)
	for _, s := range c.steps {
		if s.at <= d {
			t = t.Add(s.by)
		}
	}
	return t
}

// left is when the attempt after a is due, 0 for now. A wall clock that was set back
// makes no wait longer than it was meant to be.
func (c *clock) left(a *AttemptRecord) time.Duration {
	if a.NotBefore.IsZero() {
		return 0
	}
	now := c.now()
	wait := min(c.at(a.NotBefore)-now, a.NotBefore.Sub(a.At))
	if wait <= 0 {
		return 0
	}
	return now + wait
}
