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
