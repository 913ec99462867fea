package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/proxy"
)

// listenHTTP starts an HTTP listener on a free port.
func listenHTTP(t *testing.T, opt HTTPOptions, srv serverFunc) (addr string, stop func() error) {
	t.Helper()
	noLeaks(t)
	opt.Address = "127.0.0.1:0"
	l, err := NewHTTP(opt, srv)
	if err != nil {
		t.Fatal(err)
	}
	return running(t, l)
}

func TestHTTPExchange(t *testing.T) { onBoth(t, testHTTPExchange) }

func testHTTPExchange(t *testing.T, engine Engine) {
	got := make(chan *proxy.Exchange, 1)
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine, Name: "main", Route: "fixed"}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		io.Copy(io.Discard, ex.Body)
		got <- ex
		return &proxy.Reply{Status: 202}
	})
	for _, target := range []string{"/a/../b//c?x=%2F&y", "//two", "/%zz"[:1] + "%41;p=1", "http://other:81/p?q", "/a?", "/pipe|<\"x", "/\xe9"} {
		p := connect(t, addr)
		p.send("POST " + target + " HTTP/1.1\r\nHost: client.test:99\r\nsoapaction: \"a\"\r\nX-Two: 1\r\nX-Two: 2\r\nContent-Length: 3\r\n\r\nabc")
		resp, body := p.reply("POST")
		if resp.StatusCode != 202 || body != "" || resp.Header.Get("Content-Type") != "" || resp.ContentLength != 0 {
			t.Errorf("%q: got %d %q %v", target, resp.StatusCode, body, resp.Header)
		}
		ex := await(t, got, "exchange")
		if ex.Target != target || ex.Method != "POST" || ex.Length != 3 || ex.Framed || ex.Listener != "main" || ex.Route != "fixed" {
			t.Errorf("%q: got %+v", target, ex)
		}
		if fmt.Sprint(ex.Header.Values("X-Two")) != "[1 2]" || ex.Header.Get("SOAPAction") != `"a"` || ex.Received.IsZero() {
			t.Errorf("%q: header %v", target, ex.Header)
		}
		if ex.Client.String() != p.LocalAddr().String() {
			t.Errorf("client: got %v, want %v", ex.Client, p.LocalAddr())
		}
	}
}

func TestHTTPReplies(t *testing.T) { onBoth(t, testHTTPReplies) }

func testHTTPReplies(t *testing.T, engine Engine) {
	const doc = "<x/>"
	tests := []struct {
		name   string
		method string
		reply  proxy.Reply
		status int
		length int64
		body   string
		typ    []string
	}{
		{"length", "POST", *textReply(200, doc), 200, 4, doc, []string{"text/xml"}},
		{"no type is not guessed", "POST", proxy.Reply{Status: 200, Body: strings.NewReader("<html>"), Length: 6}, 200, 6, "<html>", nil},
		{"chunked", "POST", proxy.Reply{Status: 500, Body: strings.NewReader(strings.Repeat(doc, 5000)), Length: -1}, 500, -1, strings.Repeat(doc, 5000), nil},
		{"empty 200", "POST", proxy.Reply{Status: 200}, 200, 0, "", nil},
		{"empty 202 with type", "POST", proxy.Reply{Status: 202, Header: field.Of(http.Header{"Content-Type": {"text/xml"}})}, 202, 0, "", []string{"text/xml"}},
		{"202 with envelope", "POST", *textReply(202, doc), 202, 4, doc, []string{"text/xml"}},
		{"204", "POST", proxy.Reply{Status: 204}, 204, 0, "", nil},
		{"204 never has a body", "POST", *textReply(204, doc), 204, 0, "", []string{"text/xml"}},
		{"304 never has a body", "GET", *textReply(304, doc), 304, 0, "", nil},
		{"HEAD", "HEAD", *textReply(200, doc), 200, 4, "", []string{"text/xml"}},
		{"no 1xx as an answer", "POST", proxy.Reply{Status: 102}, 500, 0, "", nil},
		{"no status that does not exist", "POST", proxy.Reply{Status: 1000}, 500, 0, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var closed atomic.Int64
			addr, stop := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				r := tt.reply
				r.Close = func() { closed.Add(1) }
				if s, ok := r.Body.(*strings.Reader); ok {
					s.Seek(0, io.SeekStart)
				}
				return &r
			})
			p := connect(t, addr)
			p.send(tt.method + " / HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, body := p.reply(tt.method)
			if resp.StatusCode != tt.status || body != tt.body || resp.ContentLength != tt.length {
				t.Errorf("got %d, %d octets %.40q (length %d), want %d, %.40q, %d", resp.StatusCode, len(body), body, resp.ContentLength, tt.status, tt.body, tt.length)
			}
			if got := resp.Header.Values("Content-Type"); fmt.Sprint(got) != fmt.Sprint(tt.typ) {
				t.Errorf("Content-Type: got %q, want %q", got, tt.typ)
			}
			if (tt.status == 204 || tt.status == 304) && (resp.Header.Values("Content-Length") != nil || resp.TransferEncoding != nil) {
				t.Errorf("%d with a length: %v", tt.status, resp.Header)
			}
			if tt.status != 500 || tt.reply.Status == 500 { // our own 500 closes
				p.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				p.reply("GET")
			}
			p.closed()
			stop()
			if closed.Load() == 0 {
				t.Error("Close was not called")
			}
		})
	}
}

func TestHTTPReplyFields(t *testing.T) { onBoth(t, testHTTPReplyFields) }

func testHTTPReplyFields(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		r := textReply(200, "ok")
		r.Header.Set("SOAPAction", "kept")
		r.Header.Set("X-Evil", "a\r\nSet-Cookie: b")
		r.Header.Set("X Bad", "dropped")
		r.Header.Set("Transfer-Encoding", "chunked")
		r.Header.Set("content-length", "99")
		r.Header.Set("Trailer:X-T", "no")
		r.Header.Set("Connection", "upgrade")
		return r
	})
	p := connect(t, addr)
	p.send(post("", "Content-Length: 0", "Connection: close"))
	raw, err := io.ReadAll(p.r)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	if body != "ok" || !strings.Contains(head, "\r\nSOAPAction: kept") || !strings.Contains(head, "\r\nContent-Length: 2") || !strings.Contains(head, "\r\nConnection: close") {
		t.Errorf("got %q", raw)
	}
	for _, bad := range []string{"\r\nSet-Cookie", "dropped", "chunked", "99", "X-T", "upgrade"} {
		if strings.Contains(head, bad) {
			t.Errorf("got %q in %q", bad, head)
		}
	}
}

// A reply that fails after its head was sent must not look complete, whatever
// tells the client its end.
func TestHTTPCutReply(t *testing.T) { onBoth(t, testHTTPCutReply) }

func testHTTPCutReply(t *testing.T, engine Engine) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		for _, length := range []int64{-1, 100, 10} {
			for _, fail := range []error{errors.New("bad"), io.ErrUnexpectedEOF, io.EOF} {
				if fail == io.EOF && length != 100 {
					continue
				}
				t.Run(fmt.Sprint(proto, length, fail), func(t *testing.T) {
					closed := make(chan bool, 1)
					addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
						body := io.MultiReader(strings.NewReader("0123456789"), &failing{fail})
						return &proxy.Reply{Status: 200, Body: body, Length: length, Close: func() { closed <- true }}
					})
					p := connect(t, addr)
					p.send("POST / " + proto + "\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
					resp, body, err := p.tryReply("POST")
					if err == nil {
						t.Errorf("got a complete reply: %d %q", resp.StatusCode, body)
					}
					await(t, closed, "Close")
				})
			}
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestHTTPLongerReplyThanAnnounced(t *testing.T) { onBoth(t, testHTTPLongerReplyThanAnnounced) }

func testHTTPLongerReplyThanAnnounced(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		return &proxy.Reply{Status: 200, Body: strings.NewReader("0123456789"), Length: 4}
	})
	p := connect(t, addr)
	p.send(post("", "Content-Length: 0"))
	if resp, body, err := p.tryReply("POST"); err == nil {
		t.Errorf("got a complete reply: %d %q", resp.StatusCode, body)
	}
}

// What the server sees of a body that does not come to its end, and that its
// answer still reaches a client which has only closed its sending side.
func TestHTTPBrokenBody(t *testing.T) { onBoth(t, testHTTPBrokenBody) }

func testHTTPBrokenBody(t *testing.T, engine Engine) {
	tests := []struct {
		name, head, body string
		half             bool
		want             error
	}{
		{"short", "Content-Length: 100", "abc", true, io.ErrUnexpectedEOF},
		{"short chunk", "Transfer-Encoding: chunked", "5\r\nabc", true, io.ErrUnexpectedEOF},
		{"no last chunk", "Transfer-Encoding: chunked", "3\r\nabc\r\n", true, io.ErrUnexpectedEOF},
		{"silent", "Content-Length: 100", "abc", false, ErrBodyIdle},
		{"silent chunked", "Transfer-Encoding: chunked", "3\r\nabc\r\n", false, os.ErrDeadlineExceeded},
		{"bad chunk", "Transfer-Encoding: chunked", "zz\r\nabc\r\n0\r\n\r\n", false, nil},
		{"chunk too long", "Transfer-Encoding: chunked", "3\r\nabcd\r\n0\r\n\r\n", false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			type seen struct {
				err   error
				cause error
			}
			got := make(chan seen, 1)
			addr, _ := listenHTTP(t, HTTPOptions{Engine: engine, Timeouts: Timeouts{BodyIdle: 50 * time.Millisecond}}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				_, err := io.Copy(io.Discard, ex.Body)
				_, again := ex.Body.Read(make([]byte, 1))
				if !errors.Is(again, err) {
					t.Errorf("second read: got %v, want %v", again, err)
				}
				got <- seen{err, context.Cause(ctx)}
				return textReply(500, "fault")
			})
			p := connect(t, addr)
			p.send(post(tt.body, tt.head))
			if tt.half {
				p.CloseWrite()
			}
			s := await(t, got, "body error")
			if s.err == nil || tt.want != nil && !errors.Is(s.err, tt.want) {
				t.Errorf("body: got %v, want %v", s.err, tt.want)
			}
			if s.cause != nil {
				t.Errorf("context: got %v, want none: the caller may still wait", s.cause)
			}
			resp, body := p.reply("POST")
			if resp.StatusCode != 500 || body != "fault" || !resp.Close {
				t.Errorf("got %d %q, close %v", resp.StatusCode, body, resp.Close)
			}
			p.closed()
		})
	}
}

// The caller's leaving ends the call: while the body is read, and after.
func TestHTTPCallerLeaves(t *testing.T) { onBoth(t, testHTTPCallerLeaves) }

func testHTTPCallerLeaves(t *testing.T, engine Engine) {
	for _, tt := range []struct {
		name   string
		length int
		reset  bool
	}{{"after the body, close", 3, false}, {"after the body, reset", 3, true}, {"inside the body, reset", 100, true}} {
		t.Run(tt.name, func(t *testing.T) {
			began, got := make(chan bool, 1), make(chan error, 1)
			addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				io.ReadFull(ex.Body, make([]byte, 3))
				began <- true
				io.Copy(io.Discard, ex.Body)
				<-ctx.Done()
				got <- context.Cause(ctx)
				return textReply(500, "nobody reads this")
			})
			p := connect(t, addr)
			p.send(post("abc", fmt.Sprint("Content-Length: ", tt.length)))
			await(t, began, "start")
			if tt.reset {
				p.SetLinger(0)
			}
			p.Close()
			if err := await(t, got, "cancellation"); !errors.Is(err, ErrGone) {
				t.Errorf("cause: got %v, want %v", err, ErrGone)
			}
		})
	}
}

// An answer that comes before the request was read to its end: the connection
// stays when little is left and closes otherwise; the answer arrives either way
// and the rest is never taken for a request.
func TestHTTPEarlyAnswer(t *testing.T) { onBoth(t, testHTTPEarlyAnswer) }

func testHTTPEarlyAnswer(t *testing.T, engine Engine) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	tests := []struct {
		name     string
		fields   []string
		body     string
		readSome bool
		keeps    bool
	}{
		{"small body that is there", []string{"Content-Length: 34"}, smuggled[:34], false, true},
		{"small chunked", []string{"Transfer-Encoding: chunked"}, "3\r\nabc\r\n0\r\n\r\n", false, true},
		{"small body that is not there", []string{"Content-Length: 1000"}, smuggled, false, false},
		{"partly read", []string{"Content-Length: 1000"}, smuggled, true, false},
		{"large", []string{"Content-Length: 300000"}, smuggled, false, false},
		{"chunks without end", []string{"Transfer-Encoding: chunked"}, "3\r\nabc\r\n", false, false},
		{"expects 100", []string{"Content-Length: 10", "Expect: 100-continue"}, "", false, false},
		{"broken chunk", []string{"Transfer-Encoding: chunked"}, "zz\r\n" + smuggled, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets := make(chan string, 10)
			addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				targets <- ex.Target
				if tt.readSome {
					ex.Body.Read(make([]byte, 2))
				}
				return textReply(401, "no")
			})
			p := connect(t, addr)
			p.send(post(tt.body, tt.fields...))
			resp, body := p.reply("POST")
			if resp.StatusCode != 401 || body != "no" || resp.Close == tt.keeps {
				t.Errorf("got %d %q, close %v", resp.StatusCode, body, resp.Close)
			}
			if tt.keeps {
				p.send("GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				p.reply("GET")
			} else {
				p.CloseWrite() // ends the server's patience at once
			}
			p.closed()
			want := "/x"
			if tt.keeps {
				want = "/x /next"
			}
			close(targets)
			var got []string
			for s := range targets {
				got = append(got, s)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("requests: got %q, want %q", got, want)
			}
		})
	}
}

// While a client is still sending, another goroutine may read the body after
// the answer was made, as net/http's transport does.
func TestHTTPEarlyAnswerWhileBodyIsRead(t *testing.T) { onBoth(t, testHTTPEarlyAnswerWhileBodyIsRead) }

func testHTTPEarlyAnswerWhileBodyIsRead(t *testing.T, engine Engine) {
	readErr := make(chan error, 1)
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		first := make(chan bool)
		go func() {
			io.ReadFull(ex.Body, make([]byte, 3))
			close(first)
			_, err := io.Copy(io.Discard, ex.Body)
			readErr <- err
		}()
		<-first
		return textReply(413, "too much")
	})
	p := connect(t, addr)
	p.send(post("abc", "Content-Length: 1000000"))
	resp, body := p.reply("POST")
	if resp.StatusCode != 413 || body != "too much" || !resp.Close {
		t.Errorf("got %d %q, close %v", resp.StatusCode, body, resp.Close)
	}
	if err := await(t, readErr, "end of reading"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("body: got %v, want an error", err)
	}
	p.CloseWrite()
	p.closed()
}

func TestHTTPExpectContinue(t *testing.T) { onBoth(t, testHTTPExpectContinue) }

func testHTTPExpectContinue(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, echoServer)

	p := connect(t, addr)
	p.send(post("", "Content-Length: 3", "Expect: 100-continue"))
	if resp, err := http.ReadResponse(p.r, nil); err != nil || resp.StatusCode != 100 {
		t.Fatalf("got %v, %v, want 100", resp, err)
	}
	p.send("abc")
	if resp, body := p.reply("POST"); resp.StatusCode != 200 || body != "abc" || resp.Close {
		t.Errorf("got %d %q, close %v", resp.StatusCode, body, resp.Close)
	}

	p = connect(t, addr) // an HTTP/1.0 client does not know about it
	p.send("POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
	if resp, body := p.reply("POST"); resp.StatusCode != 200 || body != "abc" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}

func TestHTTPDrain(t *testing.T) { onBoth(t, testHTTPDrain) }

func testHTTPDrain(t *testing.T, engine Engine) {
	var stop func() error
	began, release := make(chan bool, 1), make(chan bool)
	addr, stop := listenHTTP(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Method == "POST" {
			began <- true
			<-release
		}
		return textReply(200, "in time")
	})
	silent, idle, busy := connect(t, addr), connect(t, addr), connect(t, addr)
	idle.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	idle.reply("GET")
	busy.send(post("", "Content-Length: 0"))
	await(t, began, "request")

	done := make(chan error, 1)
	go func() { done <- stop() }()
	silent.closed()
	idle.closed()
	release <- true
	if resp, body := busy.reply("POST"); body != "in time" || !resp.Close {
		t.Errorf("got %q, close %v", body, resp.Close)
	}
	if err := await(t, done, "Run"); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}

func TestHTTPDrainBudget(t *testing.T) { onBoth(t, testHTTPDrainBudget) }

func testHTTPDrainBudget(t *testing.T, engine Engine) {
	began, cause := make(chan bool, 1), make(chan error, 1)
	addr, stop := listenHTTP(t, HTTPOptions{Engine: engine, Drain: 30 * time.Millisecond}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		began <- true
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return textReply(200, "late")
	})
	p := connect(t, addr)
	p.send(post("", "Content-Length: 0"))
	await(t, began, "request")
	if err := stop(); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if err := await(t, cause, "cause"); !errors.Is(err, ErrShutdown) {
		t.Errorf("cause: got %v, want %v", err, ErrShutdown)
	}
	if _, err := io.ReadAll(p.r); isTimeout(err) { // whether "late" comes through is a race
		t.Errorf("connection: got %v, want it closed", err)
	}
}

func TestHTTPPanic(t *testing.T) { onBoth(t, testHTTPPanic) }

func testHTTPPanic(t *testing.T, engine Engine) {
	log := new(logged)
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine, Name: "main", Log: log.logger()}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		panic("a bug")
	})
	p := connect(t, addr)
	p.send(post("", "Content-Length: 0"))
	if resp, body := p.reply("POST"); resp.StatusCode != 500 || body != "" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	if s := log.String(); !strings.Contains(s, "a bug") || strings.Contains(s, "goroutine") {
		t.Errorf("log: got %q", s)
	}
}

func TestHTTPMaxConnections(t *testing.T) { onBoth(t, testHTTPMaxConnections) }

func testHTTPMaxConnections(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine, MaxConnections: 1}, echoServer)
	first := connect(t, addr)
	first.send(post("", "Content-Length: 0"))
	first.reply("POST")
	second := connect(t, addr) // waits in the backlog
	second.send(post("x", "Content-Length: 1"))
	second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := second.r.Peek(1); !isTimeout(err) {
		t.Fatalf("second connection: got %v, want a timeout", err)
	}
	second.SetReadDeadline(time.Now().Add(patience))
	second.r.Reset(second)
	first.Close()
	if _, body := second.reply("POST"); body != "x" {
		t.Errorf("got %q", body)
	}
}

func TestHTTPBindError(t *testing.T) { onBoth(t, testHTTPBindError) }

func testHTTPBindError(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, echoServer)
	l, err := NewHTTP(HTTPOptions{Engine: engine, Name: "second", Address: addr}, serverFunc(echoServer))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Listen(); err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), `"second"`) {
		t.Errorf("Listen: got %v", err)
	}
	if _, err := NewHTTP(HTTPOptions{Engine: engine, MaxConnections: -1, Timeouts: Timeouts{Idle: -1}}, nil); err == nil || strings.Count(err.Error(), "option") != 4 {
		t.Errorf("NewHTTP: got %v, want three bad options", err)
	}
}

func TestHTTPCut(t *testing.T) { onBoth(t, testHTTPCut) }

func testHTTPCut(t *testing.T, engine Engine) {
	noLeaks(t)
	began := make(chan bool, 1)
	l, err := NewHTTP(HTTPOptions{Engine: engine, Address: "127.0.0.1:0", Drain: time.Hour}, serverFunc(func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		began <- true
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	addr, stop := running(t, l)
	p := connect(t, addr)
	p.send(post("", "Content-Length: 0"))
	await(t, began, "request")
	l.Cut() // before the stop: the drain has no time at all
	if err := stop(); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}
