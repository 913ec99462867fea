package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// streamsDown reports whether the server streams without being asked for each
// buffer.
func (p netParams) streamsDown() bool { return p.Protocol == NetRaw && p.Dir == NetDown }

// dialNetEnd connects the client's end to address. The key shows the server that
// this is the client whose test it is.
func dialNetEnd(ctx context.Context, p netParams, address, key string, moved *netMoved) (netEnd, error) {
	if p.Protocol == NetRPC {
		return dialNetRPC(p, address, key, moved)
	}
	d := net.Dialer{Timeout: netStep}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	e := newNetTCP(p, moved, nil)
	e.take(conn, bufio.NewReaderSize(conn, netBuffer))
	_ = conn.SetDeadline(time.Now().Add(netStep))
	if err := e.wire.show(e, key); err != nil {
		e.cut()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return e, nil
}

// listenNetEnd makes the server's end, which waits at the address it returns.
func listenNetEnd(ctx context.Context, p netParams, address, key string, moved *netMoved) (netEnd, string, error) {
	if p.Protocol == NetRPC {
		return listenNetRPC(p, address, key, moved)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, "", err
	}
	e := newNetTCP(p, moved, ln)
	e.server = true
	e.wg.Go(func() { e.admit(key) })
	return e, ln.Addr().String(), nil
}

// netBuffer is what is read ahead of a data connection.
const netBuffer = 64 << 10

// netTCP is an end whose data goes over one TCP connection.
type netTCP struct {
	p      netParams
	moved  *netMoved
	server bool
	wire   netWire

	ln    net.Listener  // of the server, closed once the client is there
	ready chan struct{} // closed once conn and r are set
	conn  net.Conn
	r     *bufio.Reader

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{} // all that cut has to close
	wg     sync.WaitGroup
}

// A netWire is how a protocol looks on a connection.
type netWire interface {
	// show tells the server the key, and see waits until a client has told it.
	show(e *netTCP, key string) error
	see(conn net.Conn, r *bufio.Reader, key string) bool
	// client and serve are the two sides of a pass of n buffers.
	client(e *netTCP, n int64) error
	serve(e *netTCP, n int64) error
}

func newNetTCP(p netParams, moved *netMoved, ln net.Listener) *netTCP {
	e := &netTCP{p: p, moved: moved, ln: ln, ready: make(chan struct{}), open: map[net.Conn]struct{}{}}
	switch p.Protocol {
	case NetRaw:
		e.wire = rawWire{buf: netPattern(p.Size)}
	case NetHTTP:
		e.wire = newExchangeWire(p, &httpFraming{}, opaqueCargo{netPattern(p.Size)})
	case NetSOAP:
		e.wire = newExchangeWire(p, &httpFraming{soap: true}, newEnvelopeCargo(p))
	default:
		e.wire = newExchangeWire(p, frameFraming{}, newEnvelopeCargo(p))
	}
	return e
}

// admit lets in the first connection that has the key. Others are let go, at the
// latest when the end is cut.
func (e *netTCP) admit(key string) {
	var won sync.Once
	for {
		conn, err := e.ln.Accept()
		if err != nil {
			return
		}
		if !e.keep(conn) {
			return
		}
		e.wg.Go(func() {
			r := bufio.NewReaderSize(conn, netBuffer)
			_ = conn.SetDeadline(time.Now().Add(netStep))
			mine := false
			if e.wire.see(conn, r, key) {
				won.Do(func() {
					mine = true
					_ = conn.SetDeadline(time.Time{})
					_ = e.ln.Close()
					e.take(conn, r)
				})
			}
			if !mine {
				_ = conn.Close()
			}
		})
	}
}

// keep notes a connection that cut has to close; false if that is over.
func (e *netTCP) keep(conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = conn.Close()
		return false
	}
	e.open[conn] = struct{}{}
	return true
}

func (e *netTCP) take(conn net.Conn, r *bufio.Reader) {
	e.keep(conn)
	e.conn, e.r = conn, r
	close(e.ready)
}

// pass implements [netEnd].
func (e *netTCP) pass(n int64) error {
	select {
	case <-e.ready:
	case <-time.After(netStep):
		return fmt.Errorf("%w: no data connection", ErrNetSilent)
	}
	if e.server {
		return e.wire.serve(e, n)
	}
	return e.wire.client(e, n)
}

// cut implements [netEnd].
func (e *netTCP) cut() {
	e.mu.Lock()
	e.closed = true
	for conn := range e.open {
		_ = conn.Close()
	}
	e.mu.Unlock()
	if e.ln != nil {
		_ = e.ln.Close()
	}
	e.wg.Wait()
}

// noDelay switches Nagle's algorithm (RFC 896) off or on where there is one.
func (e *netTCP) noDelay(off bool) {
	if t, ok := e.conn.(*net.TCPConn); ok {
		_ = t.SetNoDelay(off)
	}
}

// netPattern is what buffers hold: octets that no link can compress, the same in
// every run.
func netPattern(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func sameKey(got []byte, key string) bool {
	return subtle.ConstantTimeCompare(got, []byte(key)) == 1
}

// rawWire streams buffers; the receiver sends one octet after the last.
type rawWire struct{ buf []byte }

func (rawWire) show(e *netTCP, key string) error {
	_, err := e.conn.Write(append([]byte(key), '\n'))
	return err
}

func (rawWire) see(_ net.Conn, r *bufio.Reader, key string) bool {
	got, err := r.Peek(len(key) + 1)
	if err != nil || !sameKey(bytes.TrimSuffix(got, []byte("\n")), key) {
		return false
	}
	_, _ = r.Discard(len(got)) // what was peeked is there
	return true
}

func (w rawWire) client(e *netTCP, n int64) error {
	if e.p.Mode == NetRoundTrip {
		for range n {
			if err := w.write(e); err != nil {
				return err
			}
			if err := w.read(e, int64(e.p.Size)); err != nil {
				return err
			}
		}
		return nil
	}
	if e.p.Dir == NetDown {
		return w.receive(e, n)
	}
	return w.stream(e, n)
}

func (w rawWire) serve(e *netTCP, n int64) error {
	if e.p.Mode == NetRoundTrip {
		for range n {
			if err := w.read(e, int64(e.p.Size)); err != nil {
				return err
			}
			if err := w.write(e); err != nil {
				return err
			}
		}
		return nil
	}
	if e.p.Dir == NetDown {
		return w.stream(e, n)
	}
	return w.receive(e, n)
}

// stream writes n buffers and waits for the receiver's octet. Small buffers are
// put together by the system, as any program that streams lets it do; the last
// one is not held back.
func (w rawWire) stream(e *netTCP, n int64) error {
	e.noDelay(false)
	for i := range n {
		if i == n-1 {
			e.noDelay(true)
		}
		if err := w.write(e); err != nil {
			return err
		}
	}
	_, err := e.r.ReadByte()
	return err
}

func (w rawWire) receive(e *netTCP, n int64) error {
	if err := w.read(e, n*int64(e.p.Size)); err != nil {
		return err
	}
	_, err := e.conn.Write([]byte{1})
	return err
}

func (w rawWire) write(e *netTCP) error {
	n, err := e.conn.Write(w.buf)
	e.moved.out.Add(int64(n))
	return err
}

// read takes n octets, at most a buffer with each call of the system.
func (w rawWire) read(e *netTCP, n int64) error {
	into := make([]byte, e.p.Size)
	for n > 0 {
		src := e.conn.Read
		if e.r.Buffered() > 0 {
			src = e.r.Read // what came behind the key
		}
		k, err := src(into[:min(n, int64(len(into)))])
		e.moved.in.Add(int64(k))
		if n -= int64(k); err != nil && n > 0 {
			return err
		}
	}
	return nil
}
