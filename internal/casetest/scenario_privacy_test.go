package casetest

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// canary is part of every secret of TestNothingLeaks.
const canary = "Zx81canary9"

// TestNothingLeaks: secrets of the configuration, of callers, of envelopes and of what
// backends make of them reach the backend, and nothing that people look at: the logs,
// the access log, the audit file, metrics and exemplars, traces, alerts, the API, its
// events and exports (issue 10, 5; SPEC.md §1, §4; CONFIG.md redact).
func TestNothingLeaks(t *testing.T) {
	b := listenHTTP(t)
	c := collectTraces(t)
	var mu sync.Mutex
	var notices strings.Builder
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = bufio.NewReader(r.Body).WriteTo(&notices)
	}))
	defer hook.Close()
	dir := t.TempDir()
	access, audit := filepath.Join(dir, "access.log"), filepath.Join(dir, "audit.jsonl")
	hookURL := strings.Replace(hook.URL, "http://", "http://me:"+canary+"@", 1) + "/" + "?token=" + canary
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + canary))
	cfg := strings.NewReplacer("log: {level: info,", "log: {level: debug,", `admin: {address: "127.0.0.1:0"}`, fmt.Sprintf(`admin: {address: "127.0.0.1:0", audit: %q}`, audit)).Replace(queueConfig(
		fmt.Sprintf(`{name: sync, match: {path: /sync}, to: ["http://%s/in"], redact: [card]}`, b.addr),
		fmt.Sprintf(`{name: closed, match: {path: /closed}, to: ["http://%s/in"], auth: {api_key: {header: X-Customer, keys: [%q]}}}`, b.addr, canary+"-of-another"),
		fmt.Sprintf(`{name: down, match: {path: /down}, to: ["http://%s/in"], delivery: queue, redact: [card], %s}`, refusedAddr(t), quick),
		fmt.Sprintf(`{name: orders, match: {path: /orders}, backend: orders, delivery: queue, store_credentials: true, order_by: "body:/order/card", redact: [card], auth: {api_key: {header: X-Customer, keys: [%q]}}}
backends: {orders: {nodes: ["http://%s/in"], headers: {X-Own: %q}}}`, canary, b.addr, canary)))
	cfg += fmt.Sprintf("telemetry: {otlp: %q, sample: 1}\nalerts: {webhook: %q}\naccess_log: %q\n", c.URL, hookURL, access)
	g := start(t, cfg, b)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	events := &syncBuffer{}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+"/api/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Body.Close()
	go func() { _, _ = bufio.NewReader(watched.Body).WriteTo(events) }()

	// A message full of secrets, and a backend that repeats them in a fault.
	body := []byte(`<e:Envelope xmlns:e="` + nsOf["1.1"] + `"><e:Header><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd">` +
		`<w:UsernameToken><w:Username>me</w:Username><w:Password>` + canary + `</w:Password></w:UsernameToken></w:Security></e:Header>` +
		`<e:Body><order><item>seen</item><card>` + canary + `</card></order></e:Body></e:Envelope>`)
	fault := envelope("1.1", `<e:Fault><faultcode>e:Client</faultcode><faultstring>no card `+canary+`</faultstring><detail><why pass="`+canary+`"/><card>`+canary+`</card></detail></e:Fault>`)
	b.answerWith(response(500, fields{{"Content-Type", "text/xml"}, {"X-Debug-Token", canary}}, fault))
	secret := append(xml11("urn:test"), field{"X-Customer", canary}, field{"Authorization", "Basic " + basic}, field{"Cookie", "s=" + canary}, field{"X-Auth-Token", canary})
	target := "?token=" + canary
	if a := post(t, g.addr["http"], "/orders"+target, secret, body); a.Status != 202 {
		t.Fatalf("got %s", a)
	}
	if a := post(t, g.addr["http"], "/sync"+target, secret, body); a.Status != 500 || !strings.Contains(string(a.Body), canary) {
		t.Fatalf("the caller does not get the fault: %s", a)
	}
	if a := post(t, g.addr["http"], "/down"+target, secret, body); a.Status != 202 {
		t.Fatalf("got %s", a)
	}
	// And whatever is refused, in every way.
	refused := append(xml11("urn:test"), field{"X-Customer", "wrong " + canary}, field{"Authorization", "Bearer " + canary})
	post(t, g.addr["http"], "/closed"+target, refused, body)
	post(t, g.addr["http"], "/nowhere"+target, secret, body)
	for _, bad := range []string{
		"<card>" + canary + "</carp>", `<card pin="` + canary + `" pin="1"/>`, `<card pin=` + canary + `/>`, "<card>&" + canary + ";</card>",
		`<e:Fault mustUnderstand="` + canary + `"/>`, canary, "<?xml version='1.0' encoding='" + canary + "'?><a/>", "<!DOCTYPE a [<!ENTITY a '" + canary + "'>]><a/>",
	} {
		post(t, g.addr["http"], "/sync"+target, secret, []byte(bad))
		post(t, g.addr["http"], "/sync"+target, secret, envelope("1.1", bad))
		if strings.HasPrefix(bad, "<card") { // the others may be stored, in places that nobody has named
			post(t, g.addr["http"], "/orders"+target, secret, envelope("1.1", bad))
		}
	}
	b.reset()
	b.answerWith([]byte("HTTP/1.1 200 OK\r\nContent-Length: x" + canary + "\r\n\r\n"))
	post(t, g.addr["http"], "/sync"+target, secret, body)
	b.reset()
	b.answerWith(response(200, xml11(""), []byte("<a>"+canary+"</b>")))
	post(t, g.addr["http"], "/sync"+target, secret, body)

	if !eventually(patience, func() bool { return len(g.dead(t, "orders")) >= 1 && len(c.named("attempt")) >= 5 }) {
		t.Fatalf("%d dead letters, %d tries are traced", len(g.dead(t, "orders")), len(c.named("attempt")))
	}
	if !eventually(patience, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(notices.String(), "dead-letters") && strings.Contains(notices.String(), "circuit-open")
	}) {
		t.Fatalf("notices: %s", notices.String())
	}
	seen := map[string]string{"events": events.String(), "log": g.log.String(), "notices": notices.String()}
	for _, path := range []string{
		"/metrics", "/api/v1/status", "/api/v1/routes", "/api/v1/backends", "/api/v1/history", "/api/v1/config", "/api/v1/queues",
		"/api/v1/queues/down/messages", "/api/v1/queues/orders/messages", "/api/v1/queues/orders/export", "/api/v1/queues/down/export",
		"/debug/pprof/goroutine?debug=2", "/readyz",
	} {
		text, err := g.get(path)
		if err != nil {
			t.Error(err)
		}
		seen[path] = text
	}
	for _, m := range g.dead(t, "orders") {
		text, err := g.get("/api/v1/messages/" + m.ID)
		if err != nil || !strings.Contains(text, "<item>seen</item>") || !strings.Contains(text, "no card ***") {
			t.Errorf("the dead letter is shown as %s, %v", text, err)
		}
		seen["dead letter"] = text
		if text, err := g.get("/api/v1/queues/orders/messages?text=" + canary[:5]); err != nil || strings.Contains(text, m.ID) {
			t.Errorf("it is found by a part of its hidden key: %s, %v", text, err)
		}
	}
	if _, err := g.get("/api/v1/queues/orders/messages?nothing=" + canary); err == nil {
		t.Error("a parameter that there is not was taken")
	} else {
		seen["problem"] = strings.SplitN(err.Error(), ": ", 2)[1]
	}
	req, err = http.NewRequest(http.MethodGet, "http://"+g.admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	if resp, err := http.DefaultClient.Do(req); err != nil {
		t.Error(err)
	} else {
		var text strings.Builder
		_, _ = bufio.NewReader(resp.Body).WriteTo(&text)
		_ = resp.Body.Close()
		if seen["exemplars"] = text.String(); !strings.Contains(text.String(), "# {trace_id=") {
			t.Error("no exemplars")
		}
	}
	c.mu.Lock()
	seen["traces"] = fmt.Sprint(c.spans)
	c.mu.Unlock()
	for name, file := range map[string]string{"access log": access, "audit": audit} {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d octets, %v", name, len(text), err)
		}
		seen[name] = string(text)
	}
	for name, text := range seen {
		for _, word := range []string{canary, basic} {
			if at := strings.Index(text, word); at >= 0 {
				t.Errorf("%s: …%s", name, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
	stop()
}
