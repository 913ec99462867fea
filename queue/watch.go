package queue

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"
)

// watched is the body of a message under way; it remembers why it could not be
// read, which is no news of the destination.
type watched struct {
	Blob

	mu  sync.Mutex
	err error // the first
}

// watch gives a delivery its message, and returns its body if that is in no memory.
func watch(d *Delivery, m *Message) *watched {
	d.Message = m
	if m.Blob == nil {
		return nil
	}
	own, w := *m, &watched{Blob: m.Blob}
	own.Blob = w
	d.Message = &own
	return w
}

func (w *watched) note(err error) error {
	if err != nil && err != io.EOF && !errors.Is(err, fs.ErrClosed) { // closed: by who reads it
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
	}
	return err
}

// failure is why the body could not be read, nil if it could. w may be nil.
func (w *watched) failure() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Open implements [Blob].
func (w *watched) Open() (io.ReadCloser, error) {
	r, err := w.Blob.Open()
	if w.note(err) != nil {
		return nil, err
	}
	return &watchedReader{r, w}, nil
}

type watchedReader struct {
	io.ReadCloser
	w *watched
}

// Read implements [io.Reader].
func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	return n, r.w.note(err)
}

// unsendable ends an attempt of a message whose body could not be read: no
// destination has seen a whole request. One that is damaged is a dead letter for
// an operator to see; any other is tried again, since a disk may come back.
func (q *Queue) unsendable(d *destState, it *item, m *Message, n int, err error) {
	if errors.Is(err, ErrCorrupt) {
		q.opt.Log.Error("a stored message is damaged and can not be delivered", "id", it.id(), "route", it.route.name, "err", err)
		q.remember(it, AttemptRecord{N: n, At: time.Now(), Reason: err.Error()})
		q.burial(d, it, m, ReasonDamaged, err.Error(), Outcome{})
		return
	}
	q.mu.Lock()
	h, noted := it.history(), it.noted
	q.mu.Unlock()
	if noted { // its end is known
		if err := q.store.SaveAttempts(it.id(), h); err != nil && !errors.Is(err, ErrClosed) {
			q.opt.Log.Warn("an attempt could not be recorded", "id", it.id(), "err", err)
		}
	}
	q.unreadable(d, it, err)
}
