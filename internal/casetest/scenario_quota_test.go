package casetest

import "testing"

// TestQueueQuota: a route that has as much as it may waiting answers 503 and
// takes on by itself once something has left; other routes do not notice.
func TestQueueQuota(t *testing.T) {
	addr := refusedAddr(t)
	config := queueConfig(
		`{name: other, match: {path: /other}, to: ["http://`+addr+`/x"], delivery: queue, quota: {bytes: 10MiB}}`,
		ordersRoute(addr, "quota: {messages: 3}, "+quick))
	g := start(t, config)
	for i := range 3 {
		stored(t, g, "/orders", numbered(i))
	}
	for range 2 {
		a := post(t, g.addr["http"], "/orders", xml11("urn:test"), numbered(9))
		if a.Status != 503 || a.Fields.get("Retry-After") == "" || len(a.Body) > 0 {
			t.Errorf("over the quota: got %s, want 503 with Retry-After", a)
		}
	}
	stored(t, g, "/other", numbered(10))
	if w := g.waiting(t); w != 4 {
		t.Errorf("%d messages wait, want 4", w)
	}
	listenAt(t, addr)
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d messages still wait", g.waiting(t))
	}
	stored(t, g, "/orders", numbered(11))
}
