package faultlab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/frame"
)

// behaviour is what a backend does with one request.
type behaviour uint8

const (
	takes    behaviour = iota // 200 and an envelope
	dawdles                   // the same after a while
	faults                    // 500 with a Server fault: not now
	busy                      // 503 without SOAP
	resets                    // reads all, processes it, and resets the connection
	hangs                     // reads all, processes it, and says nothing for long
	rejects                   // 500 with a Client fault: never
	nothings                  // 202 without a body
)

// A script draws what to do with the next request.
type script func(*rand.Rand) behaviour

func always(b behaviour) script { return func(*rand.Rand) behaviour { return b } }

// mixed draws from bs, where a behaviour may be named more than once.
func mixed(bs ...behaviour) script {
	return func(r *rand.Rand) behaviour { return bs[r.IntN(len(bs))] }
}

// A backend is one node: it can be down, and answers by script when it is up.
// Every request is in the ledger before anything is answered.
type backend struct {
	t      testing.TB
	rec    *recorder
	route  string
	addr   string
	framed int            // octets of the length; 0 = HTTP
	silent atomic.Int64   // nanoseconds a hang lasts
	raw    func(net.Conn) // takes whole connections instead, if set
	chaos  *chaos         // stands between the gateway and this, if set
	gate   gate           // closed while it is frozen

	mu     sync.Mutex
	rnd    *rand.Rand
	script script
	ln     net.Listener
	stop   context.CancelFunc // of what is being answered
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// newBackend returns the backend of a route; it is down. Its port is one that the kernel
// does not give to outgoing connections: a gateway that connects to a closed
// port of its own range can meet itself there.
func newBackend(t testing.TB, rec *recorder, seed uint64, route string) *backend {
	t.Helper()
	b := &backend{t: t, rec: rec, route: route, rnd: rand.New(rand.NewPCG(seed, 2)), script: always(takes), conns: map[net.Conn]bool{}}
	b.silent.Store(int64(time.Second))
	if route == framedRoute {
		b.framed = 4
	}
	b.addr = closedPort(t)
	t.Cleanup(b.down)
	return b
}

// closedPort returns an address of this machine on which nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	for range 200 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// url is that of the node.
func (b *backend) url(path string) string {
	addr := b.addr
	if b.chaos != nil {
		addr = b.chaos.addr
	}
	if b.framed > 0 {
		return fmt.Sprintf("framed://%s?length=%d", addr, b.framed)
	}
	return "http://" + addr + path
}

// freeze makes the backend stand still as a process does that is stopped: the
// system goes on taking connections and octets for it, and it looks at nothing.
func (b *backend) freeze() {
	b.rec.breach(b.route, "backend of "+b.route+" frozen")
	b.gate.shut()
}

func (b *backend) thaw() {
	b.rec.breach(b.route, "backend of "+b.route+" goes on")
	b.gate.open()
}

// abandoned reports whether whoever sent what comes by c has given it up.
func (b *backend) abandoned(c net.Conn) bool {
	return hungUp(c) || b.chaos != nil && b.chaos.abandoned(c.RemoteAddr())
}

// A gate is open until it is shut.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) {
	for {
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		if closed == nil {
			return
		}
		select {
		case <-closed:
		case <-ctx.Done():
			return
		}
	}
}

// gated is a connection whose reader stops at a gate.
type gated struct {
	net.Conn
	ctx  context.Context
	gate *gate
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.gate.pass(g.ctx)
	return n, err
}

func (b *backend) act(s script) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script = s
}

// up opens the port.
func (b *backend) up() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ln != nil {
		return
	}
	var err error
	for range 100 { // the port may be held by connections that are closing
		if b.ln, err = net.Listen("tcp", b.addr); err == nil {
			ctx, stop := context.WithCancel(context.Background())
			ln := b.ln
			b.stop = stop
			b.wg.Go(func() { b.accept(ctx, ln) })
			return
		}
		pause(20 * time.Millisecond)
	}
	b.t.Errorf("backend cannot come up: %v", err)
}

// down closes the port and cuts every connection; it returns once nothing is
// being answered any more.
func (b *backend) down() {
	b.mu.Lock()
	if b.ln != nil {
		b.rec.breach(b.route, "backend of "+b.route+" down")
		b.ln.Close()
		b.stop()
		b.ln = nil
	}
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *backend) accept(ctx context.Context, ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.ln != ln {
			b.mu.Unlock()
			c.Close()
			return
		}
		b.conns[c] = true
		b.mu.Unlock()
		b.wg.Go(func() {
			switch {
			case b.raw != nil:
				b.raw(c)
			case b.framed > 0:
				b.serveFrames(ctx, c)
			default:
				b.serve(ctx, c)
			}
			c.Close()
			b.mu.Lock()
			delete(b.conns, c)
			b.mu.Unlock()
		})
	}
}

func (b *backend) draw(body []byte) behaviour {
	if bytes.Contains(body, []byte(poison)) {
		return rejects
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.script(b.rnd)
}

// serve reads requests of one connection and answers them.
func (b *backend) serve(ctx context.Context, c net.Conn) {
	r := bufio.NewReaderSize(gated{c, ctx, &b.gate}, 64<<10)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		x := receipt{
			Key: keyOf(body), Hash: hashOf(body), Route: req.URL.Path[1:],
			ID: req.Header.Get("Gateway-Message-Id"), Attempt: req.Header.Get("Gateway-Attempt"),
			Marked: req.Header.Get("Gateway-Possible-Duplicate") == "true",
		}
		place := b.rec.arrived(x, func() bool { return b.abandoned(c) })
		if err != nil {
			b.rec.answered(place, cut, err.Error())
			return
		}
		if !b.answer(ctx, c, place, b.draw(body)) {
			return
		}
	}
}

const (
	replyEnvelope = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><o:Placed xmlns:o="urn:soapway:faultlab"/></s:Body></s:Envelope>`
	serverFault   = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault><faultcode>s:Server</faultcode><faultstring>not now</faultstring></s:Fault></s:Body></s:Envelope>`
	clientFault   = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault><faultcode>s:Client</faultcode><faultstring>never</faultstring></s:Fault></s:Body></s:Envelope>`
)

// answer does what was drawn, and reports whether the connection lives on.
func (b *backend) answer(ctx context.Context, c net.Conn, place int, do behaviour) bool {
	switch do {
	case dawdles:
		wait(ctx, 30*time.Millisecond)
		fallthrough
	case takes:
		b.gate.pass(ctx)
		b.rec.answered(place, taken, "200")
		return b.write(c, http.StatusOK, "text/xml; charset=utf-8", replyEnvelope)
	case nothings:
		b.rec.answered(place, taken, "202")
		return b.write(c, http.StatusAccepted, "", "")
	case faults:
		b.rec.answered(place, declined, "500 Server fault")
		return b.write(c, http.StatusInternalServerError, "text/xml; charset=utf-8", serverFault)
	case rejects:
		b.rec.answered(place, declined, "500 Client fault")
		return b.write(c, http.StatusInternalServerError, "text/xml; charset=utf-8", clientFault)
	case busy:
		b.rec.answered(place, declined, "503")
		return b.write(c, http.StatusServiceUnavailable, "text/plain", "busy")
	case resets:
		b.rec.answered(place, lost, "reset")
		reset(c)
	case hangs:
		b.rec.answered(place, lost, "hang")
		wait(ctx, time.Duration(b.silent.Load()))
		reset(c)
	}
	return false
}

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// write sends an answer and reports whether that worked.
func (b *backend) write(c net.Conn, status int, kind, body string) bool {
	var out []byte
	if b.framed > 0 {
		var err error
		if out, err = frame.Append(nil, b.framed, []byte(body)); err != nil {
			b.t.Error(err)
			return false
		}
	} else {
		out = fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
		if kind != "" {
			out = fmt.Appendf(out, "Content-Type: %s\r\n", kind)
		}
		out = fmt.Appendf(out, "\r\n%s", body)
	}
	_, err := c.Write(out)
	return err == nil
}

// serveFrames does the same for frames. They say no route and bear no mark.
func (b *backend) serveFrames(ctx context.Context, c net.Conn) {
	r := frame.NewReader(gated{c, ctx, &b.gate}, b.framed, 1<<20, 64<<10)
	for {
		if r.Wait() != nil {
			return
		}
		if _, err := r.Next(); err != nil {
			return
		}
		body, err := io.ReadAll(r)
		place := b.rec.arrived(receipt{Key: keyOf(body), Hash: hashOf(body), Route: framedRoute, Unmarkable: true}, func() bool { return b.abandoned(c) })
		if err != nil {
			b.rec.answered(place, cut, err.Error())
			return
		}
		do := b.draw(body)
		if do == busy {
			do = faults // there is no 503
		}
		if !b.answer(ctx, c, place, do) {
			return
		}
	}
}

// framedRoute is the only route whose backend speaks frames.
const framedRoute = "framed"

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pause is for moments in which nothing can be waited for.
func pause(d time.Duration) { <-time.After(d) }

// eventually polls until ok, at most for the given time.
func eventually(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); ; pause(10 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
