package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/field"
	"soapway/internal/h1"
	"soapway/proxy"
)

var _ proxy.Node = (*HTTP)(nil)

// ErrClosed is the reason of a Send after Close.
var ErrClosed = errors.New("upstream: node closed")

// HTTP is a node over HTTP/1.1.
type HTTP struct {
	opt      HTTPOptions
	base     base
	label    string // base.name()
	addr     string // host:port
	auth     string // Authorization of the URL's user information, or ""
	dialer   dialer
	forward  bool // requests go to a proxy, in absolute-form
	pool     pool
	inFlight atomic.Int64
	closed   atomic.Bool
}

// NewHTTP returns a node; nothing is dialled before the first Send.
func NewHTTP(opt HTTPOptions) (*HTTP, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	b, err := newBase(opt.URL)
	if err != nil {
		return nil, err
	}
	n := &HTTP{opt: opt, base: b, label: b.name(), forward: b.scheme == "http" && opt.Dial.Proxy != nil, auth: basicOf(b.user)}
	n.pool.init(budgetOf(opt.Budget, opt.MaxConnections), opt.IdleTimeout)
	host, port, err := net.SplitHostPort(b.host)
	if err != nil {
		host, port = strings.Trim(b.host, "[]"), ""
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[b.scheme]
	}
	n.addr = net.JoinHostPort(host, port)
	n.dialer = newDialer(opt.Dial, host, func() { n.pool.closeIdle(false) })
	return n, nil
}

// Name implements [proxy.Node].
func (n *HTTP) Name() string { return n.label }

// InFlight implements [proxy.Node].
func (n *HTTP) InFlight() int64 { return n.inFlight.Load() }

// Close implements [proxy.Node].
func (n *HTTP) Close() {
	n.closed.Store(true)
	n.dialer.close()
	n.pool.close()
}

// connect makes a connection, with TLS where the node has it.
func (n *HTTP) connect(ctx context.Context, limit time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, raw, err := n.dialer.dial(ctx, n.addr, !n.forward)
	if err == nil && n.base.scheme == "https" {
		c, err = handshake(ctx, c, n.opt.TLS, n.addr, "http/1.1")
	}
	if err != nil {
		return nil, err
	}
	return newConn(c, raw), nil
}

// handshake makes a TLS client of c, or closes it.
func handshake(ctx context.Context, c net.Conn, cfg *tls.Config, addr string, protos ...string) (*tls.Conn, error) {
	cfg = cfg.Clone()
	if cfg == nil {
		cfg = new(tls.Config)
	}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		cfg.ServerName = host
	}
	cfg.NextProtos = protos
	t := tls.Client(c, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// maxStale bounds how many dead pooled connections one try skips.
const maxStale = 8

// Send implements [proxy.Node]. The request body may still be read after Send
// returned: when an answer came early, or when the connection broke while the
// sender of the body was silent. It is closed then, with that read under way.
func (n *HTTP) Send(ctx context.Context, req *proxy.Request) (*proxy.Response, error) {
	if n.closed.Load() {
		return nil, &proxy.SendError{Class: proxy.NotSent, Err: ErrClosed}
	}
	n.inFlight.Add(1)
	n.dialer.tick()
	for tries := 0; ; tries++ {
		resp, again, err := n.try(ctx, req)
		if err == nil {
			return resp, nil
		}
		if !again || tries == maxStale {
			n.inFlight.Add(-1)
			return nil, err
		}
	}
}

// try makes one try. again says that it met a pooled connection that was dead
// before anything was asked of it, and that the body can be read from its start.
func (n *HTTP) try(ctx context.Context, req *proxy.Request) (_ *proxy.Response, again bool, _ error) {
	connect, answer := n.opt.ConnectTimeout, n.opt.Timeout
	if req.Timeouts.Connect > 0 {
		connect = req.Timeouts.Connect
	}
	if req.Timeouts.Answer > 0 {
		answer = req.Timeouts.Answer
	}
	if ctx.Err() != nil {
		return nil, false, &proxy.SendError{Class: proxy.NotSent, Err: context.Cause(ctx)}
	}
	a := &attempt{n: n, ctx: ctx, answer: answer}
	out := outBuffers.Get().(*[]byte)
	b, err := n.head((*out)[:0], req)
	if err != nil {
		putOut(out, b)
		return nil, false, &proxy.SendError{Class: proxy.NotSent, Permanent: true, Err: err}
	}
	if b, err = a.open(req, b); err != nil {
		putOut(out, b)
		return nil, false, &proxy.SendError{Class: proxy.NotSent, Source: true, Err: err}
	}
	c := n.ownConn(req.Caller)
	own := c != nil
	if !own {
		c, err = n.pool.get(ctx, min(n.opt.QueueWait, connect))
	}
	a.reused = c != nil
	if err == nil && c == nil {
		if c, err = n.connect(ctx, connect); err != nil {
			n.pool.drop(nil)
		}
	}
	if err != nil {
		putOut(out, b)
		e := a.failure(err)
		e.Timeout = e.Timeout || errors.Is(err, proxy.ErrNoConnection)
		a.end(false)
		return nil, false, e
	}
	a.take(c)
	if a.src != nil {
		a.src.check = func() error {
			if a.reused && c.stale() {
				return errStale
			}
			return nil
		}
		go a.stream(out, b)
	} else {
		a.wrote(a.write(b))
		putOut(out, b)
	}
	ans, err := a.head(req.Method, int(n.opt.HeaderBytes))
	if err != nil {
		e := a.failure(err)
		fresh := a.src == nil || !req.Once || !a.src.touched.Load()
		again := e.Class == proxy.NotSent && a.reused && fresh && !e.Source && !e.Timeout && ctx.Err() == nil
		a.end(false)
		return nil, again, e
	}
	resp := &a.resp
	resp.Status, resp.Header, resp.Length = ans.Status, endToEnd(ans.Header), ans.Length
	reusable := ans.Reusable
	if own || provesConnection(req.Header) {
		a.keep = req.Caller
		reusable = reusable && a.keep != nil
	}
	if !ans.Body {
		a.end(reusable)
		n.inFlight.Add(-1)
		return resp, false, nil
	}
	a.mu.Lock()
	a.inBody = true
	a.mu.Unlock()
	a.body.n, a.body.a, a.body.reusable = n, a, reusable
	resp.Body = &a.body
	return resp, false, nil
}

// head writes the head of a request.
func (n *HTTP) head(b []byte, req *proxy.Request) ([]byte, error) {
	if req.Method == http.MethodConnect {
		return b, errors.New("upstream: CONNECT has no message to send")
	}
	path, query, hasQuery := n.base.target(req)
	target := path
	if hasQuery {
		target += "?" + query
	}
	if n.forward {
		target = n.base.scheme + "://" + n.base.host + target
	}
	host := req.Host
	if host == "" {
		host = withoutZone(n.base.host)
	}
	h := req.Header
	if n.auth != "" && !h.Has("Authorization") || n.forward && n.opt.Dial.Proxy.User != nil {
		h = h.Clone()
		if n.auth != "" && !h.Has("Authorization") {
			h.Add("Authorization", n.auth)
		}
		if n.forward && n.opt.Dial.Proxy.User != nil {
			h.Set("Proxy-Authorization", basicOf(n.opt.Dial.Proxy.User))
		}
	}
	return h1.AppendRequest(b, req.Method, target, host, h, req.Length)
}

// withoutZone removes the zone of an IPv6 address, which is for this machine
// only.
func withoutZone(host string) string {
	if i := strings.IndexByte(host, '%'); i >= 0 && host[0] == '[' {
		if end := strings.IndexByte(host, ']'); end > i {
			return host[:i] + host[end:]
		}
	}
	return host
}

// open opens the body of the request. A short one that can be read again is put
// behind the head b; any other becomes a.src.
func (a *attempt) open(req *proxy.Request, b []byte) ([]byte, error) {
	if req.Length == 0 {
		return b, nil
	}
	if whole := int64(len(req.Data)); whole == req.Length && whole <= wholeMost {
		return append(b, req.Data...), nil
	}
	rc, err := req.Body()
	if err != nil {
		return b, err
	}
	src := newSource(rc, req, nil)
	if req.Once || req.Length < 0 || req.Length > wholeMost {
		a.src = src
		return b, nil
	}
	defer src.Close()
	at := len(b)
	b = slices.Grow(b, int(req.Length))[:at+int(req.Length)]
	_, err = io.ReadFull(src, b[at:])
	return b, err
}

// hopField reports whether every hop writes this field itself (RFC 9110 §7.6.1,
// RFC 9112 §6). Expect is answered by the listener and never sent on.
func hopField(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Length", "Expect":
		return true
	}
	return false
}

// endToEnd removes the fields that are not for the next hop, and those that
// Connection names, from an answer that is ours to change. Their names are in
// canonical form.
func endToEnd(h field.List) field.List {
	var named []string
	for i := range h {
		if h[i].Name != "Connection" {
			continue
		}
		for name := range strings.SplitSeq(h[i].Value, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); !proxy.Protected(name) {
				named = append(named, name)
			}
		}
	}
	h.DelFunc(func(f *field.Field) bool { return hopField(f.Name) || slices.Contains(named, f.Name) })
	return h
}

// answerBody is the body of an answer. Only a read that waits for the node is
// on the clock, so that a slow caller does not time the node out.
type answerBody struct {
	n        *HTTP
	a        *attempt
	reusable bool
	once     sync.Once
	err      error       // only read touches it
	busy     atomic.Bool // somebody reads what is on a caller's connection
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.a.keep == nil {
		return b.read(p)
	}
	if !b.busy.CompareAndSwap(false, true) {
		return 0, net.ErrClosed
	}
	defer b.busy.Store(false)
	return b.read(p)
}

func (b *answerBody) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.a.c.in.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.err = io.EOF
		b.finish(b.reusable)
	default:
		b.err = b.a.failure(err)
		b.finish(false)
	}
	return n, b.err
}

// Close cuts the connection unless the answer was read to its end. What is left of
// one on a connection that is a caller's is read if it is little: the answer to a
// proof that is not complete has a text that nobody wants.
func (b *answerBody) Close() error {
	if b.a.keep != nil && b.reusable && b.busy.CompareAndSwap(false, true) {
		b.drain()
	}
	b.finish(false)
	return nil
}

const (
	drainMost = 256 << 10
	drainFor  = time.Second
)

func (b *answerBody) drain() {
	b.a.mu.Lock()
	b.a.hurry = true
	b.a.mu.Unlock()
	buf := make([]byte, 4<<10)
	left := drainMost
	for until := time.Now().Add(drainFor); left > 0 && time.Now().Before(until); {
		n, err := b.read(buf)
		if err != nil {
			return
		}
		left -= n
	}
}

func (b *answerBody) finish(reusable bool) {
	b.once.Do(func() {
		b.a.end(reusable)
		b.n.inFlight.Add(-1)
	})
}
