package casetest

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A fixture is the gateway that most cases and scenarios share, with the
// backends behind it. Tests use it one after the other.
type fixture struct {
	g              *gateway
	http           *backend // behind every HTTP route
	framed2        *backend
	framed4        *backend
	refused        string // an address on which nothing listens
	factRoutes     map[string]messageFacts
	factRouteOrder []string
}

// sharedFixture starts the fixture at its first use; TestMain stops it and
// reports what stop finds.
var sharedFixture = sync.OnceValues(func() (*fixture, error) {
	f := &fixture{factRoutes: map[string]messageFacts{}}
	for _, b := range []struct {
		at   **backend
		size int
	}{{&f.http, 0}, {&f.framed2, 2}, {&f.framed4, 4}} {
		var err error
		if *b.at, err = newBackend(b.size); err != nil {
			return nil, err
		}
		cleanups = append(cleanups, func() error { (*b.at).close(); return nil })
	}
	f.factRoutesOfCases()
	g, err := startGateway(filepath.Join(scratch), f.config())
	if err != nil {
		return nil, err
	}
	f.g = g
	cleanups = append(cleanups, func() error {
		for _, b := range []*backend{f.http, f.framed2, f.framed4} {
			b.close()
		}
		return g.stop()
	})
	return f, nil
})

// shared returns the fixture with clean backends.
func shared(t testing.TB) *fixture {
	t.Helper()
	f, err := sharedFixture()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*backend{f.http, f.framed2, f.framed4} {
		b.reset()
	}
	return f
}

// factRoutesOfCases makes a route for each message whose operation, action or
// version the cases state: the route demands just that.
func (f *fixture) factRoutesOfCases() {
	if casesDir() == "" {
		return
	}
	cases, err := loadCases()
	if err != nil {
		return // TestCases reports it
	}
	for _, c := range cases {
		if _, later := notYet[c.ID]; later {
			continue
		}
		for _, v := range append([]variant{{"", object{}}}, c.variants()...) {
			if m, ok := c.demandable(v); ok {
				name := strings.TrimSuffix("fact-"+c.ID+"-"+v.Name, "-")
				f.factRoutes[name] = m
				f.factRouteOrder = append(f.factRouteOrder, name)
			}
		}
	}
}

func (f *fixture) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: std, address: "127.0.0.1:0", engine: std}
  - {name: f2, address: "127.0.0.1:0", protocol: framed, length: 2, route: any}
  - {name: f4, address: "127.0.0.1:0", protocol: framed, length: 4, route: any}
  - {name: f4-echo, address: "127.0.0.1:0", protocol: framed, length: 4, route: echo}
  - {name: f2-f2, address: "127.0.0.1:0", protocol: framed, length: 2, route: to-f2}
  - {name: f4-f4, address: "127.0.0.1:0", protocol: framed, length: 4, route: to-f4}
  - {name: f4-f2, address: "127.0.0.1:0", protocol: framed, length: 4, route: to-f2}
  - {name: f2-f4, address: "127.0.0.1:0", protocol: framed, length: 2, route: to-f4}
  - {name: f4-dead, address: "127.0.0.1:0", protocol: framed, length: 4, route: dead}
backends:
  impatient: {nodes: ["http://%[2]s/depot"], timeout: 300ms}
routes:
`, preamble, f.http.addr)
	route := func(name, match, to, rest string) {
		fmt.Fprintf(&b, "  - {name: %s, match: %s, %s%s}\n", name, match, to, rest)
	}
	node := fmt.Sprintf(`to: ["http://%s/depot"]`, f.http.addr)
	route("depot", `{path: "/depot/*"}`, node, "")
	route("only12", `{path: "/only12/*"}`, node, ", soap: {accept: [1.2]}")
	route("node", `{path: "/node/*"}`, node, ", soap: {node: true}")
	route("envelope", `{path: "/envelope/*"}`, node, ", soap: {normalize: envelope}")
	route("towards", `{path: "/towards/*"}`, node, ", soap: {wsa_to: node}")
	route("as11", `{path: "/as11/*"}`, node, ", soap: {translate: 1.1}")
	route("as12", `{path: "/as12/*"}`, node, ", soap: {translate: 1.2}")
	route("strict", `{path: "/strict/*"}`, node, ", soap: {strict: true}")
	route("canonical", `{path: "/canonical/*"}`, node, ", soap: {normalize: canonical}")
	route("marked", `{path: "/marked/*"}`, node, ", soap: {mark: block}")
	route("twoway", `{path: "/twoway/*"}`, node, ", oneway: no")
	route("oneway", `{path: "/oneway/*"}`, node, ", oneway: yes")
	route("web", `{path: "/web/*"}`, node, ", methods: [GET, PUT, DELETE, HEAD, OPTIONS]")
	route("impatient", `{path: "/impatient/*"}`, "backend: impatient", "")
	route("small", `{path: "/small/*"}`, node, ", limits: {max_message: 4KiB}")
	route("deep", `{path: "/deep/*"}`, node, ", limits: {depth: 20000}")
	route("echo", `{path: /echo}`, `to: ["builtin:echo"]`, "")
	route("dead", `{path: /dead}`, fmt.Sprintf(`to: ["http://%s/depot"]`, f.deadAddr()), "")
	route("to-f2", `{path: /f2}`, fmt.Sprintf(`to: ["framed://%s"]`, f.framed2.addr), "")
	route("to-f4", `{path: /f4}`, fmt.Sprintf(`to: ["framed://%s?length=4"]`, f.framed4.addr), "")
	route("by-operation", `{path: /conditions, operation: "{urn:test:c}Known"}`, node, "")
	route("by-action", `{path: /conditions, action: "urn:test:c#act"}`, node, "")
	route("by-header", `{path: /conditions, headers: {X-Test: "yes"}}`, node, "")
	route("by-host", `{path: /conditions, host: other.depot.test}`, node, "")
	for _, name := range f.factRouteOrder {
		m := f.factRoutes[name]
		match := fmt.Sprintf("path: /facts/%s", name)
		if m.operation != "" {
			match += fmt.Sprintf(", operation: %q", m.operation)
		}
		if m.action != "" {
			match += fmt.Sprintf(", action: %q", m.action)
		}
		rest := ""
		if m.version != "" {
			rest = fmt.Sprintf(", soap: {accept: [%s]}", m.version)
		}
		route(name, "{"+match+"}", node, rest)
	}
	route("any", "none", node, "")
	return b.String()
}

// deadAddr is chosen once for the life of the fixture.
func (f *fixture) deadAddr() string {
	if f.refused == "" {
		ln, err := newBackend(0)
		if err == nil {
			f.refused = ln.addr
			ln.close()
		}
	}
	return f.refused
}

// startByAction runs a gateway whose one framed listener chooses the route by
// wsa:Action, and returns the listener's address. It stands apart because such
// a route has no path, so that every HTTP message might be meant for it.
func startByAction(t *testing.T) string {
	t.Helper()
	g := start(t, preamble+`
listeners: [{name: framed, address: "127.0.0.1:0", protocol: framed, length: 4}]
routes: [{name: scan, match: {action: "urn:depot:parcel#Scan"}, to: ["builtin:echo"]}]
`)
	return g.addr["framed"]
}
