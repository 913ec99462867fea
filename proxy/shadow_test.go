package proxy

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"soapway/internal/field"
	"soapway/proxy/guard"
	"soapway/proxy/health"
	"soapway/soapcodec"
)

func (o *observed) ObserveShadow(e ShadowEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shadows = append(o.shadows, e)
}

// results counts the copies by what became of them.
func (o *observed) results() map[ShadowResult]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := map[ShadowResult]int{}
	for _, e := range o.shadows {
		n[e.Result]++
	}
	return n
}

// shadowed is a handler of one route to main with copies to other.
func shadowed(t *testing.T, r Route, percent float64, store Enqueuer, main, other Node) (*Handler, *observed) {
	t.Helper()
	o := new(observed)
	r.Name, r.Backend = "r", &Backend{Name: "b", Nodes: []Node{main}, Headers: map[string]string{"X-Own": "main"}}
	r.Shadow = &Shadow{
		Backend: &Backend{Name: "twin", Nodes: []Node{other}, Headers: map[string]string{"X-Twin": "yes"}, Health: health.NewGroup(1, health.Options{})},
		Percent: percent,
	}
	return NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{Observer: o, Enqueuer: store, SpoolDir: t.TempDir()}), o
}

// empty reports whether the copies have given everything back.
func (h *Handler) empty(t *testing.T) {
	t.Helper()
	if o, u := h.shadows.octets.Load(), h.table.Load().byName["r"].shadow.under.Load(); o != 0 || u != 0 {
		t.Errorf("when all is over copies hold %d octets, and %d are under way", o, u)
	}
}

// TestShadow: a copy goes with the fields and octets of the message, but without
// what proves who the caller is and what is meant for the other backend, and
// nobody waits for it.
func TestShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := keyed(t, guard.Options{}, "k1-of-the-caller")
		main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
		main.answer = wait(time.Second)
		other.answer = wait(20 * time.Second)
		h, o := shadowed(t, Route{Guard: g, Node: true, Match: Match{Path: "/depot"}}, 100, nil, main, other)
		began := time.Now()
		ex := exchange("text/xml", env11, "SOAPAction", `"urn:a"`, "Authorization", "Bearer x", "Cookie", "s=1", "X-Key", "k1-of-the-caller", "Traceparent", "00-1-2-01", "Gateway-Shadow", "no")
		ex.Target = "/depot?q=1"
		serve(t, h, ex).wantAnswer(t, 200, reply11)
		if d := time.Since(began); d != time.Second {
			t.Errorf("the caller waited %v, want that of its own backend", d)
		}
		synctest.Wait()
		s, m := other.last(t), main.last(t)
		for _, name := range []string{"Authorization", "Cookie", "X-Key", "X-Own"} {
			if s.Header.Get(name) != "" || m.Header.Get(name) == "" && name != "X-Own" {
				t.Errorf("%s is %q in the copy, and %q in the message", name, s.Header.Get(name), m.Header.Get(name))
			}
		}
		if s.body != env11 || s.Query != "q=1" || s.Header.Get("X-Twin") != "yes" || s.Header.Get("Traceparent") == "" || spelled(s.Header, soapActionName) == nil ||
			s.Header.Get("Gateway-Shadow") != "true" || m.Header.Get("Gateway-Shadow") != "" || s.Header.Get("Gateway-Message-Id") != m.Header.Get("Gateway-Message-Id") {
			t.Errorf("the copy is %q with %v", s.body, s.Header)
		}
		if n := o.results(); len(n) != 0 {
			t.Errorf("before its answer: %v", n)
		}
		h.table.Load().Wait()
		if len(o.shadows) != 1 || o.shadows[0] != (ShadowEvent{ID: ex.ID, Route: "r", Backend: "twin", Result: ShadowAnswered, Status: 200, Duration: 20 * time.Second}) || len(o.attempts) != 1 {
			t.Errorf("got %+v, and tries %v", o.shadows, o.attempts)
		}
		h.empty(t)
	})
}

// TestShadowResults: each kind of end of a copy, none of which the caller notices.
func TestShadowResults(t *testing.T) {
	type answer = func(context.Context, *Request) (*Response, error)
	cut := func(context.Context, *Request) (*Response, error) {
		r := respond(200, "text/xml", reply11)
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(reply11[:40]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return r, nil
	}
	for _, tt := range []struct {
		name   string
		answer answer
		result ShadowResult
		status int
		up     bool
		takes  time.Duration
	}{
		{"answered", always(respond(200, "text/xml", reply11), nil), ShadowAnswered, 200, true, 0},
		{"empty", always(&Response{Status: 202}, nil), ShadowAnswered, 202, true, 0},
		{"fault", always(respond(500, "text/xml", fault11), nil), ShadowFault, 500, true, 0},
		{"fault in 200", always(respond(200, "application/soap+xml", fault12), nil), ShadowFault, 200, true, 0},
		{"web page", always(respond(200, "text/html", "<p>"), nil), ShadowFailed, 200, true, 0},
		{"empty 404", always(&Response{Status: 404}, nil), ShadowFailed, 404, true, 0},
		{"web page of 503", always(respond(503, "text/html", "<p>"), nil), ShadowFailed, 503, false, 0},
		{"broken", always(respond(200, "text/xml", reply11[:50]), nil), ShadowFailed, 200, true, 0},
		{"cut off", cut, ShadowFailed, 200, false, 0},
		{"refused", notSent, ShadowFailed, 0, false, 0},
		{"silent", wait(time.Hour), ShadowFailed, 0, true, 65 * time.Second},
		{"panics", func(context.Context, *Request) (*Response, error) { panic("node") }, ShadowFailed, 0, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
				other.answer = tt.answer
				h, o := shadowed(t, Route{}, 100, nil, main, other)
				h.table.Load().byName["r"].shadow.route.backend.Health = health.NewGroup(1, health.Options{Failures: 1})
				began := time.Now()
				serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
				if time.Since(began) != 0 {
					t.Error("the caller waited")
				}
				h.table.Load().Wait()
				if len(o.shadows) != 1 || o.shadows[0].Result != tt.result || o.shadows[0].Status != tt.status || o.shadows[0].Duration != tt.takes {
					t.Errorf("got %+v, want %s with %d after %v", o.shadows, tt.result, tt.status, tt.takes)
				}
				if got := h.table.Load().backends["twin"].Health.Up(0); got != tt.up {
					t.Errorf("the node is up: %v, want %v", got, tt.up)
				}
				h.empty(t)
			})
		})
	}
}

// TestShadowBounds: a shadow backend that hangs holds so much and no more.
func TestShadowBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
		other.answer = wait(time.Hour)
		h, o := shadowed(t, Route{}, 100, nil, main, other)
		const more = 40
		for range shadowMost + more {
			serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
		}
		synctest.Wait()
		if n := o.results()[ShadowDropped]; n != more || len(other.got) != shadowMost {
			t.Errorf("%d were dropped and %d sent, want %d and %d", n, len(other.got), more, shadowMost)
		}
		h.CutShadows()
		h.table.Load().Wait()
		if n := o.results()[ShadowFailed]; n != shadowMost {
			t.Errorf("%d failed when they were cut", n)
		}
		h.empty(t)
		serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
		if n := o.results()[ShadowDropped]; n != more+1 {
			t.Error("a copy began after the cut")
		}
		h.empty(t)
	})
	synctest.Test(t, func(t *testing.T) {
		main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
		other.answer = wait(time.Second)
		h, o := shadowed(t, Route{Limits: Limits{Buffer: 64 << 20}}, 100, nil, main, other)
		big := strings.Replace(env11, ">x<", ">"+strings.Repeat("x", shadowOctets/4)+"<", 1)
		for range 5 {
			serve(t, h, exchange("text/xml", big)).wantAnswer(t, 200, reply11)
		}
		h.table.Load().Wait()
		if n := o.results(); n[ShadowDropped] != 2 || n[ShadowAnswered] != 3 {
			t.Errorf("of five that have a quarter of the room: %v", n)
		}
		h.empty(t)
		serve(t, h, exchange("text/xml", strings.Replace(env11, ">x<", ">"+strings.Repeat("x", shadowOctets)+"<", 1))).wantAnswer(t, 200, reply11)
		h.table.Load().Wait()
		if n := o.results(); n[ShadowAnswered] != 4 {
			t.Errorf("one that is larger than the room, alone: %v", n)
		}
	})
}

// TestShadowShare: the share is that of the configuration, within what chance does.
func TestShadowShare(t *testing.T) {
	const calls, percent = 4000, 30
	main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
	h, o := shadowed(t, Route{}, percent, nil, main, other)
	for range calls {
		serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
	}
	h.table.Load().Wait()
	if n := len(o.shadows); n < calls*(percent-5)/100 || n > calls*(percent+5)/100 { // seven times the deviation
		t.Errorf("%d of %d messages were copied, want %d %%", n, calls, percent)
	}
}

// TestShadowOfStored: a message that is stored is copied once it is, and once.
func TestShadowOfStored(t *testing.T) {
	for _, tt := range []struct {
		name     string
		delivery Delivery
		answer   func(context.Context, *Request) (*Response, error)
		store    error
		body     string
		status   int
		want     map[ShadowResult]int
	}{
		{"stored", Queue, nil, nil, env11, 202, map[ShadowResult]int{ShadowAnswered: 1}},
		{"store full", Queue, nil, ErrStoreBusy, env11, 503, nil},
		{"perhaps stored", Queue, nil, ErrStoreUnknown, env11, 503, nil},
		{"bad", Queue, nil, nil, env11[:50], 500, nil},
		{"large", Queue, nil, nil, strings.Replace(env11, ">x<", ">"+strings.Repeat("x", 3000)+"<", 1), 202, map[ShadowResult]int{ShadowLarge: 1}},
		{"answered", SyncThenQueue, nil, nil, env11, 200, map[ShadowResult]int{ShadowAnswered: 1}},
		{"stored after a try", SyncThenQueue, notSent, nil, env11, 202, map[ShadowResult]int{ShadowAnswered: 1}},
		{"streams", Sync, nil, nil, strings.Replace(env11, ">x<", ">"+strings.Repeat("x", 3000)+"<", 1), 200, map[ShadowResult]int{ShadowLarge: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
			main.answer = tt.answer
			store := &shelf{err: tt.store}
			h, o := shadowed(t, Route{Delivery: tt.delivery, StoreCredentials: true, Limits: Limits{Buffer: 2000}}, 100, store, main, other)
			g := serve(t, h, exchange("text/xml", tt.body, "Authorization", "Bearer x"))
			if g.Status != tt.status {
				t.Errorf("got %d %s", g.Status, g.body)
			}
			for _, m := range store.kept { // which may write over what is its own
				clear(m.Body)
			}
			h.table.Load().Wait()
			if n := o.results(); len(n) != len(tt.want) || n[ShadowAnswered] != tt.want[ShadowAnswered] || n[ShadowLarge] != tt.want[ShadowLarge] {
				t.Errorf("copies %v, want %v", n, tt.want)
			}
			for _, s := range other.got {
				if s.body != tt.body || s.Header.Get("Authorization") != "" || s.Header.Get(attemptField) != "" {
					t.Errorf("the copy is %q with %v", s.body, s.Header)
				}
			}
			h.empty(t)
		})
	}
}

// TestShadowOfNothing: what is refused, and what is no message, is not copied.
func TestShadowOfNothing(t *testing.T) {
	main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
	h, o := shadowed(t, Route{Methods: []string{"GET"}, EmptyPost: true}, 100, nil, main, other)
	get := exchange("", "")
	get.Method = "GET"
	for _, ex := range []*Exchange{exchange("text/xml", "<a"), exchange("text/plain", env11), exchange("", ""), get} {
		serve(t, h, ex)
	}
	h.table.Load().Wait()
	if len(other.got) != 0 || len(o.shadows) != 0 || len(main.got) != 2 {
		t.Errorf("copies %v, messages %d", o.shadows, len(main.got))
	}
}

// TestShadowAnswers: large answers and those that dribble are read in bounded time and
// memory, and to their end.
func TestShadowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
		closed := 0
		other.answer = func(ctx context.Context, _ *Request) (*Response, error) {
			return &Response{Status: 200, Header: field.List{{Name: "Content-Type", Value: "text/xml"}}, Length: -1, Body: &dribble{ctx: ctx, closed: &closed}}, nil
		}
		h, o := shadowed(t, Route{}, 100, nil, main, other)
		began := time.Now()
		serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
		h.table.Load().Wait()
		if d := time.Since(began); d != 65*time.Second || closed != 1 || o.results()[ShadowFailed] != 1 {
			t.Errorf("an answer that goes on for ever ended after %v, closed %d times: %v", d, closed, o.shadows)
		}
		h.empty(t)
	})
}

// dribble is an answer that never ends, one octet a second.
type dribble struct {
	ctx    context.Context
	closed *int
	n      int
}

func (d *dribble) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = reply11[min(d.n, 5)]
		d.n++
		return 1, nil
	case <-d.ctx.Done():
		return 0, &SendError{Class: Maybe, Err: context.Cause(d.ctx)}
	}
}

func (d *dribble) Close() error { *d.closed++; return nil }

// TestShadowTranslated: a copy is changed as its route asks, for its own node.
func TestShadowTranslated(t *testing.T) {
	main, other := newNode("http://node.test/svc"), newNode("http://twin.test/other")
	h, o := shadowed(t, Route{Translate: soapcodec.V12, Mark: true}, 100, nil, main, other)
	g := serve(t, h, exchange("text/xml", env11))
	h.table.Load().Wait()
	if g.Status != 200 || len(o.shadows) != 1 || o.shadows[0].Result != ShadowAnswered {
		t.Fatalf("got %d, copies %v", g.Status, o.shadows)
	}
	if m, s := main.last(t), other.last(t); m.body != s.body || !strings.Contains(s.body, soapcodec.NS12) || !strings.Contains(s.body, "urn:soapway:delivery") {
		t.Errorf("the message became %q and its copy %q", m.body, s.body)
	}
	_, err := Compile(TableOptions{Routes: []Route{{Name: "r", Backend: &Backend{Nodes: []Node{main}}, Shadow: &Shadow{Percent: 101}}}})
	for _, want := range []string{"Shadow.Backend", "Shadow.Percent"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a bad shadow: %v, want %s in it", errors.Unwrap(err), want)
		}
	}
}
