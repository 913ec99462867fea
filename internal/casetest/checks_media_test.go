package casetest

import (
	"bytes"
	"strings"
	"testing"
)

var mediaTypeChecks = checkTable{
	"06": {
		"facts/action":            onAll(fieldKept("SOAPAction")),
		"to_backend/headers":      onAll(fieldKept("SOAPAction")),
		"variant quoted/action":   on("quoted", readAsStated),
		"variant unquoted/action": on("unquoted", readAsStated),
		"variant empty-quoted/action": on("empty-quoted", func(t *testing.T, r *run, o *outcome) {
			fieldKept("SOAPAction")(t, r, o)
			notTakenFor(t, r, "quoted", o)
		}),
		"variant no-value/action": on("no-value", func(t *testing.T, r *run, o *outcome) {
			fieldKept("SOAPAction")(t, r, o)
			notTakenFor(t, r, "quoted", o)
		}),
		"variant absent/action": on("absent", func(t *testing.T, r *run, o *outcome) {
			if o.sole(t).Fields.has("SOAPAction") {
				t.Errorf("SOAPAction %q was added", o.calls[0].Fields.all("SOAPAction"))
			}
			notTakenFor(t, r, "quoted", o)
		}),
		"variant unquoted/allowed_alternatives/BP R1119: MAY answer with a Client fault on 500":                           on("unquoted", accepted),
		"variant absent/allowed_alternatives/strict mode: Client fault on 500, since SOAP 1.1 obliges clients to send it": on("absent", accepted),
		"must_not/keep the quotes as part of the action when routing":                                                     on("quoted", readAsStated),
		"must_not/add SOAPAction derived from the body or the WSDL unless configured":                                     onAll(fieldKept("SOAPAction")),
		"must_not/match the header name case-sensitively": onAll(func(t *testing.T, r *run, o *outcome) {
			if o.name != "" && o.name != "quoted" {
				return
			}
			for _, spelled := range []string{"soapaction", "SOAPACTION", "SoapAction", "Soapaction"} {
				f := append(o.fields.without("SOAPAction"), field{spelled, o.fields.get("SOAPAction")})
				if a := r.factRoute(t, "quoted", f, o.body); a.Status != 200 {
					t.Errorf("%s: %s", spelled, a)
				}
				if got := r.f.http.got()[0].Fields; got.get("SOAPAction") != o.fields.get("SOAPAction") {
					t.Errorf("%s: the backend got %q", spelled, got)
				}
			}
		}),
	},
	"07": {
		"facts/action":                        onAll(fieldKept("Content-Type")),
		"to_backend/headers":                  onAll(fieldKept("Content-Type")),
		"variant separators-in-quotes/action": on("separators-in-quotes", readAsStated),
		"variant case-and-order/action":       on("case-and-order", readAsStated),
		"variant case-and-order/charset":      on("case-and-order", sameMessage),
		"variant trailing-semicolon-no-action/action": on("trailing-semicolon-no-action", func(t *testing.T, r *run, o *outcome) {
			if a, has := param(o.sole(t).Fields.get("Content-Type"), "action"); has {
				t.Errorf("action %q was added", a)
			}
			notTakenFor(t, r, "case-and-order", o)
		}),
		"variant unquoted-uri/action": on("unquoted-uri", readAsStated),
		"variant unquoted-uri/allowed_alternatives/400 or 415: ':' is not a token character, so an unquoted URI is a syntax error": on("unquoted-uri", accepted),
		"must_not/move the action into a SOAPAction header or add one": onAll(func(t *testing.T, _ *run, o *outcome) {
			if o.sole(t).Fields.has("SOAPAction") {
				t.Errorf("%s: SOAPAction was added", o.label())
			}
		}),
		"must_not/drop the action when rewriting charset": onAll(func(t *testing.T, r *run, o *outcome) {
			if o.name != "" {
				return
			}
			r.f.http.reset()
			latin := bytes.ReplaceAll(o.body, []byte("UTF-8"), []byte("ISO-8859-1"))
			latin = bytes.ReplaceAll(latin, []byte("</p:ref>"), []byte("\xE9</p:ref>"))
			ct := `application/soap+xml; action="urn:depot:parcel;op=book,now"; charset=ISO-8859-1; X-More="a;b"`
			post(t, r.f.g.addr["http"], o.target, fields{{"Content-Type", ct}}, latin)
			n := &outcome{name: "latin", calls: r.f.http.got(), doc: latin, fields: fields{{"Content-Type", ct}}}
			labelsAgree(t, r, n)
			got := n.sole(t).Fields.get("Content-Type")
			if a, _ := param(got, "action"); a != "urn:depot:parcel;op=book,now" {
				t.Errorf("Content-Type is now %q", got)
			}
			if m, _ := param(got, "x-more"); m != "a;b" {
				t.Errorf("another parameter changed: %q", got)
			}
		}),
		"must_not/add an action parameter that was not sent": on("trailing-semicolon-no-action", fieldKept("Content-Type")),
	},
	"08": {
		"verdict": onAll(func(t *testing.T, r *run, o *outcome) { // the same outcome every time
			for range 3 {
				r.f.http.reset()
				if a := post(t, r.f.g.addr["http"], o.target, o.fields, o.body); a.Status != 200 || len(r.f.http.got()) != 1 {
					t.Errorf("%s: %s", o.label(), a)
				}
			}
		}),
		"facts/soap_version_by_namespace": onAll(func(t *testing.T, _ *run, o *outcome) {
			want := ns12
			if o.name == "11-in-soap-xml" {
				want = ns11
			}
			if doc, err := document(o.sole(t).Body, ""); err != nil || doc.Root.Name.Space != want {
				t.Errorf("%s: root %v, %v", o.label(), doc.Root.Name, err)
			}
		}),
		"outcomes/0/status":                    onAll(accepted),
		"outcomes/0/fault":                     onAll(accepted),
		"outcomes/1/to_client/status":          onAll(accepted),
		"outcomes/1/to_client/content_type":    onAll(accepted),
		"outcomes/1/to_client/fault/version":   onAll(accepted),
		"outcomes/1/to_client/fault/faultcode": onAll(accepted),
		"outcomes/2/status":                    onAll(accepted), // SPEC.md §3: lenient
		"outcomes/2/to_backend": onAll(func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o)
			fieldKept("Content-Type")(t, r, o)
		}),
		"variant 11-in-soap-xml/outcomes/415 without fault": on("11-in-soap-xml", accepted),
		"variant 11-in-soap-xml/outcomes/500 VersionMismatch in SOAP 1.2 form with Upgrade (a 1.2 receiver saw a foreign envelope) or in SOAP 1.1 form per SOAP 1.2 App. A": on("11-in-soap-xml", accepted),
		"variant 11-in-soap-xml/outcomes/lenient pass-through as SOAP 1.1":                                                                                                  on("11-in-soap-xml", accepted),
		"must_not/rewrite the envelope namespace to fit the header":                                                                                                         onAll(octetsKept),
		"must_not/answer with a SOAP 1.1 envelope under application/soap+xml or a SOAP 1.2 envelope under text/xml (when the gateway itself builds the reply)": onAll(func(t *testing.T, r *run, o *outcome) {
			cut := o.body[:bytes.Index(o.body, []byte("</p:Book>"))] // recognised, then broken
			version := "1.2"
			if o.name == "11-in-soap-xml" {
				version = "1.1"
			}
			wantFault(t, post(t, r.f.g.addr["http"], o.target, o.fields, cut), version, "Client", "NotWellFormed")
		}),
	},
}

// accepted: the gateway took the lenient form of the alternatives.
func accepted(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	if o.sole(t); o.a.Status != 200 {
		t.Errorf("%s: %s", o.label(), o.a)
	}
}

// notTakenFor: a route that demands the action of another variant does not
// take this message.
func notTakenFor(t *testing.T, r *run, other string, o *outcome) {
	t.Helper()
	a := r.factRoute(t, other, o.fields, o.body)
	wantBare(t, a, 404)
	if len(r.f.http.got()) != 0 {
		t.Errorf("%s: forwarded although no route matches", o.label())
	}
}

func TestMediaTypes(t *testing.T) {
	f := shared(t)
	body := []byte(`<e:Envelope xmlns:e="` + ns11 + `"><e:Body/></e:Envelope>`)
	for _, c := range []struct {
		ctype string
		ok    bool
	}{
		{"text/xml", true},
		{"TEXT/XML", true},
		{"text/xml;charset=UTF-8", true},
		{"text/xml ; charset = utf-8", true},
		{"application/soap+xml", true},
		{"application/xml", true},
		{"text/plain", false},
		{"application/json", false},
		{"text/html; charset=utf-8", false},
		{"application/octet-stream", false},
		{"text/xml-external-parsed-entity", false},
		{"application/x-www-form-urlencoded", false},
		{"*/*", false},
	} {
		f.http.reset()
		a := post(t, f.g.addr["http"], "/depot/x", fields{{"Content-Type", c.ctype}}, body)
		if c.ok {
			if a.Status != 200 || len(f.http.got()) != 1 {
				t.Errorf("%s: %s", c.ctype, a)
			}
			continue
		}
		wantBare(t, a, 415)
		if len(f.http.got()) != 0 {
			t.Errorf("%s: forwarded", c.ctype)
		}
	}
	if two := post(t, f.g.addr["http"], "/depot/x", fields{{"Content-Type", "text/xml"}, {"Content-Type", "text/html"}}, body); two.Status == 200 && strings.Contains(string(two.Body), "Fault") {
		t.Errorf("two Content-Type fields: %s", two)
	}
}
