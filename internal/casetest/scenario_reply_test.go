package casetest

import (
	"bytes"
	"strings"
	"testing"
)

// follow asks what has become of a stored message.
func follow(t testing.TB, g *gateway, id string) *answer {
	t.Helper()
	a := exchange(t, g.addr["http"], appendHead(nil, "GET /_gateway/messages/"+id+" HTTP/1.1", fields{{"Host", "gw.depot.test"}}))
	if a.Err != nil {
		t.Fatalf("GET of message %s: broken answer: %s", id, a)
	}
	return a
}

// mirrored is the answer of a service to numbered(n): each has one of its own.
func mirrored(body []byte) []byte {
	return bytes.ReplaceAll(body, []byte("t:op"), []byte("t:opResponse"))
}

// TestStoredReplyOutlivesAKill: the answer to a message is there whenever the
// gateway is killed, and nothing is sent twice without the mark.
func TestStoredReplyOutlivesAKill(t *testing.T) {
	const messages, kills = 60, 4
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, mirrored(c.Body)))
	})
	config := queueConfig(ordersRoute(b.addr, "reply: store, "+quick))
	g := start(t, config)
	bodies := map[string][]byte{}
	for k := range kills {
		before := len(b.got())
		for i := range messages / kills {
			body := numbered(k*messages + i)
			bodies[stored(t, g, "/orders", body)] = body
		}
		// Some are answered and not yet removed, or not yet answered.
		eventually(patience, func() bool { return len(b.got()) > before+k*messages/kills/kills })
		g.crash(t)
		g = startAgain(t, g, config, b)
	}
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d still wait", g.waiting(t))
	}
	for id, body := range bodies {
		if a := follow(t, g, id); a.Status != 200 || !bytes.Equal(a.Body, mirrored(body)) || a.Fields.get("Content-Type") != "text/xml; charset=utf-8" || a.Fields.get("Gateway-Message-Id") != id {
			t.Errorf("message %s: not its reply: %s", id, a)
		}
	}
	seen := map[string]bool{}
	for _, c := range b.got() {
		id := c.Fields.get("Gateway-Message-Id")
		if seen[id] && !c.Fields.has("Gateway-Possible-Duplicate") {
			t.Errorf("message %s came again without the mark", id)
		}
		seen[id] = true
	}
}

// TestStoredReply: the states of a message, as its caller sees them, and the reply
// in the version that the caller spoke.
func TestStoredReply(t *testing.T) {
	addr := refusedAddr(t)
	config := queueConfig(ordersRoute(addr, "reply: store, dedup: {}, soap: {translate: \"1.2\"}, "+quick))
	g := start(t, config)
	send := func(id string) *answer {
		t.Helper()
		return post(t, g.addr["http"], "/orders", xml11("urn:test"), signedAnew(id, `<t:op xmlns:t="urn:test">1</t:op>`, 1))
	}
	id := send("urn:1").Fields.get("Gateway-Message-Id")
	dead := send("urn:dead").Fields.get("Gateway-Message-Id")
	for range 2 {
		if a := follow(t, g, id); a.Status != 202 || len(a.Body) > 0 || a.Fields.get("Gateway-Message-Id") != id {
			t.Errorf("while it waits: %s", a)
		}
	}
	b := listenAt(t, addr)
	b.do(func(p *peer, c *call) {
		if strings.Contains(string(c.Body), "urn:dead") {
			_, _ = p.Write(response(404, nil, nil))
			return
		}
		if !strings.Contains(string(c.Body), "http://www.w3.org/2003/05/soap-envelope") {
			t.Errorf("the backend got %s", c.Raw)
		}
		_, _ = p.Write(response(200, fields{{"Content-Type", "application/soap+xml"}}, envelope("1.2", `<t:opResponse xmlns:t="urn:test">done</t:opResponse>`)))
	})
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d still wait", g.waiting(t))
	}
	check := func(when string, a *answer) {
		t.Helper()
		if a.Status != 200 || !strings.HasPrefix(a.Fields.get("Content-Type"), "text/xml") || a.Fields.get("Gateway-Message-Id") != id ||
			!strings.Contains(string(a.Body), `>done<`) || !strings.Contains(string(a.Body), "http://schemas.xmlsoap.org/soap/envelope/") || strings.Contains(string(a.Body), "2003/05") {
			t.Errorf("%s: not the reply in SOAP 1.1: %s", when, a)
		}
	}
	for _, when := range []string{"answered", "answered, after a kill"} {
		check(when, follow(t, g, id))
		check(when+", to a repeat", send("urn:1"))
		for what, a := range map[string]*answer{"asked": follow(t, g, dead), "sent again": send("urn:dead")} {
			if a.Status != 500 || !strings.Contains(string(a.Body), ">DeadLettered<") || !strings.Contains(string(a.Body), "http://schemas.xmlsoap.org/soap/envelope/") {
				t.Errorf("%s: a dead letter, %s: %s", when, what, a)
			}
		}
		if a := follow(t, g, "01900000-0000-7000-8000-000000000000"); a.Status != 404 {
			t.Errorf("%s: of none: %s", when, a)
		}
		if when == "answered" {
			g.crash(t)
			g = startAgain(t, g, config, b)
			if !eventually(patience, func() bool { return follow(t, g, "01900000-0000-7000-8000-000000000000").Status == 404 }) {
				t.Fatal("the index is not rebuilt")
			}
		}
	}
	if n := len(b.got()); n != 2 {
		t.Errorf("the backend got %d requests, want 2", n)
	}
	if n := g.metricSum(t, "gateway_requests_total", `outcome="followed"`, `route="orders"`); n < 1 {
		t.Errorf("gateway_requests_total tells of %v questions", n)
	}
}
