package casetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// An authority signs the certificates of sites.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	next int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), next: 1}
	a.key = newKey(t)
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of hq"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.write(t, "ca", a.cert, &a.key.PublicKey, nil)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// write signs a certificate and writes it, and its key if there is one.
func (a *authority) write(t testing.TB, name string, c *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, pub, a.key)
	if err != nil {
		t.Fatal(err)
	}
	put := func(file, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(name+".pem", "CERTIFICATE", der)
	if key == nil {
		return
	}
	b, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(name+".key", "EC PRIVATE KEY", b)
}

// issue makes NAME.pem and NAME.key.
func (a *authority) issue(t testing.TB, name string) {
	t.Helper()
	a.next++
	key := newKey(t)
	a.write(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &key.PublicKey, key)
}

// A cable is a way to an address that can be cut and healed.
type cable struct {
	ln net.Listener
	to func() string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newCable(t testing.TB, to func() string) *cable {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{ln: ln, to: to, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.carry(in) })
		}
	})
	t.Cleanup(func() { ln.Close(); c.set(true); wg.Wait() })
	return c
}

func (c *cable) addr() string { return c.ln.Addr().String() }

// set cuts the cable, with all that is on it, or heals it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for conn := range c.conns {
		if cut {
			if t, ok := conn.(*net.TCPConn); ok {
				_ = t.SetLinger(0) // what is on the way is lost
			}
			conn.Close()
		}
	}
}

func (c *cable) hold(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		conn.Close()
		return false
	}
	c.conns[conn] = true
	return true
}

func (c *cable) carry(in net.Conn) {
	defer in.Close()
	if !c.hold(in) {
		return
	}
	out, err := net.Dial("tcp", c.to())
	if err != nil {
		return
	}
	defer out.Close()
	if !c.hold(out) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, in)
		out.Close()
		in.Close()
	}()
	_, _ = io.Copy(in, out)
	in.Close()
	out.Close()
	<-done
	c.mu.Lock()
	delete(c.conns, in)
	delete(c.conns, out)
	c.mu.Unlock()
}

// farSite is the configuration of hq, which takes what plant sends to orders.
func farSite(a *authority, listen, backend, more string) string {
	return preamble + fmt.Sprintf(`
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: sites, address: "%s", tls: {certificate: %[2]s/hq.pem, key: %[2]s/hq.key, client_ca: %[2]s/ca.pem, client_auth: request}}
store: {durability: %[3]s, min_free: 1MiB}
sites:
  name: hq
  accept: [{name: plant, subjects: ["CN=plant"], routes: [orders]}]
%[5]s
routes:
  - {name: orders, match: {path: /orders/*}, backend: orders, delivery: queue, order_by: "http:X-Key", %[4]s}
  - {name: secret, match: {path: /secret}, backend: orders, delivery: queue}
backends: {orders: {nodes: ["http://%[6]s/in"], timeout: 1s, probe: {initial: 200ms, max: 400ms}}}
`, listen, a.dir, durability(), quick, more, backend)
}

// nearSite is the configuration of plant, which sends orders to hq at an address.
func nearSite(a *authority, hq, node, more string) string {
	return preamble + fmt.Sprintf(`
listeners: [{name: http, address: "127.0.0.1:0"}]
store: {durability: %s, min_free: 1MiB}
sites:
  name: plant
  links: [{name: hq, url: "https://%s", certificate: %[3]s/plant.pem, key: %[3]s/plant.key, ca: %[3]s/ca.pem}]
%[5]s
routes:
  - {name: orders, match: {path: /orders/*}, backend: hq, delivery: queue, order_by: "http:X-Key", %[4]s}
backends: {hq: {nodes: ["%[6]s"], probe: {initial: 200ms, max: 400ms}}}
`, durability(), hq, a.dir, quick, more, node)
}

// sitePair is two gateways with a cable between them.
type sitePair struct {
	*authority
	b         *backend
	plant, hq *gateway
	cable     *cable
	at        string // where hq listens for sites

	plantConfig, hqConfig string
}

func newSitePair(t testing.TB) *sitePair {
	t.Helper()
	p := &sitePair{authority: newAuthority(t), b: taking(t)}
	for _, name := range []string{"hq", "plant", "branch"} {
		p.issue(t, name)
	}
	p.at = refusedAddr(t)
	p.hqConfig = farSite(p.authority, p.at, p.b.addr, "")
	p.hq = start(t, p.hqConfig, p.b)
	p.cable = newCable(t, func() string { return p.at })
	p.plantConfig = nearSite(p.authority, p.cable.addr(), "site:hq/orders", "")
	p.plant = start(t, p.plantConfig, p.b)
	return p
}

// order posts a message with a key to the plant.
func (p *sitePair) order(t testing.TB, key string, n int) {
	t.Helper()
	f := append(xml11("urn:test"), field{"X-Key", key})
	a := post(t, p.plant.addr["http"], "/orders/"+key+"?n="+strconv.Itoa(n), f, numbered(n))
	if a.Status != 202 {
		t.Fatalf("not a receipt: %s", a)
	}
}

// arrivals checks what the backend of hq has got of n messages: all of them, each as it
// was, in the order of their keys, and none twice without a mark; never twice at all
// unless killed says that a gateway was.
func (p *sitePair) arrivals(t testing.TB, n int, killed bool) {
	t.Helper()
	seen, last := map[int]bool{}, map[string]int{}
	for _, c := range p.b.got() {
		key := c.Fields.get("X-Key")
		_, query, _ := strings.Cut(c.target(), "?")
		i, err := strconv.Atoi(strings.TrimPrefix(query, "n="))
		if err != nil || c.target() != "/in/"+key+"?n="+strconv.Itoa(i) {
			t.Fatalf("target %s of key %q", c.target(), key)
		}
		if string(c.Body) != string(numbered(i)) {
			t.Errorf("message %d has changed", i)
		}
		marked := c.Fields.get("Gateway-Possible-Duplicate") == "true"
		switch {
		case seen[i] && !marked:
			t.Errorf("message %d came twice without a mark", i)
		case seen[i] && !killed:
			t.Errorf("message %d came twice", i)
		case !seen[i] && last[key] > i:
			t.Errorf("message %d came after %d", i, last[key])
		}
		if !seen[i] {
			last[key] = i
		}
		seen[i] = true
		if o := c.Fields.get("Gateway-Origin"); !strings.HasPrefix(o, "plant/") || len(o) != len("plant/")+36 {
			t.Errorf("Gateway-Origin is %q", o)
		}
	}
	if len(seen) != n {
		t.Errorf("%d messages have arrived, want %d", len(seen), n)
	}
}

func (p *sitePair) settled(t testing.TB) bool {
	return eventually(60*time.Second, func() bool { return p.plant.waiting(t) == 0 && p.hq.waiting(t) == 0 })
}

// TestSiteLink: messages go over a link that is cut and healed again and again, each
// once, in the order of their keys, octet for octet.
func TestSiteLink(t *testing.T) {
	p := newSitePair(t)
	const n, keys = 600, 12
	for i := range n {
		if i%60 == 30 {
			p.cable.set(true)
		}
		if i%60 == 50 {
			p.cable.set(false)
		}
		p.order(t, fmt.Sprintf("k%d", i%keys), i)
	}
	p.cable.set(false)
	if !p.settled(t) {
		t.Fatalf("%d messages wait at the plant and %d at hq\n%s", p.plant.waiting(t), p.hq.waiting(t), tail(p.plant.log.String()))
	}
	p.arrivals(t, n, false)
	text := p.plant.metrics(t)
	if up, lag := sumOf(t, text, "gateway_link_up", `link="hq"`), sumOf(t, text, "gateway_link_lag_messages", `link="hq"`); up != 1 || lag != 0 {
		t.Errorf("gateway_link_up is %v and gateway_link_lag_messages %v, want 1 and 0", up, lag)
	}
	if left := sumOf(t, text, "gateway_certificate_expiry_seconds", `listener="sites.links.hq"`); left < 60 || left > 3600 {
		t.Errorf("the certificate of the link has %v s left, want less than the hour that it was given", left)
	}
	if sent := sumOf(t, text, "gateway_link_items_total", `direction="out"`, `outcome="stored"`) + sumOf(t, text, "gateway_link_items_total", `direction="out"`, `outcome="duplicate"`); sent != n {
		t.Errorf("gateway_link_items_total tells of %v messages, want %d", sent, n)
	}
	text = p.hq.metrics(t)
	if got := sumOf(t, text, "gateway_link_items_total", `link="plant"`, `direction="in"`, `outcome="stored"`); got != n {
		t.Errorf("hq has counted %v messages, want %d", got, n)
	}
	if strings.Contains(text, `gateway_link_up{link="plant"}`) {
		t.Error("hq tells whether a link is up over which it never sends")
	}
}

// TestSiteRestored: the origin comes back from a backup. What it had sent since is a
// duplicate, what it accepts now is not taken for one, and nothing comes twice.
func TestSiteRestored(t *testing.T) {
	p := newSitePair(t)
	const keys = 4
	for i := range 40 {
		p.order(t, fmt.Sprintf("k%d", i%keys), i)
	}
	if !p.settled(t) {
		t.Fatal("messages wait")
	}
	p.cable.set(true)
	for i := 40; i < 80; i++ {
		p.order(t, fmt.Sprintf("k%d", i%keys), i)
	}
	file := filepath.Join(t.TempDir(), "plant.backup")
	command := func(args ...string) {
		t.Helper()
		bin, err := build()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(bin, append([]string{"queue"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("gateway queue %v: %v\n%s", args, err, out)
		}
	}
	command("backup", "--admin", "http://"+p.plant.admin, "-o", file)
	p.cable.set(false)
	if !p.settled(t) {
		t.Fatal("messages wait")
	}
	term(t, p.plant)
	command("restore", "-c", p.plant.file, "--set-aside", file)
	p.plant = startAgain(t, p.plant, p.plantConfig, p.b)
	for i := 80; i < 100; i++ {
		p.order(t, fmt.Sprintf("k%d", i%keys), i)
	}
	if !p.settled(t) {
		t.Fatalf("messages wait\n%s", tail(p.plant.log.String()))
	}
	p.arrivals(t, 100, false)
	if got := p.hq.metricSum(t, "gateway_link_items_total", `link="plant"`, `outcome="duplicate"`); got < 40 {
		t.Errorf("%v messages were duplicate, want the 40 that the backup had", got)
	}
}

// TestSiteLost: hq comes back from a backup that lacks what it had answered for, so quickly
// that no exchange has failed. The plant says how many messages that is, in the log, as
// an alarm and in its audit file, and what it sends from then on arrives.
func TestSiteLost(t *testing.T) {
	p := newSitePair(t)
	trail := filepath.Join(t.TempDir(), "audit.log")
	term(t, p.plant)
	p.plantConfig = strings.Replace(p.plantConfig, `admin: {address: "127.0.0.1:0"}`, fmt.Sprintf(`admin: {address: "127.0.0.1:0", audit: %q}`, trail), 1)
	p.plantConfig = fmt.Sprintf("alerts: {webhook: \"http://%s/\"}\n", refusedAddr(t)) + p.plantConfig // alarms are looked for
	p.plant = startAgain(t, p.plant, p.plantConfig, p.b)
	p.order(t, "k", 0)
	if !p.settled(t) {
		t.Fatal("messages wait")
	}
	file := filepath.Join(t.TempDir(), "hq.backup")
	in(t, p.hq.dir, 0, "queue", "backup", "--admin", "http://"+p.hq.admin, "-o", file)
	for i := range 25 {
		p.order(t, "k", 1+i)
	}
	if !p.settled(t) {
		t.Fatal("messages wait")
	}
	p.hq.crash(t)
	in(t, p.hq.dir, 0, "queue", "restore", "-c", p.hq.file, "--set-aside", file)
	p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
	p.order(t, "k", 26)
	if !p.settled(t) {
		t.Fatalf("messages wait\n%s", tail(p.plant.log.String()))
	}
	p.arrivals(t, 27, true)
	lines := audited(auditOf(t, trail), "site", "lost")
	if len(lines) != 1 || lines[0]["result"] != "failed" || lines[0]["what"].(map[string]any)["count"] != 25.0 || lines[0]["what"].(map[string]any)["site"] != "hq" {
		t.Errorf("audited as %v, want 25 messages that hq has lost", lines)
	}
	alarm := func() bool {
		return strings.Contains(p.plant.log.String(), "site hq lacks 25 messages that it had answered for")
	}
	if !eventually(patience, alarm) {
		t.Errorf("there is no alarm\n%s", tail(p.plant.log.String()))
	}
}

// TestSiteKills: either side is killed under load and starts again, the link down or up.
func TestSiteKills(t *testing.T) {
	p := newSitePair(t)
	const keys = 12
	n := 0
	for round := range 6 {
		for range 100 {
			p.order(t, fmt.Sprintf("k%d", n%keys), n)
			n++
		}
		switch round % 3 {
		case 0:
			p.hq.crash(t)
			p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
		case 1:
			p.plant.crash(t)
			p.plant = startAgain(t, p.plant, p.plantConfig, p.b)
		case 2:
			p.cable.set(true)
			p.hq.crash(t)
			p.order(t, "k0", n-n%keys+keys)
			n = n - n%keys + keys + 1
			p.cable.set(false)
			p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
		}
	}
	if !p.settled(t) {
		t.Fatalf("%d messages wait at the plant and %d at hq\n%s", p.plant.waiting(t), p.hq.waiting(t), tail(p.plant.log.String()))
	}
	got := map[string]bool{}
	for _, c := range p.b.got() {
		got[c.target()] = true
	}
	p.arrivals(t, len(got), true)
	if want := 6*100 + 2; len(got) != want {
		t.Errorf("%d messages have arrived, want %d", len(got), want)
	}
}

// TestSitesRefused: who may not send is refused, and what cannot be taken is a dead
// letter at its origin, with the reason; a large message goes as any other.
func TestSitesRefused(t *testing.T) {
	p := newSitePair(t)
	client := func(name string) *http.Client {
		pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, name+".pem"), filepath.Join(p.dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return p.client(t, pair)
	}
	call := func(c *http.Client, path string) int {
		t.Helper()
		r, err := c.Post("https://"+p.at+path, "application/json", strings.NewReader(`{"site":"plant","store":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		return r.StatusCode
	}
	for _, c := range []struct {
		name   string
		client *http.Client
		path   string
		status int
	}{
		{"nobody", p.client(t), "/_site/v1/hello", 403},
		{"another site", client("branch"), "/_site/v1/hello", 403},
		{"plant", client("plant"), "/_site/v1/hello", 200},
		{"plant elsewhere", client("plant"), "/_site/v1/else", 404},
		{"plant with a wrong type", client("plant"), "/_site/v1/batch", 415},
	} {
		if got := call(c.client, c.path); got != c.status {
			t.Errorf("%s at %s: got %d, want %d", c.name, c.path, got, c.status)
		}
	}

	large := envelope("1.1", "<x>"+strings.Repeat("large ", 500_000)+"</x>")
	if a := post(t, p.plant.addr["http"], "/orders/l?n=0", xml11("urn:test"), large); a.Status != 202 {
		t.Fatalf("not a receipt: %s", a)
	}
	if !p.settled(t) {
		t.Fatalf("the large message waits\n%s", tail(p.plant.log.String()))
	}
	if got := p.b.got(); len(got) != 1 || string(got[0].Body) != string(large) {
		t.Errorf("%d messages have arrived, or another one", len(got))
	}

	// Hq takes only SOAP 1.2 now: what plant has accepted is refused there.
	term(t, p.hq)
	p.hqConfig = strings.Replace(p.hqConfig, "match: {path: /orders/*},", "match: {path: /orders/*}, soap: {accept: [1.2]},", 1)
	p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
	p.order(t, "k", 1)
	if !eventually(patience, func() bool { return len(p.plant.dead(t, "orders")) == 1 }) {
		t.Fatalf("no dead letter\n%s", tail(p.plant.log.String()))
	}
	if d := p.plant.dead(t, "orders")[0]; d.Reason != "permanent" || !strings.Contains(d.Text, "site hq refuses it") || !strings.Contains(d.Text, "VersionMismatch") {
		t.Errorf("dead letter: %+v", d)
	}

	// A route that plant may not send to holds the link and loses nothing.
	term(t, p.plant)
	p.plant = startAgain(t, p.plant, nearSite(p.authority, p.cable.addr(), "site:hq/secret", ""), p.b)
	p.order(t, "k", 2)
	if !eventually(patience, func() bool { return strings.Contains(p.hq.log.String(), "not for it") }) {
		t.Error("hq does not tell that plant sends where it may not")
	}
	if w := p.plant.waiting(t); w != 1 {
		t.Errorf("%d messages wait, want the one that may not go yet", w)
	}
	term(t, p.plant)
	p.plant = startAgain(t, p.plant, nearSite(p.authority, p.cable.addr(), "site:hq/orders", ""), p.b)
	// It is not tried again within the minute unless somebody asks for it.
	p.plant.operate(t, "/queues/orders/flush")
	if !eventually(patience, func() bool { return p.plant.waiting(t) == 0 }) {
		t.Errorf("the message still waits where it may go\n%s\n%s", tail(p.plant.log.String()), tail(p.hq.log.String()))
	}
}

// client is one that shows certificates.
func (p *sitePair) client(t testing.TB, pairs ...tls.Certificate) *http.Client {
	t.Helper()
	roots := poolOf(t, filepath.Join(p.dir, "ca.pem"))
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: pairs}}, Timeout: patience}
}

// TestSitePull: a site that cannot be reached fetches what is for it.
func TestSitePull(t *testing.T) {
	a := newAuthority(t)
	for _, name := range []string{"hq", "plant"} {
		a.issue(t, name)
	}
	b := taking(t)
	at := refusedAddr(t)
	hq := start(t, preamble+fmt.Sprintf(`
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: sites, address: "%s", tls: {certificate: %[2]s/hq.pem, key: %[2]s/hq.key, client_ca: %[2]s/ca.pem, client_auth: request}}
store: {durability: %[3]s, min_free: 1MiB}
sites: {name: hq, accept: [{name: plant, subjects: ["CN=plant"], routes: []}]}
routes: [{name: orders, match: {path: /orders}, backend: plant, delivery: queue, %[4]s}]
backends: {plant: {nodes: ["site:plant/orders"], probe: {initial: 200ms, max: 400ms}}}
`, at, a.dir, durability(), quick), b)
	for i := range 50 {
		stored(t, hq, "/orders", numbered(i))
	}
	cable := newCable(t, func() string { return at })
	plant := start(t, preamble+fmt.Sprintf(`
listeners: [{name: http, address: "127.0.0.1:0"}]
store: {durability: %s, min_free: 1MiB}
sites:
  name: plant
  links: [{name: hq, url: "https://%s", certificate: %[3]s/plant.pem, key: %[3]s/plant.key, ca: %[3]s/ca.pem, pull: true}]
  accept: [{name: hq, routes: [orders]}]
routes: [{name: orders, match: {path: /orders}, backend: orders, delivery: queue, %[4]s}]
backends: {orders: {nodes: ["http://%[5]s/in"], timeout: 1s, probe: {initial: 200ms, max: 400ms}}}
`, durability(), cable.addr(), a.dir, quick, b.addr), b)
	done := func(n int) func() bool {
		return func() bool { return hq.waiting(t) == 0 && plant.waiting(t) == 0 && len(b.got()) == n }
	}
	if !eventually(patience, done(50)) {
		t.Fatalf("%d messages have arrived, want 50; %d wait\n%s\n%s", len(b.got()), hq.waiting(t), tail(hq.log.String()), tail(plant.log.String()))
	}
	cable.set(true)
	for i := range 50 {
		stored(t, hq, "/orders", numbered(50+i))
	}
	cable.set(false)
	if !eventually(patience, done(100)) {
		t.Errorf("%d messages have arrived, want 100", len(b.got()))
	}
}
