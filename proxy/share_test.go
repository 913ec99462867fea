package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/proxy/balance"
	"soapway/proxy/health"
	"soapway/soapcodec"
)

// breaking is an answer that breaks off after its first octets.
func breaking(err error) *Response {
	r := respond(200, "text/xml", "")
	r.Body, r.Length = io.NopCloser(io.MultiReader(strings.NewReader("<a>"), &chunks{err: err})), -1
	return r
}

// TestWhatCountsAgainstANode: what ejects it, for messages of callers and for
// stored ones alike. The table is that of CONFIG.md, outlier.
func TestWhatCountsAgainstANode(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		resp   func() *Response
		err    error
		counts bool
	}{
		{name: "not sent", err: &SendError{Class: NotSent, Err: errDial}, counts: true},
		{name: "timed out", err: &SendError{Class: Maybe, Timeout: true, Err: boom}, counts: true},
		{name: "broke off before the answer", err: &SendError{Class: Maybe, Err: boom}, counts: true},
		{name: "broke off in the answer", resp: func() *Response { return breaking(boom) }, counts: true},
		{name: "stalled in the answer", resp: func() *Response { return breaking(&SendError{Class: Maybe, Timeout: true, Err: boom}) }, counts: true},
		{name: "502 html", resp: func() *Response { return respond(502, "text/html", "<html>") }, counts: true},
		{name: "503 empty", resp: func() *Response { return respond(503, "", "") }, counts: true},
		{name: "504 that calls itself SOAP", resp: func() *Response { return respond(504, "text/xml", "not xml") }, counts: true},

		{name: "answer", resp: func() *Response { return respond(200, "text/xml", reply11) }},
		{name: "202", resp: func() *Response { return respond(202, "", "") }},
		{name: "fault", resp: func() *Response { return respond(500, "text/xml", fault11) }},
		{name: "fault on 503", resp: func() *Response { return respond(503, "text/xml", fault11) }},
		{name: "fault on 502 in 1.2", resp: func() *Response { return respond(502, "application/soap+xml", fault12) }},
		{name: "500 html", resp: func() *Response { return respond(500, "text/html", "<html>") }},
		{name: "404", resp: func() *Response { return respond(404, "text/html", "<html>") }},
		{name: "401", resp: func() *Response { return respond(401, "", "") }},
		{name: "not SOAP", resp: func() *Response { return respond(200, "text/html", "<html>") }},
		{name: "no free connection", err: &SendError{Class: NotSent, Err: ErrNoConnection}},
		{name: "does not fit", err: &SendError{Class: NotSent, Permanent: true, Err: boom}},
		{name: "the caller broke off", err: &SendError{Class: Maybe, Source: true, Err: io.ErrUnexpectedEOF}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			n.answer = func(context.Context, *Request) (*Response, error) {
				if c.err != nil {
					return nil, c.err
				}
				return c.resp(), nil
			}
			for _, how := range []string{"sync", "stored", "framed"} {
				g := health.NewGroup(1, health.Options{Failures: 2})
				r := Route{Name: "r", Backend: &Backend{Name: "b", Nodes: []Node{n}, Health: g}}
				s := &shelf{}
				if how == "stored" {
					r.Delivery = Queue
				}
				h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{SpoolDir: t.TempDir(), Enqueuer: s})
				for range 2 {
					ex := exchange("text/xml", env11)
					if ex.Framed = how == "framed"; ex.Framed {
						ex.Header, ex.Target, ex.Host = nil, "", ""
					}
					serve(t, h, ex)
				}
				for _, m := range s.kept {
					h.Deliver(t.Context(), m, Try{Attempt: 1})
				}
				if g.Up(0) == c.counts {
					t.Errorf("%s: up is %v after two of them", how, g.Up(0))
				}
				if list := h.Health(); len(list) != 1 || list[0].Down != c.counts || list[0].Nodes[0].Up == c.counts || list[0].Nodes[0].Name != n.name {
					t.Errorf("%s: Health: got %+v", how, list)
				}
			}
		})
	}
}

// TestLeavingSaysNothing: that a caller has left is not the node's doing.
func TestLeavingSaysNothing(t *testing.T) {
	n := newNode("http://node.test/svc")
	ctx, leave := context.WithCancel(t.Context())
	n.answer = func(ctx context.Context, _ *Request) (*Response, error) {
		leave()
		<-ctx.Done()
		return nil, &SendError{Class: Maybe, Err: ctx.Err()}
	}
	g := health.NewGroup(1, health.Options{Failures: 1})
	serveCtx(t, ctx, one(t, Route{Backend: &Backend{Nodes: []Node{n}, Health: g}}), exchange("text/xml", env11))
	if !g.Up(0) {
		t.Error("the node is out")
	}
}

// TestDeadNodeIsLeftAlone: of three nodes one dies under load and comes back. No
// caller notices, the dead one costs few tries, and it returns by itself.
func TestDeadNodeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []Node
		var all []*node
		for _, name := range []string{"http://a.test/x", "http://b.test/x", "http://c.test/x"} {
			n := newNode(name)
			nodes, all = append(nodes, n), append(all, n)
		}
		dead := true
		all[0].answer = func(context.Context, *Request) (*Response, error) {
			if dead {
				return nil, &SendError{Class: NotSent, Err: errDial}
			}
			return respond(200, "text/xml", reply11), nil
		}
		h := one(t, Route{Backend: &Backend{
			Name: "b", Nodes: nodes, Policy: new(balance.RoundRobin), Health: health.NewGroup(3, health.Options{}),
		}})
		send := func(messages int) (shares [3]int) {
			for _, n := range all {
				n.got = nil
			}
			for range messages {
				serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
				time.Sleep(100 * time.Millisecond)
			}
			for i, n := range all {
				shares[i] = len(n.got)
			}
			return shares
		}
		if got := send(250); got[0] != 5 || got[1]+got[2] != 250 { // 25 s
			t.Errorf("with node 0 dead the nodes were tried %v times, want 5 at it and 250 at the others", got)
		}
		if got := send(600); got[0] > 3 { // a minute
			t.Errorf("in the minute after, %d tries at the dead node, want one each time its ejection ends", got[0])
		}
		dead = false
		send(3000)
		if got := send(300); got != [3]int{100, 100, 100} {
			t.Errorf("after its return: got %v, want even shares", got)
		}
	})
}

// TestAllOut: where every node is out a caller's message is tried all the same.
func TestAllOut(t *testing.T) {
	a, b := newNode("http://a.test/x"), newNode("http://b.test/x")
	fail := func(context.Context, *Request) (*Response, error) {
		return nil, &SendError{Class: NotSent, Err: errDial}
	}
	a.answer, b.answer = fail, fail
	g := health.NewGroup(2, health.Options{Failures: 1})
	h := one(t, Route{Backend: &Backend{Name: "b", Nodes: []Node{a, b}, Policy: inOrder{}, Health: g}})
	serve(t, h, exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
	if !g.Down() {
		t.Fatal("two nodes have failed, and not both are out")
	}
	b.answer = nil
	serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
	if g.Up(0) || !g.Up(1) {
		t.Errorf("up: got %v and %v, want the one that answered", g.Up(0), g.Up(1))
	}
	a.got = nil
	serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
	if len(a.got) != 0 {
		t.Error("the node that is out was tried before the one that is not")
	}
}

func TestCheckNode(t *testing.T) {
	ask, err := ParseCheck([]byte(env12))
	if err != nil || string(ask.Envelope) != env12 || ask.Version != soapcodec.V12 {
		t.Fatalf("ParseCheck: got %+v, %v", ask, err)
	}
	if _, err := ParseCheck([]byte("<ping/>")); err == nil {
		t.Error("ParseCheck of no envelope: got no error")
	}
	path := &Check{Path: "/alive?deep=1"}
	for _, c := range []struct {
		name  string
		check *Check
		resp  *Response
		err   error
		well  bool
	}{
		{"path 200", path, respond(200, "text/plain", "fine"), nil, true},
		{"path 204", path, &Response{Status: 204}, nil, true},
		{"path 302", path, respond(302, "", "", "Location", "/login"), nil, true},
		{"path 404", path, respond(404, "text/xml", fault11), nil, false},
		{"path 503", path, respond(503, "", ""), nil, false},
		{"path breaks off", path, breaking(io.ErrUnexpectedEOF), nil, false},
		{"path not sent", path, nil, &SendError{Class: NotSent, Err: errDial}, false},
		{"soap answer", ask, respond(200, "application/soap+xml", reply11), nil, true},
		{"soap one-way", ask, &Response{Status: 202}, nil, true},
		{"soap fault", ask, respond(500, "application/soap+xml; charset=utf-8", fault12), nil, true},
		{"soap fault on 503", ask, respond(503, "text/xml", fault11), nil, true},
		{"soap html", ask, respond(500, "text/html", fault12), nil, false},
		{"soap without a type", ask, respond(500, "", fault12), nil, false},
		{"soap bad xml", ask, respond(500, "text/xml", "<a"), nil, false},
		{"soap 404", ask, respond(404, "text/html", ""), nil, false},
		{"soap 302", ask, respond(302, "", ""), nil, false},
	} {
		n := newNode("http://node.test/svc")
		n.answer = always(c.resp, c.err)
		b := &Backend{Nodes: []Node{n}, Check: *c.check, Headers: map[string]string{"Authorization": "Basic own"}}
		if err := b.CheckNode(t.Context(), 0); (err == nil) != c.well {
			t.Errorf("%s: got %v", c.name, err)
		}
		s := n.last(t)
		switch {
		case s.Header.Get("Authorization") != "Basic own":
			t.Errorf("%s: without the backend's own fields: %v", c.name, s.Header)
		case c.check == path && (s.Method != "GET" || s.Path != "/alive" || s.Query != "deep=1" || s.Length != 0):
			t.Errorf("%s: asked by %s %s?%s", c.name, s.Method, s.Path, s.Query)
		case c.check == ask && (s.Method != "POST" || s.body != env12 || !strings.HasPrefix(s.Header.Get("Content-Type"), "application/soap+xml")):
			t.Errorf("%s: asked by %s %q, %v", c.name, s.Method, s.body, s.Header)
		}
	}
	n := newNode("http://node.test/svc")
	b := &Backend{Nodes: []Node{n}}
	if err := b.CheckNode(t.Context(), 0); err != nil {
		t.Errorf("without a way of its own: got %v", err)
	}
	n.down = errDial
	if err := b.CheckNode(t.Context(), 0); !errors.Is(err, errDial) {
		t.Errorf("without a way of its own, down: got %v", err)
	}
	if len(n.got) != 0 {
		t.Error("a check that only connects has sent something")
	}
}

// TestCheckHangs: a node that does not answer a check in time is not well.
func TestCheckHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("http://node.test/svc")
		n.answer = func(ctx context.Context, req *Request) (*Response, error) {
			if req.Timeouts != (Timeouts{Connect: time.Second, Answer: time.Second}) {
				t.Errorf("Timeouts: got %+v", req.Timeouts)
			}
			<-ctx.Done()
			return nil, &SendError{Class: Maybe, Err: ctx.Err()}
		}
		b := &Backend{Nodes: []Node{n}, Check: Check{Path: "/", Timeout: time.Second}}
		began := time.Now()
		if err := b.CheckNode(t.Context(), 0); err == nil || time.Since(began) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// TestProbeChecks: the queue's probe asks as the backend's checks do.
func TestProbeChecks(t *testing.T) {
	n := newNode("http://node.test/svc")
	n.answer = always(respond(http.StatusServiceUnavailable, "", ""), nil)
	h := one(t, Route{Backend: &Backend{Name: "b", Nodes: []Node{n}, Check: Check{Path: "/alive"}}})
	if err := h.Probe(t.Context(), "b"); err == nil {
		t.Error("Probe of a node that can be reached but is not well: got no error")
	}
	n.answer = always(respond(200, "", ""), nil)
	if err := h.Probe(t.Context(), "b"); err != nil {
		t.Errorf("Probe of a node that is well: got %v", err)
	}
}
