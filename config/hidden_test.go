package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// secretValues are values with something in them that must not be seen: right
// and wrong ones for every type of key.
var secretValues = []string{
	"hunter2", "HUNTER2", " hunter2", "hunter2 ", "hunter2\n", "", "-",
	"hunter2:80", ":hunter2", "127.0.0.1:hunter2", "hunter2:0", "127.0.0.1:57271", "57271", "[::1]:hunter2", "hunter2:x:y",
	"http://hunter2", "http://hunter2/", "http://h:hunter2/", "http://h:57271/", "http://h:957271/", "http://h/hunter2?q", "http://h/hunter2#q", "http://h/hunter2/..",
	"http://h/hunter2\x7f", "http://u:hunter2@h/", "http://u:hunter2/x@h/", "http://u:hunter2", "u:hunter2@h", "http:///hunter2", "http://hünter2hunter2/",
	"https://hunter2", "https://u:hunter2@h", "htps://u:hunter2@h", "https://h/?hunter2", "https://h:hunter2/", "hunter2://h", "htp://hunter2", "h/hunter2", "h:80/hunter2",
	"framed://h:hunter2", "framed://hunter2", "framed://h:1/hunter2", "framed://h:1?length=hunter2", "framed+tls://hunter2:1", "builtin:hunter2", "builtin:echo2",
	"site:hunter2", "site:hunter2/HUNTER2", "site:hunter2/r",
	"hunter2/", "/hunter2/*/x", "/hunter2/../x", "/hunter2/%zz", "/hunter2", "/hunter2/*", "/hunter2 x", "/_gateway/hunter2", "hunter2/x",
	"file:", "file:hunter2", "file:/dev/null/hunter2", "file:/dev/null",
	"57271", "-57271", "57271.5", "0", "none", "957271957271957271957271", "57271s", "57271x", "-57271s", "57271kib", "57271m", "57271QQ", "0.57271B", "57271MiB", "0s", "0B",
	"57271/s", "57271/x", "-57271/s", "0/s", "57271/m",
	"10.57.27.1/8", "10.57.27.1", "10.57.27.1/8/hunter2", "fe80::57:271%hunter2",
	"hunter2:local", "p:hunter2", "{hunter2", "{hunter2}x", "{hunter2}", "o:hunter2/x",
	"header:hunter2:x", "header:", "http:hunter2 x", "http:hunter2", "body:/hunter2/q:x", "body:/hunter2", "body:/o:hunter2", "cookie:hunter2", "cookie:hunter2 x", "hunter2:x",
	"strictt", "keepp", "hunter3", "Get", "CONNECT", "sinc", "truee", "true", "http", "framed", "queue",
}

// secretMarks are what is looked for.
var secretMarks = []string{"hunter2", "hünter2", "57271", "10.57.27", "fe80::57:271", "did you mean", "hunter3"}

// assign puts value at a key of the schema, making what it needs on the way.
func assign(in map[string]any, schema string, value any) {
	part, rest, more := strings.Cut(schema, ".")
	name, isList := strings.CutSuffix(part, "[]")
	if name == "*" {
		name = "b"
	}
	switch {
	case !more && isList:
		in[name] = []any{value}
	case !more:
		in[name] = value
	case isList:
		if in[name] == nil {
			in[name] = []any{map[string]any{}}
		}
		if item, ok := in[name].([]any)[0].(map[string]any); ok {
			assign(item, rest, value)
		} else {
			in[name] = []any{map[string]any{}}
			assign(in[name].([]any)[0].(map[string]any), rest, value)
		}
	default:
		if _, ok := in[name].(map[string]any); !ok {
			in[name] = map[string]any{}
		}
		assign(in[name].(map[string]any), rest, value)
	}
}

// scalarKeys are the schema names of everything that may be written as a
// scalar, with what its type and rules are.
func scalarKeys() map[string]string {
	keys := map[string]string{}
	var walk func(t reflect.Type, path string, r rules)
	walk = func(t reflect.Type, path string, r rules) {
		if path != "" {
			keys[path] = fmt.Sprint(t, r)
		}
		switch {
		case isLeaf(t):
		case t.Kind() == reflect.Pointer:
			walk(t.Elem(), path, r)
		case t.Kind() == reflect.Slice:
			walk(t.Elem(), path+"[]", r)
		case t.Kind() == reflect.Map:
			walk(t.Elem(), joined(path, "*"), r)
		case t.Kind() == reflect.Struct:
			for _, f := range fieldsOf(t) {
				walk(f.typ, joined(path, f.key), f.rules)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", rules{})
	return keys
}

// leaked returns everything of a load that a person or a log may see.
func leaked(t *testing.T, file string, env ...string) string {
	t.Helper()
	cfg, err := LoadBytes("gateway.yaml", []byte(file), Options{Env: env})
	if err == nil {
		return string(cfg.Redacted())
	}
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("LoadBytes: %v", err)
	}
	asJSON, err := json.Marshal(problems)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, p := range problems {
		slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})).Info("refused", "problem", p)
	}
	return problems.Error() + "\n" + string(asJSON) + "\n" + log.String()
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// checkLeak fails the test if something marked is seen.
func checkLeak(t *testing.T, what, seen string) (leaks bool) {
	t.Helper()
	for _, mark := range secretMarks {
		if i := strings.Index(strings.ToLower(seen), mark); i >= 0 {
			t.Errorf("%s: shows %q: …%s…", what, mark, seen[max(0, i-200):min(len(seen), i+100)])
			return true
		}
	}
	return false
}

// Whatever a variable of the file holds and wherever it stands, nothing shows
// it: no problem, no hint made of it, no printed configuration.
func TestVariablesAreNotShown(t *testing.T) {
	keys, seen := scalarKeys(), map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		// Of the keys that are read alike one gets every value; strings all do,
		// since what they are for is checked later.
		values := secretValues
		if kind := keys[key]; seen[kind] && !strings.HasPrefix(kind, "string") {
			values = values[:8]
		} else {
			seen[kind] = true
		}
		forms := []any{"${S}"}
		if keys[key+"[]"] != "" {
			forms = append(forms, []any{"${S}", "${S}"})
		}
		for _, form := range forms {
			in := map[string]any{}
			assign(in, "listeners[].address", "127.0.0.1:0")
			assign(in, "namespaces", map[string]any{"o": "urn:o"})
			assign(in, "backends.b.nodes", []any{"http://h:1"})
			assign(in, "routes[].name", "r")
			assign(in, "routes[].backend", "b")
			assign(in, key, form)
			file, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range values {
				if checkLeak(t, key+" = "+value, leaked(t, string(file), "S="+value)) {
					break
				}
			}
		}
	}
}

// Nor does what is wrong between keys.
func TestVariablesAreNotShownBetweenKeys(t *testing.T) {
	for name, tt := range map[string]struct{ value, file string }{
		"two listeners of one address": {"127.0.0.1:57271", `
listeners: [{address: "${S}"}, {address: "${S}"}]`},
		"a listener and admin": {"127.0.0.1:57271", `
listeners: [{address: "127.0.0.1:57271"}]
admin: {address: "${S}"}`},
		"admin and a listener": {"127.0.0.1:57271", `
listeners: [{name: web, address: "${S}"}]
admin: {address: "127.0.0.1:57271"}`},
		"admin off loopback": {"10.0.0.1:57271", `
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "${S}"}`},
		"the name of a route with other problems": {"hunter2", `
listeners: [{address: "127.0.0.1:0"}]
routes: [{name: "${S}", to: [builtin:echo], limits: {depth: x}}, {name: "${S}", to: [builtin:echo]}]`},
		"the name of a route that another one hides": {"hunter2", `
listeners: [{address: "127.0.0.1:0"}]
routes: [{name: "${S}", to: [builtin:echo]}, {name: other, to: [builtin:echo]}]`},
		"the name of a listener": {"hunter2", `
listeners: [{name: "${S}", address: "127.0.0.1:0", route: nothing}, {name: "${S}", address: x}]`},
		"a route that a listener names": {"hunter2", `
listeners: [{address: "127.0.0.1:0", protocol: framed, route: hunter}]
routes: [{name: "${S}", to: [builtin:echo]}]`},
		"a variable near to one": {"hunter2", `
listeners: [{address: "127.0.0.1:0"}]
routes: [{name: "${S}", to: [builtin:echo], match: {path: /x}}]`},
		"a node that stands twice": {"http://hunter2/", `
listeners: [{address: "127.0.0.1:0"}]
routes: [{name: r, to: ["${S}", {url: "${S}"}]}]`},
		"a name that a backend has": {"hunter2", `
listeners: [{address: "127.0.0.1:0"}]
backends: {hunter2: {nodes: ["http://h"]}}
routes: [{name: "${S}", to: [builtin:echo]}]`},
		"a buffer": {"57271MiB", `
listeners: [{address: "127.0.0.1:0"}]
limits: {buffer: "${S}", max_message: 1B}`},
		"a limit that routes inherit": {"57271B", `
listeners: [{address: "127.0.0.1:0"}]
routes: [{name: r, to: [builtin:echo]}]
limits: {max_message: "${S}"}`},
		"a namespace": {"urn:hunter2", `
listeners: [{address: "127.0.0.1:0"}]
namespaces: {p: "${S}"}
routes: [{name: r, match: {operation: "p:x"}, to: [builtin:echo]}]`},
		"a certificate": {"/dev/null/hunter2", `
listeners: [{address: "127.0.0.1:0"}]
backends: {b: {nodes: ["https://h"], tls: {ca: "${S}", certificate: "${S}", key: /dev/null}}}`},
		"a listener's certificate": {"/dev/null/hunter2", `
listeners: [{address: "127.0.0.1:0", tls: {certificate: "${S}", key: /dev/null, client_ca: "${S}"}}]
routes: [{name: r, to: [builtin:echo]}]`},
		"a key": {"/dev/null/hunter2", `
listeners: [{address: "127.0.0.1:0"}]
backends: {b: {nodes: ["https://h"], tls: {certificate: testdata/../hidden_test.go, key: "${S}"}}}`},
	} {
		checkLeak(t, name, leaked(t, tt.file, "S="+tt.value, "GATEWAY_ROUTES_HUNTERS_BACKEN=x"))
	}
}

// What was written as a variable is still told as that, and what a variable
// of our own sets in its place is told as it is.
func TestVariablesAreNamed(t *testing.T) {
	const file = `
listeners: [{address: "127.0.0.1:0"}]
routes: [{name: r, to: ["${S}"]}]
drain: "${S}"`
	got := leaked(t, file, "S=57271")
	for _, want := range []string{
		`gateway.yaml:3:25: routes.r.to[0]: "${S}" is not a node`,
		`gateway.yaml:4:8: drain: "${S}" is not a duration (write a number with a unit`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	got = leaked(t, file, "S=57271", "GATEWAY_DRAIN=12")
	if want := `drain: "12" is not a duration (add a unit, such as 12s)`; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
}
