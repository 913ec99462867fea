package casetest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWeightsAndRandom: shares through the whole gateway, for nodes of a backend
// and for those of a route.
func TestWeightsAndRandom(t *testing.T) {
	a, b := listenHTTP(t), listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
backends:
  turn: {nodes: [{url: "http://%[1]s/x", weight: 3}, "http://%[2]s/x"], balance: round-robin}
  drawn: {nodes: [{url: "http://%[1]s/x", weight: 3}, "http://%[2]s/x"], balance: random}
routes:
  - {name: turn, match: {path: /turn}, backend: turn}
  - {name: drawn, match: {path: /drawn}, backend: drawn}
  - {name: own, match: {path: /own}, to: [{url: "http://%[1]s/x", weight: 9}, "http://%[2]s/x"]}
`, a.addr, b.addr), a, b)
	for path, share := range map[string][2]int{"/turn": {30, 30}, "/drawn": {18, 39}, "/own": {27, 40}} {
		a.reset()
		b.reset()
		for i := range 40 {
			if r := post(t, g.addr["http"], path, xml11("urn:test"), numbered(i)); r.Status != 200 {
				t.Fatalf("%s: %s", path, r)
			}
		}
		if n := len(a.got()); n < share[0] || n > share[1] || n+len(b.got()) != 40 {
			t.Errorf("%s: %d of 40 messages at the heavier node, want %d to %d", path, n, share[0], share[1])
		}
	}
}

// TestConcurrencyOfABackend: max_concurrency holds over all nodes and listeners;
// more wait for a moment and are then told to come back.
func TestConcurrencyOfABackend(t *testing.T) {
	a, b := listenHTTP(t), listenHTTP(t)
	release := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(release) }) }
	t.Cleanup(free)
	for _, n := range []*backend{a, b} {
		n.do(func(p *peer, c *call) { <-release; _, _ = p.Write(okReply(c)) })
	}
	g := start(t, httpOnly+fmt.Sprintf(`
backends: {two: {nodes: ["http://%s/x", "http://%s/x"], max_concurrency: 3, queue_wait: 150ms}}
routes: [{name: r, backend: two}]
`, a.addr, b.addr), a, b)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if r := post(t, g.addr["http"], "/", xml11("urn:test"), numbered(i)); r.Status != 200 {
				t.Errorf("one of three: %s", r)
			}
		})
	}
	if !eventually(patience, func() bool { return len(a.got())+len(b.got()) == 3 }) {
		t.Fatal("three exchanges are not under way")
	}
	r := post(t, g.addr["http"], "/", xml11("urn:test"), numbered(9))
	wantBare(t, r, 503)
	if r.Fields.get("Retry-After") == "" || r.Took < 140*time.Millisecond {
		t.Errorf("refused after %v: %s", r.Took, r)
	}
	if g.up(t, a) != 1 || g.up(t, b) != 1 {
		t.Error("a node is out because it is busy")
	}
	wg.Go(func() { // its turn comes in time
		if r := post(t, g.addr["http"], "/", xml11("urn:test"), numbered(10)); r.Status != 200 {
			t.Errorf("one that had to wait: %s", r)
		}
	})
	pause(30 * time.Millisecond)
	free()
	wg.Wait()
}

// TestCompressedTowardsNodes: a node gets compressed what a caller has sent plain,
// small or streaming, and the caller gets the node's octets.
func TestCompressedTowardsNodes(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
backends: {packed: {nodes: ["http://%s/x"], compress: gzip}}
routes: [{name: r, backend: packed}]
`, b.addr), b)
	for _, size := range []int{5_000, 3 << 20} {
		b.reset()
		body := envelope("1.1", `<t:op xmlns:t="urn:test">`+strings.Repeat("data ", size/5)+`</t:op>`)
		if r := post(t, g.addr["http"], "/", xml11("urn:test"), body); r.Status != 200 {
			t.Fatalf("%d octets: %s", size, r)
		}
		c := b.got()[0]
		z, err := gzip.NewReader(bytes.NewReader(c.Body))
		if err != nil || c.Fields.get("Content-Encoding") != "gzip" {
			t.Fatalf("%d octets: the node got %v, %v", size, c.Fields, err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, body) || len(c.Body) > len(body)/4 {
			t.Errorf("%d octets: the node reads %d of %d, %v", size, len(got), len(body), err)
		}
	}
}

// TestByWayOfAProxy: nodes are reached through an HTTP proxy, and never past it.
func TestByWayOfAProxy(t *testing.T) {
	node, frames := listenHTTP(t), listenFramed(t)
	proxy := listenHTTP(t)
	proxy.do(func(p *peer, c *call) {
		if c.Fields.get("Proxy-Authorization") != "Basic Z3c6aHVudGVyMg==" {
			_, _ = p.Write(response(407, nil, nil))
			return
		}
		if c.method() != "CONNECT" {
			_, _ = p.Write(okReply(c))
			return
		}
		far, err := net.Dial("tcp", c.target())
		if err != nil {
			_, _ = p.Write(response(502, nil, nil))
			return
		}
		_, _ = p.Write([]byte("HTTP/1.1 200 Fine\r\n\r\n"))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(far, p.r.r); far.Close() })
		_, _ = io.Copy(p, far)
		p.Close()
		wg.Wait()
	})
	g := start(t, httpOnly+fmt.Sprintf(`
backends:
  web: {nodes: ["http://%s/x"], proxy: "http://gw:hunter2@%[3]s"}
  plant: {nodes: ["framed://%[2]s"], proxy: "http://gw:hunter2@%[3]s"}
routes:
  - {name: web, match: {path: /web}, backend: web}
  - {name: plant, match: {path: /plant}, backend: plant}
`, node.addr, frames.addr, proxy.addr), node, frames, proxy)
	for _, path := range []string{"/web", "/plant", "/web", "/plant"} {
		if r := post(t, g.addr["http"], path, xml11("urn:test"), numbered(3)); r.Status != 200 {
			t.Fatalf("%s: %s", path, r)
		}
	}
	var asked []string
	for _, c := range proxy.got() {
		asked = append(asked, c.Line)
	}
	web := "POST http://" + node.addr + "/x HTTP/1.1"
	if want := []string{web, "CONNECT " + frames.addr + " HTTP/1.1", web}; strings.Join(asked, "|") != strings.Join(want, "|") {
		t.Errorf("the proxy was asked %q, want %q", asked, want)
	}
	if node.connections() != 0 || frames.connections() != 1 {
		t.Errorf("%d and %d connections at the nodes, want none and one", node.connections(), frames.connections())
	}
}
