package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A queueSink is the backend of the queue rows. It answers at once, and can go
// away and come back at the same address.
type queueSink struct {
	clock   queueClock
	address string

	// seen is told of each message that comes whole, before it is answered.
	seen func(m sunk)
	// cut says that connections break once a message has come, with no answer.
	cut atomic.Bool

	mu    sync.Mutex
	ln    net.Listener // nil while it is down
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// sunk is a message that has come.
type sunk struct {
	n      int64
	sent   time.Duration
	now    time.Duration
	marked bool // as a possible duplicate
	cut    bool // the answer will not go out
}

// newQueueSink starts one on a port of its own.
func newQueueSink(ctx context.Context, clock queueClock, seen func(sunk)) (*queueSink, error) {
	s := &queueSink{clock: clock, address: "127.0.0.1:0", seen: seen, conns: map[net.Conn]bool{}}
	return s, s.up(ctx)
}

// up listens, at the address that it had before.
func (s *queueSink) up(ctx context.Context) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ln, s.address = ln, ln.Addr().String()
	s.wg.Go(func() { s.accept(ln) })
	return nil
}

// down refuses connections and breaks those there are.
func (s *queueSink) down() {
	s.mu.Lock()
	if s.ln != nil {
		_ = s.ln.Close()
		s.ln = nil
	}
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *queueSink) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.ln != ln {
			_ = c.Close()
			s.mu.Unlock()
			return
		}
		s.conns[c] = true
		s.wg.Go(func() {
			s.serve(c)
			_ = c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
		s.mu.Unlock()
	}
}

var sinkAnswer = []byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

func (s *queueSink) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 16<<10)
	var buf []byte
	for {
		length, marked, err := readSinkHead(r)
		if err != nil {
			return
		}
		if length > netMaxSize {
			return
		}
		if buf, err = readInto(r, buf, length); err != nil {
			return
		}
		m := sunk{marked: marked, cut: s.cut.Load()}
		// What is no message of the bench, such as a probe, is answered and not
		// counted.
		if m.n, m.sent, err = readQueueMessage(buf); err == nil {
			m.now = s.clock.now()
			s.seen(m)
		}
		if m.cut {
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0) // a reset, as of a link that is cut
			}
			return
		}
		if _, err := c.Write(sinkAnswer); err != nil {
			return
		}
	}
}

// readSinkHead reads a request up to its body.
func readSinkHead(r *bufio.Reader) (length int, marked bool, err error) {
	first := true
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, ok := bytes.Cut(line, []byte(":"))
		switch {
		case first:
			first = false
		case len(line) == 0:
			return length, marked, nil
		case ok && bytes.EqualFold(name, []byte("content-length")):
			for _, d := range bytes.TrimSpace(value) {
				if d < '0' || d > '9' || length > netMaxSize {
					return 0, false, errors.New("content-length")
				}
				length = 10*length + int(d-'0')
			}
		case ok && bytes.EqualFold(name, []byte("gateway-possible-duplicate")):
			marked = true
		}
	}
}

// A queueTally counts the messages of a row that have come, and how long each
// took from its sender.
type queueTally struct {
	mu      sync.Mutex
	seen    []uint64 // a bit for each number
	base    int64    // the number of the first bit
	unique  int64
	again   int64
	last    time.Duration // when the last one came
	latency *hdrhistogram.Histogram
	changed chan struct{}
}

func newQueueTally() *queueTally {
	return &queueTally{changed: make(chan struct{}, 1), latency: histogram()}
}

// begin forgets what was counted; numbers count from base on.
func (t *queueTally) begin(base int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.seen)
	t.base, t.unique, t.again, t.last = base, 0, 0, 0
	t.latency.Reset()
}

func (t *queueTally) add(m sunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := m.n - t.base
	if i < 0 {
		return // of a run before
	}
	for int(i/64) >= len(t.seen) {
		t.seen = append(t.seen, make([]uint64, max(1024, len(t.seen)))...)
	}
	if bit := uint64(1) << (i % 64); t.seen[i/64]&bit == 0 {
		t.seen[i/64] |= bit
		t.unique++
		t.last = m.now
		record(t.latency, m.now-m.sent)
	} else {
		t.again++
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// count is how many different messages have come.
func (t *queueTally) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unique
}

// await returns once n different messages have come, or an error says that they
// do not.
func (t *queueTally) await(ctx context.Context, n int64) error {
	late := time.NewTimer(queuePatience)
	defer late.Stop()
	for t.count() < n {
		select {
		case <-t.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return errQueueLate
		}
	}
	return nil
}

var errQueueLate = errors.New("messages that were accepted did not come within a minute")
