package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/soapcodec"
)

const v11, v12 = soapcodec.V11, soapcodec.V12

// in12 is a document in SOAP 1.1 with its namespace replaced.
func in12(doc string) string { return strings.ReplaceAll(doc, soapcodec.NS11, soapcodec.NS12) }

func in11(doc string) string { return strings.ReplaceAll(doc, soapcodec.NS12, soapcodec.NS11) }

// TestTranslateRequest: version, media type and action of what the node gets,
// for messages that are held whole, that stream, and that are spooled.
func TestTranslateRequest(t *testing.T) {
	const wsa = `<soap:Header><a:Action xmlns:a="http://www.w3.org/2005/08/addressing">urn:wsa</a:Action></soap:Header><soap:Body>`
	withAction := strings.Replace(env11, "<soap:Body>", wsa, 1)
	for _, c := range []struct {
		name, typ, body string
		fields          []string
		to              soapcodec.Version
		framed          bool
		want            string
		wantType        string
		wantAction      string // "-" = no field
		keeps           bool   // fields stay as they are
	}{
		{name: "1.1 to 1.2", typ: "text/xml; charset=utf-8", body: env11, fields: []string{"SOAPAction", `"urn:a"`}, to: v12, want: in12(env11), wantType: `application/soap+xml; charset=utf-8; action="urn:a"`, wantAction: "-"},
		{name: "1.1 to 1.2, empty action", typ: "text/xml", body: env11, fields: []string{"SOAPAction", `""`}, to: v12, want: in12(env11), wantType: "application/soap+xml; charset=utf-8", wantAction: "-"},
		{name: "1.1 to 1.2, no action", typ: "text/xml", body: withAction, to: v12, want: in12(withAction), wantType: `application/soap+xml; charset=utf-8; action="urn:wsa"`, wantAction: "-"},
		{name: "1.2 to 1.1", typ: `application/soap+xml; charset=utf-8; action="urn:a"`, body: env12, to: v11, want: in11(env12), wantType: "text/xml; charset=utf-8", wantAction: `"urn:a"`},
		{name: "1.2 to 1.1, no action", typ: "application/soap+xml", body: env12, to: v11, want: in11(env12), wantType: "text/xml; charset=utf-8", wantAction: `""`},
		{name: "1.2 to 1.1, Latin-1", typ: "application/soap+xml; charset=iso-8859-1", body: strings.Replace(env12, ">x<", ">\xE9<", 1), to: v11, want: strings.Replace(in11(env12), ">x<", ">é<", 1), wantType: "text/xml; charset=utf-8", wantAction: `""`},
		{name: "1.2 as it is", typ: `application/soap+xml; action="urn:a"`, body: env12, to: v12, want: env12, wantType: `application/soap+xml; action="urn:a"`, wantAction: "-", keeps: true},
		{name: "framed 1.1 to 1.2", body: withAction, framed: true, to: v12, want: in12(withAction), wantType: `application/soap+xml; charset=utf-8; action="urn:wsa"`, wantAction: "-"},
		{name: "framed 1.2 to 1.1", body: env12, framed: true, to: v11, want: in11(env12), wantType: "text/xml; charset=utf-8", wantAction: `""`},
	} {
		for _, way := range []string{"whole", "streaming", "spooled"} {
			t.Run(c.name+", "+way, func(t *testing.T) {
				body, want := c.body, c.want
				r := Route{Translate: c.to}
				n := newNode("http://node.test/svc")
				if way != "whole" {
					filler := ">" + strings.Repeat("0123456789abcdef", 20<<10) + "</p:Ask>"
					body, want = strings.Replace(body, "</p:Ask>", "<p:x"+filler[:len(filler)-len("</p:Ask>")]+"</p:x></p:Ask>", 1), strings.Replace(want, "</p:Ask>", "<p:x"+filler[:len(filler)-len("</p:Ask>")]+"</p:x></p:Ask>", 1)
					r.Limits.Buffer = 64 << 10
				}
				if way == "spooled" {
					n.name = "framed://node.test:1"
				}
				version := v11
				if strings.Contains(c.body, soapcodec.NS12) {
					version = v12
				}
				n.answer = func(context.Context, *Request) (*Response, error) {
					if c.to == v12 {
						return respond(200, "application/soap+xml", in12(reply11)), nil
					}
					return respond(200, "text/xml", reply11), nil
				}
				ex := exchange(c.typ, body, append(c.fields, "Accept", "text/xml")...)
				if c.framed {
					ex.Framed, ex.Header, ex.Target = true, nil, ""
				}
				ex.Body = iotest.HalfReader(ex.Body)
				g := serve(t, one(t, r, n), ex)
				if reply := reply11; g.Status != 200 || g.Version != version || g.body != reply && g.body != in12(reply) || strings.Contains(g.body, soapcodec.NS12) != (version == v12) {
					t.Errorf("the caller, who spoke %v, got %d %v %s", version, g.Status, g.Version, g.body)
				}
				s := n.last(t)
				if s.body != want {
					t.Errorf("the node got\n%.900s, want\n%.900s", s.body, want)
				}
				if way == "spooled" && s.Length != int64(len(want)) {
					t.Errorf("the node got Length %d of %d octets", s.Length, len(want))
				}
				if s.Version != c.to {
					t.Errorf("the node got version %v, want %v", s.Version, c.to)
				}
				if c.framed && way == "spooled" {
					if s.Header != nil { // from frame to frame there are none
						t.Errorf("the node got fields: %q", s.Header)
					}
					return
				}
				if got := s.Header.Values("Content-Type"); len(got) != 1 || got[0] != c.wantType {
					t.Errorf("Content-Type: got %q, want %q", got, c.wantType)
				}
				got := spelled(s.Header, soapActionName)
				if c.wantAction == "-" && len(got) > 0 || c.wantAction != "-" && (len(got) != 1 || got[0] != c.wantAction) {
					t.Errorf("SOAPAction: got %q, want %s", got, c.wantAction)
				}
				if kept := s.Header.Get("Accept") != ""; kept != c.keeps {
					t.Errorf("Accept: got %q", s.Header.Get("Accept"))
				}
			})
		}
	}
}

// TestTranslateReply: what a caller of one version gets from a service of the
// other: status, media type, coding and fault.
func TestTranslateReply(t *testing.T) {
	const signature = `<s:Header><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/></w:Security></s:Header><s:Body>`
	sender11 := strings.Replace(fault11, "s:Server", "s:Client", 1)
	for _, c := range []struct {
		name     string
		caller   soapcodec.Version
		resp     *Response
		status   int
		contains []string
		code     soapcodec.Code
		outcome  Outcome
		same     bool // octets and fields are the service's
	}{
		{name: "a reply", caller: v12, resp: respond(200, "text/xml", reply11, "ETag", `"1"`), status: 200, contains: []string{in12(reply11)}, outcome: OutcomeAnswered},
		{name: "a reply to 1.1", caller: v11, resp: respond(200, "application/soap+xml", in12(reply11)), status: 200, contains: []string{reply11}, outcome: OutcomeAnswered},
		{name: "in the caller's version", caller: v12, resp: respond(200, "application/soap+xml", in12(reply11), "ETag", `"1"`), status: 200, contains: []string{in12(reply11)}, outcome: OutcomeAnswered, same: true},
		{name: "gzip", caller: v12, resp: respond(200, "text/xml", string(encode(t, "gzip", []byte(reply11))), "Content-Encoding", "gzip"), status: 200, contains: []string{in12(reply11)}, outcome: OutcomeAnswered},
		{name: "UTF-16", caller: v12, resp: respond(200, "text/xml; charset=utf-16", markedUTF16(reply11)), status: 200, contains: []string{in12(reply11)}, outcome: OutcomeAnswered},
		{name: "a server's fault", caller: v12, resp: respond(500, "text/xml", fault11), status: 500, contains: []string{"<s:Value>s:Receiver</s:Value>", `<s:Text xml:lang="en">no</s:Text>`}, outcome: OutcomeFault},
		{name: "a sender's fault", caller: v12, resp: respond(500, "text/xml", sender11), status: 400, contains: []string{"<s:Value>s:Sender</s:Value>"}, outcome: OutcomeFault},
		{name: "a sender's fault to 1.1", caller: v11, resp: respond(400, "application/soap+xml", fault12), status: 500, contains: []string{"<faultcode>s:Client</faultcode>"}, outcome: OutcomeFault},
		{name: "a fault in 200", caller: v12, resp: respond(200, "text/xml", sender11), status: 200, contains: []string{"s:Sender"}, outcome: OutcomeFault},
		{name: "a fault in 503", caller: v12, resp: respond(503, "text/xml", sender11), status: 503, contains: []string{"s:Sender"}, outcome: OutcomeFault},
		{name: "a signed reply", caller: v12, resp: respond(200, "text/xml", strings.Replace(reply11, "<s:Body>", signature, 1)), status: 500, code: soapcodec.CodeSigned, outcome: OutcomeFailed},
		{name: "no SOAP", caller: v12, resp: respond(200, "text/xml", "<html/>"), status: 500, code: soapcodec.CodeBackendNotSOAP, outcome: OutcomeFailed},
		{name: "elements after Body", caller: v12, resp: respond(200, "text/xml", strings.Replace(reply11, "</s:Body>", "</s:Body><x/>", 1)), status: 500, code: soapcodec.CodeBackendNotSOAP, outcome: OutcomeFailed},
		{name: "empty", caller: v12, resp: respond(202, "", ""), status: 202, outcome: OutcomeAnswered, same: true},
	} {
		for _, framed := range []bool{false, true} {
			name := c.name
			if framed {
				name += ", framed"
			}
			t.Run(name, func(t *testing.T) {
				resp := *c.resp
				raw, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				c.resp.Body = io.NopCloser(bytes.NewReader(raw)) // for the next run
				resp.Body, resp.Header = io.NopCloser(bytes.NewReader(raw)), c.resp.Header.Clone()
				n := newNode("http://node.test/svc")
				n.answer = always(&resp, nil)
				to, body, typ := v11, env12, "application/soap+xml"
				if c.caller == v11 {
					to, body, typ = v12, env11, "text/xml"
				}
				ex := exchange(typ, body)
				if framed {
					ex.Framed, ex.Header, ex.Target = true, nil, ""
				}
				h := one(t, Route{Translate: to}, n)
				var o observed
				h.opt.Observer = &o
				g := serve(t, h, ex)
				if c.code != "" {
					g.wantFault(t, c.caller, c.code)
					return
				}
				if g.err != nil || g.Version != c.caller || !framed && g.Status != c.status {
					t.Fatalf("got %d %v in version %v, want %d in %v: %s", g.Status, g.err, g.Version, c.status, c.caller, g.body)
				}
				if got := o.exchanges[0].Outcome; got != c.outcome {
					t.Errorf("outcome: got %s, want %s", got, c.outcome)
				}
				for _, want := range c.contains {
					if !strings.Contains(g.body, want) {
						t.Errorf("got %s, want in it %s", g.body, want)
					}
				}
				if g.body != "" {
					if f, err := soapcodec.Decode([]byte(g.body), soapcodec.Options{}); err != nil || f.Version != c.caller {
						t.Errorf("the caller's message %q: %v", g.body, err)
					}
				}
				if framed {
					return
				}
				want := c.caller.MediaType() + "; charset=utf-8"
				if c.same {
					want = resp.Header.Get("Content-Type")
				}
				if got := g.Header.Get("Content-Type"); got != want {
					t.Errorf("Content-Type: got %q, want %q", got, want)
				}
				if g.Header.Get("Content-Encoding") != "" || (g.Header.Get("ETag") != "") != (c.same && resp.Header.Get("ETag") != "") {
					t.Errorf("fields: got %v", g.Header)
				}
			})
		}
	}
}

func markedUTF16(s string) string {
	b := []byte("\xFF\xFE")
	for i := range len(s) {
		b = append(b, s[i], 0)
	}
	return string(b)
}

// TestTranslateLargeReply: a reply larger than the buffer streams, and one that
// turns out bad is cut.
func TestTranslateLargeReply(t *testing.T) {
	content := strings.Repeat("<r:x>0123456789</r:x>", 40<<10)
	doc := strings.Replace(reply11, "<r:Told xmlns:r=\"urn:depot\"/>", "<r:Told xmlns:r=\"urn:depot\">"+content+"</r:Told>", 1)
	for _, c := range []struct {
		name, doc string
		bad       bool
		framed    bool
	}{
		{name: "good", doc: doc},
		{name: "framed", doc: doc, framed: true},
		{name: "bad", doc: strings.TrimSuffix(doc, ">"), bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			resp := respond(200, "text/xml", "")
			resp.Body, resp.Length = io.NopCloser(iotest.HalfReader(strings.NewReader(c.doc))), -1
			n.answer = always(resp, nil)
			ex := exchange("application/soap+xml", env12)
			if c.framed {
				ex.Framed, ex.Header, ex.Target = true, nil, ""
			}
			g := serve(t, one(t, Route{Translate: v11, Limits: Limits{Buffer: 64 << 10}}, n), ex)
			switch {
			case c.bad && (g.err == nil || len(g.body) > len(doc)-holdBack/2):
				t.Errorf("got %d octets and %v, want the reply cut", len(g.body), g.err)
			case !c.bad && (g.err != nil || g.body != in12(doc)):
				t.Errorf("got %d octets, %v, want %d", len(g.body), g.err, len(in12(doc)))
			}
		})
	}
}

// TestTranslateStored: a stored message waits in the version that nodes get, and
// so do its fields.
func TestTranslateStored(t *testing.T) {
	s := &shelf{}
	n := newNode("http://node.test/x")
	n.answer = always(respond(200, "application/soap+xml", in12(reply11)), nil)
	h := storing(t, s, Route{Translate: v12}, n)
	if g := serve(t, h, exchange("text/xml", env11, "SOAPAction", `"urn:a"`)); g.Status != 202 {
		t.Fatalf("got %d, want 202", g.Status)
	}
	if got := string(s.kept[0].Body); got != in12(env11) {
		t.Errorf("stored: got %s", got)
	}
	if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != VerdictDelivered {
		t.Errorf("Deliver: got %+v", r)
	}
	got := n.last(t)
	if got.body != in12(env11) || got.Version != v12 || got.Header.Get("Content-Type") != `application/soap+xml; charset=utf-8; action="urn:a"` {
		t.Errorf("the node got %v %v %s", got.Version, got.Header, got.body)
	}
}

const toBlock = `<soap:Header><a:To xmlns:a="http://www.w3.org/2005/08/addressing">urn:gw</a:To></soap:Header><soap:Body>`

var withTo = strings.Replace(env11, "<soap:Body>", toBlock, 1)

// TestWSATo: wsa:To is the address of the node that gets the message, for each
// node that is tried, whatever way the message takes.
func TestWSATo(t *testing.T) {
	for _, way := range []string{"whole", "streaming", "streaming, known length", "spooled"} {
		for _, canonical := range []bool{false, true} {
			t.Run(way, func(t *testing.T) {
				first, second := newNode("http://one.test/a"), newNode("http://two.test/b")
				want := strings.Replace(withTo, "urn:gw", "http://two.test/b/x", 1)
				body := withTo
				r := Route{WSATo: true, Match: Match{Path: "/depot/*"}}
				if canonical {
					r.Normalize = soapcodec.Canonical
				}
				if way != "whole" {
					filler := "<p:x>" + strings.Repeat("0123456789abcdef", 20<<10) + "</p:x></p:Ask>"
					body, want = strings.Replace(body, "</p:Ask>", filler, 1), strings.Replace(want, "</p:Ask>", filler, 1)
					r.Limits.Buffer = 64 << 10
				}
				if way == "spooled" {
					first.name, second.name = "framed://one.test:1", "framed://two.test:2"
					want = strings.Replace(want, "http://two.test/b/x", "framed://two.test:2", 1)
				}
				first.unread = true
				first.answer = always(nil, &SendError{Class: NotSent, Err: errDial})
				r.Backend = &Backend{Name: "b", Nodes: []Node{first, second}}
				second.load = 100 // so that the other one is tried first
				ex := exchange("text/xml", body)
				ex.Target = "/depot/x?q"
				if way != "streaming, known length" {
					ex.Length = -1
				}
				g := serve(t, one(t, r), ex)
				g.wantAnswer(t, 200, reply11)
				s := second.last(t)
				if s.body != want {
					t.Errorf("the node got\n%.600s, want\n%.600s", s.body, want)
				}
				if s.Length >= 0 && s.Length != int64(len(s.body)) {
					t.Errorf("Length is %d of %d octets", s.Length, len(s.body))
				}
				if n := len(first.got); n != 1 {
					t.Errorf("the first node was tried %d times", n)
				}
			})
		}
	}
}

// TestMark: nodes learn id, attempt and duplicate from a header block, framed
// ones too, and a block of the caller's is not believed.
func TestMark(t *testing.T) {
	forged := strings.Replace(env11, "<soap:Body>", `<soap:Header><d:Delivery xmlns:d="urn:soapway:delivery"><d:Id>forged</d:Id></d:Delivery></soap:Header><soap:Body>`, 1)
	n := newNode("framed://node.test:1")
	h := one(t, Route{Mark: true}, n)
	for _, body := range []string{env11, forged} {
		ex := exchange("text/xml", body)
		serve(t, h, ex).wantAnswer(t, 200, reply11)
		want := strings.Replace(env11, "<soap:Body>", "<soap:Header>"+string(soapcodec.DeliveryMark(soapcodec.Delivery{ID: ex.ID}))+"</soap:Header><soap:Body>", 1)
		if got := n.last(t).body; got != want {
			t.Errorf("the node got\n%s, want\n%s", got, want)
		}
	}
	s := &shelf{}
	h = storing(t, s, Route{Mark: true}, n)
	ex := exchange("text/xml", forged)
	if g := serve(t, h, ex); g.Status != 202 {
		t.Fatalf("got %d, want 202", g.Status)
	}
	for _, try := range []Try{{Attempt: 1}, {Attempt: 2, PossibleDuplicate: true}} {
		h.Deliver(t.Context(), s.kept[0], try)
		want := string(soapcodec.DeliveryMark(soapcodec.Delivery{ID: ex.ID, Attempt: try.Attempt, PossibleDuplicate: try.PossibleDuplicate}))
		if got := n.last(t); !strings.Contains(got.body, want) || strings.Contains(got.body, "forged") || got.Length != int64(len(got.body)) {
			t.Errorf("the node got %s of length %d, want in it %s", got.body, got.Length, want)
		}
	}
}

// TestSignedForTry: a signed message that a try would have to change is refused
// when it comes, and dies if the route has only changed since.
func TestSignedForTry(t *testing.T) {
	signed := strings.Replace(withTo, "</soap:Header>", `<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/></w:Security></soap:Header>`, 1)
	n := newNode("http://node.test/x")
	serve(t, one(t, Route{WSATo: true}, n), exchange("text/xml", signed)).wantFault(t, v11, soapcodec.CodeSigned)
	serve(t, one(t, Route{Translate: v12}, n), exchange("text/xml", signed)).wantFault(t, v11, soapcodec.CodeSigned)
	large := exchange("text/xml", strings.Replace(signed, ">x<", ">"+strings.Repeat("x", 200<<10)+"<", 1))
	serve(t, one(t, Route{WSATo: true, Limits: Limits{Buffer: 64 << 10}}, n), large).wantFault(t, v11, soapcodec.CodeSigned)
	serve(t, one(t, Route{}, n), exchange("text/xml", signed)).wantAnswer(t, 200, reply11)
	if len(n.got) != 1 {
		t.Errorf("the node got %d messages, want 1", len(n.got))
	}
	s := &shelf{}
	serve(t, storing(t, s, Route{}, n), exchange("text/xml", signed))
	h := storing(t, s, Route{WSATo: true}, n)
	if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != VerdictDead || r.Maybe || !strings.Contains(r.Reason, "Signed") {
		t.Errorf("Deliver: got %+v, want a dead message", r)
	}
}

func TestStrictRoute(t *testing.T) {
	good := []string{"SOAPAction", `"urn:a"`}
	for _, c := range []struct {
		name, typ, body string
		fields          []string
		framed, good    bool
		version         soapcodec.Version
	}{
		{name: "good", typ: "text/xml; charset=utf-8", body: env11, fields: good, good: true, version: v11},
		{name: "good 1.2", typ: "application/soap+xml", body: env12, good: true, version: v12},
		{name: "good, framed", body: env11, framed: true, good: true, version: v11},
		{name: "good, UTF-16", typ: "text/xml; charset=utf-16", body: markedUTF16(env11), fields: good, good: true, version: v11},
		{name: "no SOAPAction", typ: "text/xml", body: env11, version: v11},
		{name: "unquoted SOAPAction", typ: "text/xml", body: env11, fields: []string{"SOAPAction", "urn:a"}, version: v11},
		{name: "other media type", typ: "application/soap+xml", body: env11, fields: good, version: v11},
		{name: "other media type 1.2", typ: "text/xml", body: env12, version: v12},
		{name: "charset", typ: "text/xml; charset=iso-8859-1", body: env11, fields: good, version: v11},
		{name: "labels", typ: "text/xml; charset=utf-8", body: "<?xml version='1.0' encoding='iso-8859-1'?>" + env11, fields: good, version: v11},
		{name: "framed, labels", body: "\xEF\xBB\xBF<?xml version='1.0' encoding='iso-8859-1'?>" + env11, framed: true, version: v11},
		{name: "elements after Body", typ: "text/xml", body: strings.Replace(env11, "</soap:Body>", "</soap:Body><x/>", 1), fields: good, version: v11},
	} {
		for _, large := range []bool{false, true} {
			name := c.name
			body := c.body
			r := Route{Strict: true}
			if large {
				if strings.Contains(name, "UTF-16") {
					continue
				}
				name += ", large"
				r.Limits.Buffer = 32 << 10
				body = strings.Replace(body, ">x<", ">"+strings.Repeat("x", 200<<10)+"<", 1)
			}
			t.Run(name, func(t *testing.T) {
				n := newNode("http://node.test/x")
				ex := exchange(c.typ, body, c.fields...)
				if c.framed {
					ex.Framed, ex.Header, ex.Target = true, nil, ""
				}
				g := serve(t, one(t, r, n), ex)
				if c.good {
					g.wantAnswer(t, 200, reply11)
					return
				}
				g.wantFault(t, c.version, soapcodec.CodeStrict)
			})
		}
	}
}

// TestCanonical: a message goes on in canonical form, a signed one too; one
// whose signature could notice goes on as it is and is counted.
func TestCanonical(t *testing.T) {
	const loose = "<?xml version='1.0'?>\n<!-- a --><soap:Envelope  xmlns:soap='http://schemas.xmlsoap.org/soap/envelope/' ><soap:Body><p:Ask b='2' a='1' xmlns:p='urn:depot'>&#233;<![CDATA[<]]><q/></p:Ask></soap:Body></soap:Envelope>\n"
	const tight = "<!-- a -->\n<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"><soap:Body><p:Ask xmlns:p=\"urn:depot\" a=\"1\" b=\"2\">é&lt;<q></q></p:Ask></soap:Body></soap:Envelope>"
	private := strings.Replace(loose, "<soap:Body>", "<soap:Header><d:Transform Algorithm='urn:ours' xmlns:d='http://www.w3.org/2000/09/xmldsig#'/></soap:Header><soap:Body>", 1)
	late := strings.Replace(loose, "<q/>", "<d:Transform Algorithm='urn:ours' xmlns:d='http://www.w3.org/2000/09/xmldsig#'/>", 1)
	for _, c := range []struct {
		name, typ, body, want string
		translate             soapcodec.Version
		skipped, large        bool
		wantType              string
	}{
		{name: "whole", typ: "text/xml", body: loose, want: tight, wantType: "text/xml"},
		{name: "US-ASCII", typ: "text/xml; charset=us-ascii", body: loose, want: tight, wantType: "text/xml; charset=utf-8"},
		{name: "large", typ: "text/xml; charset=us-ascii", body: loose, want: tight, large: true, wantType: "text/xml; charset=utf-8"},
		{name: "translated", typ: "text/xml", body: loose, want: in12(tight), translate: v12, wantType: "application/soap+xml; charset=utf-8"},
		{name: "translated, large", typ: "text/xml", body: loose, want: in12(tight), translate: v12, large: true, wantType: "application/soap+xml; charset=utf-8"},
		{name: "private", typ: "text/xml", body: private, want: private, skipped: true, wantType: "text/xml"},
		{name: "private, large", typ: "text/xml", body: private, want: private, skipped: true, large: true, wantType: "text/xml"},
		{name: "private, late", typ: "text/xml", body: late, want: late, skipped: true, wantType: "text/xml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/x")
			body, want := c.body, c.want
			r := Route{Normalize: soapcodec.Canonical, Translate: c.translate}
			if c.large {
				r.Limits.Buffer = 32 << 10
				more := ">" + strings.Repeat("0123456789abcdef", 20<<10) + "&amp;</p:Ask>"
				body, want = strings.Replace(body, "></p:Ask>", more, 1), strings.Replace(want, "></p:Ask>", more, 1)
			}
			ex := exchange(c.typ, body, "Content-MD5", "x")
			ex.Body = iotest.OneByteReader(ex.Body)
			h := one(t, r, n)
			var o observed
			h.opt.Observer = &o
			serve(t, h, ex)
			s := n.last(t)
			if s.body != want {
				t.Errorf("the node got\n%.500s, want\n%.500s", s.body, want)
			}
			if got := s.Header.Get("Content-Type"); got != c.wantType && c.translate == soapcodec.V0 || c.translate != soapcodec.V0 && got != c.wantType {
				t.Errorf("Content-Type: got %q, want %q", got, c.wantType)
			}
			if o.exchanges[0].NormalizeSkipped != c.skipped {
				t.Errorf("NormalizeSkipped: got %t, want %t", o.exchanges[0].NormalizeSkipped, c.skipped)
			}
			if (s.Header.Get("Content-Md5") != "") != (c.skipped && !c.large) {
				t.Errorf("Content-MD5: got %q", s.Header.Get("Content-Md5"))
			}
		})
	}
}

// TestEditReader: edits are made whatever the reads are.
func TestEditReader(t *testing.T) {
	doc := []byte("0123456789")
	edits := []soapcodec.Edit{{Start: 0, End: 0, With: []byte("a")}, {Start: 2, End: 4}, {Start: 5, End: 6, With: []byte("xyz")}, {Start: 10, End: 10, With: []byte("!")}}
	want := string(soapcodec.Apply(nil, doc, edits))
	for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		for _, outer := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader} {
			r := &editReader{src: wrap(bytes.NewReader(doc)), edits: edits}
			got, err := io.ReadAll(outer(r))
			if err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	broken := errors.New("broken")
	r := &editReader{src: io.MultiReader(bytes.NewReader(doc[:5]), iotest.ErrReader(broken)), edits: edits}
	if got, err := io.ReadAll(r); !errors.Is(err, broken) || string(got) != "a014" {
		t.Errorf("of a broken source: got %q, %v", got, err)
	}
}

// Translated faults do not lose the status that the binding asks for when their
// head is all that is known.
func TestFaultStatusUnknown(t *testing.T) {
	if got := (&soapcodec.FaultFacts{}).Status(v12); got != http.StatusInternalServerError {
		t.Errorf("Status of an unknown fault: got %d", got)
	}
}
