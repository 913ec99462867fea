package proxy

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"soapway/proxy/describe"
	"soapway/soapcodec"
)

// learning runs Learn for as long as a bubble lasts.
func learning(t *testing.T, h *Handler) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var held int
	var mu sync.Mutex
	wg.Go(func() {
		hold := func() func() {
			mu.Lock()
			defer mu.Unlock()
			held++
			return func() { mu.Lock(); held--; mu.Unlock() }
		}
		if err := h.Learn(ctx, hold); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if held != 0 {
			t.Errorf("the table is still held %d times", held)
		}
	})
}

// learnNow grants what was wanted so far.
func learnNow(t *testing.T, h *Handler) {
	t.Helper()
	for {
		f, root, ask, _ := h.table.Load().nextWish(time.Now())
		if f == nil {
			return
		}
		f.learn(t.Context(), root, ask, h.opt.Log)
	}
}

// asked are the descriptions that a node was asked for.
func (n *node) asked() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.got {
		if s.Method == http.MethodGet {
			list = append(list, s.Path+"?"+s.Query)
		}
	}
	return list
}

// byOperation has a route for the operation AskSomething, whose messages have the
// element Ask, and one for all else.
func byOperation(t *testing.T, n *node) *Handler {
	t.Helper()
	q := soapcodec.QName{Space: "urn:depot", Local: "AskSomething"}
	rest := newNode("http://rest.test/svc")
	rest.answer = func(context.Context, *Request) (*Response, error) { return respond(202, "", ""), nil }
	return NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{Name: "ask", Match: Match{Path: "/svc", Operation: q}, Backend: &Backend{Name: "ask", Nodes: []Node{n}}, WSDL: &WSDL{}},
		{Name: "rest", Match: Match{Path: "/svc"}, Backend: &Backend{Name: "rest", Nodes: []Node{rest}}},
	}}), Options{})
}

// An operation that is not named as its element is matched as soon as the
// description is known; it is asked for at once, and again while it cannot be had.
func TestLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = "http://node.test/svc"
		var up atomic.Bool
		n := services(at, map[string]string{"/svc?wsdl": describes(at, "")})
		answer := n.answer
		n.answer = func(ctx context.Context, req *Request) (*Response, error) {
			if !up.Load() {
				return nil, &SendError{Class: NotSent, Err: errors.New("down")}
			}
			return answer(ctx, req)
		}
		h := byOperation(t, n)
		began := time.Now()
		learning(t, h)
		send := func(body string) int {
			ex := exchange("text/xml", body)
			ex.Target = "/svc"
			return serve(t, h, ex).Status
		}
		synctest.Wait()
		if got := n.asked(); len(got) != 1 || got[0] != "/svc?wsdl" {
			t.Errorf("at the start the node was asked for %q", got)
		}
		if got := send(env11); got != 202 {
			t.Errorf("before the description is known: status %d, want that of the other route", got)
		}
		time.Sleep(5*time.Minute - time.Since(began))
		if got := len(n.asked()); got != 6 { // after 0, 5, 15, 35, 75 and 155 seconds
			t.Errorf("asked %d times in 5 minutes", got)
		}
		up.Store(true)
		time.Sleep(relearnMost)
		if got := send(env11); got != 200 {
			t.Errorf("status %d, want that of the route for the operation", got)
		}
		for name, body := range map[string]string{
			"another element":           strings.ReplaceAll(env11, "Ask", "Tell"),
			"another namespace":         strings.ReplaceAll(env11, "urn:depot", "urn:other"),
			"without an operation":      `<a:Envelope xmlns:a="http://schemas.xmlsoap.org/soap/envelope/"><a:Body/></a:Envelope>`,
			"another operation's names": strings.ReplaceAll(env11, "Ask", "Something"),
		} {
			if got := send(body); got != 202 {
				t.Errorf("%s: status %d, want that of the other route", name, got)
			}
		}
		if got := send(strings.ReplaceAll(env11, "Ask", "AskSomething")); got != 200 {
			t.Errorf("an element with the name itself: status %d", got)
		}
		// While messages come it is asked for again, and not for each.
		before := len(n.asked())
		for range 10 {
			time.Sleep(describe.DefaultFresh / 2)
			send(strings.ReplaceAll(env11, "Ask", "Tell"))
			synctest.Wait()
		}
		if got := len(n.asked()) - before; got < 4 || got > 6 {
			t.Errorf("asked %d times in 5 minutes of messages", got)
		}
		before = len(n.asked())
		time.Sleep(time.Hour)
		if got := len(n.asked()) - before; got != 0 {
			t.Errorf("asked %d times in an hour without messages", got)
		}
	})
}

// A source that has no description is asked once, whatever messages come; a caller
// who gets one there later changes that.
func TestLearnNothing(t *testing.T) {
	for name, answer := range map[string]func() *Response{
		"404":         func() *Response { return respond(404, "text/html", "no") },
		"an envelope": func() *Response { return respond(200, "text/xml", reply11) },
		"202":         func() *Response { return respond(202, "", "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const at = "http://node.test/svc"
				var up atomic.Bool
				n := services(at, map[string]string{"/svc?wsdl": describes(at, "")})
				described := n.answer
				n.answer = func(ctx context.Context, req *Request) (*Response, error) {
					if up.Load() {
						return described(ctx, req)
					}
					return answer(), nil
				}
				h := byOperation(t, n)
				learning(t, h)
				send := func() int {
					ex := exchange("text/xml", env11)
					ex.Target = "/svc"
					return serve(t, h, ex).Status
				}
				for range 100 {
					time.Sleep(time.Minute)
					send()
				}
				if got := n.asked(); len(got) != 1 {
					t.Errorf("asked for %q", got)
				}
				up.Store(true)
				ex := get("/svc?wsdl")
				ex.Route = "ask" // the head alone leads to the other one
				serve(t, h, ex)
				synctest.Wait()
				if got := send(); got != 200 {
					t.Errorf("status %d, want that of the route for the operation", got)
				}
			})
		})
	}
}

// What is kept counts from the first message on, whatever becomes of the backend;
// so does a file.
func TestLearnKept(t *testing.T) {
	const at = "http://node.test/svc"
	shelf := filepath.Join(t.TempDir(), "wsdl")
	q := soapcodec.QName{Local: "AskSomething"}
	n := services(at, map[string]string{"/svc?wsdl": describes(at, "")})
	route := Route{Match: Match{Path: "/svc", Operation: q, AnyNamespace: true}, WSDL: &WSDL{Shelf: describe.NewShelf(shelf)}}
	ex := get("/svc?wsdl")
	serve(t, one(t, Route{Match: Match{Path: "/svc"}, WSDL: route.WSDL}, n), ex).wantAnswer(t, 200, describes("http://gw.test/svc", ""))

	n.answer = func(_ context.Context, req *Request) (*Response, error) {
		if req.Method == http.MethodGet {
			t.Error("the node was asked")
		}
		return respond(200, "text/xml", reply11), nil
	}
	route.WSDL.Shelf = describe.NewShelf(shelf)
	h := one(t, route, n)
	ex = exchange("text/xml", env11)
	ex.Target = "/svc"
	serve(t, h, ex).wantAnswer(t, 200, reply11)
	ex = exchange("text/xml", strings.ReplaceAll(env11, "Ask", "Tell"))
	ex.Target = "/svc"
	serve(t, h, ex).wantPlain(t, 404, "NoRoute")
}

// A caller who asks for the description will use it: its imports are read, so that
// metrics know the operations. Nobody is asked for what no caller has asked for.
func TestLearnFromCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = "http://node.test/svc"
		n := services(at, map[string]string{
			"/svc/one?wsdl":    `<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/"><w:import location="more?wsdl=x"/></w:definitions>`,
			"/svc/more?wsdl=x": describes(at+"/one", ""),
		})
		h := one(t, Route{Match: Match{Path: "/svc/*"}, WSDL: &WSDL{}}, n)
		seen := &watcher{}
		h.opt.Observer = seen
		learning(t, h)
		send := func(want string) {
			t.Helper()
			ex := exchange("text/xml", env11)
			ex.Target = "/svc/one"
			r := h.Serve(t.Context(), ex)
			r.Close()
			if seen.operation != want {
				t.Errorf("the operation is %q, want %q", seen.operation, want)
			}
		}
		send("")
		time.Sleep(time.Hour)
		if got := n.asked(); len(got) != 0 {
			t.Errorf("the node was asked for %q", got)
		}
		serve(t, h, get("/svc/one?wsdl"))
		synctest.Wait()
		send("AskSomething")
	})
}

type watcher struct{ operation string }

func (w *watcher) ObserveExchange(e ExchangeEvent) { w.operation = e.Operation }
func (w *watcher) ObserveAttempt(AttemptEvent)     {}
func (*watcher) ObserveShadow(ShadowEvent)         {}

// On a queue route with `oneway: auto` the description tells which answers are none.
func TestOneWayByDescription(t *testing.T) {
	const at = "http://node.test/x"
	oneWay := strings.Replace(describes(at, ""), `<w:output message="t:M"/>`, "", 1)
	for name, c := range map[string]struct {
		doc    string
		answer [3]string // status, type, body
		oneway OneWay
		want   Verdict
	}{
		"one-way":                 {oneWay, [3]string{"200", "text/html", "thanks"}, OneWayAuto, VerdictDelivered},
		"two-way":                 {describes(at, ""), [3]string{"200", "text/html", "thanks"}, OneWayAuto, VerdictRetry},
		"not described":           {"", [3]string{"200", "text/html", "thanks"}, OneWayAuto, VerdictRetry},
		"another operation":       {strings.Replace(oneWay, `"t:Ask"`, `"t:Tell"`, 1), [3]string{"200", "text/html", "thanks"}, OneWayAuto, VerdictRetry},
		"the route says no":       {oneWay, [3]string{"200", "text/html", "thanks"}, OneWayNo, VerdictRetry},
		"an answer that is empty": {describes(at, ""), [3]string{"200", "", ""}, OneWayAuto, VerdictDelivered},
		"a failure":               {oneWay, [3]string{"503", "text/html", "later"}, OneWayAuto, VerdictRetry},
		"a fault":                 {oneWay, [3]string{"500", "text/xml", fault11Of("s:Client")}, OneWayAuto, VerdictDead},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(at)
			n.answer = func(_ context.Context, req *Request) (*Response, error) {
				switch {
				case req.Method == http.MethodPost:
					status, err := strconv.Atoi(c.answer[0])
					return respond(status, c.answer[1], c.answer[2]), err
				case c.doc == "":
					return respond(404, "text/html", ""), nil
				}
				return respond(200, "text/xml", c.doc), nil
			}
			h := one(t, Route{OneWay: c.oneway, WSDL: &WSDL{}}, n)
			deliver := func(want Verdict) {
				t.Helper()
				if d := h.Deliver(t.Context(), storedMessage(t, env11), Try{Attempt: 1}); d.Verdict != want {
					t.Errorf("got %v (%s), want %v", d.Verdict, d.Reason, want)
				}
			}
			if c.want == VerdictDelivered && c.answer[2] != "" {
				deliver(VerdictRetry) // the description is not known yet
			}
			serve(t, h, get("/x?wsdl"))
			learnNow(t, h)
			asked := len(n.asked())
			deliver(c.want)
			if got := len(n.asked()); got != asked {
				t.Errorf("the node was asked %d times on the way", got-asked)
			}
		})
	}
}
