package casetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// durability is strict where the folder for temporary files allows it, as it
// does on a disk; in a container it may not.
var durability = sync.OnceValue(func() string {
	file := filepath.Join(scratch, "durability.yaml")
	yaml := httpOnly + "routes: [{name: r, to: [\"builtin:sink\"], delivery: queue}]\n"
	bin, err := build()
	if err != nil || os.WriteFile(file, []byte(yaml), 0o600) != nil || exec.Command(bin, "check", "-c", file).Run() != nil {
		return "relaxed"
	}
	return "strict"
})

// queueConfig is the configuration of a gateway with queue routes: routes are
// the items of the list. Waits are short.
func queueConfig(routes ...string) string {
	var yaml strings.Builder
	yaml.WriteString(preamble + `
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: framed, address: "127.0.0.1:0", protocol: framed, length: 4, route: orders}
store: {durability: ` + durability() + `, min_free: 1MiB}
routes:
`)
	for _, r := range routes {
		yaml.WriteString("  - " + r + "\n")
	}
	return yaml.String()
}

// quick is the retry of routes whose test does not wait for it.
const quick = "retry: {initial: 50ms, max: 200ms}"

// ordersRoute is the queue route of most scenarios.
func ordersRoute(to, rest string) string {
	return fmt.Sprintf(`{name: orders, match: {path: /orders}, backend: orders, delivery: queue, %s}
backends: {orders: {nodes: ["http://%s/in"], timeout: 1s, probe: {initial: 200ms, max: 400ms}}}`, rest, to)
}

// numbered is a message of its own.
func numbered(n int) []byte {
	return envelope("1.1", fmt.Sprintf(`<t:op xmlns:t="urn:test" n='%d'  >%s</t:op>`, n, strings.Repeat("x", n%700)))
}

// stored posts a message to a queue route and returns its id.
func stored(t testing.TB, g *gateway, target string, body []byte) string {
	t.Helper()
	a := post(t, g.addr["http"], target, xml11("urn:test"), body)
	id := a.Fields.get("Gateway-Message-Id")
	if a.Status != 202 || len(a.Body) > 0 || len(id) != 36 || a.Fields.get("Location") != "/_gateway/messages/"+id {
		t.Fatalf("not a receipt: %s", a)
	}
	if want := map[string]string{"relaxed": "relaxed"}[durability()]; a.Fields.get("Gateway-Durability") != want {
		t.Fatalf("Gateway-Durability is %q with durability: %s", a.Fields.get("Gateway-Durability"), durability())
	}
	return id
}

// waiting is how many messages of all routes are not delivered.
func (g *gateway) waiting(t testing.TB) int {
	t.Helper()
	text := g.metrics(t) // one reading: a message may go from one state to the other
	return int(sumOf(t, text, "gateway_queue_messages", `state="pending"`) + sumOf(t, text, "gateway_queue_messages", `state="retrying"`))
}

// storedMessage is a message as the admin API shows it.
type storedMessage struct {
	ID, State, Reason, Text, Operation string
	Attempts                           any // a count in a listing
}

// dead lists the dead letters of a route.
func (g *gateway) dead(t testing.TB, route string) []storedMessage {
	t.Helper()
	text, err := g.get("/api/v1/queues/" + route + "/messages?state=dead")
	if err != nil {
		t.Fatal(err)
	}
	var page struct{ Messages []storedMessage }
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return page.Messages
}

// startAgain starts a gateway on the folder, and so the store, of an ended one.
func startAgain(t testing.TB, g *gateway, config string, backends ...*backend) *gateway {
	t.Helper()
	next, err := startGateway(g.dir, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, b := range backends {
			b.close()
		}
		if err := next.stop(); err != nil {
			t.Error(err)
		}
	})
	return next
}

// listenAt starts a backend at an address that was refused so far.
func listenAt(t testing.TB, addr string) *backend {
	t.Helper()
	b, err := newBackendAt(addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	b.answerWith(response(202, nil, nil))
	return b
}

// taking starts a backend that takes every message.
func taking(t testing.TB) *backend {
	b := listenHTTP(t)
	b.answerWith(response(202, nil, nil))
	return b
}

// term ends a gateway in order, with every check, and allows another start.
func term(t testing.TB, g *gateway) {
	t.Helper()
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.ended = true
}

// listenFramed starts a backend of two length octets.
func listenFramed(t testing.TB) *backend {
	t.Helper()
	b, err := newBackend(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}
