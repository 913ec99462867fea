package proxy

import (
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// message is the body of a request on its way to a node: whole in memory,
// whole in a file, or a stream. open may be called once for each try.
type message struct {
	also   []interface{ close() } // what it reads, or is, besides the request's body
	data   []byte                 // whole in memory
	buf    *buffer                // owner of data; nil if the garbage collector is
	file   Blob                   // whole in a file
	stream *stream
	length int64 // -1 = unknown
	bound  bool  // goes to no second node: it means something only where its session is
}

func (m *message) open() (io.ReadCloser, error) {
	switch {
	case m.stream != nil:
		return m.stream.open()
	case m.file != nil:
		return m.file.Open()
	}
	if m.buf != nil {
		m.buf.retain()
	}
	return &memoryReader{data: m.data, buf: m.buf}, nil
}

// whole is the message where it is in memory, else nil.
func (m *message) whole() []byte {
	if m.stream != nil || m.file != nil {
		return nil
	}
	return m.data
}

// again reports whether the body can be opened for a try at one more node.
func (m *message) again() bool { return !m.bound && (m.stream == nil || m.stream.untouched()) }

// failure is the error that ended the body early, nil if there was none.
func (m *message) failure() error {
	if m.stream == nil {
		return nil
	}
	return m.stream.failure()
}

func (m *message) close() {
	if m.buf != nil {
		m.buf.release()
		m.buf = nil
	}
	if m.stream != nil {
		m.stream.shut()
	}
	for _, f := range m.also {
		f.close()
	}
}

// memoryReader reads a message that is whole in memory. An HTTP client may
// close it while another of its goroutines still reads, hence the lock.
type memoryReader struct {
	mu   sync.Mutex
	data []byte // guarded by mu; nil when closed
	buf  *buffer
	done bool
}

func (r *memoryReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return 0, os.ErrClosed
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// Close lets go of the buffer.
func (r *memoryReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.done, r.data = true, nil
		if r.buf != nil {
			r.buf.release()
		}
	}
	return nil
}

// stream is a request body that is checked while it passes. Nodes open it; it
// can be opened again as long as nobody has taken an octet.
type stream struct {
	r io.Reader

	mu      sync.Mutex
	handle  *streamReader // the open one
	reading bool
	used    bool
	closed  bool
	eof     bool  // r was read to its end
	err     error // what ended r, except io.EOF
}

func (s *stream) open() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used || s.reading || s.closed {
		return nil, ErrBodyUsed
	}
	s.handle = &streamReader{s}
	return s.handle, nil
}

// untouched reports whether open would succeed.
func (s *stream) untouched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.used && !s.reading && !s.closed && s.err == nil
}

// ended reports whether the source was read to its end and was good.
func (s *stream) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eof
}

// busy reports whether the source is being read at this moment. Once the stream is
// shut nobody begins to.
func (s *stream) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reading
}

// failure is what ended the source, nil if it has not failed.
func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// shut ends the stream: the exchange is over, and its source may be gone.
func (s *stream) shut() {
	s.mu.Lock()
	s.closed, s.handle = true, nil
	s.mu.Unlock()
}

type streamReader struct{ s *stream }

func (h *streamReader) Read(p []byte) (int, error) {
	s := h.s
	s.mu.Lock()
	if s.handle != h || s.reading {
		s.mu.Unlock()
		return 0, os.ErrClosed
	}
	if s.err != nil {
		defer s.mu.Unlock()
		return 0, s.err
	}
	s.reading = true
	s.mu.Unlock()

	n, err := s.read(p)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if n > 0 {
		s.used = true
	}
	if err == io.EOF {
		s.eof = true
	} else if err != nil {
		s.err = err
	}
	return n, err
}

// read turns a panic into an error: it runs on a goroutine of the node's, where
// nobody else would catch it.
func (s *stream) read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return s.r.Read(p)
}

// Close makes later reads fail; the stream itself belongs to the exchange.
func (h *streamReader) Close() error {
	h.s.mu.Lock()
	if h.s.handle == h {
		h.s.handle = nil
	}
	h.s.mu.Unlock()
	return nil
}
