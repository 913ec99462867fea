package listen

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"soapway/proxy"
)

// What HTTP/2 can say in a head and HTTP/1.1 cannot, or would understand in
// another way, never comes to the server: a node of HTTP/1.1 is behind it.
func TestHTTP2Heads(t *testing.T) { onBoth(t, testHTTP2Heads) }

func testHTTP2Heads(t *testing.T, engine Engine) {
	var served atomic.Int64
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		served.Add(1)
		return echoServer(ctx, ex)
	})
	with := func(name, value string) []string { // in place of one of the common fields
		fields := common()
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == name {
				fields[i+1] = value
			}
		}
		return fields
	}
	without := func(name string) (fields []string) {
		all := common()
		for i := 0; i < len(all); i += 2 {
			if all[i] != name {
				fields = append(fields, all[i:i+2]...)
			}
		}
		return fields
	}
	for _, tt := range []struct {
		name   string
		fields []string
		want   string // a status, or the code of a reset
	}{
		{"CR LF in a value", common("x-a", "b\r\nTransfer-Encoding: chunked"), "PROTOCOL_ERROR"},
		{"LF in a value", common("x-a", "b\nc: d"), "PROTOCOL_ERROR"},
		{"CR in a value", common("x-a", "b\rc"), "PROTOCOL_ERROR"},
		{"NUL in a value", common("x-a", "b\x00c"), "PROTOCOL_ERROR"},
		{"DEL in a value", common("x-a", "b\x7fc"), "PROTOCOL_ERROR"},
		{"CR LF in a name", common("x-a\r\nx-b", "c"), "PROTOCOL_ERROR"},
		{"colon in a name", common("x-a: b", "c"), "PROTOCOL_ERROR"},
		{"blank in a name", common("x a", "c"), "PROTOCOL_ERROR"},
		{"NUL in a name", common("x\x00a", "c"), "PROTOCOL_ERROR"},
		{"capital in a name", common("X-A", "c"), "PROTOCOL_ERROR"},
		{"empty name", common("", "c"), "PROTOCOL_ERROR"},
		{"transfer-encoding", common("transfer-encoding", "chunked"), "400"},
		{"connection", common("connection", "close"), "400"},
		{"connection that names a field", common("connection", "x-forwarded-for"), "400"},
		{"keep-alive", common("keep-alive", "1"), "400"},
		{"proxy-connection", common("proxy-connection", "close"), "400"},
		{"upgrade", common("upgrade", "h2c"), "400"},
		{"te", common("te", "gzip"), "400"},
		{"te, one of two", common("te", "trailers, gzip"), "400"},
		{"two lengths", common("content-length", "3", "content-length", "4"), "400"},
		{"length twice", common("content-length", "3", "content-length", "3"), "400"},
		{"length list", common("content-length", "3, 3"), "400"},
		{"negative length", common("content-length", "-3"), "400"},
		{"signed length", common("content-length", "+3"), "400"},
		{"hex length", common("content-length", "0x3"), "400"},
		{"empty length", common("content-length", ""), "400"},
		{"huge length", common("content-length", "99999999999999999999"), "400"},
		{"length of a body that does not come", common("content-length", "3"), "400"},
		{"host and :authority", common("host", "other"), "400"},
		{"host in capitals and :authority", common("host", "GW"), "400"},
		{"two hosts", common("host", "gw", "host", "gw"), "400"},
		{"two hosts, no :authority", append(without(":authority"), "host", "gw", "host", "other"), "400"},
		{"no host", without(":authority"), "400"},
		{"empty :authority", with(":authority", ""), "400"},
		{"two :authority", append([]string{":authority", "other"}, common()...), "PROTOCOL_ERROR"},
		{"user in :authority", with(":authority", "me@gw"), "PROTOCOL_ERROR"},
		{"blank in :authority", with(":authority", "g w"), "400"},
		{"path in :authority", with(":authority", "gw/x"), "400"},
		{"CR LF in :authority", with(":authority", "gw\r\nx-a: b"), "PROTOCOL_ERROR"},
		{"no :path", without(":path"), "PROTOCOL_ERROR"},
		{"empty :path", with(":path", ""), "PROTOCOL_ERROR"},
		{"two :path", append([]string{":path", "/y"}, common()...), "PROTOCOL_ERROR"},
		{"relative :path", with(":path", "x"), "PROTOCOL_ERROR"},
		{"absolute :path", with(":path", "http://other/x"), "400"},
		{"* as :path", with(":path", "*"), "400"},
		{"blank in :path", with(":path", "/x HTTP/1.1"), "400"},
		{"a request in :path", with(":path", "/x HTTP/1.1\r\nHost: a\r\n\r\nGET /y"), "PROTOCOL_ERROR"},
		{"tab in :path", with(":path", "/x\ty"), "PROTOCOL_ERROR"},
		{"fragment in :path", with(":path", "/x#y"), "400"},
		{"bad escape in :path", with(":path", "/x%zz"), "PROTOCOL_ERROR"},
		{"no :method", without(":method"), "PROTOCOL_ERROR"},
		{"blank in :method", with(":method", "POST /y HTTP/1.1"), "400"},
		{"no token as :method", with(":method", "PO(ST"), "400"},
		{"CR LF in :method", with(":method", "GET\r\n"), "PROTOCOL_ERROR"},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "gw:443"}, "501"},
		{"CONNECT with a path", with(":method", "CONNECT"), "PROTOCOL_ERROR"},
		{"CONNECT for another protocol", append([]string{":protocol", "websocket"}, with(":method", "CONNECT")...), "PROTOCOL_ERROR"},
		{":protocol", append([]string{":protocol", "websocket"}, common()...), "PROTOCOL_ERROR"},
		{"no :scheme", without(":scheme"), "PROTOCOL_ERROR"},
		{"odd :scheme", with(":scheme", "ftp"), "PROTOCOL_ERROR"},
		{"unknown pseudo field", append([]string{":x", "y"}, common()...), "PROTOCOL_ERROR"},
		{":status", append([]string{":status", "200"}, common()...), "PROTOCOL_ERROR"},
		{"pseudo field at the end", append(without(":path"), "x-a", "b", ":path", "/x"), "PROTOCOL_ERROR"},
		{"expectation", common("expect", "200-ok"), "417"},
		{"head too large", common("x-a", strings.Repeat("a", 40<<10), "x-b", strings.Repeat("b", 30<<10)), "431"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := served.Load()
			p := connectH2(t, addr)
			block := p.block(tt.fields...)
			id := p.next
			p.next += 2
			p.streams[id] = &streamAnswer{}
			first := block[:min(len(block), frameSize)]
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: true, EndHeaders: len(first) == len(block)}))
			for rest := block[len(first):]; len(rest) > 0; {
				piece := rest[:min(len(rest), frameSize)]
				rest = rest[len(piece):]
				p.must(p.WriteContinuation(id, len(rest) == 0, piece))
			}
			a, err := p.answer(id)
			got := a.status()
			if a.reset {
				got = a.code.String()
			}
			want := tt.want
			switch tt.name {
			case "relative :path", "tab in :path", "bad escape in :path":
				if engine == Fast { // net/http takes them for malformed before it looks at what HTTP/1.1 would say
					want = "400"
				}
			}
			if got != want {
				t.Errorf("got %q, %v, want %s", got, err, want)
			}
			if n := served.Load() - before; n != 0 {
				t.Errorf("%d requests came to the server", n)
			}
			p.echoed(p.post("abc", "content-length", "3"), "abc") // the connection has kept its place
		})
	}
}

// Trailers are checked and go no further.
func TestHTTP2Trailers(t *testing.T) { onBoth(t, testHTTP2Trailers) }

func testHTTP2Trailers(t *testing.T, engine Engine) {
	got := make(chan *proxy.Exchange, 1)
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		reply := echoServer(ctx, ex)
		got <- ex
		return reply
	})
	p := connectH2(t, addr)
	id := p.open(false, common("trailer", "x-sum, content-length", "te", "trailers")...)
	p.must(p.WriteData(id, false, []byte("abc")))
	p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("x-sum", "1", "x-other", "2"), EndStream: true, EndHeaders: true}))
	p.echoed(id, "abc")
	if h := await(t, got, "exchange").Header; h.Values("X-Sum") != nil || h.Values("X-Other") != nil || h.Values("Trailer") != nil {
		t.Errorf("got %v", h)
	}
	id = p.open(false, common()...)
	p.must(p.WriteData(id, false, []byte("abc")))
	p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("x-sum", "1\r\nx: y"), EndStream: true, EndHeaders: true}))
	if a, err := p.answer(id); err == nil || !a.reset {
		t.Errorf("CR LF in a trailer: got %v, %v", a.fields, err)
	}
}

// Floods end their connection, by net/http's measures or ours; what they reach
// of the server is bounded, and others keep being served.
func TestHTTP2Floods(t *testing.T) { onBoth(t, testHTTP2Floods) }

func testHTTP2Floods(t *testing.T, engine Engine) {
	for _, tt := range []struct {
		name string
		one  func(p *streamPeer, id uint32) error // again and again; id is an open stream
		most int64                                // exchanges that begin
	}{
		{"ping", func(p *streamPeer, _ uint32) error { return p.WritePing(false, [8]byte{}) }, 1},
		{"settings", func(p *streamPeer, _ uint32) error { return p.WriteSettings() }, 1},
		{"window settings", func(p *streamPeer, id uint32) error {
			return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: id})
		}, 1},
		{"empty data", func(p *streamPeer, id uint32) error { return p.WriteData(id, false, nil) }, 1},
		{"padding", func(p *streamPeer, id uint32) error { return p.WriteDataPadded(id, false, nil, make([]byte, 10)) }, 1},
		{"priority", func(p *streamPeer, id uint32) error {
			return p.WritePriority(id, http2.PriorityParam{StreamDep: 0, Weight: 3})
		}, 1},
		{"window update", func(p *streamPeer, id uint32) error { return p.WriteWindowUpdate(id, 1) }, 1},
		{"window update of all", func(p *streamPeer, _ uint32) error { return p.WriteWindowUpdate(0, 1) }, 1},
		{"unknown frames", func(p *streamPeer, _ uint32) error { return p.WriteRawFrame(0x77, 0, 0, nil) }, 1},
		{"resets of nothing", func(p *streamPeer, _ uint32) error { return p.WriteRSTStream(1, http2.ErrCodeCancel) }, 1},
		{"rapid reset", func(p *streamPeer, _ uint32) error {
			id := p.next
			p.next += 2
			if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(common()...), EndHeaders: true}); err != nil {
				return err
			}
			return p.WriteRSTStream(id, http2.ErrCodeCancel)
		}, 2000},
		{"reset by our hand", func(p *streamPeer, _ uint32) error { // we reset it, because of a window that overflows
			id := p.next
			p.next += 2
			if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(common()...), EndHeaders: true}); err != nil {
				return err
			}
			return p.WriteWindowUpdate(id, 1<<31-1)
		}, 2000},
		{"streams that are too many", func(p *streamPeer, _ uint32) error {
			id := p.next
			p.next += 2
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(common()...), EndHeaders: true})
		}, 2 * maxStreams},
		{"malformed heads", func(p *streamPeer, _ uint32) error {
			id := p.next
			p.next += 2
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("x", "y"), EndHeaders: true})
		}, 1},
		{"large heads that are malformed", func(p *streamPeer, _ uint32) error {
			id := p.next
			p.next += 2
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("x", strings.Repeat("a", 3000)), EndHeaders: true})
		}, 1},
		{"continuation", func() func(p *streamPeer, _ uint32) error {
			began := false
			return func(p *streamPeer, _ uint32) error {
				if !began {
					began = true
					return p.WriteHeaders(http2.HeadersFrameParam{StreamID: p.next, BlockFragment: p.block(common()...)})
				}
				return p.WriteContinuation(p.next, false, p.block("x-a", strings.Repeat("a", 1000)))
			}
		}(), 1},
		{"empty continuation", func() func(p *streamPeer, _ uint32) error {
			began := false
			return func(p *streamPeer, _ uint32) error {
				if !began {
					began = true
					return p.WriteHeaders(http2.HeadersFrameParam{StreamID: p.next, BlockFragment: p.block(common()...)})
				}
				return p.WriteContinuation(p.next, false, nil)
			}
		}(), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var began, most atomic.Int64
			var now atomic.Int64
			addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				if ex.Target == "/fine" {
					return textReply(200, "fine")
				}
				began.Add(1)
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer now.Add(-1)
				_, err := io.Copy(io.Discard, ex.Body)
				if err == nil {
					<-ctx.Done()
				}
				return textReply(400, "")
			})
			p := connectH2(t, addr)
			id := p.open(false, common()...)
			drained := make(chan error, 1)
			go func() { // what it is sent does not hold it up
				_, err := io.Copy(io.Discard, p.Conn)
				drained <- err
			}()
			heap := heapSize()
			const mostSent = 3_000_000 // a quick sender is done with a tenth of it before the time for a head is over
			sent := 0
			for ; sent < mostSent; sent++ {
				if err := tt.one(p, id); err != nil {
					break
				}
			}
			if sent == mostSent {
				t.Errorf("%d of them did not end the connection", sent)
			}
			fine := connectH2(t, addr)
			fine.echoed(fine.open(true, ":method", "POST", ":scheme", "http", ":authority", "gw", ":path", "/fine"), "fine")
			if err := await(t, drained, "end of the connection"); isTimeout(err) {
				t.Errorf("after %d of them: got %v, want the connection closed", sent, err)
			}
			if n := began.Load(); n > tt.most {
				t.Errorf("%d exchanges began, want at most %d", n, tt.most)
			}
			if n := most.Load(); n > maxStreams {
				t.Errorf("%d exchanges at once", n)
			}
			if grown := heapSize() - heap; grown > 16<<20 {
				t.Errorf("the heap grew by %d octets", grown)
			}
		})
	}
}

func heapSize() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// Who opens streams only to give them up is sent away, gently: what else it has
// under way is answered.
func TestHTTP2ManyLost(t *testing.T) { onBoth(t, testHTTP2ManyLost) }

func testHTTP2ManyLost(t *testing.T, engine Engine) {
	began, release := make(chan bool), make(chan bool)
	ended := make(chan bool)
	addr, _ := listenH2C(t, HTTPOptions{Engine: engine}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Method == "GET" {
			began <- true
			<-release
			return textReply(200, "fine")
		}
		began <- true
		<-ctx.Done()
		ended <- true
		return textReply(200, "")
	})
	p := connectH2(t, addr)
	kept := p.open(true, ":method", "GET", ":scheme", "http", ":authority", "gw", ":path", "/")
	await(t, began, "request")
	for range mostLost {
		id := p.open(true, common()...)
		await(t, began, "request")
		p.must(p.WriteRSTStream(id, http2.ErrCodeCancel))
		await(t, ended, "end of the request")
	}
	for p.away == nil {
		if err := p.one(); err != nil {
			t.Fatal(err)
		}
	}
	release <- true
	p.echoed(kept, "fine")
	if err := p.gone(); isTimeout(err) || p.away.ErrCode != http2.ErrCodeNo {
		t.Errorf("got %v, %v, want a gentle end", p.away, err)
	}
}

// A client that does much and gets it done is no flood, and octets in any pieces
// are judged alike.
func TestFrameFlow(t *testing.T) {
	frame := func(kind, flags byte, length int) []byte {
		b := make([]byte, frameHead+length)
		b[0], b[1], b[2], b[3], b[4] = byte(length>>16), byte(length>>8), byte(length), kind, flags
		return b
	}
	var busy []byte // a request of a chatty client
	for _, f := range [][]byte{frame(1, flagEndHeaders, 90), frame(0, 0, 700), frame(0, flagEndStream, 0), frame(8, 0, 4), frame(8, 0, 4), frame(2, 0, 5)} {
		busy = append(busy, f...)
	}
	now := time.Now()
	for _, size := range []int{1, 7, 9, 100, 1 << 20} {
		f := newFrameFlow(now)
		if err := f.feed([]byte(preface), now); err != nil || !f.began() {
			t.Fatalf("preface: %v", err)
		}
		for i := range 10_000 {
			for rest := busy; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if err := f.feed(rest[:min(size, len(rest))], now); err != nil {
					t.Fatalf("request %d in pieces of %d: %v", i, size, err)
				}
			}
			if f.inside() || !f.headSince.IsZero() {
				t.Fatalf("pieces of %d: not between two frames", size)
			}
			f.earn(framesPerRequest)
			f.sent(800)
		}
		// The same without anything getting done is one, at the same frame.
		f = newFrameFlow(now)
		f.preface = 0
		n := 0
		var err error
		for err == nil {
			for rest := busy; err == nil && len(rest) > 0; rest = rest[min(size, len(rest)):] {
				err = f.feed(rest[:min(size, len(rest))], now)
			}
			n++
		}
		if want := mostFrames/4 + 1; n != want {
			t.Errorf("pieces of %d: %d requests passed, want %d", size, n-1, want-1)
		}
		f = newFrameFlow(now)
		f.preface = 0
		for i := range 10_000 { // pings, as slow as they may be
			if err := f.feed(frame(6, 0, 8), now.Add(time.Duration(i)*time.Second/framesPerSecond)); err != nil {
				t.Fatalf("ping %d: %v", i, err)
			}
		}
	}
	f := newFrameFlow(now)
	f.feed([]byte(preface), now)
	f.feed(frame(1, 0, 90), now)
	if f.feed(frame(9, 0, 90), now.Add(time.Second)); !f.headSince.Equal(now) {
		t.Errorf("a head that goes on: got %v, want since %v", f.headSince, now)
	}
	if f.feed(frame(9, flagEndHeaders, 0), now.Add(time.Second)); !f.headSince.IsZero() {
		t.Error("a head that is complete is not")
	}
}

// slowPeer runs a test of time against a listener with a peer that has said
// hello.
func slowPeer(t *testing.T, opt HTTPOptions, srv serverFunc, test func(t *testing.T, p *streamPeer)) {
	t.Helper()
	opt.H2C = true
	inBubble(t, opt, srv, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		p := quiet(t, c)
		ended := make(chan error, 1)
		go func() { // what it is sent does not hold it up
			_, err := io.Copy(io.Discard, c)
			ended <- err
		}()
		if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		p.must(p.WriteSettings())
		test(t, p)
		c.Close()
		<-ended
	})
}

// lives says how long a connection lives from now on.
func (p *streamPeer) lives() time.Duration {
	start := time.Now()
	for time.Since(start) < time.Hour {
		p.SetWriteDeadline(time.Now().Add(time.Second))
		if err := p.WriteRawFrame(0x77, 0, 0, nil); err != nil {
			break
		}
		synctest.Wait()
		time.Sleep(time.Second)
	}
	return time.Since(start)
}

// A head, a frame and silence take their time and no more.
func TestHTTP2SlowPeers(t *testing.T) { onBoth(t, testHTTP2SlowPeers) }

func testHTTP2SlowPeers(t *testing.T, engine Engine) {
	within := func(t *testing.T, got, most time.Duration) {
		t.Helper()
		if got > most {
			t.Errorf("lived for %v, want at most %v", got, most)
		}
	}
	dead := func(t *testing.T, p *streamPeer, after time.Duration) {
		t.Helper()
		time.Sleep(after)
		synctest.Wait()
		p.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := p.Conn.Write([]byte{0}); err != io.ErrClosedPipe {
			t.Errorf("after %v: got %v, want %v", after, err, io.ErrClosedPipe)
		}
	}
	held := func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		_, err := io.Copy(io.Discard, ex.Body)
		if err != nil {
			return textReply(400, "")
		}
		<-ctx.Done()
		return textReply(200, "")
	}
	for _, open := range []bool{false, true} { // another stream, which stops net/http's clock
		t.Run(fmt.Sprint("half a head/", open), func(t *testing.T) {
			slowPeer(t, HTTPOptions{Engine: engine}, held, func(t *testing.T, p *streamPeer) {
				if open {
					p.open(true, common()...)
				}
				p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 11, BlockFragment: p.block(common()...)}))
				dead(t, p, 11*time.Second)
			})
		})
		t.Run(fmt.Sprint("half the head of a frame/", open), func(t *testing.T) {
			slowPeer(t, HTTPOptions{Engine: engine}, held, func(t *testing.T, p *streamPeer) {
				if open {
					p.open(true, common()...)
				}
				p.Conn.Write([]byte{0, 0, 8, 6})
				dead(t, p, 31*time.Second)
			})
		})
		t.Run(fmt.Sprint("half a frame/", open), func(t *testing.T) {
			slowPeer(t, HTTPOptions{Engine: engine}, held, func(t *testing.T, p *streamPeer) {
				if open {
					p.open(true, common()...)
				}
				p.Conn.Write([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2})
				dead(t, p, 31*time.Second)
			})
		})
	}
	t.Run("continuation, a field at a time", func(t *testing.T) {
		slowPeer(t, HTTPOptions{Engine: engine}, held, func(t *testing.T, p *streamPeer) {
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block(common()...)}))
			start := time.Now()
			for time.Since(start) < time.Minute && p.WriteContinuation(1, false, p.block("x-a", "b")) == nil {
				time.Sleep(time.Second)
				p.SetWriteDeadline(time.Now().Add(time.Second))
			}
			within(t, time.Since(start), 12*time.Second)
		})
	})
	t.Run("idle", func(t *testing.T) {
		slowPeer(t, HTTPOptions{Engine: engine}, held, func(t *testing.T, p *streamPeer) { within(t, p.lives(), 64*time.Second) })
	})
	t.Run("a long exchange is not idle", func(t *testing.T) {
		slowPeer(t, HTTPOptions{Engine: engine}, held, func(t *testing.T, p *streamPeer) {
			p.open(true, common()...)
			if got := p.lives(); got < time.Hour {
				t.Errorf("lived for %v", got)
			}
			p.Close()
		})
	})
}

// A node may take longer than a client may be silent, before and inside its
// answer; a client that gives no window may not.
func TestHTTP2SlowAnswers(t *testing.T) { onBoth(t, testHTTP2SlowAnswers) }

func testHTTP2SlowAnswers(t *testing.T, engine Engine) {
	slow := func(body string) serverFunc {
		return func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
			if _, err := io.Copy(io.Discard, ex.Body); err != nil {
				return textReply(400, "")
			}
			time.Sleep(10 * time.Minute)
			return &proxy.Reply{Status: 200, Body: &slowBody{left: body, ctx: ctx}, Length: -1}
		}
	}
	inBubble(t, HTTPOptions{Engine: engine, H2C: true}, slow("abc"), func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		p := speak(t, c)
		id := p.open(false, common()...)
		p.must(p.WriteData(id, true, []byte("xyz")))
		p.echoed(id, "abc")
	})
	for _, length := range []int64{10, 100_000, -1} {
		cuts := make(chan error, 1)
		srv := func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
			return &proxy.Reply{
				Status: 200, Body: strings.NewReader(strings.Repeat("x", int(max(length, 100_000*-length)))), Length: length,
				Cut: func(err error) { cuts <- err },
			}
		}
		inBubble(t, HTTPOptions{Engine: engine, H2C: true}, srv, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			p := speak(t, c, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.stingy = true
			id := p.open(true, common()...)
			start := time.Now()
			if a, err := p.answer(id); !a.reset {
				t.Errorf("length %d, no window: got %v %q, %v, want a reset", length, a.fields, a.body.String(), err)
			}
			if d := time.Since(start); d < 29*time.Second || d > 31*time.Second {
				t.Errorf("length %d: reset after %v, want 30s", length, d)
			}
		})
	}
}

// slowBody gives an octet every ten minutes.
type slowBody struct {
	left string
	ctx  context.Context
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == "" {
		return 0, io.EOF
	}
	select {
	case <-time.After(10 * time.Minute):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := copy(p[:1], b.left)
	b.left = b.left[n:]
	return n, nil
}
