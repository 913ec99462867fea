package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The stable words that say why a message is a dead letter.
const (
	ReasonPermanent = "permanent" // an answer that no retry can mend
	ReasonExpired   = "expired"   // not delivered within retry.expire
	ReasonAttempts  = "attempts"  // retry.attempts are spent

	// ReasonUnknown: the destination may have processed the message, and it is
	// to be delivered at most once.
	ReasonUnknown = "outcome-unknown"

	// ReasonDamaged: its body is not what was accepted. Nothing was delivered.
	ReasonDamaged = "damaged"
)

// keptAttempts is how many attempts of a message are remembered: the first, the
// most recent, and the last after which the message may have been processed.
const keptAttempts = 50

// attempt makes one attempt for an item that is in flight.
func (q *Queue) attempt(run *running, d *destState, it *item) {
	t := q.ready(run, d, it)
	if t == nil {
		return
	}
	began := time.Now()
	o := q.deliv.Deliver(run.work, t.del)
	if !q.readAll(d, t, o) {
		return
	}
	q.finish(run, d, it, t.m, t.del.Attempt, o, time.Since(began))
}

// try is an attempt of an item that is about to be made.
type try struct {
	it   *item
	m    *Message
	del  *Delivery
	body *watched
}

// readAll reports whether the body could be read, as far as the outcome leaves that
// open; otherwise the attempt is over.
func (q *Queue) readAll(d *destState, t *try, o Outcome) bool {
	err := t.body.failure()
	if err == nil || o.Verdict == Delivered {
		return true
	}
	q.unsendable(d, t.it, t.m, t.del.Attempt, err)
	return false
}

// ready makes an attempt of an item in flight, nil if that is not to be made: then the
// item is in flight no more.
func (q *Queue) ready(run *running, d *destState, it *item) *try {
	q.mu.Lock()
	r := it.route
	policy, once := r.cfg.Retry, r.cfg.AtMostOnce
	link, class := d.cfg.Link, d.cfg.Class // a reload may change them meanwhile
	open := once && it.admit()
	expired := policy.Expired(q.clock.now()-it.accepted) && !q.clock.calmly()
	m := it.hot()
	if m != nil {
		it.cool()
		q.hot -= int64(it.size)
	}
	del := &Delivery{Attempt: it.attempts() + 1, PossibleDuplicate: it.maybe}
	end := it.doomed()
	q.mu.Unlock()
	if end != nil {
		q.burial(d, it, m, end.reason, end.text, Outcome{})
		return nil
	}

	switch fate, err := q.settled(run.ctx, it, del.PossibleDuplicate); {
	case err != nil:
		q.aborted(d, it, m, del.Attempt, Outcome{})
		return nil
	case fate == FateDelivered:
		q.done(d, it)
		return nil
	case fate == FateDead:
		q.burial(d, it, m, ReasonPermanent, faultText, Outcome{})
		return nil
	}
	if open {
		q.burial(d, it, m, ReasonUnknown, openText, Outcome{})
		return nil
	}
	if expired {
		q.burial(d, it, m, ReasonExpired, expiredText, Outcome{})
		return nil
	}
	if m == nil {
		var err error
		if m, err = q.store.Get(it.seq); err != nil {
			q.unreadable(d, it, err)
			return nil
		}
	}
	if once {
		if err := q.begin(it, del.Attempt); err != nil {
			q.postpone(d, it, fmt.Sprintf("the attempt could not be noted: %v", err))
			return nil
		}
	}
	if link != "" {
		del.Label = labelOf(m, link, class)
	}
	return &try{it: it, m: m, del: del, body: watch(del, m)}
}

const openText = "an attempt had begun when the gateway stopped, and its end is not known"

// begin notes durably that an attempt begins.
func (q *Queue) begin(it *item, n int) error {
	a := AttemptRecord{N: n, At: time.Now(), Open: true}
	a.Reply, a.ReplyType = q.lastReply(it)
	q.mu.Lock()
	h := append(slices.Clone(it.history()), a)
	it.noted = true
	q.mu.Unlock()
	if err := q.store.SaveAttempts(it.id(), h); err != nil {
		return err
	}
	return q.store.Sync(context.Background())
}

// recorded reports whether the store has attempts of the message.
func (it *item) recorded() bool { return it.noted || len(it.history()) > 0 }

// admit reports whether an attempt of an earlier run has no end, and makes it
// one that may have been processed.
func (it *item) admit() bool {
	h := slices.Clone(it.history())
	found := false
	for i := range h {
		if h[i].Open {
			h[i].Open, h[i].Maybe, h[i].Reason = false, true, openText
			found = true
		}
	}
	if found {
		it.setHistory(h)
	}
	return found
}

// postponed is how long a message waits after a failure of the store.
const postponed = time.Minute

// postpone makes a message wait because the store could not keep up with it.
func (q *Queue) postpone(d *destState, it *item, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it.route.last = why
	it.setDue(q.clock.now() + postponed)
	it.down = false
	q.back(d, it)
}

// finish draws the consequences of an attempt.
func (q *Queue) finish(run *running, d *destState, it *item, m *Message, n int, o Outcome, took time.Duration) {
	if o.Verdict == Aborted {
		q.aborted(d, it, m, n, o)
		return
	}
	now := time.Now()
	q.mu.Lock()
	q.opt.Observer.Attempted(it.route.name, o, took)
	scout := d.recall(it)
	if !o.Denied {
		q.health(d, &o, scout)
	}
	policy, once := it.route.cfg.Retry, it.route.cfg.AtMostOnce
	q.mu.Unlock()
	if o.Denied {
		if q.denied(d, it, &o, scout) {
			q.wait(d, it, &o)
			return
		}
		o.Verdict = Dead
		o.Reason += "; others are taken with the same credentials"
	}

	record := AttemptRecord{N: n, At: now, Status: o.Status, Reason: o.Reason, Maybe: o.Maybe}
	switch {
	case o.Verdict == Delivered:
		q.delivered(run, d, it, m, n, o)
	case o.Verdict == Dead:
		q.refused(run, d, it, m, record, o)
	case once && o.Maybe:
		q.remember(it, record)
		q.burial(d, it, m, ReasonUnknown, o.Reason, o)
	case policy.Spent(n):
		q.remember(it, record)
		q.burial(d, it, m, ReasonAttempts, o.Reason, o)
	default:
		wait := policy.Wait(n, q.opt.Rand(), o.RetryAfter)
		record.NotBefore = now.Add(wait)
		q.again(d, it, record, o)
	}
}

// done ends a message that was delivered.
func (q *Queue) done(d *destState, it *item) {
	q.mu.Lock()
	l := q.over(d, it)
	q.mu.Unlock()
	q.leave(&l)
}

// leaving is a finished message that is not in the index any more.
type leaving struct {
	it       *item
	recorded bool  // the store has attempts of it
	came     bool  // whoever keeps its label removes it
	known    Known // what is kept of it, if identity is set
	identity bool
}

// over takes a message that was delivered out of the index. mu is held.
func (q *Queue) over(d *destState, it *item) (l leaving) {
	q.opt.Observer.Finished(it.route.name, q.clock.now()-it.accepted)
	l.it, l.recorded = it, it.recorded()
	l.known, l.identity = q.ids.settle(it.same(), it.id(), FateDelivered)
	if came := it.came(); came != nil {
		l.came = true
		q.settleLabel(it, came, l.known, l.identity)
	}
	q.end(d, it)
	return l
}

// leave takes it out of the store.
func (q *Queue) leave(l *leaving) {
	switch {
	case l.came:
		q.removed(l.it, l.recorded, nil)
	case l.identity:
		q.removed(l.it, l.recorded, q.store.RemoveKnown(l.it.seq, l.known))
	default:
		q.remove(l.it, l.recorded)
	}
}

// end takes an item out of the index.
func (q *Queue) end(d *destState, it *item) {
	if it.hot() != nil {
		q.hot -= int64(it.size)
	}
	if q.byID[it.key] == it {
		delete(q.byID, it.key)
	}
	it.route.forget(it)
	it.route.log.drop()
	it.bare()
	if d != nil {
		d.recall(it)
		d.flying--
		d.poke()
	} else if it.route.dest != nil {
		it.route.dest.poke()
	}
}

// remove takes a finished message out of the store. That it comes back after a
// crash is harmless: it is then marked as a possible duplicate.
func (q *Queue) remove(it *item, recorded bool) { q.removed(it, recorded, q.store.Remove(it.seq)) }

// removed goes on after the removal itself.
func (q *Queue) removed(it *item, recorded bool, err error) {
	if err == nil && recorded {
		err = q.store.SaveAttempts(it.id(), nil)
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		q.opt.Log.Warn("a finished message stays in the store", "id", it.id(), "err", err)
	}
}

// remember adds an attempt to a message's history.
func (q *Queue) remember(it *item, a AttemptRecord) []AttemptRecord {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := it.attempts() == 0
	h := append(slices.Clip(it.history()), a)
	if len(h) > keptAttempts {
		drop := 1
		if isMaybe := func(a AttemptRecord) bool { return a.Maybe }; isMaybe(h[1]) && !slices.ContainsFunc(h[2:], isMaybe) {
			drop = 2 // the mark hangs on it
		}
		h = slices.Delete(h, drop, drop+1)
	}
	it.setHistory(h)
	if first && it.attempts() > 0 {
		it.route.retried++
	}
	it.maybe = it.maybe || a.Maybe
	if a.Reason != "" {
		it.route.last = a.Reason
	}
	return h
}

// again makes a message wait for its next attempt.
func (q *Queue) again(d *destState, it *item, a AttemptRecord, o Outcome) {
	reply, replyType := o.Reply, o.ReplyType
	if len(reply) == 0 {
		reply, replyType = q.lastReply(it)
	}
	h := q.remember(it, a)
	if len(reply) > 0 {
		// On disk only: many messages wait, and few of them die.
		h = slices.Clone(h)
		last := &h[len(h)-1]
		last.Reply, last.ReplyType = reply[:min(len(reply), keptReply)], replyType
	}
	if err := q.store.SaveAttempts(it.id(), h); err != nil && !errors.Is(err, ErrClosed) {
		q.opt.Log.Warn("an attempt could not be recorded", "id", it.id(), "err", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	it.setDue(q.clock.taken(a.NotBefore))
	it.down = o.Unhealthy && o.RetryAfter == 0
	it.replied = it.replied || len(reply) > 0
	q.back(d, it)
}

// keptReply is how much of the last answer is kept with a message that waits.
const keptReply = 8 << 10

// lastReply is the last answer that is kept with a message that waits.
func (q *Queue) lastReply(it *item) ([]byte, string) {
	if !it.replied {
		return nil, ""
	}
	return q.replyOf(it.id())
}

func (q *Queue) replyOf(id string) ([]byte, string) {
	a, err := q.store.Attempts(id)
	if err != nil || len(a) == 0 {
		return nil, ""
	}
	last := a[len(a)-1]
	return last.Reply, last.ReplyType
}

// back puts an item in flight into the waiting structures again.
func (q *Queue) back(d *destState, it *item) {
	d.recall(it)
	it.route.flying--
	if it.lane != nil && it.lane.head != it {
		it.where = inLane // it was to be buried, and is still in its place
	} else {
		it.route.enqueue(it)
	}
	d.flying--
	d.poke()
	if now := it.route.dest; now != nil && now != d {
		now.poke() // a reload has moved the route
	}
}

// aborted returns a message whose attempt was cut off by the stop: the attempt
// does not count, but it may have been processed.
func (q *Queue) aborted(d *destState, it *item, m *Message, n int, o Outcome) {
	q.mu.Lock()
	once := it.route.cfg.AtMostOnce
	h := it.history()
	q.mu.Unlock()
	cut := AttemptRecord{At: time.Now(), Reason: "cut off by a stop of the gateway", Maybe: true}
	switch {
	case o.Maybe && once:
		cut.N = n
		q.remember(it, cut)
		q.burial(d, it, m, ReasonUnknown, cut.Reason, o)
		return
	case o.Maybe:
		h = q.remember(it, cut)
	}
	if o.Maybe || it.noted {
		if err := q.store.SaveAttempts(it.id(), h); err != nil && !errors.Is(err, ErrClosed) {
			q.opt.Log.Warn("an attempt could not be recorded", "id", it.id(), "err", err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	it.setDue(0)
	q.back(d, it)
}

// unreadableWait is how long a message that cannot be read waits for the next
// look at it.
const unreadableWait = 10 * time.Minute

// unreadable keeps a message that the store cannot give back. It is never
// wiped: a disk may come back, and a person may want to see it.
func (q *Queue) unreadable(d *destState, it *item, err error) {
	q.opt.Log.Error("a stored message cannot be read", "id", it.id(), "seq", it.seq, "err", err)
	q.mu.Lock()
	defer q.mu.Unlock()
	it.route.last = err.Error()
	it.setDue(q.clock.now() + unreadableWait)
	it.down = false
	q.back(d, it)
}

// sweep buries what expires while it waits.
func (q *Queue) sweep(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%int(noteEvery/time.Second) == 0 {
			q.noteClock(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		q.watchClock(ctx)
		var wg sync.WaitGroup
		for _, e := range q.takeExpired() { // at once, so that they share syncs
			wg.Go(func() { q.burial(e.dest, e.item, nil, ReasonExpired, expiredText, Outcome{}) })
		}
		wg.Wait()
		q.mu.Lock()
		q.ids.expire(mostExpired)
		q.mu.Unlock()
		if n%int(noteEvery/time.Second) == 0 {
			q.expireAwaited(ctx)
		}
	}
}

// mostExpired is how many identities are forgotten at once, in some
// milliseconds.
const mostExpired = 10000

const expiredText = "not delivered within the time that retry.expire allows"

// expired is an item in flight to its burial.
type expired struct {
	dest *destState
	item *item
}

// takeExpired takes messages that have expired out of the waiting structures,
// a bounded number at a time. Those in flight are left: their attempt began in
// time. Orphaned messages have no policy and wait.
func (q *Queue) takeExpired() (found []expired) {
	const most = 1000
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.clock.calmly() {
		return nil
	}
	now := q.clock.now()
	for _, r := range q.routes {
		if r.dest == nil {
			continue
		}
		if r.cfg.StopOnDead {
			found = r.takeExpiredHeads(now, most, found)
			continue
		}
		for len(found) < most {
			it := r.oldest()
			if it == nil || it.where == inFlight || !r.cfg.Retry.Expired(now-it.accepted) {
				break
			}
			r.ages.pop()
			r.take(it)
			r.dest.flying++
			found = append(found, expired{r.dest, it})
		}
	}
	return found
}

// takeExpiredHeads is takeExpired for a route whose lanes stop: what stands
// behind a head waits for it, however long that takes.
func (r *routeState) takeExpiredHeads(now time.Duration, most int, found []expired) []expired {
	if it := r.oldest(); it == nil || !r.cfg.Retry.Expired(now-it.accepted) {
		return found
	}
	for _, l := range r.lanes {
		it := l.head
		if len(found) == most || it == nil || it.where == inFlight || !r.cfg.Retry.Expired(now-it.accepted) {
			continue
		}
		r.take(it)
		r.dest.flying++
		found = append(found, expired{r.dest, it})
	}
	return found
}
