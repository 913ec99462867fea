package listen

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"soapway/internal/field"
	"soapway/proxy"
)

// listenH2C starts a listener that takes HTTP/2 without TLS.
func listenH2C(t *testing.T, opt HTTPOptions, srv serverFunc) (addr string, stop func() error) {
	t.Helper()
	opt.H2C = true
	return listenHTTP(t, opt, srv)
}

func TestHTTP2Exchange(t *testing.T) { onBoth(t, testHTTP2Exchange) }

func testHTTP2Exchange(t *testing.T, engine Engine) {
	got := make(chan *proxy.Exchange, 1)
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine, Name: "main", Route: "fixed"}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		got <- ex
		return echoServer(ctx, ex)
	})
	p := connectH2(t, addr)
	for _, target := range []string{"/a/../b//c?x=%2F&y", "//two", "/%41;p=1", "/a?", "/pipe|<\"x", "/\xe9"} {
		id := p.open(false, ":method", "POST", ":scheme", "http", ":authority", "client.test:99", ":path", target,
			"soapaction", `"a"`, "x-two", "1", "x-two", "2", "content-length", "3", "cookie", "a=1", "cookie", "b=2")
		p.must(p.WriteData(id, true, []byte("abc")))
		p.echoed(id, "abc")
		if a := p.streams[id]; a.fields["content-length"] != "3" || a.fields["content-type"] != "text/xml" || a.fields["date"] == "" {
			t.Errorf("%q: got fields %v", target, a.fields)
		}
		ex := await(t, got, "exchange")
		if ex.Target != target || ex.Method != "POST" || ex.Host != "client.test:99" || ex.Length != 3 || ex.Framed || ex.TLS || ex.Listener != "main" || ex.Route != "fixed" {
			t.Errorf("%q: got %+v", target, ex)
		}
		if fmt.Sprint(ex.Header.Values("X-Two")) != "[1 2]" || ex.Header.Get("SOAPAction") != `"a"` || ex.Header.Get("Cookie") != "a=1; b=2" || ex.Received.IsZero() {
			t.Errorf("%q: header %v", target, ex.Header)
		}
		if ex.Client.String() != p.LocalAddr().String() {
			t.Errorf("client: got %v, want %v", ex.Client, p.LocalAddr())
		}
	}
	for _, fields := range [][]string{common(), common("host", "gw"), {":method", "GET", ":scheme", "http", ":path", "/x", "host", "gw"}} {
		id := p.open(true, fields...)
		p.echoed(id, "")
		if ex := await(t, got, "exchange"); ex.Host != "gw" || ex.Header.Values("Host") != nil || ex.Length != 0 {
			t.Errorf("%q: got %+v", fields, ex)
		}
	}
	old := connect(t, addr) // HTTP/1.1 on the same port
	old.send(post("abc", "Content-Length: 3") + post("defg", "Content-Length: 4"))
	for _, want := range []string{"abc", "defg"} {
		if resp, body := old.reply("POST"); resp.StatusCode != 200 || body != want {
			t.Errorf("HTTP/1.1: got %d %q", resp.StatusCode, body)
		}
		await(t, got, "exchange")
	}
}

// What a client says first decides, however its octets come.
func TestHTTP2Preface(t *testing.T) { onBoth(t, testHTTP2Preface) }

func testHTTP2Preface(t *testing.T, engine Engine) {
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, echoServer)
	c := connect(t, addr)
	for _, octet := range []byte(http2.ClientPreface) {
		c.send(string(octet))
	}
	p := quiet(t, c.TCPConn)
	p.must(p.WriteSettings())
	p.echoed(p.post("abc"), "abc")

	c = connect(t, addr)
	for _, octet := range []byte(post("abc", "Content-Length: 3")) {
		c.send(string(octet))
	}
	if resp, body := c.reply("POST"); resp.StatusCode != 200 || body != "abc" {
		t.Errorf("HTTP/1.1 in pieces: got %d %q", resp.StatusCode, body)
	}
	for _, odd := range []string{"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n", "PRI * HTTP/1.1\r\nHost: a\r\n\r\n", "PR"} {
		c = connect(t, addr)
		c.send(odd)
		c.CloseWrite()
		b, err := io.ReadAll(c.r)
		if s := string(b); isTimeout(err) || s != "" && !strings.HasPrefix(s, "HTTP/1.1 505 ") && !strings.HasPrefix(s, "HTTP/1.1 400 ") && !strings.HasPrefix(s, "HTTP/1.1 200 ") {
			t.Errorf("%q: got %q, %v", odd, b, err)
		}
	}
	addr, _ = listenH2C(t, HTTPOptions{Engine: engine, Timeouts: Timeouts{Header: 100 * time.Millisecond}}, echoServer)
	for _, silent := range []string{"", "P", http2.ClientPreface[:23], http2.ClientPreface} {
		c = connect(t, addr)
		c.send(silent)
		if _, err := io.ReadAll(c.r); isTimeout(err) {
			t.Errorf("%q and silence: got %v, want it closed", silent, err)
		}
	}
}

// By prior knowledge only where the listener is told so.
func TestHTTP2NotAsked(t *testing.T) { onBoth(t, testHTTP2NotAsked) }

func testHTTP2NotAsked(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine}, echoServer)
	c := connect(t, addr)
	c.send(http2.ClientPreface)
	if resp, _ := c.reply("PRI"); resp.StatusCode != 505 {
		t.Errorf("got %d, want 505", resp.StatusCode)
	}
}

// Over TLS the protocol is what both have agreed on, and nothing else.
func TestHTTP2OverTLS(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds()[:2] {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			got := make(chan *proxy.Exchange, 1)
			addr, _ := running(t, k.start(t, ours.server("gw.test", ours, true), Timeouts{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				got <- ex
				return echoServer(ctx, ex)
			}, new(logged)))
			dial := func(signer *authority, offer ...string) (*tls.Conn, *bufio.Reader) {
				cfg := ours.client(signer, inAnHour)
				cfg.NextProtos = offer
				return dialTLS(t, addr, cfg)
			}
			for _, signer := range []*authority{nil, ours} {
				c, _ := dial(signer, "h2")
				p := speak(t, c)
				long := strings.Repeat("0123456789abcdef", 4<<10)
				for range 3 {
					p.must(p.WriteWindowUpdate(0, 1<<20))
					id := p.open(false, common()...)
					p.must(p.WriteWindowUpdate(id, 1<<20))
					for rest := long; rest != ""; rest = rest[frameSize:] {
						p.must(p.WriteData(id, len(rest) == frameSize, []byte(rest[:frameSize])))
					}
					p.echoed(id, long)
					if ex := await(t, got, "exchange"); !ex.TLS || (ex.Certificate != nil) != (signer != nil) {
						t.Errorf("got TLS %v, certificate %v", ex.TLS, ex.Certificate)
					}
				}
			}
			c, _ := dial(nil, "http/1.1")
			io.WriteString(c, http2.ClientPreface)
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 505 {
				t.Errorf("HTTP/2 after HTTP/1.1 was agreed on: got %v, %v", resp, err)
			}
			c, _ = dial(nil, "h2")
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
			if b, err := io.ReadAll(c); strings.Contains(string(b), "HTTP/1.1") {
				t.Errorf("HTTP/1.1 after HTTP/2 was agreed on: got %q, %v", b, err)
			}
		})
	}
}

// net/http's own client, which is not ours, over either way in.
func TestHTTP2StdClient(t *testing.T) { onBoth(t, testHTTP2StdClient) }

func testHTTP2StdClient(t *testing.T, engine Engine) {
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, echoServer)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	defer tr.CloseIdleConnections()
	body := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
	for range 3 {
		resp, err := (&http.Client{Transport: tr}).Post("http://"+addr+"/x", "text/xml", io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != body || resp.ProtoMajor != 2 || resp.StatusCode != 200 {
			t.Fatalf("got %s, %d octets, %v", resp.Status, len(b), err)
		}
	}
}

func TestHTTP2Replies(t *testing.T) { onBoth(t, testHTTP2Replies) }

func testHTTP2Replies(t *testing.T, engine Engine) {
	const doc = "<x/>"
	for _, tt := range []struct {
		name, method string
		reply        proxy.Reply
		status, body string
		fields       map[string]string
	}{
		{"length", "POST", *textReply(200, doc), "200", doc, map[string]string{"content-type": "text/xml", "content-length": "4"}},
		{"no type is not guessed", "POST", proxy.Reply{Status: 200, Body: strings.NewReader("<html>"), Length: 6}, "200", "<html>", map[string]string{"content-type": ""}},
		{"no length", "POST", proxy.Reply{Status: 500, Body: strings.NewReader(strings.Repeat(doc, 5000)), Length: -1}, "500", strings.Repeat(doc, 5000), map[string]string{"content-length": ""}},
		{"large", "POST", *textReply(200, strings.Repeat(doc, 10000)), "200", strings.Repeat(doc, 10000), map[string]string{"content-length": "40000"}},
		{"empty 202", "POST", proxy.Reply{Status: 202}, "202", "", map[string]string{"content-length": "0", "content-type": ""}},
		{"204 never has a body", "POST", *textReply(204, doc), "204", "", map[string]string{"content-length": ""}},
		{"304 never has a body", "GET", *textReply(304, doc), "304", "", map[string]string{"content-length": ""}},
		{"HEAD", "HEAD", *textReply(200, doc), "200", "", map[string]string{"content-length": "4"}},
		{"no 1xx as an answer", "POST", proxy.Reply{Status: 102}, "500", "", nil},
		{"the connection is no business of a reply", "POST", proxy.Reply{Status: 413, CloseConnection: true, Header: field.Of(http.Header{
			"Connection": {"close"}, "Transfer-Encoding": {"chunked"}, "Keep-Alive": {"1"}, "Upgrade": {"x"}, "Trailer:X-T": {"no"},
			"content-length": {"99"}, "X-Evil": {"a\r\nset-cookie: b"}, "X Bad": {"no"}, "SOAPAction": {"kept"},
		})}, "413", "", map[string]string{"connection": "", "transfer-encoding": "", "keep-alive": "", "upgrade": "", "x-t": "", "content-length": "0", "set-cookie": "", "x bad": "", "soapaction": "kept"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			closed := make(chan bool, 2)
			addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				r := tt.reply
				r.Close = func() { closed <- true }
				if s, ok := r.Body.(*strings.Reader); ok {
					s.Seek(0, io.SeekStart)
				}
				return &r
			})
			p := connectH2(t, addr)
			for range 2 { // the connection stays
				id := p.open(true, ":method", tt.method, ":scheme", "http", ":authority", "gw", ":path", "/")
				a, err := p.answer(id)
				if err != nil || a.status() != tt.status || a.body.String() != tt.body || a.trailers != nil {
					t.Errorf("got %v, %.40q, %v, trailers %v", a.fields, a.body.String(), err, a.trailers)
				}
				for name, want := range tt.fields {
					if a.fields[name] != want {
						t.Errorf("%s: got %q, want %q", name, a.fields[name], want)
					}
				}
				await(t, closed, "Close")
			}
			if p.away != nil {
				t.Errorf("got %v", p.away)
			}
		})
	}
}

// A reply that fails after its head was sent resets its stream and no other.
func TestHTTP2CutReply(t *testing.T) { onBoth(t, testHTTP2CutReply) }

func testHTTP2CutReply(t *testing.T, engine Engine) {
	for _, length := range []int64{-1, 100, 10, 4} {
		for _, fail := range []error{errors.New("bad"), io.EOF} {
			if fail == io.EOF && (length == 10 || length < 0) {
				continue
			}
			t.Run(fmt.Sprint(length, fail), func(t *testing.T) {
				cuts := make(chan error, 1)
				addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
					if ex.Method == "GET" {
						return textReply(200, "fine")
					}
					body := io.MultiReader(strings.NewReader("0123456789"), &failing{fail})
					return &proxy.Reply{Status: 200, Body: body, Length: length, Cut: func(err error) { cuts <- err }}
				})
				p := connectH2(t, addr)
				if a, err := p.answer(p.post("")); err == nil || !a.reset {
					t.Errorf("got a complete reply: %v %q, %v", a.fields, a.body.String(), err)
				}
				if err := await(t, cuts, "Cut"); err == nil {
					t.Error("Cut: got no reason")
				}
				p.echoed(p.open(true, ":method", "GET", ":scheme", "http", ":authority", "gw", ":path", "/"), "fine")
			})
		}
	}
}

// What the server sees of a body that does not come to its end or has another
// length than it says, and whether its caller may still want an answer.
func TestHTTP2BrokenBody(t *testing.T) { onBoth(t, testHTTP2BrokenBody) }

func testHTTP2BrokenBody(t *testing.T, engine Engine) {
	for _, tt := range []struct {
		name   string
		fields []string
		send   func(p *streamPeer, id uint32)
		want   error
		cause  error
		answer string // status, or how the stream ends
	}{
		{"short", []string{"content-length", "100"}, func(p *streamPeer, id uint32) { p.WriteData(id, true, []byte("abc")) }, io.ErrUnexpectedEOF, nil, "500"},
		{"short, ended by trailers", []string{"content-length", "100"}, func(p *streamPeer, id uint32) {
			p.WriteData(id, false, []byte("abc"))
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("x-sum", "1"), EndStream: true, EndHeaders: true})
		}, io.ErrUnexpectedEOF, nil, "500"},
		{"long", []string{"content-length", "2"}, func(p *streamPeer, id uint32) { p.pong(); p.WriteData(id, true, []byte("abc")) }, io.ErrUnexpectedEOF, ErrGone, "RST_STREAM PROTOCOL_ERROR"},
		{"longer than nothing", []string{"content-length", "0"}, func(p *streamPeer, id uint32) { p.pong(); p.WriteData(id, true, []byte("abc")) }, nil, ErrGone, "RST_STREAM PROTOCOL_ERROR"},
		{"silent", nil, func(p *streamPeer, id uint32) { p.WriteData(id, false, []byte("abc")) }, ErrBodyIdle, nil, "500"},
		{"silent from the start", nil, func(*streamPeer, uint32) {}, ErrBodyIdle, nil, "500"},
		{"reset", nil, func(p *streamPeer, id uint32) {
			p.pong()
			p.WriteData(id, false, []byte("abc"))
			p.WriteRSTStream(id, http2.ErrCodeCancel)
		}, io.ErrUnexpectedEOF, ErrGone, ""},
		{"trailers that do not end it", nil, func(p *streamPeer, id uint32) {
			p.pong()
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("x-sum", "1"), EndHeaders: true})
		}, io.ErrUnexpectedEOF, ErrGone, "RST_STREAM PROTOCOL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			type seen struct{ err, cause error }
			got := make(chan seen, 1)
			idle := patience
			if tt.want == ErrBodyIdle {
				idle = 100 * time.Millisecond
			}
			addr, _ := listenH2C(t, HTTPOptions{Engine: engine, Timeouts: Timeouts{BodyIdle: idle}}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				if ex.Method == "GET" {
					return textReply(200, "fine")
				}
				_, err := io.Copy(io.Discard, ex.Body)
				if _, again := ex.Body.Read(make([]byte, 1)); tt.want != nil && !errors.Is(again, tt.want) {
					t.Errorf("second read: got %v, want %v", again, tt.want)
				}
				if tt.cause != nil {
					await(t, ctx.Done(), "end of the exchange")
				}
				got <- seen{err, context.Cause(ctx)}
				return textReply(500, "fault")
			})
			p := connectH2(t, addr)
			id := p.open(false, common(tt.fields...)...)
			tt.send(p, id)
			s := await(t, got, "body error")
			if tt.want != nil && !errors.Is(s.err, tt.want) {
				t.Errorf("body: got %v, want %v", s.err, tt.want)
			}
			if !errors.Is(s.cause, tt.cause) {
				t.Errorf("context: got %v, want %v", s.cause, tt.cause)
			}
			if tt.answer != "" {
				a, err := p.answer(id)
				if got := a.status() + errText(err); got != tt.answer {
					t.Errorf("got %q, want %q", got, tt.answer)
				}
			}
			p.echoed(p.open(true, ":method", "GET", ":scheme", "http", ":authority", "gw", ":path", "/"), "fine")
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The caller's leaving ends the call, and no other on its connection.
func TestHTTP2CallerLeaves(t *testing.T) { onBoth(t, testHTTP2CallerLeaves) }

func testHTTP2CallerLeaves(t *testing.T, engine Engine) {
	began, got := make(chan bool, 2), make(chan error, 2)
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		io.Copy(io.Discard, ex.Body)
		if ex.Target == "/fine" {
			return textReply(200, "fine")
		}
		began <- true
		select {
		case <-ctx.Done():
			got <- context.Cause(ctx)
		case <-time.After(patience):
			got <- nil
		}
		return textReply(200, "nobody is there")
	})
	for _, leave := range []func(p *streamPeer, id uint32){
		func(p *streamPeer, id uint32) { p.WriteRSTStream(id, http2.ErrCodeCancel) },
		func(p *streamPeer, id uint32) { p.Close() },
	} {
		p := connectH2(t, addr)
		id := p.post("abc")
		await(t, began, "request")
		p.echoed(p.open(true, ":method", "POST", ":scheme", "http", ":authority", "gw", ":path", "/fine"), "fine")
		leave(p, id)
		if err := await(t, got, "end"); !errors.Is(err, ErrGone) {
			t.Errorf("cause: got %v, want %v", err, ErrGone)
		}
	}
}

// Another goroutine may read the body after the answer was made.
func TestHTTP2EarlyAnswerWhileBodyIsRead(t *testing.T) {
	onBoth(t, testHTTP2EarlyAnswerWhileBodyIsRead)
}

func testHTTP2EarlyAnswerWhileBodyIsRead(t *testing.T, engine Engine) {
	readErr := make(chan error, 1)
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Length == 0 {
			return textReply(200, "fine")
		}
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
	p := connectH2(t, addr)
	id := p.open(false, common("content-length", "1000000")...)
	p.must(p.WriteData(id, false, []byte("abc")))
	if a, err := p.answer(id); err != nil || a.status() != "413" || a.body.String() != "too much" {
		t.Errorf("got %v %q, %v", a.fields, a.body.String(), err)
	}
	if err := await(t, readErr, "end of reading"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("body: got %v, want an error", err)
	}
	p.must(p.WriteData(id, false, []byte("late")))
	p.echoed(p.open(true, common()...), "fine")
}

func TestHTTP2ExpectContinue(t *testing.T) { onBoth(t, testHTTP2ExpectContinue) }

func testHTTP2ExpectContinue(t *testing.T, engine Engine) {
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Header.Get("Authorization") == "" {
			return &proxy.Reply{Status: 401}
		}
		return echoServer(ctx, ex)
	})
	p := connectH2(t, addr)
	id := p.open(false, common("expect", "100-continue", "authorization", "x")...)
	for a := p.streams[id]; len(a.interim) == 0; {
		if err := p.one(); err != nil {
			t.Fatal(err)
		}
	}
	p.must(p.WriteData(id, true, []byte("abc")))
	p.echoed(id, "abc")
	id = p.open(false, common("expect", "100-continue")...)
	if a, err := p.answer(id); err != nil || a.status() != "401" || a.interim != nil {
		t.Errorf("without a proof: got %v, %v, interim %v", a.fields, err, a.interim)
	}
	id = p.open(false, common("expect", "a miracle", "authorization", "x")...)
	if a, err := p.answer(id); err != nil || a.status() != "417" {
		t.Errorf("got %v, %v, want 417", a.fields, err)
	}
}

// A stop tells clients to go elsewhere, and waits for what is under way.
func TestHTTP2Drain(t *testing.T) { onBoth(t, testHTTP2Drain) }

func testHTTP2Drain(t *testing.T, engine Engine) {
	began, release := make(chan bool, 1), make(chan bool)
	addr, stop := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Method == "POST" {
			began <- true
			<-release
		}
		return textReply(200, "in time")
	})
	silent, idle, busy := connect(t, addr), connectH2(t, addr), connectH2(t, addr)
	idle.echoed(idle.open(true, ":method", "GET", ":scheme", "http", ":authority", "gw", ":path", "/"), "in time")
	id := busy.post("")
	await(t, began, "request")

	done := make(chan error, 1)
	go func() { done <- stop() }()
	silent.closed()
	if err := idle.gone(); isTimeout(err) || idle.away == nil || idle.away.ErrCode != http2.ErrCodeNo {
		t.Errorf("idle connection: got %v, %v", idle.away, err)
	}
	release <- true
	busy.echoed(id, "in time")
	if err := await(t, done, "Run"); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if err := busy.gone(); isTimeout(err) || busy.away == nil {
		t.Errorf("busy connection: got %v, %v", busy.away, err)
	}
}

func TestHTTP2DrainBudget(t *testing.T) { onBoth(t, testHTTP2DrainBudget) }

func testHTTP2DrainBudget(t *testing.T, engine Engine) {
	began, cause := make(chan bool, 1), make(chan error, 1)
	addr, stop := listenH2C(t, HTTPOptions{Engine: engine, Drain: 30 * time.Millisecond}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		began <- true
		<-ctx.Done()
		_, err := ex.Body.Read(make([]byte, 1))
		cause <- errors.Join(context.Cause(ctx), err)
		return textReply(200, "late")
	})
	p := connectH2(t, addr)
	p.open(false, common()...)
	await(t, began, "request")
	if err := stop(); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if err := await(t, cause, "cause"); !errors.Is(err, ErrShutdown) {
		t.Errorf("cause: got %v, want %v", err, ErrShutdown)
	}
	if err := p.gone(); isTimeout(err) {
		t.Errorf("connection: got %v, want it closed", err)
	}
}

func TestHTTP2Panic(t *testing.T) { onBoth(t, testHTTP2Panic) }

func testHTTP2Panic(t *testing.T, engine Engine) {
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Method == "POST" {
			panic("a bug")
		}
		return textReply(200, "fine")
	})
	p := connectH2(t, addr)
	if a, err := p.answer(p.post("")); err != nil || a.status() != "500" || a.body.Len() != 0 {
		t.Errorf("got %v, %v", a.fields, err)
	}
	p.echoed(p.open(true, ":method", "GET", ":scheme", "http", ":authority", "gw", ":path", "/"), "fine")
}

// MaxConnections bounds connections, and what they have under way in all.
func TestHTTP2MaxConnections(t *testing.T) { onBoth(t, testHTTP2MaxConnections) }

func testHTTP2MaxConnections(t *testing.T, engine Engine) {
	began, release := make(chan bool, 4), make(chan bool)
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine, MaxConnections: 2}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Method == "POST" {
			began <- true
			<-release
		}
		return textReply(200, "fine")
	})
	p, q := connectH2(t, addr), connectH2(t, addr)
	first, second := p.post(""), q.post("")
	await(t, began, "request")
	await(t, began, "request")
	if a, err := p.answer(p.post("")); err != nil || a.status() != "503" || a.fields["retry-after"] == "" {
		t.Errorf("third: got %v, %v, want 503", a.fields, err)
	}
	third := connect(t, addr) // waits in the backlog
	third.send(http2.ClientPreface)
	third.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := third.r.Peek(1); !isTimeout(err) {
		t.Fatalf("third connection: got %v, want a timeout", err)
	}
	close(release)
	p.echoed(first, "fine")
	q.echoed(second, "fine")
	p.echoed(p.open(true, ":method", "GET", ":scheme", "http", ":authority", "gw", ":path", "/"), "fine")
}
