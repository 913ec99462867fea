package casetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A deliveryRun is what case 58 keeps of one of its variants.
type deliveryRun struct {
	calls   []*call
	refused int         // attempts that found no backend
	at      []time.Time // of each call's answer
	dead    []storedMessage
	shown   string // the dead letter in full
	err     error  // what the client saw instead of an answer
}

// queueRuns are the runs of case 58 by variant.
var queueRuns = map[string]*deliveryRun{}

// drive58 gives each variant a gateway of its own, since it is killed in some.
func drive58(t *testing.T, r *run) {
	base := r.message(t, "/depot", variant{"", object{}})
	for _, v := range append([]variant{{"", object{}}}, r.variants()...) {
		o := &outcome{name: v.Name, target: base.target, fields: base.fields, body: base.body, doc: base.doc}
		d := &deliveryRun{}
		queueRuns[v.Name] = d
		switch v.Name {
		case "", "reset-after-request", "client-fault", "refused-then-503-then-202":
			d.scripted(t, r, o)
		case "kill-after-ack":
			d.killAfter(t, r, o)
		case "kill-before-ack":
			d.killBefore(t, r, o)
			r.by[v.Name] = o // there is no answer to evaluate
			continue
		default:
			t.Fatalf("case 58 has a variant %s that nothing drives", v.Name)
		}
		// The message is judged once, by its last delivery.
		if n := len(d.calls); n > 0 {
			o.calls = d.calls[n-1:]
		}
		r.add(o)
	}
}

const retry58 = "retry: {initial: 100ms, max: 200ms, jitter: 0}"

func config58(addr, retry string) string {
	return queueConfig(fmt.Sprintf(`{name: orders, match: {path: "/depot/*"}, to: ["http://%s/depot"], delivery: queue, %s}`, addr, retry))
}

// scripted plays the backend_script of the variant.
func (d *deliveryRun) scripted(t *testing.T, r *run, o *outcome) {
	var script []string
	for _, v := range r.variants() {
		if v.Name == o.name {
			for _, s := range v.doc["backend_script"].([]any) {
				script = append(script, s.(string))
			}
		}
	}
	if o.name == "" {
		script = []string{"202"}
	}
	d.play(t, r, o, script, retry58)
}

// play sends the message on a route with keys, to a backend that plays script.
func (d *deliveryRun) play(t *testing.T, r *run, o *outcome, script []string, keys string) {
	addr := refusedAddr(t)
	g := start(t, config58(addr, keys))
	// A SIGTERM that finds no connection to the backend is a plain one.
	var b *backend
	refusals := 0
	for len(script) > 0 && script[0] == "connection refused" {
		script, refusals = script[1:], refusals+1
	}
	var mu sync.Mutex
	up := func() {
		b = listenAt(t, addr)
		b.do(func(p *peer, _ *call) {
			mu.Lock()
			step := ""
			if len(script) > 0 {
				step, script = script[0], script[1:]
			}
			d.at = append(d.at, time.Now())
			mu.Unlock()
			switch {
			case step == "202" || step == "":
				_, _ = p.Write(response(202, nil, nil))
			case strings.HasPrefix(step, "503 Retry-After: "):
				_, _ = p.Write(response(503, fields{{"Retry-After", strings.TrimPrefix(step, "503 Retry-After: ")}}, nil))
			case strings.HasPrefix(step, "500 "):
				_, _ = p.Write(response(500, fields{{"Content-Type", "text/xml; charset=utf-8"}}, r.file(t, strings.TrimPrefix(step, "500 "))))
			case step == "read whole request, then reset":
				p.resetConn()
			default:
				t.Errorf("nothing plays the step %q", step)
			}
		})
	}
	if refusals == 0 {
		up()
	}
	o.a = post(t, g.addr["http"], o.target, o.fields, o.body)
	if refusals > 0 {
		if !eventually(patience, func() bool {
			return g.metricSum(t, "gateway_attempts_total", `route="orders"`, `result="not_sent"`) >= float64(refusals)
		}) {
			t.Fatal("no attempt was refused")
		}
		up()
	}
	if !eventually(patience, func() bool { return g.waiting(t) == 0 && len(b.got()) > 0 }) {
		t.Fatalf("the message still waits after %d attempts", len(b.got()))
	}
	pause(300 * time.Millisecond) // an attempt too many would come now
	d.calls, d.dead = b.got(), g.dead(t, "orders")
	d.refused = int(g.metricSum(t, "gateway_attempts_total", `route="orders"`, `result="not_sent"`))
	if len(d.dead) > 0 {
		if d.shown, d.err = g.get("/api/v1/messages/" + d.dead[0].ID); d.err != nil {
			t.Error(d.err)
		}
	}
	b.close()
}

// killAfter kills the gateway with the receipt in hand.
func (d *deliveryRun) killAfter(t *testing.T, _ *run, o *outcome) {
	addr := refusedAddr(t)
	g := start(t, config58(addr, retry58))
	o.a = post(t, g.addr["http"], o.target, o.fields, o.body)
	g.crash(t)
	next := startAgain(t, g, config58(addr, retry58))
	b := listenAt(t, addr)
	if !eventually(patience, func() bool { return next.waiting(t) == 0 && b.gotComplete() > 0 }) {
		t.Fatal("the message was lost")
	}
	d.calls = b.got()
	b.close()
}

// killBefore kills the gateway in the middle of the request, at several points.
func (d *deliveryRun) killBefore(t *testing.T, _ *run, o *outcome) {
	octets := request(o.target, o.fields, o.body)
	for _, sent := range []int{40, len(octets) - len(o.body), len(octets) - 10, len(octets)} {
		addr := refusedAddr(t)
		g := start(t, config58(addr, retry58))
		c := dial(t, g.addr["http"])
		if err := c.send(octets[:sent]); err != nil {
			t.Fatal(err)
		}
		if sent < len(octets) {
			pause(20 * time.Millisecond)
		}
		g.crash(t)
		if a := c.answer(); a.Err == nil && sent < len(octets) {
			t.Errorf("killed after %d octets, and yet the client has an answer: %s", sent, a)
		} else if a.Err != nil {
			d.err = a.Err
		}
		next := startAgain(t, g, config58(addr, retry58))
		b := listenAt(t, addr)
		waiting := *next.ready.Waiting
		if waiting > 1 || waiting > 0 && sent < len(octets) {
			t.Errorf("killed after %d of %d octets: %d messages wait", sent, len(octets), waiting)
		}
		if !eventually(patience, func() bool { return next.waiting(t) == 0 && b.gotComplete() >= waiting }) {
			t.Errorf("killed after %d octets: %d waited and %d were delivered", sent, waiting, b.gotComplete())
		}
		d.calls = append(d.calls, b.got()...)
		b.close()
	}
}

func deliveries(name string, f func(t *testing.T, r *run, d *deliveryRun)) check {
	return on(name, func(t *testing.T, r *run, _ *outcome) { f(t, r, queueRuns[name]) })
}

// attempted wants so many attempts, counted in the field and each the same
// message.
func attempted(n int) func(t *testing.T, r *run, d *deliveryRun) {
	return func(t *testing.T, r *run, d *deliveryRun) {
		t.Helper()
		if len(d.calls) == 0 {
			t.Fatal("nothing was delivered")
		}
		last := d.calls[len(d.calls)-1]
		if got := last.Fields.get("Gateway-Attempt"); got != strconv.Itoa(n) {
			t.Errorf("the last attempt is number %s, want %d", got, n)
		}
		for _, c := range d.calls {
			if string(c.Body) != string(r.file(t, "request.bin")) || c.Fields.get("Gateway-Message-Id") != last.Fields.get("Gateway-Message-Id") || c.Err != nil {
				t.Errorf("an attempt carries %s", describe(c.Body))
			}
		}
	}
}

var queueChecks = checkTable{
	"58": {
		"must_not/acknowledge before the write is durable": on("", func(t *testing.T, r *run, o *outcome) {
			// Seen from outside: a sync of the disk lies between the message and
			// its receipt; and in kill-after-ack nothing is lost.
			g := start(t, config58(refusedAddr(t), retry58))
			before := g.metricSum(t, "gateway_store_group_messages_sum")
			post(t, g.addr["http"], o.target, o.fields, o.body)
			if got := g.metricSum(t, "gateway_store_group_messages_sum"); durability() == "strict" && got != before+1 {
				t.Errorf("%v messages were synced when the receipt was there, want one more than %v", got, before)
			}
			survived(t, r, queueRuns["kill-after-ack"])
		}),
		"to_backend/body": func(t *testing.T, r *run) {
			for name, d := range queueRuns {
				for _, c := range d.calls {
					if string(c.Body) != string(r.file(t, "request.bin")) || c.Err != nil {
						t.Errorf("%s: the backend got %s (%v)", name, describe(c.Body), c.Err)
					}
				}
			}
		},
		"to_backend/sha256_input": on("", func(t *testing.T, r *run, o *outcome) {
			sum := sha256.Sum256(o.sole(t).Body)
			if want := r.expect()["to_backend"].(object)["sha256_input"]; hex.EncodeToString(sum[:]) != want {
				t.Errorf("sha256 %x, want %v", sum, want)
			}
		}),

		// The second attempt comes 100 ms after the first, and on a busy machine the
		// backend may still be missing: then as many more are refused.
		"variant refused-then-503-then-202/attempts": deliveries("refused-then-503-then-202", func(t *testing.T, r *run, d *deliveryRun) {
			if d.refused < 1 {
				t.Error("no attempt was refused")
			}
			attempted(d.refused+2)(t, r, d)
		}),
		"variant refused-then-503-then-202/delivered": deliveries("refused-then-503-then-202", delivered(2)),
		"variant refused-then-503-then-202/third_not_before": deliveries("refused-then-503-then-202", func(t *testing.T, _ *run, d *deliveryRun) {
			if len(d.at) != 2 || d.at[1].Sub(d.at[0]) < time.Second {
				t.Errorf("attempts at %v, want the second 1 s after the first", d.at)
			}
		}),
		"variant client-fault/attempts": deliveries("client-fault", attempted(1)),
		"variant client-fault/final": deliveries("client-fault", func(t *testing.T, _ *run, d *deliveryRun) {
			if len(d.calls) != 1 || len(d.dead) != 1 || d.dead[0].Reason != "permanent" || !strings.Contains(d.shown, "bad ref") {
				t.Errorf("%d attempts, dead letters %+v, shown as %s", len(d.calls), d.dead, d.shown)
			}
		}),
		"variant reset-after-request/at-least-once route": deliveries("reset-after-request", func(t *testing.T, r *run, d *deliveryRun) {
			attempted(2)(t, r, d)
			delivered(2)(t, r, d)
			if !strings.Contains(string(d.calls[1].Body), "urn:uuid:58000000-0000-4000-8000-000000000058") ||
				d.calls[0].Fields.has("Gateway-Possible-Duplicate") || d.calls[1].Fields.get("Gateway-Possible-Duplicate") != "true" {
				t.Errorf("the repeat is not told from the first: %s", d.calls[1].Raw)
			}
		}),
		"variant reset-after-request/at-most-once route": func(t *testing.T, r *run) {
			base := r.message(t, "/depot", variant{"", object{}})
			o := &outcome{target: base.target, fields: base.fields, body: base.body, doc: base.doc}
			d := &deliveryRun{}
			d.play(t, r, o, []string{"read whole request, then reset", "202"}, retry58+", assurance: at-most-once")
			if len(d.calls) != 1 || len(d.dead) != 1 || d.dead[0].Reason != "outcome-unknown" {
				t.Errorf("%d attempts, dead letters %+v, want 1 and one with the outcome unknown", len(d.calls), d.dead)
			}
		},
		"variant kill-after-ack/delivered": deliveries("kill-after-ack", func(t *testing.T, _ *run, d *deliveryRun) {
			if len(d.calls) < 1 {
				t.Error("not delivered")
			}
		}),
		"variant kill-after-ack/lost": deliveries("kill-after-ack", survived),
		"variant kill-before-ack/client": deliveries("kill-before-ack", func(t *testing.T, _ *run, d *deliveryRun) {
			if d.err == nil {
				t.Error("no client saw its connection break")
			}
		}),
		"variant kill-before-ack/delivered": deliveries("kill-before-ack", func(t *testing.T, r *run, d *deliveryRun) {
			for _, c := range d.calls {
				if c.Err != nil || string(c.Body) != string(r.file(t, "request.bin")) {
					t.Errorf("a partial message was delivered: %s", describe(c.Body))
				}
			}
		}),

		"must_not/resend after a Client/Sender fault": deliveries("client-fault", func(t *testing.T, _ *run, d *deliveryRun) {
			if len(d.calls) != 1 {
				t.Errorf("%d attempts", len(d.calls))
			}
		}),
		"must_not/retry forever without a limit and a dead-letter place": on("", func(t *testing.T, _ *run, o *outcome) {
			for retry, reason := range map[string]string{
				"retry: {initial: 20ms, max: 20ms, attempts: 2}": "attempts", "retry: {initial: 20ms, max: 20ms, expire: 1s}": "expired",
			} {
				g := start(t, config58(refusedAddr(t), retry))
				post(t, g.addr["http"], o.target, o.fields, o.body)
				if !eventually(patience, func() bool { d := g.dead(t, "orders"); return len(d) == 1 && d[0].Reason == reason }) {
					t.Errorf("%s: dead letters %+v", retry, g.dead(t, "orders"))
				}
			}
		}),
		"must_not/let one stuck message stop other routes": on("", func(t *testing.T, _ *run, o *outcome) {
			b := taking(t)
			g := start(t, queueConfig(
				fmt.Sprintf(`{name: orders, match: {path: /stuck}, to: ["http://%s/"], delivery: queue, order_by: route}`, refusedAddr(t)),
				fmt.Sprintf(`{name: other, match: {path: "/depot/*"}, to: ["http://%s/depot"], delivery: queue, order_by: route}`, b.addr)), b)
			post(t, g.addr["http"], "/stuck", o.fields, o.body)
			for range 20 {
				post(t, g.addr["http"], o.target, o.fields, o.body)
			}
			if !eventually(patience, func() bool { return b.gotComplete() == 20 }) {
				t.Errorf("%d of 20 were delivered beside a stuck one", b.gotComplete())
			}
		}),
	},
}

// survived wants the message whole at the backend.
func survived(t *testing.T, r *run, d *deliveryRun) {
	t.Helper()
	if len(d.calls) == 0 || string(d.calls[0].Body) != string(r.file(t, "request.bin")) || len(d.dead) > 0 {
		t.Errorf("%d calls, dead letters %+v, want the message", len(d.calls), d.dead)
	}
}

// delivered wants so many calls at the backend, of which the last was taken.
func delivered(calls int) func(t *testing.T, r *run, d *deliveryRun) {
	return func(t *testing.T, _ *run, d *deliveryRun) {
		t.Helper()
		if len(d.calls) != calls || len(d.dead) > 0 {
			t.Errorf("%d calls and dead letters %+v, want %d calls, the last taken", len(d.calls), d.dead, calls)
		}
	}
}
