package casetest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A call is one request as it reached a backend.
type call struct {
	head
	Conn    int // number of the connection it came on
	Body    []byte
	Trailer fields
	Err     error // nil = the request was complete
}

// target is the request target as written.
func (c *call) target() string {
	p := strings.Split(c.Line, " ")
	if len(p) != 3 {
		return c.Line
	}
	return p[1]
}

func (c *call) method() string { m, _, _ := strings.Cut(c.Line, " "); return m }

// A backend is a TCP server that records exact octets and answers by script.
type backend struct {
	ln   net.Listener
	addr string
	size int // framed: octets of the length; 0 = HTTP
	wg   sync.WaitGroup

	mu     sync.Mutex
	script func(*peer, *call) // answers one request; see answerWith
	raw    func(*peer)        // takes whole connections instead, if set
	calls  []*call
	conns  map[net.Conn]bool
	opened int
	round  int // counts resets: a request that began before one is not recorded
}

// A peer is the backend's end of one connection from the gateway.
type peer struct {
	*net.TCPConn
	r *recorder
	n int
}

// listenHTTP starts a backend that answers every request with okReply.
func listenHTTP(tb testing.TB) *backend {
	tb.Helper()
	b, err := newBackend(0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.close)
	return b
}

// newBackend starts one that speaks HTTP, or, with size octets of length,
// frames, which it echoes.
func newBackend(size int) (*backend, error) { return newBackendAt("127.0.0.1:0", size) }

// newBackendAt starts one at an address, such as one that was refused so far.
func newBackendAt(addr string, size int) (*backend, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	b := &backend{ln: ln, addr: ln.Addr().String(), size: size, conns: map[net.Conn]bool{}}
	b.reset()
	b.wg.Go(b.accept)
	return b, nil
}

// refusedAddr is an address on which nothing listens.
func refusedAddr(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func (b *backend) accept() {
	for {
		c, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.opened++
		p := &peer{c.(*net.TCPConn), newRecorder(c), b.opened}
		b.conns[c] = true
		raw := b.raw
		b.mu.Unlock()
		b.wg.Go(func() {
			defer func() {
				c.Close()
				b.mu.Lock()
				delete(b.conns, c)
				b.mu.Unlock()
			}()
			switch {
			case raw != nil:
				raw(p)
			case b.size > 0:
				b.serveFrames(p)
			default:
				b.serve(p)
			}
		})
	}
}

func (b *backend) serve(p *peer) {
	for {
		c := b.read(p)
		if c == nil || c.Err != nil {
			return
		}
		b.mu.Lock()
		script := b.script
		b.mu.Unlock()
		script(p, c)
		if strings.EqualFold(c.Fields.get("Connection"), "close") {
			return
		}
	}
}

// read takes one request and records it, also when it breaks off. nil = the
// connection ended between requests.
func (b *backend) read(p *peer) *call {
	h, err := p.r.head()
	if err != nil && len(h.Raw) == 0 {
		return nil
	}
	round := b.now()
	c := &call{head: h, Conn: p.n, Err: err}
	if err == nil {
		c.Body, c.Trailer, c.Err = p.r.body(h, false)
	}
	b.record(round, c)
	return c
}

func (b *backend) now() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.round
}

// record keeps c unless the backend was reset since it began, as it is when a
// request of the test before is only now seen to be cut.
func (b *backend) record(round int, c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if round == b.round {
		b.calls = append(b.calls, c)
	}
}

func (b *backend) serveFrames(p *peer) {
	f := &framer{nil, p.TCPConn, b.size, p.r}
	for {
		_, _ = p.r.r.Peek(1)
		round := b.now()
		body, err := f.next()
		if err != nil {
			if !errors.Is(err, io.EOF) || len(body) > 0 {
				b.record(round, &call{Conn: p.n, Body: body, Err: err})
			}
			return
		}
		c := &call{Conn: p.n, Body: body}
		b.record(round, c)
		b.mu.Lock()
		script := b.script
		b.mu.Unlock()
		script(p, c)
	}
}

// reset forgets the record and goes back to the default script.
func (b *backend) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.raw = nil, nil
	b.round++
	b.script = func(p *peer, c *call) { _, _ = p.Write(okReply(c)) }
	if b.size > 0 {
		b.script = func(p *peer, c *call) { _, _ = p.Write(frame(b.size, c.Body)) }
	}
}

// answerWith answers every request with the same octets.
func (b *backend) answerWith(octets []byte) {
	b.do(func(p *peer, _ *call) { _, _ = p.Write(octets) })
}

// do sets the script that runs after each complete request.
func (b *backend) do(script func(*peer, *call)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script = script
}

// take hands over whole connections, from the first octet. Connections that
// are open already are closed, so that the gateway opens a new one.
func (b *backend) take(raw func(*peer)) {
	b.mu.Lock()
	b.raw = raw
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	eventually(patience, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.conns) == 0 })
	pause(20 * time.Millisecond) // the gateway's pool notices the end
}

// got is the record so far.
func (b *backend) got() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*call(nil), b.calls...)
}

// gotComplete counts the requests that arrived whole.
func (b *backend) gotComplete() (n int) {
	for _, c := range b.got() {
		if c.Err == nil {
			n++
		}
	}
	return n
}

func (b *backend) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}

func (b *backend) close() {
	b.ln.Close()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// resetConn makes the peer see ECONNRESET.
func (p *peer) resetConn() {
	_ = p.SetLinger(0)
	p.Close()
}

// dribble writes octets one by one.
func (p *peer) dribble(octets []byte, every time.Duration) {
	for i := range octets {
		if _, err := p.Write(octets[i : i+1]); err != nil {
			return
		}
		pause(every)
	}
}

// okReply answers in the version of the request.
func okReply(c *call) []byte {
	if strings.Contains(string(c.Body), ns12) || strings.HasPrefix(strings.ToLower(c.Fields.get("Content-Type")), "application/soap+xml") {
		return response(200, xml12(), []byte(`<e:Envelope xmlns:e="`+ns12+`"><e:Body><r:ok xmlns:r="urn:test:reply"/></e:Body></e:Envelope>`))
	}
	return response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, []byte(`<e:Envelope xmlns:e="`+ns11+`"><e:Body><r:ok xmlns:r="urn:test:reply"/></e:Body></e:Envelope>`))
}
