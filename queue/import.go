package queue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// ErrInvalid: a message that was to be imported is none that this queue could have
// exported.
var ErrInvalid = errors.New("queue: message is not valid")

// Incoming is a message that was exported from this store or another one.
type Incoming struct {
	// DeadLetter has the message with the route that it shall be on, its attempts
	// and its last answer; the rest of it is for dead letters.
	DeadLetter
	// Waits says that it is no dead letter.
	Waits bool
}

// Imported is what has come of an import.
type Imported struct {
	Count int // messages that are here now and were not before
	Known int // messages that are, or were, here already
}

const (
	// importWindow is how long an imported message is remembered, whatever has
	// become of it.
	importWindow = 7 * 24 * time.Hour
	// importAhead is by how much the clock of an exporting gateway may be ahead.
	importAhead = time.Hour
)

// Import takes up messages from elsewhere: those that wait do so on their route,
// marked as possible duplicates, behind what waits there, and dead letters stay dead. It returns once they are
// durable. Each is taken as a whole or not at all, and once: a message whose id is
// here, or was imported within a week, is passed over, and so is one that repeats
// another by its identity. Those of one lane keep the order that they have in batch. One
// that has waited longer than its route allows has its time start anew.
//
// Errors: ErrBusy while the index is not complete; ErrNoTarget, ErrInvalid; ErrFull and
// the others of [Store.Put]. What was taken before an error stays.
func (q *Queue) Import(ctx context.Context, batch []Incoming) (sum Imported, err error) {
	now := time.Now()
	for i := range batch {
		if err := batch[i].validate(now); err != nil {
			return Imported{}, err
		}
	}
	q.mu.Lock()
	loaded, full := q.loaded, len(q.ids.known)+len(batch) > q.ids.most
	q.mu.Unlock()
	switch {
	case !loaded:
		return Imported{}, ErrBusy
	case full:
		return Imported{}, fmt.Errorf("%w: too many identities are known", ErrFull)
	}
	var mu sync.Mutex
	var fresh []*Incoming
	err = atOnce(ctx, byLane(batch), func(ctx context.Context, job []*Incoming) error {
		for _, in := range job {
			if ctx.Err() != nil {
				return nil
			}
			taken, err := q.takeIn(context.WithoutCancel(ctx), in)
			mu.Lock()
			switch {
			case taken:
				fresh = append(fresh, in)
			case err == nil:
				sum.Known++
			}
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	})
	sum.Count = len(fresh)
	if e := q.rememberImport(context.WithoutCancel(ctx), fresh, now); err == nil {
		err = e
	}
	for _, in := range fresh {
		q.release(in.ID, nil)
	}
	return sum, err
}

// byLane makes jobs of a batch: the messages of a lane in their order, the others
// each by itself.
func byLane(batch []Incoming) (jobs [][]*Incoming) {
	lanes := map[[2]string]int{} // index in jobs
	for i := range batch {
		in := &batch[i]
		key := [2]string{in.Route, in.Lane}
		if at, ok := lanes[key]; ok && in.Lane != "" {
			jobs[at] = append(jobs[at], in)
			continue
		}
		lanes[key] = len(jobs)
		jobs = append(jobs, []*Incoming{in})
	}
	return jobs
}

// validate refuses what would do harm in the index or the store.
func (in *Incoming) validate(now time.Time) error {
	m := in.Message
	if m == nil {
		return fmt.Errorf("%w: there is none", ErrInvalid)
	}
	bad := func(what string) error { return fmt.Errorf("%w: %q: %s", ErrInvalid, cut(m.ID, 100), what) }
	if u, err := uuid.Parse(m.ID); err != nil || u.String() != m.ID {
		return bad("its id is no UUID")
	}
	sane := func(t time.Time) bool { return t.Year() >= 1970 && t.Before(now.Add(importAhead)) }
	if !sane(m.Accepted) {
		return bad("the time of its acceptance is not possible")
	}
	if len(in.Attempts) > 10*keptAttempts {
		return bad("it has too many attempts")
	}
	for _, a := range in.Attempts {
		if a.N < 0 || a.N > 1e9 || !sane(a.At) || len(a.Reason) > maxText || a.NotBefore.Year() > 2200 {
			return bad("an attempt is not possible")
		}
	}
	if len(in.Reply) > maxReply {
		return bad("its reply is too large")
	}
	if !m.Identity.IsZero() && (m.Identity.Until.Year() < 1970 || m.Identity.Until.Year() > 2200) {
		return bad("its identity is not valid")
	}
	if m.After > FateDead {
		return bad("it cannot follow from another like this")
	}
	if in.Waits {
		return nil
	}
	word := in.Reason != "" && len(in.Reason) <= 64 && strings.Trim(in.Reason, "abcdefghijklmnopqrstuvwxyz-") == ""
	if !sane(in.Died) || !word {
		return bad("when or why it died is not possible")
	}
	return nil
}

// takeIn takes one message and keeps it in hand, unless it is known.
func (q *Queue) takeIn(ctx context.Context, in *Incoming) (taken bool, err error) {
	m := *in.Message
	id := m.ID
	held := &hand{}
	q.mu.Lock()
	target, err := q.target(m.Route)
	if err != nil || q.isHere(&m) {
		q.mu.Unlock()
		return false, err
	}
	m.Destination, m.First, m.Anew = target.dest.cfg.Name, false, false
	if in.Waits && target.cfg.Retry.Expired(q.clock.now()-q.clock.stored(m.Accepted)) {
		m.Accepted = time.Now()
	}
	stops := in.Stops && target.cfg.StopOnDead && m.Lane != ""
	q.inHand[id] = held
	q.mu.Unlock()
	defer func() {
		if !taken {
			q.release(id, nil)
		}
	}()

	attempts := slices.Clone(in.Attempts[max(0, len(in.Attempts)-keptAttempts):])
	if !in.Waits {
		d := in.DeadLetter
		d.Message, d.Attempts, d.Stops = &m, attempts, stops
		if err := q.store.Bury(ctx, &d); err != nil {
			return false, err
		}
		q.mu.Lock()
		q.bury(&d, m.Size())
		q.mu.Unlock()
		return true, nil
	}
	attempts = append(attempts, AttemptRecord{At: time.Now(), Reason: "imported", Maybe: true})
	held.history, held.replied = attempts, len(in.Reply) > 0
	kept := slices.Clone(attempts)
	last := &kept[len(kept)-1]
	last.Reply, last.ReplyType = in.Reply[:min(len(in.Reply), keptReply)], in.ReplyType
	if err := q.store.SaveAttempts(id, kept); err != nil {
		return false, err
	}
	if err = q.putIn(ctx, &m); err != nil && !errors.Is(err, ErrUnknown) {
		if e := q.store.SaveAttempts(id, nil); errors.Is(err, errRepeat) {
			return false, e
		}
		return false, err
	}
	return q.putElsewhere(id), err
}

// isHere reports whether a message is known by its id, or repeats one by its
// identity. An identity that another message has with other content is taken off:
// repeats of that one are noticed, and not of this. mu is held.
func (q *Queue) isHere(m *Message) bool {
	_, held := q.inHand[m.ID]
	_, imported := q.ids.find(importKey(m.ID))
	if held || imported || q.byID[keyOf(m.ID)] != nil || q.buried.byID[m.ID] != nil {
		return true
	}
	if m.Identity.IsZero() {
		return false
	}
	if p := q.ids.pending[m.Identity.Key]; p != nil && p.sum != m.Identity.Sum {
		m.Identity = Identity{}
		return false
	}
	k, ok := q.ids.find(m.Identity.Key)
	if ok && k.sum == m.Identity.Sum {
		return true
	}
	if ok || !m.Identity.Until.After(time.Now()) {
		m.Identity = Identity{}
	}
	return false
}

var errRepeat = errors.New("queue: it repeats another message")

// putIn stores a message that waits.
func (q *Queue) putIn(ctx context.Context, m *Message) error {
	if m.Identity.IsZero() {
		return q.Put(ctx, m)
	}
	kept, err := q.PutOnce(ctx, m)
	switch {
	case err == nil && kept.Repeat:
		return errRepeat
	case errors.Is(err, ErrOtherContent): // accepted since isHere has looked
		m.Identity = Identity{}
		return q.Put(ctx, m)
	}
	return err
}

// importKey stands for an imported message among the identities. No other is made
// of this text.
func importKey(id string) (key [16]byte) {
	sum := sha256.Sum256([]byte("imported\x00" + id))
	copy(key[:], sum[:])
	return key
}

// rememberImport makes it durable that messages were imported.
func (q *Queue) rememberImport(ctx context.Context, fresh []*Incoming, now time.Time) error {
	if len(fresh) == 0 {
		return nil
	}
	known := make([]Known, len(fresh))
	for i, in := range fresh {
		known[i] = Known{
			Identity: Identity{Key: importKey(in.ID), Until: now.Add(importWindow)},
			ID:       in.ID, Route: in.Route, Fate: FateDelivered,
		}
	}
	if err := q.store.KeepKnown(ctx, known...); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range known {
		q.ids.set(&known[i].Identity, known[i].ID, known[i].Route, FateDelivered)
	}
	return nil
}
