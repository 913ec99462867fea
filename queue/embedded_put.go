package queue

import (
	"context"
	"errors"
)

// putting is a message on its way into the log.
type putting struct {
	job  *job
	blob string // held for the record; "" where the body stands in it
	size int64
}

// Put implements [Store]. m belongs to the store from the call on.
func (s *Embedded) Put(ctx context.Context, m *Message) (uint64, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	p, err := s.begin(m)
	if err != nil {
		return 0, err
	}
	// Also when the caller has left: what it holds for the message (its identity, its
	// body, its room) is given back only by somebody who knows what became of it.
	err = s.commit.do(context.WithoutCancel(ctx), p.job)
	s.ended(p, err)
	if err != nil {
		return 0, err
	}
	return p.job.seq, nil
}

// PutAll implements [Store]. The messages belong to the store from the call on.
func (s *Embedded) PutAll(ctx context.Context, ms []*Message) []error {
	errs := make([]error, len(ms))
	all := make([]putting, len(ms))
	usable := s.usable()
	for i, m := range ms {
		behind := m.Behind && i > 0
		switch {
		case behind && errs[i-1] != nil:
			errs[i] = ErrBehind
		case usable != nil:
			errs[i] = usable
		default:
			all[i], errs[i] = s.begin(m)
		}
		if behind && errs[i] == nil {
			all[i-1].job.next = all[i].job
		}
	}
	for i, m := range ms { // what is behind another goes with it
		if errs[i] != nil || m.Behind && i > 0 {
			continue
		}
		if err := s.commit.submit(all[i].job); err != nil {
			for j := all[i].job; j != nil; j, err = j.next, ErrBehind {
				j.err = err
				close(j.done)
			}
		}
	}
	ctx = context.WithoutCancel(ctx) // as in Put
	for i := range ms {
		if errs[i] == nil {
			errs[i] = s.commit.await(ctx, all[i].job)
			s.ended(all[i], errs[i])
		}
	}
	return errs
}

// begin makes the record of m, whose body is then where its record wants it, if there
// is room for it. What it takes up is given back by ended.
func (s *Embedded) begin(m *Message) (p putting, err error) {
	if p.blob, err = s.blobs.take(m, inlineMost); err != nil {
		return p, err
	}
	header, data, err := encodeMessage(m)
	if err == nil {
		rec := record{s.js.keys.Load().logSubject(m.Destination), headerMessage, header, data}
		size := s.sizeOf(&rec)
		limit, free := s.bounds(m)
		if err = s.admit(int64(size), limit, free, 2*int64(size)); err == nil {
			p.size = int64(size)
			p.job = &job{rec: rec, size: size, msg: m, urgent: s.opt.Durability == Strict, early: s.opt.Durability != Strict}
			s.used.Add(p.size)
			s.messages.Add(1)
			return p, nil
		}
	}
	if p.blob != "" {
		s.blobs.release(p.blob)
	}
	return p, err
}

// ended gives back what a message has taken up that is not in the log, and never
// will be.
func (s *Embedded) ended(p putting, err error) {
	if err == nil || errors.Is(err, ErrUnknown) {
		return
	}
	s.used.Add(-p.size)
	s.messages.Add(-1)
	if p.blob != "" {
		s.blobs.release(p.blob)
	}
}
