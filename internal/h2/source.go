package h2

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// bufSize has room for the longest frame, and for what often comes behind it.
const bufSize = headSize + frameSize + 4<<10

var buffers = sync.Pool{New: func() any { return new([bufSize]byte) }}

// source is the reading side of a connection, with its buffer.
type source struct {
	conn  net.Conn
	buf   *[bufSize]byte // nil while nothing is here and nothing is expected soon
	first [64]byte       // where a connection without a buffer waits
	r, w  int            // buf[r:w] is received and not yet used

	at   time.Time // when octets last came
	by   time.Time // the read deadline that is set
	late bool      // and over
}

// here is the number of octets that are received and not yet used.
func (s *source) here() int { return s.w - s.r }

// peek returns the next n octets, which are here.
func (s *source) peek(n int) []byte { return s.buf[s.r : s.r+n] }

// next uses the next n octets, which are here; they are valid until the next fill.
func (s *source) next(n int) []byte {
	b := s.buf[s.r : s.r+n]
	s.r += n
	return b
}

// put takes in octets that came before.
func (s *source) put(p []byte) {
	if len(p) > 0 {
		s.take()
		s.w += copy(s.buf[s.w:], p)
	}
}

func (s *source) take() {
	if s.buf == nil {
		s.buf = buffers.Get().(*[bufSize]byte)
		s.r, s.w = 0, 0
	}
}

// release gives the buffer back; what is in it is lost.
func (s *source) release() {
	if s.buf != nil {
		buffers.Put(s.buf)
		s.buf, s.r, s.w = nil, 0, 0
	}
}

// fill reads once from the connection. That the deadline is over is no error,
// since it may have been that of something else: timeIsUp tells.
func (s *source) fill() error {
	into := s.first[:]
	if s.buf != nil {
		if s.r > 0 {
			s.w = copy(s.buf[:], s.buf[s.r:s.w])
			s.r = 0
		}
		into = s.buf[s.w:]
	}
	n, err := s.conn.Read(into)
	if n > 0 {
		s.at = time.Now()
		if s.buf == nil {
			s.put(into[:n])
		} else {
			s.w += n
		}
		return nil
	}
	switch {
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.late = true
		return nil
	}
	return err
}

// arm sees to it that reading ends at a time at the latest; zero is never. One
// that is set for earlier stays, since most of them change before they are over.
func (s *source) arm(by time.Time) {
	if s.late || !by.IsZero() && (s.by.IsZero() || s.by.After(by)) {
		s.by, s.late = by, false
		s.conn.SetReadDeadline(by)
	}
}

// timeIsUp reports whether a time is over that arm was called with.
func (s *source) timeIsUp(by time.Time) bool { return s.late && !time.Now().Before(by) }
