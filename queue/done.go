package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ReasonDelivered is the reason in the record of a message that was delivered.
const ReasonDelivered = "delivered"

// SetKeepDelivered says how long messages can be seen and replayed that were
// delivered; 0 forgets those that are there. It is a help for people: they give
// way to all else that needs room, and a crash may lose the latest.
func (q *Queue) SetKeepDelivered(keep time.Duration) error {
	if err := q.store.SetKeepDelivered(keep); err != nil {
		return err
	}
	q.keeps.Store(keep > 0)
	return nil
}

// keepDelivered keeps a message that was delivered by the attempt of record. It must
// come before the removal, so that what is removed is there as long as it is read.
func (q *Queue) keepDelivered(it *item, m *Message, record AttemptRecord) {
	if !q.keeps.Load() {
		return
	}
	q.mu.Lock()
	h := it.history()
	q.mu.Unlock()
	m, err := held(m)
	if err != nil {
		q.opt.Log.Debug("a delivered message is not kept", "id", it.id(), "err", err)
		return
	}
	d := &DeadLetter{Message: m, Died: record.At, Reason: ReasonDelivered, Attempts: append(h[:len(h):len(h)], record)}
	if err := q.store.KeepDelivered(d); err != nil && !errors.Is(err, ErrClosed) {
		q.opt.Log.Debug("a delivered message is not kept", "id", it.id(), "err", err)
	}
}

// held returns a message with its body in memory: what is kept has no files of its
// own, so one that is larger than a record is not kept.
func held(m *Message) (*Message, error) {
	if m.Blob == nil {
		return m, nil
	}
	if m.Size()+int64(len(m.Meta)) > maxData {
		return nil, fmt.Errorf("%w: %d octets", ErrTooLarge, m.Size())
	}
	r, err := m.Blob.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	whole := *m
	whole.Blob, whole.Body = nil, make([]byte, m.Size())
	_, err = io.ReadFull(r, whole.Body)
	return &whole, err
}

// deliveredEntry is a delivered message in a listing.
func deliveredEntry(d *DeadLetter, size int64) Entry {
	n := 0
	for _, a := range d.Attempts {
		n = max(n, a.N)
	}
	return Entry{
		ID: d.ID, Route: d.Route, Destination: d.Destination, Lane: d.Lane, Operation: d.Operation,
		State: StateDelivered, Accepted: d.Accepted, Delivered: d.Died, Size: size, Attempts: n,
	}
}

// listTimeout bounds a look through the delivered messages, which are not indexed.
const listTimeout = 20 * time.Second

// listDelivered is List for those that were delivered, from a number on, in the
// order of their delivery.
func (q *Queue) listDelivered(f Filter, from uint64, limit int) (page []Entry, next string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	full := errors.New("full")
	err = q.store.ScanDelivered(ctx, from, func(seq uint64, d *DeadLetter, size int64) error {
		e := deliveredEntry(d, size)
		if !f.selects(&e) {
			return nil
		}
		if len(page) == limit {
			return full
		}
		page = append(page, e)
		next = "k" + strconv.FormatUint(seq, 10)
		return nil
	})
	switch {
	case err == full: //nolint:errorlint // our own value, never wrapped
		return page, next, nil
	case err != nil:
		return nil, "", err
	}
	return page, "", nil
}

// getDelivered is Get for a message that was delivered.
func (q *Queue) getDelivered(id string) (*Detail, error) {
	d, err := q.store.Delivered(id)
	if err != nil {
		return nil, err
	}
	return &Detail{Entry: deliveredEntry(d, d.Size()), Message: d.Message, History: d.Attempts}, nil
}

// replayDelivered delivers a message once more that was delivered, marked: it is a
// message like any other again, under its id and accepted anew.
func (q *Queue) replayDelivered(ctx context.Context, id string, h *hand) error {
	d, err := q.store.Delivered(id)
	if err != nil {
		return err
	}
	mark := []AttemptRecord{{At: time.Now(), Reason: "replayed after it was delivered", Maybe: true}}
	if err := q.store.SaveAttempts(id, mark); err != nil {
		return err
	}
	q.mu.Lock()
	h.history = mark
	q.mu.Unlock()
	m := *d.Message
	m.Accepted, m.First, m.Anew, m.Again = time.Now(), false, true, true
	if _, err := q.put(ctx, &m); err != nil {
		return fmt.Errorf("queue: replay of %s: %w", id, err)
	}
	return nil
}

// dropDelivered is Drop for a message that was delivered.
func (q *Queue) dropDelivered(ctx context.Context, id string) error {
	if _, err := q.store.Delivered(id); errors.Is(err, ErrNotFound) {
		return err
	}
	return q.store.ForgetDelivered(ctx, id)
}
