package queue

import (
	"container/heap"
	"slices"
	"time"
	"unique"
)

// item is a message that waits or is under way. There is one for each message
// in the log, so it is kept small (TestIndexMemory): what only few of them have
// is in more.
type item struct {
	seq      uint64
	key      idKey
	route    *routeState
	lane     *lane // nil: no order
	more     *more
	accepted time.Duration         // on the clock of the queue; negative before it was made
	op       unique.Handle[string] // many messages have the same
	size     uint32                // of the body, capped

	where where
	// maybe: an earlier attempt may have been processed, by what is known of it
	// or because the last stop was not clean.
	maybe bool
	// down: the last attempt failed because the destination is unhealthy, so a
	// recovery of the destination makes the message due at once.
	down bool
	// noted: the store has an attempt that history lacks, because it had begun.
	noted bool
	// replied: the store keeps an answer with the attempts.
	replied bool
	first   bool // Message.First
	anew    bool // Message.Anew
	again   bool // Message.Again
	// went is what becomes of the message, since what follows from it is durable.
	went Fate
}

// where an item is. Invariant, under Queue.mu: an item is in exactly one of
// the structures that its value names.
type where uint8

const (
	inReady   where = iota // routeState.ready
	inDelayed              // routeState.delayed
	inLane                 // behind the head of its lane
	inFlight               // an attempt, or its burial, is under way
	gone                   // delivered, dead or dropped
)

// attempts is how many attempts have been charged to the message.
func (it *item) attempts() int {
	n := 0
	for _, a := range it.history() {
		n = max(n, a.N)
	}
	return n
}

// routeState is a route with the messages that it has accepted.
type routeState struct {
	name    string
	cfg     Route
	dest    *destState // nil: the route is gone and its messages are orphaned
	paused  bool
	parted  bool    // the store says that messages of it were moved away
	blocked bool    // and the log is being read, so that one of them may be found twice
	ready   fifo    // due, in the order of acceptance as far as retries allow
	delayed dueHeap // by due
	ages    fifo    // all, in the order of acceptance; finished ones are skipped lazily
	log     itemLog // all, by seq
	letters idList  // the dead letters
	awaited idList  // what other sites are to answer
	lanes   map[string]*lane
	held    bool     // no lane moves: the log is being read, and what goes first may come last
	stopped int      // lanes that stand still for a dead letter
	waiting int      // items not gone
	retried int      // of these, with at least one attempt charged
	flying  int      // of these, in flight
	bytes   int64    // of bodies of the items not gone
	coming  quantity // accepted or being committed, and not yet part of the index
	last    string   // reason of the last failed attempt
}

// add puts an item that is new to the index where it belongs.
func (r *routeState) add(it *item, key string) {
	r.waiting++
	r.bytes += int64(it.size)
	if it.attempts() > 0 {
		r.retried++
	}
	r.ages.push(it)
	r.log.push(it)
	if key != "" {
		r.join(it, r.lane(key))
		return
	}
	r.enqueue(it)
}

// enqueue makes an item wait for its turn, or for its time.
func (r *routeState) enqueue(it *item) {
	if it.due() == 0 {
		it.where = inReady
		r.ready.push(it)
		return
	}
	it.where = inDelayed
	heap.Push(&r.delayed, it)
}

// promote moves what has become due to ready.
func (r *routeState) promote(now time.Duration) {
	for len(r.delayed) > 0 && r.delayed[0].due() <= now {
		it := heap.Pop(&r.delayed).(*item)
		it.setDue(0)
		it.where = inReady
		r.ready.push(it)
	}
}

// hasten makes delayed items due now: all, or those that wait because their
// destination was unhealthy.
func (r *routeState) hasten(all bool) {
	var rest dueHeap
	old := r.delayed
	r.delayed = nil
	for len(old) > 0 {
		it := heap.Pop(&old).(*item)
		if !all && !it.down {
			rest = append(rest, it)
			continue
		}
		it.setDue(0)
		it.where = inReady
		r.ready.push(it)
	}
	r.delayed = rest // popped in order, so it is a heap
	for i, it := range rest {
		it.more.heap = i
	}
}

// next takes the item whose turn it is out of the waiting structures. With
// early set an item that is not due will do, if none is.
func (r *routeState) next(early bool) *item {
	if r.first() != nil {
		return r.ready.pop()
	}
	if early && len(r.delayed) > 0 {
		it := heap.Pop(&r.delayed).(*item)
		it.setDue(0)
		return it
	}
	return nil
}

// first is the item whose turn it is, nil if none is due. Those that have left
// ready meanwhile, such as dropped ones, are skipped for good.
func (r *routeState) first() *item {
	for {
		it := r.ready.peek()
		if it == nil || it.where == inReady {
			return it
		}
		r.ready.pop()
	}
}

// take puts a waiting item in flight without its turn.
func (r *routeState) take(it *item) {
	if it.where == inDelayed {
		heap.Remove(&r.delayed, it.more.heap)
	}
	it.where = inFlight // ready and lanes skip it
	r.flying++
}

// forget takes an item that is gone out of the counts and lets the next of its
// lane move up.
func (r *routeState) forget(it *item) {
	switch it.where {
	case inDelayed:
		heap.Remove(&r.delayed, it.more.heap)
	case inFlight:
		r.flying--
	}
	if it.attempts() > 0 {
		r.retried--
	}
	it.where = gone // ready, ages and lanes skip it
	it.cool()
	r.waiting--
	r.bytes -= int64(it.size)
	if l := it.lane; l != nil && l.head == it {
		l.head = nil
		r.advance(l)
	}
}

// oldest is the first accepted item that is not gone.
func (r *routeState) oldest() *item {
	for {
		it := r.ages.peek()
		if it == nil || it.where != gone {
			return it
		}
		r.ages.pop()
	}
}

// fifo is a queue of items; popping is constant time and frees memory.
type fifo struct {
	items []*item
	head  int
}

func (f *fifo) push(it *item) { f.items = append(f.items, it) }

// unshift puts an item before all others.
func (f *fifo) unshift(it *item) {
	if f.head > 0 {
		f.head--
		f.items[f.head] = it
		return
	}
	f.items = slices.Insert(f.items, 0, it)
}

func (f *fifo) peek() *item {
	if f.head == len(f.items) {
		return nil
	}
	return f.items[f.head]
}

func (f *fifo) pop() *item {
	it := f.peek()
	if it == nil {
		return nil
	}
	f.items[f.head] = nil
	f.head++
	if f.head >= 64 && f.head*2 >= len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return it
}

// dueHeap orders items by the time of their next attempt, then by acceptance.
type dueHeap []*item

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool {
	if a, b := h[i].more.due, h[j].more.due; a != b {
		return a < b
	}
	return h[i].seq < h[j].seq
}

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].more.heap, h[j].more.heap = i, j
}

func (h *dueHeap) Push(x any) {
	it := x.(*item)
	it.more.heap = len(*h)
	*h = append(*h, it)
}

func (h *dueHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return it
}
