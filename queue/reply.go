package queue

import (
	"context"
	"errors"
	"time"
)

// Reply is the answer to a message that was delivered, kept for whoever asks for it.
type Reply struct {
	ID    string // of the message
	Route string // that accepted it
	Meta  []byte // what the deliverer needs beside Body; the queue does not look inside
	Body  []byte // the octets of the answer
	// Until is when it expires; the zero value is never. It stays for an hour or two
	// more, so that whoever comes late learns that there was one.
	Until time.Time
}

// Expired reports whether the time of the reply is over at t.
func (r *Reply) Expired(t time.Time) bool { return !r.Until.IsZero() && !t.Before(r.Until) }

// Followed is what a caller may learn of its message.
type Followed struct {
	Route string
	// Fate is FateWaiting, FateDelivered or FateDead.
	Fate Fate
	// Meta is that of the message, which waits or is dead.
	Meta []byte
	// Expired says of one that waits that another site was to answer it, and that
	// nobody waits for that any longer.
	Expired bool
	// Reply is that of a message that was delivered.
	Reply *Reply
}

// Follow tells what has become of a message: it waits, it is dead, or there is a
// reply, which may have expired. Of one that was delivered without a reply being
// kept, was dropped, or was never accepted it knows nothing: ErrNotFound. ErrBusy
// while the index is not complete and the message may wait all the same.
func (q *Queue) Follow(id string) (*Followed, error) {
	q.mu.Lock()
	it, dead, loaded := q.byID[keyOf(id)], q.buried.byID[id], q.loaded
	there := q.awaits.byID[keyOf(id)]
	f := &Followed{}
	var seq uint64
	switch {
	case it != nil:
		f.Route, seq = it.route.name, it.seq
		if it.hot() != nil {
			f.Meta = it.hot().Meta
		}
	case dead != nil:
		f.Route, f.Fate = dead.Route, FateDead
	case there != nil:
		f.Route = there.route.name
		if there.dead != nil {
			f.Fate = FateDead
		}
	}
	q.mu.Unlock()
	var err error
	switch {
	case f.Meta != nil:
		return f, nil
	case it != nil:
		var m *Message
		if m, err = q.store.Get(seq); err == nil {
			f.Meta = m.Meta
			return f, nil
		}
	case dead != nil:
		var d *DeadLetter
		if d, err = q.store.Dead(id); err == nil {
			f.Meta = d.Meta
			return f, nil
		}
	case there != nil:
		if err = q.followAwaited(id, f); err == nil {
			return f, nil
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	// Not there, or no longer: it may have been answered just now.
	r, err := q.store.Reply(id)
	switch {
	case err == nil:
		return &Followed{Route: r.Route, Fate: FateDelivered, Reply: r}, nil
	case errors.Is(err, ErrNotFound) && !loaded:
		return nil, ErrBusy
	}
	return nil, err
}

// delivered ends a message that was delivered. n is the attempt that did it.
func (q *Queue) delivered(run *running, d *destState, it *item, m *Message, n int, o Outcome) {
	var err error
	var body []byte
	if o.Keep != nil {
		r := *o.Keep
		r.ID, r.Route, body = it.id(), it.route.name, r.Body
		err = q.insist(run.ctx, it, func() error { return q.store.KeepReply(context.Background(), &r) })
	}
	if err == nil && o.Awaits != nil {
		err = q.handOver(run, it, m, o.Awaits)
	}
	if err == nil && o.Next != nil {
		body = o.Next.Body
		err = q.sendOn(run.ctx, it, o.Next, FateDelivered)
	}
	switch {
	case err == nil:
		q.keepDelivered(it, m, AttemptRecord{N: n, At: time.Now(), Status: o.Status})
		q.done(d, it)
	case errors.Is(err, ErrTooLarge):
		// A person may find the start of it with the dead letter.
		reason := "the reply is larger than can be stored"
		q.remember(it, AttemptRecord{N: n, At: time.Now(), Status: o.Status, Reason: reason, Maybe: true})
		o.Reply, o.ReplyType = body, ""
		q.burial(d, it, m, ReasonPermanent, reason, o)
	default:
		// The message has been processed, and its reply is lost: the next attempt
		// is marked.
		o.Maybe = true
		q.aborted(d, it, m, n, o)
	}
}

// refused makes a dead letter of a message with an answer that no retry can mend.
func (q *Queue) refused(run *running, d *destState, it *item, m *Message, record AttemptRecord, o Outcome) {
	if o.Next != nil {
		// One that is too large stays with the dead letter alone.
		if err := q.sendOn(run.ctx, it, o.Next, FateDead); err != nil && !errors.Is(err, ErrTooLarge) {
			o.Maybe = true
			q.aborted(d, it, m, record.N, o)
			return
		}
	}
	q.remember(it, record)
	q.burial(d, it, m, ReasonPermanent, o.Reason, o)
}

// answered reports whether the reply of a message that may have been processed is
// kept: then a crash came before the message could go.
func (q *Queue) answered(it *item) bool {
	if it.again {
		return false
	}
	r, err := q.store.Reply(it.id())
	if err != nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.Route == it.route.name || it.anew
}
