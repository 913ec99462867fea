package casetest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
)

const wsa = "http://www.w3.org/2005/08/addressing"

// addressedTo is a SOAP 1.1 message with these header blocks of WS-Addressing.
func addressedTo(blocks, body string) []byte {
	return []byte(`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:a="` + wsa + `" xmlns:q="urn:q"><e:Header>` +
		blocks + `</e:Header><e:Body>` + body + `</e:Body></e:Envelope>`)
}

func endpointBlock(name, address, more string) string {
	return `<a:` + name + `><a:Address>` + address + `</a:Address>` + more + `</a:` + name + `>`
}

// replyToRoute is a queue route whose answers may go to caller.
func replyToRoute(b *backend, caller, rest string) string {
	return ordersRoute(b.addr, `reply: reply-to, reply_hosts: ["`+caller+`"], `+rest+quick)
}

// answers lists what waits of the answers of the route orders for a caller.
func (g *gateway) answers(t testing.TB, caller, state string) string {
	t.Helper()
	path := "/api/v1/queues/" + url.PathEscape("orders@http:"+caller) + "/messages"
	if state != "" {
		path += "?state=" + state
	}
	text, err := g.get(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReplyTo: the answer of the service comes to the address that the message names,
// with what its receiver needs, when the receiver is there.
func TestReplyTo(t *testing.T) {
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, envelope("1.1", `<t:opResponse xmlns:t="urn:test">done</t:opResponse>`)))
	})
	addr := refusedAddr(t)
	g := start(t, queueConfig(replyToRoute(b, addr, "")), b)
	const parameter = `<a:ReferenceParameters><q:ticket>7</q:ticket></a:ReferenceParameters>`
	id := stored(t, g, "/orders", addressedTo(`<a:MessageID>urn:uuid:1</a:MessageID>`+endpointBlock("ReplyTo", "HTTP://"+addr+"/inbox?for=me&amp;x", parameter), `<t:op xmlns:t="urn:test"/>`))
	if !eventually(patience, func() bool { return strings.Contains(g.answers(t, addr, "retrying"), `"opResponse"`) }) {
		t.Fatalf("the answer does not wait: %s", g.answers(t, addr, ""))
	}
	if n := len(b.got()); n != 1 || b.got()[0].Fields.get("Gateway-Message-Id") != id {
		t.Errorf("the service got %d messages", n)
	}
	caller := listenAt(t, addr)
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("the answer still waits: %s", g.answers(t, addr, ""))
	}
	got := caller.got()
	if len(got) == 0 {
		t.Fatal("no answer came")
	}
	c := got[len(got)-1]
	if c.Line != "POST /inbox?for=me&x HTTP/1.1" || c.Fields.get("Host") != addr || !strings.HasPrefix(c.Fields.get("Content-Type"), "text/xml") ||
		c.Fields.get("SOAPAction") != `""` || len(c.Fields.get("Gateway-Message-Id")) != 36 || c.Fields.get("Gateway-Message-Id") == id ||
		c.Fields.get("Gateway-Attempt") == "" || c.Fields.has("Gateway-Possible-Duplicate") {
		t.Errorf("the answer came as %s", c.Raw)
	}
	doc, err := document(c.Body, c.Fields.get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"wsa:RelatesTo": "urn:uuid:1", "wsa:To": "HTTP://" + addr + "/inbox?for=me&x", "q:ticket": "7", "t:opResponse": "done"} {
		if list := doc.named(name); len(list) != 1 || list[0].text() != want {
			t.Errorf("%s: got %d, want one with %q: %s", name, len(list), want, c.Body)
		}
	}
	if !bytes.Contains(c.Body, []byte(`IsReferenceParameter="true"`)) {
		t.Errorf("the parameter is not marked: %s", c.Body)
	}
}

// TestReplyToNobody: the addresses that are no places. Nothing is sent for none; for
// anonymous, and for no address, the answer is kept for the caller.
func TestReplyToNobody(t *testing.T) {
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, envelope("1.1", `<t:r xmlns:t="urn:test"/>`)))
	})
	caller := taking(t)
	g := start(t, queueConfig(replyToRoute(b, caller.addr, "")), b, caller)
	const draft = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
	for _, tt := range []struct {
		name, blocks string
		status       int
	}{
		{"none", endpointBlock("ReplyTo", wsa+"/none", ""), 404},
		{"anonymous", endpointBlock("ReplyTo", wsa+"/anonymous", ""), 200},
		{"anonymous of the draft", `<d:ReplyTo xmlns:d="` + draft + `"><d:Address>` + draft + `/role/anonymous</d:Address></d:ReplyTo>`, 200},
		{"no address", "", 200},
		{"none, and a place for faults", endpointBlock("ReplyTo", wsa+"/none", "") + endpointBlock("FaultTo", "http://"+caller.addr+"/f", ""), 404},
	} {
		id := stored(t, g, "/orders", addressedTo(tt.blocks, `<t:op xmlns:t="urn:test"/>`))
		if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
			t.Fatalf("%s: it still waits", tt.name)
		}
		if a := follow(t, g, id); a.Status != tt.status {
			t.Errorf("%s: %s", tt.name, a)
		}
	}
	if n := len(caller.got()); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}

// TestReplyToRefused: a message whose answer could not go where it asks is refused,
// and nothing is stored.
func TestReplyToRefused(t *testing.T) {
	b, caller := taking(t), taking(t)
	g := start(t, queueConfig(replyToRoute(b, caller.addr, "")), b, caller)
	_, port, _ := strings.Cut(caller.addr, ":")
	for _, address := range []string{
		"http://other.example.com/", "http://127.0.0.1/", "http://127.0.0.1:1/", "http://localhost:" + port + "/", "http://127.0.0.1.:" + port + "/",
		"ftp://" + caller.addr + "/", "//" + caller.addr + "/", caller.addr, "mailto:a@b", "urn:x", "http://", "http:///x", "http:" + caller.addr,
		"http://u:p@" + caller.addr + "/", "http://" + caller.addr + "@other.example.com/", "http://other.example.com#@" + caller.addr + "/",
		"http://other.example.com?@" + caller.addr + "/", `http://other.example.com\@` + caller.addr + "/", "http://" + caller.addr + "/a b",
		"http://" + caller.addr + "/../x", "http://" + caller.addr + "/" + strings.Repeat("x", 2100), "http://0177.0.0.1:" + port + "/", "http://2130706433:" + port + "/",
		"http://" + caller.addr + ":/", "http://127.0.0.1:0" + port + "/", "http://" + caller.addr + "/\u00e9",
	} {
		for _, name := range []string{"ReplyTo", "FaultTo"} {
			a := post(t, g.addr["http"], "/orders", xml11("urn:test"), addressedTo(endpointBlock(name, strings.ReplaceAll(address, "&", "&amp;"), ""), `<t:op xmlns:t="urn:test"/>`))
			if a.Status != 500 || !strings.Contains(string(a.Body), ">InvalidAddress</f:code>") || !strings.Contains(string(a.Body), ":InvalidAddress</faultcode>") || a.Fields.has("Location") {
				t.Errorf("%s %.60s: %s", name, address, a)
			}
		}
	}
	two := endpointBlock("ReplyTo", "http://"+caller.addr+"/", "")
	if a := post(t, g.addr["http"], "/orders", xml11("urn:test"), addressedTo(two+two, `<t:op xmlns:t="urn:test"/>`)); a.Status != 500 || !strings.Contains(string(a.Body), ">InvalidCardinality</f:code>") {
		t.Errorf("two: %s", a)
	}
	if n := len(b.got()) + len(caller.got()); n != 0 || g.waiting(t) != 0 {
		t.Errorf("%d were sent, %d wait", n, g.waiting(t))
	}
}

// TestFaultTo: a fault that no retry can mend goes to FaultTo, and the message is a
// dead letter all the same. One that is worth another try goes nowhere.
func TestFaultTo(t *testing.T) {
	b := listenHTTP(t)
	tries := 0
	b.do(func(p *peer, c *call) {
		code := "Client"
		if tries++; tries == 1 {
			code = "Server"
		}
		_, _ = p.Write(response(500, fields{{"Content-Type", "text/xml"}}, envelope("1.1", `<s:Fault xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><faultcode>s:`+code+`</faultcode><faultstring>no</faultstring></s:Fault>`)))
	})
	caller := taking(t)
	g := start(t, queueConfig(replyToRoute(b, caller.addr, "")), b, caller)
	reply, fault := endpointBlock("ReplyTo", "http://"+caller.addr+"/r", ""), endpointBlock("FaultTo", "http://"+caller.addr+"/f", "")
	for i, tt := range []struct{ blocks, target string }{{reply + fault, "/f"}, {reply, "/r"}, {fault, "/f"}} {
		stored(t, g, "/orders", addressedTo(tt.blocks, `<t:op xmlns:t="urn:test"/>`))
		if !eventually(patience, func() bool { return len(g.dead(t, "orders")) == i+1 && len(caller.got()) == i+1 && g.waiting(t) == 0 }) {
			t.Fatalf("%d dead letters, %d faults came", len(g.dead(t, "orders")), len(caller.got()))
		}
		if c := caller.got()[i]; c.target() != tt.target || !strings.Contains(string(c.Body), ":Client<") || !strings.Contains(string(c.Body), "RelatesTo") {
			t.Errorf("%d: %s", i, c.Raw)
		}
	}
}

// TestReplyToIsNotRedirected: a receiver that points elsewhere is not followed, and
// its answer becomes a dead letter of its own.
func TestReplyToIsNotRedirected(t *testing.T) {
	b, caller, other := listenHTTP(t), listenHTTP(t), taking(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, envelope("1.1", `<t:r xmlns:t="urn:test"/>`)))
	})
	caller.answerWith(response(307, fields{{"Location", "http://" + other.addr + "/"}}, nil))
	g := start(t, queueConfig(replyToRoute(b, caller.addr, "")), b, caller, other)
	stored(t, g, "/orders", addressedTo(endpointBlock("ReplyTo", "http://"+caller.addr, ""), `<t:op xmlns:t="urn:test"/>`))
	if !eventually(patience, func() bool { return strings.Contains(g.answers(t, caller.addr, "dead"), "redirect") }) {
		t.Errorf("no dead letter: %s", g.answers(t, caller.addr, ""))
	}
	if len(other.got()) != 0 || len(caller.got()) != 1 {
		t.Errorf("%d were sent on, %d to the receiver", len(other.got()), len(caller.got()))
	}
}

// TestReplyToAfterAReload: an answer for a host that is not allowed any more waits, is
// listed, and goes when the host is back.
func TestReplyToAfterAReload(t *testing.T) {
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, envelope("1.1", `<t:r xmlns:t="urn:test"/>`)))
	})
	addr := refusedAddr(t)
	with, without := queueConfig(replyToRoute(b, addr, "")), queueConfig(replyToRoute(b, "other.example.com", ""))
	g := start(t, with, b)
	stored(t, g, "/orders", addressedTo(endpointBlock("ReplyTo", "http://"+addr, ""), `<t:op xmlns:t="urn:test"/>`))
	if !eventually(patience, func() bool { return strings.Contains(g.answers(t, addr, ""), `"operation":"r"`) }) {
		t.Fatal("the answer does not wait")
	}
	reload := func(config string) {
		t.Helper()
		if err := os.WriteFile(g.file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload(without)
	if !eventually(patience, func() bool { return strings.Contains(g.answers(t, addr, "orphaned"), `"operation":"r"`) }) {
		t.Fatalf("it is not orphaned: %s", g.answers(t, addr, ""))
	}
	caller := listenAt(t, addr)
	reload(with)
	if !eventually(patience, func() bool { return len(caller.got()) == 1 && g.waiting(t) == 0 }) {
		t.Errorf("%d came: %s", len(caller.got()), g.answers(t, addr, ""))
	}
}

// TestReplyToOutlivesAKill: whenever the gateway is killed, each answer comes, and
// what comes again is marked.
func TestReplyToOutlivesAKill(t *testing.T) {
	const messages, kills = 60, 4
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, envelope("1.1", `<t:r xmlns:t="urn:test"/>`)))
	})
	caller := taking(t)
	config := queueConfig(replyToRoute(b, caller.addr, ""))
	g := start(t, config)
	sent := 0
	for k := range kills {
		for range messages / kills {
			sent++
			stored(t, g, "/orders", addressedTo(fmt.Sprintf(`<a:MessageID>urn:m:%d</a:MessageID>`, sent)+endpointBlock("ReplyTo", fmt.Sprintf("http://%s/%d", caller.addr, sent), ""), `<t:op xmlns:t="urn:test"/>`))
		}
		// Some are answered and not yet removed, some answers are on their way.
		eventually(patience, func() bool { return len(caller.got()) > k*messages/kills+3*k })
		g.crash(t)
		g = startAgain(t, g, config, b, caller)
	}
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d still wait", g.waiting(t))
	}
	came := map[string]bool{}
	ids := map[string]bool{}
	for _, c := range caller.got() {
		if !strings.Contains(string(c.Body), ">urn:m:"+c.target()[1:]+"<") {
			t.Errorf("an answer to another message: %s", c.Raw)
		}
		if (came[c.target()] || ids[c.Fields.get("Gateway-Message-Id")]) && !c.Fields.has("Gateway-Possible-Duplicate") {
			t.Errorf("the answer at %s came again without the mark", c.target())
		}
		came[c.target()], ids[c.Fields.get("Gateway-Message-Id")] = true, true
	}
	if len(came) != sent {
		t.Errorf("%d of %d answers came", len(came), sent)
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

// TestCase45Stored: the messages of case 45 on a route that stores them.
func TestCase45Stored(t *testing.T) {
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "application/soap+xml"}}, envelope("1.2", `<t:r xmlns:t="urn:test"/>`)))
	})
	g := start(t, queueConfig(replyToRoute(b, "erp.depot.test", "")), b)
	sent := map[string]bool{}
	for _, c := range needCases(t) {
		if c.ID != "45" {
			continue
		}
		r := &run{testCase: c}
		for _, v := range r.variants() {
			o := r.message(t, "/orders", v)
			if a := post(t, g.addr["http"], "/orders", o.fields, o.body); a.Status != 202 || len(a.Body) > 0 {
				t.Errorf("%s: %s", v.Name, a)
			}
			sent[string(o.body)] = true
		}
	}
	if !eventually(patience, func() bool {
		return len(b.got()) == len(sent) && strings.Contains(g.answers(t, "erp.depot.test", ""), `"operation":"r"`)
	}) {
		t.Errorf("the service got %d of %d, the answer that waits is %s", len(b.got()), len(sent), g.answers(t, "erp.depot.test", ""))
	}
	for _, c := range b.got() {
		if !sent[string(c.Body)] {
			t.Errorf("the service got other octets: %s", c.Body)
		}
	}
}
