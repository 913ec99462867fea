package casetest

import (
	"bytes"
	"strings"
	"testing"
)

// TestTranslate: a caller of each version and a service of the other, through
// sockets: request, reply, fault, one-way, a message larger than the buffer,
// a signed one, and the gateway's own faults.
func TestTranslate(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		caller, service := nsOf[v], nsOf["1.2"]
		path, typ := "/as12/x", `application/soap+xml; charset=utf-8; action="urn:a"`
		sent := fields{{"Content-Type", "text/xml; charset=utf-8"}, {"SOAPAction", `"urn:a"`}, {"Accept", "text/xml"}}
		if v == "1.2" {
			service, path, typ = nsOf["1.1"], "/as11/x", "text/xml; charset=utf-8"
			sent = fields{{"Content-Type", `application/soap+xml; charset=utf-8; action="urn:a"`}}
		}
		build := func(ns, body string) []byte {
			return []byte(`<e:Envelope xmlns:e="` + ns + `"><e:Header><h:A xmlns:h="urn:test:h" e:mustUnderstand="1"/></e:Header><e:Body>` + body + `</e:Body></e:Envelope>`)
		}
		reply := func(status int, ns string, body string) []byte {
			return response(status, fields{{"Content-Type", mediaTypeOf(ns)}}, build(ns, body))
		}
		for _, body := range []string{op, strings.Repeat("<x>0123456789</x>", 200000)} {
			f.http.reset()
			f.http.answerWith(reply(200, service, body))
			a := exchange(t, f.g.addr["http"], request(path, sent, build(caller, body)))
			calls := f.http.got()
			if a.Err != nil || a.Status != 200 || len(calls) != 1 {
				t.Fatalf("got %s, the backend %d messages", a, len(calls))
			}
			c := calls[0]
			if !bytes.Equal(c.Body, build(service, body)) {
				t.Errorf("the backend got %s", describe(c.Body))
			}
			if got := c.Fields.get("Content-Type"); got != typ {
				t.Errorf("the backend got Content-Type %q, want %q", got, typ)
			}
			if got, want := c.Fields.all("SOAPAction"), map[string]string{"1.2": `"urn:a"`, "1.1": ""}[v]; want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0] != want) {
				t.Errorf("the backend got SOAPAction %q", got)
			}
			if !bytes.Equal(a.Body, build(caller, body)) || !strings.HasPrefix(a.Fields.get("Content-Type"), mediaTypeOf(caller)) {
				t.Errorf("the caller got %s of %q", describe(a.Body), a.Fields.get("Content-Type"))
			}
		}

		f.http.reset()
		fault := map[string]string{
			"1.1": `<e:Fault><e:Code><e:Value>e:Sender</e:Value><e:Subcode><e:Value xmlns:q="urn:q">q:Bad</e:Value></e:Subcode></e:Code><e:Reason><e:Text xml:lang="en">why</e:Text></e:Reason><e:Detail><d xmlns="urn:d"/></e:Detail></e:Fault>`,
			"1.2": `<e:Fault><faultcode>e:Client.Bad</faultcode><faultstring>why</faultstring><detail><d xmlns="urn:d"/></detail></e:Fault>`,
		}[v]
		f.http.answerWith(reply(map[string]int{"1.1": 400, "1.2": 500}[v], service, fault))
		a := post(t, f.g.addr["http"], path, sent, build(caller, op))
		want := map[string]int{"1.1": 500, "1.2": 400}[v]
		if a.Status != want || !bytes.Contains(a.Body, []byte("why")) || !bytes.Contains(a.Body, []byte(`<d xmlns="urn:d"/>`)) || !bytes.Contains(a.Body, []byte("Bad")) || bytes.Contains(a.Body, []byte(service)) && v == "1.1" {
			t.Errorf("a fault of the service came as %s", a)
		}
		if _, err := document(a.Body, ""); err != nil {
			t.Errorf("%s: %v", a.Body, err)
		}

		f.http.reset()
		f.http.answerWith([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
		if a := post(t, f.g.addr["http"], path, sent, build(caller, op)); a.Status != 202 || len(a.Body) > 0 {
			t.Errorf("one-way: got %s", a)
		}

		f.http.reset()
		signed := bytes.Replace(build(caller, op), []byte("</e:Header>"), []byte(`<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/></w:Security></e:Header>`), 1)
		wantFault(t, post(t, f.g.addr["http"], path, sent, signed), v, "Server", "Signed")
		wantFault(t, post(t, f.g.addr["http"], path, sent, []byte("x")), v, "Client", "NotWellFormed")
		if n := len(f.http.got()); n != 0 {
			t.Errorf("the backend got %d messages that were refused", n)
		}
	})
}

func mediaTypeOf(ns string) string {
	if ns == ns12 {
		return "application/soap+xml"
	}
	return "text/xml"
}

// TestStrictRoute: what the profiles forbid is taken leniently, and refused
// where the route is strict.
func TestStrictRoute(t *testing.T) {
	f := shared(t)
	good := `<e:Envelope xmlns:e="` + ns11 + `"><e:Body>` + op + `</e:Body></e:Envelope>`
	for _, c := range []struct {
		name string
		f    fields
		body string
		good bool
	}{
		{"good", fields{{"Content-Type", "text/xml"}, {"SOAPAction", `""`}}, good, true},
		{"no SOAPAction", fields{{"Content-Type", "text/xml"}}, good, false},
		{"unquoted SOAPAction", fields{{"Content-Type", "text/xml"}, {"SOAPAction", "urn:a"}}, good, false},
		{"elements after Body", fields{{"Content-Type", "text/xml"}, {"SOAPAction", `""`}}, strings.Replace(good, "</e:Body>", "</e:Body><x/>", 1), false},
		{"charset", fields{{"Content-Type", "text/xml; charset=iso-8859-1"}, {"SOAPAction", `""`}}, good, false},
	} {
		f.http.reset()
		if a := post(t, f.g.addr["http"], "/depot/x", c.f, []byte(c.body)); a.Status != 200 {
			t.Errorf("%s: lenient, got %s", c.name, a)
		}
		f.http.reset()
		a := post(t, f.g.addr["http"], "/strict/x", c.f, []byte(c.body))
		if c.good && a.Status != 200 {
			t.Errorf("%s: got %s", c.name, a)
		} else if !c.good {
			wantFault(t, a, "1.1", "Client", "Strict")
			if len(f.http.got()) > 0 {
				t.Errorf("%s: forwarded", c.name)
			}
		}
	}
}

// TestCanonicalRoute: the backend gets the canonical form, of a small message
// and of one that streams.
func TestCanonicalRoute(t *testing.T) {
	f := shared(t)
	for _, n := range []int{1, 300000} {
		content := strings.Repeat("0123456789", n)
		loose := "<?xml version='1.0'?><e:Envelope  xmlns:e='" + ns11 + "'><e:Body ><m:Op b='2' a='1' xmlns:m='urn:m'><![CDATA[<]]>" + content + "<m:x/></m:Op></e:Body></e:Envelope>"
		tight := `<e:Envelope xmlns:e="` + ns11 + `"><e:Body><m:Op xmlns:m="urn:m" a="1" b="2">&lt;` + content + `<m:x></m:x></m:Op></e:Body></e:Envelope>`
		f.http.reset()
		if a := exchange(t, f.g.addr["http"], request("/canonical/x", typed("1.1"), []byte(loose))); a.Status != 200 {
			t.Fatalf("got %s", a)
		}
		if c := f.http.got()[0]; string(c.Body) != tight {
			t.Errorf("the backend got %s", describe(c.Body))
		}
	}
}

// TestMarkedRoute: the delivery block tells the id that the caller gets too.
func TestMarkedRoute(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		f.http.reset()
		a := post(t, f.g.addr["http"], "/marked/x", typed(v), []byte(`<e:Envelope xmlns:e="`+nsOf[v]+`"><e:Body>`+op+`</e:Body></e:Envelope>`))
		id := a.Fields.get("Gateway-Message-Id")
		want := `<e:Header><gw:Delivery xmlns:gw="urn:soapway:delivery"><gw:Id>` + id + `</gw:Id></gw:Delivery></e:Header>`
		if c := f.http.got()[0]; a.Status != 200 || id == "" || !bytes.Contains(c.Body, []byte(want)) || c.Fields.get("Gateway-Message-Id") != id {
			t.Errorf("the backend got %s, the caller %s", c.Body, a)
		}
	})
}
