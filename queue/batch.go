package queue

import (
	"errors"
	"sync"
	"time"
)

// Over a link many messages go at once, and several of one lane: the far side keeps
// them in their order, and none behind one that it does not take. So a lane is not
// bound to one message for each way there and back, which has a sync in it.

const (
	// batchItems and batchOctets bound a batch; one item may be more than that.
	batchItems  = 256
	batchOctets = 1 << 20
	// batchesAloft is how many batches are under way to a destination. With the bounds
	// of a batch it bounds what a link holds in memory, and how far the ends of messages
	// are from the order of the log: beyond 1,024 between them they are removed singly,
	// which is dear (trimmer).
	batchesAloft = 4
	// runMost is how many of one lane are in a batch: it is the lane's share where few
	// lanes have all of it, and what has to go again when the first of them is refused.
	runMost = 128
	// aloneFrom is the size from which on a message goes alone; its body is no part of
	// a record, and is read while it is sent.
	aloneFrom = inlineMost
)

// batches reports whether the messages of the destination go in batches.
func (d *destState) batches() bool { return d.cfg.Link != "" && d.q.many != nil }

// A batch is items in flight, those of one lane one behind the other.
type batch struct {
	items   []*item
	follows []bool // the one before it, in its lane
	octets  int64
}

func (b *batch) full() bool { return len(b.items) >= batchItems || b.octets >= batchOctets }

func (b *batch) add(d *destState, it *item, follows bool) {
	d.fly(it)
	b.items = append(b.items, it)
	b.follows = append(b.follows, follows)
	b.octets += int64(it.size)
}

// batch makes a batch of an item that pick has taken and of what may go with it.
func (d *destState) batch(now time.Duration, it *item) *batch {
	b := &batch{}
	for {
		b.add(d, it, false)
		if it.lane != nil {
			it.route.follow(b, d, it.lane, now)
		}
		if b.full() {
			return b
		}
		if it = d.pick(now, false); it == nil {
			return b
		}
		if it.size > aloneFrom {
			it.route.ready.unshift(it) // where it was
			return b
		}
	}
}

// follow adds what stands behind the head of a lane. All lanes of a route have an equal
// share of what may be under way, so that some are left for the batches beside this one.
func (r *routeState) follow(b *batch, d *destState, l *lane, now time.Duration) {
	most := min(max(1, batchItems*batchesAloft/len(r.lanes)), runMost)
	n := 1
	for _, it := range l.rest.items[l.rest.head:] {
		switch {
		case it.where == gone:
			continue
		case n >= most, b.full(), it.where != inLane, it.due() > now, it.size > aloneFrom, b.octets+int64(it.size) > batchOctets:
			return
		}
		it.setDue(0)
		b.add(d, it, true)
		n++
	}
}

// launchAll starts the attempts of a batch.
func (d *destState) launchAll(run *running, b *batch) {
	d.aloft++
	run.wg.Go(func() {
		d.q.attemptAll(run, d, b)
		d.landed()
	})
}

// attemptAll makes one attempt for each item of a batch. Invariant of what comes of it:
// what is delivered of a lane is its first items; of the others at most the first was
// tried, and all of them wait again.
func (q *Queue) attemptAll(run *running, d *destState, b *batch) {
	var tries []*try
	var ds []*Delivery
	var back []*item // not to be tried
	whole := true    // all of the lane so far
	for i, it := range b.items {
		var t *try
		if whole = whole || !b.follows[i]; whole {
			t = q.ready(run, d, it)
		} else {
			back = append(back, it)
		}
		if whole = t != nil; whole {
			t.del.Follows = b.follows[i]
			tries, ds = append(tries, t), append(ds, t.del)
		}
	}
	q.untried(d, back)
	if len(ds) == 0 {
		return
	}
	began := time.Now()
	outcomes := q.many.DeliverAll(run.work, ds)
	q.finishAll(run, d, tries, outcomes, time.Since(began))
}

// finishAll draws the consequences of the attempts of a batch.
func (q *Queue) finishAll(run *running, d *destState, tries []*try, outcomes []Outcome, took time.Duration) {
	var good []*try
	var back []*item
	var others sync.WaitGroup
	plain := func(o *Outcome) bool {
		return o.Verdict == Delivered && o.Keep == nil && o.Next == nil && o.Awaits == nil
	}
	for i, t := range tries {
		if plain(&outcomes[i]) {
			good = append(good, t)
		}
	}
	q.deliveredAll(d, good, took)
	for i, t := range tries {
		switch o := outcomes[i]; {
		case o.Verdict == Behind:
			back = append(back, t.it)
		case !plain(&o):
			others.Go(func() { // at once, so that they share syncs
				if q.readAll(d, t, o) {
					q.finish(run, d, t.it, t.m, t.del.Attempt, o, took)
				}
			})
		}
	}
	others.Wait()
	q.untried(d, back)
}

// untried returns items to their lanes that no attempt was made for.
func (q *Queue) untried(d *destState, items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		it.setDue(0)
		q.back(d, it)
	}
}

// deliveredAll ends messages that were delivered, as finish does for one.
func (q *Queue) deliveredAll(d *destState, good []*try, took time.Duration) {
	if len(good) == 0 {
		return
	}
	now := time.Now()
	for _, t := range good {
		q.keepDelivered(t.it, t.m, AttemptRecord{N: t.del.Attempt, At: now})
	}
	gone := make([]leaving, len(good))
	q.mu.Lock()
	q.health(d, &Outcome{}, false)
	for i, t := range good {
		q.opt.Observer.Attempted(t.it.route.name, Outcome{}, took)
		gone[i] = q.over(d, t.it)
	}
	q.mu.Unlock()
	seqs := make([]uint64, 0, len(good))
	for i := range gone {
		if l := &gone[i]; l.came || l.identity || l.recorded {
			q.leave(l)
		} else {
			seqs = append(seqs, l.it.seq)
		}
	}
	if err := q.store.Remove(seqs...); err != nil && !errors.Is(err, ErrClosed) {
		q.opt.Log.Warn("finished messages stay in the store", "messages", len(seqs), "err", err)
	}
}
