package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Replay makes a dead letter, or a delivered message that is kept, a waiting message again, with its id, no attempts
// charged and its time starting anew; it is durable when Replay returns. One for
// which its lane stands still goes before all others of it, any other behind. Where
// an earlier attempt may have been processed the mark stays. ErrNotFound, or
// ErrBusy while it is being replayed or the index is not rebuilt yet, or ErrBackup.
//
// The message is sent only once its dead letter is gone: it may be delivered, or
// die again, at once, and its new dead letter must not be taken for the old one.
func (q *Queue) Replay(ctx context.Context, id string) error {
	if !q.moving.TryRLock() {
		return ErrBackup
	}
	defer q.moving.RUnlock()
	q.mu.Lock()
	entry := q.buried.byID[id]
	_, busy := q.inHand[id]
	switch {
	case !q.loaded:
		q.mu.Unlock()
		return ErrBusy // the scan of the log would take it for what a crash has left
	case busy || entry != nil && q.byID[keyOf(id)] != nil:
		q.mu.Unlock()
		return ErrBusy
	case q.byID[keyOf(id)] != nil:
		q.mu.Unlock()
		return ErrNotFound
	}
	held := &hand{}
	q.inHand[id] = held
	q.mu.Unlock()
	defer q.release(id, nil)
	// A replay that has begun is finished: half of one is a message and its
	// dead letter.
	ctx = context.WithoutCancel(ctx)

	if entry == nil {
		return q.replayDelivered(ctx, id, held)
	}
	dead, err := q.store.Dead(id)
	if err != nil {
		return err
	}
	var mark []AttemptRecord
	if slices.ContainsFunc(dead.Attempts, func(a AttemptRecord) bool { return a.Maybe }) {
		mark = []AttemptRecord{{At: time.Now(), Reason: "replayed", Maybe: true}}
		if err := q.store.SaveAttempts(id, mark); err != nil {
			return err
		}
	}
	m := *dead.Message
	m.Accepted, m.First, m.Anew = time.Now(), dead.Stops, true
	q.mu.Lock()
	held.history = mark
	q.mu.Unlock()
	if _, err := q.put(ctx, &m); err != nil {
		return err
	}
	if err := q.store.Unbury(ctx, id); err != nil {
		return fmt.Errorf("queue: message %s waits again, and is still kept as a dead letter: %w", id, err)
	}
	q.mu.Lock()
	q.exhume(id)
	q.mu.Unlock()
	return nil
}

// release lets go of a message in hand: what has been put in its new place may
// be sent, or else old, which is nil for a dead letter, from where it was.
func (q *Queue) release(id string, old *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := old
	if h := q.inHand[id]; h != nil && h.item != nil {
		it = h.item
	}
	delete(q.inHand, id)
	if it == nil || it.where != inFlight {
		return
	}
	r := it.route
	r.flying--
	if it.lane != nil && it.lane.head != it {
		it.where = inLane
	} else {
		r.enqueue(it)
	}
	if r.dest != nil {
		r.dest.poke()
	}
}

// Drop forgets a message that waits or is dead. A dead letter is gone for good
// when Drop returns; a crash within the next second or two can bring a waiting
// message back, as after a delivery. ErrNotFound, or ErrBusy while it is being
// delivered.
func (q *Queue) Drop(ctx context.Context, id string) error {
	q.mu.Lock()
	it := q.byID[keyOf(id)]
	dead := q.buried.byID[id] != nil
	_, held := q.inHand[id]
	switch {
	case it == nil && !dead:
		q.mu.Unlock()
		if err := q.dropAwaited(ctx, id); !errors.Is(err, ErrNotFound) {
			return err
		}
		return q.dropDelivered(ctx, id)
	case held || it != nil && it.where == inFlight:
		q.mu.Unlock()
		return ErrBusy
	}
	if it != nil && it.forwards() {
		q.inHand[id] = &hand{} // nobody may give it meanwhile
		it.route.take(it)
		q.mu.Unlock()
		defer q.release(id, it)
		if err := q.mourn(it); err != nil {
			return err
		}
		q.mu.Lock()
	}
	recorded := false
	var known Known
	var ok bool
	came := q.cameOf(it, id)
	if it != nil {
		recorded = it.recorded()
		known, ok = q.ids.settle(it.same(), id, FateDropped)
		q.end(nil, it)
	} else {
		known, ok = q.ids.settle(q.buried.byID[id].same, id, FateDropped)
	}
	q.mu.Unlock()
	if came != nil {
		if err := q.Consume(ctx, came); err != nil {
			return err
		}
	}
	if it != nil {
		var err error
		if ok {
			err = q.store.RemoveKnown(it.seq, known)
		} else {
			err = q.store.Remove(it.seq)
		}
		if err != nil {
			return err
		}
		if recorded {
			if err := q.store.SaveAttempts(id, nil); err != nil {
				return err
			}
		}
	}
	if dead {
		if ok && it == nil {
			if err := q.store.KeepKnown(ctx, known); err != nil {
				return err
			}
		}
		if err := q.store.Unbury(ctx, id); err != nil {
			return err
		}
		q.mu.Lock()
		q.exhume(id)
		q.mu.Unlock()
	}
	return nil
}

// cameOf is the label under which a message has come that waits or is dead. mu is
// held.
func (q *Queue) cameOf(it *item, id string) *Label {
	if it != nil {
		return it.came()
	}
	return q.buried.byID[id].came
}

// ReplayAll replays the dead letters that f selects and returns how many.
func (q *Queue) ReplayAll(ctx context.Context, f Filter) (int, error) {
	f.State = StateDead
	return q.each(ctx, f, q.Replay)
}

// DropAll drops the messages that f selects, but those being delivered, and
// returns how many.
func (q *Queue) DropAll(ctx context.Context, f Filter) (int, error) {
	return q.each(ctx, f, q.Drop)
}

// together is how many messages a change of many works on at once: they share
// the syncs of the disk.
const together = 64

// each applies do to every message that f selects at the time of the call, to
// those of a lane in their order. One that is gone or busy by then is passed
// over. The first error ends it.
func (q *Queue) each(ctx context.Context, f Filter, do func(context.Context, string) error) (int, error) {
	jobs, err := q.selected(f)
	if err != nil {
		return 0, err
	}
	var done atomic.Int64
	err = atOnce(ctx, jobs, func(ctx context.Context, ids []string) error {
		for _, id := range ids {
			if ctx.Err() != nil {
				break
			}
			switch err := do(ctx, id); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, ErrNotFound) || errors.Is(err, ErrBusy):
			default:
				return err
			}
		}
		return nil
	})
	return int(done.Load()), err
}

// atOnce calls do for every job, for many at once, until one of them fails.
func atOnce[T any](ctx context.Context, jobs []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan T)
	var wg sync.WaitGroup
	for range min(together, len(jobs)) {
		wg.Go(func() {
			for job := range next {
				if ctx.Err() != nil {
					continue
				}
				if err := do(ctx, job); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, job := range jobs {
		if ctx.Err() != nil {
			break
		}
		next <- job
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// selected returns the ids of the messages that f selects: those of a lane
// together, in their order, the others each by itself.
func (q *Queue) selected(f Filter) (jobs [][]string, err error) {
	f.After, f.Limit = "", maxPage
	lanes := map[[2]string]int{} // index in jobs
	for {
		page, next, err := q.List(f)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			key := [2]string{e.Route, e.Lane}
			at, known := lanes[key]
			if e.Lane != "" && known {
				jobs[at] = append(jobs[at], e.ID)
				continue
			}
			lanes[key] = len(jobs)
			jobs = append(jobs, []string{e.ID})
		}
		if next == "" {
			return jobs, nil
		}
		f.After = next
	}
}

// Pause stops the attempts of a route until Resume, also over a restart.
// Attempts under way end. ErrNoRoute.
func (q *Queue) Pause(ctx context.Context, route string) error { return q.setPaused(ctx, route, true) }

// Resume ends a pause. ErrNoRoute.
func (q *Queue) Resume(ctx context.Context, route string) error {
	return q.setPaused(ctx, route, false)
}

func (q *Queue) setPaused(ctx context.Context, route string, paused bool) error {
	if err := q.exists(route); err != nil {
		return err
	}
	var v []byte
	if paused {
		v = []byte(time.Now().UTC().Format(time.RFC3339))
	}
	if err := q.store.SaveState(ctx, pausedState+route, v); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.routes[route]
	r.paused = paused
	if r.dest != nil {
		r.dest.poke()
	}
	return nil
}

// Flush makes all waiting messages of a route due now, and asks its
// destination at once if that is down. ErrNoRoute.
func (q *Queue) Flush(_ context.Context, route string) error {
	if err := q.exists(route); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.routes[route]
	r.hasten(true)
	if d := r.dest; d != nil {
		d.circuit.next, d.quiet = 0, 0
		d.poke()
	}
	return nil
}

func (q *Queue) exists(route string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.routes[route] == nil {
		return ErrNoRoute
	}
	return nil
}
