package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// shelf is an Enqueuer that keeps what it gets.
type shelf struct {
	mu      sync.Mutex
	kept    []*Stored
	err     error
	relaxed bool
	ctx     context.Context
	jars    []*jar
	full    int // octets that a blob may have; 0 = any
}

func (s *shelf) Enqueue(ctx context.Context, m *Stored) (Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	if s.err == nil {
		s.kept = append(s.kept, m)
	}
	return Receipt{Relaxed: s.relaxed}, s.err
}

// jar is a blob of a test: what was written, in memory.
type jar struct {
	s      *shelf
	b      []byte
	closed bool
}

func (s *shelf) NewBlob(int64) (BlobWriter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	w := &jar{s: s}
	s.jars = append(s.jars, w)
	return w, nil
}

func (w *jar) Write(p []byte) (int, error) {
	if w.s.full > 0 && len(w.b)+len(p) > w.s.full {
		return 0, fmt.Errorf("disk: %w", ErrStoreBusy)
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

func (w *jar) Blob() (Blob, error) { return octetsBlob(w.b), nil }

func (w *jar) Close() error { w.closed = true; return nil }

// octetsBlob is a Blob in memory.
type octetsBlob []byte

func (b octetsBlob) Size() int64 { return int64(len(b)) }

func (b octetsBlob) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }

// octets is what a message has, wherever it is.
func (m *Stored) octets() []byte {
	if b, ok := m.Blob.(octetsBlob); ok {
		return b
	}
	return m.Body
}

// storing is a handler with one queue route that stores on s.
func storing(t testing.TB, s *shelf, r Route, nodes ...Node) *Handler {
	t.Helper()
	if len(nodes) == 0 {
		nodes = []Node{newNode("http://node.test/x")}
	}
	r.Name, r.Delivery = "r", Queue
	r.Backend = &Backend{Name: "b", Nodes: nodes, Headers: r.backendHeaders()}
	opt := Options{SpoolDir: t.TempDir()}
	if s != nil {
		opt.Enqueuer = s
	}
	return NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), opt)
}

func (r Route) backendHeaders() map[string]string {
	if r.Backend == nil {
		return nil
	}
	return r.Backend.Headers
}

// storedMessage is what a queue route makes of a plain message.
func storedMessage(t testing.TB, body string, fields ...string) *Stored {
	t.Helper()
	s := &shelf{}
	if g := serve(t, storing(t, s, Route{}), exchange("text/xml; charset=utf-8", body, append(fields, "SOAPAction", `"urn:a"`)...)); g.Status != 202 {
		t.Fatalf("not stored: %d %s", g.Status, g.body)
	}
	return s.kept[0]
}

func TestEnqueue(t *testing.T) {
	s := &shelf{}
	h := storing(t, s, Route{Match: Match{Path: "/depot/*"}, OrderBy: Key{Source: KeyRoute}})
	ex := exchange("text/xml; charset=utf-8", env11,
		"SOAPAction", `"urn:a"`, "X-Customer", "7", "Authorization", "Basic x", "Cookie", "a=b", "Proxy-Authorization", "x",
		"Proxy-Foo", "x", "Expect", "100-continue", "Accept-Encoding", "gzip", "Connection", "X-Hop", "X-Hop", "1", "Gateway-Attempt", "9",
		"Traceparent", "00-1", "X-Bin", "caf\xe9")
	ex.Target = "/depot/a%2Fb?x=1&y"
	g := serve(t, h, ex)
	g.wantPlain(t, 202, "")
	if len(s.kept) != 1 {
		t.Fatalf("%d messages were stored", len(s.kept))
	}
	m := s.kept[0]
	want := field.Of(http.Header{"Gateway-Message-Id": {m.ID}, "Location": {"/_gateway/messages/" + m.ID}})
	if d := cmp.Diff(want, g.Header); d != "" {
		t.Errorf("receipt (-want +got):\n%s", d)
	}
	if m.ID == "" || m.Route != "r" || m.Backend != "b" || m.Lane != "route" || m.Operation != "Ask" || !m.Accepted.Equal(ex.Received) || string(m.Body) != env11 {
		t.Errorf("stored: got %+v", m)
	}
	n := newNode("http://node.test/x")
	h = storing(t, s, Route{Match: Match{Path: "/depot/*"}, Backend: &Backend{Headers: map[string]string{"Authorization": "Bearer own"}}}, n)
	if r := h.Deliver(t.Context(), m, Try{Attempt: 3, PossibleDuplicate: true}); r.Verdict != VerdictDelivered {
		t.Fatalf("Deliver: got %+v", r)
	}
	got := n.last(t)
	if got.body != env11 || got.ID != m.ID || got.Rest != "/a%2Fb" || got.Query != "x=1&y" || !got.HasQuery || got.Method != "POST" ||
		got.Length != int64(len(env11)) || got.Version != soapcodec.V11 || got.Host != "" || got.Once {
		t.Errorf("the node got %+v", got.Request)
	}
	wantHeader := http.Header{
		"Content-Type": {"text/xml; charset=utf-8"}, "SOAPAction": {`"urn:a"`}, "X-Customer": {"7"}, "Traceparent": {"00-1"}, "X-Bin": {"caf\xe9"},
		"Via": {"1.1 gateway"}, "X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Host": {"gw.test"}, "X-Forwarded-Proto": {"http"},
		"Forwarded":          {"for=192.0.2.7;host=gw.test;proto=http"},
		"Gateway-Message-Id": {m.ID}, "Gateway-Attempt": {"3"}, "Gateway-Possible-Duplicate": {"true"}, "Authorization": {"Bearer own"},
	}
	if d := cmp.Diff(wantHeader, got.Header.HTTP()); d != "" {
		t.Errorf("fields at the node (-want +got):\n%s", d)
	}
	for _, secret := range []string{"Basic x", "a=b", "own"} {
		if strings.Contains(string(m.Meta), secret) {
			t.Errorf("the store holds the secret %q: %s", secret, m.Meta)
		}
	}
}

// TestEnqueueSameAsSync: a stored message reaches the node as it would have
// while the caller waits, but for the fields that storing changes.
func TestEnqueueSameAsSync(t *testing.T) {
	for _, c := range []struct {
		name  string
		route Route
		ex    func() *Exchange
	}{
		{name: "1.1", ex: func() *Exchange { return exchange("text/xml", env11, "SOAPAction", "bare", "User-Agent", "u") }},
		{name: "1.2", ex: func() *Exchange { return exchange(`application/soap+xml; action="urn:x"`, env12) }},
		{name: "latin 1", ex: func() *Exchange {
			return exchange("text/xml; charset=iso-8859-1", strings.Replace(env11, ">x<", ">caf\xe9<", 1), "Content-MD5", "x")
		}},
		{name: "gzip", ex: func() *Exchange {
			return exchange("text/xml", string(encode(t, "gzip", []byte(env11))), "Content-Encoding", "gzip", "Digest", "x")
		}},
		{name: "byte order mark", ex: func() *Exchange { return exchange("text/xml; charset=utf-8", "\ufeff"+env11) }},
		{name: "normalized", route: Route{Normalize: soapcodec.Envelope}, ex: func() *Exchange {
			return exchange("text/xml", strings.Replace(env11, "<soap:Body>", " <!-- c --><soap:Body  >", 1))
		}},
		{name: "any path, node without one", ex: func() *Exchange { e := exchange("text/xml", env11); e.Target = "/a/b?c"; return e }},
		{name: "framed", ex: func() *Exchange {
			e := exchange("", env12)
			e.Framed, e.Header, e.Target, e.Host = true, nil, "", ""
			return e
		}},
		{name: "chunked, byte by byte", ex: func() *Exchange {
			e := exchange("text/xml", env11)
			e.Body, e.Length = iotest.OneByteReader(e.Body), -1
			return e
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test")
			r := c.route
			r.Name, r.Backend = "r", &Backend{Name: "b", Nodes: []Node{n}, HostClient: true}
			direct := NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{})
			serve(t, direct, c.ex())
			want := n.last(t)

			s := &shelf{}
			r.Delivery = Queue
			h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{Enqueuer: s})
			if g := serve(t, h, c.ex()); g.Status != 202 || g.body != "" || g.Code != "" {
				t.Fatalf("receipt: %d %s", g.Status, g.body)
			}
			// What the store gives back is what it got, in other memory.
			m := *s.kept[0]
			m.Meta, m.Body = bytes.Clone(m.Meta), bytes.Clone(m.Body)
			h.Deliver(t.Context(), &m, Try{Attempt: 1})
			got := n.last(t)
			got.Header.Del("Gateway-Message-Id", "Gateway-Attempt")
			want.Header.Del("Gateway-Message-Id", "Gateway-Attempt")
			if d := cmp.Diff(want.Header.HTTP(), got.Header.HTTP()); d != "" {
				t.Errorf("fields (-sync +queue):\n%s", d)
			}
			if got.body != want.body || got.Rest != want.Rest || got.Query != want.Query || got.HasQuery != want.HasQuery ||
				got.Host != want.Host || got.Version != want.Version || got.Timeouts != want.Timeouts {
				t.Errorf("got %+v %q\nwant %+v %q", got.Request, got.body, want.Request, want.body)
			}
		})
	}
}

func TestEnqueueRefused(t *testing.T) {
	sequence := func(ns, mu string) string {
		return strings.Replace(env11, "<soap:Body>", `<soap:Header><w:Sequence xmlns:w="`+ns+`" soap:mustUnderstand="`+mu+`"/></soap:Header><soap:Body>`, 1)
	}
	large := strings.Replace(env11, ">x<", ">"+strings.Repeat("x", MaxKept)+"<", 1)
	for _, c := range []struct {
		name   string
		err    error
		body   string
		framed bool
		none   bool // there is no store
		plain  int
		code   soapcodec.Code
		fields field.List
	}{
		{name: "full", err: fmt.Errorf("disk: %w", ErrStoreBusy), plain: 503, code: soapcodec.CodeBusy, fields: field.Of(http.Header{"Retry-After": {"1"}})},
		{name: "no store", none: true, plain: 503, code: soapcodec.CodeBusy, fields: field.Of(http.Header{"Retry-After": {"1"}})},
		{name: "unknown", err: ErrStoreUnknown, plain: 503, code: soapcodec.CodeOutcomeUnknown, fields: field.Of(http.Header{"Gateway-Outcome": {"unknown"}, "Retry-After": {"1"}})},
		{name: "too large for the store", err: ErrStoreTooLarge, plain: 413, code: soapcodec.CodeTooLarge},
		{name: "framed full", framed: true, err: ErrStoreBusy, plain: 503, code: soapcodec.CodeBusy},
		{name: "framed unknown", framed: true, err: ErrStoreUnknown, plain: 503, code: soapcodec.CodeOutcomeUnknown},
		{name: "large, full", body: large, err: fmt.Errorf("disk: %w", ErrStoreBusy), plain: 503, code: soapcodec.CodeBusy, fields: field.Of(http.Header{"Retry-After": {"1"}})},
		{name: "large, no store", body: large, none: true, plain: 503, code: soapcodec.CodeBusy},
		{name: "large, mandatory sequence", body: strings.Replace(large, "<soap:Body>", `<soap:Header><w:Sequence xmlns:w="http://docs.oasis-open.org/ws-rx/wsrm/200702" soap:mustUnderstand="1"/></soap:Header><soap:Body>`, 1), code: soapcodec.CodeMustUnderstand},
		{name: "not well-formed", body: env11[:80], code: soapcodec.CodeNotWellFormed},
		{name: "empty", body: "\x00", code: soapcodec.CodeNotWellFormed},
		{name: "mandatory sequence", body: sequence("http://docs.oasis-open.org/ws-rx/wsrm/200702", "1"), code: soapcodec.CodeMustUnderstand},
		{name: "mandatory sequence of 2005", body: sequence("http://schemas.xmlsoap.org/ws/2005/02/rm", "1"), code: soapcodec.CodeMustUnderstand},
		{name: "mandatory sequence of a draft", body: sequence("http://docs.oasis-open.org/ws-rx/wsrm/200502", "true"), code: soapcodec.CodeMustUnderstand},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shelf{err: c.err}
			h := storing(t, s, Route{})
			if c.none {
				h = storing(t, nil, Route{})
			}
			if c.body == "" {
				c.body = env11
			}
			ex := exchange("text/xml", c.body)
			ex.Framed = c.framed
			g := serve(t, h, ex)
			if c.plain == 0 {
				g.wantFault(t, soapcodec.V11, c.code)
			} else {
				g.wantPlain(t, c.plain, c.code)
			}
			for k, v := range c.fields.HTTP() {
				if d := cmp.Diff(v, g.Header.Values(k)); d != "" {
					t.Errorf("%s (-want +got):\n%s", k, d)
				}
			}
			if len(s.kept) > 0 {
				t.Error("it was stored")
			}
		})
	}
	// One that nobody insists on, or of another namespace, is only a header block.
	for _, body := range []string{sequence("http://docs.oasis-open.org/ws-rx/wsrm/200702", "0"), sequence("urn:own", "1")} {
		if g := serve(t, storing(t, &shelf{}, Route{}), exchange("text/xml", body)); g.Status != 202 {
			t.Errorf("got %d %s, want 202 for %s", g.Status, g.body, body)
		}
	}
}

// TestEnqueueLarge: what is larger than the buffer of a stream is stored too,
// after all of it was checked.
func TestEnqueueLarge(t *testing.T) {
	big := strings.Replace(env11, ">x<", ">"+strings.Repeat("x", 3<<20)+"<", 1)
	s := &shelf{}
	h := storing(t, s, Route{})
	ex := exchange("text/xml", big)
	ex.Length = -1
	if g := serve(t, h, ex); g.Status != 202 || len(s.kept) != 1 || string(s.kept[0].octets()) != big || s.kept[0].Blob == nil {
		t.Fatalf("got %d, %d stored", g.Status, len(s.kept))
	}
	ex = exchange("text/xml", big+"<late/>")
	ex.Length = -1
	serve(t, h, ex).wantFault(t, soapcodec.V11, soapcodec.CodeNotWellFormed)
	ex = exchange("text/xml", big[:2<<20])
	ex.Body, ex.Length = io.MultiReader(strings.NewReader(big[:2<<20]), iotest.ErrReader(io.ErrUnexpectedEOF)), int64(len(big))
	serve(t, h, ex).wantFault(t, soapcodec.V11, soapcodec.CodeIncomplete)
	// Announced too large: refused before it is read.
	ex = exchange("text/xml", "")
	ex.Body, ex.Length = iotest.ErrReader(errors.New("read")), defaultMaxMessage+1
	serve(t, h, ex).wantPlain(t, 413, soapcodec.CodeTooLarge)
	// The disk is full in the middle.
	s.full = 1 << 20
	serve(t, h, exchange("text/xml", big)).wantPlain(t, 503, soapcodec.CodeBusy)
	if len(s.kept) != 1 || len(s.jars) != 4 {
		t.Errorf("%d messages were stored of %d begun, want the good one of 4", len(s.kept), len(s.jars))
	}
	for i, w := range s.jars {
		if !w.closed {
			t.Errorf("body %d was not let go of", i)
		}
	}
}

// TestEnqueueManyLarge: few messages of unknown length are read into memory at
// once; the others are files of the store, or stream.
func TestEnqueueManyLarge(t *testing.T) {
	s, n := &shelf{}, newNode("http://node.test/x")
	b := &Backend{Name: "b", Nodes: []Node{n}}
	ask := soapcodec.QName{Space: "urn:depot", Local: "Ask"}
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{Name: "path", Match: Match{Path: "/stored"}, Backend: b, Delivery: Queue},
		{Name: "stored", Match: Match{Operation: ask}, Backend: b, Delivery: Queue},
		{Name: "direct", Backend: b},
	}}), Options{Enqueuer: s, SpoolDir: t.TempDir()})
	unsure := func(op, target string) *Exchange {
		ex := exchange("text/xml", strings.ReplaceAll(strings.Replace(env11, ">x<", ">"+strings.Repeat("x", 2*unsureFirst)+"<", 1), "p:Ask", op))
		ex.Target, ex.Length = target, -1
		return ex
	}
	ask2 := func(inMemory bool) {
		t.Helper()
		for _, target := range []string{"/stored", "/by-envelope"} {
			s.kept = nil
			if g := serve(t, h, unsure("p:Ask", target)); g.Status != 202 || (s.kept[0].Blob == nil) != inMemory || len(s.kept[0].octets()) < 2*unsureFirst {
				t.Errorf("%s: got %d, %d octets, in memory %v, want that %v", target, g.Status, len(s.kept[0].octets()), s.kept[0].Blob == nil, inMemory)
			}
		}
		if g := serve(t, h, unsure("p:Tell", "/by-envelope")); g.Status != 200 {
			t.Errorf("one that is not stored: got %d", g.Status)
		}
		if g := serve(t, h, exchange("text/xml", env11)); g.Status != 202 {
			t.Errorf("a small one: got %d", g.Status)
		}
	}
	for range manyUnsure {
		h.large <- struct{}{}
	}
	ask2(false)
	for range manyUnsure {
		<-h.large
	}
	for range manyUnsure + 1 {
		ask2(true)
		bad := unsure("p:Ask", "/stored")
		bad.Body = io.MultiReader(bad.Body, strings.NewReader("<late/>"))
		serve(t, h, bad).wantFault(t, soapcodec.V11, soapcodec.CodeNotWellFormed)
	}
	if len(h.large) != 0 {
		t.Errorf("%d places are still taken", len(h.large))
	}
}

// TestEnqueueByEnvelope: the route, and with it the way of delivery, may only
// be known from the envelope.
func TestEnqueueByEnvelope(t *testing.T) {
	s, n := &shelf{}, newNode("http://node.test/x")
	b := &Backend{Name: "b", Nodes: []Node{n}}
	ask := soapcodec.QName{Space: "urn:depot", Local: "Ask"}
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{Name: "stored", Match: Match{Operation: ask}, Backend: b, Delivery: Queue},
		{Name: "direct", Backend: b},
	}}), Options{Enqueuer: s, SpoolDir: t.TempDir()})
	if g := serve(t, h, exchange("text/xml", env11)); g.Status != 202 {
		t.Errorf("Ask: got %d", g.Status)
	}
	other := strings.ReplaceAll(env11, "p:Ask", "p:Tell")
	if g := serve(t, h, exchange("text/xml", other)); g.Status != 200 {
		t.Errorf("Tell: got %d", g.Status)
	}
	huge := func(op string) *Exchange {
		ex := exchange("text/xml", strings.ReplaceAll(strings.Replace(env11, ">x<", ">"+strings.Repeat("x", MaxKept)+"<", 1), "p:Ask", op))
		return ex
	}
	if g := serve(t, h, huge("p:Tell")); g.Status != 200 {
		t.Errorf("large Tell: got %d, want it to stream", g.Status)
	}
	if g := serve(t, h, huge("p:Ask")); g.Status != 202 {
		t.Errorf("large Ask: got %d", g.Status)
	}
	if len(s.kept) != 2 {
		t.Errorf("%d messages were stored, want 2", len(s.kept))
	}
}

// TestEnqueueOutlivesTheCaller: once the body is read, a caller that leaves
// changes nothing.
func TestEnqueueOutlivesTheCaller(t *testing.T) {
	s := &shelf{relaxed: true}
	h := storing(t, s, Route{})
	ctx, leave := context.WithCancel(t.Context())
	ex := exchange("text/xml", env11)
	ex.Body = io.MultiReader(ex.Body, funcReader(func([]byte) (int, error) { leave(); return 0, io.EOF }))
	g := serveCtx(t, ctx, h, ex)
	if g.Status != 202 || len(s.kept) != 1 || s.ctx.Err() != nil {
		t.Errorf("got %d, %d stored, context of the store: %v", g.Status, len(s.kept), s.ctx.Err())
	}
	if got := g.Header.Get("Gateway-Durability"); got != "relaxed" {
		t.Errorf("Gateway-Durability: got %q, want relaxed", got)
	}
}

type funcReader func([]byte) (int, error)

func (f funcReader) Read(p []byte) (int, error) { return f(p) }

// TestStoredOctetsAreTheirOwn: pooled memory of one message never shows in
// another that was stored.
func TestStoredOctetsAreTheirOwn(t *testing.T) {
	s := &shelf{}
	h := storing(t, s, Route{Normalize: soapcodec.Envelope})
	var want []string
	for i := range 200 {
		body := strings.Replace(env11, ">x<", fmt.Sprintf(">%d%s<", i, strings.Repeat("y", i*37)), 1)
		if i%3 == 0 {
			body = "\ufeff" + body // stays, and is not in the scanner's view
		}
		want = append(want, body)
		serve(t, h, exchange("text/xml", body))
	}
	for i, m := range s.kept {
		if string(m.Body) != want[i] {
			t.Fatalf("message %d: stored %.200q, want %.200q", i, m.Body, want[i])
		}
	}
}

func TestDeliverErrors(t *testing.T) {
	down := &SendError{Class: NotSent, Err: errors.New("dial tcp 10.0.0.5:1: connect:\nrefused")}
	for _, c := range []struct {
		name string
		errs []error // by node
		want DeliveryResult
	}{
		{"not sent", []error{down}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true}},
		{"no connection free", []error{&SendError{Class: NotSent, Err: ErrNoConnection}}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true}},
		{"maybe", []error{&SendError{Class: Maybe, Err: io.ErrUnexpectedEOF}}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true, Maybe: true}},
		{"timed out", []error{&SendError{Class: Maybe, Timeout: true}}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true, Maybe: true}},
		{"an error of no class", []error{errors.New("odd")}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true, Maybe: true}},
		{"does not fit", []error{&SendError{Class: NotSent, Permanent: true, Err: errors.New("65536 octets")}}, DeliveryResult{Verdict: VerdictDead}},
		{"one down, one does not fit", []error{down, &SendError{Class: NotSent, Permanent: true}}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true}},
		{"one down, one takes it", []error{down, nil}, DeliveryResult{Verdict: VerdictDelivered, Status: 200}},
		{"one perhaps, the other is not asked", []error{&SendError{Class: Maybe}, errors.New("asked")}, DeliveryResult{Verdict: VerdictRetry, Unhealthy: true, Maybe: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var nodes []Node
			for i, err := range c.errs {
				n := newNode(fmt.Sprintf("http://n%d", i))
				n.load = int64(i) // the first is the least busy
				if err != nil {
					n.answer = always(nil, err)
				}
				nodes = append(nodes, n)
			}
			r := storing(t, nil, Route{}, nodes...).Deliver(t.Context(), storedMessage(t, env11), Try{Attempt: 1})
			if (r.Reason == "") != (r.Verdict == VerdictDelivered) || strings.ContainsAny(r.Reason, "\r\n") {
				t.Errorf("reason %q", r.Reason)
			}
			r.Reason = ""
			if d := cmp.Diff(c.want, r); d != "" {
				t.Errorf("Deliver (-want +got):\n%s", d)
			}
		})
	}
}

// TestDeliverCut: an answer that does not come to its end is no answer.
func TestDeliverCut(t *testing.T) {
	for name, resp := range map[string]*Response{
		"envelope": {Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Length: 500, Body: io.NopCloser(io.MultiReader(strings.NewReader(reply11), iotest.ErrReader(io.ErrUnexpectedEOF)))},
		"fault":    {Status: 500, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Length: 500, Body: io.NopCloser(io.MultiReader(strings.NewReader(fault11[:100]), iotest.ErrReader(io.ErrUnexpectedEOF)))},
		"page":     {Status: 404, Header: field.Of(http.Header{"Content-Type": {"text/html"}}), Length: -1, Body: io.NopCloser(io.MultiReader(strings.NewReader("<html>"), iotest.ErrReader(io.ErrUnexpectedEOF)))},
	} {
		n := newNode("http://n")
		n.answer = always(resp, nil)
		r := storing(t, nil, Route{}, n).Deliver(t.Context(), storedMessage(t, env11), Try{Attempt: 1})
		if r.Verdict != VerdictRetry || !r.Maybe || !r.Unhealthy || r.Status != 0 {
			t.Errorf("%s: got %+v, want a marked retry", name, r)
		}
	}
}

func TestDeliverKeepsTheReply(t *testing.T) {
	for _, c := range []struct {
		name, typ, body string
		status          int
		want            int
	}{
		{"fault", "text/xml", fault11Of("s:Client"), 500, len(fault11Of("s:Client"))},
		{"page", "text/html", strings.Repeat("p", 100<<10), 502, keptReply},
		{"nothing", "", "", 503, 0},
		{"delivered", "text/xml", reply11, 200, 0},
	} {
		n := newNode("http://n")
		n.answer = always(respond(c.status, c.typ, c.body, "Retry-After", "7"), nil)
		r := storing(t, nil, Route{}, n).Deliver(t.Context(), storedMessage(t, env11), Try{Attempt: 1})
		if string(r.Reply) != c.body[:c.want] || c.want > 0 && r.ReplyType != c.typ {
			t.Errorf("%s: kept %d octets of type %q, want %d of %q", c.name, len(r.Reply), r.ReplyType, c.want, c.typ)
		}
		if want := r.Verdict == VerdictRetry; want != (r.RetryAfter == 7*time.Second) {
			t.Errorf("%s: RetryAfter is %v with verdict %v", c.name, r.RetryAfter, r.Verdict)
		}
	}
}

// TestDeliverAborted: a stop of the gateway is nobody's failure.
func TestDeliverAborted(t *testing.T) {
	for _, class := range []Class{NotSent, Maybe} {
		ctx, stop := context.WithCancelCause(t.Context())
		n := newNode("http://n")
		n.answer = func(ctx context.Context, _ *Request) (*Response, error) {
			stop(errors.New("stopping"))
			<-ctx.Done()
			return nil, &SendError{Class: class, Err: context.Cause(ctx)}
		}
		r := storing(t, nil, Route{}, n).Deliver(ctx, storedMessage(t, env11), Try{Attempt: 1})
		if r.Verdict != VerdictAborted || r.Maybe != (class == Maybe) || r.Unhealthy {
			t.Errorf("%v: got %+v", class, r)
		}
	}
	// The head of the answer was there, its end was not.
	ctx, stop := context.WithCancel(t.Context())
	n := newNode("http://n")
	n.answer = always(&Response{Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Length: -1, Body: io.NopCloser(funcReader(func([]byte) (int, error) {
		stop()
		return 0, &SendError{Class: Maybe, Err: context.Canceled}
	}))}, nil)
	if r := storing(t, nil, Route{}, n).Deliver(ctx, storedMessage(t, env11), Try{Attempt: 1}); r.Verdict != VerdictAborted || !r.Maybe {
		t.Errorf("in the answer: got %+v", r)
	}
}

func TestDeliverOdd(t *testing.T) {
	m := storedMessage(t, env11)
	h := storing(t, nil, Route{})
	gone := *m
	gone.Route = "other"
	if r := h.Deliver(t.Context(), &gone, Try{Attempt: 1}); r.Verdict != VerdictAborted || r.Maybe {
		t.Errorf("a route that is gone: got %+v", r)
	}
	for _, meta := range []string{"", "{", `{"v":2,"soap":"1.1"}`, `{"v":1,"header":[["a",{"octets":"€"}]]}`} {
		later := *m
		later.Meta = []byte(meta)
		if r := h.Deliver(t.Context(), &later, Try{Attempt: 1}); r.Verdict != VerdictDead || r.Reason == "" {
			t.Errorf("meta %q: got %+v, want a dead letter", meta, r)
		}
	}
	n := newNode("http://n")
	n.answer = func(context.Context, *Request) (*Response, error) { panic("node") }
	if r := storing(t, nil, Route{}, n).Deliver(t.Context(), m, Try{Attempt: 1}); r.Verdict != VerdictRetry || !r.Maybe {
		t.Errorf("a panic: got %+v, want a marked retry", r)
	}
}

func TestProbe(t *testing.T) {
	a, b := newNode("http://a"), newNode("http://b")
	h := storing(t, nil, Route{}, a, b)
	if err := h.Probe(t.Context(), "b"); err != nil {
		t.Errorf("both up: %v", err)
	}
	a.down = errors.New("refused")
	if err := h.Probe(t.Context(), "b"); err != nil {
		t.Errorf("one up: %v", err)
	}
	b.down = errors.New("no such host")
	if err := h.Probe(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("none up: got %v", err)
	}
	if err := h.Probe(t.Context(), "other"); err == nil {
		t.Error("a backend that is not there: no error")
	}
}
