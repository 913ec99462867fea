package proxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/proxy/balance"
	"soapway/soapcodec"
)

// observed records what an Observer is told.
type observed struct {
	mu        sync.Mutex
	exchanges []ExchangeEvent
	attempts  []AttemptEvent
	shadows   []ShadowEvent
}

func (o *observed) ObserveExchange(e ExchangeEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exchanges = append(o.exchanges, e)
}

func (o *observed) ObserveAttempt(e AttemptEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, e)
}

// TestOutcomes: each class of a failed try, and what becomes of it (SPEC.md §4).
func TestOutcomes(t *testing.T) {
	boom := errors.New("write: broken pipe to 10.0.0.5")
	notSent := &SendError{Class: NotSent, Err: errDial}
	for _, c := range []struct {
		name     string
		errs     []error // of the nodes in turn; nil = answers
		plain    int     // status of an answer without an envelope
		code     soapcodec.Code
		tries    int
		outcome  Outcome
		answered bool
	}{
		{name: "answers", errs: []error{nil, nil}, tries: 1, answered: true, outcome: OutcomeAnswered},
		{name: "not sent, then answers", errs: []error{notSent, nil}, tries: 2, answered: true, outcome: OutcomeAnswered},
		{name: "not sent twice, then answers", errs: []error{notSent, &SendError{Class: NotSent, Timeout: true, Err: errDial}, nil}, tries: 3, answered: true, outcome: OutcomeAnswered},
		{name: "all not sent", errs: []error{notSent, notSent, notSent}, tries: 3, code: "BackendUnavailable", outcome: OutcomeFailed},
		{name: "maybe processed is not tried again", errs: []error{&SendError{Class: Maybe, Err: boom}, nil}, tries: 1, code: "BackendBroken", outcome: OutcomeFailed},
		{name: "timed out is not tried again", errs: []error{&SendError{Class: Maybe, Timeout: true, Err: boom}, nil}, tries: 1, code: "BackendTimeout", outcome: OutcomeFailed},
		{name: "no class is maybe processed", errs: []error{boom, nil}, tries: 1, code: "BackendBroken", outcome: OutcomeFailed},
		{name: "body not as announced", errs: []error{&SendError{Class: Maybe, Source: true, Err: io.ErrUnexpectedEOF}, nil}, tries: 1, code: "Incomplete", outcome: OutcomeCancelled},
		{name: "connect timed out", errs: []error{&SendError{Class: NotSent, Timeout: true, Err: boom}}, tries: 1, code: "BackendUnavailable", outcome: OutcomeFailed},
		{name: "not sent, then maybe processed", errs: []error{notSent, &SendError{Class: Maybe, Err: boom}, nil}, tries: 2, code: "BackendBroken", outcome: OutcomeFailed},
		{name: "all busy", errs: []error{&SendError{Class: NotSent, Err: ErrNoConnection}, &SendError{Class: NotSent, Err: ErrNoConnection}}, tries: 2, plain: 503, code: "Busy", outcome: OutcomeBusy},
		{name: "one busy, one down", errs: []error{&SendError{Class: NotSent, Err: ErrNoConnection}, notSent}, tries: 2, plain: 503, code: "Busy", outcome: OutcomeBusy},
		{name: "does not fit", errs: []error{&SendError{Class: NotSent, Permanent: true, Err: boom}}, tries: 1, code: "TooLarge", outcome: OutcomeRejected},
		{name: "does not fit one, fits the other", errs: []error{&SendError{Class: NotSent, Permanent: true, Err: boom}, nil}, tries: 2, answered: true, outcome: OutcomeAnswered},
		{name: "does not fit one, the other is down", errs: []error{&SendError{Class: NotSent, Permanent: true, Err: boom}, notSent}, tries: 2, code: "BackendUnavailable", outcome: OutcomeFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var nodes []Node
			var all []*node
			for _, err := range c.errs {
				n := newNode("http://node.test/svc")
				if err != nil {
					n.answer = always(nil, err)
				}
				nodes, all = append(nodes, n), append(all, n)
			}
			var o observed
			h := one(t, Route{Backend: &Backend{Name: "b", Nodes: nodes, Policy: new(balance.RoundRobin)}})
			h.opt.Observer = &o
			g := serve(t, h, exchange("text/xml", env11))
			switch {
			case c.answered:
				g.wantAnswer(t, 200, reply11)
			case c.plain != 0:
				g.wantPlain(t, c.plain, c.code)
				if g.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			default:
				g.wantFault(t, soapcodec.V11, c.code)
			}
			for i, n := range all {
				if want := min(1, max(0, c.tries-i)); len(n.got) != want {
					t.Errorf("node %d got %d requests, want %d", i, len(n.got), want)
				}
				if len(n.got) == 1 && n.got[0].body != env11 {
					t.Errorf("node %d got %q", i, n.got[0].body)
				}
			}
			if len(o.attempts) != c.tries || len(o.exchanges) != 1 {
				t.Fatalf("observed %d tries and %d exchanges, want %d and 1", len(o.attempts), len(o.exchanges), c.tries)
			}
			e := o.exchanges[0]
			if e.Outcome != c.outcome || e.Attempts != c.tries || e.Code != c.code || e.Status != g.Status || e.Route != "r" {
				t.Errorf("observed %+v, want outcome %s", e, c.outcome)
			}
			if e.CodecBytes < int64(len(env11)) {
				t.Errorf("observed %d octets of the codec", e.CodecBytes)
			}
		})
	}
}

// TestTriesEndWithTheTimeout: no further node is tried once the backend's
// timeout has passed.
func TestTriesEndWithTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(d time.Duration) *node {
			n := newNode("http://node.test/svc")
			n.answer = func(context.Context, *Request) (*Response, error) {
				time.Sleep(d)
				return nil, &SendError{Class: NotSent, Err: errDial}
			}
			return n
		}
		a, b, c := slow(4*time.Second), slow(7*time.Second), newNode("http://node.test/c")
		h := one(t, Route{Backend: &Backend{Nodes: []Node{a, b, c}, Policy: new(balance.RoundRobin), Answer: 10 * time.Second}})
		serve(t, h, exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
		if len(a.got) != 1 || len(b.got) != 1 || len(c.got) != 0 {
			t.Errorf("the nodes got %d, %d, %d requests, want 1, 1, 0", len(a.got), len(b.got), len(c.got))
		}
	})
}

// TestCallerLeaves: the try is cut, no other node is tried.
func TestCallerLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang, other := newNode("http://node.test/a"), newNode("http://node.test/b")
	hang.answer = func(ctx context.Context, _ *Request) (*Response, error) {
		cancel()
		<-ctx.Done()
		return nil, &SendError{Class: NotSent, Err: context.Cause(ctx)}
	}
	var o observed
	h := one(t, Route{Backend: &Backend{Nodes: []Node{hang, other}, Policy: new(balance.RoundRobin)}})
	h.opt.Observer = &o
	g := serveCtx(t, ctx, h, exchange("text/xml", env11))
	if !g.CloseConnection || len(other.got) != 0 || o.exchanges[0].Outcome != OutcomeCancelled {
		t.Errorf("got %+v, other node %d requests, observed %+v", g.Reply, len(other.got), o.exchanges)
	}
	if c := o.exchanges[0].Code; c != "" {
		t.Errorf("code: got %q, want none: the service is not to blame", c)
	}
}

// TestReplyIsCut: a listener that cannot write a reply to its end says so, and
// the exchange then does not count as answered.
func TestReplyIsCut(t *testing.T) {
	var o observed
	h := one(t, Route{}, newNode("http://node.test/svc"))
	h.opt.Observer = &o
	r := h.Serve(t.Context(), exchange("text/xml", env11))
	r.Cut(errors.New("write: connection reset by peer"))
	r.Close()
	if got := o.exchanges[0].Outcome; got != OutcomeCancelled {
		t.Errorf("outcome: got %q, want %q", got, OutcomeCancelled)
	}
}

// TestRefusedEarlyNamesItsRoute: what fails before the body is read counts for
// the route that it would have taken.
func TestRefusedEarlyNamesItsRoute(t *testing.T) {
	var o observed
	h := one(t, Route{Limits: Limits{MaxMessage: 10}}, newNode("http://node.test/svc"))
	h.opt.Observer = &o
	serve(t, h, exchange("text/xml", env11)).wantPlain(t, 413, soapcodec.CodeTooLarge)
	if got := o.exchanges[0].Route; got == "" {
		t.Error("the exchange counts for no route")
	}
}

// TestClosingEndsTheTry: the answer of a node is open until Close, not longer.
func TestClosingEndsTheTry(t *testing.T) {
	body := &closable{Reader: &repeat{unit: []byte("x"), left: 1 << 20}}
	n := newNode("http://node.test/svc")
	n.answer = func(ctx context.Context, _ *Request) (*Response, error) {
		return &Response{Status: 200, Length: -1, Body: body}, nil
	}
	h := one(t, Route{Methods: []string{"GET"}}, n)
	ex := exchange("", "")
	ex.Method = "GET"
	r := h.Serve(t.Context(), ex)
	if _, err := r.Body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if body.closed {
		t.Error("the try was cut while its answer was being read")
	}
	r.Close()
	if !body.closed {
		t.Error("the try was not cut by Close")
	}
}

type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

func TestSendErrorText(t *testing.T) {
	e := &SendError{Class: NotSent, Timeout: true, Source: true, Err: errDial}
	if got, want := e.Error(), "proxy: not_sent, timed out, request body failed: "+errDial.Error(); got != want {
		t.Errorf("Error: got %q, want %q", got, want)
	}
	if !errors.Is(e, errDial) || Answered.String() != "answered" || Maybe.String() != "maybe_processed" {
		t.Error("SendError does not unwrap, or a class has another name")
	}
}

func TestPolicySeesLoads(t *testing.T) {
	busy, idle := newNode("http://node.test/a"), newNode("http://node.test/b")
	busy.load = 10
	h := one(t, Route{}, busy, idle)
	for range 20 {
		serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
	}
	if len(busy.got) != 0 || len(idle.got) != 20 {
		t.Errorf("the nodes got %d and %d requests, want 0 and 20", len(busy.got), len(idle.got))
	}
}
