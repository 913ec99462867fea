package upstream

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

func TestHTTPSend(t *testing.T) {
	noLeaks(t)
	raw := make(chan string, 10)
	addr := node(t, func(p *peer) {
		for {
			var b strings.Builder
			p.r.Peek(1)
			head := make([]byte, p.r.Buffered())
			io.ReadFull(p.r, head)
			if b.Write(head); b.Len() == 0 {
				return
			}
			raw <- b.String()
			p.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" +
				"HTTP/1.1 200 Fine\r\nContent-Type: text/xml\r\nConnection: keep-alive, x-hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nX-End: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 4\r\n\r\n<r/>")
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr + "/base/?k=v"})
	req := request("<x/>")
	req.Rest, req.Query, req.HasQuery = "/a%2Fb", "q=%20&r", true
	req.Host = "client.test:99"
	req.Header = field.Of(http.Header{
		"SOAPAction": {`"urn:a"`}, "X-Two": {"1", "2"},
		"Connection": {"close"}, "Expect": {"100-continue"}, "Te": {"trailers"}, "Transfer-Encoding": {"chunked"}, "content-length": {"99"}, "Upgrade": {"h2c"},
	})
	resp, err := n.Send(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := n.InFlight(); got != 1 {
		t.Errorf("InFlight: got %d, want 1", got)
	}
	if got := body(t, resp); got != "<r/>" || resp.Status != 200 || resp.Length != 4 || resp.Framed {
		t.Errorf("got %d %q %+v", resp.Status, got, resp)
	}
	want := field.Of(http.Header{"Content-Type": {"text/xml"}, "X-End": {"1"}, "Set-Cookie": {"a", "b"}})
	if fmt.Sprint(field.Of(resp.Header.HTTP())) != fmt.Sprint(want) {
		t.Errorf("header: got %v, want %v", resp.Header, want)
	}
	got := await(t, raw, "request")
	wire := "POST /base/a%2Fb?k=v&q=%20&r HTTP/1.1\r\nHost: client.test:99\r\nContent-Length: 4\r\nSOAPAction: \"urn:a\"\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n<x/>"
	if got != wire {
		t.Errorf("request: got %q, want %q", got, wire)
	}

	// Nothing but what was asked for: no User-Agent, no Accept-Encoding, a
	// length for an empty POST.
	req = request("")
	req.Header = nil
	resp, err = n.Send(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	if got, want := await(t, raw, "request"), "POST /base/?k=v HTTP/1.1\r\nHost: "+addr+"\r\nContent-Length: 0\r\n\r\n"; got != want {
		t.Errorf("request: got %q, want %q", got, want)
	}
}

// The target goes out octet for octet, or in a form that means exactly the same.
func TestHTTPTarget(t *testing.T) {
	noLeaks(t)
	targets := make(chan string, 100)
	addr := node(t, func(p *peer) {
		for {
			line, err := p.r.ReadString('\n')
			if err != nil {
				return
			}
			for l := line; l != "\r\n"; l, _ = p.r.ReadString('\n') {
			}
			targets <- strings.TrimSuffix(strings.TrimPrefix(line, "GET "), " HTTP/1.1\r\n")
			p.send("HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	tests := []struct {
		url, rest, query string
		hasQuery         bool
		want             string
	}{
		{"", "", "", false, "/"},
		{"/", "", "", false, "/"},
		{"", "/a", "", false, "/a"},
		{"/", "/a", "", false, "/a"},
		{"/x", "/a/", "", false, "/x/a/"},
		{"/x/", "/a", "", false, "/x/a"},
		{"/x/", "", "", false, "/x/"},
		{"/x", "", "", true, "/x?"},
		{"/x?", "", "", false, "/x?"},
		{"/x?a=1", "", "", false, "/x?a=1"},
		{"/x?a=1", "", "", true, "/x?a=1"},
		{"/x?a=1", "/y", "b=?&c=%zz", true, "/x/y?a=1&b=?&c=%zz"},
		{"/a%2fb/%7e", "/%41%2F..%2f", "", false, "/a%2fb/%7e/%41%2F..%2f"},
		{"", "//two", "", false, "//two"},
		{"", "//two%20/%2F", "x", true, "//two%20/%2F?x"},
		{"", "//host:80/x", "", false, "//host:80/x"},
		{"", "//two|three", "", false, "//two|three"},
		{"", "/pipe|<\"^`{}\\", "", false, "/pipe|<\"^`{}\\"},
		{"", "/\xe9\xff", "\xfc", true, "/\xe9\xff?\xfc"},
		{"", "/a;b=c,d:e@f!$&'()*+", "", false, "/a;b=c,d:e@f!$&'()*+"},
		{"", "/./a/../b", "", false, "/./a/../b"},
		{"/*", "", "", false, "/*"},
	}
	for _, tt := range tests {
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr + tt.url})
		req := &proxy.Request{Method: "GET", Rest: tt.rest, Query: tt.query, HasQuery: tt.hasQuery}
		if _, err := n.Send(t.Context(), req); err != nil {
			t.Errorf("%q + %q: %v", tt.url, tt.rest, err)
			continue
		}
		want := strings.ReplaceAll(tt.want, "ADDR", addr)
		if got := await(t, targets, "request"); got != want {
			t.Errorf("%q + %q ? %q: got %q, want %q", tt.url, tt.rest, tt.query, got, want)
		}
		n.Close()
	}
}

func TestHTTPNameAndCredentials(t *testing.T) {
	noLeaks(t)
	auth := make(chan string, 2)
	addr := node(t, func(p *peer) {
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			auth <- r.Header.Get("Authorization")
			p.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://user:s3cret@" + addr + "/a?token=t"})
	if got, want := n.Name(), "http://"+addr+"/a"; got != want {
		t.Errorf("Name: got %q, want %q", got, want)
	}
	req := request("x")
	n.Send(t.Context(), req)
	if got := await(t, auth, "request"); got != "Basic dXNlcjpzM2NyZXQ=" {
		t.Errorf("Authorization: got %q", got)
	}
	req.Header.Set("Authorization", "Bearer x")
	n.Send(t.Context(), req)
	if got := await(t, auth, "request"); got != "Bearer x" {
		t.Errorf("Authorization: got %q", got)
	}
	_, err := NewHTTP(HTTPOptions{URL: "ftp://user:s3cret@h/%zz"})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("NewHTTP: got %v", err)
	}
}

// answers are what a node says, and what becomes of it.
func TestHTTPAnswers(t *testing.T) {
	tests := []struct {
		name, raw string
		status    int
		body      string
		bad       bool // no answer: maybe processed
		cut       bool // a head, then an error
	}{
		{"length", okReply, 200, "<r/>", false, false},
		{"chunked", "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n<r/>\r\n0\r\nX-T: 1\r\n\r\n", 500, "<r/>", false, false},
		{"empty chunked 202", "HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 202, "", false, false},
		{"202 with envelope", "HTTP/1.1 202 OK\r\nContent-Length: 4\r\n\r\n<r/>", 202, "<r/>", false, false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", false, false},
		{"until close", "HTTP/1.0 200 OK\r\n\r\n<r/>", 200, "<r/>", false, false},
		{"redirect is not followed", "HTTP/1.1 307 Go\r\nLocation: http://169.254.10.10/\r\nContent-Length: 0\r\n\r\n", 307, "", false, false},
		{"status without reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "", false, false},
		{"LF line ends", "HTTP/1.1 200 OK\nContent-Length: 4\n\n<r/>", 200, "<r/>", false, false},
		{"short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<r/>", 200, "", false, true},
		{"short chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n<r/>", 200, "", false, true},
		{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<r/>\r\n", 200, "", false, true},
		{"no trailer end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<r/>\r\n0\r\n", 200, "", false, true},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n<r/>\r\n", 200, "", false, true},
		{"nothing", "", 0, "", true, false},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", 0, "", true, false},
		{"junk", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 0, "", true, false},
		{"http 0.9", "<r/>", 0, "", true, false},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n<r/>x", 0, "", true, false},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n<r/>", 0, "", true, false},
		{"length list", "HTTP/1.1 200 OK\r\nContent-Length: 4, 4\r\n\r\n<r/>", 0, "", true, false},
		{"length and coding", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<r/>\r\n0\r\n\r\n", 0, "", true, false},
		{"coding and length after 100", "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding:chunked\r\ncontent-length:4\r\n\r\n4\r\n<r/>\r\n0\r\n\r\n", 0, "", true, false},
		{"coding under 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<r/>\r\n0\r\n\r\n", 0, "", true, false},
		{"unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n<r/>", 0, "", true, false},
		{"blank before colon", "HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\n<r/>", 0, "", true, false},
		{"switching protocols", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 0, "", true, false},
		{"only interim", "HTTP/1.1 100 Continue\r\n\r\n", 0, "", true, false},
		{"endless interim", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 40) + okReply, 0, "", true, false},
		{"huge head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", 0, "", true, false},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", 0, "", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			var requests atomic.Int64
			addr := node(t, func(p *peer) {
				if r, _ := p.request(); r != nil {
					requests.Add(1)
					p.send(tt.raw)
				}
			})
			n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
			req := request("<x/>")
			req.Header.Set("Idempotency-Key", "makes some clients retry")
			resp, err := n.Send(t.Context(), req)
			switch {
			case tt.bad:
				e := sendError(t, err)
				if e.Class != proxy.Maybe || e.Timeout || e.Source || e.Permanent {
					t.Errorf("got %+v, want maybe processed", e)
				}
			case err != nil:
				t.Fatal(err)
			case tt.cut:
				b, err := io.ReadAll(resp.Body)
				if e := sendError(t, err); e.Class != proxy.Maybe {
					t.Errorf("body: got %q, %v", b, err)
				}
				if _, again := resp.Body.Read(make([]byte, 1)); again != err {
					t.Errorf("second read: got %v, want %v", again, err)
				}
				resp.Body.Close()
			default:
				if got := body(t, resp); got != tt.body || resp.Status != tt.status {
					t.Errorf("got %d %q, want %d %q", resp.Status, got, tt.status, tt.body)
				}
			}
			n.Close()
			if got := requests.Load(); got != 1 {
				t.Errorf("the node saw %d requests, want 1", got)
			}
		})
	}
}

func TestHTTPHead(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) {
		p.request()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
		p.gone()
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	resp, err := n.Send(t.Context(), &proxy.Request{Method: "HEAD"})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil || resp.Length != 1234 || resp.Status != 200 {
		t.Errorf("got %+v", resp)
	}
}

// The class of every way in which a try can fail.
func TestHTTPClasses(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		noLeaks(t)
		n := newHTTP(t, HTTPOptions{URL: "http://" + refused(t)})
		req, b := streaming(strings.NewReader("x"), 1)
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.NotSent || e.Timeout || e.Source || b.used() {
			t.Errorf("got %+v, body used %v", e, b.used())
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("no such host", func(t *testing.T) {
		noLeaks(t)
		n := newHTTP(t, HTTPOptions{URL: "http://node.invalid/"})
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.NotSent {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("reset before it reads", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.r.Peek(1); p.reset() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.Maybe || e.Timeout || e.Source {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("reset after half of a stalled upload", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { io.ReadFull(p.r, make([]byte, 100)); p.reset() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		r, w := pipeBody()
		req, b := streaming(r, 1<<20)
		go w.Write(make([]byte, 64<<10)) // and then silence
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.Maybe || e.Source || e.Timeout || errors.Is(e, errSourceClosed) {
			t.Errorf("got %+v", e)
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("reset, and closing the body does not end its read", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { io.ReadFull(p.r, make([]byte, 100)); p.reset() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		r, w := pipeBody()
		defer w.Close() // ends it
		req, b := streaming(struct{ io.Reader }{r}, 1<<20)
		go w.Write(make([]byte, 64<<10)) // and then silence
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.Maybe || e.Source || e.Timeout || errors.Is(e, errSourceClosed) {
			t.Errorf("got %+v", e)
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("slow answer", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.request(); p.gone() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 50 * time.Millisecond})
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.Maybe || !e.Timeout {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("slow answer, timeout of the request", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.request(); p.gone() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		req := request("x")
		req.Timeouts.Answer = 50 * time.Millisecond
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.Maybe || !e.Timeout {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("stalls inside the head", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.request(); p.send("HTTP/1.1 200 OK\r\n"); p.gone() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 50 * time.Millisecond})
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.Maybe || !e.Timeout {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("stalls inside the body", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.request(); p.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<r/>"); p.gone() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 50 * time.Millisecond})
		resp, err := n.Send(t.Context(), request("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		if e := sendError(t, err); e.Class != proxy.Maybe || !e.Timeout {
			t.Errorf("got %+v", e)
		}
		resp.Body.Close()
	})
	t.Run("never reads", func(t *testing.T) {
		noLeaks(t)
		hold := make(chan bool)
		addr := node(t, func(p *peer) { <-hold })
		defer close(hold)
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 100 * time.Millisecond})
		req, b := streaming(io.LimitReader(zeros{}, 1<<30), 1<<30)
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.Maybe || !e.Timeout || e.Source {
			t.Errorf("got %+v", e)
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("caller leaves before the answer", func(t *testing.T) {
		noLeaks(t)
		asked := make(chan bool, 1)
		addr := node(t, func(p *peer) { p.request(); asked <- true; p.gone() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		go func() { <-asked; cancel(left) }()
		_, err := n.Send(ctx, request("x"))
		if e := sendError(t, err); e.Class != proxy.Maybe || e.Timeout || !errors.Is(e, left) {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("caller leaves inside the answer", func(t *testing.T) {
		noLeaks(t)
		cut := make(chan bool, 1)
		addr := node(t, func(p *peer) {
			p.request()
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<r/>")
			p.gone()
			cut <- true
		})
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := n.Send(ctx, request("x"))
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(resp.Body, make([]byte, 4))
		left := errors.New("left")
		cancel(left)
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, left) {
			t.Errorf("got %v, want %v", err, left)
		}
		resp.Body.Close()
		await(t, cut, "end of the connection")
	})
	t.Run("caller has left already", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.gone() })
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := n.Send(ctx, request("x"))
		if e := sendError(t, err); e.Class != proxy.NotSent || !errors.Is(e, context.Canceled) {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("closed node", func(t *testing.T) {
		n := newHTTP(t, HTTPOptions{URL: "http://127.0.0.1:1"})
		n.Close()
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.NotSent || !errors.Is(e, ErrClosed) {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("speaks before it is asked", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) {
			p.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
			p.gone()
		})
		n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
		r, w := pipeBody()
		defer w.Close()
		req, _ := streaming(r, 10)
		_, err := n.Send(t.Context(), req)
		// Depending on what comes first these octets were before or after our
		// own: never an answer if before.
		var e *proxy.SendError
		if err != nil && errors.As(err, &e) && e.Class == proxy.NotSent && !errors.Is(e, errUnsolicited) {
			t.Errorf("got %+v", e)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A request body that fails is never seen as complete by the node, whatever
// tells it the end, and the failure is the source's.
func TestHTTPCutUpload(t *testing.T) {
	bad := errors.New("the message turned out bad")
	tests := []struct {
		name   string
		length int64
		body   io.Reader
		want   error
	}{
		{"length, error in the middle", 10, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad},
		{"length, error at the end", 5, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad},
		{"length, error with the last octets", 5, &withError{"12345", bad}, bad},
		{"length, short", 10, strings.NewReader("12345"), io.ErrUnexpectedEOF},
		{"length, long", 3, strings.NewReader("12345"), errBodyTooLong},
		{"chunked, error at once", -1, &failing{bad}, bad},
		{"chunked, error at the end", -1, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad},
		{"large, error at the end", 1 << 20, io.MultiReader(io.LimitReader(zeros{}, 1<<20), &failing{bad}), bad},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			complete := make(chan bool, 1)
			addr := node(t, func(p *peer) {
				r, _ := p.request()
				complete <- r != nil
			})
			n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
			req, b := streaming(tt.body, tt.length)
			_, err := n.Send(t.Context(), req)
			e := sendError(t, err)
			if !e.Source || !errors.Is(e, tt.want) || e.Timeout {
				t.Errorf("got %+v, want the source's %v", e, tt.want)
			}
			if await(t, complete, "node") {
				t.Error("the node saw a complete request")
			}
			await(t, b.closed, "Close of the body")
		})
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

type withError struct {
	data string
	err  error
}

func (w *withError) Read(p []byte) (int, error) { return copy(p, w.data), w.err }

// An answer that comes while the request is still being sent is taken, and the
// sending stops, even when its sender is silent.
func TestHTTPEarlyAnswer(t *testing.T) {
	for _, tt := range []struct{ name, reply string }{
		{"with a body", "HTTP/1.1 413 Too much\r\nContent-Length: 4\r\n\r\n<r/>"},
		{"without a body", "HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n"},
		{"and a close", "HTTP/1.1 413 Too much\r\nConnection: close\r\nContent-Length: 4\r\n\r\n<r/>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			cut := make(chan bool, 1)
			addr := node(t, func(p *peer) {
				io.ReadFull(p.r, make([]byte, 1000))
				p.send(tt.reply)
				p.gone()
				cut <- true
			})
			n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
			r, w := pipeBody()
			req, b := streaming(r, 1<<20)
			go w.Write(make([]byte, 32<<10)) // and then silence
			resp, err := n.Send(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			body(t, resp)
			if resp.Status != 413 {
				t.Errorf("got %d", resp.Status)
			}
			await(t, cut, "end of the connection")
			await(t, b.closed, "Close of the body")
		})
	}
}

// A pooled connection that the node has closed is noticed before anything is
// asked on it, so that even a body which can be read once survives.
func TestHTTPStaleConnection(t *testing.T) {
	noLeaks(t)
	closing, closed := make(chan bool), make(chan bool)
	addr := node(t, func(p *peer) {
		p.request()
		p.send(okReply)
		<-closing
		p.Close()
		closed <- true
	}, func(p *peer) {
		if r, _ := p.request(); r != nil {
			p.send(okReply)
			p.gone()
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	closing <- true
	<-closed
	req, _ := streaming(strings.NewReader("abc"), 3)
	resp, err = n.Send(t.Context(), req)
	if err != nil {
		t.Fatalf("got %v, want the second connection to serve it", err)
	}
	body(t, resp)
}

// Some clients send a request again by themselves when a reused connection dies
// before an answer, for methods and fields that they hold to be idempotent. What
// was written once may have been processed: it must not.
func TestHTTPNoSecondTry(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST"} {
		t.Run(method, func(t *testing.T) {
			noLeaks(t)
			var requests atomic.Int64
			addr := node(t, func(p *peer) {
				for i := 0; ; i++ {
					r, _ := p.request()
					if r == nil {
						return
					}
					requests.Add(1)
					if i > 0 {
						return // read, and no answer
					}
					p.send("HTTP/1.1 204 No Content\r\n\r\n")
				}
			})
			n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
			send := func() error {
				req := request("")
				req.Method = method
				req.Header.Set("Idempotency-Key", "k")
				_, err := n.Send(t.Context(), req)
				return err
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			err := send()
			if e := sendError(t, err); e.Class != proxy.Maybe {
				t.Errorf("got %+v", e)
			}
			if got := requests.Load(); got != 2 {
				t.Errorf("the node saw %d requests, want 2", got)
			}
		})
	}
}

func TestHTTPReuse(t *testing.T) {
	noLeaks(t)
	var conns atomic.Int64
	addr := node(t, func(p *peer) {
		conns.Add(1)
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			p.send(okReply)
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	for range 50 {
		resp, err := n.Send(t.Context(), request("<x/>"))
		if err != nil {
			t.Fatal(err)
		}
		body(t, resp)
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
}

// Octets that a node sends after its answer must not become the next answer.
func TestHTTPUnsolicitedAnswer(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) {
		for i := 0; ; i++ {
			r, b := p.request()
			if r == nil {
				return
			}
			reply := "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + b
			if i == 0 {
				reply += strings.ReplaceAll(okReply, "<r/>", "evil")
			}
			p.send(reply)
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	for i := range 20 {
		want := string(rune('a' + i))
		resp, err := n.Send(t.Context(), request(want))
		if err != nil {
			continue // refused is right as well
		}
		if got := body(t, resp); got != want {
			t.Fatalf("answer %d: got %q, want %q", i, got, want)
		}
	}
}

func TestHTTPMaxConnections(t *testing.T) {
	noLeaks(t)
	asked, release := make(chan bool), make(chan bool)
	addr := node(t, func(p *peer) {
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			asked <- true
			<-release
			p.send(okReply)
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, MaxConnections: 1})
	first := make(chan error, 1)
	go func() {
		resp, err := n.Send(context.Background(), request("1"))
		if err == nil {
			body(t, resp)
		}
		first <- err
	}()
	await(t, asked, "first request")
	req := request("2")
	req.Timeouts.Connect = 50 * time.Millisecond
	_, err := n.Send(t.Context(), req)
	if e := sendError(t, err); e.Class != proxy.NotSent || !e.Timeout || !errors.Is(e, proxy.ErrNoConnection) {
		t.Errorf("got %+v", e)
	}
	release <- true
	if err := await(t, first, "first answer"); err != nil {
		t.Error(err)
	}
}

// A slow caller does not time the node out: only waiting for the node counts.
func TestHTTPSlowCaller(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) { p.request(); p.send(okReply); p.gone() })
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 50 * time.Millisecond})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(150 * time.Millisecond)
	if got := body(t, resp); got != "<r/>" {
		t.Errorf("got %q", got)
	}
}

// Interim answers keep a slow node alive.
func TestHTTPInterimResetsTheClock(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) {
		p.request()
		for range 4 {
			<-time.After(60 * time.Millisecond)
			p.send("HTTP/1.1 102 Processing\r\n\r\n")
		}
		p.send(okReply)
		p.gone()
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 150 * time.Millisecond})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
}

func TestHTTPClosedNodeFinishes(t *testing.T) {
	noLeaks(t)
	gone := make(chan bool, 1)
	addr := node(t, func(p *peer) { p.request(); p.send(okReply); p.gone(); gone <- true })
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	if got := body(t, resp); got != "<r/>" {
		t.Errorf("got %q", got)
	}
	await(t, gone, "end of the connection")
}

func TestHTTPTimesOutAsDeadline(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) { p.request(); p.gone() })
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, Timeout: 20 * time.Millisecond})
	if _, err := n.Send(t.Context(), request("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
