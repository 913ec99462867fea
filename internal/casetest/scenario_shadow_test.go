package casetest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shadows counts the copies of a route that ended so.
func (g *gateway) shadows(t testing.TB, route, result string) int {
	t.Helper()
	return int(g.metricSum(t, "gateway_shadow_total", `route="`+route+`"`, `result="`+result+`"`))
}

// TestShadow: a second backend gets a copy of each message of sync and queue
// routes, whatever the listener, marked and without the caller's credentials, and
// neither its answers, nor its silence, nor its absence is noticed by anybody.
func TestShadow(t *testing.T) {
	main, twin, frames, hanging := listenHTTP(t), listenHTTP(t), listenFramed(t), listenHTTP(t)
	release := make(chan struct{})
	hanging.do(func(p *peer, c *call) {
		<-release
		_, _ = p.Write(okReply(c))
	})
	twin.do(func(p *peer, c *call) {
		_, _ = p.Write(response(500, xml11(""), []byte(`<e:Envelope xmlns:e="`+ns11+`"><e:Body><e:Fault><faultcode>e:Server</faultcode><faultstring>no</faultstring></e:Fault></e:Body></e:Envelope>`)))
	})
	g := start(t, queueConfig(
		`{name: sync, match: {path: /sync/*}, backend: main, shadow: {backend: twin}, auth: {api_key: {header: X-Key, keys: [one-of-the-keys]}}}`,
		`{name: orders, match: {path: /orders}, backend: main, delivery: queue, shadow: {backend: twin}}`,
		`{name: frames, match: {path: /frames}, backend: main, shadow: {backend: frames}}`,
		`{name: down, match: {path: /down}, backend: main, shadow: {backend: down}}`,
		`{name: hangs, match: {path: /hangs}, backend: main, shadow: {backend: hanging}}`,
		`{name: never, match: {path: /never}, backend: main, shadow: {backend: twin, percent: 0}}`)+fmt.Sprintf(`
backends:
  main: {nodes: ["http://%s/in"], headers: {X-Own: main}}
  twin: {nodes: ["http://%s/copies"]}
  frames: {nodes: ["framed://%s"]}
  hanging: {nodes: ["http://%s/"], timeout: 300s}
  down: {nodes: ["http://%s/"]}
`, main.addr, twin.addr, frames.addr, hanging.addr, refusedAddr(t)), main, twin, frames, hanging)

	hd := append(xml11("urn:test"), field{"X-Key", "one-of-the-keys"}, field{"Authorization", "Bearer abc"}, field{"Cookie", "c=d"}, field{"X-Kept", "yes"})
	if a := post(t, g.addr["http"], "/sync/a?b=c", hd, numbered(1)); a.Status != 200 {
		t.Fatalf("the caller got %s", a)
	}
	stored(t, g, "/orders", numbered(2))
	f := dialFramed(t, g.addr["framed"], 4)
	if b := f.call(numbered(3)); len(b) != 0 {
		t.Errorf("a framed message for the queue got %q", b)
	}
	if !eventually(patience, func() bool {
		return twin.gotComplete() == 3 && g.shadows(t, "sync", "fault") == 1 && g.shadows(t, "orders", "fault") == 2 && main.gotComplete() == 3
	}) {
		t.Fatalf("the shadow backend has %d messages, the other %d; counted %d and %d", twin.gotComplete(), main.gotComplete(), g.shadows(t, "sync", "fault"), g.shadows(t, "orders", "fault"))
	}
	for _, c := range twin.got() {
		i := slices.IndexFunc(main.got(), func(m *call) bool { return bytes.Equal(m.Body, c.Body) })
		if i < 0 {
			t.Fatalf("a copy of nothing: %s", c.Raw)
		}
		m := main.got()[i]
		for _, name := range []string{"X-Key", "Authorization", "Cookie", "X-Own", "Gateway-Attempt"} {
			if c.Fields.has(name) {
				t.Errorf("the copy has %s: %s", name, c.Raw)
			}
		}
		if id := c.Fields.get("Gateway-Message-Id"); c.Fields.get("Gateway-Shadow") != "true" || m.Fields.has("Gateway-Shadow") || id == "" || id != m.Fields.get("Gateway-Message-Id") ||
			c.Fields.get("X-Kept") != m.Fields.get("X-Kept") || c.Fields.get("Host") != twin.addr || !strings.HasPrefix(c.target(), "/copies") {
			t.Errorf("a message and its copy:\n%s%s", m.Raw, c.Raw)
		}
	}
	if n := g.metricSum(t, "gateway_attempts_total", `route="sync"`); n != 1 {
		t.Errorf("%v tries are counted for one message: its copy is none of them", n)
	}
	for _, target := range []string{"/frames", "/down", "/never"} {
		if a := post(t, g.addr["http"], target, xml11("urn:test"), numbered(4)); a.Status != 200 {
			t.Errorf("%s: %s", target, a)
		}
	}
	if !eventually(patience, func() bool { return g.shadows(t, "frames", "answered") == 1 && g.shadows(t, "down", "failed") == 1 }) || frames.gotComplete() != 1 {
		t.Errorf("framed: %d, down: %d", g.shadows(t, "frames", "answered"), g.shadows(t, "down", "failed"))
	}
	if a := post(t, g.addr["http"], "/sync/large", hd, large("1.1", 3<<20, "")); a.Status != 200 || g.shadows(t, "sync", "large") != 1 {
		t.Errorf("a message that streams: %s, counted %d", a, g.shadows(t, "sync", "large"))
	}

	// One that hangs takes what it may and no more, at nobody's cost.
	c := dial(t, g.addr["http"])
	const calls = 300
	for i := range calls {
		_ = c.send(request("/hangs", xml11("urn:test"), numbered(i)))
		if a := c.answer(); a.Status != 200 || a.Err != nil || a.Took > 5*time.Second {
			t.Fatalf("call %d beside a shadow backend that hangs: %s in %v", i, a, a.Took)
		}
	}
	if !eventually(patience, func() bool { return hanging.gotComplete() == calls-g.shadows(t, "hangs", "dropped") }) || g.shadows(t, "hangs", "dropped") == 0 {
		t.Errorf("%d copies hang and %d were dropped, of %d", hanging.gotComplete(), g.shadows(t, "hangs", "dropped"), calls)
	}

	// A reload takes the backend away, and its copies still end.
	text, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for l := range strings.Lines(string(text)) {
		if !strings.Contains(l, "hanging") {
			kept = append(kept, l)
		}
	}
	if err := os.WriteFile(g.file, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = g.signal(syscall.SIGHUP)
	if !eventually(patience, func() bool { return post(t, g.addr["http"], "/hangs", xml11("urn:test"), numbered(1)).Status == 404 }) {
		t.Error("the reload was not taken")
	}
	hung := hanging.gotComplete()
	close(release)
	if !eventually(patience, func() bool { return g.shadows(t, "hangs", "answered") == hung }) {
		t.Errorf("of %d copies %d were answered after the reload", hung, g.shadows(t, "hangs", "answered"))
	}
}

// TestShadowAtStop: copies under way keep no stop waiting.
func TestShadowAtStop(t *testing.T) {
	main, hanging := listenHTTP(t), listenHTTP(t)
	hanging.do(func(p *peer, c *call) { _, _ = p.r.r.ReadByte() })
	g := start(t, httpOnly+fmt.Sprintf(`
drain: 60s
backends: {main: {nodes: ["http://%s/in"]}, twin: {nodes: ["http://%s/"], timeout: 60s}}
routes: [{name: r, backend: main, shadow: {backend: twin}}]
`, main.addr, hanging.addr), main, hanging)
	if a := post(t, g.addr["http"], "/", xml11("urn:test"), numbered(1)); a.Status != 200 {
		t.Fatalf("got %s", a)
	}
	if !eventually(patience, func() bool { return hanging.gotComplete() == 1 }) {
		t.Fatal("no copy")
	}
	_ = g.signal(syscall.SIGTERM)
	select {
	case <-g.done:
		if g.ended = true; g.err != nil {
			t.Errorf("exit: %v", g.err)
		}
	case <-time.After(patience):
		t.Error("the stop waits for a copy")
	}
}
