package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/field"
)

// patience bounds every wait of these tests; none of them needs it when all is
// well.
const patience = 10 * time.Second

// serving starts a server on a free port of loopback and ends it with the test.
func serving(t testing.TB, opt Options, h Handler) (s *Server, addr string) {
	t.Helper()
	s, err := NewServer(opt, h)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: got %v, want %v", err, net.ErrClosed)
		}
		s.Close(errors.New("the test is over"))
	})
	return s, ln.Addr().String()
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func send(t testing.TB, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

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

// slowly answers after a time unless the caller leaves before, and tells why.
func slowly(d time.Duration, cause chan<- error) handlerFunc {
	return func(ctx context.Context, r *Request, w *Response) {
		io.Copy(io.Discard, r.Body)
		w.Status = 200
		select {
		case <-ctx.Done():
			cause <- context.Cause(ctx)
		case <-time.After(d):
			cause <- nil
		}
	}
}

// A client that has sent everything and closed its side still gets its answer,
// unless that takes long.
func TestHalfClosed(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  error
	}{{4 * watchEvery, nil}, {patience, ErrGone}} {
		t.Run(tt.takes.String(), func(t *testing.T) {
			if runtime.GOOS == "windows" && tt.want != nil {
				t.Skip("not seen on this system")
			}
			cause := make(chan error, 1)
			_, addr := serving(t, Options{}, slowly(tt.takes, cause))
			c := dial(t, addr)
			send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
			c.CloseWrite()
			if err := await(t, cause, "the handler"); !errors.Is(err, tt.want) {
				t.Errorf("cause: got %v, want %v", err, tt.want)
			}
			if tt.want == nil {
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || resp.StatusCode != 200 {
					t.Errorf("got %v, %v", resp, err)
				}
			}
		})
	}
}

// A reset is seen while nobody reads: whatever is left of the request, and
// whatever waits behind it.
func TestResetSeen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what is unread hides it on this system")
	}
	for name, octets := range map[string]string{
		"whole request":          get,
		"half a body":            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nabc",
		"request waiting behind": get + strings.Repeat(get, 1000),
	} {
		t.Run(name, func(t *testing.T) {
			began, cause := make(chan bool, 1), make(chan error, 1)
			_, addr := serving(t, Options{}, handlerFunc(func(ctx context.Context, r *Request, w *Response) {
				began <- true
				<-ctx.Done()
				cause <- context.Cause(ctx)
				w.Status = 200
			}))
			c := dial(t, addr)
			send(t, c, octets)
			await(t, began, "start")
			c.SetLinger(0)
			c.Close()
			if err := await(t, cause, "cancellation"); err != ErrGone {
				t.Errorf("cause: got %v, want %v", err, ErrGone)
			}
		})
	}
}

// Half a request and a FIN is for the reader of the body to judge.
func TestHalfRequestCancelsNothing(t *testing.T) {
	cause := make(chan error, 1)
	_, addr := serving(t, Options{}, handlerFunc(func(ctx context.Context, r *Request, w *Response) {
		w.Status = 200
		select {
		case <-ctx.Done():
			cause <- context.Cause(ctx)
		case <-time.After(halfGrace + 5*watchEvery):
			cause <- nil
		}
	}))
	c := dial(t, addr)
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc")
	c.CloseWrite()
	if err := await(t, cause, "the handler"); err != nil {
		t.Errorf("cause: got %v, want none", err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 || !resp.Close {
		t.Errorf("got %v, %v, want 200 and a close", resp, err)
	}
}

// Requests in one write are answered in their order.
func TestPipelining(t *testing.T) {
	_, addr := serving(t, Options{}, handlerFunc(echo))
	c := dial(t, addr)
	var b strings.Builder
	for i := range 200 {
		body := strings.Repeat("x", i*37) + fmt.Sprint(i)
		if i%2 == 0 {
			fmt.Fprintf(&b, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		} else {
			fmt.Fprintf(&b, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
	}
	go io.WriteString(c, b.String())
	r := bufio.NewReader(c)
	for i := range 200 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if want := strings.Repeat("x", i*37) + fmt.Sprint(i); err != nil || string(got) != want {
			t.Fatalf("answer %d: got %d octets, %v, want %d", i, len(got), err, len(want))
		}
	}
}

// A head, and what it announces, octet by octet and over the size of a buffer.
func TestLargeHead(t *testing.T) {
	_, addr := serving(t, Options{HeaderBytes: 200 << 10}, handlerFunc(func(ctx context.Context, r *Request, w *Response) {
		w.Status, w.Header = 200, field.Of(http.Header{"X-Back": {r.Header.Get("X-There")}})
	}))
	c := dial(t, addr)
	r := bufio.NewReader(c)
	for _, size := range []int{10, bufSize, 150 << 10, 10, 100 << 10} {
		value := strings.Repeat("v", size)
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nX-There: "+value+"\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("X-Back"); got != value {
			t.Errorf("got %d octets, want %d", len(got), size)
		}
	}
}

// doneOnce counts what the handler is told.
type doneOnce struct {
	handlerFunc
	done atomic.Int64
	cut  chan error
}

func (d *doneOnce) Done(_ *Response, cut error) {
	d.done.Add(1)
	d.cut <- cut
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a bug in a body") }

// A panic costs one connection, is logged, and the handler is still told.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	lines := make(chan bool, 1)
	opt := Options{Log: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		log.Write(p)
		lines <- true
		return len(p), nil
	}), nil))}
	h := &doneOnce{cut: make(chan error, 1)}
	h.handlerFunc = func(ctx context.Context, r *Request, w *Response) {
		w.Status, w.Body, w.Length = 200, panicking{}, -1
	}
	_, addr := serving(t, opt, h)
	c := dial(t, addr)
	send(t, c, get)
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("got %q, %v, want a close", b, err)
	}
	if cut := await(t, h.cut, "Done"); cut != errPanic || h.done.Load() != 1 {
		t.Errorf("Done: got %v, %d times", cut, h.done.Load())
	}
	await(t, lines, "log")
	if !strings.Contains(log.String(), "a bug in a body") {
		t.Errorf("log: got %s", &log)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A body that another goroutine still reads when a connection ends must not
// see the octets of another one.
func TestBodyOutlivesExchange(t *testing.T) {
	read := make(chan error, 1)
	begun := make(chan bool)
	_, addr := serving(t, Options{}, handlerFunc(func(ctx context.Context, r *Request, w *Response) {
		go func() {
			close(begun)
			_, err := io.Copy(io.Discard, r.Body)
			_, again := r.Body.Read(make([]byte, 1))
			if again == nil || again == io.EOF {
				err = again
			}
			read <- err
		}()
		<-begun
		w.Status = 413
	}))
	c := dial(t, addr)
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 413 || !resp.Close {
		t.Errorf("got %v, %v, want 413 and a close", resp, err)
	}
	if err := await(t, read, "reader"); err == nil {
		t.Error("body: got its end, want an error")
	}
}

// Answers of every form, whole at the client and in as few writes as can be.
func TestAnswers(t *testing.T) {
	short, long := strings.Repeat("s", 1000), strings.Repeat("l", 300<<10)
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string
		writes int // at most; 0 = does not matter
	}{
		{"none", nil, 0, "", 1},
		{"short in memory", strings.NewReader(short), 1000, short, 1},
		{"empty in memory", strings.NewReader(""), 0, "", 1},
		{"short stream", onlyReader{strings.NewReader(short)}, 1000, short, 1},
		{"empty stream", onlyReader{strings.NewReader("")}, 0, "", 1},
		{"long in memory", strings.NewReader(long), 300 << 10, long, 0},
		{"long stream", onlyReader{strings.NewReader(long)}, 300 << 10, long, 0},
		{"short of unknown length", strings.NewReader(short), -1, short, 2},
		{"long of unknown length", onlyReader{strings.NewReader(long)}, -1, long, 0},
		{"empty of unknown length", strings.NewReader(""), -1, "", 1},
		{"of unknown length and another in memory", onlyReader{strings.NewReader(long)}, -1, long, 0},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(tt.name+" "+proto, func(t *testing.T) {
				rewind(tt.body)
				c := &counting{script: script{in: []byte("POST / " + proto + "\r\nHost: h\r\n\r\n")}}
				s := mustServer(Options{}, handlerFunc(func(_ context.Context, r *Request, w *Response) {
					w.Status, w.Body, w.Length = 200, tt.body, tt.length
				}))
				s.start(c)
				s.open.Wait()
				resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(c.out.Bytes())), nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				if err != nil || string(got) != tt.want {
					t.Errorf("got %d octets, %v, want %d", len(got), err, len(tt.want))
				}
				if resp.Header.Get("Date") == "" || resp.Proto != proto || (tt.length >= 0) != (resp.ContentLength >= 0) {
					t.Errorf("got %s %v, length %d", resp.Proto, resp.Header, resp.ContentLength)
				}
				if tt.writes > 0 && c.writes > tt.writes {
					t.Errorf("writes: got %d, want %d", c.writes, tt.writes)
				}
			})
		}
	}
}

type onlyReader struct{ io.Reader }

func rewind(r io.Reader) {
	if o, ok := r.(onlyReader); ok {
		r = o.Reader
	}
	if s, ok := r.(io.Seeker); ok {
		s.Seek(0, io.SeekStart)
	}
}

// counting counts writes.
type counting struct {
	script
	writes int
}

func (c *counting) Write(p []byte) (int, error) { c.writes++; return c.script.Write(p) }

// TestAllocs holds the engine to three allocations for an exchange: the request,
// its head as a string, and the list of its fields.
func TestAllocs(t *testing.T) {
	octets := []byte("POST /orders HTTP/1.1\r\nhost: h\r\nuser-agent: test/1\r\nContent-Type: text/xml; charset=utf-8\r\n" +
		"SOAPAction: \"urn:a\"\r\nAccept: */*\r\nContent-Length: 3\r\n\r\nabc")
	src := new(script)
	back := []byte("answer")
	answer := bytes.NewReader(back)
	fields := field.Of(http.Header{"Content-Type": {"text/xml"}})
	p := make([]byte, 16)
	s := mustServer(Options{}, handlerFunc(func(_ context.Context, r *Request, w *Response) {
		r.Body.Read(p)
		answer.Reset(back)
		w.Status, w.Header, w.Body, w.Length = 200, fields, answer, int64(len(back))
	}))
	c := newConn(s, src)
	c.in.take()
	n := testing.AllocsPerRun(1000, func() {
		src.in = octets
		src.out.Reset()
		x := new(exchange)
		if !c.wait(time.Now(), time.Now().Add(time.Minute)) {
			t.Fatal("nothing came")
		}
		n, err := c.readHead(time.Time{})
		if err == nil {
			err = c.head.request(c.in.unused()[:n], &x.Request)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.in.r += n
		if !c.exchange(x) {
			t.Fatal("the connection ended")
		}
		c.in.settle()
	})
	if n > 3 {
		t.Errorf("got %v allocations, want at most 3", n)
	}
}
