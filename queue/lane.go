package queue

import (
	"container/heap"
	"slices"
)

// lane is the order of messages that share a key. Only its head is in ready,
// delayed or in flight; the others wait in the order of their acceptance, so
// that nothing overtakes a head that waits for its next attempt.
//
// A lane without a head has nothing to do, stands still for a dead letter, or is
// held while the log is being read.
type lane struct {
	key  string
	head *item
	rest fifo
	// stops are the ids of the dead letters for which it stands still: one, but
	// for what a crash has brought back.
	stops []string
}

// lane returns the lane of a key, made if need be.
func (r *routeState) lane(key string) *lane {
	l := r.lanes[key]
	if l == nil {
		l = &lane{key: key}
		r.lanes[key] = l
	}
	return l
}

// join puts an item that is new to the index into its lane.
func (r *routeState) join(it *item, l *lane) {
	it.lane = l
	it.where = inLane
	switch {
	case !it.first:
		l.rest.push(it)
	case l.head == nil && !r.held: // it is what the lane stands still for
		l.head = it
		r.enqueue(it)
	case l.head != nil && l.head.where != inFlight && !l.head.first:
		r.demote(l)
		l.head = it
		r.enqueue(it)
	default:
		l.rest.unshift(it)
	}
	r.advance(l)
}

// demote makes a head that waits the next one of its lane.
func (r *routeState) demote(l *lane) {
	it := l.head
	if it.where == inDelayed {
		heap.Remove(&r.delayed, it.more.heap)
	}
	it.where = inLane // ready skips it
	l.head = nil
	l.rest.unshift(it)
}

// advance lets the next message of a lane without a head move up, if it may.
func (r *routeState) advance(l *lane) {
	if r.held {
		return
	}
	for l.head == nil && len(l.stops) == 0 {
		n := l.rest.pop()
		if n == nil {
			delete(r.lanes, l.key)
			return
		}
		switch n.where {
		case inLane:
			l.head = n
			r.enqueue(n)
		case inFlight: // on the way to its burial
			l.head = n
		}
	}
}

// free ends the hold on the lanes of a route.
func (r *routeState) free() {
	if !r.held {
		return
	}
	r.held = false
	for _, l := range r.lanes {
		r.advance(l)
	}
}

// stop makes a lane stand still for a dead letter.
func (r *routeState) stop(l *lane, id string) {
	if len(l.stops) == 0 {
		r.stopped++
	}
	l.stops = append(l.stops, id)
}

// start lets a lane go on that stood still for a dead letter.
func (r *routeState) start(l *lane, id string) {
	l.stops = slices.DeleteFunc(l.stops, func(s string) bool { return s == id })
	if len(l.stops) > 0 {
		return
	}
	r.stopped--
	r.advance(l)
	if r.dest != nil {
		r.dest.poke()
	}
}

// waitsFor is the id of the dead letter for which a message waits, "" for none.
func (it *item) waitsFor() string {
	if l := it.lane; l != nil && l.head != it && len(l.stops) > 0 {
		return l.stops[0]
	}
	return ""
}
