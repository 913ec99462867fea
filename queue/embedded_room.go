package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrNoRoom: a write found no room on the disk. The store is closed to be opened
// again once there is some; what was accepted is in it.
var ErrNoRoom = errors.New("queue: the disk has no room")

// A full disk is met in three steps. Messages are refused below a watermark, so
// that what drains the store has room. A reserve, a file that nobody needs, goes
// when a stranger takes the rest: then what is delivered can still be noted, and
// what is noted makes room. And when a write fails all the same the server gives
// up its stream for good, but nothing on the disk is damaged beyond what a kill
// would leave: the owner of the store closes it and opens it anew.

const (
	reserveName = "reserve"
	// reserveMost is the size of the reserve, where the store may hold 8 times
	// as much. A store that drains writes 0.1 to 8 KiB for each note, and the
	// server a block of up to 8 MiB anew to get rid of what is removed from it.
	reserveMost = 12 << 20
	// lookEvery is the pause between two looks at the room on the disk, unless
	// what was taken since comes near to it.
	lookEvery = 250 * time.Millisecond
)

func (s *Embedded) reserveSize() int64 { return min(reserveMost, s.opt.MaxBytes/8) }

// watermark is how much of the disk must stay free for messages to be taken:
// what the operator says, and at least what the store needs to drain itself.
func (s *Embedded) watermark() int64 { return max(s.opt.MinFree, s.reserveSize()/2) }

// room is what a look at the filesystem has found, and what was taken since.
type room struct {
	free  int64
	err   error
	taken atomic.Int64
	at    time.Duration // since the store was opened
}

// roomOnDisk refuses size octets more if less than so much of the filesystem
// would be free then. It looks every lookEvery; in between what was let through
// counts. Callers give twice of what they write: a record is not all that is
// written for it, and a body is asked for as a whole and then in pieces.
func (s *Embedded) roomOnDisk(least, size int64) error {
	r := s.room.Load()
	if r == nil || time.Since(s.started)-r.at >= lookEvery || r.free-r.taken.Load()-size < least {
		r = s.look()
	}
	switch left := r.free - r.taken.Add(size); {
	case r.err != nil:
		return fmt.Errorf("%w: %w", ErrFull, r.err)
	case left < least:
		return fmt.Errorf("%w: %d octets are free on the disk, %d are kept", ErrFull, r.free, least)
	}
	return nil
}

func (s *Embedded) look() *room {
	r := &room{at: time.Since(s.started)}
	r.free, r.err = s.opt.free(s.dir)
	s.room.Store(r)
	return r
}

// keepRoom gives up the reserve when the disk is full, and takes it again.
func (s *Embedded) keepRoom() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.failed:
			return
		case <-tick.C:
			if r := s.look(); r.err == nil && !s.opt.Inspect {
				s.reserve(r.free)
			}
		}
	}
}

// reserve makes or removes the reserve, by how much is free.
func (s *Embedded) reserve(free int64) {
	name, size := filepath.Join(s.dir, reserveName), s.reserveSize()
	st, err := os.Stat(name)
	has := err == nil && st.Size() > 0
	switch {
	case has && free < size/2:
		if err := os.Remove(name); err == nil {
			s.opt.Log.Warn("the disk is full: the reserve of the store was given up, so that it can be drained", "dir", s.dir, "free", free)
		}
	case !has && free > s.watermark()+4*size:
		if err := s.writeReserve(name, size); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.opt.Log.Debug("no reserve", "dir", s.dir, "err", err)
		}
	}
}

// writeReserve gives up as soon as the room that it takes is missed: a stranger may
// fill the disk at the same time.
func (s *Embedded) writeReserve(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// Written and not only made longer: a hole reserves nothing.
	zeros := make([]byte, 1<<20)
	for left := size; left > 0 && err == nil; left -= int64(len(zeros)) {
		if free, e := s.opt.free(s.dir); e == nil && free < s.watermark()+size {
			err = errNoReserve
			break
		}
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}

var errNoReserve = errors.New("the disk fills up")

// brimLeast is what must be free for anything to be removed.
const brimLeast = 4 << 20

// brim says that the disk is full to the brim. A removal writes a few octets too, and
// the server (nats-server 2.15.3, fileStore.PurgeEx) waits for itself for ever when
// it finds no room for them.
func (s *Embedded) brim() bool {
	free, err := s.opt.free(s.dir)
	return err == nil && free < brimLeast
}

// openReserve gives up the reserve before anything is written to a full disk.
func (s *Embedded) openReserve() {
	if free, err := s.opt.free(s.dir); err == nil && free < s.reserveSize()/2 {
		s.reserve(free)
	}
}

// syncError is that of a sync of the disk. It is final, whatever the reason:
// the kernel may have dropped what it could not write.
type syncError struct{ err error }

func (e *syncError) Error() string { return e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

// saysNoRoom says whether an error says that there is no room, or none for this user.
func saysNoRoom(err error) bool {
	if runtime.GOOS == "windows" {
		const diskFull, handleDiskFull = syscall.Errno(112), syscall.Errno(39)
		if errors.Is(err, diskFull) || errors.Is(err, handleDiskFull) {
			return true
		}
	}
	for _, reason := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		// The server hands errors on as text.
		if errors.Is(err, reason) || strings.Contains(err.Error(), reason.Error()) {
			return true
		}
	}
	return false
}

// diskErrors are what the server has said of errors of the disk.
type diskErrors struct{ noRoom, other atomic.Bool }

// heard takes up an error that the server logs.
func (d *diskErrors) heard(err error) {
	var errno syscall.Errno
	switch {
	case saysNoRoom(err):
		d.noRoom.Store(true)
	case errors.As(err, &errno) && errno != syscall.ENOENT && errno != syscall.EEXIST:
		d.other.Store(true)
	}
}

// lacksRoom says whether a store that has failed with err can be opened again
// once there is room.
func (s *Embedded) lacksRoom(err error) bool {
	var final *syncError
	if errors.As(err, &final) {
		return false
	}
	if j := s.js; j != nil {
		if j.disk.other.Load() {
			return false
		}
		if j.disk.noRoom.Load() {
			return true
		}
	}
	return saysNoRoom(err)
}
