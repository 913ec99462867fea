package upstream

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// errBodyTooLong is the reason of a request body with more octets than its
// length announced.
var errBodyTooLong = errors.New("upstream: the request body is longer than announced")

// errSourceClosed is what a read of a request body gives that was closed because
// the try is over.
var errSourceClosed = errors.New("upstream: the request body is closed")

// source is a request body on its way to a connection.
type source struct {
	rc    io.ReadCloser
	left  int64        // -1 = unknown
	check func() error // asked once, before the first octet is taken; may be nil

	touched atomic.Bool
	once    sync.Once
	closed  atomic.Bool
	err     atomic.Pointer[error] // why the body failed; nil if it did not
}

// Read gives the body away. Two things are held back: the first
// octet until the connection is known to be good, so that a body which can be
// read only once is not spent on a dead one; and the last octets until the body
// has said that nothing follows, so that the node never has a complete request
// of a body that fails at its end.
func (s *source) Read(p []byte) (int, error) {
	if !s.touched.Load() {
		if s.check != nil {
			if err := s.check(); err != nil {
				return 0, err
			}
		}
		s.touched.Store(true)
	}
	if s.left == 0 || len(p) == 0 {
		if s.left == 0 {
			return 0, io.EOF
		}
		return 0, nil
	}
	if s.left > 0 && int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.rc.Read(p)
	switch {
	case s.left < 0:
		if err != nil && err != io.EOF {
			return 0, s.fail(err)
		}
		return n, err
	case err != nil && err != io.EOF:
		return 0, s.fail(err)
	case err == io.EOF && int64(n) < s.left:
		return 0, s.fail(io.ErrUnexpectedEOF)
	case err == nil && int64(n) == s.left:
		if err := s.atEnd(); err != nil {
			return 0, s.fail(err)
		}
	}
	s.left -= int64(n)
	if s.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// atEnd reads once more where the body should end.
func (s *source) atEnd() error {
	var b [1]byte
	for range 16 {
		switch n, err := s.rc.Read(b[:]); {
		case n > 0:
			return errBodyTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// fail notes why the body failed, unless it did because we closed it.
func (s *source) fail(err error) error {
	if s.closed.Load() {
		return errSourceClosed
	}
	s.err.CompareAndSwap(nil, &err)
	return err
}

func (s *source) failed() error {
	if p := s.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Close closes the body once, whoever comes first.
func (s *source) Close() error {
	s.closed.Store(true)
	var err error
	s.once.Do(func() { err = s.rc.Close() })
	return err
}
