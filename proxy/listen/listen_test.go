package listen

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
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

// serverFunc is a proxy.Server.
type serverFunc func(context.Context, *proxy.Exchange) *proxy.Reply

func (f serverFunc) Serve(ctx context.Context, ex *proxy.Exchange) *proxy.Reply { return f(ctx, ex) }

// echoServer answers with the octets of the request, or 400 when they do not
// come to their end.
func echoServer(_ context.Context, ex *proxy.Exchange) *proxy.Reply {
	b, err := io.ReadAll(ex.Body)
	if err != nil {
		return &proxy.Reply{Status: 400, CloseConnection: true}
	}
	return textReply(200, string(b))
}

func textReply(status int, body string) *proxy.Reply {
	return &proxy.Reply{
		Status: status, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}),
		Body: strings.NewReader(body), Length: int64(len(body)),
	}
}

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

type runner interface {
	Listen() error
	Run(context.Context) error
	Addr() net.Addr
}

// running starts a listener; the returned function stops it and reports how it
// ended. The end of the test stops it too.
func running(t *testing.T, l runner) (addr string, stop func() error) {
	t.Helper()
	if err := l.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-done:
			case <-time.After(patience):
				err = errors.New("Run did not return")
			}
		})
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
	return l.Addr().String(), stop
}

// peer is a raw client.
type peer struct {
	t *testing.T
	*net.TCPConn
	r *bufio.Reader
}

func connect(t *testing.T, addr string) *peer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return &peer{t, c.(*net.TCPConn), bufio.NewReader(c)}
}

func (p *peer) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p, s); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// reply reads one HTTP reply and its body.
func (p *peer) reply(method string) (*http.Response, string) {
	p.t.Helper()
	resp, body, err := p.tryReply(method)
	if err != nil {
		p.t.Fatalf("reply: %v", err)
	}
	return resp, body
}

func (p *peer) tryReply(method string) (*http.Response, string, error) {
	resp, err := http.ReadResponse(p.r, &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// closed waits for the peer's close and fails if anything comes before it.
func (p *peer) closed() {
	p.t.Helper()
	if b, err := io.ReadAll(p.r); len(b) > 0 || isTimeout(err) {
		p.t.Fatalf("connection: got %q, %v, want it closed", b, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func post(body string, fields ...string) string {
	var b strings.Builder
	b.WriteString("POST /x HTTP/1.1\r\nHost: gw\r\n")
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// logged is a slog logger whose text a test can read.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

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

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(*testing.T, Engine)) {
	for name, engine := range map[string]Engine{"fast": Fast, "std": Std} {
		t.Run(name, func(t *testing.T) { test(t, engine) })
	}
}
