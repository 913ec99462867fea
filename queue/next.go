package queue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A message may lead to another one: its answer, on the way to somebody else. The
// next message is durable before the first one goes, and has an id that follows
// from the first one's, so that after a crash it is found where both are there.

// nextKey is the id of the message that follows from the one with this id, accepted
// at that time: a UUIDv7 of the same millisecond. A replay is accepted anew, and
// what follows from it is another message.
func nextKey(id string, accepted time.Time) idKey {
	k := keyOf(id) // of one that is no UUID nothing but the hash counts
	sum := sha256.Sum256([]byte("next " + id + " " + strconv.FormatInt(accepted.UnixNano(), 10)))
	copy(k[6:], sum[:])
	k[6], k[8] = k[6]&0x0f|0x70, k[8]&0x3f|0x80
	return k
}

// sendOn makes the message that follows from it durable. fate is what becomes of it
// then.
func (q *Queue) sendOn(ctx context.Context, it *item, next *Message, fate Fate) error {
	if !it.forwards() {
		return fmt.Errorf("queue: message %s leads to none", it.id())
	}
	m := *next
	m.ID, m.Accepted, m.After = it.more.next.String(), time.Now(), fate
	err := q.insist(ctx, it, func() error {
		_, err := q.put(context.Background(), &m)
		return err
	})
	if err == nil {
		q.mu.Lock()
		it.went = fate
		q.mu.Unlock()
	}
	return err
}

// replyPause is how long a reply waits for room.
const replyPause = time.Second

// insist does what must be done before a message that was answered may go. A store
// without room is waited for: the message must not be sent again, which it would
// be if it was let go of. The error is that of a store that fails, or of a stop
// that comes first.
func (q *Queue) insist(ctx context.Context, it *item, do func() error) error {
	told := false
	for {
		err := do() // one that has begun is worth finishing
		if !errors.Is(err, ErrFull) {
			return err
		}
		if !told {
			told = true
			q.opt.Log.Error("a reply could not be stored; it waits for room", "id", it.id(), "route", it.route.name, "err", err)
			q.mu.Lock()
			it.route.last = fmt.Sprintf("reply could not be stored: %v", err)
			q.mu.Unlock()
		}
		pause := time.NewTimer(replyPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// followers are the messages in a store that follow from others, by id, with what
// has become of those.
type followers map[idKey]Fate

func (f followers) add(m *Message) {
	if m.After != FateWaiting {
		f[keyOf(m.ID)] = m.After
	}
}

// settle tells the messages that forward what has become of them. mu is held.
func (f followers) settle(log []*item) {
	if len(f) == 0 {
		return
	}
	for _, it := range log {
		if it.forwards() && it.went == FateWaiting {
			it.went = f[it.more.next]
		}
	}
}

// settled is what has become of a message that is still in the log: its answer is
// kept or is a message of its own, so that it must not be sent again. FateWaiting
// is nothing. The error is that of a stop that comes before the log was read: what
// follows from a message stands behind it.
func (q *Queue) settled(ctx context.Context, it *item, doubt bool) (Fate, error) {
	if it.forwards() {
		select {
		case <-q.complete:
		case <-ctx.Done():
			return FateWaiting, context.Cause(ctx)
		}
	}
	q.mu.Lock()
	fate := it.went
	if fate == FateWaiting && doubt && q.handedOver(it) {
		fate = FateDelivered
	}
	q.mu.Unlock()
	if fate == FateWaiting && doubt && q.answered(it) {
		fate = FateDelivered
	}
	return fate, nil
}

// faultText is why a message dies whose answer, a fault, is on its way, or the news of
// its end.
const faultText = "its end is told in a message of its own"
