package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"soapway/internal/field"
)

const wsse = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"

// fault11Of and fault12Of are faults with a code as written.
func fault11Of(code string) string {
	return `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:own="urn:own" xmlns:wsse="` + wsse + `"><s:Body><s:Fault><faultcode>` +
		code + `</faultcode><faultstring>secret text</faultstring></s:Fault></s:Body></s:Envelope>`
}

func fault12Of(code, sub string) string {
	if sub != "" {
		sub = "<s:Subcode><s:Value>" + sub + "</s:Value></s:Subcode>"
	}
	return `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:wsse="` + wsse + `"><s:Body><s:Fault><s:Code><s:Value>` +
		code + `</s:Value>` + sub + `</s:Code><s:Reason><s:Text xml:lang="en">secret text</s:Text></s:Reason></s:Fault></s:Body></s:Envelope>`
}

// TestVerdicts goes through SPEC.md §4 "Stored messages follow the answer" with
// real answers, from the octets to the verdict.
func TestVerdicts(t *testing.T) {
	const (
		xml  = "text/xml; charset=utf-8"
		soap = "application/soap+xml; charset=utf-8"
		html = "text/html"
		page = "<html>busy</html>"

		signed = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header><w:Security xmlns:w="` + wsse + `"/></s:Header><s:Body><a/></s:Body></s:Envelope>`
	)
	type want struct {
		verdict          Verdict
		unhealthy, maybe bool
		denied           bool
	}
	done, again, dead := want{verdict: VerdictDelivered}, want{verdict: VerdictRetry}, want{verdict: VerdictDead}
	sick := want{verdict: VerdictRetry, unhealthy: true}
	held := want{verdict: VerdictRetry, denied: true}
	marked := want{verdict: VerdictRetry, maybe: true}
	deadMaybe := want{verdict: VerdictDead, maybe: true} // the work was done
	for _, c := range []struct {
		name   string
		resp   *Response
		oneway OneWay
		own    bool      // the backend has credentials of its own
		adds   bool      // the route adds a WS-Security header
		cert   bool      // and shows a certificate
		field  [2]string // of the caller
		body   string    // that it sent; "" is env11
		want   want
	}{
		{name: "200 envelope", resp: respond(200, xml, reply11), want: done},
		{name: "202 empty", resp: respond(202, "", ""), want: done},
		{name: "204", resp: respond(204, "", ""), want: done},
		{name: "200 empty", resp: respond(200, xml, ""), want: done},
		{name: "200 empty, two-way", resp: respond(200, xml, ""), oneway: OneWayNo, want: marked},
		{name: "202 empty, two-way", resp: respond(202, "", ""), oneway: OneWayNo, want: done},
		{name: "200 html", resp: respond(200, html, page), want: marked},
		{name: "202 html", resp: respond(202, html, page), want: marked},
		{name: "202 html, one-way", resp: respond(202, html, page), oneway: OneWayYes, want: done},
		{name: "200 broken envelope", resp: respond(200, xml, reply11[:60]), want: marked},
		{name: "200 gzip", resp: respond(200, xml, string(encode(t, "gzip", []byte(reply11))), "Content-Encoding", "gzip"), want: done},
		{name: "200 corrupt gzip", resp: respond(200, xml, "xxxxxxxx", "Content-Encoding", "gzip"), want: marked},
		{name: "200 unknown coding", resp: respond(200, xml, reply11, "Content-Encoding", "snappy"), want: marked},
		{name: "200 too large", resp: respond(200, xml, reply11+strings.Repeat(" ", 9000)), want: deadMaybe},
		{name: "200 html too large", resp: respond(200, html, strings.Repeat(" ", 9000)), want: deadMaybe},
		{name: "500 too large", resp: respond(500, html, strings.Repeat(" ", 9000)), want: again},

		{name: "1.1 Server", resp: respond(500, xml, fault11Of("s:Server")), want: again},
		{name: "1.1 Server.Busy", resp: respond(500, xml, fault11Of("s:Server.Busy")), want: again},
		{name: "1.1 Server in 200", resp: respond(200, xml, fault11Of("s:Server")), want: again},
		{name: "1.1 Server in 400", resp: respond(400, xml, fault11Of("s:Server")), want: again},
		{name: "1.1 Server in 503", resp: respond(503, xml, fault11Of("s:Server")), want: again},
		{name: "1.1 Client", resp: respond(500, xml, fault11Of("s:Client")), want: dead},
		{name: "1.1 Client without prefix", resp: respond(500, xml, fault11Of("Client")), want: dead},
		{name: "1.1 Client.Authentication", resp: respond(500, xml, fault11Of("s:Client.Authentication")), want: dead},
		{name: "1.1 Client in 503", resp: respond(503, xml, fault11Of("s:Client")), want: dead},
		{name: "1.1 VersionMismatch", resp: respond(500, xml, fault11Of("s:VersionMismatch")), want: dead},
		{name: "1.1 MustUnderstand", resp: respond(500, xml, fault11Of("s:MustUnderstand")), want: dead},
		{name: "1.1 own code in 500", resp: respond(500, xml, fault11Of("own:Server")), want: again},
		{name: "1.1 own code in 400", resp: respond(400, xml, fault11Of("own:Bad")), want: dead},
		{name: "1.1 own code in 200", resp: respond(200, xml, fault11Of("own:Bad")), want: dead},
		{name: "1.1 no code", resp: respond(500, xml, fault11Of("")), want: again},
		{name: "1.2 Receiver", resp: respond(500, soap, fault12Of("s:Receiver", "")), want: again},
		{name: "1.2 Sender", resp: respond(400, soap, fault12Of("s:Sender", "")), want: dead},
		{name: "1.2 Sender in 500", resp: respond(500, soap, fault12Of("s:Sender", "")), want: dead},
		{name: "1.2 DataEncodingUnknown", resp: respond(500, soap, fault12Of("s:DataEncodingUnknown", "")), want: dead},
		{name: "1.2 MustUnderstand", resp: respond(500, soap, fault12Of("s:MustUnderstand", "")), want: dead},
		{name: "1.2 code without prefix", resp: respond(500, soap, fault12Of("Sender", "")), want: again},
		{name: "wsse in 1.1", resp: respond(500, xml, fault11Of("wsse:FailedAuthentication")), want: dead},
		{name: "wsse in 1.1, signed by the caller", resp: respond(500, xml, fault11Of("wsse:FailedAuthentication")), body: signed, want: dead},
		{name: "wsse, signed by the caller, our credentials", resp: respond(500, xml, fault11Of("wsse:InvalidSecurity")), body: signed, own: true, want: dead},
		{name: "wsse, a header that the route adds", resp: respond(500, xml, fault11Of("wsse:InvalidSecurity")), adds: true, want: held},
		{name: "wsse, our credentials", resp: respond(500, xml, fault11Of("wsse:InvalidSecurity")), own: true, want: held},
		{name: "wsse subcode in a Receiver", resp: respond(500, soap, fault12Of("s:Receiver", "wsse:FailedAuthentication")), own: true, want: held},
		{name: "wsse subcode, signed by the caller", resp: respond(500, soap, fault12Of("s:Receiver", "wsse:FailedAuthentication")), body: signed, want: dead},

		{name: "408", resp: respond(408, "", ""), want: again},
		{name: "425", resp: respond(425, "", ""), want: again},
		{name: "429", resp: respond(429, html, page), want: again},
		{name: "500 html", resp: respond(500, html, page), want: again},
		{name: "500 envelope that is no fault", resp: respond(500, xml, reply11), want: again},
		{name: "501", resp: respond(501, "", ""), want: again},
		{name: "502 html", resp: respond(502, html, page), want: sick},
		{name: "503 empty", resp: respond(503, "", ""), want: sick},
		{name: "504 html", resp: respond(504, html, page), want: sick},
		{name: "503 envelope that is no fault", resp: respond(503, xml, reply11), want: again},
		{name: "400 html", resp: respond(400, html, page), want: dead},
		{name: "404", resp: respond(404, html, page), want: dead},
		{name: "413", resp: respond(413, "", ""), want: dead},
		{name: "301", resp: respond(301, "", "", "Location", "http://elsewhere/"), want: dead},
		{name: "307", resp: respond(307, html, page, "Location", "http://elsewhere/"), want: dead},
		{name: "304", resp: respond(304, "", ""), want: dead},
		{name: "401", resp: respond(401, html, page), want: dead},
		{name: "403", resp: respond(403, xml, fault11Of("s:Client")), want: dead},
		{name: "401, the caller's key", resp: respond(401, html, page), field: [2]string{"X-Api-Key", "k"}, want: dead},
		{name: "403, the caller's token", resp: respond(403, xml, fault11Of("s:Client")), field: [2]string{"X-Auth-Token", "t"}, want: dead},
		{name: "403, another field of the caller", resp: respond(403, html, page), field: [2]string{"X-Customer", "7"}, want: dead},
		{name: "401, signed by the caller", resp: respond(401, html, page), body: signed, want: dead},
		{name: "401, our credentials", resp: respond(401, html, page), own: true, want: held},
		{name: "401, our credentials and the caller's", resp: respond(401, html, page), own: true, field: [2]string{"X-Api-Key", "k"}, want: held},
		{name: "403 fault, our credentials", resp: respond(403, xml, fault11Of("s:Client")), own: true, want: held},
		{name: "403 fault, our certificate", resp: respond(403, xml, fault11Of("s:Client")), cert: true, field: [2]string{"X-Api-Key", "k"}, want: held},

		{name: "framed reply", resp: framedResponse(200, reply11), want: done},
		{name: "framed acceptance", resp: framedResponse(202, ""), want: done},
		{name: "framed Server", resp: framedResponse(200, fault11Of("s:Server")), want: again},
		{name: "framed Client", resp: framedResponse(200, fault11Of("s:Client")), want: dead},
		{name: "framed own code", resp: framedResponse(200, fault11Of("own:Bad")), want: again},
		{name: "framed nonsense", resp: framedResponse(200, "hello"), want: marked},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/x")
			n.answer = always(c.resp, nil)
			b := &Backend{Name: "b", Nodes: []Node{n}, Certificate: c.cert}
			if c.own {
				b.Headers = map[string]string{"Authorization": "Bearer own"}
			}
			r := Route{Backend: b, OneWay: c.oneway, Limits: Limits{MaxMessage: 4096}}
			if c.adds {
				r.Add = []byte(`<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"/>`)
			}
			h := one(t, r)
			body := env11
			if c.body != "" {
				body = c.body
			}
			var fields []string
			if c.field[0] != "" {
				fields = c.field[:]
			}
			d := h.Deliver(t.Context(), storedMessage(t, body, fields...), Try{Attempt: 1})
			if got := (want{d.Verdict, d.Unhealthy, d.Maybe, d.Denied}); got != c.want {
				t.Errorf("Deliver: got %v (%s), want %v", got, d.Reason, c.want)
			}
			if d.Status == 0 {
				t.Error("Deliver: no status though there was an answer")
			}
			if (d.Reason == "") != (d.Verdict == VerdictDelivered) || strings.Contains(d.Reason, "secret") || strings.Contains(d.Reason, "\n") {
				t.Errorf("Deliver: reason %q", d.Reason)
			}
		})
	}
}

func framedResponse(status int, body string) *Response {
	r := respond(status, "", body)
	r.Header, r.Framed = field.List{}, true
	if body == "" {
		r.Body = nil
	}
	return r
}

func TestRetryWish(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value string
		want  time.Duration
	}{
		{"", 0},
		{"1", time.Second},
		{" 120 ", 2 * time.Minute},
		{"-1", 0},
		{"1.5", 0},
		{"soon", 0},
		{"99999999999999999999", 0},
		{"4294967296", 0},
		{"Mon, 30 Nov 2026 12:00:30 GMT", 30 * time.Second},
		{"Mon, 30 Nov 2026 11:00:00 GMT", 0},
		{"Monday, 30-Nov-26 12:01:00 GMT", time.Minute},
	} {
		if got := retryWish(field.Of(http.Header{"Retry-After": {c.value}}), now); got != c.want {
			t.Errorf("retryWish(%q): got %v, want %v", c.value, got, c.want)
		}
	}
}
