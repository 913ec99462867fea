package casetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// placed is a message with a key in its body.
func placed(customer string, n int) []byte {
	return envelope("1.1", fmt.Sprintf(`<t:Place xmlns:t="urn:test"><t:Customer> %s </t:Customer><t:N>%d</t:N></t:Place>`, customer, n))
}

// order asks the admin API for a change.
func (g *gateway) order(t testing.TB, path string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Post("http://"+g.admin+path, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		t.Fatalf("POST %s: %s: %s", path, res.Status, b)
	}
}

// TestQueueOrderByKey: messages of a key keep their order, and one whose head
// has died stands still until an operator replays it, while others go on: over
// a restart, and told by API, metrics and log.
func TestQueueOrderByKey(t *testing.T) {
	b := listenHTTP(t)
	config := queueConfig(ordersRoute(b.addr, `order_by: "body:/o:Place/o:Customer", on_dead: stop, `+quick)) + "namespaces: {o: \"urn:test\"}\n"
	g := start(t, config)
	var mu sync.Mutex
	var took []string
	sick := true
	b.do(func(p *peer, c *call) {
		mu.Lock()
		defer mu.Unlock()
		if sick && bytes.Contains(c.Body, []byte("<t:N>1</t:N>")) && bytes.Contains(c.Body, []byte("K&#x41;")) {
			_, _ = p.Write(response(500, xml11("").without("SOAPAction"), envelope("1.1", `<e:Fault><faultcode>e:Client</faultcode><faultstring>x</faultstring></e:Fault>`)))
			return
		}
		took = append(took, c.Fields.get("Gateway-Message-Id"))
		_, _ = p.Write(response(202, nil, nil))
	})
	ids := map[string][]string{}
	for n := range 4 {
		for _, key := range []string{"K&#x41;", "KB"} {
			ids[key] = append(ids[key], stored(t, g, "/orders", placed(key, n)))
		}
	}
	stopped := ids["K&#x41;"][1]
	check := func() {
		t.Helper()
		if !eventually(patience, func() bool { return g.waiting(t) == 2 && len(g.dead(t, "orders")) == 1 }) {
			t.Fatalf("%d messages wait, want two behind the dead head", g.waiting(t))
		}
		if n := g.metricSum(t, "gateway_queue_stopped_keys", `route="orders"`); n != 1 {
			t.Errorf("gateway_queue_stopped_keys is %v, want 1", n)
		}
		text, err := g.get("/api/v1/queues/orders/messages")
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Messages []struct {
				ID, Lane  string
				WaitsFor  string `json:"waits_for"`
				StopsKey  bool   `json:"stops_key"`
				State     string
				Operation string
			}
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Messages) != 3 {
			t.Fatalf("listed: %s", text)
		}
		for _, m := range page.Messages {
			dead := m.State == "dead"
			if m.Lane != "KA" || m.StopsKey != dead || (m.WaitsFor == stopped) == dead || dead != (m.ID == stopped) {
				t.Errorf("listed: %+v", m)
			}
		}
	}
	check()
	term(t, g)
	g = startAgain(t, g, config, b)
	check()
	ids["K&#x41;"] = append(ids["K&#x41;"], stored(t, g, "/orders", placed("KA", 4)))
	mu.Lock()
	sick = false
	mu.Unlock()
	g.order(t, "/api/v1/messages/"+stopped+"/replay")
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Fatalf("%d messages still wait", g.waiting(t))
	}
	mu.Lock()
	defer mu.Unlock()
	for key, want := range ids {
		var got []string
		for _, id := range took {
			if slices.Contains(want, id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("key %s: taken\n%s\naccepted\n%s", key, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
