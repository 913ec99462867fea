package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/proxy"
)

// A node that refuses on the head alone and closes: its answer is there although
// the request could not be written to its end.
func TestHTTPAnswerBeforeBrokenWrite(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) {
		io.ReadFull(p.r, make([]byte, 100))
		p.send("HTTP/1.1 413 Too much\r\nContent-Length: 4\r\n\r\n<r/>")
		p.Conn.(*net.TCPConn).CloseWrite()
		io.CopyN(io.Discard, p.r, 1<<20)
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	req, b := streaming(io.LimitReader(zeros{}, 1<<30), 1<<30)
	resp, err := n.Send(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp); got != "<r/>" || resp.Status != 413 {
		t.Errorf("got %d %q", resp.Status, got)
	}
	await(t, b.closed, "Close of the body")
}

// Closing an answer from another goroutine ends a read of it.
func TestHTTPCloseUnderRead(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) {
		p.request()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<r/>")
		p.gone()
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(resp.Body, make([]byte, 4))
	read := make(chan error, 1)
	go func() {
		_, err := resp.Body.Read(make([]byte, 1))
		read <- err
	}()
	resp.Body.Close()
	if err := await(t, read, "read"); err == nil || err == io.EOF {
		t.Errorf("got %v, want an error", err)
	}
}

// Idle connections are closed when they are too old, and the last one used is
// the first one used again.
func TestHTTPIdle(t *testing.T) {
	noLeaks(t)
	var open atomic.Int64
	addr := node(t, func(p *peer) {
		open.Add(1)
		defer open.Add(-1)
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			p.send(okReply)
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, IdleTimeout: 200 * time.Millisecond})
	var wg sync.WaitGroup
	begin := make(chan bool)
	for range 8 {
		wg.Go(func() {
			<-begin
			if resp, err := n.Send(t.Context(), request("x")); err != nil {
				t.Error(err)
			} else {
				body(t, resp)
			}
		})
	}
	close(begin)
	wg.Wait()
	until(t, "the close of idle connections", func() bool { return open.Load() == 0 })
	wantNone(t, n.pool.budget, n)
}

// wantNone checks that nothing is left of the connections of these nodes, which
// share a budget.
func wantNone(t *testing.T, b *Budget, nodes ...*HTTP) {
	t.Helper()
	until(t, "the end of every connection", func() bool { return b.open.Load() == 0 })
	if n := b.waiting.Load(); n != 0 || len(b.queue) != 0 {
		t.Errorf("%d still wait, %d in the queue", n, len(b.queue))
	}
	for _, n := range nodes {
		for i := range n.pool.shards {
			s := &n.pool.shards[i]
			s.mu.Lock()
			if len(s.idle) != 0 || s.n.Load() != 0 {
				t.Errorf("%s: shard %d has %d idle connections, and says %d", n.Name(), i, len(s.idle), s.n.Load())
			}
			s.mu.Unlock()
		}
		n.pool.ownMu.Lock()
		if len(n.pool.own) != 0 {
			t.Errorf("%s: %d connections of callers are left", n.Name(), len(n.pool.own))
		}
		n.pool.ownMu.Unlock()
	}
}

// Many callers, few connections, some of which break: everybody gets an answer
// or an error, none the answer of another, and no place is lost.
func TestHTTPStorm(t *testing.T) {
	noLeaks(t)
	var seen atomic.Int64
	addr := node(t, func(p *peer) {
		for r, b := p.request(); r != nil; r, b = p.request() {
			switch seen.Add(1) % 17 {
			case 3:
				return // no answer
			case 5:
				p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b)+9, b))
				return // short
			case 7:
				p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(b), b))
				return
			case 9:
				p.reset()
				return
			default:
				p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(b), b))
			}
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, MaxConnections: 4, QueueWait: patience, ConnectTimeout: patience})
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 60 {
				want := fmt.Sprintf("<m>%d-%d</m>", worker, i)
				req := request(want)
				if i%3 == 0 {
					req, _ = streaming(strings.NewReader(want), int64(len(want)))
				}
				ctx, cancel := context.WithCancel(t.Context())
				if i%11 == 10 {
					cancel() // some leave at once
				}
				resp, err := n.Send(ctx, req)
				var e *proxy.SendError
				if err != nil {
					if !errors.As(err, &e) || e.Source || e.Timeout {
						t.Errorf("%s: %v", want, err)
					}
					cancel()
					continue
				}
				got, err := io.ReadAll(resp.Body)
				if err == nil && string(got) != want || err != nil && !errors.As(err, &e) {
					t.Errorf("%s: got %q, %v", want, got, err)
				}
				resp.Body.Close()
				cancel()
			}
		})
	}
	wg.Wait()
	n.Close()
	wantNone(t, n.pool.budget, n)
}

// answering is a node that costs little: it reads a request of a known size and
// answers what it is given.
func answering(tb testing.TB, size int, answer string) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReaderSize(c, 8<<10)
				for {
					for { // the head
						line, err := r.ReadSlice('\n')
						if err != nil {
							return
						}
						if len(line) == 2 {
							break
						}
					}
					if _, err := r.Discard(size); err != nil {
						return
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

var (
	benchBody   = strings.Repeat("x", 1024)
	benchAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Length: 1024\r\n\r\n" + benchBody
)

func benchRequest() *proxy.Request {
	req := request(benchBody)
	req.Header = field.Of(http.Header{"Content-Type": {"text/xml"}, "SOAPAction": {`"a"`}, "Via": {"1.1 gateway"}, "X-Forwarded-For": {"127.0.0.1"}})
	return req
}

// BenchmarkHTTPSend: one caller, a pooled connection, 1 KiB there and back;
// beside it the same through net/http's Transport, for a ratio within one run.
func BenchmarkHTTPSend(b *testing.B) {
	addr := answering(b, len(benchBody), benchAnswer)
	buf := make([]byte, 2048)
	b.Run("own", func(b *testing.B) {
		n, err := NewHTTP(HTTPOptions{URL: "http://" + addr})
		if err != nil {
			b.Fatal(err)
		}
		defer n.Close()
		req := benchRequest()
		b.ReportAllocs()
		for b.Loop() {
			resp, err := n.Send(context.Background(), req)
			if err != nil {
				b.Fatal(err)
			}
			io.ReadFull(resp.Body, buf[:1024])
			resp.Body.Read(buf)
			resp.Body.Close()
		}
	})
	b.Run("net/http", func(b *testing.B) {
		tr := &http.Transport{WriteBufferSize: 16 << 10, ReadBufferSize: 8 << 10}
		defer tr.CloseIdleConnections()
		header := benchRequest().Header.HTTP()
		b.ReportAllocs()
		for b.Loop() {
			req, _ := http.NewRequest("POST", "http://"+addr+"/", strings.NewReader(benchBody))
			req.Header = header
			resp, err := tr.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			io.ReadFull(resp.Body, buf[:1024])
			resp.Body.Read(buf)
			resp.Body.Close()
		}
	})
}

// TestHTTPSendAllocs holds a try over a pooled connection to what it allocates
// now: the head of the answer and its fields (5), the hook on the caller's
// leaving, the try, the body and what the request itself brings.
func TestHTTPSendAllocs(t *testing.T) {
	addr := answering(t, len(benchBody), benchAnswer)
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
	req := benchRequest()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	buf := make([]byte, 2048)
	got := testing.AllocsPerRun(200, func() {
		resp, err := n.Send(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := resp.Body.Read(buf); err != nil {
				break
			}
		}
		resp.Body.Close()
	})
	if got > 22 {
		t.Errorf("got %v allocations, want at most 22", got)
	}
}
