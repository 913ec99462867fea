package proxy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"soapway/proxy/guard"
	"soapway/soapcodec"
)

// packageAround is a package with root as its second part.
func packageAround(fields, root string, size int) *shape {
	return &shape{line: "\r\n", fields: fields, root: []byte(root), before: [][]byte{[]byte("Content-ID: <a@b>\r\n\r\n" + strings.Repeat("0123456789abcdef", size/16))}}
}

const (
	fields11 = "Content-Type: application/xop+xml; type=\"text/xml\"\r\nContent-ID: <root@depot.test>\r\n"
	fields12 = "Content-Type: application/xop+xml; type=\"application/soap+xml\"\r\nContent-ID: <root@depot.test>\r\n"
)

// TestPackageSettings: what the other settings of a route make of a message with
// attachments, in memory and streaming.
func TestPackageSettings(t *testing.T) {
	to := strings.Replace(withTo, "urn:gw", "http://node.test/svc", 1)
	loose := strings.Replace(env11, "<p:Ask", "<p:Ask  a = '1'", 1)
	op := soapcodec.QName{Space: "urn:depot", Local: "Ask"}
	for _, c := range []struct {
		name         string
		fields, root string
		want         string // root at the node; "" = the message is refused
		typ          string
		route        Route
		code         soapcodec.Code
		status       int
		header       []string
	}{
		{name: "by operation", fields: fields11, root: env11, want: env11, route: Route{Match: Match{Operation: op}}},
		{name: "other operation", fields: fields11, root: env11, route: Route{Match: Match{Operation: soapcodec.QName{Local: "x"}}}, status: 404, code: "NoRoute"},
		{name: "action of the root", fields: strings.Replace(fields11, "text/xml\"", "text/xml\"; action=\"urn:1\"", 1), root: env11, want: env11, route: Route{Match: Match{Action: "urn:1"}}},
		{name: "version", fields: fields12, root: env12, route: Route{Accept11: true}, code: "VersionMismatch"},
		{name: "wsa:To", fields: fields11, root: withTo, want: to, route: Route{WSATo: true}},
		{name: "add", fields: fields11, root: env11, want: strings.Replace(env11, "<soap:Body>", "<soap:Header><x:a xmlns:x=\"urn:x\"/></soap:Header><soap:Body>", 1), route: Route{Add: []byte("<x:a xmlns:x=\"urn:x\"/>")}},
		{name: "canonical", fields: fields11, root: loose, want: strings.Replace(env11, "<p:Ask xmlns:p=\"urn:depot\"", "<p:Ask xmlns:p=\"urn:depot\" a=\"1\"", 1), route: Route{Normalize: soapcodec.Canonical}},
		{name: "strict", fields: fields11, root: env11, want: env11, route: Route{Strict: true}, header: []string{"SOAPAction", `""`}},
		{name: "strict, no SOAPAction", fields: fields11, root: env11, route: Route{Strict: true}, code: "Strict"},
		{name: "strict, no start-info", fields: fields11, root: env11, typ: strings.Replace(relatedType, `; start-info="text/xml"`, "", 1), route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
		{name: "strict, no type", fields: fields11, root: env11, typ: strings.Replace(relatedType, `type="application/xop+xml"; `, "", 1), route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
		{name: "strict, other type", fields: strings.Replace(fields11, "text/xml", "application/soap+xml", 1), root: env11, route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
		{name: "strict, Latin-1", fields: strings.Replace(fields11, "; type", "; charset=iso-8859-1; type", 1), root: env11, route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
	} {
		for _, size := range []int{160, 400_000} {
			n := newNode("http://node.test/svc")
			s := packageAround(c.fields, c.root, size)
			typ := relatedType
			if c.typ != "" {
				typ = c.typ
			}
			c.route.Limits.Buffer = 64 << 10
			ex := exchange(typ, string(s.bytes()), c.header...)
			g := serve(t, one(t, c.route, n), ex)
			name := fmt.Sprintf("%s, %d octets", c.name, size)
			switch {
			case c.want != "":
				g.wantAnswer(t, 200, reply11)
				if len(n.got) != 1 {
					t.Errorf("%s: not forwarded: %d %s", name, g.Status, g.body)
					continue
				}
				if got, want := n.last(t).body, string(s.write(c.fields, []byte(c.want))); got != want {
					t.Errorf("%s: the node got %.900q, want %.900q", name, got[max(0, len(got)-900):], want[max(0, len(want)-900):])
				}
				continue
			case c.status != 0:
				g.wantPlain(t, c.status, c.code)
			case g.Code != c.code:
				t.Errorf("%s: got %d %s %s, want %s", name, g.Status, g.Code, g.body, c.code)
			}
			if c.code != "VersionMismatch" && len(n.got) > 0 || len(n.got) > 0 && n.last(t).err == nil {
				t.Errorf("%s: the node got it", name)
			}
		}
	}
}

// TestPackageToFramed: of two nodes the one that is not framed gets it; where all
// are framed nobody does, and a stored message dies.
func TestPackageToFramed(t *testing.T) {
	body := string(packageAround(fields11, env11, 16).bytes())
	refuses := always(nil, &SendError{Class: NotSent, Permanent: true, Err: ErrMultipart})
	framed, plain := newNode("framed://node.test:1"), newNode("http://node.test/svc")
	framed.unread, framed.answer = true, refuses
	plain.load = 100 // so that the framed one is asked first
	serve(t, one(t, Route{}, framed, plain), exchange(relatedType, body)).wantAnswer(t, 200, reply11)
	if len(framed.got) != 1 || !framed.got[0].Multipart || plain.last(t).body != body {
		t.Errorf("framed: %d times, plain: %q", len(framed.got), plain.last(t).body)
	}
	framed.got = nil
	serve(t, one(t, Route{}, framed), exchange(relatedType, body)).wantPlain(t, 415, "")
	if len(framed.got) > 0 {
		t.Error("a framed node was asked")
	}
	s := &shelf{}
	serve(t, storing(t, s, Route{}), exchange(relatedType, body)).wantPlain(t, 202, "")
	if r := storing(t, s, Route{}, framed).Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != VerdictDead || r.Maybe {
		t.Errorf("Deliver: got %+v, want a dead message", r)
	}
	serve(t, storing(t, s, Route{}, framed), exchange(relatedType, body)).wantPlain(t, 415, "")
}

// TestPackageDelivered: a stored message gets what a try writes into it, and an
// answer with attachments is an envelope like any other.
func TestPackageDelivered(t *testing.T) {
	body := packageAround(fields11, withTo, 1600)
	for _, c := range []struct {
		name string
		resp func() *Response
		want Verdict
	}{
		{"good", func() *Response {
			return respond(200, relatedType, string(packageAround(fields11, reply11, 100_000).bytes()))
		}, VerdictDelivered},
		{"gzip", func() *Response {
			return respond(200, relatedType, string(encode(t, "gzip", packageAround(fields11, reply11, 1000).bytes())), "Content-Encoding", "gzip")
		}, VerdictDelivered},
		{"a fault", func() *Response {
			return respond(500, relatedType, string(packageAround(fields11, fault11, 100).bytes()))
		}, VerdictRetry},
		{"no close delimiter", func() *Response {
			b := string(packageAround(fields11, reply11, 100).bytes())
			return respond(200, relatedType, b[:len(b)-3])
		}, VerdictRetry},
	} {
		s := &shelf{}
		n := newNode("http://node.test/svc")
		n.answer = always(c.resp(), nil)
		h := storing(t, s, Route{WSATo: true}, n)
		serve(t, h, exchange(relatedType, string(body.bytes()))).wantPlain(t, 202, "")
		if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != c.want {
			t.Errorf("%s: got %+v", c.name, r)
		}
		want := string(body.write(fields11, []byte(strings.Replace(withTo, "urn:gw", "http://node.test/svc", 1))))
		if got := n.last(t); got.body != want || got.Length != int64(len(want)) {
			t.Errorf("%s: the node got %q, Length %d, want %q", c.name, got.body, got.Length, want)
		}
	}
}

// TestPackageReplies: answers with attachments of every kind, for callers over
// HTTP and framed ones, who get none.
func TestPackageReplies(t *testing.T) {
	small, large := packageAround(fields11, reply11, 160).bytes(), packageAround(fields11, reply11, 400_000).bytes()
	for _, c := range []struct {
		name  string
		body  []byte
		code  soapcodec.Code // of the fault of the gateway
		cut   bool
		route Route
		typ   string
		coded bool
	}{
		{name: "small", body: small},
		{name: "large", body: large},
		{name: "small, coded", body: small, coded: true},
		{name: "large, coded", body: large, coded: true},
		{name: "cut", body: small[:len(small)-4], code: "BackendNotSOAP"},
		{name: "large, cut", body: large[:len(large)-4], cut: true},
		{name: "no boundary", body: small, typ: "multipart/related", code: "BackendNotSOAP"},
		{name: "root is no envelope", body: bytes.Replace(small, []byte("application/xop+xml"), []byte("text/html"), 1), code: "BackendNotSOAP"},
	} {
		n := newNode("http://node.test/svc")
		typ := relatedType
		if c.typ != "" {
			typ = c.typ
		}
		body := c.body
		resp := respond(200, typ, string(body))
		if c.coded {
			body = encode(t, "gzip", body)
			resp = respond(200, typ, string(body), "Content-Encoding", "gzip")
		}
		n.answer = always(resp, nil)
		c.route.Limits = Limits{Buffer: 64 << 10, DecodeRatio: -1}
		g := serve(t, one(t, c.route, n), exchange("text/xml", env11))
		switch {
		case c.code != "":
			g.wantFault(t, soapcodec.V11, c.code)
		case c.cut:
			if g.err == nil || len(g.body) > len(c.body)-holdBack {
				t.Errorf("%s: got %d of %d octets, %v, want the reply cut", c.name, len(g.body), len(c.body), g.err)
			}
		default:
			if g.Status != 200 || g.body != string(body) || g.err != nil || g.Header.Get("Content-Type") != relatedType {
				t.Errorf("%s: got %d, %d octets of %d, %v", c.name, g.Status, len(g.body), len(body), g.err)
			}
		}
		n.answer = always(respond(200, relatedType, string(small)), nil)
		serve(t, one(t, Route{}, n), framedExchange(env11)).wantFault(t, soapcodec.V11, "BackendNotSOAP")
	}
}

// TestPackageUsername: who has to prove itself in the envelope has to do so in
// the root, wherever that stands, before the node gets an octet.
func TestPackageUsername(t *testing.T) {
	users, err := guard.ReadUsernames(strings.NewReader("ann:secret"))
	if err != nil {
		t.Fatal(err)
	}
	const token = `<soap:Header><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><w:UsernameToken><w:Username>ann</w:Username><w:Password>secret</w:Password></w:UsernameToken></w:Security></soap:Header><soap:Body>`
	right := strings.Replace(env11, "<soap:Body>", token, 1)
	for _, c := range []struct {
		name, root string
		ok         bool
	}{
		{"right", right, true},
		{"right, in UTF-16", markedUTF16(right), true},
		{"wrong", strings.Replace(right, "secret", "Secret", 1), false},
		{"none", env11, false},
	} {
		for _, size := range []int{160, 400_000} {
			for _, match := range []Match{{}, {Operation: soapcodec.QName{Space: "urn:depot", Local: "Ask"}}} {
				n := newNode("http://node.test/svc")
				h := one(t, Route{Guard: keyed(t, guard.Options{Usernames: users}), Limits: Limits{Buffer: 64 << 10}, Match: match}, n)
				s := packageAround(fields11, c.root, size)
				// What stands in another part proves nothing.
				s.before = append(s.before, []byte("Content-Type: text/xml\r\nContent-ID: <b@b>\r\n\r\n"+right))
				g := serve(t, h, exchange(relatedType, string(s.bytes())))
				if c.ok && (g.Status != 200 || len(n.got) != 1 || n.got[0].err != nil) {
					t.Errorf("%s, %d octets: got %d %s", c.name, size, g.Status, g.body)
				}
				if !c.ok && (g.Code != soapcodec.CodeFailedAuthentication || len(n.got) > 0) {
					t.Errorf("%s, %d octets: got %d %s, %d requests at the node", c.name, size, g.Status, g.Code, len(n.got))
				}
			}
		}
	}
}

// TestPackageHeadIsBounded: a header without an end is not kept, whatever has to
// be known of it.
func TestPackageHeadIsBounded(t *testing.T) {
	head, _, _ := strings.Cut(env11, "<soap:Body>")
	n := newNode("http://node.test/svc")
	for name, r := range map[string]Route{
		"by operation": {Match: Match{Operation: soapcodec.QName{Local: "x"}}},
		"wsa:To":       {WSATo: true},
		"normalized":   {Normalize: soapcodec.Envelope},
		"converted":    {Node: true},
	} {
		r.Limits.Buffer = 64 << 10
		fields := fields11
		if name == "converted" {
			fields = strings.Replace(fields11, "; type", "; charset=iso-8859-1; type", 1)
		}
		begin := packageAround(fields, head+"<soap:Header><h:a xmlns:h='urn:h'>", 16).bytes()
		begin = begin[:bytes.LastIndex(begin, []byte("\r\n--b:1--"))]
		endless := &repeat{unit: []byte(strings.Repeat("<h:b>text</h:b>", 100)), left: 40_000}
		ex := exchange(relatedType, "")
		ex.Body, ex.Length = io.MultiReader(bytes.NewReader(begin), endless), -1
		serve(t, one(t, r, n), ex).wantFault(t, soapcodec.V11, "Limit")
		if endless.left < 39_000 {
			t.Errorf("%s: %d octets were read", name, (40_000-endless.left)*1500)
		}
	}
	if len(n.got) > 0 && n.last(t).err == nil {
		t.Error("the node got it")
	}
}
