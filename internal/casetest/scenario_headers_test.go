package casetest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestRequestHeaders is SPEC.md §3.8 towards the node.
func TestRequestHeaders(t *testing.T) {
	f := shared(t)
	sent := append(xml11("urn:a"), fields{
		{"Connection", "close, X-Hop"},
		{"X-Hop", "1"},
		{"Keep-Alive", "timeout=5"},
		{"Proxy-Connection", "keep-alive"},
		{"TE", "trailers"},
		{"Upgrade", "h2c"},
		{"Proxy-Authorization", "Basic aHVudGVyMg=="},
		{"Gateway-Message-Id", "mine"},
		{"gateway-attempt", "7"},
		{"Gateway-Possible-Duplicate", "true"},
		{"Gateway-Evil", "x"},
		{"X-Forwarded-For", "6.6.6.6"},
		{"X-Forwarded-Proto", "https"},
		{"X-Forwarded-Host", "evil"},
		{"Forwarded", "for=6.6.6.6"},
		{"Cookie", "a=b"},
		{"Cookie", "c=d"},
		{"Authorization", "Basic ZG9jazpkb2Nr"},
		{"Accept", "text/xml"},
		{"Accept-Language", "nl"},
		{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{"X-Empty", ""},
		{"X-Multi", "1"},
		{"X-Multi", "2"},
		{"Via", "1.0 before"},
		{"User-Agent", "test/1 (x; y)"},
	}...)
	post(t, f.g.addr["http"], "/depot/x", sent, envelope("1.1", op))
	calls := f.http.got()
	if len(calls) != 1 {
		t.Fatalf("%d requests", len(calls))
	}
	got := calls[0].Fields
	for _, gone := range []string{"X-Hop", "Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "Gateway-Evil", "Gateway-Attempt", "Gateway-Possible-Duplicate", "Proxy-Authorization", "Expect", "Trailer", "Transfer-Encoding"} {
		if got.has(gone) {
			t.Errorf("%s reached the node: %q", gone, got.all(gone))
		}
	}
	for _, kept := range []string{"Cookie", "Authorization", "Accept", "Accept-Language", "X-Empty", "X-Multi", "User-Agent", "SOAPAction", "Content-Type"} {
		if g, w := got.all(kept), sent.all(kept); strings.Join(g, "; ") != strings.Join(w, "; ") {
			t.Errorf("%s: %q, sent %q", kept, g, w)
		}
	}
	if id := got.all("Gateway-Message-Id"); len(id) != 1 || !uuid7.MatchString(id[0]) {
		t.Errorf("Gateway-Message-Id %q is no UUIDv7", id)
	}
	if via := strings.Join(got.all("Via"), ", "); !strings.HasSuffix(via, "1.1 gateway") || !strings.HasPrefix(via, "1.0 before") {
		t.Errorf("Via %q", via)
	}
	if xff := got.all("X-Forwarded-For"); len(xff) != 1 || xff[0] != "127.0.0.1" {
		t.Errorf("X-Forwarded-For %q: an untrusted caller's must be replaced", xff)
	}
	if p := got.get("X-Forwarded-Proto"); p != "" && p != "http" {
		t.Errorf("X-Forwarded-Proto %q", p)
	}
	if h := got.get("X-Forwarded-Host"); h == "evil" {
		t.Errorf("X-Forwarded-Host %q", h)
	}
	if fw := strings.Join(got.all("Forwarded"), ","); strings.Contains(fw, "6.6.6.6") {
		t.Errorf("Forwarded %q", fw)
	}
	if tp := got.get("traceparent"); !strings.HasPrefix(tp, "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("traceparent %q", tp)
	}
	if h := got.all("Host"); len(h) != 1 || h[0] != f.http.addr {
		t.Errorf("Host %q, want that of the node's URL", h)
	}
	if cl := got.all("Content-Length"); len(cl) != 1 {
		t.Errorf("Content-Length %q", cl)
	}
}

// TestIDsAreUnique: every exchange has its own id, in the order of time.
func TestIDsAreUnique(t *testing.T) {
	f := shared(t)
	c := dial(t, f.g.addr["http"])
	for range 50 {
		_ = c.send(request("/depot/x", typed("1.1"), envelope("1.1", op)))
		if a := c.answer(); a.Status != 200 {
			t.Fatal(a)
		}
	}
	last := ""
	for _, call := range f.http.got() {
		id := call.Fields.get("Gateway-Message-Id")
		if id <= last {
			t.Errorf("id %s after %s", id, last)
		}
		last = id
	}
}

// TestResponseHeaders is the same rule towards the client.
func TestResponseHeaders(t *testing.T) {
	f := shared(t)
	sent := fields{
		{"Content-Type", "text/xml; charset=utf-8"},
		{"Connection", "X-Hop"},
		{"X-Hop", "1"},
		{"Keep-Alive", "timeout=5"},
		{"Proxy-Authenticate", "Basic"},
		{"Set-Cookie", "a=b; Path=/"},
		{"Set-Cookie", "c=d"},
		{"X-Multi", "1"},
		{"X-Multi", "2"},
		{"X-Empty", ""},
		{"ETag", `W/"x"`},
		{"Server", "backend/1"},
		{"Trailer", "X-T"},
	}
	f.http.answerWith(response(200, sent, envelope("1.1", op)))
	a := post(t, f.g.addr["http"], "/depot/x", typed("1.1"), envelope("1.1", op))
	for _, gone := range []string{"X-Hop", "Keep-Alive", "Trailer", "Proxy-Connection", "Proxy-Authenticate"} {
		if a.Fields.has(gone) {
			t.Errorf("%s reached the client: %q", gone, a.Fields.all(gone))
		}
	}
	for _, kept := range []string{"Content-Type", "Set-Cookie", "X-Multi", "X-Empty", "ETag", "Server"} {
		if g, w := a.Fields.all(kept), sent.all(kept); strings.Join(g, "; ") != strings.Join(w, "; ") || len(g) != len(w) {
			t.Errorf("%s: %q, the node sent %q", kept, g, w)
		}
	}
	if cl, te := a.Fields.all("Content-Length"), a.Fields.all("Transfer-Encoding"); len(cl)+len(te) != 1 {
		t.Errorf("framed by %q and %q", cl, te)
	}
}

// TestTrustedProxies: from a trusted peer forwarding fields are extended.
func TestTrustedProxies(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
trusted_proxies: ["127.0.0.0/8"]
routes:
  - {name: all, to: ["http://%s/"]}
`, b.addr), b)
	post(t, g.addr["http"], "/x", append(typed("1.1"), fields{{"X-Forwarded-For", "10.1.1.1"}, {"X-Forwarded-Proto", "https"}, {"Gateway-Attempt", "3"}}...), envelope("1.1", op))
	got := b.got()[0].Fields
	if xff := strings.ReplaceAll(strings.Join(got.all("X-Forwarded-For"), ","), " ", ""); xff != "10.1.1.1,127.0.0.1" {
		t.Errorf("X-Forwarded-For %q", xff)
	}
	if got.get("X-Forwarded-Proto") != "https" {
		t.Errorf("X-Forwarded-Proto %q", got.all("X-Forwarded-Proto"))
	}
	if got.get("Gateway-Attempt") != "3" {
		t.Errorf("a trusted caller's Gateway-Attempt became %q", got.all("Gateway-Attempt"))
	}
}

// TestHostClient: host: client keeps the caller's Host; headers: are added.
func TestHostClient(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
backends:
  b: {nodes: ["http://%s/"], host: client, headers: {Authorization: "Basic c2VjcmV0", X-From: gateway}}
routes: [{name: all, backend: b}]
`, b.addr), b)
	post(t, g.addr["http"], "/x", append(typed("1.1"), field{"Authorization", "Basic ZG9jazpkb2Nr"}), envelope("1.1", op))
	got := b.got()[0].Fields
	if got.get("Host") != "gw.depot.test" {
		t.Errorf("Host %q", got.all("Host"))
	}
	if auth := got.all("Authorization"); len(auth) != 1 || auth[0] != "Basic c2VjcmV0" || got.get("X-From") != "gateway" {
		t.Errorf("added fields: %q, %q", auth, got.all("X-From"))
	}
}
