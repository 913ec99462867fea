package casetest

import (
	"bytes"
	"strings"
	"testing"
)

var messagingChecks = checkTable{
	"45": {
		"verdict":                   onVariants(answeredAsScripted),
		"facts/action":              onVariants(readAsStated45),
		"to_backend/body":           onVariants(octetsKept),
		"must_not/demand MessageID": on("none-no-messageid", acceptedAsSent),
		"must_not/open a connection to erp.depot.test itself": on("addressable", func(t *testing.T, _ *run, o *outcome) {
			// The name does not resolve: trying it would have taken the place of the answer.
			if o.sole(t); o.a.Status != 202 || len(o.a.Body) > 0 {
				t.Errorf("got %s", o.a)
			}
		}),
		"must_not/rewrite ReplyTo to the gateway": on("addressable", octetsKept),
		"must_not/treat an empty 202 as an error": on("none-no-messageid", answeredAsScripted),
	},
	"46": {
		"facts/wsa:To":       onAll(octetsKept),
		"facts/http_target":  onAll(acceptedAsSent),
		"to_backend/default": onAll(octetsKept),
		"to_backend/with to-rewrite enabled and To unsigned": onAll(func(t *testing.T, r *run, o *outcome) {
			c := r.towards(t, o, o.body)
			want := bytes.Replace(o.body, []byte("https://gw.depot.test/depot/parcel"), []byte("http://"+r.f.http.addr+"/depot/parcel"), 1)
			if !bytes.Equal(c.Body, want) {
				t.Errorf("the backend got %s, want %s", c.Body, want)
			}
		}),
		"to_backend/with to-rewrite enabled and To covered by a ds:Reference": onAll(func(t *testing.T, r *run, o *outcome) {
			const security = `<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"><d:SignedInfo><d:Reference URI="#to"/></d:SignedInfo></d:Signature></w:Security></env:Header>`
			signed := bytes.Replace(o.body, []byte("</env:Header>"), []byte(security), 1)
			r.f.http.reset()
			a := post(t, r.f.g.addr["http"], "/towards/parcel", o.fields, signed)
			wantFault(t, a, "1.2", "Receiver", "Signed")
			if n := len(r.f.http.got()); n != 0 {
				t.Errorf("the backend got %d messages", n)
			}
		}),
		"to_client": onAll(func(t *testing.T, r *run, o *outcome) {
			fault := []byte(`<e:Envelope xmlns:e="` + ns12 + `"><e:Body><e:Fault><e:Code><e:Value>e:Sender</e:Value><e:Subcode><e:Value xmlns:a="http://www.w3.org/2005/08/addressing">a:DestinationUnreachable</e:Value></e:Subcode></e:Code><e:Reason><e:Text xml:lang="en">no</e:Text></e:Reason></e:Fault></e:Body></e:Envelope>`)
			r.f.http.reset()
			r.f.http.answerWith(response(400, fields{{"Content-Type", "application/soap+xml"}}, fault))
			if a := post(t, r.f.g.addr["http"], o.target, o.fields, o.body); a.Status != 400 || !bytes.Equal(a.Body, fault) {
				t.Errorf("got %s", a)
			}
		}),
		"must_not/rewrite To silently": onAll(octetsKept),
		"must_not/fault on mustUnderstand of a:To/a:Action (they are for the ultimate receiver)": onAll(func(t *testing.T, r *run, o *outcome) {
			r.f.http.reset()
			if a := post(t, r.f.g.addr["http"], "/node/parcel", o.fields, o.body); a.Status != 200 {
				t.Errorf("as a node: %s", a)
			}
		}),
		"must_not/use To as a free forward-proxy target": onAll(acceptedAsSent),
	},
}

// towards posts a message to the route that rewrites wsa:To.
func (r *run) towards(t *testing.T, o *outcome, body []byte) *call {
	t.Helper()
	r.f.http.reset()
	a := post(t, r.f.g.addr["http"], strings.Replace(o.target, "/depot/", "/towards/", 1), o.fields, body)
	calls := r.f.http.got()
	if a.Status != 200 || len(calls) != 1 {
		t.Fatalf("got %s, the backend %d messages", a, len(calls))
	}
	return calls[0]
}

func readAsStated45(t *testing.T, r *run, o *outcome) {
	t.Helper()
	if !bytes.Contains(o.body, []byte("urn:depot:parcel#Track")) {
		t.Errorf("%s has another action", o.label())
	}
	octetsKept(t, r, o)
}

// drive45 lets the backend answer as WS-Addressing has it: with an envelope, or
// with an empty 202 where the reply goes elsewhere or nowhere.
func drive45(t *testing.T, r *run) {
	for _, v := range r.variants() {
		o := r.message(t, "/depot", v)
		r.f.http.reset()
		if response, _ := v.doc["response"].(object); response["body"] == "empty" {
			r.f.http.answerWith([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
		}
		o.a = post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
		o.calls = r.f.http.got()
		r.add(o)
	}
}

// answeredAsScripted: the caller got what drive45 had the backend say.
func answeredAsScripted(t *testing.T, r *run, o *outcome) {
	t.Helper()
	for _, v := range r.variants() {
		if v.Name != o.name {
			continue
		}
		want := v.doc["response"].(object)
		if float64(o.a.Status) != want["status"] || (len(o.a.Body) == 0) != (want["body"] == "empty") {
			t.Errorf("%s: got %s, want %v", o.label(), o.a, want)
		}
	}
}
