package listen

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/internal/frame"
	"soapway/proxy"
	"soapway/soapcodec"
)

// listenFramed starts a framed listener on a free port. Its server is one that
// waits for somebody in each exchange.
func listenFramed(t *testing.T, opt FramedOptions, srv serverFunc) (addr string, stop func() error) {
	t.Helper()
	return listenPrompt(t, opt, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Waits != nil {
			ex.Waits.Wait()
		}
		return srv(ctx, ex)
	})
}

// listenPrompt is listenFramed for a server that says itself when it waits.
func listenPrompt(t *testing.T, opt FramedOptions, srv serverFunc) (addr string, stop func() error) {
	t.Helper()
	noLeaks(t)
	opt.Address = "127.0.0.1:0"
	l, err := NewFramed(opt, srv)
	if err != nil {
		t.Fatal(err)
	}
	return running(t, l)
}

func framed(width int, payloads ...string) string {
	var b []byte
	for _, p := range payloads {
		b, _ = frame.Append(b, width, []byte(p))
	}
	return string(b)
}

// frame reads one frame.
func (p *peer) frame(width int) string {
	p.t.Helper()
	s, err := p.tryFrame(width)
	if err != nil {
		p.t.Fatalf("frame: %v", err)
	}
	return s
}

func (p *peer) tryFrame(width int) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[4-width:]); err != nil {
		return "", err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p.r, b)
	return string(b), err
}

// echoFrame answers a framed request with itself; an empty one, or "oneway",
// with nothing.
func echoFrame(_ context.Context, ex *proxy.Exchange) *proxy.Reply {
	b, err := io.ReadAll(ex.Body)
	if err != nil {
		return &proxy.Reply{Status: 400, Code: soapcodec.CodeIncomplete, CloseConnection: true}
	}
	if string(b) == "oneway" {
		return &proxy.Reply{Status: 202}
	}
	return &proxy.Reply{Status: 200, Body: strings.NewReader(string(b)), Length: int64(len(b)), Version: soapcodec.V11}
}

func TestFramedExchange(t *testing.T) {
	for _, width := range []int{2, 4} {
		got := make(chan *proxy.Exchange, 10)
		addr, _ := listenFramed(t, FramedOptions{Name: "tcp", Route: "fixed", Length: width}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
			got <- ex
			return echoFrame(ctx, ex)
		})
		p := connect(t, addr)
		p.send(framed(width, "<x/>"))
		if s := p.frame(width); s != "<x/>" {
			t.Errorf("got %q", s)
		}
		ex := await(t, got, "exchange")
		if !ex.Framed || ex.Listener != "tcp" || ex.Route != "fixed" || ex.Method != "POST" || ex.Target != "" || ex.Header != nil || ex.Length != 4 || ex.Received.IsZero() || ex.Client.String() != p.LocalAddr().String() {
			t.Errorf("got %+v", ex)
		}
		p.send(framed(width, "", "oneway", "<y/>", ""))
		for i, want := range []string{"", "", "<y/>", ""} {
			if s := p.frame(width); s != want {
				t.Errorf("frame %d: got %q, want %q", i, s, want)
			}
		}
	}
}

// Replies come in the order of the requests, whoever finishes first, and
// requests are read while others are served.
func TestFramedPipelining(t *testing.T) {
	const messages = 40
	var release [messages]chan bool
	for i := range release {
		release[i] = make(chan bool)
	}
	served := make(chan int, messages)
	addr, _ := listenFramed(t, FramedOptions{Pipeline: messages}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		b, _ := io.ReadAll(ex.Body)
		var i int
		fmt.Sscan(string(b), &i)
		served <- i
		<-release[i]
		return &proxy.Reply{Status: 200, Body: strings.NewReader(string(b)), Length: int64(len(b))}
	})
	p := connect(t, addr)
	var all []string
	for i := range messages {
		all = append(all, fmt.Sprint(i))
	}
	p.send(framed(2, all...))
	for range messages {
		await(t, served, "all requests under way")
	}
	for i := messages - 1; i >= 0; i-- { // the last first
		close(release[i])
	}
	for i := range messages {
		if got := p.frame(2); got != fmt.Sprint(i) {
			t.Errorf("reply %d: got %q", i, got)
		}
	}
}

// Never more under way on one connection than Pipeline allows.
func TestFramedPipelineBound(t *testing.T) {
	var now, most atomic.Int64
	addr, _ := listenFramed(t, FramedOptions{Pipeline: 4}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer now.Add(-1)
		<-time.After(time.Millisecond)
		return echoFrame(ctx, ex)
	})
	p := connect(t, addr)
	p.send(strings.Repeat(framed(2, "x"), 100))
	for range 100 {
		p.frame(2)
	}
	// The queue, one that waits to be queued and one that is being written.
	if got := most.Load(); got > 6 {
		t.Errorf("under way: got %d, want at most 6", got)
	}
}

// Case 56: the same messages and replies for every segmentation.
func TestFramedSegmentation(t *testing.T) {
	dir := os.Getenv("CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	dir = filepath.Join(dir, "56-framed-split-and-coalesced")
	stream, err := os.ReadFile(filepath.Join(dir, "request.bin"))
	if err != nil {
		t.Skipf("no acceptance cases (set CASES): %v", err)
	}
	var want []string
	for i := 1; i <= 3; i++ {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("payload-%d.xml", i)))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(b))
	}
	addr, _ := listenFramed(t, FramedOptions{Length: 4}, echoFrame)
	run := func(name string, cuts ...int) {
		p := connect(t, addr)
		from := 0
		for _, to := range append(cuts, len(stream)) {
			p.send(string(stream[from:to]))
			from = to
		}
		for i, w := range want {
			if got := p.frame(4); got != w {
				t.Errorf("%s, frame %d: got %q, want %q", name, i, got, w)
			}
		}
		p.CloseWrite()
		p.closed()
	}
	run("one write")
	for cut := 1; cut < len(stream); cut += 7 {
		run(fmt.Sprint("cut at ", cut), cut)
	}
	var every []int
	for i := 1; i < len(stream); i++ {
		every = append(every, i)
	}
	run("octet by octet", every...)
}

// What becomes of every kind of reply.
func TestFramedReplies(t *testing.T) {
	doc := "<r/>"
	reply := func(status int, body string, length int64, edit func(*proxy.Reply)) *proxy.Reply {
		r := &proxy.Reply{Status: status, Length: length}
		if body != "" {
			r.Body = strings.NewReader(body)
		}
		if edit != nil {
			edit(r)
		}
		return r
	}
	code := func(c soapcodec.Code, v soapcodec.Version) func(*proxy.Reply) {
		return func(r *proxy.Reply) { r.Code, r.Version = c, v }
	}
	field := func(k, v string) func(*proxy.Reply) {
		return func(r *proxy.Reply) { r.Header = field.Of(http.Header{k: {v}}) }
	}
	const ns11, ns12 = "http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"
	tests := []struct {
		name  string
		reply *proxy.Reply
		want  string // the frame, or
		code  string // the code of its fault, with
		ns    string // this envelope
	}{
		{"envelope", reply(200, doc, 4, nil), doc, "", ""},
		{"fault of the backend", reply(500, doc, 4, field("Content-Type", "text/xml; charset=utf-8")), doc, "", ""},
		{"own fault with a code for the log", reply(500, doc, 4, code("NotWellFormed", soapcodec.V12)), doc, "", ""},
		{"unknown length", reply(200, doc, -1, nil), doc, "", ""},
		{"unknown length and empty", reply(200, "", -1, nil), "", "", ""},
		{"202", reply(202, "", 0, nil), "", "", ""},
		{"empty 200", reply(200, "", 0, nil), "", "", ""},
		{"no route", reply(404, "", 0, code(soapcodec.CodeNoRoute, 0)), "", "NoRoute", ns11},
		{"no route, 1.2", reply(404, "", 0, code(soapcodec.CodeNoRoute, soapcodec.V12)), "", "NoRoute", ns12},
		{"not authorised", reply(401, "", 0, code(soapcodec.CodeNotAuthorised, soapcodec.V11)), "", "NotAuthorised", ns11},
		{"too large", reply(413, "", 0, code(soapcodec.CodeTooLarge, soapcodec.V12)), "", "TooLarge", ns12},
		{"busy", reply(503, "", 0, code(soapcodec.CodeBusy, 0)), "", "Busy", ns11},
		{"unknown outcome", reply(503, "", 0, code(soapcodec.CodeOutcomeUnknown, soapcodec.V12)), "", "OutcomeUnknown", ns12},
		{"empty 400", reply(400, "", 0, nil), "", "BackendNotSOAP", ns11},
		{"redirect", reply(307, "", 0, nil), "", "BackendNotSOAP", ns11},
		{"html", reply(200, "<p>", 3, field("Content-Type", "text/html")), "", "BackendNotSOAP", ns11},
		{"multipart", reply(200, "--b", 3, field("Content-Type", `multipart/related; boundary=b`)), "", "BackendNotSOAP", ns11},
		{"coded", reply(200, doc, 4, field("Content-Encoding", "gzip")), "", "BackendNotSOAP", ns11},
		{"as long as fits", reply(200, strings.Repeat("x", 65535), 65535, nil), strings.Repeat("x", 65535), "", ""},
		{"too long", reply(200, strings.Repeat("x", 65536), 65536, code("", soapcodec.V12)), "", "ReplyTooLarge", ns12},
		{"too long, unknown length", reply(200, strings.Repeat("x", 65536), -1, nil), "", "ReplyTooLarge", ns11},
		{"breaks off", reply(200, "abc", 10, nil), "", "BackendBroken", ns11},
		{"longer than announced", reply(200, "abcdef", 3, nil), "", "BackendBroken", ns11},
		{"nothing", nil, "", "Internal", ns11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var closed atomic.Int64
			addr, stop := listenFramed(t, FramedOptions{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				if ex.Length == 4 {
					return echoFrame(ctx, ex)
				}
				if tt.reply != nil {
					tt.reply.Close = func() { closed.Add(1) }
				}
				return tt.reply
			})
			p := connect(t, addr)
			p.send(framed(2, "<a/>", "request", "<b/>"))
			if got := p.frame(2); got != "<a/>" {
				t.Errorf("frame before: got %q", got)
			}
			got := p.frame(2)
			switch {
			case tt.code == "" && got != tt.want:
				t.Errorf("got %.80q, want %.80q", got, tt.want)
			case tt.code != "" && (!strings.Contains(got, tt.ns) || !strings.Contains(got, ">"+tt.code+"<")):
				t.Errorf("got %q, want a fault %s in %s", got, tt.code, tt.ns)
			}
			if got := p.frame(2); got != "<b/>" {
				t.Errorf("frame after: got %q", got)
			}
			stop()
			if got := closed.Load(); tt.reply != nil && got != 1 {
				t.Errorf("Close: called %d times, want 1", got)
			}
		})
	}
}

// Large requests and replies stream; the next frame begins where it should,
// even when the server did not read the one before.
func TestFramedStreams(t *testing.T) {
	const size = 3 << 20
	addr, _ := listenFramed(t, FramedOptions{Length: 4, Buffer: 1 << 20}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Length < size {
			return echoFrame(ctx, ex)
		}
		if ex.Length > size {
			ex.Body.Read(make([]byte, 10))
			return &proxy.Reply{Status: 413, Code: soapcodec.CodeTooLarge}
		}
		n, err := io.Copy(io.Discard, ex.Body)
		if n != size || err != nil {
			t.Errorf("body: got %d octets, %v", n, err)
		}
		return &proxy.Reply{Status: 200, Body: io.LimitReader(zeros{}, size), Length: size}
	})
	p := connect(t, addr)
	go p.Write([]byte(framed(4, "<a/>", strings.Repeat("x", size), "<b/>", strings.Repeat("y", size+1), "<c/>")))
	for i, want := range []int{4, size, 4, -1, 4} {
		got := p.frame(4)
		if want >= 0 && len(got) != want || want < 0 && !strings.Contains(got, ">TooLarge<") {
			t.Errorf("frame %d: got %d octets, want %d", i, len(got), want)
		}
	}
}

// A reply that is there while the message is still being read costs nobody the
// connection: the frame comes to its end, and the next one is served.
func TestFramedEarlyAnswerWhileBodyIsRead(t *testing.T) {
	readErr, progress := make(chan error, 1), make(chan bool, 1)
	addr, _ := listenFramed(t, FramedOptions{Length: 4, Buffer: 10}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Length < 10 {
			return echoFrame(ctx, ex)
		}
		first := make(chan bool)
		go func() {
			io.ReadFull(ex.Body, make([]byte, 3))
			close(first)
			for {
				if _, err := ex.Body.Read(make([]byte, 1)); err != nil {
					readErr <- err
					return
				}
				progress <- true
			}
		}()
		<-first
		return &proxy.Reply{Status: 413, Code: soapcodec.CodeTooLarge}
	})
	p := connect(t, addr)
	const size = 4096
	p.send("\x00\x00\x10\x00abc")
	if got := p.frame(4); !strings.Contains(got, ">TooLarge<") {
		t.Errorf("got %q", got)
	}
	// A read that had begun before the body was closed gets what comes next, the one
	// after that does not.
	left := size - 3
	for ended := false; !ended; left-- {
		p.send("x")
		select {
		case err := <-readErr:
			if ended = true; err == io.EOF {
				t.Error("body: it was read to its end after the reply")
			}
		case <-progress:
		case <-time.After(patience):
			t.Fatal("neither read nor refused")
		}
	}
	p.send(strings.Repeat("x", left) + framed(4, "<b/>"))
	if got := p.frame(4); got != "<b/>" {
		t.Errorf("got %q", got)
	}
}

// A length over the limit ends the connection, after the replies that are due,
// and what follows is never looked at.
func TestFramedOverLimit(t *testing.T) {
	log := new(logged)
	addr, _ := listenFramed(t, FramedOptions{Length: 4, MaxMessage: 100, Log: log.logger()}, echoFrame)
	p := connect(t, addr)
	p.send(framed(4, "<a/>", "<b/>") + "\xff\xff\xff\xff" + framed(4, "<evil/>"))
	p.CloseWrite()
	if a, b := p.frame(4), p.frame(4); a != "<a/>" || b != "<b/>" {
		t.Errorf("got %q, %q", a, b)
	}
	p.closed()
	if s := log.String(); !strings.Contains(s, "over the limit") {
		t.Errorf("log: got %q", s)
	}
}

// A client that has sent its last request and closed its sending side still
// gets its answers.
func TestFramedHalfClosed(t *testing.T) {
	release := make(chan bool)
	addr, _ := listenFramed(t, FramedOptions{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		<-release
		if err := context.Cause(ctx); err != nil {
			t.Errorf("context: got %v", err)
		}
		return echoFrame(ctx, ex)
	})
	p := connect(t, addr)
	p.send(framed(2, "<a/>", "<b/>"))
	p.CloseWrite()
	release <- true
	release <- true
	if a, b := p.frame(2), p.frame(2); a != "<a/>" || b != "<b/>" {
		t.Errorf("got %q, %q", a, b)
	}
	p.closed()
}

// A frame that never ends, and silence between frames.
func TestFramedTimeouts(t *testing.T) {
	opt := FramedOptions{Length: 4, Buffer: 10, Timeouts: Timeouts{BodyIdle: 60 * time.Millisecond, Idle: 60 * time.Millisecond}}
	var streamErr atomic.Value
	addr, _ := listenFramed(t, opt, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Length == 7 { // longer than both timeouts
			<-time.After(200 * time.Millisecond)
		}
		if ex.Length == 20 {
			_, err := io.Copy(io.Discard, ex.Body)
			streamErr.Store(err)
			return &proxy.Reply{Status: 500, Code: soapcodec.CodeIncomplete, CloseConnection: true}
		}
		return echoFrame(ctx, ex)
	})
	for name, send := range map[string]string{
		"says nothing":            "",
		"half a length":           "\x00\x00",
		"half a frame":            "\x00\x00\x00\x05abc",
		"a frame, then half":      framed(4, "<a/>") + "\x00",
		"a frame, then idle":      framed(4, "<a/>"),
		"keep-alive, then idle":   framed(4, ""),
		"slow reply, not idle":    framed(4, "slow..."),
		"slow reply, half behind": framed(4, "slow...") + "\x00",
		"stalls in a stream":      "\x00\x00\x00\x14abc",
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, addr)
			p.send(send)
			switch {
			case strings.Contains(name, "stream"):
				if got := p.frame(4); !strings.Contains(got, ">Incomplete<") {
					t.Errorf("got %q", got)
				}
				if err, _ := streamErr.Load().(error); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("body: got %v", err)
				}
			case strings.HasPrefix(name, "a frame"):
				if got := p.frame(4); got != "<a/>" {
					t.Errorf("got %q", got)
				}
			case strings.HasPrefix(name, "slow"):
				if got := p.frame(4); got != "slow..." {
					t.Errorf("got %q", got)
				}
			case strings.HasPrefix(name, "keep"):
				if got := p.frame(4); got != "" {
					t.Errorf("got %q", got)
				}
			}
			p.closed()
		})
	}
}

// The caller's leaving, where it can be told from a half-close, ends the calls.
func TestFramedCallerLeaves(t *testing.T) {
	began, cause := make(chan bool, 1), make(chan error, 1)
	addr, _ := listenFramed(t, FramedOptions{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		began <- true
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	})
	p := connect(t, addr)
	p.send(framed(2, "<a/>"))
	await(t, began, "request")
	p.SetLinger(0)
	p.Close()
	if err := await(t, cause, "cancellation"); !errors.Is(err, ErrGone) {
		t.Errorf("cause: got %v, want %v", err, ErrGone)
	}
}

// A client that never reads its replies costs one write deadline.
func TestFramedNeverReads(t *testing.T) {
	closed := make(chan bool, 1)
	opt := FramedOptions{Length: 4, Timeouts: Timeouts{BodyIdle: 50 * time.Millisecond}}
	addr, _ := listenFramed(t, opt, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		return &proxy.Reply{Status: 200, Body: io.LimitReader(zeros{}, 32<<20), Length: 32 << 20, Close: func() { closed <- true }}
	})
	p := connect(t, addr)
	p.SetReadBuffer(1 << 10)
	p.send(framed(4, "<a/>"))
	await(t, closed, "end of the reply")
}

// A reply that fails after its length was sent ends the connection short.
func TestFramedCutReply(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"error":        io.MultiReader(io.LimitReader(zeros{}, 1<<20), &failing{errors.New("bad")}),
		"short":        io.LimitReader(zeros{}, 1<<20-1),
		"error at end": io.MultiReader(io.LimitReader(zeros{}, 1<<20), &failing{io.ErrUnexpectedEOF}),
	} {
		t.Run(name, func(t *testing.T) {
			addr, _ := listenFramed(t, FramedOptions{Length: 4}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				return &proxy.Reply{Status: 200, Body: body, Length: 1 << 20}
			})
			p := connect(t, addr)
			p.send(framed(4, "<a/>", "<b/>"))
			if _, err := p.tryFrame(4); err == nil || isTimeout(err) {
				t.Errorf("got %v, want a frame cut short", err)
			}
		})
	}
}

func TestFramedCloseConnection(t *testing.T) {
	addr, _ := listenFramed(t, FramedOptions{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		r := echoFrame(ctx, ex)
		r.CloseConnection = true
		return r
	})
	p := connect(t, addr)
	p.send(framed(2, "<a/>"))
	if got := p.frame(2); got != "<a/>" {
		t.Errorf("got %q", got)
	}
	p.closed()
}

func TestFramedPanic(t *testing.T) {
	log := new(logged)
	addr, _ := listenFramed(t, FramedOptions{Log: log.logger()}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Length == 3 {
			panic("a bug")
		}
		return echoFrame(ctx, ex)
	})
	p := connect(t, addr)
	p.send(framed(2, "bug", "<b/>"))
	if got := p.frame(2); !strings.Contains(got, ">Internal<") || strings.Contains(got, "bug") {
		t.Errorf("got %q", got)
	}
	if got := p.frame(2); got != "<b/>" {
		t.Errorf("got %q", got)
	}
	if s := log.String(); !strings.Contains(s, "a bug") || strings.Contains(s, "goroutine") {
		t.Errorf("log: got %q", s)
	}
}

func TestFramedDrain(t *testing.T) {
	began, release := make(chan bool, 1), make(chan bool)
	addr, stop := listenFramed(t, FramedOptions{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		if ex.Length > 4 {
			began <- true
			<-release
		}
		return echoFrame(ctx, ex)
	})
	silent, idle, busy := connect(t, addr), connect(t, addr), connect(t, addr)
	idle.send(framed(2, "<a/>"))
	idle.frame(2)
	busy.send(framed(2, "<busy/>"))
	await(t, began, "request")
	done := make(chan error, 1)
	go func() { done <- stop() }()
	silent.closed()
	idle.closed()
	release <- true
	if got := busy.frame(2); got != "<busy/>" {
		t.Errorf("got %q", got)
	}
	busy.closed()
	if err := await(t, done, "Run"); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the address still accepts")
	}
}

func TestFramedDrainBudget(t *testing.T) {
	began, cause := make(chan bool, 1), make(chan error, 1)
	addr, stop := listenFramed(t, FramedOptions{Drain: 30 * time.Millisecond}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		began <- true
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	})
	p := connect(t, addr)
	p.send(framed(2, "<a/>"))
	await(t, began, "request")
	if err := stop(); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if err := await(t, cause, "cause"); !errors.Is(err, ErrShutdown) {
		t.Errorf("cause: got %v, want %v", err, ErrShutdown)
	}
	if _, err := io.ReadAll(p.r); isTimeout(err) { // whether the fault comes through is a race
		t.Errorf("connection: got %v, want it closed", err)
	}
}

func TestFramedOptions(t *testing.T) {
	_, err := NewFramed(FramedOptions{Length: 3, MaxMessage: -1, Buffer: -1, MaxConnections: -1, Pipeline: -1, Timeouts: Timeouts{BodyIdle: -1}}, nil)
	if err == nil || strings.Count(err.Error(), "option ") != 7 {
		t.Errorf("NewFramed: got %v, want seven bad options", err)
	}
}

func TestFramedCut(t *testing.T) {
	noLeaks(t)
	began := make(chan bool, 1)
	l, err := NewFramed(FramedOptions{Address: "127.0.0.1:0", Drain: time.Hour}, serverFunc(func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		began <- true
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	addr, stop := running(t, l)
	p := connect(t, addr)
	p.send(framed(2, "<a/>"))
	await(t, began, "request")
	l.Cut()
	if err := stop(); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}

// New sizes hold for connections made after them.
func TestFramedSetSizes(t *testing.T) {
	noLeaks(t)
	l, err := NewFramed(FramedOptions{Address: "127.0.0.1:0", MaxMessage: 10}, serverFunc(echoFrame))
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := running(t, l)
	old := connect(t, addr)
	old.send(framed(2, "ten octets"))
	old.frame(2)
	l.SetSizes(1<<40, 0)
	p := connect(t, addr)
	p.send(framed(2, strings.Repeat("x", 65535)))
	if got := p.frame(2); len(got) != 65535 {
		t.Errorf("new connection: got %d octets", len(got))
	}
	old.send(framed(2, "more than ten"))
	old.closed()
}
