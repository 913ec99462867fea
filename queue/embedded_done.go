package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Messages that were delivered have a stream of their own, in the form of dead
// letters and in the order of their delivery. It is a help for people and promises
// nothing, so here the server itself removes what is too old, and the oldest give
// way to whatever else needs room. It is made when it is first asked for.

// doneStream is what is known of that stream.
type doneStream struct {
	mu     sync.Mutex // held while it is opened or makes room
	open   atomic.Bool
	keep   atomic.Int64 // how long; 0 = nothing is kept
	octets atomic.Int64 // as last told, plus what came since
}

// leastAge is the shortest time for which the server can be told to keep something.
const leastAge = time.Second

// openDone opens the stream of an earlier run.
func (s *Embedded) openDone() error {
	_, err := os.Stat(streamDir(s.dir, streamDone))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if !s.opt.Inspect {
		return s.ageDone(s.opt.KeepDelivered)
	}
	i, err := s.js.info(streamDone)
	if err != nil {
		return err
	}
	s.done.octets.Store(int64(i.State.Bytes))
	s.done.open.Store(true)
	return nil
}

// SetKeepDelivered implements [Store].
func (s *Embedded) SetKeepDelivered(keep time.Duration) error {
	if err := s.usable(); err != nil {
		return err
	}
	open := s.done.open.Load()
	if s.opt.Inspect || !open && keep == 0 || open && keep > 0 && s.done.keep.Load() == int64(keep) {
		return nil
	}
	if err := s.ageDone(keep); err != nil {
		return fmt.Errorf("queue: delivered messages: %w", err)
	}
	s.done.keep.Store(int64(keep))
	if keep == 0 {
		s.done.mu.Lock()
		defer s.done.mu.Unlock()
		return s.shrinkDone(1 << 62)
	}
	return nil
}

// ageDone opens the stream, or makes it, with the age of what it keeps.
func (s *Embedded) ageDone(keep time.Duration) error {
	s.done.mu.Lock()
	defer s.done.mu.Unlock()
	i, err := s.js.openStream(server.StreamConfig{
		Name: streamDone, Subjects: []string{subjectDone + "*"}, MaxBytes: s.opt.MaxBytes, MaxAge: max(keep, leastAge),
	}, false)
	if err != nil {
		return err
	}
	s.done.octets.Store(int64(i.State.Bytes))
	s.done.open.Store(true)
	return nil
}

// streams are the names of the streams that are there.
func (s *Embedded) streams() (names []string) {
	for _, n := range streamNames {
		if n.stream != streamDone || s.done.open.Load() {
			names = append(names, n.stream)
		}
	}
	return names
}

// KeepDelivered implements [Store]. It does not wait until the record is written.
func (s *Embedded) KeepDelivered(d *DeadLetter) error {
	if err := s.usable(); err != nil || s.done.keep.Load() == 0 {
		return err
	}
	token, err := subjectToken(d.ID)
	if err != nil {
		return err
	}
	header, data, err := encodeDead(d)
	if err != nil {
		return err
	}
	rec := record{subjectDone + token, headerDead, header, data}
	size := s.sizeOf(&rec)
	if s.commit.bytes.Load() > waitBytes {
		return fmt.Errorf("%w: too much is waiting for the disk", ErrFull)
	}
	if err := s.admit(int64(size), s.limit, s.watermark(), 2*int64(size)); err != nil {
		return err
	}
	s.done.octets.Add(int64(size))
	return s.commit.submit(&job{rec: rec, size: size, early: true})
}

// anyDisk asks admit not to look at the disk.
const anyDisk = -1

// admit lets so many octets in if the store then has at most limit, and if least
// are free on the disk when onDisk of them are taken (see roomOnDisk): delivered
// messages give way to that.
func (s *Embedded) admit(size, limit, least, onDisk int64) error {
	err := s.fits(size, limit, least, onDisk)
	for err != nil && s.done.octets.Load() > 0 {
		s.done.mu.Lock()
		shrunk := error(nil)
		if err = s.fits(size, limit, least, onDisk); err != nil { // nobody else has made room meanwhile
			over := s.holds() + size - limit
			shrunk = s.shrinkDone(over)
			err = s.fits(size, limit, least, onDisk)
		}
		s.done.mu.Unlock()
		if shrunk != nil {
			s.opt.Log.Warn("delivered messages could not make room", "err", shrunk)
			return err
		}
	}
	return err
}

// holds is how many octets the store has.
func (s *Embedded) holds() int64 {
	return s.used.Load() + s.blobs.octets.Load() + s.done.octets.Load()
}

func (s *Embedded) fits(size, limit, least, onDisk int64) error {
	if used := s.holds(); used+size > limit {
		return fmt.Errorf("%w: %d octets of %d are used", ErrFull, used, s.opt.MaxBytes)
	}
	if least == anyDisk {
		return nil
	}
	return s.roomOnDisk(least, onDisk)
}

// shrinkDone removes the oldest delivered messages: at least so many octets of
// them, as records are on average, and an eighth of all. mu of done is held.
func (s *Embedded) shrinkDone(octets int64) error {
	i, err := s.js.info(streamDone)
	if err != nil {
		return err
	}
	if i.State.Messages > 0 {
		each := max(1, int64(i.State.Bytes/i.State.Messages))
		most := i.State.Last - i.State.First + 1
		n := min(most, max(uint64(max(0, octets)/each)+1, most/8))
		if err := s.js.purge(streamDone, i.State.First+n); err != nil {
			return err
		}
		s.opt.Log.Info("delivered messages were removed to make room", "about", n)
		if i, err = s.js.info(streamDone); err != nil {
			return err
		}
	}
	s.done.octets.Store(int64(i.State.Bytes))
	return nil
}

// boundDone mends what admit could not see: records that were on their way.
func (s *Embedded) boundDone() {
	over := s.holds() - s.limit
	if over <= 0 || s.done.octets.Load() == 0 {
		return
	}
	s.done.mu.Lock()
	defer s.done.mu.Unlock()
	if err := s.shrinkDone(over); err != nil {
		s.opt.Log.Warn("delivered messages could not make room", "err", err)
	}
}

// ScanDelivered implements [Store].
func (s *Embedded) ScanDelivered(ctx context.Context, from uint64, f func(seq uint64, d *DeadLetter, size int64) error) error {
	if err := s.usable(); err != nil || !s.done.open.Load() {
		return err
	}
	return s.js.heads(ctx, streamDone, from, func(r scanned) error {
		h, err := decodeDeadHead(r.header(headerDead))
		if err != nil {
			s.opt.Log.Error("a delivered message can not be read", "seq", r.seq, "err", err)
			return nil
		}
		return f(r.seq, h.DeadLetter, h.size())
	})
}

// Delivered implements [Store].
func (s *Embedded) Delivered(id string) (*DeadLetter, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if !s.done.open.Load() {
		return nil, ErrNotFound
	}
	return s.letter(streamDone, subjectDone, id)
}

// ForgetDelivered implements [Store].
func (s *Embedded) ForgetDelivered(ctx context.Context, id string) error {
	if err := s.usable(); err != nil || !s.done.open.Load() {
		return err
	}
	token, err := subjectToken(id)
	if err != nil {
		return err
	}
	return s.commit.do(ctx, &job{urgent: true, call: func() error { return s.js.forget(streamDone, subjectDone+token, 0) }})
}
