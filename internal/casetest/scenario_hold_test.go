package casetest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// operate asks the admin API for a change.
func (g *gateway) operate(t testing.TB, path string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Post("http://"+g.admin+"/api/v1"+path, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Fatalf("POST %s: %s", path, res.Status)
	}
}

// TestCredentialsRefused: a backend that refuses the gateway's own credentials gets
// one message at a time, no message pays for it, and a reload that mends them, or
// the file that they stand in, is all that is needed.
func TestCredentialsRefused(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, g *gateway){
		"by a reload": func(t *testing.T, g *gateway) {
			text, err := os.ReadFile(g.file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(g.file, []byte(strings.Replace(string(text), "file:password", "Bearer right", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := g.signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		},
		"in their file": func(t *testing.T, g *gateway) {
			if err := os.WriteFile(filepath.Join(filepath.Dir(g.file), "password"), []byte("Bearer right\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := listenHTTP(t)
			b.do(func(p *peer, c *call) {
				if c.Fields.get("Authorization") == "Bearer right" {
					_, _ = p.Write(response(202, nil, nil))
					return
				}
				_, _ = p.Write(response(401, fields{{"WWW-Authenticate", "Bearer"}}, nil))
			})
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "password"), []byte("Bearer wrong\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			g, err := startGateway(dir, queueConfig(fmt.Sprintf(`{name: orders, match: {path: /orders}, backend: orders, delivery: queue, retry: {initial: 50ms, max: 200ms, attempts: 3}}
backends: {orders: {nodes: ["http://%s/in"], headers: {Authorization: "file:password"}}}`, b.addr)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				b.close()
				if err := g.stop(); err != nil {
					t.Error(err)
				}
			})
			const messages = 20
			for n := range messages {
				stored(t, g, "/orders", numbered(n))
			}
			if !eventually(patience, func() bool { return g.metricSum(t, "gateway_circuit_state", `backend="orders"`) == 2 }) {
				t.Fatal("gateway_circuit_state does not tell that the credentials are refused")
			}
			pause(time.Second) // five times what retry.max would be
			if got := len(b.got()); got > messages {
				t.Errorf("%d attempts, want one for a message at most", got)
			}
			if text, err := g.get("/api/v1/queues"); err != nil || !strings.Contains(text, `"held":"credentials"`) || !strings.Contains(text, fmt.Sprintf(`"pending":%d`, messages)) {
				t.Errorf("GET queues: %s, %v", text, err)
			}
			mend(t, g)
			if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
				t.Fatalf("%d messages wait with the right credentials", g.waiting(t))
			}
			if dead := g.dead(t, "orders"); len(dead) > 0 {
				t.Errorf("dead letters %+v", dead)
			}
			for _, c := range b.got() {
				if c.Fields.get("Gateway-Attempt") != "1" || c.Fields.has("Gateway-Possible-Duplicate") {
					t.Errorf("an attempt was charged: %s", c.Raw)
				}
			}
			if v := g.metricSum(t, "gateway_circuit_state", `backend="orders"`); v != 0 {
				t.Errorf("gateway_circuit_state is %v afterwards", v)
			}
		})
	}
}

// TestHoldSurvivesKill: a backend that an operator holds gets nothing, also not
// after a kill, until it is released.
func TestHoldSurvivesKill(t *testing.T) {
	b := taking(t)
	config := queueConfig(ordersRoute(b.addr, quick))
	g := start(t, config, b)
	stored(t, g, "/orders", numbered(0))
	if !eventually(patience, func() bool { return b.gotComplete() == 1 }) {
		t.Fatal("nothing was delivered before the hold")
	}
	g.operate(t, "/queues/orders/hold")
	for n := range 5 {
		stored(t, g, "/orders", numbered(n))
	}
	g.crash(t)
	next := startAgain(t, g, config)
	stored(t, next, "/orders", numbered(9))
	pause(500 * time.Millisecond)
	if got := b.gotComplete(); got != 1 {
		t.Errorf("%d messages at a backend that is held, want the first only", got)
	}
	if v := next.metricSum(t, "gateway_circuit_state", `backend="orders"`); v != 3 {
		t.Errorf("gateway_circuit_state is %v while it is held", v)
	}
	next.operate(t, "/queues/orders/release")
	if !eventually(patience, func() bool { return next.waiting(t) == 0 }) {
		t.Errorf("%d messages wait after the release", next.waiting(t))
	}
}
