package queue

import (
	"context"
	"errors"
)

// memoryPut is a message on its way into the log.
type memoryPut struct {
	m      *Message
	blob   string // held for the record; "" where the body stands in it
	record memoryRecord
	seq    uint64
	err    error
}

// Put implements [Store].
func (s *Memory) Put(ctx context.Context, m *Message) (uint64, error) {
	all := s.putAll(ctx, []*Message{m})
	return all[0].seq, all[0].err
}

// PutAll implements [Store].
func (s *Memory) PutAll(ctx context.Context, ms []*Message) []error {
	errs := make([]error, len(ms))
	for i, p := range s.putAll(ctx, ms) {
		errs[i] = p.err
	}
	return errs
}

func (s *Memory) putAll(ctx context.Context, ms []*Message) []memoryPut {
	all := make([]memoryPut, len(ms))
	for i, m := range ms {
		p := &all[i]
		p.m = m
		if p.blob, p.err = s.blobs.take(m, inlineMost); p.err == nil {
			p.record.header, p.record.data, p.err = encodeMessage(m)
		}
	}
	var told func(uint64, *Message)
	err := s.write(ctx, func() error {
		for i := range all {
			s.append(all, i)
		}
		told = s.onCommit
		return nil
	}, func() {
		for i := range all {
			if p := &all[i]; told != nil && p.seq != 0 {
				told(p.seq, p.m)
			}
		}
	})
	for i := range all {
		p := &all[i]
		if p.err == nil {
			p.err = err
		}
		if p.err == nil {
			continue
		}
		p.seq = 0
		if p.blob != "" && !errors.Is(p.err, ErrUnknown) {
			s.blobs.release(p.blob)
		}
	}
	return all
}

// append puts one of them into the log. It must be called with mu held.
func (s *Memory) append(all []memoryPut, i int) {
	p := &all[i]
	switch {
	case p.err != nil:
		return
	case i > 0 && p.m.Behind && all[i-1].err != nil:
		p.err = ErrBehind
		return
	case p.m.After == FateWaiting && (s.full || s.room == 0), p.m.After != FateWaiting && s.noReply:
		p.err = ErrFull
		return
	case s.unknown > 0:
		s.unknown--
		p.err = ErrUnknown // and it is kept
	}
	if s.room > 0 {
		s.room--
	}
	s.data.last++
	p.seq = s.data.last
	s.data.log[p.seq] = p.record
	if p.blob != "" {
		s.blobs.refs.logged(p.seq, p.blob)
	}
}
