package queue

import (
	"context"
	"encoding/json"
	"fmt"
)

// What is awaited of other sites stands on gw.await.ID, beside the attempts: it is
// read as a whole at a start, and is small.

// KeepAwaited implements [Store].
func (s *Embedded) KeepAwaited(ctx context.Context, a *Awaited) error {
	if err := s.usable(); err != nil {
		return err
	}
	token, err := subjectToken(a.ID)
	if err != nil {
		return err
	}
	data, err := encodeAwaited(a)
	if err != nil {
		return err
	}
	rec := record{subjectAwait + token, headerValue, encodeValue(a.ID, data), data}
	size := s.sizeOf(&rec)
	if err := s.admit(int64(size), s.opt.MaxBytes, s.watermark()/2, 2*int64(size)); err != nil {
		return err
	}
	if err := s.commit.do(ctx, &job{rec: rec, size: size, urgent: true}); err != nil {
		return err
	}
	s.used.Add(int64(size))
	if !a.Died.IsZero() { // there is an older one
		return s.js.forget(streamState, rec.subject, 1)
	}
	return nil
}

func encodeAwaited(a *Awaited) ([]byte, error) {
	data, err := json.Marshal(a)
	if err == nil && len(data) > maxData {
		err = fmt.Errorf("%w: %d octets to wait for an answer", ErrTooLarge, len(data))
	}
	return data, err
}

func decodeAwaited(data []byte) (*Awaited, error) {
	a := new(Awaited)
	if err := json.Unmarshal(data, a); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return a, nil
}

// Awaited implements [Store].
func (s *Embedded) Awaited(id string) (*Awaited, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	token, err := subjectToken(id)
	if err != nil {
		return nil, ErrNotFound
	}
	data, _, err := s.value(subjectAwait + token)
	switch {
	case err != nil:
		return nil, err
	case data == nil:
		return nil, ErrNotFound
	}
	return decodeAwaited(data)
}

// ScanAwaited implements [Store].
func (s *Embedded) ScanAwaited(ctx context.Context, f func(*Awaited) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	latest := map[string]*Awaited{}
	err := s.js.values(ctx, subjectAwait+"*", func(r scanned) error {
		_, err := decodeValue(r.header(headerValue), r.msg.Data)
		var a *Awaited
		if err == nil {
			a, err = decodeAwaited(r.msg.Data)
		}
		if err != nil { // costs an answer, which its site will then tell of
			s.opt.Log.Error("what is awaited of another site can not be read", "subject", r.subject, "err", err)
			return nil
		}
		latest[a.ID] = a
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range latest {
		if err := f(a); err != nil {
			return err
		}
	}
	return nil
}

// ForgetAwaited implements [Store].
func (s *Embedded) ForgetAwaited(ctx context.Context, id string) error {
	if err := s.usable(); err != nil {
		return err
	}
	token, err := subjectToken(id)
	if err != nil {
		return err
	}
	return s.commit.do(ctx, &job{urgent: true, call: func() error { return s.js.forget(streamState, subjectAwait+token, 0) }})
}
