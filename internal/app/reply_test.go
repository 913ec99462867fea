package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// asked is the answer about a stored message.
type asked struct {
	status int
	header http.Header
	body   string
}

func (g *gateway) ask(method, path, key string) asked {
	g.t.Helper()
	req, err := http.NewRequest(method, "http://"+g.addr("web")+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return asked{resp.StatusCode, resp.Header, string(b)}
}

// TestStoredReplies: the caller of a queue route finds the answer at the Location
// of its receipt, and nobody else does.
func TestStoredReplies(t *testing.T) {
	const first, second = "first-key-of-two-callers", "second-key-of-two-callers"
	open := make(chan struct{})
	reply := strings.Replace(envelope, "Body>", "Body >", 1)
	b := newTaker(t, func(w http.ResponseWriter, r *http.Request) {
		<-open
		switch {
		case r.Header.Get("X-Case") == "empty":
			w.WriteHeader(http.StatusAccepted)
		case r.Header.Get("X-Case") == "dead":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "text/xml; charset=utf-8")
			_, _ = io.WriteString(w, reply)
		}
	})
	dir := t.TempDir()
	yaml := head + fmt.Sprintf("store: {durability: relaxed, dir: %q}\n", dir) + "routes:\n" + fmt.Sprintf(
		"  - {name: orders, match: {path: /orders}, to: [%[1]q], delivery: queue, reply: store, reply_keep: 1h, dedup: {}, auth: {api_key: {header: X-Key, keys: [%[2]s, %[3]s]}}, retry: {initial: 20ms, max: 50ms}}\n"+
			"  - {name: brief, match: {path: /brief}, to: [%[1]q], delivery: queue, reply: store, reply_keep: 1ms}\n"+
			"  - {name: plain, match: {path: /plain}, to: [%[1]q], delivery: queue}\n", b.URL, first, second)
	g := start(t, yaml)
	send := func(path, what, key string) string {
		t.Helper()
		req, err := http.NewRequest("POST", "http://"+g.addr("web")+path, strings.NewReader(envelope))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/xml")
		req.Header.Set("X-Case", what)
		req.Header.Set("X-Key", key)
		req.Header.Set("Idempotency-Key", what)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 202 {
			t.Fatalf("%s %s: got %d, want 202", path, what, resp.StatusCode)
		}
		return resp.Header.Get("Location")
	}
	whole, empty, dead := send("/orders", "whole", first), send("/orders", "empty", first), send("/orders", "dead", first)
	brief, plain := send("/brief", "", ""), send("/plain", "", "")
	unknown := whole[:len(whole)-12] + "000000000000"
	want := func(when, method, path, key string, status int, body string) {
		t.Helper()
		a := g.ask(method, path, key)
		if a.status != status || a.body != body {
			t.Errorf("%s: %s %s: got %d %q, want %d %q", when, method, path, a.status, a.body, status, body)
		}
		if cache := a.header.Get("Cache-Control"); status < 300 && (cache != "no-store" || !strings.HasSuffix(path, a.header.Get("Gateway-Message-Id"))) {
			t.Errorf("%s: %s: got the fields %v", when, path, a.header)
		}
	}
	strangers := func(when string) {
		t.Helper()
		for _, path := range []string{whole, empty, dead} {
			want(when+", another caller", "GET", path, second, 404, "")
			want(when+", nobody", "GET", path, "", 401, "")
			want(when+", nobody", "HEAD", path, "wrong", 401, "")
		}
		want(when, "GET", unknown, first, 404, "")
		want(when, "GET", plain, "", 404, "")
		want(when, "DELETE", whole, first, 405, "")
		for _, path := range []string{"", "x", "../messages", "00000000-0000-0000-0000-00000000000G"} {
			if a := g.ask("GET", "/_gateway/messages/"+path, first); a.status != 404 && a.status != 400 {
				t.Errorf("%s: %s: got %d, want 404 or 400", when, path, a.status)
			}
		}
	}
	for _, path := range []string{whole, empty, dead} {
		want("waiting", "GET", path, first, 202, "")
		want("waiting", "HEAD", path, first, 202, "")
	}
	want("waiting", "GET", brief, "", 202, "")
	strangers("waiting")
	close(open)
	g.eventually("an empty queue", func() bool { return g.app.Queue().Waiting() == 0 })
	for _, when := range []string{"answered", "answered, after a restart"} {
		want(when, "GET", whole, first, 200, reply)
		want(when, "HEAD", whole, first, 200, "")
		want(when, "GET", empty, first, 204, "")
		want(when, "GET", brief, "", 410, "")
		a := g.ask("GET", dead, first)
		if a.status != 500 || !strings.Contains(a.body, "DeadLettered") {
			t.Errorf("%s: a dead letter: got %d %q", when, a.status, a.body)
		}
		a = g.ask("GET", whole, first)
		if got := a.header.Get("Content-Type"); got != "text/xml; charset=utf-8" {
			t.Errorf("%s: Content-Type %q", when, got)
		}
		strangers(when)
		if when == "answered" {
			g.end()
			g = start(t, yaml)
			g.eventually("the index", func() bool { s, _ := g.app.Queue().Stats(), 0; return len(s) > 0 && !s[0].Loading })
		}
	}
	// A repeat gets the reply.
	req, err := http.NewRequest("POST", "http://"+g.addr("web")+"/orders", strings.NewReader(envelope))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/xml")
	req.Header.Set("X-Key", first)
	req.Header.Set("Idempotency-Key", "whole")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || string(body) != reply || !strings.HasSuffix(whole, resp.Header.Get("Gateway-Message-Id")) {
		t.Errorf("repeat: got %d %q %v, %v", resp.StatusCode, body, resp.Header, err)
	}
	if n := len(b.taken()); n != 5 {
		t.Errorf("the backend got %d requests, want 5", n)
	}
}
