package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withWSDL are the clients that can take addresses from a WSDL that they fetch,
// and the versions for which they choose the right port of two.
var withWSDL = map[string][]string{"zeep": {"11", "12"}, "php": {"11"}, "npm-soap": {"11", "12"}, "jaxws": {"11", "12"}}

// TestWSDL: clients that know nothing but the gateway's ?wsdl call every operation
// of every server, and can still start when the server is gone.
func TestWSDL(t *testing.T) {
	if os.Getenv("INTEROP") != "1" {
		t.Skip("needs the peers: bash interop/setup.sh, then INTEROP=1")
	}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			port := freePort(t)
			node := "127.0.0.1:" + port
			base := "http://" + startGateway(t, fmt.Sprintf(`admin: {address: "127.0.0.1:0"}
listeners: [{name: http, address: "127.0.0.1:0"}]
store: {dir: %q, durability: relaxed}
routes: [{name: depot, match: {path: "/depot/*"}, to: ["http://%s"]}]
`, t.TempDir(), node))["http"] + "/depot/"
			url := func(version string) string { return base + version + "?wsdl" }

			file := filepath.Join(t.TempDir(), "depot.wsdl")
			doc, err := os.ReadFile("depot.wsdl")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(doc), "http://depot.invalid/", "http://"+node+"/")), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Run("up", func(t *testing.T) {
				argv := s.argv(port)
				if i := slices.Index(argv, "depot.wsdl"); i >= 0 {
					argv[i] = file
				}
				startPeer(t, s.name, node, append([]string{"env", "DEPOT_WSDL=" + file}, argv...)...)
				for _, c := range clients {
					for _, v := range withWSDL[c.name] {
						t.Run(c.name+"-"+v, func(t *testing.T) { call(t, fetching(c, url(v)), "-", v, all, answers(c, v)) })
					}
				}
				t.Run("wsdl2h", func(t *testing.T) { wsdl2h(t, url("11")) })
				// All in one document, which none of the servers has.
				for _, c := range clients {
					if v := "12"; slices.Contains(withWSDL[c.name], v) {
						t.Run("single-"+c.name, func(t *testing.T) { call(t, fetching(c, base+v+"?singleWsdl"), "-", v, all, answers(c, v)) })
					}
				}
				t.Run("single-wsdl2h", func(t *testing.T) { wsdl2h(t, base+"11?singleWsdl") })
			})
			t.Run("down", func(t *testing.T) {
				for _, c := range clients {
					for _, v := range withWSDL[c.name] {
						t.Run(c.name+"-"+v, func(t *testing.T) { startsAnyway(t, fetching(c, url(v)), v) })
					}
				}
				t.Run("wsdl2h", func(t *testing.T) { wsdl2h(t, url("11")) })
			})
		})
	}
}

// fetching is a client that takes everything from a WSDL.
func fetching(c client, wsdl string) client {
	c.argv = append([]string{"env", "DEPOT_WSDL=" + wsdl}, c.argv...)
	return c
}

// startsAnyway: the client loads the WSDL, and its call gets a fault.
func startsAnyway(t *testing.T, c client, version string) {
	t.Helper()
	out, err := runCommand(append(append([]string{}, c.argv...), "-", version, "quote")...)
	if err != nil {
		t.Fatal(err)
	}
	var l line
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatalf("not a line of JSON: %q: %v", out, err)
	}
	if l["exception"] != c.exception || l["code"] != byVersion(version, "Server", "Receiver") || l["detail"] != "BackendUnavailable" {
		t.Errorf("got %s", out)
	}
}

// wsdl2h: gSOAP makes a header of the WSDL.
func wsdl2h(t *testing.T, url string) {
	t.Helper()
	header := filepath.Join(t.TempDir(), "depot.h")
	if out, err := runCommand("wsdl2h", "-c", "-s", "-o", header, url); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Quote", "Label", "Locate", "Refuse"} {
		if !strings.Contains(string(b), name) {
			t.Errorf("the header has no operation %s", name)
		}
	}
}

// TestEcho: zeep needs nothing but the WSDL of the built-in echo service.
func TestEcho(t *testing.T) {
	if os.Getenv("INTEROP") != "1" {
		t.Skip("needs the peers: bash interop/setup.sh, then INTEROP=1")
	}
	base := "http://" + startGateway(t, `admin: {address: "127.0.0.1:0"}
listeners: [{name: http, address: "127.0.0.1:0"}]
routes: [{name: echo, match: {path: /echo}, to: ["builtin:echo"]}]
`)["http"]
	for _, query := range []string{"?wsdl", "?singleWsdl"} {
		out, err := runCommand("/usr/bin/python3", "zeep/echo.py", base+"/echo"+query)
		if err != nil || string(out) != "Echo11 True\nEcho12 True\n" {
			t.Errorf("%s: got %q, %v", query, out, err)
		}
	}
}
