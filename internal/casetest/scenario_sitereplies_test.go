package casetest

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// service answers what it gets: a fault for a message that says so, 404 for another,
// a large answer for a third, and else an answer of its own for each.
func service(t testing.TB) *backend {
	t.Helper()
	b := listenHTTP(t)
	b.do(func(p *peer, c *call) {
		kind := fields{{"Content-Type", "text/xml; charset=utf-8"}}
		switch body := string(c.Body); {
		case strings.Contains(body, "a-fault"):
			_, _ = p.Write(response(500, kind, []byte(`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><e:Fault><faultcode>e:Client</faultcode><faultstring>no such order</faultstring></e:Fault></e:Body></e:Envelope>`)))
		case strings.Contains(body, "a-404"):
			_, _ = p.Write(response(404, nil, nil))
		case strings.Contains(body, "a-large"):
			_, _ = p.Write(response(200, kind, largeAnswer()))
		default:
			_, _ = p.Write(response(200, kind, mirrored(c.Body)))
		}
	})
	return b
}

func largeAnswer() []byte {
	return envelope("1.1", "<x>"+strings.Repeat("large ", 500_000)+"</x>")
}

// replying is the pair of sites with a service behind hq, where the caller at the
// plant gets answers as reply says.
func replying(t testing.TB, reply string) *sitePair {
	t.Helper()
	p := &sitePair{authority: newAuthority(t), b: service(t)}
	for _, name := range []string{"hq", "plant", "branch"} {
		p.issue(t, name)
	}
	p.at = refusedAddr(t)
	p.hqConfig = farSite(p.authority, p.at, p.b.addr, "")
	p.hq = start(t, p.hqConfig, p.b)
	p.cable = newCable(t, func() string { return p.at })
	p.plantConfig = strings.Replace(nearSite(p.authority, p.cable.addr(), "site:hq/orders", ""), "backend: hq,", "backend: hq, "+reply+",", 1)
	p.plant = start(t, p.plantConfig, p.b)
	return p
}

// send posts a message to the plant and returns its id.
func (p *sitePair) send(t testing.TB, body []byte) string {
	t.Helper()
	return stored(t, p.plant, "/orders/k", body)
}

// getsAnswers checks that each message has its answer, at the plant.
func (p *sitePair) getsAnswers(t testing.TB, bodies map[string][]byte) {
	t.Helper()
	for id, body := range bodies {
		var a *answer
		if !eventually(60*time.Second, func() bool { a = follow(t, p.plant, id); return a.Status == 200 }) {
			t.Fatalf("message %s has no answer: %s\nplant: %s\nhq: %s", id, a, tail(p.plant.log.String()), tail(p.hq.log.String()))
		}
		if !bytes.Equal(a.Body, mirrored(body)) || a.Fields.get("Content-Type") != "text/xml; charset=utf-8" {
			t.Errorf("message %s: not its answer: %s", id, a)
		}
	}
}

// operates runs gateway queue on a running gateway.
func (g *gateway) operates(t testing.TB, args ...string) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, append([]string{"queue", "--admin", "http://" + g.admin}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gateway queue %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestSiteReply: the caller at one site gets the answer of a service at another as if
// it were here: an answer, a large one, a fault, and the end of a message that cannot
// be delivered there. The plant fetches the answers, since hq cannot reach it.
func TestSiteReply(t *testing.T) {
	p := replying(t, "reply: store, dedup: {}")
	bodies := map[string][]byte{}
	for i := range 20 {
		bodies[p.send(t, numbered(i))] = numbered(i)
	}
	p.getsAnswers(t, bodies)

	kind := func(name string) []byte { return envelope("1.1", `<t:op xmlns:t="urn:test">`+name+`</t:op>`) }
	large := p.send(t, kind("a-large"))
	if !eventually(60*time.Second, func() bool { return follow(t, p.plant, large).Status == 200 }) {
		t.Fatalf("no large answer: %s", follow(t, p.plant, large))
	}
	if a := follow(t, p.plant, large); !bytes.Equal(a.Body, largeAnswer()) {
		t.Errorf("the large answer has %d octets, want %d", len(a.Body), len(largeAnswer()))
	}
	for _, name := range []string{"a-fault", "a-404"} {
		id := p.send(t, kind(name))
		var a *answer
		if !eventually(60*time.Second, func() bool { a = follow(t, p.plant, id); return a.Status == 500 }) {
			t.Fatalf("%s: %s\n%s", name, a, tail(p.plant.log.String()))
		}
		if !strings.Contains(string(a.Body), ">DeadLettered<") {
			t.Errorf("%s: %s", name, a)
		}
		if text := p.plant.operates(t, "show", id); !strings.Contains(text, "dead at site hq: ") {
			t.Errorf("%s: queue show does not say that it is dead at hq:\n%s", name, text)
		}
	}
	if n := len(p.hq.dead(t, "orders")); n != 2 {
		t.Errorf("%d dead letters at hq, want 2", n)
	}

	// A message that hq has, and whose service is down.
	p.b.close()
	id := p.send(t, numbered(100))
	if !eventually(60*time.Second, func() bool {
		return strings.Contains(p.plant.operates(t, "ls"), "3 messages handed over, answer awaited")
	}) {
		t.Fatalf("queue ls does not tell of what is awaited:\n%s", p.plant.operates(t, "ls"))
	}
	if a := follow(t, p.plant, id); a.Status != 202 {
		t.Errorf("while its answer is awaited: %s", a)
	}
	if text := p.plant.operates(t, "show", id); !strings.Contains(text, "handed over to site hq, which has not answered yet") || !strings.Contains(text, "site hq has taken it") {
		t.Errorf("queue show:\n%s", text)
	}
	if text := p.plant.operates(t, "ls", "orders", "--state", "awaiting"); !strings.Contains(text, id) {
		t.Errorf("queue ls --state awaiting:\n%s", text)
	}
	if text := p.plant.operates(t, "ls", "orders"); !strings.Contains(text, "--state awaiting") {
		t.Errorf("queue ls orders:\n%s", text)
	}
	if n := p.plant.metricSum(t, "gateway_queue_messages", `route="orders"`, `state="awaiting"`); n != 3 {
		t.Errorf("gateway_queue_messages tells of %v that are awaited, want 3", n)
	}
	back := listenAt(t, p.b.addr)
	back.do(func(w *peer, c *call) {
		_, _ = w.Write(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, mirrored(c.Body)))
	})
	p.getsAnswers(t, map[string][]byte{id: numbered(100)})
}

// TestSiteReplyKills: no answer is lost and none is another's, whichever side is
// killed, and when the line is cut.
func TestSiteReplyKills(t *testing.T) {
	p := replying(t, "reply: store")
	bodies := map[string][]byte{}
	n := 0
	for round := range 6 {
		for range 25 {
			bodies[p.send(t, numbered(n))] = numbered(n)
			n++
		}
		switch round % 3 {
		case 0:
			p.hq.crash(t)
			p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
		case 1:
			p.plant.crash(t)
			p.plant = startAgain(t, p.plant, p.plantConfig, p.b)
		case 2:
			p.cable.set(true)
			bodies[p.send(t, numbered(n))] = numbered(n)
			n++
			p.hq.crash(t)
			p.plant.crash(t)
			p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
			p.plant = startAgain(t, p.plant, p.plantConfig, p.b)
			p.cable.set(false)
		}
	}
	p.getsAnswers(t, bodies)
	if !p.settled(t) {
		t.Errorf("%d messages wait at the plant and %d at hq", p.plant.waiting(t), p.hq.waiting(t))
	}
	if text := p.plant.operates(t, "ls"); strings.Contains(text, "awaited") {
		t.Errorf("answers are still awaited:\n%s", text)
	}
	for _, g := range []*gateway{p.plant, p.hq} {
		if d := g.dead(t, "orders"); len(d) > 0 {
			t.Errorf("dead letters: %+v", d)
		}
	}
	seen := map[string]bool{}
	for _, c := range p.b.got() {
		id := c.Fields.get("Gateway-Origin")
		if seen[id] && !c.Fields.has("Gateway-Possible-Duplicate") {
			t.Errorf("message %s came again without the mark", id)
		}
		seen[id] = true
	}
}

// TestSiteReplyTo: the answer of a service at another site comes to the address that
// the message names, and a fault to that for faults.
func TestSiteReplyTo(t *testing.T) {
	caller := taking(t)
	p := replying(t, `reply: reply-to, reply_hosts: ["`+caller.addr+`"]`)
	to := endpointBlock("ReplyTo", "http://"+caller.addr+"/answers", "") + endpointBlock("FaultTo", "http://"+caller.addr+"/faults", "")
	p.send(t, addressedTo(`<a:MessageID>urn:uuid:1</a:MessageID>`+to, `<t:op xmlns:t="urn:test">7</t:op>`))
	p.send(t, addressedTo(`<a:MessageID>urn:uuid:2</a:MessageID>`+to, `<t:op xmlns:t="urn:test">a-fault</t:op>`))
	if !eventually(60*time.Second, func() bool { return len(caller.got()) == 2 }) {
		t.Fatalf("%d answers came, want 2\nplant: %s\nhq: %s", len(caller.got()), tail(p.plant.log.String()), tail(p.hq.log.String()))
	}
	for _, c := range caller.got() {
		want, content := "urn:uuid:1", "opResponse"
		if strings.HasPrefix(c.target(), "/faults") {
			want, content = "urn:uuid:2", "no such order"
		}
		doc, err := document(c.Body, c.Fields.get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		if list := doc.named("wsa:RelatesTo"); len(list) != 1 || list[0].text() != want || !strings.Contains(string(c.Body), content) {
			t.Errorf("the answer at %s: %s", c.target(), c.Body)
		}
	}
	// To nobody in particular: it is kept.
	body := addressedTo("", `<t:op xmlns:t="urn:test">8</t:op>`)
	p.getsAnswers(t, map[string][]byte{p.send(t, body): body})
}

// TestSiteReplyPull: the answer to a message that was fetched goes back over the link
// of the site that has fetched it.
func TestSiteReplyPull(t *testing.T) {
	a := newAuthority(t)
	for _, name := range []string{"hq", "plant"} {
		a.issue(t, name)
	}
	b := service(t)
	at := refusedAddr(t)
	hq := start(t, preamble+fmt.Sprintf(`
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: sites, address: "%s", tls: {certificate: %[2]s/hq.pem, key: %[2]s/hq.key, client_ca: %[2]s/ca.pem, client_auth: request}}
store: {durability: %[3]s, min_free: 1MiB}
sites: {name: hq, accept: [{name: plant, subjects: ["CN=plant"], routes: []}]}
routes: [{name: orders, match: {path: /orders}, backend: plant, delivery: queue, reply: store, %[4]s}]
backends: {plant: {nodes: ["site:plant/orders"], probe: {initial: 200ms, max: 400ms}}}
`, at, a.dir, durability(), quick), b)
	start(t, preamble+fmt.Sprintf(`
listeners: [{name: http, address: "127.0.0.1:0"}]
store: {durability: %s, min_free: 1MiB}
sites:
  name: plant
  links: [{name: hq, url: "https://%s", certificate: %[3]s/plant.pem, key: %[3]s/plant.key, ca: %[3]s/ca.pem, pull: true}]
  accept: [{name: hq, routes: [orders]}]
routes: [{name: orders, match: {path: /orders}, backend: orders, delivery: queue, %[4]s}]
backends: {orders: {nodes: ["http://%[5]s/in"], timeout: 1s, probe: {initial: 200ms, max: 400ms}}}
`, durability(), at, a.dir, quick, b.addr), b)
	p := &sitePair{plant: hq, hq: hq}
	bodies := map[string][]byte{}
	for i := range 20 {
		bodies[stored(t, hq, "/orders", numbered(i))] = numbered(i)
	}
	p.getsAnswers(t, bodies)
}

// TestSiteReplyChain: the answer goes back the way that the message came, through a
// site that knows nothing of it but that.
func TestSiteReplyChain(t *testing.T) {
	a := newAuthority(t)
	for _, name := range []string{"hq", "region", "plant"} {
		a.issue(t, name)
	}
	b := service(t)
	hqAt, regionAt := refusedAddr(t), refusedAddr(t)
	site := func(name, listen, accept, link, at, to, more string) string {
		text := preamble + "\nlisteners:\n  - {name: http, address: \"127.0.0.1:0\"}\n"
		if listen != "" {
			text += fmt.Sprintf("  - {name: sites, address: %q, tls: {certificate: %[2]s/%[3]s.pem, key: %[2]s/%[3]s.key, client_ca: %[2]s/ca.pem, client_auth: request}}\n", listen, a.dir, name)
		}
		text += fmt.Sprintf("store: {durability: %s, min_free: 1MiB}\nsites:\n  name: %s\n", durability(), name)
		if accept != "" {
			text += fmt.Sprintf("  accept: [{name: %s, subjects: [\"CN=%[1]s\"], routes: [orders]}]\n", accept)
		}
		if link != "" {
			text += fmt.Sprintf("  links: [{name: %s, url: \"https://%s\", certificate: %[3]s/%[4]s.pem, key: %[3]s/%[4]s.key, ca: %[3]s/ca.pem}]\n", link, at, a.dir, name)
		}
		return text + fmt.Sprintf("routes: [{name: orders, match: {path: /orders/*}, backend: b, delivery: queue, %s%s}]\nbackends: {b: {nodes: [%q], probe: {initial: 200ms, max: 400ms}}}\n", more, quick, to)
	}
	hq := start(t, site("hq", hqAt, "region", "", "", "http://"+b.addr+"/in", ""), b)
	regionConfig := site("region", regionAt, "plant", "hq", hqAt, "site:hq/orders", "")
	region := start(t, regionConfig, b)
	plant := start(t, site("plant", "", "", "region", regionAt, "site:region/orders", "reply: store, "), b)
	p := &sitePair{plant: plant, hq: hq}
	bodies := map[string][]byte{}
	for i := range 40 {
		bodies[stored(t, plant, "/orders/k", numbered(i))] = numbered(i)
		if i == 20 {
			region.crash(t)
			region = startAgain(t, region, regionConfig, b)
		}
	}
	p.getsAnswers(t, bodies)
	id := stored(t, plant, "/orders/k", envelope("1.1", `<t:op xmlns:t="urn:test">a-404</t:op>`))
	if !eventually(60*time.Second, func() bool { return follow(t, plant, id).Status == 500 }) {
		t.Errorf("the end of a message at hq is not told: %s", follow(t, plant, id))
	}
	if text := plant.operates(t, "show", id); !strings.Contains(text, "dead at site region: ") || !strings.Contains(text, "404") {
		t.Errorf("queue show:\n%s", text)
	}
}

// forgedAnswer is a batch with an answer to a message.
func forgedAnswer(site, id string, n uint64, body []byte) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	head := binary.AppendUvarint(nil, uint64(len(body)))
	for _, v := range []uint64{4, 9, 0, n} { // flags: an answer; epoch, class, number
		head = binary.AppendUvarint(head, v)
	}
	for _, s := range []string{"plant", id, "", "", ""} {
		head = text(head, s)
	}
	head = append(head, 0)
	for _, s := range []string{"", "1.1", ""} {
		head = text(head, s)
	}
	head = append(text(append(head, 0, 1), site), 2)
	for _, s := range []string{"Content-Type", "text/xml", "Gateway-Status", "200"} {
		head = text(head, s)
	}
	b := append(text(text([]byte("SWB1"), site), "forger"), 1)
	b = append(append(binary.AppendUvarint(b, uint64(len(head))), head...), body...)
	sum := crc32.Update(crc32.Checksum(head, crc32.MakeTable(crc32.Castagnoli)), crc32.MakeTable(crc32.Castagnoli), body)
	return append(binary.BigEndian.AppendUint32(b, sum), 0)
}

// TestSiteReplyForged: a site answers what it was sent, once. All else is refused and
// logged, and changes nothing.
func TestSiteReplyForged(t *testing.T) {
	p := replying(t, "reply: store")
	term(t, p.plant)
	at := refusedAddr(t)
	p.plantConfig = strings.Replace(p.plantConfig, `listeners: [{name: http, address: "127.0.0.1:0"}]`, fmt.Sprintf(`listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: sites, address: "%s", tls: {certificate: %[2]s/plant.pem, key: %[2]s/plant.key, client_ca: %[2]s/ca.pem, client_auth: request}}`, at, p.dir), 1)
	p.plantConfig = strings.Replace(p.plantConfig, "  name: plant\n", `  name: plant
  accept: [{name: hq, subjects: ["CN=hq"], routes: []}, {name: branch, subjects: ["CN=branch"], routes: []}]
`, 1)
	p.plant = startAgain(t, p.plant, p.plantConfig, p.b)
	number := uint64(0)
	forge := func(site, id string, body []byte) string {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, site+".pem"), filepath.Join(p.dir, site+".key"))
		if err != nil {
			t.Fatal(err)
		}
		number++
		r, err := p.client(t, pair).Post("https://"+at+"/_site/v1/batch", "application/vnd.soapway.batch", bytes.NewReader(forgedAnswer(site, id, number, body)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v: %s", r.StatusCode, err, text)
		}
		return string(text)
	}
	evil := envelope("1.1", "<evil/>")
	answered := p.send(t, numbered(1))
	p.getsAnswers(t, map[string][]byte{answered: numbered(1)})
	p.b.close()
	open := p.send(t, numbered(2))
	if !eventually(60*time.Second, func() bool { return strings.Contains(p.plant.operates(t, "ls"), "answer awaited") }) {
		t.Fatal("the second message is not handed over")
	}
	for _, c := range []struct {
		name, site, id string
		body           []byte
		want           string
	}{
		{"a second answer", "hq", answered, evil, `"refused"`},
		{"to no message", "hq", "01900000-0000-7000-8000-000000000000", evil, `"refused"`},
		{"by another site", "branch", open, evil, `"refused"`},
		{"no envelope", "hq", open, []byte("<evil/>"), `"refused"`},
		{"a fault that is none", "hq", open, []byte(`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><e:Fault><faultcode>e:Client</faultcode><faultstring/></e:Fault></e:Body></e:Envelope>`), `"refused"`},
	} {
		if got := forge(c.site, c.id, c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s: answered %s, want %s", c.name, got, c.want)
		}
	}
	for _, text := range []string{"a site answers a message that it does not have", "the answer of another site cannot be taken"} {
		if !strings.Contains(p.plant.log.String(), text) {
			t.Errorf("the log does not say: %s", text)
		}
	}
	if a := follow(t, p.plant, open); a.Status != 202 {
		t.Errorf("a forged answer counts: %s", a)
	}
	p.getsAnswers(t, map[string][]byte{answered: numbered(1)})
	back := listenAt(t, p.b.addr)
	back.do(func(w *peer, c *call) {
		_, _ = w.Write(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, mirrored(c.Body)))
	})
	p.getsAnswers(t, map[string][]byte{open: numbered(2)})
}
