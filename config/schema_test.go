package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"soapway/internal/golden"
)

// schemaKeys lists every key of the types, as setKey.schema names them, with
// the type and field that it is.
func schemaKeys() map[string]string {
	keys := map[string]string{}
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		if isLeaf(t) {
			return
		}
		switch t.Kind() {
		case reflect.Pointer:
			walk(t.Elem(), path)
		case reflect.Slice:
			walk(t.Elem(), path+"[]")
		case reflect.Map:
			walk(t.Elem(), path+".*")
		case reflect.Struct:
			for _, f := range fieldsOf(t) {
				keys[joined(path, f.key)] = t.Name() + "." + f.key
				walk(f.typ, joined(path, f.key))
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return keys
}

// Every tag of every type is read: a wrong one panics.
func TestSchema(t *testing.T) {
	keys := schemaKeys()
	if n := len(keys); n < 200 {
		t.Errorf("schemaKeys: got %d, want all of them", n)
	}
	l, err := newLoader("gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Config](), reflect.TypeFor[Listener](), reflect.TypeFor[ServerTLS](), reflect.TypeFor[ACME](),
		reflect.TypeFor[Backend](), reflect.TypeFor[Node](), reflect.TypeFor[Health](), reflect.TypeFor[ClientTLS](),
		reflect.TypeFor[Route](), reflect.TypeFor[Dedup](), reflect.TypeFor[Auth](), reflect.TypeFor[Shadow](),
		reflect.TypeFor[Quota](), reflect.TypeFor[Sites](), reflect.TypeFor[Link](), reflect.TypeFor[SiteAccept](),
	} {
		l.setDefaults(reflect.New(typ).Elem())
	}
}

// The case bad-notyet is a file with every key of CONFIG.md. All of them are
// known and take the value that is written there; what is wrong with the file
// is only what is not built yet.
func TestEveryKey(t *testing.T) {
	c := golden.Glob(t, "testdata/bad-notyet.txtar")[0]
	dir := t.TempDir()
	putCaseFiles(t, c, dir)
	l, err := newLoader(filepath.Join(dir, "gateway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	l.run(c.File("gateway.yaml"), Options{})
	for _, p := range l.problems {
		if p.Message != "not available yet" {
			t.Errorf("got %v, want nothing but what is not available yet", p)
		}
	}
	keys := schemaKeys()
	set := map[string]bool{
		"Store.dir":     true, // excludes store.url
		"Route.timeout": true, // excludes routes[].backend
	}
	for _, k := range l.set {
		set[keys[k.schema]] = true
	}
	for path, key := range keys {
		if !set[key] {
			t.Errorf("the file does not have the key %s", path)
		}
	}
}

// notYet names keys that exist, each once.
func TestNotYetKeys(t *testing.T) {
	keys := schemaKeys()
	for i, u := range notYet {
		if keys[u.schema] == "" {
			t.Errorf("notYet: there is no key %s", u.schema)
		}
		if u.instead == "" {
			t.Errorf("notYet: %s does not say what works", u.schema)
		}
		if found, exact := findUnbuilt(u.schema); found != &notYet[i] || !exact {
			t.Errorf("notYet: %s is covered by %s", u.schema, found.schema)
		}
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"address", "protocol", "timeouts", "max_connections", "http", "https"}
	for _, tt := range []struct{ word, want string }{
		{"adress", "address"},
		{"ADDRESS", "address"},
		{"addresss", "address"},
		{"adderss", "address"},
		{"timeout", "timeouts"},
		{"maxconnections", "max_connections"},
		{"htps", "https"},
		{"htp", "http"},
		{"", ""},
		{"zebra", ""},
		{"x", ""},
		{strings.Repeat("a", 10000), ""},
	} {
		if got := nearest(tt.word, candidates); got != tt.want {
			t.Errorf("nearest(%.20q): got %q, want %q", tt.word, got, tt.want)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"abc", "", 3}, {"kitten", "sitting", 3}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// The table of variables covers each scalar once, by its path.
func TestVariables(t *testing.T) {
	cfg, err := LoadBytes("gateway.yaml", []byte(`
listeners: [{name: my-web, address: "127.0.0.1:0"}, {address: "127.0.0.1:0", protocol: framed}]
namespaces: {o: "urn:o"}
backends: {Orders: {nodes: ["http://h"], headers: {X-Own: a}}}
routes: [{name: orders, to: [builtin:echo]}]
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for _, v := range cfg.Variables() {
		if vars[v.Name] != "" {
			t.Errorf("%s stands twice", v.Name)
		}
		vars[v.Name] = v.Key
	}
	for name, key := range map[string]string{
		"GATEWAY_STORE_DIR":                           "store.dir",
		"GATEWAY_ROUTES_ORDERS_TIMEOUT":               "routes.orders.timeout",
		"GATEWAY_LISTENERS_MY_WEB_ADDRESS":            "listeners.my-web.address",
		"GATEWAY_LISTENERS_MY_WEB_TIMEOUTS_BODY_IDLE": "listeners.my-web.timeouts.body_idle",
		"GATEWAY_LISTENERS_FRAMED_2_LENGTH":           "listeners.framed-2.length",
		"GATEWAY_BACKENDS_ORDERS_NODES":               "backends.Orders.nodes",
		"GATEWAY_BACKENDS_ORDERS_HEADERS_X_OWN":       "backends.Orders.headers.X-Own",
		"GATEWAY_BACKENDS_ORDERS_TLS_CA":              "backends.Orders.tls.ca",
		"GATEWAY_BACKENDS_ORDERS_HEALTH":              "backends.Orders.health",
		"GATEWAY_BACKENDS_ORDERS_HEALTH_INTERVAL":     "backends.Orders.health.interval",
		"GATEWAY_ROUTES_ORDERS_LIMITS_DEPTH":          "routes.orders.limits.depth",
		"GATEWAY_ROUTES_ORDERS_SOAP_ACCEPT":           "routes.orders.soap.accept",
		"GATEWAY_NAMESPACES_O":                        "namespaces.o",
		"GATEWAY_ADMIN_TOKEN":                         "admin.token",
		"GATEWAY_DRAIN":                               "drain",
	} {
		if vars[name] != key {
			t.Errorf("%s: got %q, want %q", name, vars[name], key)
		}
	}
	for _, name := range []string{"GATEWAY_ROUTES_ORDERS_NAME", "GATEWAY_ROUTES", "GATEWAY_LIMITS"} {
		if key, ok := vars[name]; ok {
			t.Errorf("%s is there, for %s", name, key)
		}
	}
}

// Every key can be set by its variable: what it takes is decoded as in a file.
func TestEveryVariable(t *testing.T) {
	const file = `
listeners: [{name: web, address: "127.0.0.1:0"}]
backends: {b: {nodes: ["http://h"]}}
routes: [{name: r, to: [builtin:echo]}]
`
	cfg, err := LoadBytes("gateway.yaml", []byte(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range cfg.Variables() {
		const nonsense = "\x01nonsense, ${X} \n"
		l, err := newLoader("gateway.yaml")
		if err != nil {
			t.Fatal(err)
		}
		l.run([]byte(file), Options{Env: []string{v.Name + "=" + nonsense}})
		if !l.isSet(v.Key) {
			t.Errorf("%s did not set %s", v.Name, v.Key)
		}
		at := "environment: " + v.Name
		for _, p := range l.problems {
			// A pair of keys may be named at the other one.
			if p.Source != at && p.Source != "" {
				t.Errorf("%s: got %v, want a problem of %s", v.Name, p, at)
			}
		}
	}
}

func TestSet(t *testing.T) {
	const file = "listeners: [{name: web, address: \"127.0.0.1:0\"}]\ndrain: 1s\n"
	cfg, err := LoadBytes("f", []byte(file), Options{
		Env: []string{"GATEWAY_DRAIN=2s", "GATEWAY_LOG_LEVEL=warn", "GATEWAY_LISTENERS_WEB_ADDRESS=127.0.0.1:5"},
		Set: map[string]string{"drain": "3s", "listeners.web.address": "127.0.0.1:6"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(cfg.Drain, " ", cfg.Log.Level, " ", cfg.Listeners[0].Address); got != "3s warn 127.0.0.1:6" {
		t.Errorf("flag over environment over file over default: got %s", got)
	}
	_, err = LoadBytes("f", []byte(file), Options{Set: map[string]string{"drain": "x", "drian": "1s"}})
	want := "option: drain: drain: \"x\" is not a duration (write a number with a unit: ms, s, m, h or d, such as 30s or 1d12h)\n" +
		"option: drian: drian: there is no such key"
	if err == nil || err.Error() != want {
		t.Errorf("bad options: got\n%v\nwant\n%s", err, want)
	}
}
