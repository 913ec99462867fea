package casetest

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestKeepDelivered: what was delivered can be seen and replayed, also after a kill,
// and the replay is marked; a reload to 0 forgets it.
func TestKeepDelivered(t *testing.T) {
	b := taking(t)
	config := strings.Replace(queueConfig(ordersRoute(b.addr, quick)), "store: {", "store: {keep_delivered: 1h, ", 1)
	g := start(t, config)
	id := stored(t, g, "/orders", numbered(7))
	delivered := func() string {
		t.Helper()
		text, err := g.get("/api/v1/queues/orders/messages?state=delivered")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if !eventually(patience, func() bool { return strings.Contains(delivered(), id) && g.waiting(t) == 0 }) {
		t.Fatalf("it is not listed: %s", delivered())
	}
	// A message behind it, so that the first is on the disk and gone from the log.
	second := stored(t, g, "/orders", numbered(8))
	if !eventually(patience, func() bool { return strings.Contains(delivered(), second) && g.waiting(t) == 0 }) {
		t.Fatal("the second is not listed")
	}
	g.crash(t)
	g = startAgain(t, g, config, b)
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d wait after the kill", g.waiting(t))
	}
	if text, err := g.get("/api/v1/messages/" + id); err != nil || !strings.Contains(text, `"state":"delivered"`) || !strings.Contains(text, "n='7'") {
		t.Errorf("shown as %s, %v", text, err)
	}
	before := len(b.got())
	g.operate(t, "/messages/"+id+"/replay")
	if !eventually(patience, func() bool { return len(b.got()) == before+1 }) {
		t.Fatal("the replay does not come")
	}
	c := b.got()[before]
	if c.Fields.get("Gateway-Message-Id") != id || c.Fields.get("Gateway-Possible-Duplicate") != "true" || c.Fields.get("Gateway-Attempt") != "1" || !bytes.Equal(c.Body, numbered(7)) {
		t.Errorf("the replay came as %s", c.Raw)
	}
	seen := map[string]bool{}
	for _, c := range b.got() {
		id := c.Fields.get("Gateway-Message-Id")
		if seen[id] && !c.Fields.has("Gateway-Possible-Duplicate") {
			t.Errorf("message %s came again without the mark", id)
		}
		seen[id] = true
	}
	without := strings.Replace(config, "keep_delivered: 1h, ", "", 1)
	if err := os.WriteFile(g.file, []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	if !eventually(patience, func() bool { return !strings.Contains(delivered(), id) }) {
		t.Errorf("it is still there after a reload to 0: %s", delivered())
	}
}
