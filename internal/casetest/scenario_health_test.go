package casetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// up reads the state of a node.
func (g *gateway) up(t testing.TB, b *backend) float64 {
	t.Helper()
	return g.metricSum(t, "gateway_backend_up", b.addr)
}

// TestNodeDiesUnderLoad: one of three nodes dies while messages flow. Each that
// was not sent is answered by another node, the rest are told as what they are,
// and the node gets its share again soon after it is back.
func TestNodeDiesUnderLoad(t *testing.T) {
	var nodes [3]*backend
	var urls strings.Builder
	for i := range nodes {
		nodes[i] = listenHTTP(t)
		urls.WriteString(fmt.Sprintf("%q,", "http://"+nodes[i].addr+"/in"))
	}
	g := start(t, httpOnly+fmt.Sprintf(`
backends: {three: {nodes: [%s], outlier: {eject: 1s}}}
routes: [{name: r, backend: three}]
`, urls.String()), nodes[:]...)

	var sent, good, classified, other atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				sent.Add(1)
				a := post(t, g.addr["http"], "/", xml11("urn:test"), numbered(w*10000+i))
				f, _ := readFault(a.Body, a.Fields.get("Content-Type"))
				switch {
				case a.Status == 200 || a.Status == 202: // as it answers since it is back
					good.Add(1)
				case a.Status == 500 && f != nil && f.Code == "{"+ns11+"}Server" && f.Own != "BackendUnavailable":
					classified.Add(1) // it may have been processed
				default:
					other.Add(1)
					t.Errorf("got %s", a)
				}
			}
		})
	}
	if !eventually(patience, func() bool { return good.Load() > 200 }) {
		t.Fatal("no load")
	}
	addr := nodes[0].addr
	nodes[0].close()
	if !eventually(patience, func() bool { return g.up(t, nodes[0]) == 0 }) {
		t.Error("the dead node is not out")
	}
	if got := g.metricSum(t, "gateway_circuit_state", `backend="three"`); got != 0 {
		t.Error("the backend counts as down while two nodes are up")
	}
	at := good.Load()
	if !eventually(patience, func() bool { return good.Load() > at+200 }) {
		t.Error("no answers while one node is out")
	}
	back := listenAt(t, addr)
	if !eventually(patience, func() bool { return back.gotComplete() > 50 && g.up(t, back) == 1 }) {
		t.Errorf("the node is back, and got %d messages", back.gotComplete())
	}
	close(stop)
	wg.Wait()
	if n := classified.Load(); n > 4 {
		t.Errorf("%d messages may have been processed, want at most one for each sender", n)
	}
	if good.Load()+classified.Load() != sent.Load() {
		t.Errorf("of %d messages %d were answered and %d classified", sent.Load(), good.Load(), classified.Load())
	}
	back.close()
}

// TestFaultsEjectNobody: a service that answers faults is there, whatever the
// status is that they come with.
func TestFaultsEjectNobody(t *testing.T) {
	b, other := listenHTTP(t), listenHTTP(t)
	for _, n := range []*backend{b, other} {
		n.do(func(p *peer, c *call) {
			status := 500 + int(c.Conn+len(c.Body))%5 // 500 to 504
			_, _ = p.Write(response(status, xml11(""), []byte(`<e:Envelope xmlns:e="`+ns11+`"><e:Body><e:Fault><faultcode>e:Server</faultcode><faultstring>no</faultstring></e:Fault></e:Body></e:Envelope>`)))
		})
	}
	g := start(t, httpOnly+fmt.Sprintf(`
backends: {two: {nodes: ["http://%s/in", "http://%s/in"], balance: round-robin, outlier: {failures: 2}}}
routes: [{name: r, backend: two}]
`, b.addr, other.addr), b, other)
	for i := range 60 {
		a := post(t, g.addr["http"], "/", xml11("urn:test"), numbered(i))
		if f, err := readFault(a.Body, a.Fields.get("Content-Type")); a.Status < 500 || f == nil || f.Own != "" {
			t.Errorf("the service's fault became (%v) %s", err, a)
		}
	}
	if g.up(t, b) != 1 || g.up(t, other) != 1 || len(b.got()) != 30 || len(other.got()) != 30 {
		t.Errorf("up %v and %v, after %d and %d messages", g.up(t, b), g.up(t, other), len(b.got()), len(other.got()))
	}
	// The same statuses without an envelope are somebody else's.
	b.answerWith(response(503, fields{{"Content-Type", "text/html"}}, []byte("<html>")))
	for i := range 4 {
		post(t, g.addr["http"], "/", xml11("urn:test"), numbered(i))
	}
	if g.up(t, b) != 0 || g.up(t, other) != 1 {
		t.Errorf("after two bare 503 of one node: up %v and %v", g.up(t, b), g.up(t, other))
	}
}

// TestHealthChecks: nodes that fail their check get no message, and get some
// again once they pass it: by path, by a message and by connecting.
func TestHealthChecks(t *testing.T) {
	byPath, bySOAP, byTCP, steady := listenHTTP(t), listenHTTP(t), listenHTTP(t), listenHTTP(t)
	var sick atomic.Bool
	byPath.do(func(p *peer, c *call) {
		if c.method() == "GET" && (c.target() != "/alive?deep" || sick.Load()) {
			_, _ = p.Write(response(503, nil, nil))
			return
		}
		_, _ = p.Write(okReply(c))
	})
	bySOAP.do(func(p *peer, c *call) {
		if sick.Load() {
			_, _ = p.Write(response(500, fields{{"Content-Type", "text/html"}}, []byte("<html>down</html>")))
			return
		}
		_, _ = p.Write(response(500, xml12(), []byte(`<s:Envelope xmlns:s="`+ns12+`"><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason><s:Text xml:lang="en">what?</s:Text></s:Reason></s:Fault></s:Body></s:Envelope>`)))
	})
	const check = "interval: 50ms, timeout: 1s}"
	ping := filepath.Join(t.TempDir(), "ping.xml")
	if err := os.WriteFile(ping, []byte(`<s:Envelope xmlns:s="`+ns12+`"><s:Body><ping xmlns="urn:test"/></s:Body></s:Envelope>`), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, httpOnly+fmt.Sprintf(`
backends:
  path: {nodes: ["http://%[1]s/in", "http://%[4]s/in"], health: {path: "/alive?deep", %[5]s}
  soap: {nodes: ["http://%[2]s/in"], health: {soap: %[6]q, %[5]s}
  tcp: {nodes: ["http://%[3]s/in"], health: {tcp: true, %[5]s}
routes:
  - {name: path, match: {path: /path}, backend: path}
  - {name: soap, match: {path: /soap}, backend: soap}
  - {name: tcp, match: {path: /tcp}, backend: tcp}
`, byPath.addr, bySOAP.addr, byTCP.addr, steady.addr, check, ping), byPath, bySOAP, byTCP, steady)

	all := func(state float64) bool {
		return g.up(t, byPath) == state && g.up(t, bySOAP) == state && g.up(t, byTCP) == state
	}
	if !eventually(patience, func() bool { return len(bySOAP.got()) > 3 }) || !all(1) {
		t.Fatal("nodes that pass their checks are not up")
	}
	if c := bySOAP.got()[0]; c.method() != "POST" || c.target() != "/in" || len(c.Body) == 0 || c.Fields.get("Content-Type") == "" {
		t.Errorf("the check by a message was %s", c.Raw)
	}
	sick.Store(true)
	addr := byTCP.addr
	byTCP.close()
	// steady has no /alive: it is 200 from okReply, and stays up.
	if !eventually(patience, func() bool { return all(0) }) || g.up(t, steady) != 1 {
		t.Fatal("nodes that fail their checks are still up, or all are out")
	}
	if g.metricSum(t, "gateway_circuit_state", `backend="tcp"`) != 1 || g.metricSum(t, "gateway_circuit_state", `backend="path"`) != 0 {
		t.Error("a backend is down when no node is up, and only then")
	}
	for i := range 20 {
		if a := post(t, g.addr["http"], "/path", xml11("urn:test"), numbered(i)); a.Status != 200 {
			t.Errorf("got %s", a)
		}
	}
	for _, c := range byPath.got() {
		if c.method() == "POST" {
			t.Error("a node that is out got a message")
		}
	}
	sick.Store(false)
	back := listenAt(t, addr)
	if !eventually(patience, func() bool { return all(1) }) {
		t.Error("nodes that pass their checks again are not up")
	}
	back.close()
}

// TestStoredMessagesLearnFromOthers: what callers of a sync route have met is
// known to stored messages of the same backend, which are charged nothing to
// find it out again; and they go out as soon as a caller has met it well.
func TestStoredMessagesLearnFromOthers(t *testing.T) {
	addr := refusedAddr(t)
	g := start(t, queueConfig(fmt.Sprintf(`{name: orders, match: {path: /orders}, backend: both, delivery: queue, %s}
  - {name: sync, match: {path: /sync}, backend: both}
backends: {both: {nodes: ["http://%s/in"], probe: {initial: 1m, max: 1h}}}`, quick, addr)))
	for i := range 5 {
		post(t, g.addr["http"], "/sync", xml11("urn:test"), numbered(i))
	}
	if g.metricSum(t, "gateway_circuit_state", `backend="both"`) != 1 {
		t.Fatal("five calls were refused, and the backend is not taken for down")
	}
	for i := range 10 {
		stored(t, g, "/orders", numbered(i))
	}
	pause(500 * time.Millisecond) // several times the wait for a retry
	if n := g.metricSum(t, "gateway_attempts_total", `route="orders"`); n != 0 {
		t.Errorf("%v attempts for stored messages at a backend that is known to be down", n)
	}
	b := listenAt(t, addr)
	if a := post(t, g.addr["http"], "/sync", xml11("urn:test"), numbered(99)); a.Status != 202 { // as listenAt answers
		t.Fatalf("a call to the backend that is back: %s", a)
	}
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Errorf("%d messages still wait, long before the probe's time", g.waiting(t))
	}
	if n := g.metricSum(t, "gateway_circuit_state", `backend="both"`); n != 0 {
		t.Error("the backend still counts as down")
	}
	b.close()
}
