package casetest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPaths is SPEC.md §3.1: nothing is decoded or cleaned, the query goes on
// octet for octet, a prefix ends at a segment border.
func TestPaths(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
routes:
  - {name: exact, match: {path: /exact}, to: ["http://%[1]s/node/service.asmx"]}
  - {name: prefix, match: {path: "/pre/*"}, to: ["http://%[1]s/base"]}
  - {name: slash, match: {path: "/sl/*"}, to: ["http://%[1]s/base/"]}
  - {name: root, match: {path: "/root/*"}, to: ["http://%[1]s"]}
  - {name: first, match: {path: "/two/a"}, to: ["http://%[1]s/first"]}
  - {name: second, match: {path: "/two/*"}, to: ["http://%[1]s/second"]}
  - {name: coded, match: {path: "/c%%C3%%A9"}, to: ["http://%[1]s/coded"]}
`, b.addr), b)
	for in, want := range map[string]string{
		"/exact":                      "/node/service.asmx",
		"/exact?a=b&c":                "/node/service.asmx?a=b&c",
		"/exact?":                     "/node/service.asmx?",
		"/exact?x=%2F%2f+%20;y=?/&&=": "/node/service.asmx?x=%2F%2f+%20;y=?/&&=",
		"/exact/":                     "",
		"/EXACT":                      "",
		"/exac":                       "",
		"/exact%20":                   "",
		"/pre/a":                      "/base/a",
		"/pre/a/b/":                   "/base/a/b/",
		"/pre/a%2Fb%2f/%41":           "/base/a%2Fb%2f/%41",
		"/pre/a//b":                   "/base/a//b",
		"/pre/":                       "/base/",
		"/pre/;v=1/a@b:c":             "/base/;v=1/a@b:c",
		"/pre/x?q=../..":              "/base/x?q=../..",
		"/prefix":                     "",
		"/pref/a":                     "",
		"/root/a?b":                   "/a?b",
		"/two/a":                      "/first",
		"/two/b":                      "/second/b",
		"/two/a/":                     "/second/a/",
		"/c%C3%A9":                    "/coded",
		"/c%c3%a9":                    "",
		"/":                           "",
		"/pre/a/../b":                 "400",
		"/pre/..":                     "400",
		"/../exact":                   "400",
		"/..":                         "400",
	} {
		b.reset()
		a := post(t, g.addr["http"], in, typed("1.1"), envelope("1.1", op))
		calls := b.got()
		switch {
		case want == "400":
			wantBare(t, a, 400)
		case want == "":
			wantBare(t, a, 404)
		case a.Status != 200 || len(calls) != 1 || calls[0].target() != want:
			t.Errorf("%s: %s; the node got %v, want %s", in, a.Line, targets(calls), want)
		}
		if (want == "" || want == "400") && len(calls) != 0 {
			t.Errorf("%s reached the node as %v", in, targets(calls))
		}
	}
	for in, want := range map[string]string{"/sl/a": "/base/a", "/sl/": "/base/"} {
		b.reset()
		post(t, g.addr["http"], in, typed("1.1"), envelope("1.1", op))
		if got := targets(b.got()); len(got) != 1 || got[0] != want && got[0] != strings.Replace(want, "/base/", "/base//", 1) {
			t.Errorf("%s: the node got %v", in, got)
		}
	}
	// absolute-form and an empty path
	b.reset()
	a := exchange(t, g.addr["http"], request("http://gw.depot.test/exact?z=1", typed("1.1"), envelope("1.1", op)))
	if got := targets(b.got()); a.Status != 200 || len(got) != 1 || got[0] != "/node/service.asmx?z=1" {
		t.Errorf("absolute-form: %s, %v", a, got)
	}
}

func targets(calls []*call) (out []string) {
	for _, c := range calls {
		out = append(out, c.target())
	}
	return out
}

// TestConditions: the first route whose conditions all hold wins.
func TestConditions(t *testing.T) {
	f := shared(t)
	known := `<k:Known xmlns:k="urn:test:c"/>`
	for _, c := range []struct {
		name  string
		extra fields
		inner string
		route string
	}{
		{"operation", nil, known, "by-operation"},
		{"operation under another prefix", nil, `<Known xmlns="urn:test:c"/>`, "by-operation"},
		{"same local name elsewhere", nil, `<k:Known xmlns:k="urn:test:d"/>`, ""},
		{"operation second", nil, `<a/>` + known, ""},
		{"no operation", nil, "", ""},
		{"action", fields{{"SOAPAction", `"urn:test:c#act"`}}, "<a/>", "by-action"},
		{"action unquoted", fields{{"SOAPAction", `urn:test:c#act`}}, "<a/>", "by-action"},
		{"action in another case", fields{{"SOAPAction", `"urn:test:c#Act"`}}, "<a/>", ""},
		{"header", fields{{"x-test", "yes"}}, "<a/>", "by-header"},
		{"header value", fields{{"X-Test", "no"}}, "<a/>", ""},
		{"list order", fields{{"X-Test", "yes"}, {"SOAPAction", `"urn:test:c#act"`}}, known, "by-operation"},
	} {
		f.http.reset()
		before := f.g.metricSum(t, "gateway_requests_total", `route="`+c.route+`"`)
		a := post(t, f.g.addr["http"], "/conditions", append(fields{{"Content-Type", "text/xml"}}, c.extra...), envelope("1.1", c.inner))
		if c.route == "" {
			wantBare(t, a, 404)
			if len(f.http.got()) != 0 {
				t.Errorf("%s: forwarded", c.name)
			}
			continue
		}
		if a.Status != 200 || f.g.metricSum(t, "gateway_requests_total", `route="`+c.route+`"`) != before+1 {
			t.Errorf("%s: route %s did not take it: %s", c.name, c.route, a)
		}
	}
	f.http.reset()
	msg := strings.Replace(string(request("/conditions", typed("1.1"), envelope("1.1", "<a/>"))), "gw.depot.test", "Other.Depot.test:8080", 1)
	if a := exchange(t, f.g.addr["http"], []byte(msg)); a.Status != 200 {
		t.Errorf("by host: %s", a)
	}
	// wsa:Action is an action too, and action as parameter in SOAP 1.2.
	wsa := `<e:Envelope xmlns:e="` + ns12 + `"><e:Header><w:Action xmlns:w="http://www.w3.org/2005/08/addressing">urn:test:c#act</w:Action></e:Header><e:Body><a/></e:Body></e:Envelope>`
	if a := post(t, f.g.addr["http"], "/conditions", xml12(), []byte(wsa)); a.Status != 200 {
		t.Errorf("by wsa:Action: %s", a)
	}
	if a := post(t, f.g.addr["http"], "/conditions", fields{{"Content-Type", `application/soap+xml; action="urn:test:c#act"`}}, envelope("1.2", "<a/>")); a.Status != 200 {
		t.Errorf("by action parameter: %s", a)
	}
}

// TestFailover: another node is tried only while nothing was sent.
func TestFailover(t *testing.T) {
	live, second := listenHTTP(t), listenHTTP(t)
	dead := refusedAddr(t)
	g := start(t, httpOnly+fmt.Sprintf(`
backends:
  refusing: {nodes: ["http://%[1]s/", "http://%[2]s/"], balance: round-robin}
  two: {nodes: ["http://%[2]s/", "http://%[3]s/"], balance: round-robin, timeout: 1s, outlier: {failures: 1000}}
routes:
  - {name: refusing, match: {path: /refusing}, backend: refusing}
  - {name: two, match: {path: /two}, backend: two}
`, dead, live.addr, second.addr), live, second)
	for i := range 20 {
		if a := post(t, g.addr["http"], "/refusing", typed("1.1"), envelope("1.1", op)); a.Status != 200 {
			t.Fatalf("request %d: %s", i, a)
		}
	}
	if n := len(live.got()); n != 20 {
		t.Errorf("the live node got %d of 20", n)
	}
	for _, c := range brokenReplies {
		live.reset()
		second.reset()
		live.do(c.script)
		second.do(c.script)
		wantFault(t, post(t, g.addr["http"], "/two", typed("1.1"), envelope("1.1", op)), "1.1", "Server", "")
		if n := len(live.got()) + len(second.got()); n != 1 {
			t.Errorf("backend %s: tried %d times although octets were sent", c.name, n)
		}
	}
	// A connection that is closed as soon as it is opened: octets may have
	// been written, so a second node may only be used if none was.
	live.reset()
	second.reset()
	live.take(func(p *peer) { p.resetConn() })
	second.take(func(p *peer) { p.resetConn() })
	a := post(t, g.addr["http"], "/two", typed("1.1"), envelope("1.1", op))
	wantFault(t, a, "1.1", "Server", "")
	if a.Took > 3*time.Second {
		t.Errorf("took %s", a.Took)
	}
	// Both answer: the load is shared.
	live.reset()
	second.reset()
	for range 20 {
		post(t, g.addr["http"], "/two", typed("1.1"), envelope("1.1", op))
	}
	if a, b := len(live.got()), len(second.got()); a+b != 20 || a < 8 || b < 8 {
		t.Errorf("round-robin gave %d and %d", a, b)
	}
}

// TestStaleConnections: the node closes idle connections, as every server
// does; no request may fail by that.
func TestStaleConnections(t *testing.T) {
	f := shared(t)
	for range 15 {
		if a := post(t, f.g.addr["http"], "/depot/x", typed("1.1"), envelope("1.1", op)); a.Status != 200 {
			t.Fatal(a)
		}
		f.http.mu.Lock()
		for c := range f.http.conns {
			c.Close()
		}
		f.http.mu.Unlock()
		pause(10 * time.Millisecond)
	}
	if n := len(f.http.got()); n != 15 {
		t.Errorf("%d requests at the node", n)
	}
}
