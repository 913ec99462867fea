package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// text is what the clients send where markup matters.
const text = "héllo <&> ]]> 测试"

// A client is a caller on one stack: argv is followed by the URL, the SOAP
// version and the operations; exception is what its library raises for a fault.
type client struct {
	name      string
	argv      []string
	exception string
	versions  []string
}

const depotBinary = ".build/gsoap/depot" // made by setup.sh

// Debian's python3 is named by its path, since zeep is installed for that one.
var clients = []client{
	{"zeep", []string{"/usr/bin/python3", "zeep/client.py"}, "zeep.exceptions.Fault", []string{"11", "12"}},
	{"php", []string{"php", "php/client.php"}, "SoapFault", []string{"11", "12"}},
	{"npm-soap", []string{"node", "node/client.js"}, "Error with root.Envelope.Body.Fault", []string{"11", "12"}},
	{"gsoap", []string{depotBinary, "call"}, "SOAP_FAULT", []string{"11", "12"}},
	{"soap-lite", []string{"perl", "perl/client.pl"}, "SOAP::SOM", []string{"11", "12"}},
	{"suds", []string{"/usr/bin/python3", "suds/client.py"}, "suds.WebFault", []string{"11"}},
	{"jaxws", java("depot.Client"), jaxwsFault, []string{"11", "12"}},
}

// A server answers SOAP 1.1 under /11 and SOAP 1.2 under /12.
type server struct {
	name string
	argv func(port string) []string
}

var servers = []server{
	{"php", func(port string) []string { return []string{"php", "-q", "-S", "127.0.0.1:" + port, "php/server.php"} }},
	{"npm-soap", func(port string) []string { return []string{"node", "node/server.js", port} }},
	{"gsoap", func(port string) []string { return []string{depotBinary, "serve", port, "depot.wsdl"} }},
	{"jaxws", func(port string) []string { return java("depot.Server", port) }},
}

var versions = []string{"11", "12"}

// A line is one line of a client's output.
type line map[string]any

// all are the operations that every pair runs.
var all = []string{"quote", "label", "bulk", "locate", "locate-nil", "refuse"}

// answers is what each operation must print, in the order of all. The fault's
// code also proves which version the client spoke.
func answers(c client, version string) []line {
	return []line{
		{"op": "quote", "cents": 42},
		{"op": "label", "text": text},
		{"op": "bulk", "octets": 40000 * len(text), "same": true},
		{"op": "locate", "shelf": 7, "note": "looked at top"},
		{"op": "locate-nil", "shelf": nil},
		{
			"op": "refuse", "exception": c.exception, "code": byVersion(version, "Client", "Sender"),
			"message": "refused & returned: " + text, "detail": "zone <9> is closed",
		},
	}
}

func byVersion(version, v11, v12 string) string {
	if version == "12" {
		return v12
	}
	return v11
}

// call runs a client and compares every line that it prints.
func call(t *testing.T, c client, url, version string, ops []string, want []line) {
	t.Helper()
	argv := append(append([]string{}, c.argv...), url, version)
	out, err := runCommand(append(argv, ops...)...)
	if err != nil {
		t.Errorf("%s %s %s: %v", c.name, url, version, err)
	}
	got := bytes.SplitAfter(out, []byte("\n"))
	got = got[:len(got)-1]
	if len(got) != len(want) {
		t.Errorf("%s %s %s printed %d lines, want %d:\n%s", c.name, url, version, len(got), len(want), out)
	}
	for i := range min(len(got), len(want)) {
		w, err := json.Marshal(want[i])
		if err != nil {
			t.Fatal(err)
		}
		if g := canonical(t, got[i]); g != string(w) {
			t.Errorf("%s %s %s: got %s, want %s", c.name, url, version, g, w)
		}
	}
}

// canonical prints a JSON object with sorted keys, as json.Marshal does.
func canonical(t *testing.T, b []byte) string {
	t.Helper()
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		t.Errorf("not a line of JSON: %q: %v", b, err)
		return ""
	}
	out, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// ways are the paths from client to server: without the gateway; through it over
// HTTP; through it twice, HTTP to framed and framed to HTTP; and through it to the
// same server in the version that the client does not speak.
var ways = []string{"direct", "gateway", "framed", "translated"}

// A matrix remembers which pairs passed.
type matrix map[string]bool

// runWay runs every pair on one way to the servers.
func (m matrix) runWay(t *testing.T, way string, url func(s server, version string) string) {
	for _, s := range servers {
		for _, v := range versions {
			for _, c := range clients {
				if !slices.Contains(c.versions, v) {
					continue
				}
				name := pairName(way, s, v, c)
				m[name] = t.Run(name, func(t *testing.T) { call(t, c, url(s, v), v, all, answers(c, v)) })
			}
		}
	}
}

// String prints a row for each way, server and version, a column for each client.
func (m matrix) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "way\tserver\tSOAP")
	for _, c := range clients {
		fmt.Fprintf(w, "\t%s", c.name)
	}
	fmt.Fprintln(w)
	for _, way := range ways {
		for _, s := range servers {
			for _, v := range versions {
				fmt.Fprintf(w, "%s\t%s\t%c.%c", way, s.name, v[0], v[1])
				for _, c := range clients {
					passed, ran := m[pairName(way, s, v, c)]
					switch {
					case !ran:
						fmt.Fprint(w, "\t-")
					case passed:
						fmt.Fprint(w, "\tok")
					default:
						fmt.Fprint(w, "\tFAILED")
					}
				}
				fmt.Fprintln(w)
			}
		}
	}
	w.Flush()
	return b.String()
}

func pairName(way string, s server, version string, c client) string {
	return way + "/" + s.name + "-" + version + "/" + c.name
}

func TestInterop(t *testing.T) {
	if os.Getenv("INTEROP") != "1" {
		t.Skip("needs the peers: bash interop/setup.sh, then INTEROP=1")
	}
	nodes := map[string]string{} // server → host:port
	for _, s := range servers {
		port := freePort(t)
		nodes[s.name] = "127.0.0.1:" + port
		startPeer(t, s.name, nodes[s.name], s.argv(port)...)
	}
	m := matrix{}
	defer func() { t.Logf("pairs:\n%s", m) }()
	m.runWay(t, "direct", func(s server, v string) string { return "http://" + nodes[s.name] + "/" + v })

	addresses := startGateway(t, pairsConfig(t, nodes))
	base := "http://" + addresses["http"]
	m.runWay(t, "gateway", func(s server, v string) string { return base + "/" + s.name + "/" + v })
	m.runWay(t, "framed", func(s server, v string) string { return base + "/framed/" + s.name + "/" + v })
	m.runWay(t, "translated", func(s server, v string) string { return base + "/translated/" + s.name + "/" + other(v) })
	t.Run("own-fault", func(t *testing.T) { testOwnFault(t, base) })
	t.Run("wsdl", func(t *testing.T) { testWSDL(t, base, nodes) })
	t.Run("unbound-reply", func(t *testing.T) { testUnboundReply(t, base, nodes["npm-soap"]) })
	t.Run("frames", func(t *testing.T) { testFrames(t, addresses) })
	t.Run("tls", func(t *testing.T) { testTLS(t, nodes["npm-soap"]) })
}

// pairsConfig has, for each server, a prefix route over HTTP, and for each
// version a framed listener with a route of its own and an HTTP route to it.
func pairsConfig(t *testing.T, nodes map[string]string) string {
	t.Helper()
	var listeners, routes strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&routes, "  - {name: %[1]s, match: {path: \"/%[1]s/*\"}, to: [\"http://%[2]s\"], wsdl: off}\n", s.name, nodes[s.name])
		for _, v := range versions {
			name, address := framedName(s, v), "127.0.0.1:"+freePort(t)
			fmt.Fprintf(&listeners, "  - {name: %[1]s, address: \"%[2]s\", protocol: framed, length: 4, route: %[1]s}\n", name, address)
			fmt.Fprintf(&routes, "  - {name: %s, match: none, to: [\"http://%s/%s\"]}\n", name, nodes[s.name], v)
			fmt.Fprintf(&routes, "  - {name: translated-%[1]s-%[2]s, match: {path: /translated/%[1]s/%[2]s}, to: [\"http://%[3]s/%[2]s\"], soap: {translate: %[4]c.%[5]c}}\n", s.name, v, nodes[s.name], v[0], v[1])
			fmt.Fprintf(&routes, "  - {name: to-%s, match: {path: /framed/%s/%s}, to: [\"framed://%s?length=4\"]}\n", name, s.name, v, address)
		}
	}
	return `admin: {address: "127.0.0.1:0"}
log: {level: info, format: text}
listeners:
  - {name: http, address: "127.0.0.1:0"}
` + listeners.String() + `routes:
` + routes.String() + `  - {name: nobody, match: {path: /nobody}, to: ["http://127.0.0.1:` + freePort(t) + `/"]}
`
}

func other(version string) string { return byVersion(version, "12", "11") }

func framedName(s server, version string) string { return "framed-" + s.name + "-" + version }

// testOwnFault: nobody listens behind the route, so the fault is the gateway's
// own, and it must be one for every client too.
func testOwnFault(t *testing.T, base string) {
	for _, c := range clients {
		for _, v := range c.versions {
			t.Run(c.name+"-"+v, func(t *testing.T) {
				argv := append(append([]string{}, c.argv...), base+"/nobody", v, "quote")
				out, err := runCommand(argv...)
				if err != nil {
					t.Fatal(err)
				}
				var l line
				if err := json.Unmarshal(out, &l); err != nil {
					t.Fatalf("not a line of JSON: %q: %v", out, err)
				}
				if m, _ := l["message"].(string); m == "" || strings.Contains(m, "127.0.0.1") {
					t.Errorf("message %q, want one without internals", m)
				}
				delete(l, "message") // free text
				got, err := json.Marshal(l)
				if err != nil {
					t.Fatal(err)
				}
				want, err := json.Marshal(line{
					"op": "quote", "exception": c.exception, "code": byVersion(v, "Server", "Receiver"), "detail": "BackendUnavailable",
				})
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s %s: got %s, want %s", c.name, v, got, want)
				}
			})
		}
	}
}

// testWSDL: with `wsdl: off` a description passes octet for octet, and the same
// octets are what the servers were given, or, for the one that makes its own, what
// it gives away by itself.
func testWSDL(t *testing.T, base string, nodes map[string]string) {
	want, err := os.ReadFile(filepath.FromSlash("depot.wsdl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		want := want
		for _, way := range [][2]string{
			{"direct", "http://" + nodes[s.name] + "/11?wsdl"},
			{"gateway", base + "/" + s.name + "/11?wsdl"},
		} {
			name, url := way[0], way[1]
			t.Run(s.name+"/"+name, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				if name == "direct" { // JAX-WS makes its addresses of what the gateway says too
					req.Header.Set("X-Forwarded-Host", strings.TrimPrefix(base, "http://"))
					req.Header.Set("X-Forwarded-Proto", "http")
				}
				c := http.Client{Timeout: patience}
				res, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				if s.name == "jaxws" && name == "direct" && bytes.Contains(got, []byte("Port11")) {
					want = got
				}
				if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Content-Type"), "xml") || !bytes.Equal(got, want) {
					t.Errorf("GET %s: got %s, %s, %d octets (same: %t), want 200, XML and the %d octets of depot.wsdl",
						url, res.Status, res.Header.Get("Content-Type"), len(got), bytes.Equal(got, want), len(want))
				}
			})
		}
	}
}

// testUnboundReply: npm soap's own nil uses the prefix xsi and declares it nowhere.
// Such a reply is not namespace-well-formed, so it ends at the gateway.
func testUnboundReply(t *testing.T, base, node string) {
	request := envelope(envelope11, "<Locate><parcel>P-3</parcel></Locate>")
	if status, body := post(t, "http://"+node+"/11", request); status != http.StatusOK ||
		!strings.Contains(body, "xsi:nil") || strings.Contains(body, "xmlns:xsi") {
		t.Errorf("npm soap answers %d, %s; want 200 and an unbound xsi", status, body)
	}
	status, body := post(t, base+"/npm-soap/11", request)
	if status != http.StatusInternalServerError || strings.Contains(body, "xsi:nil") || !strings.Contains(body, "BackendNotSOAP") {
		t.Errorf("the gateway answers %d, %s; want 500 and its fault BackendNotSOAP", status, body)
	}
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	c := http.Client{Timeout: patience}
	res, err := c.Post(url, "text/xml; charset=utf-8", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got)
}
