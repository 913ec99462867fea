package casetest

import (
	"fmt"
	"strings"
	"testing"
)

// signedAnew is a message with a MessageID and a header that is never the same.
func signedAnew(id, body string, n int) []byte {
	return fmt.Appendf(nil, `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:a="http://www.w3.org/2005/08/addressing"><e:Header>`+
		`<a:MessageID>%s</a:MessageID><t:Sig xmlns:t="urn:test">%d</t:Sig></e:Header><e:Body>%s</e:Body></e:Envelope>`, id, n, body)
}

// TestQueueRepeats: a message that is sent again is stored once, whatever has
// become of it and whatever has become of the gateway since.
func TestQueueRepeats(t *testing.T) {
	addr := refusedAddr(t)
	config := queueConfig(ordersRoute(addr, "dedup: {window: 1d}, "+quick))
	g := start(t, config)
	const order, deadly = `<t:Place xmlns:t="urn:test">1</t:Place>`, `<t:Place xmlns:t="urn:test">deadly</t:Place>`
	n := 0
	send := func(id, body string, f ...field) *answer {
		t.Helper()
		n++
		return post(t, g.addr["http"], "/orders", append(xml11("urn:test"), f...), signedAnew(id, body, n))
	}
	wantReceipt := func(when, want, id, body string, f ...field) {
		t.Helper()
		a := send(id, body, f...)
		if got := a.Fields.get("Gateway-Message-Id"); a.Status != 202 || len(a.Body) > 0 || got != want || a.Fields.get("Location") != "/_gateway/messages/"+want {
			t.Errorf("%s: not the receipt of %s: %s", when, want, a)
		}
	}
	wantFault := func(when, code string, a *answer) {
		t.Helper()
		if a.Status != 500 || !strings.Contains(string(a.Body), ">"+code+"</f:code>") {
			t.Errorf("%s: not a fault %s: %s", when, code, a)
		}
	}
	first := send("urn:1", order).Fields.get("Gateway-Message-Id")
	dead := send("urn:2", deadly).Fields.get("Gateway-Message-Id")
	byField := send("", order, field{"Idempotency-Key", "\"k\""}).Fields.get("Gateway-Message-Id")
	if len(first) != 36 || len(dead) != 36 || len(byField) != 36 || first == dead || first == byField {
		t.Fatalf("ids: %q, %q, %q", first, dead, byField)
	}
	check := func(when string) {
		t.Helper()
		wantReceipt(when, first, "urn:1", order)
		wantReceipt(when, byField, "", order, field{"Idempotency-Key", "\"k\""})
		wantFault(when+", another body", "IDReused", send("urn:1", order+"<x/>"))
	}
	check("while it waits")
	g.crash(t)
	g = startAgain(t, g, config)
	check("while it waits, after a crash")
	if w := g.waiting(t); w != 3 {
		t.Errorf("%d messages wait, want 3", w)
	}

	b := listenAt(t, addr)
	b.do(func(p *peer, c *call) {
		if strings.Contains(string(c.Body), "deadly") {
			_, _ = p.Write(response(404, nil, nil))
			return
		}
		_, _ = p.Write(response(202, nil, nil))
	})
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d messages still wait", g.waiting(t))
	}
	for _, when := range []string{"delivered", "delivered, after a stop"} {
		check(when)
		wantFault(when, "DeadLettered", send("urn:2", deadly))
		wantFault(when, "IDReused", send("urn:2", order))
		if ids := g.metricSum(t, "gateway_dedup_ids", `route="orders"`); ids != 3 {
			t.Errorf("%s: gateway_dedup_ids is %v, want 3", when, ids)
		}
		if when == "delivered" {
			term(t, g)
			g = startAgain(t, g, config, b)
		}
	}
	if got := len(b.got()); got != 3 {
		t.Errorf("the backend got %d requests, want one for each message", got)
	}
	two := strings.Replace(string(signedAnew("urn:9", order, 0)), "</a:MessageID>", "</a:MessageID><a:MessageID>urn:9</a:MessageID>", 1)
	a := post(t, g.addr["http"], "/orders", xml11("urn:test"), []byte(two))
	wantFault("two MessageIDs", "InvalidCardinality", a)
}

// TestQueueRepeatsOfCallers: an id is one of its caller's.
func TestQueueRepeatsOfCallers(t *testing.T) {
	b := taking(t)
	g := start(t, queueConfig(ordersRoute(b.addr, `dedup: {}, auth: {api_key: {header: X-Api-Key, keys: ["first-key-of-two", "second-key-of-two"]}}, `+quick)))
	send := func(key string) string {
		t.Helper()
		a := post(t, g.addr["http"], "/orders", append(xml11("urn:test"), field{"X-Api-Key", key}), signedAnew("urn:1", "<x/>", 1))
		if a.Status != 202 {
			t.Fatalf("not a receipt: %s", a)
		}
		return a.Fields.get("Gateway-Message-Id")
	}
	first, second := send("first-key-of-two"), send("second-key-of-two")
	if first == second {
		t.Error("two callers with the same MessageID have got one receipt")
	}
	if again := send("first-key-of-two"); again != first {
		t.Errorf("a caller with the same MessageID has got %s, then %s", first, again)
	}
}
