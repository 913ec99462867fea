package app

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"soapway/config"
	"soapway/proxy"
	"soapway/proxy/balance"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

func load(t *testing.T, yaml string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, yaml)
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestTableOptions: every key of a route that this version acts on arrives
// where the proxy reads it.
func TestTableOptions(t *testing.T) {
	cfg := load(t, `
listeners:
  - {address: "127.0.0.1:0"}
  - {address: "127.0.0.1:0", protocol: framed, route: third}
trusted_proxies: [10.0.0.0/8]
public_url: https://api.example
namespaces: {o: urn:o}
limits: {max_message: none, text: 1MiB}
backends:
  orders:
    nodes: ["http://127.0.0.1:1/a", "framed://127.0.0.1:2?length=4"]
    balance: round-robin
    host: client
    connect_timeout: 1s
    timeout: none
    headers: {Authorization: Basic x}
routes:
  - name: first
    match: {host: api.example, path: "/orders/*", action: urn:a, operation: "o:Place", headers: {X-Tenant: north}}
    backend: orders
    oneway: no
    wsdl: off
    soap: {accept: [1.2], normalize: envelope, node: true, translate: 1.1, strict: true, wsa_to: node, mark: block}
    limits: {depth: 7, buffer: 64KiB}
  - {name: second, match: {path: /second, operation: Any}, backend: orders, wsdl: off, soap: {translate: 1.2, normalize: canonical}}
  - {name: third, match: none, to: ["builtin:echo"], methods: [GET, POST], wsdl: off}
`)
	pools, problems := buildPools(cfg, nil, nil)
	if problems != nil {
		t.Fatal(problems)
	}
	got := tableOptions(cfg, pools, nil, nil)
	orders, echo := got.Routes[0].Backend, got.Routes[2].Backend
	if got.Routes[1].Backend != orders {
		t.Error("two routes of one backend do not share it")
	}
	limits := proxy.Limits{
		MaxMessage: -1, Buffer: 1 << 20, DecodeRatio: 200, HeaderBytes: 64 << 10,
		XML: xmlstream.Limits{Depth: 256, Attributes: 256, Namespaces: 256, Name: 1 << 10, AttributeValue: 64 << 10, Elements: 4194304, Text: 1 << 20},
	}
	own := limits
	own.XML.Depth, own.Buffer = 7, 64<<10
	want := proxy.TableOptions{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		PublicURL:      "https://api.example",
		Routes: []proxy.Route{
			{
				Name: "first",
				Match: proxy.Match{
					Host: "api.example", Path: "/orders/*", Action: "urn:a",
					Operation: soapcodec.QName{Space: "urn:o", Local: "Place"}, Headers: map[string]string{"X-Tenant": "north"},
				},
				Backend: orders, OneWay: proxy.OneWayNo, WSDLPass: true, Accept12: true,
				Normalize: soapcodec.Envelope, Node: true, Translate: soapcodec.V11, Strict: true, WSATo: true, Mark: true, Limits: own,
			},
			{
				Name: "second", Match: proxy.Match{Path: "/second", Operation: soapcodec.QName{Local: "Any"}, AnyNamespace: true},
				Backend: orders, WSDLPass: true, Accept11: true, Accept12: true,
				Normalize: soapcodec.Canonical, Translate: soapcodec.V12, Limits: limits,
			},
			{Name: "third", MatchNone: true, Backend: echo, Methods: []string{"GET"}, WSDLPass: true, Accept11: true, Accept12: true, Limits: limits},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{}), cmp.Comparer(func(a, b *proxy.Backend) bool { return a == b })); diff != "" {
		t.Errorf("tableOptions (-want +got):\n%s", diff)
	}
	if len(orders.Nodes) != 2 || orders.Name != "orders" || !orders.HostClient || orders.Connect != time.Second || orders.Answer != forever ||
		orders.Headers["Authorization"] != "Basic x" {
		t.Errorf("backend: got %+v", orders)
	}
	if _, ok := orders.Policy.(*balance.RoundRobin); !ok {
		t.Errorf("policy: got %T", orders.Policy)
	}
	if names := []string{orders.Nodes[0].Name(), orders.Nodes[1].Name()}; names[0] != "http://127.0.0.1:1/a" || names[1] != "framed://127.0.0.1:2?length=4" && names[1] != "framed://127.0.0.1:2" {
		t.Errorf("nodes: got %q", names)
	}
	if _, err := proxy.Compile(got); err != nil {
		t.Errorf("Compile: %v", err)
	}
}

// TestPoolsAreKept: which changes make a new pool, and which do not.
func TestPoolsAreKept(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	pem, err := os.ReadFile("testdata/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	yaml := func(timeout, path string) string {
		return `
listeners: [{address: "127.0.0.1:0"}]
backends:
  a: {nodes: ["https://127.0.0.1:1/"], timeout: ` + timeout + `, tls: {ca: ` + ca + `}}
  b: {nodes: ["http://127.0.0.1:2/"]}
routes:
  - {name: a, match: {path: ` + path + `}, backend: a}
  - {name: b, match: {path: /b}, backend: b}
  - {name: c, match: {path: /c}, to: ["http://127.0.0.1:3/"]}
`
	}
	build := func(yaml string, old pools) pools {
		t.Helper()
		p, problems := buildPools(load(t, yaml), old, nil)
		if problems != nil {
			t.Fatal(problems)
		}
		return p
	}
	kept := func(a, b pools) (names string) {
		for _, key := range []string{"backends.a", "backends.b", "routes.c.to"} {
			if a[key] == nil || b[key] == nil {
				t.Fatalf("no pool %s", key)
			}
			if a[key] == b[key] {
				names += key[len(key)-4:]
			}
		}
		return names
	}
	first := build(yaml("1s", "/a"), nil)
	if got, want := kept(first, build(yaml("1s", "/other"), first)), "ds.ads.bc.to"; got != want {
		t.Errorf("another route: kept %q, want %q", got, want)
	}
	if got, want := kept(first, build(yaml("2s", "/a"), first)), "ds.bc.to"; got != want {
		t.Errorf("another time-out: kept %q, want %q", got, want)
	}
	if err := os.WriteFile(ca, append(pem, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := kept(first, build(yaml("1s", "/a"), first)), "ds.bc.to"; got != want {
		t.Errorf("another certificate: kept %q, want %q", got, want)
	}
	second := build(yaml("2s", "/a"), first)
	if gone := first.without(second); len(gone) != 1 || gone[0] != first["backends.a"] {
		t.Errorf("without: got %d pools, want that of backend a", len(gone))
	}
}

// TestCheck: what only shows when parts are made is told with its place.
func TestCheck(t *testing.T) {
	if err := Check(load(t, echo)); err != nil {
		t.Errorf("Check of a good configuration: %v", err)
	}
	pem, err := os.ReadFile("testdata/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, `
listeners: [{address: "127.0.0.1:0"}]
backends:
  a:
    nodes: ["https://127.0.0.1:1/"]
    tls: {ca: `+ca+`}
routes: [{name: a, backend: a}]
`)
	if err := os.Remove(ca); err != nil { // after it was checked, before it is used
		t.Fatal(err)
	}
	err = Check(cfg)
	problems, ok := err.(config.Problems)
	if !ok || len(problems) != 1 || problems[0].Key != "backends.a.tls" || problems[0].Line != 6 {
		t.Errorf("Check: got %v, want a problem at backends.a.tls", err)
	}
}

// TestPlaces: an exchange with an HTTP node has a connection for itself, so it needs
// a place where either number is bounded.
func TestPlaces(t *testing.T) {
	http, framed := config.Node{URL: config.NodeURL{Scheme: config.NodeHTTPS}}, config.Node{URL: config.NodeURL{Scheme: config.NodeFramed}}
	for _, tt := range []struct {
		connections, concurrency config.Count
		nodes                    []config.Node
		want                     int
	}{
		{512, -1, []config.Node{http, http}, 512},
		{512, 20, []config.Node{http}, 20},
		{10, 20, []config.Node{framed, http}, 10},
		{10, 20, []config.Node{framed}, 20},
		{10, -1, []config.Node{framed}, unbounded},
		{-1, -1, []config.Node{http}, unbounded},
		{-1, 5, []config.Node{http}, 5},
	} {
		if got := placesOf(&config.Backend{MaxConnections: tt.connections, MaxConcurrency: tt.concurrency, Nodes: tt.nodes}); got != tt.want {
			t.Errorf("placesOf(%d connections, %d exchanges): got %d, want %d", tt.connections, tt.concurrency, got, tt.want)
		}
	}
}
