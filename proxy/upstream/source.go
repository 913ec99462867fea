package upstream

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"soapway/proxy"
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
	pump  *pump        // of a body whose reads may wait for its sender; else nil

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
	n, err := s.read(p)
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
		switch n, err := s.read(b[:]); {
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
	var err error
	s.once.Do(func() {
		s.closed.Store(true)
		if s.pump != nil {
			close(s.pump.closed)
		}
		err = s.rc.Close()
	})
	return err
}

func (s *source) read(p []byte) (int, error) {
	if s.pump != nil {
		return s.pump.read(s.rc, p)
	}
	return s.rc.Read(p)
}

// newSource returns the body of a request. One that streams is read in a
// goroutine of its own, so that a try which is over need not wait until its
// sender says something: that goroutine ends when the read under way returns,
// which the listener sees to.
func newSource(rc io.ReadCloser, req *proxy.Request, check func() error) *source {
	s := &source{rc: rc, left: req.Length, check: check}
	if req.Once {
		s.pump = &pump{closed: make(chan struct{})}
	}
	return s
}

// pump reads on demand, never ahead. It owns its buffer, since a reader that
// was closed takes its own away.
type pump struct {
	closed chan struct{}
	want   chan int // nil until the first read
	have   chan pumped
}

type pumped struct {
	b   []byte
	err error
}

const pumpSize = 32 << 10

func (p *pump) read(r io.Reader, dst []byte) (int, error) {
	if p.want == nil {
		p.want, p.have = make(chan int), make(chan pumped)
		go p.run(r, p.want, p.have)
	}
	select {
	case p.want <- min(len(dst), pumpSize):
	case <-p.closed:
		return 0, errSourceClosed
	}
	select {
	case got := <-p.have:
		return copy(dst, got.b), got.err
	case <-p.closed:
		return 0, errSourceClosed
	}
}

func (p *pump) run(r io.Reader, want <-chan int, have chan<- pumped) {
	buf := make([]byte, pumpSize)
	for {
		select {
		case size := <-want:
			n, err := r.Read(buf[:size])
			select {
			case have <- pumped{buf[:n], err}:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}
