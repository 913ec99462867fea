package queue

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// clock is the time of a queue: it counts from when the queue was made, by the
// monotonic clock, so that no change of the wall clock makes a wait longer or
// shorter. The wall clock counts for what was stored by an earlier process, and is
// watched: after it has jumped ahead nothing expires for a while (SPEC.md §4).
// Guarded by Queue.mu.
type clock struct {
	base  time.Time        // with a monotonic reading
	start time.Time        // what the wall clock showed at base
	wall  func() time.Time // the wall clock
	seen  time.Time        // what it showed at last
	at    time.Duration    // when that was
	steps []step           // of the wall clock, the older first
	calm  time.Duration    // nothing expires before
}

// step is a change of the wall clock that no time accounts for.
type step struct {
	at time.Duration // when it was noticed
	by time.Duration
}

const (
	// smallStep is how far the wall clock may go astray in a second or so: less is
	// a clock that is being corrected.
	smallStep = 500 * time.Millisecond
	// largeStep is more than what a clock is mended by in the ordinary way.
	largeStep = time.Hour
	// calmTime is how long nothing expires after the wall clock has jumped ahead, so
	// that a person, or a time server, can mend it.
	calmTime = 10 * time.Minute
)

// newClock returns a clock by which nothing expires until the index is complete.
func newClock(wall func() time.Time) clock {
	now := wall().Round(0)
	return clock{base: time.Now(), start: now, wall: wall, seen: now, calm: math.MaxInt64}
}

func (c *clock) now() time.Duration { return time.Since(c.base) }

// taken is when t is on this clock, for a t of time.Now in this process.
func (c *clock) taken(t time.Time) time.Duration { return t.Sub(c.base) }

// stored is when t is on this clock, for a t that was written by any process. What
// seems to lie ahead is now: the wall clock was wrong then, or is.
func (c *clock) stored(t time.Time) time.Duration { return min(t.Sub(c.start), c.now()) }

// time is what the wall clock showed, or will show, at d.
func (c *clock) time(d time.Duration) time.Time {
	t := c.start.Add(d)
	for _, s := range c.steps {
		if s.at <= d {
			t = t.Add(s.by)
		}
	}
	return t
}

// left is when the attempt after a is due, 0 if it is. A wall clock that was set back
// makes no wait longer than it was meant to be.
func (c *clock) left(a *AttemptRecord) time.Duration {
	if a.NotBefore.IsZero() {
		return 0
	}
	now := c.now()
	wait := min(a.NotBefore.Sub(c.start)-now, a.NotBefore.Sub(a.At))
	if wait <= 0 {
		return 0
	}
	return now + wait
}

// watch looks at the wall clock and returns by how much it was set since the last
// time, 0 for not at all.
func (c *clock) watch() time.Duration {
	now, wall := c.now(), c.wall().Round(0)
	if c.now()-now > smallStep/2 {
		return 0 // the process stood still between the two; they say nothing
	}
	by := wall.Sub(c.seen) - (now - c.at)
	c.seen, c.at = wall, now
	if by.Abs() < smallStep {
		return 0
	}
	c.steps = append(c.steps, step{now, by})
	if by > largeStep {
		c.calm = max(c.calm, now+calmTime)
	}
	return by
}

// calmly reports whether nothing may expire.
func (c *clock) calmly() bool { return c.now() < c.calm }

// clockState is the name of the state that says what the wall clock showed while
// messages were waiting, and until when nothing was to expire. Format:
// RFC 3339, a space, RFC 3339.
const clockState = "clock"

// noteEvery is how often the state is written. It is less than largeStep, so that
// a start can tell a step from the time that a gateway was not running.
const noteEvery = 10 * time.Minute

// noteClock keeps what the wall clock shows, if messages wait: by that the next
// start can tell how far it has gone.
func (q *Queue) noteClock(ctx context.Context) {
	q.mu.Lock()
	waiting := false
	for _, r := range q.routes {
		waiting = waiting || r.waiting > 0
	}
	now := q.clock.wall().UTC()
	calm := now
	if q.clock.calmly() {
		calm = now.Add(min(q.clock.calm-q.clock.now(), calmTime))
	}
	q.mu.Unlock()
	if !waiting {
		return
	}
	v := now.Format(time.RFC3339Nano) + " " + calm.Format(time.RFC3339Nano)
	if err := q.store.SaveState(ctx, clockState, []byte(v)); err != nil && ctx.Err() == nil {
		q.opt.Log.Debug("the time could not be noted", "err", err)
	}
}

// evidence is what a store tells of the time: the newest moment that it knows of and
// that is not ahead of the wall clock, and the one furthest ahead of it.
type evidence struct {
	now    time.Time // by the wall clock
	newest time.Time
	ahead  time.Time
	calm   time.Time // nothing was to expire before
}

func (e *evidence) add(t time.Time) {
	switch {
	case t.After(e.now):
		if t.After(e.ahead) {
			e.ahead = t
		}
	case t.After(e.newest):
		e.newest = t
	}
}

// readClock begins the evidence with what an earlier process has noted.
func (q *Queue) readClock() (*evidence, error) {
	e := &evidence{now: q.opt.Wall().Round(0)}
	v, err := q.store.State(clockState)
	if err != nil {
		return nil, fmt.Errorf("queue: the time of the last run: %w", err)
	}
	at, calm, _ := strings.Cut(string(v), " ")
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		e.add(t)
	}
	if t, err := time.Parse(time.RFC3339Nano, calm); err == nil {
		e.calm = t
	}
	return e, nil
}

// settleClock decides when messages may expire after a start: not for a while if the
// wall clock is far ahead of all that the store knows of, since a gateway that was
// stopped for long cannot be told from a clock that is wrong. mu is held.
func (q *Queue) settleClock(e *evidence) {
	c := &q.clock
	c.calm = 0
	waiting := 0
	for _, r := range q.routes {
		waiting += r.waiting
	}
	if waiting == 0 {
		return // nothing could expire
	}
	now := c.now()
	if left := e.calm.Sub(e.now); left > 0 {
		c.calm = now + min(left, calmTime)
	}
	if by := e.ahead.Sub(e.now); !e.ahead.IsZero() && by > largeStep {
		q.opt.Log.Error("the wall clock is behind what is stored", "by", by.Round(time.Second), "stored", e.ahead, "now", e.now)
		q.opt.Observer.ClockSet(-by)
	}
	if by := e.now.Sub(e.newest); !e.newest.IsZero() && by > largeStep {
		c.calm = now + calmTime
		q.opt.Log.Error("the wall clock is far ahead of what is stored: the gateway was stopped for so long, or the clock is wrong; nothing expires for a while",
			"by", by.Round(time.Second), "stored", e.newest, "now", e.now, "while", calmTime)
		q.opt.Observer.ClockSet(by)
	}
}

// watchClock looks at the wall clock, and tells of it if it was set by much.
func (q *Queue) watchClock(ctx context.Context) {
	q.mu.Lock()
	by := q.clock.watch()
	if by.Abs() > largeStep {
		q.opt.Observer.ClockSet(by)
	}
	q.mu.Unlock()
	switch {
	case by > largeStep:
		q.opt.Log.Error("the wall clock was set forward; nothing expires for a while", "by", by.Round(time.Second), "while", calmTime)
	case by < -largeStep:
		q.opt.Log.Error("the wall clock was set back", "by", -by.Round(time.Second))
	case by != 0:
		q.opt.Log.Info("the wall clock was set", "by", by)
		return
	}
	if by != 0 {
		q.noteClock(ctx)
	}
}
