package upstream

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/proxy"
)

// patience bounds every wait of these tests; none of them needs it when all is
// well.
const patience = 10 * time.Second

// noLeaks fails the test when it ends with more goroutines than it began with.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.After(patience)
		for runtime.NumGoroutine() > before {
			select {
			case <-deadline:
				buf := make([]byte, 1<<20)
				t.Errorf("goroutines: got %d, want %d\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// peer is the node's end of one connection.
type peer struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// script is what a node does with its connections, one after the other; the
// last one serves all that follow. It returns to close the connection.
type script func(p *peer)

// node is a scripted raw server.
func node(t *testing.T, scripts ...script) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, ln, scripts...)
}

func serve(t *testing.T, ln net.Listener, scripts ...script) string {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for i := 0; ; i++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			s := scripts[min(i, len(scripts)-1)]
			wg.Go(func() {
				defer c.Close()
				s(&peer{t, c, bufio.NewReader(c)})
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

// request reads one HTTP request to its end; nil when the connection ends
// first.
func (p *peer) request() (*http.Request, string) {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return nil, ""
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, string(b)
	}
	return r, string(b)
}

func (p *peer) send(s string) { io.WriteString(p, s) }

// reset closes with a RST.
func (p *peer) reset() {
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
}

// gone waits until the other end has closed.
func (p *peer) gone() { io.Copy(io.Discard, p.r) }

const okReply = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 4\r\n\r\n<r/>"

// request makes a POST with a body that can be sent again.
func request(body string) *proxy.Request {
	return &proxy.Request{
		Method: "POST", Header: field.Of(http.Header{"Content-Type": {"text/xml"}}),
		Length: int64(len(body)),
		Body:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil },
	}
}

// streaming makes a POST with a body that can be sent once.
func streaming(r io.Reader, length int64) (*proxy.Request, *onceBody) {
	b := &onceBody{r: r, closed: make(chan struct{})}
	req := &proxy.Request{
		Method: "POST", Header: field.Of(http.Header{"Content-Type": {"text/xml"}}),
		Length: length, Once: true,
		Body: func() (io.ReadCloser, error) {
			if b.used() {
				return nil, proxy.ErrBodyUsed
			}
			return b, nil
		},
	}
	return req, b
}

// onceBody is a streaming body. Closing it ends a read under way if its reader
// can be closed.
type onceBody struct {
	r      io.Reader
	closed chan struct{}

	mu    sync.Mutex
	read  bool
	shut  bool
	bytes int64
}

func (b *onceBody) used() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

func (b *onceBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.read = true
	b.mu.Unlock()
	n, err := b.r.Read(p)
	b.mu.Lock()
	b.bytes += int64(n)
	b.mu.Unlock()
	return n, err
}

func (b *onceBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shut {
		b.shut = true
		close(b.closed)
		if c, ok := b.r.(io.Closer); ok {
			c.Close()
		}
	}
	return nil
}

// sendError checks the type that every error of Send has.
func sendError(t *testing.T, err error) *proxy.SendError {
	t.Helper()
	var e *proxy.SendError
	if !errors.As(err, &e) {
		t.Fatalf("Send: got %v (%T), want a *proxy.SendError", err, err)
	}
	return e
}

// body reads an answer to its end and closes it.
func body(t *testing.T, resp *proxy.Response) string {
	t.Helper()
	if resp.Body == nil {
		if resp.Length > 0 {
			t.Errorf("no body, but length %d", resp.Length)
		}
		return ""
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("answer: %v", err)
	}
	resp.Body.Close()
	if resp.Length >= 0 && resp.Length != int64(len(b)) {
		t.Errorf("answer: got %d octets, want %d", len(b), resp.Length)
	}
	return string(b)
}

func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: waited %v in vain", what, patience)
		panic("unreachable")
	}
}

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: waited %v in vain", what, patience)
		case <-time.After(time.Millisecond):
		}
	}
}

// refused is an address on which nobody listens.
func refused(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func newHTTP(t *testing.T, opt HTTPOptions) *HTTP {
	t.Helper()
	n, err := NewHTTP(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		if got := n.InFlight(); got != 0 {
			t.Errorf("InFlight: got %d, want 0", got)
		}
	})
	return n
}

// pipeBody is a body whose sender is silent until it is told.
func pipeBody() (*io.PipeReader, *io.PipeWriter) { return io.Pipe() }

// TestEndToEnd: Connection takes its own fields away, and none that says what
// the answer is.
func TestEndToEnd(t *testing.T) {
	h := endToEnd(field.Of(http.Header{
		"Connection": {"X-Hop , close", "content-encoding, Content-Type, location, www-authenticate"},
		"X-Hop":      {"1"}, "Keep-Alive": {"1"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"1"},
		"Content-Encoding": {"gzip"}, "Content-Type": {"text/xml"}, "Location": {"/x"}, "Www-Authenticate": {"Basic"}, "X-Kept": {"1"},
	}))
	want := []string{"Content-Encoding", "Content-Type", "Location", "Www-Authenticate", "X-Kept"}
	if got := slices.Sorted(maps.Keys(h.HTTP())); !slices.Equal(got, want) {
		t.Errorf("endToEnd: got %v, want %v", got, want)
	}
}

// TestBuiltinDescriptions: echo has a WSDL; a client that asks for something
// else, or sink for one, learns that there is none.
func TestBuiltinDescriptions(t *testing.T) {
	for _, c := range []struct {
		name, method, query string
		status              int
	}{
		{"builtin:echo", http.MethodGet, "wsdl", http.StatusOK},
		{"builtin:echo", http.MethodHead, "WSDL", http.StatusOK},
		{"builtin:echo", http.MethodGet, "singleWsdl", http.StatusOK},
		{"builtin:echo", http.MethodGet, "xsd=1", http.StatusMethodNotAllowed},
		{"builtin:echo", http.MethodGet, "", http.StatusMethodNotAllowed},
		{"builtin:sink", http.MethodGet, "wsdl", http.StatusMethodNotAllowed},
	} {
		n, err := NewBuiltin(c.name)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := n.Send(t.Context(), &proxy.Request{Method: c.method, HasQuery: true, Query: c.query})
		if err != nil || resp.Status != c.status || (resp.Header.Get("Allow") == "POST") != (c.status != http.StatusOK) {
			t.Errorf("%s: %s ?%s: got %+v, %v, want %d", c.name, c.method, c.query, resp, err, c.status)
			continue
		}
		if resp.Body != nil {
			b, err := io.ReadAll(resp.Body)
			if c.method != http.MethodGet || err != nil || int64(len(b)) != resp.Length {
				t.Errorf("%s: %s ?%s: got %d octets, %v, want %d", c.name, c.method, c.query, len(b), err, resp.Length)
			}
			resp.Body.Close()
		}
	}
}
