package queue

import (
	"context"
	"slices"
	"time"
)

// memoryDone is a message that was delivered.
type memoryDone struct {
	memoryRecord
	seq uint64
	id  string
	at  time.Time
}

// SetKeepDelivered implements [Store].
func (s *Memory) SetKeepDelivered(keep time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	s.keep = keep
	s.expireDone()
	return nil
}

// expireDone must be called with mu held.
func (s *Memory) expireDone() {
	now := time.Now()
	s.data.done = slices.DeleteFunc(s.data.done, func(d memoryDone) bool { return now.Sub(d.at) >= s.keep })
}

// KeepDelivered implements [Store].
func (s *Memory) KeepDelivered(d *DeadLetter) error {
	if _, err := subjectToken(d.ID); err != nil {
		return err
	}
	header, data, err := encodeDead(d)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil || s.keep == 0 {
		return err
	}
	if s.full {
		return ErrFull
	}
	s.expireDone()
	s.data.doneSeq++
	s.data.done = append(s.data.done, memoryDone{memoryRecord{header, data}, s.data.doneSeq, d.ID, time.Now()})
	return nil
}

// ScanDelivered implements [Store].
func (s *Memory) ScanDelivered(ctx context.Context, from uint64, f func(seq uint64, d *DeadLetter, size int64) error) error {
	s.mu.Lock()
	err := s.usable()
	s.expireDone()
	done := slices.Clone(s.data.done)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, r := range done {
		if r.seq < from {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		d, err := decodeDead(r.header, r.data)
		if err != nil {
			continue
		}
		size := d.Size()
		d.Meta, d.Body, d.Reply = nil, nil, nil
		if err := f(r.seq, d, size); err != nil {
			return err
		}
	}
	return nil
}

// Delivered implements [Store].
func (s *Memory) Delivered(id string) (*DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	s.expireDone()
	for _, r := range slices.Backward(s.data.done) {
		if r.id == id {
			return decodeDead(r.header, slices.Clone(r.data))
		}
	}
	return nil, ErrNotFound
}

// ForgetDelivered implements [Store].
func (s *Memory) ForgetDelivered(ctx context.Context, id string) error {
	return s.write(ctx, func() error {
		s.data.done = slices.DeleteFunc(s.data.done, func(d memoryDone) bool { return d.id == id })
		return nil
	}, nil)
}
