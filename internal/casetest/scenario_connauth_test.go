package casetest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// An ntlm is a backend that knows connections, not requests: who has sent the third
// message of the handshake on a connection is taken for the sender of all that comes
// on it.
type ntlm struct {
	mu    sync.Mutex
	users map[int]string // by connection
}

// serve answers one request on connection p.n of node.
func (s *ntlm) serve(node string, p *peer, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proof, challenge := c.Fields.get("Authorization"), fmt.Sprintf("%s-%d", node, p.n)
	html := fields{{"Content-Type", "text/html"}}
	switch {
	case proof == "NTLM one":
		_, _ = p.Write(response(401, html.with("WWW-Authenticate", "NTLM "+challenge), []byte("<html>go on</html>")))
		return
	case strings.HasPrefix(proof, "NTLM three "+challenge+" "):
		s.users[p.n] = strings.TrimPrefix(proof, "NTLM three "+challenge+" ")
	case proof != "" || s.users[p.n] == "":
		_, _ = p.Write(response(401, append(html, field{"WWW-Authenticate", "Negotiate"}, field{"WWW-Authenticate", "NTLM"}), []byte("<html>who?</html>")))
		return
	}
	_, _ = p.Write(response(200, xml11("").without("SOAPAction"), envelope("1.1", "<user>"+s.users[p.n]+"</user>")))
}

// prove goes through the handshake on one connection.
func prove(t testing.TB, c *client, user string) *answer {
	ask := func(proof string) *answer {
		f := xml11("urn:test")
		if proof != "" {
			f = append(f, field{"Authorization", proof})
		}
		_ = c.send(request("/", f, envelope("1.1", op)))
		return c.answer()
	}
	a := ask("")
	if a.Status != 401 || strings.Join(a.Fields.all("WWW-Authenticate"), ",") != "Negotiate,NTLM" {
		t.Errorf("%s: the first step got %s", user, a)
	}
	a = ask("NTLM one")
	challenge, ok := strings.CutPrefix(a.Fields.get("WWW-Authenticate"), "NTLM ")
	if a.Status != 401 || !ok {
		t.Errorf("%s: the second step got %s", user, a)
	}
	return ask("NTLM three " + challenge + " " + user)
}

// TestNTLM: callers prove who they are in three steps that the backend ties to one
// connection, all at once and beside others who prove nothing. Each is taken for
// himself at every node and on both engines, nobody for somebody else, and what
// is bound to a caller's connection ends with it.
func TestNTLM(t *testing.T) {
	one, two := listenHTTP(t), listenHTTP(t)
	for name, b := range map[string]*backend{"one": one, "two": two} {
		s := &ntlm{users: map[int]string{}}
		b.do(func(p *peer, c *call) { s.serve(name, p, c) })
	}
	g := start(t, preamble+fmt.Sprintf(`
listeners:
  - {name: fast, address: "127.0.0.1:0", h2c: true}
  - {name: std, address: "127.0.0.1:0", engine: std}
backends: {b: {nodes: ["http://%s/", "http://%s/"], balance: round-robin}}
routes: [{name: r, backend: b}]
`, one.addr, two.addr), one, two)
	var wg sync.WaitGroup
	for i := range 12 {
		listener := []string{"fast", "std"}[i%2]
		c, user := dial(t, g.addr[listener]), fmt.Sprintf("user%d", i)
		wg.Go(func() {
			a := prove(t, c, user)
			for k := 0; ; k++ {
				if a.Status != 200 || a.Err != nil || string(a.Body) != string(envelope("1.1", "<user>"+user+"</user>")) {
					t.Errorf("%s, message %d: %s", user, k, a)
					return
				}
				if k == 15 {
					return
				}
				_ = c.send(request("/", xml11("urn:test"), envelope("1.1", op)))
				a = c.answer()
			}
		})
		wg.Go(func() { // beside him
			c := dial(t, g.addr[listener])
			defer c.Close()
			for k := range 15 {
				_ = c.send(request("/", xml11("urn:test"), envelope("1.1", op)))
				if a := c.answer(); a.Status != 401 || a.Err != nil {
					t.Errorf("a caller who proved nothing, message %d: %s", k, a)
					return
				}
			}
		})
	}
	wg.Wait()

	// By HTTP/2, where messages of a connection mingle, a proof is worth nothing.
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	h2 := http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: patience}
	defer h2.CloseIdleConnections()
	ask := func(proof string) *http.Response {
		req, err := http.NewRequest("POST", "http://"+g.addr["fast"]+"/", strings.NewReader(string(envelope("1.1", op))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/xml")
		req.Header.Set("Authorization", proof)
		res, err := h2.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	challenge := strings.TrimPrefix(ask("NTLM one").Header.Get("WWW-Authenticate"), "NTLM ")
	if res := ask("NTLM three " + challenge + " mallory"); res.StatusCode != 401 || res.ProtoMajor != 2 {
		t.Errorf("by HTTP/%d a proof was taken: %s", res.ProtoMajor, res.Status)
	}

	open := func() (n int) {
		for _, b := range []*backend{one, two} {
			b.mu.Lock()
			n += len(b.conns)
			b.mu.Unlock()
		}
		return n
	}
	last := dial(t, g.addr["fast"])
	if a := prove(t, last, "last"); a.Status != 200 {
		t.Errorf("got %s", a)
	}
	before := open()
	last.Close()
	if !eventually(patience, func() bool { return open() < before }) {
		t.Error("the bound connection outlives that of its caller")
	}
}

// TestNTLMBehindProxies: a trusted proxy's connection carries messages of many, so
// nothing is bound to it.
func TestNTLMBehindProxies(t *testing.T) {
	b := listenHTTP(t)
	s := &ntlm{users: map[int]string{}}
	b.do(func(p *peer, c *call) { s.serve("b", p, c) })
	g := start(t, httpOnly+fmt.Sprintf("trusted_proxies: [127.0.0.0/8]\nroutes: [{name: r, to: [\"http://%s/\"]}]\n", b.addr), b)
	c := dial(t, g.addr["http"])
	if a := prove(t, c, "user"); a.Status != 401 {
		t.Errorf("a proof by way of a proxy was taken: %s", a)
	}
}

// TestConnectionsAreOneBudget: max_connections counts those to all nodes together,
// whoever has them, and who finds none free waits queue_wait and gets 503.
func TestConnectionsAreOneBudget(t *testing.T) {
	one, two := listenHTTP(t), listenHTTP(t)
	nodes := []*backend{one, two}
	release := make(chan struct{})
	open := func() (n int) {
		for _, b := range nodes {
			b.mu.Lock()
			n += len(b.conns)
			b.mu.Unlock()
		}
		return n
	}
	for _, b := range nodes {
		b.do(func(p *peer, c *call) {
			if strings.Contains(string(c.Body), "hold") {
				<-release
			}
			_, _ = p.Write(okReply(c))
		})
	}
	g := start(t, httpOnly+fmt.Sprintf(`
backends: {b: {nodes: ["http://%s/", "http://%s/"], balance: hash, hash_by: "header:X-Node", max_connections: 4, queue_wait: 300ms, idle_timeout: 60s}}
routes: [{name: r, backend: b}]
`, one.addr, two.addr), one, two)
	to := func(i int) fields { return append(xml11("urn:test"), field{"X-Node", fmt.Sprint(i)}) }
	// Keys that lead to one node only, each.
	key := map[*backend]int{}
	for i := 0; len(key) < 2 && i < 100; i++ {
		post(t, g.addr["http"], "/", to(i), envelope("1.1", op))
		for _, b := range nodes {
			if b.gotComplete() > 0 {
				key[b] = i
			}
			b.reset()
			b.do(func(p *peer, c *call) {
				if strings.Contains(string(c.Body), "hold") {
					<-release
				}
				_, _ = p.Write(okReply(c))
			})
		}
	}
	if len(key) != 2 {
		t.Fatal("no two keys lead to different nodes")
	}
	var wg sync.WaitGroup
	for range 4 { // one node may have all of them
		wg.Go(func() {
			if a := post(t, g.addr["http"], "/", to(key[one]), envelope("1.1", "<hold/>")); a.Status != 200 {
				t.Errorf("held: %s", a)
			}
		})
	}
	if !eventually(patience, func() bool { return one.gotComplete() == 4 }) {
		t.Fatalf("%d of 4 messages are at one node", one.gotComplete())
	}
	if n := open(); n > 4 {
		t.Errorf("%d connections are open, want at most 4", n)
	}
	began := time.Now()
	if a := post(t, g.addr["http"], "/", to(key[two]), envelope("1.1", op)); a.Status != 503 || !a.Fields.has("Retry-After") || time.Since(began) < 250*time.Millisecond {
		t.Errorf("beyond the budget, after %s: %s", time.Since(began), a)
	}
	close(release)
	wg.Wait()
	for range 5 { // idle ones make room
		if a := post(t, g.addr["http"], "/", to(key[two]), envelope("1.1", op)); a.Status != 200 {
			t.Errorf("got %s", a)
		}
	}
	if n := open(); n > 4 {
		t.Errorf("%d connections are open, want at most 4", n)
	}
}
