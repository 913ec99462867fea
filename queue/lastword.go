package queue

import (
	"context"
	"errors"
	"time"
)

// A Mourner is a [Deliverer] that has something to tell to others when a message ends
// without having been answered: it becomes a dead letter, or an operator drops it.
type Mourner interface {
	// LastWord returns the message that tells it, nil for none. m Forwards and leads
	// to no other message yet; reason is one of the stable words, and text one line.
	LastWord(m *Message, reason, text string) *Message
}

// ReasonDropped is the reason that a [Mourner] is told for what an operator drops.
const ReasonDropped = "dropped"

// lastWord makes durable what is to be told of the end of a message. It is called
// before the message goes; the error keeps it.
func (q *Queue) lastWord(key idKey, it *item, m *Message, reason, text string) error {
	w, ok := q.deliv.(Mourner)
	if !ok || !m.Forwards {
		return nil
	}
	if it != nil {
		q.mu.Lock()
		told := it.went != FateWaiting
		q.mu.Unlock()
		if told {
			return nil
		}
	}
	next := w.LastWord(m, reason, text)
	if next == nil {
		return nil
	}
	own := *next
	own.ID, own.Accepted, own.After = key.String(), time.Now(), FateDead
	_, err := q.put(context.Background(), &own)
	if errors.Is(err, ErrTooLarge) {
		return nil // it stays with the dead letter alone
	}
	if err == nil && it != nil {
		q.mu.Lock()
		it.went = FateDead
		q.mu.Unlock()
	}
	return err
}

// mourn is lastWord for a message that waits, and that an operator drops.
func (q *Queue) mourn(it *item) error {
	if _, ok := q.deliv.(Mourner); !ok {
		return nil
	}
	m, err := q.store.Get(it.seq)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
		return nil // what cannot be read can be dropped all the same
	}
	if err != nil {
		return err
	}
	return q.lastWord(it.more.next, it, m, ReasonDropped, "an operator has dropped it")
}
