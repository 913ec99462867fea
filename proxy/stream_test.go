package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/proxy/balance"
	"soapway/soapcodec"
)

// big is an envelope of n octets and a little more.
func big(n int) []byte {
	return []byte(strings.Replace(env11, ">x<", ">"+strings.Repeat("0123456789abcdef", n/16)+"<", 1))
}

func streamRoute() Route { return Route{Limits: Limits{Buffer: 64 << 10}} }

func TestLargeRequest(t *testing.T) {
	doc := big(1 << 20)
	for _, c := range []struct {
		name   string
		length int64
		change func(*Exchange, *Route)
		want   []byte
		known  bool
	}{
		{name: "known length", length: int64(len(doc)), want: doc, known: true},
		{name: "chunked", length: -1, want: doc},
		{name: "gzip", length: 0, want: doc, change: func(ex *Exchange, r *Route) {
			r.Limits.DecodeRatio = -1
			raw := encode(t, "gzip", doc)
			ex.Body, ex.Length = bytes.NewReader(raw), int64(len(raw))
			ex.Header.Set("Content-Encoding", "gzip")
		}},
		{name: "Latin-1", length: int64(len(doc)), want: doc, change: func(ex *Exchange, _ *Route) {
			ex.Header.Set("Content-Type", "text/xml; charset=iso-8859-1")
		}},
		{name: "normalized", length: int64(len(doc)), want: doc, change: func(ex *Exchange, r *Route) { r.Normalize = soapcodec.Envelope }},
		{name: "by operation", length: int64(len(doc)), want: doc, known: true, change: func(_ *Exchange, r *Route) {
			r.Match.Operation = soapcodec.QName{Space: "urn:depot", Local: "Ask"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			r := streamRoute()
			ex := exchange("text/xml", "")
			ex.Body, ex.Length = bytes.NewReader(doc), c.length
			if c.change != nil {
				c.change(ex, &r)
			}
			var o observed
			h := one(t, r, n)
			h.opt.Observer = &o
			serve(t, h, ex).wantAnswer(t, 200, reply11)
			s := n.last(t)
			if s.body != string(c.want) {
				t.Errorf("the node got %d octets, want %d; first difference at %d", len(s.body), len(c.want), firstDiff([]byte(s.body), c.want))
			}
			if c.known && s.Length != ex.Length || !c.known && s.Length != -1 || !s.Once {
				t.Errorf("the node got Length %d, Once %v", s.Length, s.Once)
			}
			if e := o.exchanges[0]; e.CodecBytes < int64(len(doc)) || e.Version != soapcodec.V11 {
				t.Errorf("observed %+v", e)
			}
		})
	}
}

// TestBadLargeRequest: the node never gets the end of a message that is bad,
// the caller gets the fault, and no other node is tried.
func TestBadLargeRequest(t *testing.T) {
	doc := big(1 << 20)
	swap := func(old, new string) []byte { return bytes.Replace(doc, []byte(old), []byte(new), 1) }
	for _, c := range []struct {
		name  string
		body  io.Reader
		route Route
		code  soapcodec.Code
		plain int
	}{
		{name: "wrong end tag", body: bytes.NewReader(swap("</soap:Envelope>", "</soap:Envelop>")), code: "NotWellFormed"},
		{name: "octets behind", body: bytes.NewReader(append(bytes.Clone(doc), "<x/>"...)), code: "NotWellFormed"},
		{name: "ends too early", body: bytes.NewReader(doc[:len(doc)-3]), code: "NotWellFormed"},
		{name: "undecodable at the end", body: bytes.NewReader(swap("</p:Ask>", "\xff</p:Ask>")), code: "Charset"},
		{name: "breaks off", body: io.MultiReader(bytes.NewReader(doc[:900_000]), &chunks{err: io.ErrUnexpectedEOF}), code: "Incomplete"},
		{name: "breaks off at the last octet", body: io.MultiReader(bytes.NewReader(doc), &chunks{err: io.ErrUnexpectedEOF}), code: "Incomplete"},
		{name: "too large", body: bytes.NewReader(doc), route: Route{Limits: Limits{MaxMessage: 900_000}}, plain: 413, code: "TooLarge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newNode("http://node.test/a"), newNode("http://node.test/b")
			r := streamRoute()
			r.Limits.MaxMessage = c.route.Limits.MaxMessage
			r.Backend = &Backend{Nodes: []Node{a, b}, Policy: new(balance.RoundRobin)}
			ex := exchange("text/xml", "")
			ex.Body, ex.Length = c.body, -1
			g := serve(t, one(t, r), ex)
			if c.plain != 0 {
				g.wantPlain(t, c.plain, c.code)
			} else {
				g.wantFault(t, soapcodec.V11, c.code)
			}
			if !g.CloseConnection {
				t.Error("the connection is not closed")
			}
			s := a.last(t)
			if s.err == nil || len(s.body) == 0 || len(s.body) > len(doc)-holdBack {
				t.Errorf("the node got %d octets of %d, then %v", len(s.body), len(doc), s.err)
			}
			if len(b.got) != 0 {
				t.Error("another node was tried")
			}
		})
	}
}

// TestEarlyFaultTouchesNoNode: what is wrong in the first Buffer octets is known
// before a connection is made.
func TestEarlyFaultTouchesNoNode(t *testing.T) {
	n := newNode("http://node.test/svc")
	for _, wrong := range []string{"0<1>23", "0&23", "]]>", "</p:Tell>"} {
		ex := exchange("text/xml", "")
		ex.Body, ex.Length = bytes.NewReader(bytes.Replace(big(1<<20), []byte("0123"), []byte(wrong), 1)), -1
		serve(t, one(t, streamRoute(), n), ex).wantFault(t, soapcodec.V11, soapcodec.CodeNotWellFormed)
	}
	if len(n.got) != 0 {
		t.Errorf("the node got %d requests", len(n.got))
	}
}

// TestStreamIsTriedAgainUntouched: a stream goes to the next node while nobody
// has taken an octet of it, and never afterwards.
func TestStreamIsTriedAgainUntouched(t *testing.T) {
	doc := big(300_000)
	for _, touched := range []bool{false, true} {
		a, b := newNode("http://node.test/a"), newNode("http://node.test/b")
		a.unread = true
		a.answer = func(_ context.Context, req *Request) (*Response, error) {
			rc, err := req.Body()
			if err != nil {
				t.Error(err)
			}
			if touched {
				if _, err := rc.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
			rc.Close()
			if _, err := rc.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
				t.Errorf("Read of a closed body: got %v", err)
			}
			if _, err := req.Body(); touched != errors.Is(err, ErrBodyUsed) {
				t.Errorf("Body again, touched %v: got %v", touched, err)
			}
			return nil, &SendError{Class: NotSent, Err: errDial}
		}
		r := streamRoute()
		r.Backend = &Backend{Nodes: []Node{a, b}, Policy: new(balance.RoundRobin)}
		ex := exchange("text/xml", "")
		ex.Body, ex.Length = bytes.NewReader(doc), int64(len(doc))
		g := serve(t, one(t, r), ex)
		if touched {
			g.wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
			continue
		}
		g.wantAnswer(t, 200, reply11)
		if s := b.last(t); s.body != string(doc) {
			t.Errorf("the second node got %d octets, want %d", len(s.body), len(doc))
		}
	}
}

// TestSpoolForFramedNode: a framed node is given a known length, and a message
// only after it has passed every check.
func TestSpoolForFramedNode(t *testing.T) {
	doc := big(1 << 20)
	dir := t.TempDir()
	framed := func() *node { return newNode("framed://node.test:7000") }
	a, b := framed(), framed()
	a.answer = always(nil, &SendError{Class: NotSent, Err: errDial})
	r := streamRoute()
	r.Backend = &Backend{Nodes: []Node{a, b}, Policy: new(balance.RoundRobin)}
	h := one(t, r)
	h.opt.SpoolDir = dir
	ex := exchange("text/xml", "")
	ex.Body, ex.Length = bytes.NewReader(doc), -1
	serve(t, h, ex).wantAnswer(t, 200, reply11)
	for _, n := range []*node{a, b} {
		if s := n.last(t); s.body != string(doc) || s.Length != int64(len(doc)) || s.Once {
			t.Errorf("a node got %d octets, Length %d, Once %v", len(s.body), s.Length, s.Once)
		}
	}
	ex = exchange("text/xml", "")
	ex.Body, ex.Length = bytes.NewReader(doc[:len(doc)-1]), -1
	serve(t, h, ex).wantFault(t, soapcodec.V11, soapcodec.CodeNotWellFormed)
	if len(a.got)+len(b.got) != 2 {
		t.Error("a node got a bad message")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the spool has %v, %v", left, err)
	}
	h.opt.SpoolDir = dir + "/missing"
	ex = exchange("text/xml", "")
	ex.Body, ex.Length = bytes.NewReader(doc), -1
	g := serve(t, h, ex)
	g.wantPlain(t, 503, "Busy")
	if g.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestLargeReply(t *testing.T) {
	doc := big(1 << 20)
	for _, name := range []string{"", "gzip", "zstd"} {
		rng := rand.New(rand.NewPCG(7, 8))
		noisy := bytes.Clone(doc) // or it would compress to less than Buffer
		for i := 200; i < len(noisy)-200; i++ {
			noisy[i] = "abcdefghijklmnopqrstuvwxyz012345"[rng.IntN(32)]
		}
		raw := encode(t, name, noisy)
		for what, b := range map[string][]byte{"good": raw, "cut": raw[:len(raw)-9]} {
			for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
				n := newNode("http://node.test/svc")
				resp := &Response{
					Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Length: int64(len(b)),
					Body: io.NopCloser(&chunks{parts: [][]byte{bytes.Clone(b)}, err: end}),
				}
				if name != "" {
					resp.Header.Set("Content-Encoding", name)
				}
				n.answer = always(resp, nil)
				var o observed
				var log strings.Builder
				h := one(t, streamRoute(), n)
				h.opt.Observer, h.opt.Log = &o, textLog(&log)
				g := serve(t, h, exchange("text/xml", env11))
				if g.Status != 200 || g.Length != int64(len(b)) {
					t.Errorf("%s %s: got %d, Length %d", name, what, g.Status, g.Length)
				}
				if what == "good" && end == io.EOF {
					if g.body != string(b) || g.err != nil || o.exchanges[0].Outcome != OutcomeAnswered || log.Len() != 0 {
						t.Errorf("%s %s: got %d octets of %d, %v, %+v, log %s", name, what, len(g.body), len(b), g.err, o.exchanges[0], log.String())
					}
					continue
				}
				code := soapcodec.CodeBackendNotSOAP
				if end != io.EOF {
					code = soapcodec.CodeBackendBroken
				}
				if g.err == nil || len(g.body) > len(b)-holdBack || !strings.HasPrefix(string(b), g.body) {
					t.Errorf("%s %s, then %v: got %d octets of %d, %v", name, what, end, len(g.body), len(b), g.err)
				}
				if e := o.exchanges[0]; e.Outcome != OutcomeFailed || e.Code != code || strings.Count(log.String(), "\n") != 1 {
					t.Errorf("%s %s, then %v: observed %+v, log %s", name, what, end, e, log.String())
				}
			}
		}
	}
}

// TestEarlyBadReply: an answer that is bad in its first Buffer octets is a
// fault, not a cut connection.
func TestEarlyBadReply(t *testing.T) {
	n := newNode("http://node.test/svc")
	n.answer = always(respond(200, "text/xml", "<html>"+strings.Repeat("<br>", 100_000)), nil)
	serve(t, one(t, streamRoute(), n), exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
	n.answer = always(respond(404, "text/xml", "<html>"+strings.Repeat("<br>", 100_000)), nil)
	serve(t, one(t, streamRoute(), n), exchange("text/xml", env11)).wantPlain(t, 404, "BackendNotSOAP")
}

// TestAnswerBeforeTheEnd: a node may answer while it still reads. Its reader
// outlives the exchange without touching memory that others use (-race), and
// the connection of the caller is not used again.
func TestAnswerBeforeTheEnd(t *testing.T) {
	for _, size := range []int{200, 500_000} {
		var wg sync.WaitGroup
		n := newNode("http://node.test/svc")
		n.unread = true
		release := make(chan struct{})
		n.answer = func(_ context.Context, req *Request) (*Response, error) {
			rc, err := req.Body()
			if err != nil {
				return nil, err
			}
			wg.Go(func() {
				<-release
				b, _ := io.ReadAll(rc)
				if size < 1000 && string(b) != string(big(size)) {
					t.Errorf("the late reader got %d octets, want %d", len(b), len(big(size)))
				}
				rc.Close()
			})
			return respond(200, "text/xml", reply11), nil
		}
		h := one(t, streamRoute(), n)
		ex := exchange("text/xml", "")
		ex.Body, ex.Length = bytes.NewReader(big(size)), int64(len(big(size)))
		g := serve(t, h, ex)
		g.wantAnswer(t, 200, reply11)
		if g.CloseConnection != (size > 1000) {
			t.Errorf("%d octets: CloseConnection is %v", size, g.CloseConnection)
		}
		close(release)
		for range 20 { // others use the pool meanwhile
			other := one(t, Route{}, newNode("http://node.test/o"))
			serve(t, other, exchange("text/xml", strings.Replace(env11, ">x<", ">"+strings.Repeat("z", 200)+"<", 1)))
		}
		wg.Wait()
	}
}

// TestEchoOfAStream: a node that answers with what it reads makes the reply's
// reader pull the request; a request that turns bad then cuts the reply.
func TestEchoOfAStream(t *testing.T) {
	doc := big(1 << 20)
	for _, bad := range []bool{false, true} {
		n := newNode("builtin:echo")
		n.unread = true
		n.answer = func(_ context.Context, req *Request) (*Response, error) {
			rc, err := req.Body()
			if err != nil {
				return nil, err
			}
			return &Response{Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Body: rc, Length: -1}, nil
		}
		body := doc
		if bad {
			body = bytes.Replace(doc, []byte("</soap:Envelope>"), []byte("</soap:Envelop>"), 1)
		}
		var o observed
		h := one(t, streamRoute(), n)
		h.opt.Observer = &o
		ex := exchange("text/xml", "")
		ex.Body, ex.Length = bytes.NewReader(body), -1
		g := serve(t, h, ex)
		if !bad {
			g.wantAnswer(t, 200, string(doc))
			continue
		}
		if g.err == nil || len(g.body) > len(doc)-holdBack || o.exchanges[0].Outcome != OutcomeRejected {
			t.Errorf("got %d octets, %v, observed %+v", len(g.body), g.err, o.exchanges[0])
		}
	}
}

// TestPanicInAStream: it happens on the node's goroutine and must not end the
// process.
func TestPanicInAStream(t *testing.T) {
	n := newNode("http://node.test/svc")
	var log strings.Builder
	h := one(t, streamRoute(), n)
	h.opt.Log = textLog(&log)
	doc := big(300_000)
	ex := exchange("text/xml", "")
	ex.Length = -1
	ex.Body = io.MultiReader(bytes.NewReader(doc[:200_000]), readerFunc(func([]byte) (int, error) { panic("secret of node.test") }))
	g := serve(t, h, ex)
	g.wantFault(t, soapcodec.V11, soapcodec.CodeInternal)
	if s := n.last(t); len(s.body) > 200_000 || !strings.Contains(log.String(), "secret of node.test") {
		t.Errorf("the node got %d octets; log %s", len(s.body), log.String())
	}
}

// FuzzServe: whether a message is checked as a whole or while it streams makes
// no difference to the answer or to the octets that the node gets.
func FuzzServe(f *testing.F) {
	f.Add([]byte(env11), "text/xml; charset=utf-8", "", true, false)
	f.Add([]byte(env12), "application/soap+xml", "", false, true)
	f.Add([]byte(utf16le(env12)), "application/soap+xml; charset=utf-16", "", true, true)
	f.Add(encode(f, "gzip", []byte(env11)), "text/xml", "gzip", false, false)
	f.Add(bigEnvelope(rand.New(rand.NewPCG(1, 2)), 40_000), "text/xml", "", true, true)
	f.Fuzz(func(t *testing.T, body []byte, typ, coding string, normalize, isNode bool) {
		var replies [2]got
		var bodies [2]string
		for i, buffer := range []int64{1 << 20, 1 << 10} {
			n := newNode("http://node.test/svc")
			r := Route{Node: isNode, Limits: Limits{Buffer: buffer}}
			if normalize {
				r.Normalize = soapcodec.Envelope
			}
			ex := exchange(typ, string(body))
			if coding != "" {
				ex.Header.Set("Content-Encoding", coding)
			}
			replies[i] = serve(t, one(t, r, n), ex)
			if len(n.got) > 0 && n.got[0].err == nil {
				bodies[i] = n.got[0].body
			}
		}
		a, b := replies[0], replies[1]
		if b.Code == soapcodec.CodeLimit {
			return // the head did not fit what a stream may hold
		}
		if a.Status != b.Status || a.Code != b.Code || a.Version != b.Version {
			t.Fatalf("whole: %d %s %v; streaming: %d %s %v", a.Status, a.Code, a.Version, b.Status, b.Code, b.Version)
		}
		if bodies[0] != bodies[1] {
			t.Errorf("whole: the node got %q; streaming: %q", bodies[0], bodies[1])
		}
	})
}

// TestStreamMemory: a message of 40 MB needs no more than a few megabytes.
func TestStreamMemory(t *testing.T) {
	const units = 8_000
	unit := []byte("<p:t>" + strings.Repeat("text ", 1000) + "</p:t>")
	head, tail, _ := strings.Cut(env11, "x</p:Ask>")
	tail = "</p:Ask>" + tail
	message := func() (io.Reader, int64) {
		return io.MultiReader(strings.NewReader(head), &repeat{unit: unit, left: units}, strings.NewReader(tail)),
			int64(len(head) + len(tail) + units*len(unit))
	}
	n := newNode("http://node.test/svc")
	n.unread = true
	var peak uint64
	n.answer = func(_ context.Context, req *Request) (*Response, error) {
		rc, err := req.Body()
		if err != nil {
			return nil, err
		}
		defer rc.Close()
		buf := make([]byte, 32<<10)
		var total int64
		for i := 0; ; i++ {
			m, err := rc.Read(buf)
			total += int64(m)
			if i%500 == 0 {
				runtime.GC()
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				peak = max(peak, s.HeapAlloc)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if total != req.Length {
			t.Errorf("the node got %d octets, want %d", total, req.Length)
		}
		body, length := message()
		return &Response{Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Body: io.NopCloser(body), Length: length}, nil
	}
	h := one(t, Route{Limits: Limits{MaxMessage: -1}}, n)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ex := exchange("text/xml", "")
	ex.Body, ex.Length = message()
	r := h.Serve(t.Context(), ex)
	got, err := io.Copy(io.Discard, struct{ io.Reader }{r.Body})
	if err != nil || got != r.Length {
		t.Errorf("got %d octets of %d, %v", got, r.Length, err)
	}
	r.Close()
	if grown := int64(peak) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
}

// TestNoGoroutines: the handler starts none of its own, whatever happens.
func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	doc := big(300_000)
	bad := newNode("http://node.test/bad")
	bad.answer = always(nil, &SendError{Class: Maybe, Timeout: true, Err: errDial})
	good := newNode("http://node.test/good")
	for i := range 60 {
		n := good
		if i%2 == 0 {
			n = bad
		}
		ex := exchange("text/xml", env11)
		if i%3 == 0 {
			ex.Body, ex.Length = bytes.NewReader(doc[:len(doc)-i]), -1
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		serveCtx(t, ctx, one(t, streamRoute(), n), ex)
		cancel()
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
