package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"soapway/internal/field"
	"soapway/soapcodec"
)

const (
	env11 = `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><p:Ask xmlns:p="urn:depot">x</p:Ask></soap:Body></soap:Envelope>`
	env12 = `<env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope"><env:Body><p:Ask xmlns:p="urn:depot">x</p:Ask></env:Body></env:Envelope>`
	// reply11 is what scripted nodes answer unless told otherwise.
	reply11 = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><r:Told xmlns:r="urn:depot"/></s:Body></s:Envelope>`
	fault11 = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault><faultcode>s:Server</faultcode><faultstring>no</faultstring></s:Fault></s:Body></s:Envelope>`
	fault12 = `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason><s:Text xml:lang="en">no</s:Text></s:Reason></s:Fault></s:Body></s:Envelope>`
)

// sent is a request as a scripted node got it.
type sent struct {
	*Request
	body string
	err  error // of reading the body
}

// node is a scripted Node.
type node struct {
	name   string
	answer func(ctx context.Context, req *Request) (*Response, error)
	unread bool  // answer reads the body itself
	down   error // of Probe

	mu   sync.Mutex
	load int64
	got  []sent
}

func (n *node) Name() string    { return n.name }
func (n *node) InFlight() int64 { return n.load }

func (n *node) Probe(context.Context) error { return n.down }

func (n *node) Close() {}

func (n *node) Send(ctx context.Context, req *Request) (*Response, error) {
	copied := *req
	s := sent{Request: &copied}
	if !n.unread {
		rc, err := req.Body()
		if err != nil {
			return nil, &SendError{Class: NotSent, Err: err}
		}
		var b []byte
		b, s.err = io.ReadAll(rc)
		s.body = string(b)
		rc.Close()
	}
	n.mu.Lock()
	n.got = append(n.got, s)
	n.mu.Unlock()
	if s.err != nil {
		return nil, &SendError{Class: Maybe, Source: true, Err: s.err}
	}
	if n.answer != nil {
		return n.answer(ctx, req)
	}
	return respond(200, "text/xml; charset=utf-8", reply11), nil
}

func (n *node) last(t *testing.T) sent {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.got) == 0 {
		t.Fatalf("node %s got no request", n.name)
	}
	return n.got[len(n.got)-1]
}

func respond(status int, typ, body string, fields ...string) *Response {
	h := field.List{}
	if typ != "" {
		h.Set("Content-Type", typ)
	}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &Response{Status: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Length: int64(len(body))}
}

func always(resp *Response, err error) func(context.Context, *Request) (*Response, error) {
	return func(context.Context, *Request) (*Response, error) { return resp, err }
}

func newNode(name string) *node { return &node{name: name} }

func mustCompile(t testing.TB, opt TableOptions) *Table {
	t.Helper()
	tab, err := Compile(opt)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// one is a handler with one route to nodes.
func one(t testing.TB, r Route, nodes ...Node) *Handler {
	t.Helper()
	if r.Name == "" {
		r.Name = "r"
	}
	if r.Backend == nil {
		r.Backend = &Backend{Name: "b", Nodes: nodes}
	}
	return NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{SpoolDir: t.TempDir()})
}

// exchange builds a POST; change it before it is served.
func exchange(typ, body string, fields ...string) *Exchange {
	h := field.List{}
	if typ != "" {
		h.Set("Content-Type", typ)
	}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &Exchange{
		Method: "POST", Target: "/depot", Host: "gw.test", Header: h,
		Client: netip.MustParseAddrPort("192.0.2.7:4000"),
		Body:   strings.NewReader(body), Length: int64(len(body)),
	}
}

// got is a reply that was read to its end and closed.
type got struct {
	*Reply
	body string
	err  error
}

func serve(t testing.TB, h *Handler, ex *Exchange) got {
	t.Helper()
	return serveCtx(t, t.Context(), h, ex)
}

func serveCtx(t testing.TB, ctx context.Context, h *Handler, ex *Exchange) got {
	t.Helper()
	r := h.Serve(ctx, ex)
	g := got{Reply: r}
	if r.Body != nil {
		var b bytes.Buffer
		_, g.err = io.Copy(&b, struct{ io.Reader }{r.Body})
		g.body = b.String()
	}
	if g.err == nil && r.Length >= 0 && ex.Method != "HEAD" && r.Length != int64(len(g.body)) {
		t.Errorf("reply: Length is %d, the body has %d octets", r.Length, len(g.body))
	}
	for _, k := range []string{"Content-Length", "Connection", "Transfer-Encoding"} {
		if r.Header.Get(k) != "" {
			t.Errorf("reply: has a %s field", k)
		}
	}
	if r.Close != nil {
		r.Close()
	}
	return g
}

// wantFault checks a fault that the gateway made.
func (g got) wantFault(t testing.TB, v soapcodec.Version, code soapcodec.Code) {
	t.Helper()
	f := &soapcodec.Fault{Code: code}
	if g.Code != code || g.Version != v || g.Status != f.Status(v) || g.Header.Get("Content-Type") != f.ContentType(v) {
		t.Errorf("got %d %s %q in version %v, want %d %s in %v", g.Status, g.Code, g.Header.Get("Content-Type"), g.Version, f.Status(v), code, v)
	}
	if !strings.Contains(g.body, ">"+string(code)+"<") || !strings.Contains(g.body, v.Namespace()) {
		t.Errorf("body is not a fault with code %s: %s", code, g.body)
	}
	for _, secret := range []string{"node.test", "goroutine", ".go:", "10.0.0"} {
		if strings.Contains(g.body, secret) {
			t.Errorf("the fault names internals (%q): %s", secret, g.body)
		}
	}
	if g.Header.Get("Gateway-Message-Id") == "" {
		t.Error("the fault has no Gateway-Message-Id")
	}
}

// wantPlain checks an answer without an envelope.
func (g got) wantPlain(t testing.TB, status int, code soapcodec.Code) {
	t.Helper()
	if g.Status != status || g.Code != code || g.body != "" {
		t.Errorf("got %d, code %q, body %q, want %d, code %q, no body", g.Status, g.Code, g.body, status, code)
	}
}

// wantAnswer checks an answer that was passed on.
func (g got) wantAnswer(t testing.TB, status int, body string) {
	t.Helper()
	if g.Status != status || g.body != body || g.err != nil {
		t.Errorf("got %d %q %v, want %d %q", g.Status, g.body, g.err, status, body)
	}
}

var errDial = errors.New("dial tcp 10.0.0.5:9000: connection refused")

// reader gives its chunks one by one, then err.
type chunks struct {
	parts [][]byte
	err   error
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.parts) == 0 {
		if c.err == nil {
			return 0, io.EOF
		}
		return 0, c.err
	}
	n := copy(p, c.parts[0])
	if c.parts[0] = c.parts[0][n:]; len(c.parts[0]) == 0 {
		c.parts = c.parts[1:]
	}
	return n, nil
}

// textLog writes records without their time.
func textLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// spelled returns a field under exactly this spelling.
func spelled(h field.List, name string) []string { return h.HTTP()[name] }
