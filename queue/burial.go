package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// burial makes a dead letter of an item in flight and takes it out of the log.
// When the store has no room the message waits, and dies later.
func (q *Queue) burial(d *destState, it *item, m *Message, reason, text string, o Outcome) {
	if m == nil {
		var err error
		if m, err = q.store.Get(it.seq); err != nil {
			q.unreadable(d, it, err)
			return
		}
	}
	if len(o.Reply) == 0 {
		o.Reply, o.ReplyType = q.lastReply(it)
	}
	q.mu.Lock()
	if end := it.doomed(); end != nil { // it may have expired since
		reason, text = end.reason, end.text
	}
	dead := &DeadLetter{
		Message: m, Died: time.Now(), Reason: reason, Text: text, Attempts: it.ownUp(time.Now()),
		Reply: o.Reply, ReplyType: o.ReplyType,
		Stops: it.route.cfg.StopOnDead && it.lane != nil && it.lane.head == it,
	}
	var next idKey
	if it.forwards() {
		next = it.more.next
	}
	q.mu.Unlock()
	// No context of the run: a burial that has begun is worth finishing.
	err := q.lastWord(next, it, m, reason, text)
	if err == nil {
		err = q.store.Bury(context.Background(), dead)
	}
	if err != nil {
		if !errors.Is(err, ErrClosed) {
			q.opt.Log.Error("a dead letter could not be stored; the message waits", "id", it.id(), "err", err)
		}
		q.doom(it, reason, text, &o)
		q.postpone(d, it, fmt.Sprintf("dead letter could not be stored: %v", err))
		return
	}
	q.opt.Log.Warn("dead letter", "id", it.id(), "route", it.route.name, "reason", reason, "text", text, "attempts", it.attempts())
	if dead.Stops {
		q.opt.Log.Error("an order key stands still until its dead letter is replayed or dropped", "id", it.id(), "route", it.route.name)
	}
	q.mu.Lock()
	recorded := it.recorded()
	q.opt.Observer.Died(it.route.name, reason)
	q.bury(dead, m.Size()) // before the lane moves on
	q.end(d, it)
	q.mu.Unlock()
	q.remove(it, recorded)
}

// A message whose end is known and whose dead letter found no room waits for its
// burial and for nothing else. It must not be given again: it has been answered,
// or is to be delivered at most once.

// doom is the end of a message that is not buried yet.
type doom struct{ reason, text string }

// doom takes up that the burial of a message in flight has failed. What the store
// knows of the message is then an attempt without an end, so that it is not given
// again after a kill either, or is marked. An end that comes of no attempt needs
// nothing: it comes again.
func (q *Queue) doom(it *item, reason, text string, o *Outcome) {
	if reason == ReasonExpired || reason == ReasonDamaged {
		return
	}
	q.mu.Lock()
	if it.doomed() != nil {
		q.mu.Unlock()
		return
	}
	it.extra().doom = &doom{reason, text}
	it.replied = it.replied || len(o.Reply) > 0
	h := slices.Clone(it.history())
	q.mu.Unlock()
	if len(h) == 0 {
		return
	}
	last := &h[len(h)-1]
	last.Open = reason != ReasonAttempts
	last.Reply, last.ReplyType = o.Reply[:min(len(o.Reply), keptReply)], o.ReplyType
	if err := q.store.SaveAttempts(it.id(), h); err != nil && !errors.Is(err, ErrClosed) {
		q.opt.Log.Warn("an attempt could not be recorded", "id", it.id(), "err", err)
	}
}

// doomed is how the message ends, nil while that is open. Queue.mu is held.
func (it *item) doomed() *doom {
	if it.more == nil {
		return nil
	}
	return it.more.doom
}
