package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is the in-memory twin of [Embedded]: the same meaning, no disk, no
// goroutine and no time but that of package time, so that it works inside a
// synctest bubble. Its failures are made by hand, see [Memory.FailNextSync],
// [Memory.SetFull], [Memory.UnknownNext] and [Memory.Damage]. What it keeps is
// encoded and decoded as on disk, so nobody holds memory in common with it.
type Memory struct {
	// commit holds a token while a commit is under way, so that onCommit follows
	// the sequence. It is a channel, since a fake clock stands still while
	// somebody waits for a mutex.
	commit chan struct{}

	mu       sync.Mutex
	onCommit func(uint64, *Message)
	data     *memoryData
	blobs    *memoryBlobs
	info     Info
	keep     time.Duration // SetKeepDelivered
	full     bool
	room     int  // messages that the log still takes; negative is no bound
	noReply  bool // there is no room for replies
	unknown  int
	syncErr  error
	delay    time.Duration
	closed   bool
	err      error
	failed   chan struct{}
}

// memoryData is what outlives a reopening.
type memoryData struct {
	last     uint64
	log      map[uint64]memoryRecord
	dead     map[string]memoryRecord
	attempts map[string][]AttemptRecord
	state    map[string][]byte
	known    []Known
	replies  map[string]memoryRecord
	awaited  map[string][]byte
	done     []memoryDone
	doneSeq  uint64
}

type memoryRecord struct {
	header string
	data   []byte
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	d := &memoryData{
		log: make(map[uint64]memoryRecord), dead: make(map[string]memoryRecord),
		attempts: make(map[string][]AttemptRecord), state: make(map[string][]byte),
		replies: make(map[string]memoryRecord), awaited: make(map[string][]byte),
	}
	return newMemory(d, nil, Info{ID: "memory", Epoch: 1, Clean: true, Durability: Strict})
}

func newMemory(d *memoryData, bodies map[string][]byte, i Info) *Memory {
	i.Opened = time.Now()
	s := &Memory{data: d, info: i, room: -1, failed: make(chan struct{}), commit: make(chan struct{}, 1)}
	s.blobs = newMemoryBlobs(bodies, d, s.roomForBlob)
	return s
}

// roomForBlob refuses when nothing may be kept.
func (s *Memory) roomForBlob() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return ErrFull
	}
	return s.usable()
}

// NewBlob implements [Store].
func (s *Memory) NewBlob(int64) (BlobWriter, error) {
	w, err := s.blobs.create()
	if err != nil {
		return nil, err // no typed nil
	}
	return w, nil
}

// Reopen returns the store as a new process finds it: after Close as a clean
// one, otherwise as after a crash, with the old one out of use.
func (s *Memory) Reopen() *Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.info
	i.Epoch++
	i.Clean = s.closed && s.err == nil
	s.closed = true
	d := &memoryData{last: s.data.last, log: maps.Clone(s.data.log), dead: maps.Clone(s.data.dead), attempts: maps.Clone(s.data.attempts), state: maps.Clone(s.data.state), known: slices.Clone(s.data.known), replies: maps.Clone(s.data.replies), awaited: maps.Clone(s.data.awaited), done: slices.Clone(s.data.done), doneSeq: s.data.doneSeq}
	return newMemory(d, s.blobs.copy(), i)
}

// SetFull makes every Put fail with [ErrFull] until it is called with false.
func (s *Memory) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// SetRoom makes every Put fail with [ErrFull] once n more are kept; a negative n is no
// bound.
func (s *Memory) SetRoom(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = n
}

// SetRepliesFull makes every KeepReply, and every Put of a message that follows from
// another, fail with [ErrFull] until it is called with false.
func (s *Memory) SetRepliesFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noReply = full
}

// UnknownNext makes the next n Puts answer [ErrUnknown] although they are kept.
func (s *Memory) UnknownNext(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = n
}

// FailNextSync makes the next sync fail with err, which fails the store.
func (s *Memory) FailNextSync(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncErr = err
}

// SetDelay makes every durable write take d.
func (s *Memory) SetDelay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Damage makes the message with this number unreadable: Get answers [ErrCorrupt],
// or, for one with a Blob, the end of that.
func (s *Memory) Damage(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.data.log[seq]; ok {
		if _, body, err := decodeHead(r.header); err == nil && body.blob != nil {
			s.blobs.damage(body.blob.name)
			return
		}
		r.data = append(slices.Clone(r.data), '!')
		s.data.log[seq] = r
	}
}

// usable must be called with mu held.
func (s *Memory) usable() error {
	switch {
	case s.err != nil:
		return fmt.Errorf("%w: %w", ErrClosed, s.err)
	case s.closed:
		return ErrClosed
	}
	return nil
}

// write makes a change durable: change is called with mu held, and done, if the
// change is, without it.
func (s *Memory) write(ctx context.Context, change func() error, done func()) error {
	s.commit <- struct{}{}
	defer func() { <-s.commit }()
	s.mu.Lock()
	delay := s.delay
	err := s.usable()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	late := false
	if delay > 0 {
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done(): // it is written all the same
			late = true
			<-timer.C
		}
	}
	s.mu.Lock()
	if err = s.usable(); err == nil {
		err = change()
	}
	if err == nil && s.syncErr != nil {
		err = fmt.Errorf("%w: %w", ErrUnknown, s.syncErr)
		s.err = fmt.Errorf("queue: store failed: %w", s.syncErr)
		s.syncErr = nil
		close(s.failed)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if done != nil {
		done()
	}
	if late {
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
	return nil
}

// OnCommit implements [Store].
func (s *Memory) OnCommit(f func(seq uint64, m *Message)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCommit = f
}

// Get implements [Store].
func (s *Memory) Get(seq uint64) (*Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	r, ok := s.data.log[seq]
	if !ok {
		return nil, ErrNotFound
	}
	m, err := decodeMessage(r.header, slices.Clone(r.data))
	if err != nil {
		return nil, fmt.Errorf("%w: sequence %d: %w", ErrCorrupt, seq, err)
	}
	return bound(m, s.blobs), nil
}

// Remove implements [Store].
func (s *Memory) Remove(seqs ...uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	for _, seq := range seqs {
		s.forget(seq)
	}
	return nil
}

// forget takes a message out of the log. It must be called with mu held.
func (s *Memory) forget(seq uint64) {
	delete(s.data.log, seq)
	if name, gone := s.blobs.refs.leftLog(seq); gone {
		s.blobs.remove(name)
	}
}

// RemoveKnown implements [Store].
func (s *Memory) RemoveKnown(seq uint64, k Known) error {
	if _, err := appendKnown(nil, &k); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	s.data.known = append(s.data.known, k)
	s.forget(seq)
	return nil
}

// KeepKnown implements [Store].
func (s *Memory) KeepKnown(ctx context.Context, known ...Known) error {
	for i := range known {
		if _, err := appendKnown(nil, &known[i]); err != nil {
			return err
		}
	}
	return s.write(ctx, func() error {
		s.data.known = append(s.data.known, known...)
		return nil
	}, nil)
}

// ScanKnown implements [Store]. What is over is forgotten on the way.
func (s *Memory) ScanKnown(ctx context.Context, f func(Known) error) error {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	now := time.Now()
	s.data.known = slices.DeleteFunc(s.data.known, func(k Known) bool { return k.Until.Before(now) })
	known := slices.Clone(s.data.known)
	s.mu.Unlock()
	for _, k := range known {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

// Scan implements [Store].
func (s *Memory) Scan(ctx context.Context, f func(seq uint64, m *Message, size int64) error) error {
	s.mu.Lock()
	err := s.usable()
	log := maps.Clone(s.data.log)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, seq := range slices.Sorted(maps.Keys(log)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, body, err := decodeHead(log[seq].header)
		if err != nil {
			m, body = &Message{}, form{}
		}
		if err := f(seq, m, body.size(len(log[seq].data)-body.meta)); err != nil {
			return err
		}
	}
	return nil
}

// Bury implements [Store].
func (s *Memory) Bury(ctx context.Context, d *DeadLetter) error {
	if _, err := subjectToken(d.ID); err != nil {
		return err
	}
	m := *d.Message
	blob, err := s.blobs.take(&m, maxData)
	if err != nil {
		return err
	}
	own := *d
	own.Message = &m
	header, data, err := encodeDead(&own)
	if err == nil {
		err = s.write(ctx, func() error {
			s.data.dead[d.ID] = memoryRecord{header, data}
			return nil
		}, nil)
	}
	switch {
	case err == nil:
		if old, gone := s.blobs.refs.buried(d.ID, blob); gone {
			s.blobs.remove(old)
		}
	case blob != "" && !errors.Is(err, ErrUnknown):
		s.blobs.release(blob)
	}
	return err
}

// ScanDead implements [Store].
func (s *Memory) ScanDead(ctx context.Context, f func(d *DeadLetter, size int64) error) error {
	s.mu.Lock()
	err := s.usable()
	dead := maps.Clone(s.data.dead)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, id := range slices.SortedFunc(maps.Keys(dead), strings.Compare) {
		if err := ctx.Err(); err != nil {
			return err
		}
		d, err := decodeDead(dead[id].header, dead[id].data)
		if err != nil {
			continue
		}
		size := d.Size()
		d.Meta, d.Body, d.Blob, d.Reply = nil, nil, nil, nil
		if err := f(d, size); err != nil {
			return err
		}
	}
	return nil
}

// Dead implements [Store].
func (s *Memory) Dead(id string) (*DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	r, ok := s.data.dead[id]
	if !ok {
		return nil, ErrNotFound
	}
	d, err := decodeDead(r.header, slices.Clone(r.data))
	if err != nil {
		return nil, fmt.Errorf("%w: dead letter %s: %w", ErrCorrupt, cut(id, 100), err)
	}
	bound(d.Message, s.blobs)
	return d, nil
}

// Unbury implements [Store].
func (s *Memory) Unbury(ctx context.Context, ids ...string) error {
	return s.write(ctx, func() error {
		for _, id := range ids {
			delete(s.data.dead, id)
			if name, gone := s.blobs.refs.unburied(id); gone {
				s.blobs.remove(name)
			}
		}
		return nil
	}, nil)
}

// SaveAttempts implements [Store].
func (s *Memory) SaveAttempts(id string, a []AttemptRecord) error {
	if _, err := subjectToken(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if len(a) == 0 {
		delete(s.data.attempts, id)
	} else {
		s.data.attempts[id] = slices.Clone(a)
	}
	return nil
}

// Attempts implements [Store].
func (s *Memory) Attempts(id string) ([]AttemptRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	return slices.Clone(s.data.attempts[id]), nil
}

// ScanAttempts implements [Store].
func (s *Memory) ScanAttempts(ctx context.Context, f func(id string, a []AttemptRecord) error) error {
	s.mu.Lock()
	err := s.usable()
	all := maps.Clone(s.data.attempts)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(id, slices.Clone(all[id])); err != nil {
			return err
		}
	}
	return nil
}

// KeepReply implements [Store].
func (s *Memory) KeepReply(ctx context.Context, r *Reply) error {
	if _, err := subjectToken(r.ID); err != nil {
		return err
	}
	header, data, err := encodeReply(r)
	if err != nil {
		return err
	}
	return s.write(ctx, func() error {
		if s.noReply {
			return ErrFull
		}
		s.data.replies[r.ID] = memoryRecord{header, data}
		return nil
	}, nil)
}

// Reply implements [Store]. One that is to be forgotten is so when it is asked for.
func (s *Memory) Reply(id string) (*Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	rec, ok := s.data.replies[id]
	if !ok {
		return nil, ErrNotFound
	}
	r, err := decodeReply(rec.header, slices.Clone(rec.data))
	if err != nil {
		return nil, fmt.Errorf("%w: reply of %s: %w", ErrCorrupt, cut(id, 100), err)
	}
	if hourOfReply(r) < hourOf(time.Now())-replyGrace {
		delete(s.data.replies, id)
		return nil, ErrNotFound
	}
	return r, nil
}

// SaveState implements [Store].
func (s *Memory) SaveState(ctx context.Context, name string, value []byte) error {
	if _, err := subjectToken(name); err != nil {
		return err
	}
	if len(value) > maxData {
		return fmt.Errorf("%w: a state of %d octets", ErrTooLarge, len(value))
	}
	value = slices.Clone(value)
	return s.write(ctx, func() error {
		if len(value) == 0 {
			delete(s.data.state, name)
		} else {
			s.data.state[name] = value
		}
		return nil
	}, nil)
}

// State implements [Store].
func (s *Memory) State(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	return slices.Clone(s.data.state[name]), nil
}

// Sync implements [Store].
func (s *Memory) Sync(ctx context.Context) error {
	return s.write(ctx, func() error { return nil }, nil)
}

// Info implements [Store].
func (s *Memory) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.info
	i.Messages = uint64(len(s.data.log))
	for _, r := range s.data.log {
		i.Bytes += uint64(recordOverhead + len(r.header) + len(r.data))
	}
	for _, f := range s.blobs.copy() {
		i.Bytes += uint64(len(f))
	}
	for _, r := range s.data.replies {
		i.Bytes += uint64(recordOverhead + len(r.header) + len(r.data))
	}
	for _, r := range s.data.dead {
		i.Bytes += uint64(recordOverhead + len(r.header) + len(r.data))
	}
	return i
}

// Failed implements [Store].
func (s *Memory) Failed() <-chan struct{} { return s.failed }

// Err implements [Store].
func (s *Memory) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close implements [Store].
func (s *Memory) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.syncErr != nil {
		s.err = fmt.Errorf("queue: store failed: %w", s.syncErr)
	}
	s.closed = true
	return errors.Join(s.err)
}
