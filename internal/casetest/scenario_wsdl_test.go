package casetest

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// orderWSDL has two operations whose elements have other names; the second has no
// output. Its schema is another document, at types.
func orderWSDL(address, types string) []byte {
	return fmt.Appendf(nil, `<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" targetNamespace="urn:orders" xmlns:t="urn:orders" xmlns:m="urn:messages">
<w:types><x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"><x:import namespace="urn:messages" schemaLocation=%[2]q/></x:schema></w:types>
<w:message name="P"><w:part name="p" element="m:OrderRequest"/></w:message><w:message name="N"><w:part name="p" element="m:Notice"/></w:message>
<w:portType name="T"><w:operation name="PlaceOrder"><w:input message="t:P"/><w:output message="t:P"/></w:operation>
<w:operation name="Tell"><w:input message="t:N"/></w:operation></w:portType>
<w:binding name="B" type="t:T"><s:binding/><w:operation name="PlaceOrder"/><w:operation name="Tell"/></w:binding>
<w:service name="S"><w:port name="P" binding="t:B"><s:address location=%[1]q/></w:port></w:service></w:definitions>`, address, types)
}

const orderTypes = `<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:messages"><x:element name="OrderRequest" type="x:string"/><x:element name="Notice" type="x:string"/></x:schema>`

// serveOrders answers for the description and for messages.
func (b *backend) serveOrders(message []byte) {
	b.do(func(p *peer, c *call) {
		xml := fields{{"Content-Type", "text/xml; charset=utf-8"}}
		switch {
		case c.method() == http.MethodPost:
			_, _ = p.Write(message)
		case strings.HasSuffix(c.target(), "?wsdl"):
			_, _ = p.Write(response(200, xml, orderWSDL("http://"+b.addr+"/in", "/in?xsd=1")))
		case strings.HasSuffix(c.target(), "?xsd=1"):
			_, _ = p.Write(response(200, xml, []byte(orderTypes)))
		default:
			_, _ = p.Write(response(404, nil, nil))
		}
	})
}

func order(element string) []byte {
	return envelope("1.1", fmt.Sprintf(`<m:%s xmlns:m="urn:messages">7</m:%[1]s>`, element))
}

// TestWSDLOperations: match.operation takes the name that the WSDL gives to an
// operation, metrics and log have it, one-way operations need no envelope as an
// answer, and all that outlives the backend and a restart (SPEC.md §3).
func TestWSDLOperations(t *testing.T) {
	b, rest := listenHTTP(t), listenHTTP(t)
	b.serveOrders(response(200, fields{{"Content-Type", "text/html"}}, []byte("<p>thanks")))
	config := queueConfig(
		fmt.Sprintf(`{name: tell, match: {path: /in, operation: "{urn:orders}Tell"}, to: ["http://%s/in"], delivery: queue, %s}`, b.addr, quick),
		fmt.Sprintf(`{name: place, match: {path: /in, operation: "{urn:orders}PlaceOrder"}, to: ["http://%s/in"]}`, b.addr),
		fmt.Sprintf(`{name: orders, match: {path: /in}, to: ["http://%s/other"]}`, rest.addr),
	)
	g := start(t, config, b, rest)
	if !eventually(patience, func() bool { return post(t, g.addr["http"], "/in", xml11("urn:x"), order("Notice")).Status == 202 }) {
		t.Fatal("the route for the operation Tell does not get its messages")
	}
	if !eventually(patience, func() bool { return g.waiting(t) == 0 }) {
		t.Errorf("%d messages wait, though a one-way operation needs no envelope as its answer", g.waiting(t))
	}
	if a := post(t, g.addr["http"], "/in", xml11("urn:x"), order("OrderRequest")); a.Status != 500 || !bytes.Contains(a.Body, []byte("BackendNotSOAP")) {
		t.Errorf("the answer to a two-way operation that is a web page: %s", a)
	}
	if a := post(t, g.addr["http"], "/in", xml11("urn:x"), envelope("1.1", "")); a.Status != 200 {
		t.Errorf("a message without an operation: %s, want the answer of the last route", a)
	}
	for _, series := range []string{
		`gateway_requests_total{operation="Tell",outcome="stored",route="tell"}`,
		`gateway_requests_total{operation="PlaceOrder",outcome="failed",route="place"}`,
	} {
		if !eventually(patience, func() bool { n, err := g.metric(series); return err == nil && n >= 1 }) {
			t.Errorf("no %s", series)
		}
	}
	if log := g.log.String(); !strings.Contains(log, `"operation":"PlaceOrder"`) {
		t.Errorf("the log does not tell the operation of the exchange that failed: %s", tail(log))
	}

	// The document is read from the store, whatever becomes of the backend.
	term(t, g)
	b.close()
	g = startAgain(t, g, config, rest)
	if a := post(t, g.addr["http"], "/in", xml11("urn:x"), order("Notice")); a.Status != 202 {
		t.Errorf("after a restart while the backend is down: %s", a)
	}
}

// TestSingleWSDL: the backend does not know this query, so the gateway puts the
// documents together.
func TestSingleWSDL(t *testing.T) {
	b := listenHTTP(t)
	b.serveOrders(nil)
	g := start(t, httpOnly+fmt.Sprintf("routes: [{name: in, match: {path: /orders}, to: [\"http://%s/in\"]}]\n", b.addr), b)
	want := bytes.Replace(orderWSDL("http://"+g.addr["http"]+"/orders", "-"), []byte(` schemaLocation="-"`), nil, 1)
	want = bytes.Replace(want, []byte("</w:types>"), []byte("\n"+orderTypes+"</w:types>"), 1)
	a := exchange(t, g.addr["http"], appendHead(nil, "GET /orders?singleWsdl HTTP/1.1", fields{{"Host", g.addr["http"]}}))
	if a.Status != 200 || !bytes.Equal(a.Body, want) {
		t.Errorf("got %s\nwant %s", a, want)
	}
}

// TestWSDLReaches: whatever documents and redirects say, nobody is asked but the
// backend and the hosts that the configuration names, and no file is read.
func TestWSDLReaches(t *testing.T) {
	secret, named, b := listenHTTP(t), listenHTTP(t), listenHTTP(t)
	moved := func(to string) []byte { return response(302, fields{{"Location", to}}, nil) }
	xml := fields{{"Content-Type", "text/xml"}}
	schema := func(refs ...string) []byte {
		var s strings.Builder
		for _, r := range refs {
			fmt.Fprintf(&s, `<x:include schemaLocation=%q/>`, r)
		}
		return response(200, xml, []byte(`<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:messages">`+s.String()+`</x:schema>`))
	}
	loop := "http://" + b.addr + "/in?xsd=1"
	script := func(root []byte) func(*peer, *call) {
		return func(p *peer, c *call) {
			switch c.target() {
			case "/in?wsdl":
				_, _ = p.Write(root)
			case "/in?xsd=1":
				_, _ = p.Write(schema(loop, "/in?xsd=moved", "http://"+secret.addr+"/a.xsd", "http://"+named.addr+"/b.xsd",
					"http://169.254.169.254/latest/meta-data/", "http://user@"+named.addr+"/c.xsd", "file:///etc/passwd", "/etc/passwd"))
			case "/in?xsd=moved":
				_, _ = p.Write(moved("http://" + secret.addr + "/d.xsd"))
			default:
				_, _ = p.Write(response(404, nil, nil))
			}
		}
	}
	named.do(func(p *peer, c *call) {
		if c.target() == "/b.xsd" {
			_, _ = p.Write(moved("http://" + secret.addr + "/e.xsd"))
			return
		}
		_, _ = p.Write(response(404, nil, nil))
	})
	g := start(t, httpOnly+fmt.Sprintf(`routes:
  - {name: in, match: {path: /in}, to: ["http://%[1]s/in"], wsdl_hosts: ["%[2]s"], wsdl_check: operation}
  - {name: away, match: {path: /away}, to: ["http://%[1]s/in"], wsdl: "http://%[2]s/b.xsd"}
`, b.addr, named.addr), b, named, secret)
	get := func(target string) *answer {
		t.Helper()
		return exchange(t, g.addr["http"], appendHead(nil, "GET "+target+" HTTP/1.1", fields{{"Host", "gw.test"}}))
	}
	b.do(script(response(200, xml, orderWSDL("http://"+b.addr+"/in", loop))))
	if a := post(t, g.addr["http"], "/in", xml11("urn:x"), order("Other")); !bytes.Contains(a.Body, []byte("UnknownOperation")) {
		t.Errorf("a message that the WSDL does not have: %s", a)
	}
	if a := get("/in?singleWsdl"); a.Status != 200 || bytes.Contains(a.Body, []byte("root:")) || bytes.Contains(a.Body, []byte(named.addr)) && !bytes.Contains(a.Body, []byte(secret.addr)) {
		t.Errorf("all in one document: %s", a)
	}
	// A redirect of the backend leads nowhere, and one of a named host not past it.
	b.do(script(moved("http://" + secret.addr + "/f.wsdl")))
	for target, status := range map[string]int{"/in?xsd=moved": 404, "/in?wsdl=~0123": 404, "/away?wsdl": 404} {
		if a := get(target); a.Status != status {
			t.Errorf("GET %s: %s, want %d", target, a, status)
		}
	}
	if len(secret.got()) != 0 || secret.connections() != 0 {
		t.Errorf("the secret was asked: %d connections", secret.connections())
	}
	for _, c := range named.got() {
		if c.target() != "/b.xsd" {
			t.Errorf("a named host was asked for %s", c.target())
		}
	}
}

// TestWSDLFromURL: the WSDL is elsewhere, with a schema at a host of its own; both
// are had while neither is there.
func TestWSDLFromURL(t *testing.T) {
	b, at, types := listenHTTP(t), listenHTTP(t), listenHTTP(t)
	xml := fields{{"Content-Type", "text/xml; charset=utf-8"}, {"Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT"}}
	at.answerWith(response(200, xml, orderWSDL("http://placeholder.test/", "http://"+types.addr+"/types.xsd")))
	types.answerWith(response(200, xml, []byte(orderTypes)))
	config := queueConfig(
		fmt.Sprintf(`{name: orders, match: {path: /in, operation: "{urn:orders}Tell"}, to: ["http://%s/in"], wsdl: "http://%s/the.wsdl?v=1", wsdl_hosts: [%q]}`, b.addr, at.addr, types.addr),
		fmt.Sprintf(`{name: wsdl, match: {path: /in}, to: ["http://%s/in"], wsdl: "http://%s/the.wsdl?v=1", wsdl_hosts: [%q], wsdl_check: operation}`, b.addr, at.addr, types.addr))
	g := start(t, config, b, at, types)
	took := func() bool {
		n, err := g.metric(`gateway_requests_total{operation="Tell",outcome="answered",route="orders"}`)
		return err == nil && n > 0
	}
	if !eventually(patience, func() bool {
		return post(t, g.addr["http"], "/in", xml11("urn:x"), order("Notice")).Status == 200 && took()
	}) {
		t.Fatal("the route for the operation Tell does not get its messages")
	}
	get := func(target string) string {
		t.Helper()
		a := exchange(t, g.addr["http"], appendHead(nil, "GET "+target+" HTTP/1.1", fields{{"Host", "gw.test"}}))
		if a.Status != 200 {
			t.Fatalf("GET %s: %s", target, a)
		}
		return string(a.Body)
	}
	b.close()
	for range 2 {
		doc := get("/in?wsdl")
		_, rest, _ := strings.Cut(doc, `schemaLocation="http://gw.test/in`)
		query, _, ok := strings.Cut(rest, `"`)
		if want := string(orderWSDL("http://gw.test/in", "http://gw.test/in"+query)); !ok || doc != want {
			t.Errorf("got %s\nwant %s", doc, want)
		}
		if got := get("/in" + query); got != orderTypes {
			t.Errorf("the schema: got %s", got)
		}
		if single := get("/in?singleWsdl"); !strings.Contains(single, orderTypes) || strings.Contains(single, "schemaLocation") {
			t.Errorf("in one document: got %s", single)
		}
		at.close()
		types.close()
		term(t, g)
		g = startAgain(t, g, config)
	}
	if a := post(t, g.addr["http"], "/in", xml11("urn:x"), order("Notice")); a.Status != 500 || !bytes.Contains(a.Body, []byte("BackendUnavailable")) {
		t.Errorf("a message after all that: %s, want the fault of the route", a)
	}
}
