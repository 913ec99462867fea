package queue

import (
	"context"
	"maps"
	"slices"
)

// KeepAwaited implements [Store].
func (s *Memory) KeepAwaited(ctx context.Context, a *Awaited) error {
	if _, err := subjectToken(a.ID); err != nil {
		return err
	}
	data, err := encodeAwaited(a)
	if err != nil {
		return err
	}
	return s.write(ctx, func() error {
		if s.noReply {
			return ErrFull
		}
		s.data.awaited[a.ID] = data
		return nil
	}, nil)
}

// Awaited implements [Store].
func (s *Memory) Awaited(id string) (*Awaited, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	data, ok := s.data.awaited[id]
	if !ok {
		return nil, ErrNotFound
	}
	return decodeAwaited(data)
}

// ScanAwaited implements [Store].
func (s *Memory) ScanAwaited(ctx context.Context, f func(*Awaited) error) error {
	s.mu.Lock()
	err := s.usable()
	all := maps.Clone(s.data.awaited)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		a, err := decodeAwaited(all[id])
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = f(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetAwaited implements [Store].
func (s *Memory) ForgetAwaited(ctx context.Context, id string) error {
	return s.write(ctx, func() error {
		delete(s.data.awaited, id)
		return nil
	}, nil)
}
