package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/frame"
	"soapway/proxy"
)

func newFramed(t *testing.T, opt FramedOptions) *Framed {
	t.Helper()
	n, err := NewFramed(opt)
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

// frame reads one frame with a 2-octet length; io.EOF ends.
func (p *peer) frame() (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return "", err
	}
	b := make([]byte, binary.BigEndian.Uint16(head[:]))
	_, err := io.ReadFull(p.r, b)
	return string(b), err
}

func framed(payload string) string {
	b, err := frame.Append(nil, 2, []byte(payload))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// echoFrames answers every frame with itself until the connection ends.
func echoFrames(p *peer) {
	for {
		s, err := p.frame()
		if err != nil {
			return
		}
		p.send(framed(s))
	}
}

func TestFramedSend(t *testing.T) {
	noLeaks(t)
	var conns atomic.Int64
	addr := node(t, func(p *peer) { conns.Add(1); echoFrames(p) })
	n := newFramed(t, FramedOptions{Address: addr})
	if got, want := n.Name(), "framed://"+addr; got != want {
		t.Errorf("Name: got %q, want %q", got, want)
	}
	for i, want := range []string{"<x/>", "", strings.Repeat("y", 65535), "<z/>"} {
		resp, err := n.Send(t.Context(), request(want))
		if err != nil {
			t.Fatal(err)
		}
		status := 200
		if want == "" {
			status = 202
		}
		if got := body(t, resp); got != want || resp.Status != status || !resp.Framed {
			t.Errorf("reply %d: got %d, %d octets, want %d, %d", i, resp.Status, len(got), status, len(want))
		}
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
}

// A large message of a streaming body, and a large reply, in bounded memory and
// unchanged.
func TestFramedLarge(t *testing.T) {
	noLeaks(t)
	const size = 40 << 20
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, ln, func(p *peer) {
		for {
			r := frame.NewReader(p.r, 4, size, 4096)
			n, err := r.Next()
			if err != nil {
				return
			}
			h := sha256.New()
			io.Copy(h, r)
			head, _ := frame.AppendLength(nil, 4, n+32)
			p.Write(head)
			io.CopyN(p, zeros{}, n)
			p.Write(h.Sum(nil))
		}
	})
	n := newFramed(t, FramedOptions{Address: addr, Length: 4})
	want := sha256.New()
	io.CopyN(want, zeros{}, size)
	for range 2 {
		req, b := streaming(io.LimitReader(zeros{}, size), size)
		resp, err := n.Send(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Length != size+32 {
			t.Errorf("length: got %d, want %d", resp.Length, size+32)
		}
		io.CopyN(io.Discard, resp.Body, size)
		sum, err := io.ReadAll(resp.Body)
		if err != nil || string(sum) != string(want.Sum(nil)) {
			t.Errorf("got sum %x, %v", sum, err)
		}
		resp.Body.Close()
		await(t, b.closed, "Close of the body")
	}
}

func TestFramedDoesNotFit(t *testing.T) {
	n := newFramed(t, FramedOptions{Address: refused(t)})
	_, err := n.Send(t.Context(), request(strings.Repeat("x", 65536)))
	if e := sendError(t, err); e.Class != proxy.NotSent || !e.Permanent || !errors.Is(e, frame.ErrTooLong) {
		t.Errorf("got %+v", e)
	}
	req := request("x")
	req.Length = -1
	_, err = n.Send(t.Context(), req)
	if e := sendError(t, err); e.Class != proxy.NotSent || !e.Permanent {
		t.Errorf("unknown length: got %+v", e)
	}
}

// The class of every way in which a try can fail.
func TestFramedClasses(t *testing.T) {
	tests := []struct {
		name    string
		script  script
		opt     FramedOptions
		class   proxy.Class
		timeout bool
	}{
		{"closes at once", func(p *peer) { p.r.Peek(1); p.reset() }, FramedOptions{}, proxy.Maybe, false},
		{"reads, then closes", func(p *peer) { p.frame() }, FramedOptions{}, proxy.Maybe, false},
		{"half a length", func(p *peer) { p.frame(); p.send("\x00") }, FramedOptions{}, proxy.Maybe, false},
		{"half a reply", func(p *peer) { p.frame(); p.send("\x00\x05abc") }, FramedOptions{}, proxy.Maybe, false},
		{"never answers", func(p *peer) { p.frame(); p.gone() }, FramedOptions{Timeout: 50 * time.Millisecond}, proxy.Maybe, true},
		{"stalls inside a length", func(p *peer) { p.frame(); p.send("\x00"); p.gone() }, FramedOptions{Timeout: 50 * time.Millisecond}, proxy.Maybe, true},
		{"stalls inside a reply", func(p *peer) { p.frame(); p.send("\x00\x05abc"); p.gone() }, FramedOptions{Timeout: 50 * time.Millisecond}, proxy.Maybe, true},
		{"reply over the limit", func(p *peer) { p.frame(); p.send(framed(strings.Repeat("x", 101))); p.gone() }, FramedOptions{MaxReply: 100}, proxy.Maybe, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			tt.opt.Address = node(t, tt.script)
			n := newFramed(t, tt.opt)
			_, err := n.Send(t.Context(), request("abc"))
			if e := sendError(t, err); e.Class != tt.class || e.Timeout != tt.timeout || e.Source || e.Permanent {
				t.Errorf("got %+v, want %v, timeout %v", e, tt.class, tt.timeout)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		noLeaks(t)
		n := newFramed(t, FramedOptions{Address: refused(t)})
		req, b := streaming(io.LimitReader(zeros{}, 60<<10), 60<<10)
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.NotSent || e.Timeout || e.Source {
			t.Errorf("got %+v", e)
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("never reads", func(t *testing.T) {
		noLeaks(t)
		hold := make(chan bool)
		addr := node(t, func(p *peer) { <-hold })
		defer close(hold)
		n := newFramed(t, FramedOptions{Address: addr, Length: 4, Timeout: 100 * time.Millisecond})
		req, b := streaming(io.LimitReader(zeros{}, 1<<30), 1<<30)
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.Maybe || !e.Timeout || e.Source {
			t.Errorf("got %+v", e)
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("reset inside a stalled upload", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { io.ReadFull(p.r, make([]byte, 100)); p.reset() })
		n := newFramed(t, FramedOptions{Address: addr, Length: 4})
		r, w := pipeBody()
		defer w.Close() // ends the read, which closing the body does not
		req, b := streaming(struct{ io.Reader }{r}, 1<<20)
		go w.Write(make([]byte, 128<<10)) // and then silence
		_, err := n.Send(t.Context(), req)
		if e := sendError(t, err); e.Class != proxy.Maybe || e.Timeout || e.Source {
			t.Errorf("got %+v", e)
		}
		await(t, b.closed, "Close of the body")
	})
	t.Run("caller leaves", func(t *testing.T) {
		noLeaks(t)
		asked, cut := make(chan bool, 1), make(chan bool, 1)
		addr := node(t, func(p *peer) { p.frame(); asked <- true; p.gone(); cut <- true })
		n := newFramed(t, FramedOptions{Address: addr})
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		go func() { <-asked; cancel(left) }()
		_, err := n.Send(ctx, request("x"))
		if e := sendError(t, err); e.Class != proxy.Maybe || e.Timeout || !errors.Is(e, left) {
			t.Errorf("got %+v", e)
		}
		await(t, cut, "end of the connection")
	})
	t.Run("caller has left already", func(t *testing.T) {
		noLeaks(t)
		addr := node(t, func(p *peer) { p.gone() })
		n := newFramed(t, FramedOptions{Address: addr})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := n.Send(ctx, request("x"))
		if e := sendError(t, err); e.Class != proxy.NotSent {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("closed node", func(t *testing.T) {
		n := newFramed(t, FramedOptions{Address: "127.0.0.1:1"})
		n.Close()
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.NotSent || !errors.Is(e, ErrClosed) {
			t.Errorf("got %+v", e)
		}
	})
}

// A body that fails: short messages never leave, long ones are never complete.
func TestFramedCutUpload(t *testing.T) {
	bad := errors.New("the message turned out bad")
	tests := []struct {
		name   string
		length int64
		body   io.Reader
		want   error
		class  proxy.Class
	}{
		{"short message", 10, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad, proxy.NotSent},
		{"fails at its end", 5, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad, proxy.NotSent},
		{"too few octets", 10, strings.NewReader("12345"), io.ErrUnexpectedEOF, proxy.NotSent},
		{"too many octets", 3, strings.NewReader("12345"), errBodyTooLong, proxy.NotSent},
		{"long message", 1 << 20, io.MultiReader(io.LimitReader(zeros{}, 1<<19), &failing{bad}), bad, proxy.Maybe},
		{"long message, at its end", 1 << 20, io.MultiReader(io.LimitReader(zeros{}, 1<<20), &failing{bad}), bad, proxy.Maybe},
		{"long message, short", 1 << 20, io.LimitReader(zeros{}, 1<<20-1), io.ErrUnexpectedEOF, proxy.Maybe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			whole := make(chan bool, 1)
			addr := node(t, func(p *peer) {
				r := frame.NewReader(p.r, 4, 1<<30, 4096)
				_, err := r.Next()
				if err == nil {
					_, err = io.Copy(io.Discard, r)
				}
				whole <- err == nil
			})
			n := newFramed(t, FramedOptions{Address: addr, Length: 4})
			req, b := streaming(tt.body, tt.length)
			_, err := n.Send(t.Context(), req)
			if e := sendError(t, err); !e.Source || !errors.Is(e, tt.want) || e.Class != tt.class || e.Timeout {
				t.Errorf("got %+v, want the source's %v, %v", e, tt.want, tt.class)
			}
			if tt.class == proxy.Maybe && await(t, whole, "node") {
				t.Error("the node saw a complete message")
			}
			await(t, b.closed, "Close of the body")
		})
	}
}

// An answer that comes while the message is still being sent is taken.
func TestFramedEarlyAnswer(t *testing.T) {
	for _, reply := range []int{4, 200 << 10} {
		t.Run(fmt.Sprint(reply), func(t *testing.T) {
			noLeaks(t)
			cut := make(chan bool, 1)
			addr := node(t, func(p *peer) {
				io.ReadFull(p.r, make([]byte, 1000))
				head, _ := frame.AppendLength(nil, 4, int64(reply))
				p.send(string(head) + strings.Repeat("r", reply))
				p.gone()
				cut <- true
			})
			n := newFramed(t, FramedOptions{Address: addr, Length: 4})
			r, w := pipeBody()
			req, b := streaming(r, 1<<20)
			go w.Write(make([]byte, 128<<10)) // and then silence
			resp, err := n.Send(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, resp); len(got) != reply {
				t.Errorf("got %d octets, want %d", len(got), reply)
			}
			await(t, cut, "end of the connection")
			await(t, b.closed, "Close of the body")
		})
	}
}

// A pooled connection that the node has closed is noticed before it is used.
func TestFramedStaleConnection(t *testing.T) {
	noLeaks(t)
	closing, closed := make(chan bool), make(chan bool)
	addr := node(t, func(p *peer) {
		s, _ := p.frame()
		p.send(framed(s))
		<-closing
		p.Close()
		closed <- true
	}, echoFrames)
	n := newFramed(t, FramedOptions{Address: addr})
	resp, err := n.Send(t.Context(), request("one"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	closing <- true
	<-closed
	req, _ := streaming(strings.NewReader("two"), 3)
	resp, err = n.Send(t.Context(), req)
	if err != nil {
		t.Fatalf("got %v, want the second connection to serve it", err)
	}
	if got := body(t, resp); got != "two" {
		t.Errorf("got %q", got)
	}
}

// A node that speaks without being asked loses its connection: what it says
// must not become the answer to the next message.
func TestFramedUnsolicited(t *testing.T) {
	noLeaks(t)
	cut := make(chan bool, 1)
	addr := node(t, func(p *peer) {
		s, _ := p.frame()
		p.send(framed(s) + framed("evil"))
		p.gone()
		cut <- true
	}, echoFrames)
	n := newFramed(t, FramedOptions{Address: addr})
	resp, err := n.Send(t.Context(), request("one"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	await(t, cut, "end of the connection")
	resp, err = n.Send(t.Context(), request("two"))
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp); got != "two" {
		t.Errorf("got %q", got)
	}
}

// Beyond MaxConnections messages are pipelined, and each gets its own reply.
func TestFramedPipelining(t *testing.T) {
	noLeaks(t)
	const messages = 64
	var conns, received atomic.Int64
	all := make(chan bool) // closed when every message is here, on whichever connection
	addr := node(t, func(p *peer) {
		conns.Add(1)
		queue := make(chan string, messages)
		var wg sync.WaitGroup
		wg.Go(func() {
			<-all
			for s := range queue {
				p.send(framed("re:" + s))
			}
		})
		for {
			s, err := p.frame()
			if err != nil {
				break
			}
			queue <- s
			if received.Add(1) == messages {
				close(all)
			}
		}
		close(queue)
		wg.Wait()
	})
	n := newFramed(t, FramedOptions{Address: addr, MaxConnections: 2})
	var wg sync.WaitGroup
	for i := range messages {
		wg.Go(func() {
			want := fmt.Sprintf("message %d", i)
			resp, err := n.Send(context.Background(), request(want))
			if err != nil {
				t.Errorf("%s: %v", want, err)
				return
			}
			if got := body(t, resp); got != "re:"+want {
				t.Errorf("%s: got %q", want, got)
			}
		})
	}
	wg.Wait()
	if got := conns.Load(); got != 2 {
		t.Errorf("connections: got %d, want 2", got)
	}
}

// One that times out takes the others on its connection with it: they may have
// been processed, and only the one has timed out.
func TestFramedTimeoutTakesOthers(t *testing.T) {
	noLeaks(t)
	second := make(chan bool, 1)
	addr := node(t, func(p *peer) { p.frame(); p.frame(); second <- true; p.gone() })
	n := newFramed(t, FramedOptions{Address: addr, MaxConnections: 1})
	asked := make(chan error, 1)
	other := make(chan error, 1)
	go func() {
		_, err := n.Send(context.Background(), request("patient"))
		other <- err
	}()
	until(t, "first message", func() bool { return n.InFlight() == 1 })
	go func() {
		req := request("hasty")
		req.Timeouts.Answer = 100 * time.Millisecond
		_, err := n.Send(context.Background(), req)
		asked <- err
	}()
	await(t, second, "both messages")
	if e := sendError(t, await(t, asked, "hasty")); e.Class != proxy.Maybe || !e.Timeout {
		t.Errorf("hasty: got %+v", e)
	}
	if e := sendError(t, await(t, other, "patient")); e.Class != proxy.Maybe || e.Timeout {
		t.Errorf("patient: got %+v", e)
	}
}

// A large reply that its caller does not finish, or leaves, ends the connection.
func TestFramedAbandonedReply(t *testing.T) {
	for _, how := range []string{"close", "cancel"} {
		t.Run(how, func(t *testing.T) {
			noLeaks(t)
			cut := make(chan bool, 1)
			addr := node(t, func(p *peer) {
				io.ReadFull(p.r, make([]byte, 5))
				head, _ := frame.AppendLength(nil, 4, 8<<20)
				p.send(string(head))
				io.CopyN(p, zeros{}, 8<<20)
				p.gone()
				cut <- true
			})
			n := newFramed(t, FramedOptions{Address: addr, Length: 4})
			ctx, cancel := context.WithCancelCause(t.Context())
			resp, err := n.Send(ctx, request("x"))
			if err != nil {
				t.Fatal(err)
			}
			io.ReadFull(resp.Body, make([]byte, 1000))
			left := errors.New("left")
			if how == "cancel" {
				cancel(left)
				if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, left) {
					t.Errorf("got %v, want %v", err, left)
				}
			}
			resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("read after close: got %v", err)
			}
			await(t, cut, "end of the connection")
			cancel(nil)
		})
	}
}

func TestFramedIdleTimeout(t *testing.T) {
	noLeaks(t)
	gone := make(chan bool, 1)
	addr := node(t, func(p *peer) { echoFrames(p); gone <- true })
	n := newFramed(t, FramedOptions{Address: addr, IdleTimeout: 20 * time.Millisecond})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	await(t, gone, "end of the idle connection")
}

func TestFramedClosedNodeFinishes(t *testing.T) {
	noLeaks(t)
	asked, release, gone := make(chan bool, 1), make(chan bool), make(chan bool, 1)
	addr := node(t, func(p *peer) {
		s, _ := p.frame()
		asked <- true
		<-release
		p.send(framed(s))
		p.gone()
		gone <- true
	})
	n := newFramed(t, FramedOptions{Address: addr})
	done := make(chan error, 1)
	go func() {
		resp, err := n.Send(context.Background(), request("x"))
		if err == nil {
			body(t, resp)
		}
		done <- err
	}()
	await(t, asked, "message")
	n.Close()
	release <- true
	if err := await(t, done, "reply"); err != nil {
		t.Error(err)
	}
	await(t, gone, "end of the connection")
}

// Many callers at once, with connections that die under them: nobody gets the
// reply of another one.
func TestFramedStorm(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) {
		for i := range 200 {
			s, err := p.frame()
			if err != nil {
				return
			}
			if i == 150 {
				p.reset()
				return
			}
			p.send(framed(s))
		}
	})
	n := newFramed(t, FramedOptions{Address: addr, MaxConnections: 4})
	var wg sync.WaitGroup
	var good atomic.Int64
	for w := range 16 {
		wg.Go(func() {
			for i := range 200 {
				want := fmt.Sprintf("%d/%d", w, i)
				resp, err := n.Send(context.Background(), request(want))
				if err != nil {
					var e *proxy.SendError
					if !errors.As(err, &e) || e.Timeout || e.Source {
						t.Errorf("%s: %v", want, err)
					}
					continue
				}
				good.Add(1)
				if got := body(t, resp); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	wg.Wait()
	if good.Load() < 1600 {
		t.Errorf("only %d of 3200 were answered", good.Load())
	}
}

// TestFramedExpiredIsNotGivenOut: a connection that is about to be closed for
// its idleness must not be given to a request, which could then only say that
// the node may have processed it.
func TestFramedExpiredIsNotGivenOut(t *testing.T) {
	noLeaks(t)
	n := newFramed(t, FramedOptions{Address: node(t, echoFrames)})
	resp, err := n.Send(t.Context(), request("<x/>"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	c := only(t, n)
	c.mu.Lock() // the connection's end waits here
	expired := make(chan struct{})
	go func() { c.expire(); close(expired) }()
	for gone := false; !gone; runtime.Gosched() {
		n.mu.Lock()
		gone = len(n.conns) == 0
		n.mu.Unlock()
	}
	got, serr := n.get(t.Context(), time.Second)
	c.mu.Unlock()
	<-expired
	if serr != nil || got == c {
		t.Fatalf("get: got the expired connection (%v), %v", got == c, serr)
	}
	n.put(got)
}

// only returns the one connection of a node, once it is idle.
func only(t *testing.T, n *Framed) *frameConn {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		n.mu.Lock()
		idle := n.idle
		n.mu.Unlock()
		if len(idle) == 1 {
			return idle[0]
		}
	}
	t.Fatal("the connection is not idle")
	return nil
}
