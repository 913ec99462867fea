package casetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestQueueAccepts: what a caller is told on a queue route, over HTTP and
// frames, and that nothing but what was accepted is delivered (SPEC.md §3, §4).
func TestQueueAccepts(t *testing.T) {
	b := taking(t)
	g := start(t, queueConfig(ordersRoute(b.addr, "limits: {max_message: 7MiB}, "+quick)), b)
	if g.ready.Store != filepath.Join(g.dir, "data") || g.ready.StoreID == "" || g.ready.Waiting == nil || *g.ready.Waiting != 0 {
		t.Errorf("the ready line tells %+v of the store", g.ready)
	}
	msg := []byte("<?xml version='1.0'?>\n" + string(envelope("1.2", "<t:op  xmlns:t='urn:test' a = \"&#13;\">Grüße</t:op >")) + "\n<!-- end -->")
	a := post(t, g.addr["http"], "/orders?x=%2F", append(xml12(), field{"X-Customer", "7"}, field{"Cookie", "a=b"}), msg)
	if a.Status != 202 || len(a.Body) > 0 {
		t.Fatalf("got %s", a)
	}
	f := dialFramed(t, g.addr["framed"], 4)
	if got := f.call(msg); len(got) != 0 {
		t.Errorf("framed: got %q, want a zero-length frame", got)
	}
	if !eventually(patience, func() bool { return b.gotComplete() == 2 }) {
		t.Fatalf("%d of 2 messages were delivered", b.gotComplete())
	}
	calls := b.got() // in no promised order, since the route has no order_by
	if calls[1].Fields.get("Gateway-Message-Id") == a.Fields.get("Gateway-Message-Id") {
		calls[0], calls[1] = calls[1], calls[0]
	}
	if string(calls[0].Body) != string(msg) || string(calls[1].Body) != string(msg) {
		t.Errorf("delivered %s and %s", describe(calls[0].Body), describe(calls[1].Body))
	}
	first := calls[0]
	if first.target() != "/in?x=%2F" || first.Fields.get("X-Customer") != "7" || first.Fields.has("Cookie") || first.Fields.get("Gateway-Attempt") != "1" ||
		first.Fields.get("Gateway-Message-Id") != a.Fields.get("Gateway-Message-Id") || first.Fields.has("Gateway-Possible-Duplicate") {
		t.Errorf("delivered with %s", first.Raw)
	}
	if ct := calls[1].Fields.get("Content-Type"); mediaType(ct) != "application/soap+xml" {
		t.Errorf("from a frame: Content-Type %q", ct)
	}

	// Refused with a definite error: never delivered.
	large := envelope("1.1", "<t:op xmlns:t='urn:test'>"+strings.Repeat("x", 8<<20)+"</t:op>")
	sequence := bytes.Replace(numbered(1), []byte("<e:Body>"), []byte(`<e:Header><w:Sequence xmlns:w="http://docs.oasis-open.org/ws-rx/wsrm/200702" e:mustUnderstand="1"/></e:Header><e:Body>`), 1)
	for name, bad := range map[string]struct {
		body   []byte
		status int
		own    string
	}{
		"cut":      {msg[:90], 400, "NotWellFormed"},
		"sequence": {sequence, 500, "MustUnderstand"},
		"large":    {large, 413, ""},
	} {
		typ := xml11("")
		if name == "cut" {
			typ = xml12()
		}
		a := exchange(t, g.addr["http"], request("/orders", typ, bad.body))
		ft, _ := readFault(a.Body, a.Fields.get("Content-Type"))
		if a.Status != bad.status || bad.own != "" && (ft == nil || ft.Own != bad.own) {
			t.Errorf("%s: got %s", name, a)
		}
		got := dialFramed(t, g.addr["framed"], 4)
		ft, err := readFault(got.call(bad.body), "")
		if bad.own == "" {
			bad.own = "TooLarge"
		}
		if ft == nil || ft.Own != bad.own {
			t.Errorf("%s, framed: got %+v, %v, want fault %s", name, ft, err, bad.own)
		}
	}
	if n := g.waiting(t); n != 0 || b.gotComplete() != 2 {
		t.Errorf("%d wait and %d were delivered, want none and 2", n, b.gotComplete())
	}
}

// TestQueueDeadBackend: the backend is down, callers are not troubled; it
// comes back, and everything arrives without a hand, octet for octet and once.
func TestQueueDeadBackend(t *testing.T) {
	addr := refusedAddr(t)
	g := start(t, queueConfig(`{name: other, match: {path: /other}, to: ["builtin:sink"], delivery: queue}`, ordersRoute(addr, quick)))
	const senders, each = 8, 25
	want := map[string]string{} // id → body
	var mu sync.Mutex
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				body := numbered(s*each + i)
				id := stored(t, g, "/orders", body)
				mu.Lock()
				want[id] = string(body)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(want) != senders*each {
		t.Fatalf("%d ids for %d messages", len(want), senders*each)
	}
	if !eventually(patience, func() bool { return g.metricSum(t, "gateway_circuit_state", `backend="orders"`) == 1 }) {
		t.Error("the backend is not taken for down")
	}
	stored(t, g, "/other", numbered(1)) // one stuck backend stops no other
	if !eventually(patience, func() bool { return g.metricSum(t, "gateway_delivery_latency_seconds_count", `route="other"`) == 1 }) {
		t.Error("the other route does not deliver")
	}
	if n := g.waiting(t); n != len(want) {
		t.Errorf("%d messages wait, want %d", n, len(want))
	}
	b := listenAt(t, addr)
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d messages still wait; delivered %d", g.waiting(t), b.gotComplete())
	}
	for _, c := range b.got() {
		id := c.Fields.get("Gateway-Message-Id")
		if want[id] != string(c.Body) {
			t.Fatalf("message %s: delivered %s, a second time or changed", id, describe(c.Body))
		}
		if c.Fields.has("Gateway-Possible-Duplicate") {
			t.Errorf("message %s is marked, though nothing was ever sent before", id)
		}
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("%d messages were lost", len(want))
	}
	b.close()
}

// TestQueueOrder: order_by: route keeps the order of acceptance over failures
// of every kind and a restart.
func TestQueueOrder(t *testing.T) {
	b := listenHTTP(t)
	config := queueConfig(ordersRoute(b.addr, "order_by: route, "+quick))
	g := start(t, config)
	var mu sync.Mutex
	var took []string // ids in the order in which the backend took them
	calls := 0
	b.do(func(p *peer, c *call) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		switch calls % 7 {
		case 2:
			_, _ = p.Write(response(500, fields{{"Content-Type", "text/html"}}, []byte("<html>")))
		case 4:
			_, _ = p.Write(response(503, nil, nil))
		case 6:
			p.resetConn()
		default:
			took = append(took, c.Fields.get("Gateway-Message-Id"))
			_, _ = p.Write(response(202, nil, nil))
		}
	})
	var want []string
	for i := range 30 {
		want = append(want, stored(t, g, "/orders", numbered(i)))
	}
	term(t, g)
	g = startAgain(t, g, config, b)
	for i := range 10 {
		want = append(want, stored(t, g, "/orders", numbered(i)))
	}
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d messages still wait", g.waiting(t))
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(took, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("taken\n%s\naccepted\n%s", got, strings.Join(want, "\n"))
	}
}

// TestQueueMarks: after an answer that never came the next attempt says that it
// may be a repeat; after a refusal it does not. The id stays, attempts count up.
func TestQueueMarks(t *testing.T) {
	for name, c := range map[string]struct {
		first  func(*peer, *call)
		marked bool
	}{
		"reset after the request": {func(p *peer, _ *call) { p.resetConn() }, true},
		"half an answer":          {func(p *peer, _ *call) { _, _ = p.Write([]byte("HTTP/1.1 202 Acc")); p.Close() }, true},
		"no answer in time":       {func(p *peer, _ *call) { pause(1500 * time.Millisecond); p.Close() }, true},
		"a page in 200": {func(p *peer, _ *call) {
			_, _ = p.Write(response(200, fields{{"Content-Type", "text/html"}}, []byte("<html>hi")))
		}, true},
		"503": {func(p *peer, _ *call) { _, _ = p.Write(response(503, nil, nil)) }, false},
		"a Server fault": {func(p *peer, _ *call) {
			_, _ = p.Write(response(500, xml11("").without("SOAPAction"), envelope("1.1", `<e:Fault><faultcode>e:Server</faultcode><faultstring>x</faultstring></e:Fault>`)))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := listenHTTP(t)
			g := start(t, queueConfig(ordersRoute(b.addr, quick)), b)
			var once sync.Once
			b.do(func(p *peer, call *call) {
				first := false
				once.Do(func() { first = true })
				if first {
					c.first(p, call)
					return
				}
				_, _ = p.Write(response(202, nil, nil))
			})
			id := stored(t, g, "/orders", numbered(3))
			if !eventually(patience, func() bool { return len(b.got()) == 2 && g.waiting(t) == 0 }) {
				t.Fatalf("%d attempts", len(b.got()))
			}
			for i, call := range b.got() {
				if call.Fields.get("Gateway-Message-Id") != id || call.Fields.get("Gateway-Attempt") != fmt.Sprint(i+1) || string(call.Body) != string(numbered(3)) {
					t.Errorf("attempt %d: %s", i+1, call.Raw)
				}
				want := ""
				if i == 1 && c.marked {
					want = "true"
				}
				if got := call.Fields.get("Gateway-Possible-Duplicate"); got != want {
					t.Errorf("attempt %d: Gateway-Possible-Duplicate is %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// TestQueueRestart: messages outlive an orderly stop unmarked, and a kill with
// the mark, since nobody knows what was sent before it.
func TestQueueRestart(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprint("kill=", kill), func(t *testing.T) {
			addr := refusedAddr(t)
			config := queueConfig(ordersRoute(addr, quick))
			g := start(t, config)
			want := map[string]string{}
			for i := range 20 {
				body := numbered(i)
				want[stored(t, g, "/orders", body)] = string(body)
			}
			if kill {
				g.crash(t)
			} else {
				term(t, g)
			}
			next := startAgain(t, g, config)
			if next.ready.StoreID != g.ready.StoreID || next.ready.Waiting == nil || *next.ready.Waiting != 20 {
				t.Errorf("the ready line tells %+v, want the store %s with 20 waiting", next.ready, g.ready.StoreID)
			}
			b := listenAt(t, addr)
			if !eventually(patience, func() bool { return next.waiting(t) == 0 && b.gotComplete() >= 20 }) {
				t.Fatalf("%d still wait, %d were delivered", next.waiting(t), b.gotComplete())
			}
			for _, c := range b.got() {
				id := c.Fields.get("Gateway-Message-Id")
				if want[id] != string(c.Body) {
					t.Fatalf("message %s: delivered %s", id, describe(c.Body))
				}
				delete(want, id)
				if c.Fields.has("Gateway-Possible-Duplicate") != kill {
					t.Errorf("message %s: marked is %v after kill=%v", id, !kill, kill)
				}
			}
			if len(want) > 0 {
				t.Errorf("%d messages were lost", len(want))
			}
			b.close()
		})
	}
}

// TestQueueDeadLetter: what no retry can mend is kept with the answer.
func TestQueueDeadLetter(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, queueConfig(ordersRoute(b.addr, "retry: {initial: 20ms, max: 20ms, attempts: 3}")), b)
	refusal := envelope("1.1", `<e:Fault><faultcode>e:Client</faultcode><faultstring>bad ref</faultstring></e:Fault>`)
	for _, c := range []struct {
		name, reason string
		answer       []byte
		attempts     int
	}{
		{"client fault", "permanent", response(500, fields{{"Content-Type", "text/xml"}}, refusal), 1},
		{"not found", "permanent", response(404, nil, nil), 1},
		{"redirect", "permanent", response(302, fields{{"Location", "http://elsewhere/"}}, nil), 1},
		{"always 500", "attempts", response(500, nil, nil), 3},
	} {
		b.reset()
		b.answerWith(c.answer)
		before := len(g.dead(t, "orders"))
		id := stored(t, g, "/orders", numbered(5))
		if !eventually(patience, func() bool { return len(g.dead(t, "orders")) == before+1 }) {
			t.Fatalf("%s: no dead letter", c.name)
		}
		if n := len(b.got()); n != c.attempts {
			t.Errorf("%s: %d attempts, want %d", c.name, n, c.attempts)
		}
		text, err := g.get("/api/v1/messages/" + id)
		if err != nil || !strings.Contains(text, `"`+c.reason+`"`) {
			t.Errorf("%s: shown as %s, %v", c.name, text, err)
		}
		if c.name == "client fault" && !strings.Contains(text, "bad ref") {
			t.Errorf("the fault is not kept: %s", text)
		}
		if v := g.metricSum(t, "gateway_dead_letters_total", `reason="`+c.reason+`"`); v < 1 {
			t.Errorf("%s: gateway_dead_letters_total does not tell", c.name)
		}
	}
	if n := g.waiting(t); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// TestQueueBinders: a stored message reaches a framed node, and one that does
// not fit its length is a dead letter at once.
func TestQueueBinders(t *testing.T) {
	b := listenFramed(t)
	b.do(func(p *peer, _ *call) { _, _ = p.Write(frame(2, nil)) })
	g := start(t, queueConfig(fmt.Sprintf(`{name: orders, match: {path: /orders}, to: ["framed://%s"], delivery: queue, %s}`, b.addr, quick)), b)
	stored(t, g, "/orders", numbered(1))
	dialFramed(t, g.addr["framed"], 4).call(numbered(2))
	if !eventually(patience, func() bool { return len(b.got()) == 2 && g.waiting(t) == 0 }) {
		t.Fatalf("%d of 2 were delivered", len(b.got()))
	}
	if got := b.got(); string(got[0].Body) != string(numbered(1)) || string(got[1].Body) != string(numbered(2)) {
		t.Errorf("delivered %s and %s", describe(got[0].Body), describe(got[1].Body))
	}
	stored(t, g, "/orders", envelope("1.1", "<t:op xmlns:t='urn:test'>"+strings.Repeat("x", 70_000)+"</t:op>"))
	if !eventually(patience, func() bool { return len(g.dead(t, "orders")) == 1 }) || len(b.got()) != 2 {
		t.Errorf("too large for the node: %d dead letters, %d at the node", len(g.dead(t, "orders")), len(b.got()))
	}
}

// TestQueueFull: no room on the disk is told before the store fails.
func TestQueueFull(t *testing.T) {
	g := start(t, strings.Replace(queueConfig(`{name: orders, match: {path: /orders}, to: ["builtin:sink"], delivery: queue}`,
		`{name: echo, match: {path: /echo}, to: ["builtin:echo"]}`), "min_free: 1MiB", "min_free: 100000GiB", 1))
	a := post(t, g.addr["http"], "/orders", xml11(""), numbered(1))
	if a.Status != 503 || !a.Fields.has("Retry-After") || len(a.Body) > 0 || a.Fields.has("Gateway-Outcome") {
		t.Errorf("got %s", a)
	}
	ft, err := readFault(dialFramed(t, g.addr["framed"], 4).call(numbered(1)), "")
	if ft == nil || ft.Own != "Busy" {
		t.Errorf("framed: got %+v, %v, want the fault Busy", ft, err)
	}
	if a := post(t, g.addr["http"], "/echo", xml11(""), numbered(1)); a.Status != 200 {
		t.Errorf("a sync route: %s", a)
	}
	if text, err := g.get("/readyz"); err != nil || !strings.HasPrefix(text, "ready") {
		t.Errorf("/readyz: %q, %v: a full queue stays ready", text, err)
	}
}

// refusesToStart runs serve to its end and returns what it said.
func refusesToStart(t *testing.T, args ...string) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	done := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer done.Stop()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v: exit %d, %v, want 1:\n%s", args, cmd.ProcessState.ExitCode(), err, out)
	}
	return string(out)
}

// TestSecondGatewayIsRefused: two on one store would deliver everything twice.
func TestSecondGatewayIsRefused(t *testing.T) {
	g := start(t, queueConfig(`{name: orders, match: {path: /orders}, to: ["builtin:sink"], delivery: queue}`))
	said := refusesToStart(t, "serve", "-c", g.file)
	for _, want := range []string{"store.dir", filepath.Join(g.dir, "data"), fmt.Sprintf("process %d", g.cmd.Process.Pid)} {
		if !strings.Contains(said, want) {
			t.Errorf("the refusal does not name %s: %s", want, said)
		}
	}
	stored(t, g, "/orders", numbered(1)) // the first goes on
}

// TestStrictNeedsADisk: check and serve refuse a strict store where a sync
// proves nothing, at the place of the key, with what can be done.
func TestStrictNeedsADisk(t *testing.T) {
	shm, err := os.MkdirTemp("/dev/shm", "casetest-")
	if err != nil {
		t.Skipf("no tmpfs at hand: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	yaml := strings.Replace(queueConfig(`{name: orders, match: {path: /orders}, to: ["builtin:sink"], delivery: queue}`),
		"durability: "+durability(), "dir: "+filepath.Join(shm, "data")+", durability: strict", 1)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "serve"} {
		said := refusesToStart(t, command, "-c", file)
		for _, want := range []string{file + ":8:", "store.durability: ", "tmpfs", "durability: relaxed"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q: %s", command, want, said)
			}
		}
	}
	if entries, _ := os.ReadDir(shm); len(entries) > 0 {
		t.Errorf("a refused store left %v behind", entries)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(yaml, "strict", "relaxed", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := startGateway(filepath.Dir(file), strings.Replace(yaml, "strict", "relaxed", 1))
	if err != nil {
		t.Fatal(err)
	}
	if a := post(t, g.addr["http"], "/orders", xml11(""), numbered(1)); a.Status != 202 || a.Fields.get("Gateway-Durability") != "relaxed" {
		t.Errorf("relaxed: %s", a)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}
