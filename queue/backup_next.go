package queue

import (
	"context"
	"sync"
)

// follows notes the messages that follow from others while a backup is made. What
// such a message follows from may be gone before the backup comes to it; then the
// backup has it by what follows, although that came later than its beginning.
type follows struct {
	mu     sync.Mutex
	noting bool
	seqs   []uint64
}

// begin starts to note; the return value ends it.
func (f *follows) begin() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noting = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.noting, f.seqs = false, nil
	}
}

// stored takes up a message that is durable.
func (f *follows) stored(seq uint64, m *Message) {
	if m.After == FateWaiting {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noting {
		f.seqs = append(f.seqs, seq)
	}
}

// take returns what was noted since the last time, in the order of the log.
func (f *follows) take() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	seqs := f.seqs
	f.seqs = nil
	return seqs
}

// following writes the messages that follow from others and came after the backup
// began. It comes after the log: a message is durable before what it follows from goes.
func (b *backup) following(ctx context.Context) error {
	for _, seq := range b.s.follows.take() {
		if seq <= b.last || b.s.trim.removed(seq) {
			continue
		}
		err := b.s.js.records(ctx, streamLog, seq, seq, func(r scanned) error {
			plain, err := b.s.js.opened(r)
			if err != nil {
				return err
			}
			ok, err := b.body(&claimant{stream: streamLog, seq: r.seq, subject: r.subject}, claimed(&plain))
			if err != nil || !ok {
				return err
			}
			b.w.counts.Messages++
			return b.write(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
