package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Replay makes a dead letter a waiting message again, with its id, no attempts
// charged and its time starting anew; it is durable when Replay returns. Where
// an earlier attempt may have been processed the mark stays. ErrNotFound, or
// ErrBusy while it is being replayed or the index is not rebuilt yet.
func (q *Queue) Replay(ctx context.Context, id string) error {
	q.mu.Lock()
	entry := q.buried.byID[id]
	busy := q.byID[id] != nil
	loaded := q.loaded
	q.mu.Unlock()
	switch {
	case !loaded:
		return ErrBusy // the scan of the log would take it for what a crash has left
	case entry == nil:
		return ErrNotFound
	case busy:
		return ErrBusy // another Replay of it has just put it back
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
	m.Accepted = time.Now()
	q.mu.Lock()
	entry.mark = mark
	q.mu.Unlock()
	if _, err := q.store.Put(ctx, &m); err != nil {
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

// Drop forgets a message that waits or is dead. A dead letter is gone for good
// when Drop returns; a crash within the next second or two can bring a waiting
// message back, as after a delivery. ErrNotFound, or ErrBusy while it is being
// delivered.
func (q *Queue) Drop(ctx context.Context, id string) error {
	q.mu.Lock()
	it := q.byID[id]
	dead := q.buried.byID[id] != nil
	switch {
	case it == nil && !dead:
		q.mu.Unlock()
		return ErrNotFound
	case it != nil && it.where == inFlight:
		q.mu.Unlock()
		return ErrBusy
	}
	recorded := false
	if it != nil {
		recorded = len(it.history) > 0
		q.end(nil, it)
	}
	q.mu.Unlock()
	if it != nil {
		if err := q.store.Remove(it.seq); err != nil {
			return err
		}
		if recorded {
			if err := q.store.SaveAttempts(id, nil); err != nil {
				return err
			}
		}
	}
	if dead {
		if err := q.store.Unbury(ctx, id); err != nil {
			return err
		}
		q.mu.Lock()
		q.exhume(id)
		q.mu.Unlock()
	}
	return nil
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

// each applies do to every message that f selects at the time of the call. One
// that is gone or busy by then is passed over.
func (q *Queue) each(ctx context.Context, f Filter, do func(context.Context, string) error) (n int, err error) {
	f.After, f.Limit = "", maxPage
	var ids []string
	for {
		page, next, err := q.List(f)
		if err != nil {
			return 0, err
		}
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		if next == "" {
			break
		}
		f.After = next
	}
	for _, id := range ids {
		switch err := do(ctx, id); {
		case err == nil:
			n++
		case errors.Is(err, ErrNotFound) || errors.Is(err, ErrBusy):
		default:
			return n, err
		}
	}
	return n, nil
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
		d.circuit.next = time.Time{}
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
