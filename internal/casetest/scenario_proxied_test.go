package casetest

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// proxied is a header of the PROXY protocol, version 2: TCP over IPv4 from
// 198.51.100.7:4711 to 203.0.113.1:443, with a field behind them.
const proxied = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x10\xc6\x33\x64\x07\xcb\x00\x71\x01\x12\x67\x01\xbb\x04\x00\x01x"

// TestProxiedCallers: behind a proxy that speaks the PROXY protocol the caller is
// whom it tells, for nodes, networks and rates; a reload can stop trusting it.
func TestProxiedCallers(t *testing.T) {
	b := listenHTTP(t)
	config := preamble + `
listeners:
  - {name: fast, address: "127.0.0.1:0", proxy_protocol: true}
  - {name: std, address: "127.0.0.1:0", proxy_protocol: true, engine: std}
  - {name: frames, address: "127.0.0.1:0", proxy_protocol: true, protocol: framed, length: 4, route: near}
trusted_proxies: [127.0.0.0/8]
routes:
  - {name: depot, match: {path: /depot/*}, to: ["http://` + b.addr + `"]}
  - {name: near, match: {path: /near}, to: ["builtin:echo"], allow: [198.51.100.0/24]}
  - {name: far, match: {path: /far}, to: ["builtin:echo"], allow: [127.0.0.0/8]}
  - {name: rare, match: {path: /rare}, to: ["builtin:echo"], limits: {rate_per_client: 2/m}}
`
	g := start(t, config, b)
	msg := envelope("1.1", `<x/>`)
	call := func(listener, head, target string, f fields) *answer {
		t.Helper()
		return exchange(t, g.addr[listener], append([]byte(head), request(target, f, msg)...))
	}
	for _, listener := range []string{"fast", "std"} {
		b.reset()
		a := call(listener, proxied, "/depot/x", xml11("").with("X-Forwarded-For", "192.0.2.1").with("Gateway-Attempt", "9"))
		got := b.got()
		if a.Status != 200 || len(got) != 1 {
			t.Fatalf("%s: got %s", listener, a)
		}
		// The client is no trusted proxy, only who told of it is.
		if f := got[0].Fields; f.get("X-Forwarded-For") != "198.51.100.7" || f.has("Gateway-Attempt") || !strings.HasPrefix(f.get("Forwarded"), "for=198.51.100.7;") {
			t.Errorf("%s: the node got %s", listener, got[0].Raw)
		}
		for _, tt := range []struct {
			head, target string
			status       int
		}{
			{proxied, "/near", 200},
			{proxied, "/far", 403},
			{strings.Replace(proxied, "\x21", "\x20", 1), "/far", 200}, // LOCAL: the proxy itself
			{strings.Replace(proxied, "\x21", "\x20", 1), "/near", 403},
			{strings.Replace(proxied, "\x21\x11", "\x21\x00", 1), "/far", 403}, // of a family that the proxy does not know
			{proxied, "/.well-known/acme-challenge/x", 404},
		} {
			if a := call(listener, tt.head, tt.target, xml11("")); a.Status != tt.status {
				t.Errorf("%s: %s: got %s, want %d", listener, tt.target, a, tt.status)
			}
		}
		for _, head := range []string{"", "PROXY TCP4 198.51.100.7 203.0.113.1 4711 443\r\n", strings.Replace(proxied, "\x21", "\x31", 1)} {
			if a := call(listener, head, "/near", xml11("")); a.Err == nil {
				t.Errorf("%s: %q: got %s, want no answer", listener, head, a)
			}
		}
	}
	other := strings.Replace(proxied, "\xc6\x33\x64\x07", "\xc6\x33\x64\x08", 1)
	for i, tt := range []struct {
		head   string
		status int
	}{{proxied, 200}, {proxied, 200}, {proxied, 429}, {other, 200}} {
		if a := call("fast", tt.head, "/rare", xml11("")); a.Status != tt.status {
			t.Errorf("call %d of a route with a rate: got %s, want %d", i, a, tt.status)
		}
	}
	framed := dialFramed(t, g.addr["frames"], 4)
	framed.Write([]byte(proxied))
	if got := framed.call(msg); !bytes.Equal(got, msg) {
		t.Errorf("framed: got %q", got)
	}
	framed = dialFramed(t, g.addr["frames"], 4)
	framed.Write([]byte(strings.Replace(proxied, "\x21", "\x20", 1)))
	if got := framed.call(msg); !bytes.Contains(got, []byte(">NotAuthorised<")) {
		t.Errorf("framed, of the proxy itself: got %q", got)
	}

	if err := os.WriteFile(g.file, []byte(strings.Replace(config, "[127.0.0.0/8]\nroutes", "[192.0.2.0/24]\nroutes", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if !eventually(patience, func() bool { return call("fast", proxied, "/near", xml11("")).Err != nil }) {
		t.Error("after a reload that does not trust it the proxy is still listened to")
	}
	for _, want := range []string{"not from a trusted proxy", "a header of version 1"} {
		if !eventually(patience, func() bool { return strings.Contains(g.log.String(), want) }) {
			t.Errorf("%q is not in the log: %s", want, g.log)
		}
	}
}
