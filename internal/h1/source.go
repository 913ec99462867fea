package h1

import (
	"io"
	"net"
	"sync"
	"time"
)

// bufSize is the size of the buffers that connections take from the pool: a
// common message fits with its head.
const bufSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufSize]byte) }}

// source is the reading side of a connection, with its buffer.
type source struct {
	conn net.Conn
	buf  []byte         // nil while parked
	own  *[bufSize]byte // the pool's array behind buf; nil if that is a larger one
	r, w int            // buf[r:w] is received and not yet used

	by time.Time // the read deadline that is set
}

// unused is what is received and not yet used.
func (s *source) unused() []byte { return s.buf[s.r:s.w] }

// take gets a buffer if there is none.
func (s *source) take() {
	if s.buf == nil {
		s.own = buffers.Get().(*[bufSize]byte)
		s.buf = s.own[:]
		s.r, s.w = 0, 0
	}
}

// release gives the buffer back. What is in it is lost.
func (s *source) release() {
	if s.own != nil {
		buffers.Put(s.own)
	}
	s.buf, s.own, s.r, s.w = nil, nil, 0, 0
}

// settle makes room for the next head: what is left moves to the start, and a
// buffer that had to grow is given up once that fits a common one.
func (s *source) settle() {
	if s.own == nil && s.buf != nil && s.w-s.r <= bufSize/2 {
		rest := s.unused()
		s.own = buffers.Get().(*[bufSize]byte)
		s.w = copy(s.own[:], rest)
		s.buf, s.r = s.own[:], 0
		return
	}
	s.compact()
}

func (s *source) compact() {
	if s.r > 0 {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
}

// fill reads once more from the connection. A full buffer grows.
func (s *source) fill() error {
	if s.w == len(s.buf) {
		if s.r > 0 {
			s.compact()
		} else {
			larger := make([]byte, 2*len(s.buf))
			s.w = copy(larger, s.buf)
			if s.own != nil {
				buffers.Put(s.own)
				s.own = nil
			}
			s.buf = larger
		}
	}
	n, err := s.conn.Read(s.buf[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	return noProgress(err)
}

// direct reads from the connection into p, past the buffer, which is empty.
func (s *source) direct(p []byte) (int, error) {
	n, err := s.conn.Read(p)
	if n > 0 {
		return n, nil
	}
	return 0, noProgress(err)
}

func noProgress(err error) error {
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// slack is how much earlier than asked for a deadline may come, so that one that
// was set for an earlier message can stay.
func slack(limit time.Duration) time.Duration { return limit / 32 }

// within sets the deadline of reads to limit from now, or leaves one that is
// close enough.
func (s *source) within(now time.Time, limit, slack time.Duration) {
	if want := now.Add(limit); s.by.After(want) || s.by.Before(want.Add(-slack)) {
		s.until(want)
	}
}

// until sets the deadline of reads.
func (s *source) until(t time.Time) {
	s.by = t
	s.conn.SetReadDeadline(t)
}
