package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"soapway/internal/h1"
)

// writes is a connection that tells of each write, while it is under way.
type writes struct {
	nil2
	wrote func(p []byte)
}

func (w writes) Write(p []byte) (int, error) {
	w.wrote(p)
	return len(p), nil
}

// underWay returns a connection with a stream whose exchange runs, without a reader.
func underWay(t *testing.T, opt Options, wrote func(p []byte)) (*conn, *stream) {
	t.Helper()
	s, err := NewServer(opt, handlerFunc(echo))
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(s, writes{wrote: wrote})
	c.greeted, c.settled = true, true
	return c, c.stream(1)
}

// stream opens a stream whose exchange runs.
func (c *conn) stream(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = id
	c.head.begin(id, false, nil)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "gw"},
		{Name: ":path", Value: "/"},
		{Name: "expect", Value: "100-continue"},
	} {
		c.head.add(f)
	}
	c.request()
	c.ready = nil
	return c.streams[id]
}

// A body that comes while the 100 Continue is written is read at once.
func TestContinueWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *conn
		var came bool
		c, s := underWay(t, Options{}, func([]byte) {
			if !came {
				came = true
				if err := c.data(&frame{length: 3, kind: kindData, flags: flagEndStream, stream: 1}, []byte("abc")); err != nil {
					t.Error(err)
				}
			}
		})
		began := time.Now()
		b, err := io.ReadAll(&s.body)
		if string(b) != "abc" || err != nil || time.Since(began) > 0 {
			t.Errorf("got %q, %v after %v", b, err, time.Since(began))
		}
		c.end(net.ErrClosed)
		c.srv.open.Wait()
	})
}

// A body that is closed with something left in it has not come to its end.
func TestClosedIsNotTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *stream
		c, s := underWay(t, Options{}, func([]byte) { s.body.Close() })
		for range connStep / frameSize {
			if err := c.data(&frame{length: frameSize, kind: kindData, stream: 1}, make([]byte, frameSize)); err != nil {
				t.Fatal(err)
			}
		}
		c.mu.Lock()
		s.body.end()
		c.mu.Unlock()
		c.returned = connStep // the next octet is a step
		if n, err := s.body.Read(make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		synctest.Wait()
		if _, err := s.body.Read(make([]byte, 10)); err != errBodyClosed {
			t.Errorf("then got %v", err)
		}
		c.end(net.ErrClosed)
		c.srv.open.Wait()
	})
}

// An answer that waits for the connection's window ends with its stream.
func TestResetWithoutWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := underWay(t, Options{}, func([]byte) {})
		c.sendWindow = 0
		began := time.Now()
		done := make(chan error)
		go func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			done <- s.send([]byte("abc"), true)
		}()
		synctest.Wait()
		c.mu.Lock()
		err := c.resetBy(&frame{length: 4, kind: kindReset, stream: 1}, make([]byte, 4))
		c.mu.Unlock()
		if got := <-done; err != nil || !errors.Is(got, h1.ErrGone) || time.Since(began) > 0 {
			t.Errorf("got %v, %v after %v", err, got, time.Since(began))
		}
		c.end(net.ErrClosed)
		c.srv.open.Wait()
	})
}

// Whatever becomes of streams, the connection's window is whole in the end: each
// octet of DATA is given back, once.
func TestWindowIsWhole(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			c, _ := underWay(t, Options{}, func([]byte) {})
			last := uint32(1)
			open := map[uint32]*stream{1: c.streams[1]}
			for range 300 {
				id := 2*rnd.Uint32N((last+1)/2) + 1
				s := open[id]
				var err error
				switch n := rnd.IntN(20); {
				case n < 9:
					err = randomData(c, rnd, id)
				case n < 12 && s != nil && len(s.body.got) > s.body.r:
					s.body.Read(make([]byte, 1+rnd.IntN(20000)))
				case n == 12:
					c.mu.Lock()
					err = c.resetBy(&frame{length: 4, kind: kindReset, stream: id}, make([]byte, 4))
					c.mu.Unlock()
				case n == 13 && s != nil:
					s.body.Close()
				case n == 14 && s != nil:
					c.mu.Lock()
					c.finish(s)
					c.mu.Unlock()
					delete(open, id)
				case n == 15 && len(open) < maxStreams && !c.away:
					last += 2
					if s := c.stream(last); s != nil {
						open[last] = s
						s.body.left = rnd.Int64N(60000) - 20000
						s.body.left = max(s.body.left, -1)
					}
				}
				if err != nil {
					break // a flood, or beyond the window
				}
			}
			c.mu.Lock()
			for _, s := range open {
				c.finish(s)
			}
			got := c.window + c.returned
			if got != connWindow || c.serving != 0 || len(c.streams) != 0 {
				t.Errorf("seed %d: a window of %d, %d exchanges, %d streams", seed, got, c.serving, len(c.streams))
			}
			c.mu.Unlock()
			c.end(net.ErrClosed)
			c.srv.open.Wait()
		})
	}
}

// randomData sends a frame of DATA, which may be padded, too long, late or the end.
// It keeps to the connection's window.
func randomData(c *conn, rnd *rand.Rand, id uint32) error {
	f := frame{kind: kindData, stream: id}
	p := make([]byte, rnd.IntN(frameSize-256))
	if rnd.IntN(3) == 0 {
		f.flags |= flagPadded
		padding := rnd.IntN(256)
		p = append(append([]byte{byte(padding)}, p...), make([]byte, padding)...)
	}
	if rnd.IntN(10) == 0 {
		f.flags |= flagEndStream
	}
	if f.length = len(p); f.length > c.window {
		return nil
	}
	return c.data(&f, p)
}

// Padding that nobody reads does not use up a stream's window.
func TestPaddingIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := underWay(t, Options{}, func([]byte) {})
		p := make([]byte, 256)
		p[0] = 255
		for i := range 900 {
			if err := c.data(&frame{length: 256, kind: kindData, flags: flagPadded, stream: 1}, p); err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
		}
		if s.body.window < streamWindow-streamStep {
			t.Errorf("got a window of %d", s.body.window)
		}
		c.end(net.ErrClosed)
		c.srv.open.Wait()
	})
}

// Settings cost: each may concern every stream.
func TestManySettings(t *testing.T) {
	c := dial(t, serving(t, Options{}, echo))
	many := make([]http2.Setting, 2*mostFrames)
	for i := range many {
		many[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}
	}
	c.WriteSettings(many...)
	c.expect("GOAWAY 0 ENHANCE_YOUR_CALM")
}

// A cookie in many parts costs no more memory than it has parts.
func TestCrumbs(t *testing.T) {
	var h head
	h.begin(1, true, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 5000
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "gw"},
		{Name: ":path", Value: "/"},
	} {
		h.add(f)
	}
	for range n {
		h.add(hpack.HeaderField{Name: "cookie", Value: "a"})
	}
	var r Request
	ok := h.request(&r)
	runtime.ReadMemStats(&after)
	want := string(bytes.Repeat([]byte("a; "), n-1)) + "a"
	if v := r.Header[0].Value; !ok || len(r.Header) != 1 || v != want {
		t.Errorf("got %d fields, %d octets", len(r.Header), len(v))
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("got %d octets of memory for a cookie of %d", got, len(want))
	}
}

// A GOAWAY names no higher stream than the one before (RFC 9113 §6.8).
func TestSecondGoAway(t *testing.T) {
	release := make(chan bool)
	s, err := NewServer(Options{}, handlerFunc(func(_ context.Context, _ *Request, w *h1.Response) {
		<-release
		w.Status = 204
	}))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			s.ServeConn(conn)
		}
	}()
	c := dial(t, ln.Addr().String())
	c.open(1, true)
	c.must(c.WritePing(false, [8]byte{}))
	c.expect(`PING "\x00\x00\x00\x00\x00\x00\x00\x00" true`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(ctx)
	c.expect("GOAWAY 1 NO_ERROR")
	c.open(3, true)
	c.expect("RST_STREAM 3 REFUSED_STREAM")
	c.must(c.WriteData(0, false, []byte("x")))
	c.expect("GOAWAY 1 PROTOCOL_ERROR")
	close(release)
	s.Close(errors.New("the test is over"))
}

// What comes octet by octet has the time of a head, unless it is a body.
func TestDrip(t *testing.T) {
	for _, tt := range []struct {
		name string
		here []byte
		want time.Duration // until the connection ends, 0 for as long as octets come
	}{
		{"half a head of a frame", []byte{0, 0}, 10 * time.Second},
		{"HEADERS", appendHead(nil, 1000, kindHeaders, 0, 3), 10 * time.Second},
		{"PING", appendHead(nil, 8, kindPing, 0, 0), 10 * time.Second},
		{"DATA of no stream", appendHead(nil, 1000, kindData, 0, 3), 10 * time.Second},
		{"DATA", appendHead(nil, 1000, kindData, 0, 1), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := underWay(t, Options{}, func([]byte) {})
				c.in.put(tt.here)
				began := time.Now()
				var err error
				for err == nil && time.Since(began) < time.Minute {
					if err = c.patience(); err == nil {
						time.Sleep(time.Second)
						c.in.at = time.Now()
						c.in.put([]byte{0xff})
						c.in.late = !c.in.by.IsZero() && !time.Now().Before(c.in.by)
					}
				}
				switch took := time.Since(began); {
				case tt.want == 0 && err != nil, tt.want != 0 && (!errors.Is(err, errTooSlow) || took != tt.want):
					t.Errorf("got %v after %v", err, took)
				}
				c.end(net.ErrClosed)
				c.srv.open.Wait()
			})
		})
	}
}

// slowDone is a handler that is told of its answers but does not return from it.
type slowDone struct {
	handlerFunc
	told    chan bool
	release chan bool
}

func (h slowDone) Done(*h1.Response, error) {
	h.told <- true
	<-h.release
}

// A stream whose answer the client may have does not count against the next ones,
// though its exchange is not quite over.
func TestAnsweredMakesRoom(t *testing.T) {
	h := slowDone{func(_ context.Context, _ *Request, w *h1.Response) { w.Status = 204 }, make(chan bool, 3*maxStreams), make(chan bool)}
	s, err := NewServer(Options{}, h)
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(s, writes{wrote: func([]byte) {}})
	c.settled, c.greeted = true, true
	open := func(n int) (refused int) {
		for range n {
			s := c.stream(c.last + 2)
			if s == nil {
				refused++
				continue
			}
			s.body.whole = true // its exchange has not begun
			c.srv.run(s.serve)
			<-h.told
		}
		return refused
	}
	if got := open(maxStreams); got != 0 {
		t.Errorf("got %d refused of the first", got)
	}
	if got := open(maxStreams + 5); got != 5 { // and those that hang have a bound
		t.Errorf("got %d refused, want 5", got)
	}
	close(h.release)
	c.end(net.ErrClosed)
	s.open.Wait()
	if c.serving != 0 || c.over != 0 {
		t.Errorf("got %d exchanges, %d over", c.serving, c.over)
	}
}
