package queue

import (
	"context"
	"errors"
)

// PutResult is what has become of one of the messages of a PutAll.
type PutResult struct {
	// Kept is that of PutOnce, for a message with an identity.
	Kept
	// Err is that of Put or PutOnce, or ErrBehind.
	Err error
}

// taken reports whether the message needs nobody to send it again, so that what is
// behind it may follow. A repeat of a message that is dead is for a person to see.
func (r *PutResult) taken() bool {
	if r.Err != nil {
		return errors.Is(r.Err, ErrSeen)
	}
	return !r.Repeat || r.Fate != FateDead && r.Fate != FateDropped
}

// PutAll is Put, or PutOnce for those with an identity, for many messages at once, which
// share a sync of the disk. One that is Behind the one before it comes after that in the
// log, and only if that is there, or was: otherwise its error is ErrBehind.
func (q *Queue) PutAll(ctx context.Context, ms []*Message) []PutResult {
	out := make([]PutResult, len(ms))
	behind := make([]bool, len(ms))
	for i, m := range ms {
		behind[i] = m.Behind && i > 0
	}
	if err := q.indexed(ctx); err != nil {
		for i := range out {
			if out[i].Err = err; behind[i] {
				out[i].Err = ErrBehind
			}
		}
		return out
	}
	for from := 0; from < len(ms); {
		c := q.claimAll(ms, behind, out, from)
		if len(c.list) == 0 && c.to < len(ms) {
			// Another with its label, or its identity, is being committed.
			out[c.to] = q.putOne(ctx, ms[c.to])
			from = c.to + 1
			continue
		}
		q.settleAll(c, q.store.PutAll(ctx, c.messages()), out)
		for i := from; i < c.to; i++ {
			if behind[i] && !out[i-1].taken() {
				out[i] = PutResult{Err: ErrBehind} // it was not among those that were put
			}
		}
		from = c.to
	}
	return out
}

// putOne is PutAll for one message, and waits for others like it.
func (q *Queue) putOne(ctx context.Context, m *Message) (r PutResult) {
	if m.Identity.IsZero() {
		r.Err = q.Put(ctx, m)
		return r
	}
	r.Kept, r.Err = q.PutOnce(ctx, m)
	return r
}

// claims are messages that nobody else commits.
type claims struct {
	list []ownClaim
	to   int // the first that was not looked at
}

type ownClaim struct {
	i       int // in the PutAll
	m       *Message
	size    int64
	number  *numbering // of its label on a link; nil for none
	came    *seenStream
	done    chan struct{} // of came
	pending *pendingID    // nil for one without an identity
}

func (c *claims) messages() []*Message {
	ms := make([]*Message, len(c.list))
	for i := range c.list {
		ms[i] = c.list[i].m
	}
	return ms
}

// claimAll takes up messages from a number on, to the first that somebody else is
// committing at this moment. What becomes of the others is in out.
func (q *Queue) claimAll(ms []*Message, behind []bool, out []PutResult, from int) *claims {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &claims{to: len(ms)}
	follows := false // the last of the list is of the run of the message
	for i := from; i < len(ms); i++ {
		if follows = follows && behind[i]; behind[i] && !out[i-1].taken() {
			out[i].Err = ErrBehind
			continue
		}
		mine, busy := q.claimOne(ms[i], &out[i])
		if busy {
			c.to = i
			return c
		}
		if mine == nil {
			continue
		}
		mine.i = i
		ms[i].Behind, follows = follows, true
		c.list = append(c.list, *mine)
	}
	return c
}

// claimOne takes a message up, unless out says what has become of it already, or
// somebody else is committing it. mu is held.
func (q *Queue) claimOne(m *Message, out *PutResult) (mine *ownClaim, busy bool) {
	c := &ownClaim{m: m, size: m.Size()}
	if l := m.Came; l != nil {
		c.came = q.seen.stream(l.Stream)
		if c.came.all.has(l.N) {
			out.Err = ErrSeen
			return nil, false
		}
		if c.came.pending[l.N] != nil {
			return nil, true
		}
	}
	if !m.Identity.IsZero() {
		kept, p, err := q.ids.claim(m)
		switch {
		case p != nil && p.id != m.ID:
			return nil, true
		case err != nil || p == nil:
			out.Kept, out.Err = kept, err
			return nil, false
		}
		c.pending = p
	}
	if out.Err = q.route(m.Route).reserve(c.size); out.Err != nil {
		if c.pending != nil {
			q.ids.conclude(m, c.pending, out.Err)
		}
		return nil, false
	}
	if c.came != nil {
		c.done = make(chan struct{})
		c.came.pending[m.Came.N] = c.done
	}
	c.number = q.label(m)
	return c, false
}

// settleAll tells everybody what has become of messages that were claimed.
func (q *Queue) settleAll(c *claims, errs []error, out []PutResult) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range c.list {
		c, err := &c.list[k], errs[k]
		if out[c.i].Err = err; err == nil && c.pending != nil {
			out[c.i].Kept = Kept{ID: c.m.ID}
		}
		q.route(c.m.Route).coming.add(-1, -c.size)
		if c.number != nil && err != nil && !errors.Is(err, ErrUnknown) {
			c.number.spare = append(c.number.spare, c.m.Link.N)
		}
		if c.came != nil {
			delete(c.came.pending, c.m.Came.N)
			close(c.done)
		}
		if c.pending != nil {
			q.ids.conclude(c.m, c.pending, err)
		}
	}
}
