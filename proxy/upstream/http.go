package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy"
)

var _ proxy.Node = (*HTTP)(nil)

// ErrClosed is the reason of a Send after Close.
var ErrClosed = errors.New("upstream: node closed")

// HTTP is a node over HTTP/1.1.
type HTTP struct {
	opt      HTTPOptions
	base     base
	tr       *http.Transport
	dialer   dialer
	forward  bool // requests go to a proxy, in absolute-form
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
	n := &HTTP{opt: opt, base: b, forward: b.scheme == "http" && opt.Dial.Proxy != nil}
	host, _, err := net.SplitHostPort(b.host)
	if err != nil {
		host = strings.Trim(b.host, "[]")
	}
	n.dialer = newDialer(opt.Dial, host, func() { n.tr.CloseIdleConnections() })
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	n.tr = &http.Transport{
		DialContext:            n.dial,
		DialTLSContext:         n.dialTLS,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    opt.MaxConnections,
		MaxConnsPerHost:        opt.MaxConnections,
		IdleConnTimeout:        opt.IdleTimeout,
		MaxResponseHeaderBytes: opt.HeaderBytes,
		WriteBufferSize:        16 << 10, // head and body of a common message in one write
		ReadBufferSize:         8 << 10,
		Protocols:              protocols,
	}
	return n, nil
}

// Name implements [proxy.Node].
func (n *HTTP) Name() string { return n.base.name() }

// InFlight implements [proxy.Node].
func (n *HTTP) InFlight() int64 { return n.inFlight.Load() }

// Close implements [proxy.Node].
func (n *HTTP) Close() {
	n.closed.Store(true)
	n.dialer.close()
	n.tr.CloseIdleConnections()
}

// done ends a try. The last one of a closed node closes what the Transport has
// pooled meanwhile.
func (n *HTTP) done() {
	if n.inFlight.Add(-1) == 0 && n.closed.Load() {
		n.tr.CloseIdleConnections()
	}
}

func (n *HTTP) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	c, raw, err := n.dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, raw: raw, peek: c == net.Conn(raw)}, nil
}

func (n *HTTP) dialTLS(ctx context.Context, _, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.connectTimeout(ctx))
	defer cancel()
	c, raw, err := n.dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	t, err := handshake(ctx, c, n.opt.TLS, addr, "http/1.1")
	if err != nil {
		return nil, err
	}
	return &conn{Conn: t, raw: raw}, nil
}

func (n *HTTP) dialTCP(ctx context.Context, addr string) (net.Conn, *countConn, error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.dialling()
	}
	ctx, cancel := context.WithTimeout(ctx, n.connectTimeout(ctx))
	defer cancel()
	return n.dialer.dial(ctx, addr, !n.forward)
}

// connectTimeout is that of the try for which the Transport dials.
func (n *HTTP) connectTimeout(ctx context.Context) time.Duration {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.connect
	}
	return n.opt.ConnectTimeout
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
			n.done()
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
	hr := &http.Request{
		Method: req.Method, URL: n.url(req), Host: req.Host, Header: n.header(req),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if req.Method == http.MethodConnect {
		err := errors.New("upstream: CONNECT has no message to send")
		return nil, false, &proxy.SendError{Class: proxy.NotSent, Permanent: true, Err: err}
	}
	a := newAttempt(ctx, n.opt.QueueWait, connect, answer)
	if err := a.open(req, hr); err != nil {
		a.end()
		return nil, false, &proxy.SendError{Class: proxy.NotSent, Source: true, Err: err}
	}

	// A streaming body may wait for its sender while the node is gone already:
	// it is closed then, or RoundTrip would wait as well.
	if a.src != nil && req.Once {
		var over context.Context
		over, a.abort = context.WithCancel(a.ctx)
		context.AfterFunc(over, func() { a.src.Close() })
	}
	resp, err := n.tr.RoundTrip(hr.WithContext(a.ctx))
	if err != nil {
		e := a.failure(err)
		fresh := a.src == nil || !a.src.touched.Load() || !req.Once
		again := e.Class == proxy.NotSent && a.reused.Load() && fresh && !e.Source && !e.Timeout && ctx.Err() == nil
		a.end()
		if a.src != nil {
			a.src.Close()
		}
		return nil, again, e
	}
	return n.response(a, req, resp)
}

// wholeMost bounds what is copied to leave in one write with the head.
const wholeMost = 64 << 10

// open opens the body of the request. net/http writes the head alone before a
// body of any type but its own in-memory ones, so a short one becomes such.
func (a *attempt) open(req *proxy.Request, hr *http.Request) error {
	hr.Body = http.NoBody
	if req.Length == 0 {
		return nil
	}
	rc, err := req.Body()
	if err != nil {
		return err
	}
	src := newSource(rc, req, a.fresh)
	hr.ContentLength = req.Length
	if req.Once || req.Length < 0 || req.Length > wholeMost {
		a.src, hr.Body = src, src
		return nil
	}
	defer src.Close()
	b := make([]byte, req.Length)
	if _, err := io.ReadFull(src, b); err != nil {
		return err
	}
	hr.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}

// response takes over an answer whose head is complete.
func (n *HTTP) response(a *attempt, req *proxy.Request, resp *http.Response) (*proxy.Response, bool, error) {
	a.pause()
	var bad error
	switch {
	case !a.sawHead.Load():
		bad = errUnsolicited
	case resp.StatusCode < 200:
		bad = errors.New("upstream: the node switched protocols")
	}
	if bad != nil {
		a.cancel(bad)
		resp.Body.Close()
		e := a.failure(bad)
		a.end()
		return nil, false, e
	}
	out := &proxy.Response{Status: resp.StatusCode, Header: endToEnd(resp.Header), Length: resp.ContentLength}
	if resp.ContentLength == 0 || resp.Body == http.NoBody {
		resp.Body.Close()
		if req.Method != http.MethodHead {
			out.Length = 0
		}
		a.end()
		n.done()
		return out, false, nil
	}
	out.Body = &answerBody{n: n, a: a, rc: resp.Body}
	return out, false, nil
}

// url is the URL that net/http makes the request's target of.
func (n *HTTP) url(req *proxy.Request) *url.URL {
	if n.forward {
		return n.base.absolute(req)
	}
	return n.base.url(req)
}

// header copies what the request asks for. User-Agent is suppressed unless
// given; fields that a hop writes itself are left to net/http.
func (n *HTTP) header(req *proxy.Request) http.Header {
	h := make(http.Header, len(req.Header)+2)
	for k, v := range req.Header {
		if !hopField(k) {
			h[k] = v
		}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil
	}
	if own := basicOf(n.base.user); own != "" && h["Authorization"] == nil {
		h["Authorization"] = []string{own}
	}
	if n.forward {
		if own := basicOf(n.opt.Dial.Proxy.User); own != "" {
			h["Proxy-Authorization"] = []string{own}
		}
	}
	return h
}

// hopField reports whether every hop writes this field itself (RFC 9110 §7.6.1,
// RFC 9112 §6). Expect is answered by the listener and never sent on.
func hopField(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Length", "Expect", "Host":
		return true
	}
	return false
}

// endToEnd removes the fields that are not for the next hop, and those that
// Connection names, from an answer that is ours to change.
func endToEnd(h http.Header) http.Header {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); !proxy.Protected(name) {
				h.Del(name)
			}
		}
	}
	for k := range h {
		if hopField(k) && k != "Host" {
			delete(h, k)
		}
	}
	return h
}

// answerBody is the body of an answer. Only a read that waits for the node is
// on the clock, so that a slow caller does not time the node out.
type answerBody struct {
	n    *HTTP
	a    *attempt
	rc   io.ReadCloser
	once sync.Once
	err  error // only Read touches it
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.a.resume()
	n, err := b.rc.Read(p)
	b.a.pause()
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.err = io.EOF
		b.finish()
	default:
		b.err = b.a.failure(err)
		b.finish()
	}
	return n, b.err
}

// Close cuts the connection unless the answer was read to its end.
func (b *answerBody) Close() error {
	b.finish()
	return nil
}

func (b *answerBody) finish() {
	b.once.Do(func() {
		b.rc.Close()
		b.a.end()
		b.n.done()
	})
}
