package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrNoTarget: the route to move messages to is none that stores messages.
var ErrNoTarget = errors.New("queue: nothing can be moved to this route")

// Moved is what has come of a move.
type Moved struct {
	Count   int      // messages that wait, or are dead, on the other route now
	Busy    int      // left where they were: under way, or behind one of their lane that is
	Damaged int      // left where they were: the store cannot read them
	Unknown []string // ids of no message
}

// movedState prefixes the names of the states that say that messages of a route
// were moved away. A crash can bring such a message back beside itself, so that
// nothing of the route is sent before the log has been read to its end. It is
// forgotten at the first start after a clean stop.
const movedState = "moved."

// Move puts the messages with these ids on another route: those that wait stay
// waiting and dead letters stay dead. What is known of a message goes along: its
// id, identity, attempts, and that it may have been processed. Messages of one
// lane keep their order among themselves and go behind what waits in that lane
// of the other route. A message that has waited longer than the other route
// allows has its time start anew.
//
// Each message is durably on one of the two routes at any moment, and is sent
// only once the place it came from is empty. One that is on the route already is
// not counted. Errors: ErrBusy while the index is not complete; ErrNoTarget; ErrFull
// if the quota of the other route, or the store, has no room for all of them:
// then, short of others who take the room meanwhile, nothing is moved; ErrBackup.
func (q *Queue) Move(ctx context.Context, ids []string, to string) (Moved, error) {
	jobs, unknown := q.lanesOf(ids)
	sum, err := q.moveJobs(ctx, jobs, to)
	sum.Unknown = unknown
	return sum, err
}

// MoveAll is Move for what f selects. ErrNoRoute if f names no route, or one
// without messages.
func (q *Queue) MoveAll(ctx context.Context, f Filter, to string) (Moved, error) {
	if err := q.exists(f.Route); err != nil {
		return Moved{}, err
	}
	jobs, err := q.selected(f)
	if err != nil {
		return Moved{}, err
	}
	return q.moveJobs(ctx, jobs, to)
}

// lanesOf sorts ids into jobs: those of a lane together, in the order of the log.
func (q *Queue) lanesOf(ids []string) (jobs [][]string, unknown []string) {
	type place struct {
		route, lane, id string // id only where there is no lane
	}
	seen := map[string]bool{}
	found := map[place][]string{}
	q.mu.Lock()
	defer q.mu.Unlock()
	seq := func(id string) uint64 {
		if it := q.byID[keyOf(id)]; it != nil {
			return it.seq
		}
		return 0
	}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		at := place{}
		if it := q.byID[keyOf(id)]; it != nil {
			at.route = it.route.name
			if it.lane != nil {
				at.lane = it.lane.key
			}
		} else if d := q.buried.byID[id]; d != nil {
			at.route, at.lane = d.Route, d.Lane
		} else {
			unknown = append(unknown, id)
			continue
		}
		if at.lane == "" {
			at.id = id
		}
		found[at] = append(found[at], id)
	}
	for _, job := range found {
		slices.SortFunc(job, func(a, b string) int { return cmp.Or(cmp.Compare(seq(a), seq(b)), cmp.Compare(a, b)) })
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, func(a, b []string) int { return cmp.Compare(seq(a[0]), seq(b[0])) })
	return jobs, unknown
}

func (q *Queue) moveJobs(ctx context.Context, jobs [][]string, to string) (sum Moved, err error) {
	if !q.moving.TryRLock() {
		return Moved{}, ErrBackup
	}
	defer q.moving.RUnlock()
	sources, err := q.mayMove(jobs, to)
	if err != nil {
		return Moved{}, err
	}
	for _, route := range sources {
		if err := q.noteMove(ctx, route); err != nil {
			return Moved{}, err
		}
	}
	var mu sync.Mutex
	err = atOnce(ctx, jobs, func(ctx context.Context, ids []string) error {
		part, err := q.moveLane(ctx, ids, to)
		mu.Lock()
		defer mu.Unlock()
		sum.Count += part.Count
		sum.Busy += part.Busy
		sum.Damaged += part.Damaged
		return err
	})
	return sum, err
}

// mayMove says why these messages cannot be moved, or which routes those that
// wait come from.
func (q *Queue) mayMove(jobs [][]string, to string) (sources []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.loaded {
		return nil, ErrBusy
	}
	target, err := q.target(to)
	if err != nil {
		return nil, err
	}
	var more quantity
	for _, ids := range jobs {
		for _, id := range ids {
			it := q.byID[keyOf(id)]
			if it == nil || it.route == target {
				continue
			}
			more.add(1, int64(it.size))
			if !slices.Contains(sources, it.route.name) {
				sources = append(sources, it.route.name)
			}
		}
	}
	now := quantity{target.waiting + target.coming.messages, target.bytes + target.coming.bytes}
	if most := target.cfg.MaxMessages; most > 0 && more.messages > 0 && now.messages+more.messages > most {
		return nil, fmt.Errorf("%w: route %q has %d messages waiting and would get %d, its quota is %d", ErrFull, to, now.messages, more.messages, most)
	}
	if most := target.cfg.MaxBytes; most > 0 && more.messages > 0 && now.bytes+more.bytes > most {
		return nil, fmt.Errorf("%w: route %q has %d octets waiting and would get %d, its quota is %d", ErrFull, to, now.bytes, more.bytes, most)
	}
	return sources, nil
}

// target returns a route that messages can be moved to. mu is held.
func (q *Queue) target(to string) (*routeState, error) {
	if r := q.routes[to]; r != nil && r.dest != nil && !r.cfg.Closed {
		return r, nil
	}
	return nil, ErrNoTarget
}

// Takes reports whether a route takes messages that are stored already: those of
// another route, or from elsewhere.
func (q *Queue) Takes(route string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, err := q.target(route)
	return err == nil
}

// noteMove makes it durable that messages of a route are moved away.
func (q *Queue) noteMove(ctx context.Context, route string) error {
	q.mu.Lock()
	noted := q.routes[route].parted
	q.mu.Unlock()
	if noted {
		return nil
	}
	if err := q.store.SaveState(ctx, movedState+route, []byte("1")); err != nil {
		return err
	}
	q.mu.Lock()
	q.routes[route].parted = true
	q.mu.Unlock()
	return nil
}

// forgetMoves forgets what noteMove has noted in an earlier run, after a stop
// that has left no message in two places.
func (q *Queue) forgetMoves(ctx context.Context) error {
	if !q.store.Info().Clean || !q.delivers() {
		return nil
	}
	q.mu.Lock()
	var routes []*routeState
	for _, r := range q.routes {
		if r.parted {
			routes = append(routes, r)
		}
	}
	q.mu.Unlock()
	for _, r := range routes {
		if err := q.store.SaveState(ctx, movedState+r.name, nil); err != nil {
			return fmt.Errorf("queue: moves: %w", err)
		}
		q.mu.Lock()
		r.parted = false
		q.mu.Unlock()
	}
	return nil
}

// moveLane moves messages of one lane, or one without. Its dead letters go first:
// where the lane stands still for one, nothing behind it may go before.
func (q *Queue) moveLane(ctx context.Context, ids []string, to string) (sum Moved, err error) {
	items, dead, busy, err := q.takeToMove(ids, to)
	if err != nil {
		return Moved{}, err
	}
	sum.Busy = busy
	count := func(e error) {
		switch {
		case e == nil:
			sum.Count++
		case errors.Is(e, ErrCorrupt):
			sum.Damaged++
		case errors.Is(e, ErrNotFound):
		default:
			err = e
		}
	}
	for _, id := range dead {
		if err == nil && ctx.Err() == nil {
			count(q.moveDead(context.WithoutCancel(ctx), id, to))
		}
		q.release(id, nil)
	}
	for _, it := range items {
		if err == nil && ctx.Err() == nil {
			count(q.moveWaiting(context.WithoutCancel(ctx), it, to))
		}
		q.release(it.id(), it)
	}
	return sum, err
}

// takeToMove takes messages in hand. A lane of which one is under way is left: what
// stands behind it would overtake it.
func (q *Queue) takeToMove(ids []string, to string) (items []*item, dead []string, busy int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	target, err := q.target(to)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, id := range ids {
		_, held := q.inHand[id]
		switch it, d := q.byID[keyOf(id)], q.buried.byID[id]; {
		case held:
			busy++
		case it != nil && it.route != target && it.underWay():
			busy++
		case it != nil && it.route != target:
			items = append(items, it)
		case it == nil && d != nil && d.Route != to:
			dead = append(dead, id)
			q.inHand[id] = &hand{}
		}
	}
	for _, it := range items {
		it.route.take(it)
		q.inHand[it.id()] = &hand{}
	}
	return items, dead, busy, nil
}

// underWay reports whether an attempt is made for the message, or for the head of
// its lane.
func (it *item) underWay() bool {
	return it.where == inFlight || it.lane != nil && it.lane.head != nil && it.lane.head.where == inFlight
}

// moveDead moves a dead letter in hand: its record is replaced by one of the other
// route, as one is by a later death of the same message.
func (q *Queue) moveDead(ctx context.Context, id, to string) error {
	old, err := q.store.Dead(id)
	if err != nil {
		return err
	}
	m := *old.Message
	d := *old
	d.Message = &m
	q.mu.Lock()
	target, err := q.target(to)
	if err == nil {
		m.Route, m.Destination = to, target.dest.cfg.Name
		d.Stops = old.Stops && target.cfg.StopOnDead
	}
	q.mu.Unlock()
	if err != nil {
		return err
	}
	if err := q.store.Bury(ctx, &d); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.exhume(id)
	q.bury(&d, m.Size())
	return nil
}

// moveWaiting moves a message in hand that waits. Its new record is durable, and
// holds against the old one, before that is removed; and that is noted before
// anything of the new one can be.
func (q *Queue) moveWaiting(ctx context.Context, it *item, to string) error {
	q.mu.Lock()
	m := it.hot()
	q.mu.Unlock()
	if m == nil {
		var err error
		if m, err = q.store.Get(it.seq); err != nil {
			return err
		}
	}
	fresh := *m
	q.mu.Lock()
	target, err := q.target(to)
	if err == nil {
		fresh.Route, fresh.Destination, fresh.First, fresh.Anew = to, target.dest.cfg.Name, false, true
		if it.went == FateWaiting && target.cfg.Retry.Expired(q.clock.now()-it.accepted) { // else what follows from it would not be found
			fresh.Accepted = time.Now()
		}
	}
	q.mu.Unlock()
	if err != nil {
		return err
	}
	if err := q.keepDoubt(it); err != nil {
		return err
	}
	// Its own place is counted once more than its new one, and nowhere else: see reserve.
	size := fresh.Size()
	if err := q.reserve(to, size); err != nil {
		return err
	}
	_, err = q.put(ctx, &fresh)
	q.unreserve(to, size)
	if q.putElsewhere(it.id()) { // also where the store does not know
		return errors.Join(err, q.store.Remove(it.seq))
	}
	return err
}

// putElsewhere reports whether a message in hand has reached its new place.
func (q *Queue) putElsewhere(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inHand[id].item != nil
}

// keepDoubt writes down that a message may have been processed where only its
// number in the log tells so far, see openDoubt.
func (q *Queue) keepDoubt(it *item) error {
	q.mu.Lock()
	known := it.history()
	h := it.ownUp(time.Now())
	q.mu.Unlock()
	if len(h) == len(known) {
		return nil
	}
	kept := slices.Clone(h)
	if reply, replyType := q.lastReply(it); len(reply) > 0 {
		last := &kept[len(kept)-1]
		last.Reply, last.ReplyType = reply, replyType
	}
	if err := q.store.SaveAttempts(it.id(), kept); err != nil {
		return err
	}
	q.mu.Lock()
	it.setHistory(h)
	q.mu.Unlock()
	return nil
}

// takeOver makes it what old was, in another place.
func (it *item) takeOver(old *item) {
	it.setHistory(old.history())
	it.maybe, it.noted, it.replied, it.went = old.maybe, old.noted, old.replied, old.went
	if end := old.doomed(); end != nil {
		it.extra().doom = end
	}
}
