package queue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
	"unique"
)

// A message that another site has taken leaves the log: its body, its attempts and
// its fate are that site's now. Where its answer is to come back, what the answer
// needs stays here as an [Awaited]. It is durable before the message goes, and goes
// itself once the answer is durable, so that no crash loses both.

// Awaited is a message that another site has taken and whose answer is to come from
// there.
type Awaited struct {
	ID        string    `json:"id"`
	Route     string    `json:"route"`
	Site      string    `json:"site"` // that has it; no other can answer it
	Operation string    `json:"operation,omitempty"`
	Accepted  time.Time `json:"accepted"`
	Handed    time.Time `json:"handed"` // when the site had taken it
	Until     time.Time `json:"until"`  // nobody waits for the answer any longer
	Size      int64     `json:"size"`   // octets of its body
	Meta      []byte    `json:"meta"`   // what the deliverer needs for the answer; the queue does not look inside

	// Died is when the site has told that it could not deliver the message, and Reason
	// why, in one line. An answer may come all the same, after a replay there.
	Died   time.Time `json:"died,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// AwaitFor is how long an answer is awaited, from when the other site has taken the
// message. It is far more than a link is down for and than a route over there keeps
// trying, and it bounds what messages leave behind whose answer never comes.
const AwaitFor = 90 * 24 * time.Hour

// awaitGrace is how much longer it is known that the time was over.
const awaitGrace = time.Hour

// Answer is what another site tells of a message that it had taken.
type Answer struct {
	// Dead says that it could not deliver the message, and Reason why, in one line.
	Dead   bool
	Reason string
	// Keep is the answer to be kept for the caller, as [Outcome.Keep], and Next the
	// answer as a message of its own, as [Outcome.Next]; either may be nil.
	Keep *Reply
	Next *Message
}

// ErrNotAwaited: no message of this id waits for an answer of this site.
var ErrNotAwaited = errors.New("queue: no such answer is awaited")

// awaits is the index of what is awaited. Guarded by Queue.mu.
type awaits struct {
	byID map[idKey]*awaitedEntry
	// sites is how many are awaited of each site.
	sites map[string]int
	// busy are those whose answer is being made durable; closed when that is over.
	busy map[idKey]chan struct{}
}

// awaitedEntry is kept small: there may be as many as messages of a week.
type awaitedEntry struct {
	route    *routeState
	site, op unique.Handle[string]
	accepted int64 // nanoseconds since 1970, as the next two
	handed   int64
	until    int64
	size     int64
	dead     *deadThere // nil while it may be delivered
}

// deadThere is what is told of a message that is dead at its site.
type deadThere struct {
	at     time.Time
	reason string
}

func newAwaits() awaits {
	return awaits{byID: map[idKey]*awaitedEntry{}, sites: map[string]int{}, busy: map[idKey]chan struct{}{}}
}

// await puts one into the index. mu is held.
func (q *Queue) await(a *Awaited) {
	key := keyOf(a.ID)
	q.unawait(key, a.ID)
	e := &awaitedEntry{
		route: q.route(a.Route), site: unique.Make(a.Site), op: unique.Make(a.Operation),
		accepted: a.Accepted.UnixNano(), handed: a.Handed.UnixNano(), until: a.Until.UnixNano(), size: a.Size,
	}
	if !a.Died.IsZero() {
		e.dead = &deadThere{a.Died, a.Reason}
	}
	q.awaits.byID[key] = e
	q.awaits.sites[a.Site]++
	e.route.awaited.add(a.ID)
}

// unawait takes one out of the index. mu is held.
func (q *Queue) unawait(key idKey, id string) {
	e := q.awaits.byID[key]
	if e == nil {
		return
	}
	delete(q.awaits.byID, key)
	e.route.awaited.remove(id)
	site := e.site.Value()
	if q.awaits.sites[site]--; q.awaits.sites[site] == 0 {
		delete(q.awaits.sites, site)
	}
}

// loadAwaited reads what is awaited.
func (q *Queue) loadAwaited(ctx context.Context) error {
	err := q.store.ScanAwaited(ctx, func(a *Awaited) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.await(a)
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue: awaited answers: %w", err)
	}
	return nil
}

// handOver keeps what the answer to a message needs that another site has taken.
func (q *Queue) handOver(run *running, it *item, m *Message, a *Awaited) error {
	own := *a
	own.ID, own.Route, own.Operation, own.Accepted, own.Size = m.ID, it.route.name, m.Operation, m.Accepted, m.Size()
	own.Handed = time.Now()
	own.Until = own.Handed.Add(AwaitFor)
	err := q.insist(run.ctx, it, func() error { return q.store.KeepAwaited(context.Background(), &own) })
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.await(&own)
	return nil
}

// handedOver reports whether another site has taken a message that a crash has brought
// back, and its answer is awaited. mu is held.
func (q *Queue) handedOver(it *item) bool {
	return !it.again && !it.anew && q.awaits.byID[it.key] != nil
}

// AwaitedOf is how many answers are awaited of a site.
func (q *Queue) AwaitedOf(site string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.awaits.sites[site]
}

// Awaited returns what a site is to answer. [ErrNotAwaited] if it is not to answer a
// message of this id; [ErrBusy] if the message is on its way there, so that the answer
// may be faster than the news that the site has taken it; ErrFull while the index is
// not complete after a start.
func (q *Queue) Awaited(ctx context.Context, id, site string) (*Awaited, error) {
	if err := q.indexed(ctx); err != nil {
		return nil, err
	}
	for end := time.Now().Add(earlyPatience); ; {
		known, onWay, flying := q.whereabouts(keyOf(id), site)
		switch {
		case known:
			a, err := q.store.Awaited(id)
			if errors.Is(err, ErrNotFound) { // answered at this moment
				err = ErrNotAwaited
			}
			return a, err
		case !onWay:
			return nil, ErrNotAwaited
		case !flying || !time.Now().Before(end):
			return nil, ErrBusy
		}
		pause := time.NewTimer(earlyPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("%w: %w", ErrClosed, context.Cause(ctx))
		}
	}
}

// An answer that is faster than the acknowledgement of its message waits so long for
// that, and looks so often.
const (
	earlyPatience = 5 * time.Second
	earlyPause    = 5 * time.Millisecond
)

// whereabouts tells whether a site is to answer a message, and else whether that is to
// go to the site, and is under way at this moment.
func (q *Queue) whereabouts(key idKey, site string) (awaited, onWay, flying bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.awaits.byID[key]; e != nil {
		return e.site.Value() == site, false, false
	}
	it := q.byID[key]
	onWay = it != nil && it.route.dest != nil && it.route.dest.cfg.Link == site
	return false, onWay, onWay && it.where == inFlight
}

// DeadThere reports whether a message is dead at the site that had taken it.
func (q *Queue) DeadThere(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.awaits.byID[keyOf(id)]
	return e != nil && e.dead != nil
}

// Answer takes what a site tells of a message that it had taken, under a label of that
// site. It returns nil once that is durable, [ErrSeen] for a label that has come
// before, and [ErrNotAwaited]; else the errors are those of [Store.Put].
//
// The answer is durable first, then its label, then the message is not awaited any
// longer: after a crash in between the site sends the answer again.
func (q *Queue) Answer(ctx context.Context, label *Label, id, site string, a *Answer) error {
	ctx = context.WithoutCancel(ctx) // half of it is worth finishing
	err := q.once(ctx, label, func() error { return q.answer(ctx, label, id, site, a) })
	if errors.Is(err, ErrSeen) {
		if e := q.Repeated(ctx, id, site, a.Dead, a.Reason); e != nil {
			return e
		}
	}
	return err
}

// Repeated finishes what a crash may have left of an answer whose label has come
// before: the answer is durable, and the message may still be awaited.
func (q *Queue) Repeated(ctx context.Context, id, site string, dead bool, reason string) error {
	// Whoever has the label noted may not have come to the end of that.
	if err := q.saveSeen(ctx); err != nil {
		return err
	}
	end, err := q.answering(ctx, id, site)
	if errors.Is(err, ErrNotAwaited) {
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	return q.settleAwaited(ctx, id, dead, reason)
}

// answering waits until no other answer to the message is being made durable; end must
// follow unless it fails.
func (q *Queue) answering(ctx context.Context, id, site string) (end func(), err error) {
	key := keyOf(id)
	for {
		q.mu.Lock()
		e := q.awaits.byID[key]
		if e == nil || e.site.Value() != site {
			q.mu.Unlock()
			return nil, ErrNotAwaited
		}
		other := q.awaits.busy[key]
		done := make(chan struct{})
		if other == nil {
			q.awaits.busy[key] = done
		}
		q.mu.Unlock()
		if other == nil {
			return func() {
				q.mu.Lock()
				delete(q.awaits.busy, key)
				q.mu.Unlock()
				close(done)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrClosed, context.Cause(ctx))
		}
	}
}

func (q *Queue) answer(ctx context.Context, label *Label, id, site string, a *Answer) error {
	end, err := q.answering(ctx, id, site)
	if err != nil {
		return err
	}
	defer end()
	if a.Keep != nil {
		r := *a.Keep
		q.mu.Lock()
		r.ID, r.Route = id, q.awaits.byID[keyOf(id)].route.name
		q.mu.Unlock()
		if err := q.store.KeepReply(ctx, &r); err != nil {
			return err
		}
	}
	if a.Next != nil {
		m := q.followsAwaited(id, a, label)
		if _, err := q.put(ctx, m); err != nil {
			return err
		}
	} else if err := q.Consume(ctx, label); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return q.settleAwaited(ctx, id, a.Dead, a.Reason)
}

// followsAwaited is the message that the answer to one that is awaited leads to. Its
// label stands in its record, so that both are durable at once.
func (q *Queue) followsAwaited(id string, a *Answer, label *Label) *Message {
	m := *a.Next
	q.mu.Lock()
	e := q.awaits.byID[keyOf(id)]
	accepted, told := time.Unix(0, e.accepted), e.dead != nil
	q.mu.Unlock()
	// As for any answer, so that a message that a crash has brought back finds it. What
	// comes after the news that the message is dead is a second one.
	key := nextKey(id, accepted)
	if told {
		sum := sha256.Sum256([]byte("answer " + label.option()))
		copy(key[9:], sum[:])
	}
	m.ID, m.Accepted, m.After, m.Came = key.String(), time.Now(), FateDelivered, label
	if a.Dead {
		m.After = FateDead
	}
	return &m
}

// settleAwaited makes durable that a message was answered: it is not awaited any
// longer, or is known to be dead at its site.
func (q *Queue) settleAwaited(ctx context.Context, id string, dead bool, reason string) error {
	key := keyOf(id)
	if !dead {
		if err := q.store.ForgetAwaited(ctx, id); err != nil {
			return err
		}
		q.mu.Lock()
		q.unawait(key, id)
		q.mu.Unlock()
		return nil
	}
	own, err := q.store.Awaited(id)
	if err != nil {
		return err
	}
	own.Died, own.Reason = time.Now(), cut(reason, maxText)
	if err := q.store.KeepAwaited(ctx, own); err != nil {
		return err
	}
	q.mu.Lock()
	q.await(own)
	q.mu.Unlock()
	q.opt.Log.Warn("a message is dead at the site that had taken it", "id", id, "route", own.Route, "site", own.Site, "reason", own.Reason)
	return nil
}

// expireAwaited forgets those that nobody waits for any longer.
func (q *Queue) expireAwaited(ctx context.Context) {
	q.mu.Lock()
	var over []string
	if !q.clock.calmly() {
		late := q.clock.wall().Add(-awaitGrace).UnixNano()
		for _, r := range q.routes {
			for id := range r.awaited.after("") {
				if q.awaits.byID[keyOf(id)].until < late {
					over = append(over, id)
				}
			}
		}
	}
	q.mu.Unlock()
	for _, id := range over {
		if err := q.dropAwaited(ctx, id); err != nil {
			return
		}
		q.opt.Log.Warn("the answer of another site has not come, and is not awaited any longer", "id", id)
	}
}

// dropAwaited forgets one. ErrNotFound, or ErrBusy while it is being answered.
func (q *Queue) dropAwaited(ctx context.Context, id string) error {
	key := keyOf(id)
	q.mu.Lock()
	e, busy := q.awaits.byID[key], q.awaits.busy[key]
	q.mu.Unlock()
	switch {
	case e == nil:
		return ErrNotFound
	case busy != nil:
		return ErrBusy
	}
	if err := q.store.ForgetAwaited(ctx, id); err != nil {
		return err
	}
	q.mu.Lock()
	q.unawait(key, id)
	q.mu.Unlock()
	return nil
}

// awaitedAs is one in a listing. mu is held.
func (e *awaitedEntry) awaitedAs(id string) Entry {
	site := e.site.Value()
	out := Entry{
		ID: id, Route: e.route.name, Operation: e.op.Value(), State: StateAwaiting, Accepted: time.Unix(0, e.accepted).UTC(), Size: e.size,
		Site: site, Handed: time.Unix(0, e.handed).UTC(),
		Text: "handed over to site " + site + ", which has not answered yet",
	}
	if d := e.route.dest; d != nil {
		out.Destination = d.cfg.Name
	}
	if e.dead != nil {
		out.Died, out.Text = e.dead.at, "dead at site "+site+": "+e.dead.reason
	}
	return out
}

// listAwaited is List for those whose answer is awaited, by their ids.
func (q *Queue) listAwaited(f Filter, after string, limit int) (page []Entry, next string) {
	p := pager{filter: &f, limit: limit}
	at := after
	q.inBreaths(func() bool {
		looked := 0
		for id := range q.idsAfter(f.Route, at, func(r *routeState) *idList { return &r.awaited }) {
			if looked++; looked > breath {
				return true
			}
			at = id
			e := q.awaits.byID[keyOf(id)].awaitedAs(id)
			if !p.take(&e, "a"+id) {
				return false
			}
		}
		return false
	})
	if !p.full {
		p.next = ""
	}
	return p.page, p.next
}

// getAwaited is Get for one.
func (q *Queue) getAwaited(id string) (*Detail, error) {
	q.mu.Lock()
	e := q.awaits.byID[keyOf(id)]
	var entry Entry
	if e != nil {
		entry = e.awaitedAs(id)
	}
	q.mu.Unlock()
	if e == nil {
		return nil, ErrNotFound
	}
	a, err := q.store.Awaited(id)
	if err != nil {
		return nil, err
	}
	return &Detail{Entry: entry, Message: &Message{
		ID: a.ID, Route: a.Route, Destination: entry.Destination, Operation: a.Operation, Accepted: a.Accepted, Meta: a.Meta,
	}}, nil
}

// followAwaited is Follow for one.
func (q *Queue) followAwaited(id string, f *Followed) error {
	a, err := q.store.Awaited(id)
	if err != nil {
		return err
	}
	f.Meta = a.Meta
	f.Expired = a.Died.IsZero() && !q.clock.wall().Before(a.Until)
	return nil
}
