package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"soapway/internal/field"
	"soapway/soapcodec"
)

func TestGoodExchange(t *testing.T) {
	n := newNode("http://node.test/svc")
	h := one(t, Route{Match: Match{Path: "/depot"}, Backend: &Backend{Nodes: []Node{n}, HostClient: true}})
	ex := exchange("text/xml; charset=utf-8", env11, "SOAPAction", `"urn:a"`)
	ex.Target = "/depot?a=%20b&"
	g := serve(t, h, ex)
	g.wantAnswer(t, 200, reply11)
	if g.CloseConnection || g.Version != soapcodec.V11 || g.Code != "" {
		t.Errorf("reply: %+v", g.Reply)
	}
	if v := g.Header.Get("Via"); v != "1.1 gateway" {
		t.Errorf("reply: Via is %q", v)
	}
	s := n.last(t)
	if s.body != env11 || s.Length != int64(len(env11)) || s.Method != "POST" || s.Once {
		t.Errorf("the node got %s, Length %d, Once %v, body %q", s.Method, s.Length, s.Once, s.body)
	}
	if s.Rest != "" || s.Query != "a=%20b&" || !s.HasQuery || s.Host != "gw.test" || s.Version != soapcodec.V11 {
		t.Errorf("the node got rest %q, query %q %v, host %q, version %v", s.Rest, s.Query, s.HasQuery, s.Host, s.Version)
	}
	if got := spelled(s.Header, soapActionName); len(got) != 1 || got[0] != `"urn:a"` {
		t.Errorf("the node got SOAPAction %q", got)
	}
	id, err := uuid.Parse(s.Header.Get("Gateway-Message-Id"))
	if err != nil || id.Version() != 7 || s.ID != id.String() || ex.ID != s.ID {
		t.Errorf("the node got id %q, Gateway-Message-Id %v, %v", s.ID, id, err)
	}
	if s.Timeouts.Answer == 0 || s.Timeouts.Connect == 0 {
		t.Errorf("the node got timeouts %+v", s.Timeouts)
	}
}

// TestRefusals: what is refused without an envelope, and without reading the body.
func TestRefusals(t *testing.T) {
	n := newNode("http://node.test/svc")
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{Name: "get", Match: Match{Path: "/web/*"}, Methods: []string{"GET", "PUT"}, Backend: &Backend{Nodes: []Node{n}}},
		{Name: "op", Match: Match{Path: "/op", Operation: soapcodec.QName{Space: "urn:depot", Local: "Other"}}, Backend: &Backend{Nodes: []Node{n}}},
		{Name: "depot", Match: Match{Path: "/depot", Host: "gw.test"}, Limits: Limits{MaxMessage: 1000, HeaderBytes: 2000}, Backend: &Backend{Nodes: []Node{n}}},
		{Name: "fixed", MatchNone: true, Backend: &Backend{Nodes: []Node{n}}},
	}}), Options{})
	for _, c := range []struct {
		name   string
		change func(*Exchange)
		status int
		code   soapcodec.Code
		header [2]string
		reads  bool // the body had to be read
	}{
		{name: "bad target", change: func(ex *Exchange) { ex.Target = "/depot/../x" }, status: 400},
		{name: "asterisk", change: func(ex *Exchange) { ex.Target, ex.Method = "*", "OPTIONS" }, status: 400},
		{name: "no route", change: func(ex *Exchange) { ex.Target = "/other" }, status: 404, code: "NoRoute"},
		{name: "other host", change: func(ex *Exchange) { ex.Host = "x.test" }, status: 404, code: "NoRoute"},
		{name: "other host in the target", change: func(ex *Exchange) { ex.Target = "http://x.test/depot" }, status: 404, code: "NoRoute"},
		{name: "unknown fixed route", change: func(ex *Exchange) { ex.Route = "gone" }, status: 404, code: "NoRoute"},
		{name: "reserved", change: func(ex *Exchange) { ex.Target = "/_gateway/messages/1" }, status: 404, code: "NoRoute"},
		{name: "reserved on a fixed route", change: func(ex *Exchange) { ex.Target, ex.Route = "/_site/v1", "fixed" }, status: 404, code: "NoRoute"},
		{name: "GET", change: func(ex *Exchange) { ex.Method = "GET" }, status: 405, header: [2]string{"Allow", "POST"}},
		{name: "HEAD", change: func(ex *Exchange) { ex.Method = "HEAD" }, status: 405, header: [2]string{"Allow", "POST"}},
		{name: "post in lower case", change: func(ex *Exchange) { ex.Method = "post" }, status: 405, header: [2]string{"Allow", "POST"}},
		{name: "DELETE where GET passes", change: func(ex *Exchange) { ex.Method, ex.Target = "DELETE", "/web/x" }, status: 405, header: [2]string{"Allow", "POST, GET, PUT"}},
		{name: "GET where the operation decides", change: func(ex *Exchange) { ex.Method, ex.Target = "GET", "/op" }, status: 405, header: [2]string{"Allow", "POST"}},
		{name: "wsdl without WSDLPass", change: func(ex *Exchange) { ex.Method, ex.Target = "GET", "/depot?wsdl" }, status: 405, header: [2]string{"Allow", "POST"}},
		{name: "media type", change: func(ex *Exchange) { ex.Header.Set("Content-Type", "application/json") }, status: 415},
		{name: "no media type at all", change: func(ex *Exchange) { ex.Header.Set("Content-Type", "xml") }, status: 415},
		{name: "two media types", change: func(ex *Exchange) { ex.Header.Add("Content-Type", "text/xml") }, status: 415},
		{name: "coding", change: func(ex *Exchange) { ex.Header.Set("Content-Encoding", "snappy") }, status: 415, header: [2]string{"Accept-Encoding", "gzip, deflate, zstd, br"}},
		{name: "two codings", change: func(ex *Exchange) { ex.Header.Set("Content-Encoding", "gzip, br") }, status: 415, header: [2]string{"Accept-Encoding", "gzip, deflate, zstd, br"}},
		{name: "announced too large", change: func(ex *Exchange) { ex.Length = 1001 }, status: 413, code: "TooLarge"},
		{name: "fields too large", change: func(ex *Exchange) { ex.Header.Set("X-Big", strings.Repeat("x", 2000)) }, status: 431, code: "TooLarge"},
		{name: "target too large", change: func(ex *Exchange) { ex.Target += "?" + strings.Repeat("x", 2000) }, status: 431, code: "TooLarge"},
		{name: "chunked too large", change: func(ex *Exchange) { ex.Length, ex.Body = -1, strings.NewReader(strings.Repeat(" ", 5000)) }, status: 413, code: "TooLarge", reads: true},
		{name: "other operation", change: func(ex *Exchange) { ex.Target = "/op" }, status: 404, code: "NoRoute", reads: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex := exchange("text/xml; charset=utf-8", env11)
			read := false
			body := ex.Body
			ex.Body = readerFunc(func(p []byte) (int, error) { read = true; return body.Read(p) })
			c.change(ex)
			if c.reads && ex.Length < 0 {
				read = true
			}
			g := serve(t, h, ex)
			g.wantPlain(t, c.status, c.code)
			if read != c.reads {
				t.Errorf("the body was read: %v, want %v", read, c.reads)
			}
			if k := c.header[0]; k != "" && g.Header.Get(k) != c.header[1] {
				t.Errorf("%s: got %q, want %q", k, g.Header.Get(k), c.header[1])
			}
			if c.status == 413 && !g.CloseConnection {
				t.Error("413: the connection is not closed")
			}
		})
	}
	if len(n.got) != 0 {
		t.Errorf("the node got %d requests", len(n.got))
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestBadMessages: faults of the message, in its version.
func TestBadMessages(t *testing.T) {
	const v11, v12 = soapcodec.V11, soapcodec.V12
	for _, c := range []struct {
		name, typ, body string
		fields          []string
		route           Route
		length          int64 // added to that of body
		version         soapcodec.Version
		code            soapcodec.Code
		closes          bool
	}{
		{name: "not XML", typ: "text/xml", body: "hello", version: v11, code: "NotWellFormed"},
		{name: "not XML, 1.2 by media type", typ: "application/soap+xml", body: "hello", version: v12, code: "NotWellFormed"},
		{name: "no media type", body: "hello", version: v11, code: "NotWellFormed"},
		{name: "mismatch", typ: "text/xml", body: strings.Replace(env12, "</p:Ask>", "</p:Tell>", 1), version: v12, code: "NotWellFormed"},
		{name: "doctype", typ: "text/xml", body: "<!DOCTYPE a>" + env11, version: v11, code: "Doctype"},
		{name: "empty", typ: "text/xml", body: "", version: v11, code: "InvalidEnvelope"},
		{name: "empty 1.2", typ: "application/soap+xml", body: "", version: v12, code: "InvalidEnvelope"},
		{name: "unknown namespace", typ: "application/soap+xml", body: `<a:Envelope xmlns:a="urn:x"/>`, version: v12, code: "VersionMismatch"},
		{name: "version not accepted", typ: "application/soap+xml", body: env12, route: Route{Accept11: true}, version: v12, code: "VersionMismatch"},
		{name: "unknown charset", typ: "text/xml; charset=klingon", body: env11, version: v11, code: "Charset"},
		{name: "undecodable", typ: "text/xml; charset=utf-8", body: strings.Replace(env11, ">x<", ">\xff<", 1), version: v11, code: "Charset"},
		{name: "undecodable UTF-16", typ: "text/xml; charset=utf-16", body: "\xff\xfe<\x00a", version: v11, code: "Charset"},
		{name: "not coded", typ: "text/xml", body: env11, fields: []string{"Content-Encoding", "gzip"}, version: v11, code: "ContentEncoding"},
		{name: "short", typ: "text/xml", body: env11[:50], length: 10, version: v11, code: "Incomplete", closes: true},
		{name: "short 1.2", typ: "application/soap+xml", body: env12[:50], length: 10, version: v12, code: "Incomplete", closes: true},
		{name: "complete and short", typ: "text/xml", body: env11, length: 1, version: v11, code: "Incomplete", closes: true},
		{name: "depth", typ: "text/xml", body: strings.Replace(env11, "x<", strings.Repeat("<a>", 300)+strings.Repeat("</a>", 300)+"<", 1), version: v11, code: "Limit"},
		{
			name: "not understood", typ: "text/xml", route: Route{Node: true}, version: v11, code: "MustUnderstand",
			body: strings.Replace(env11, "<soap:Body>", `<soap:Header><h:a xmlns:h="urn:h" soap:mustUnderstand="1" soap:actor="http://schemas.xmlsoap.org/soap/actor/next"/></soap:Header><soap:Body>`, 1),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			h := one(t, c.route, n)
			ex := exchange(c.typ, c.body, c.fields...)
			if c.length > 0 {
				ex.Length += c.length
				ex.Body = io.MultiReader(ex.Body, readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
			}
			g := serve(t, h, ex)
			g.wantFault(t, c.version, c.code)
			if g.CloseConnection != c.closes {
				t.Errorf("CloseConnection: got %v, want %v", g.CloseConnection, c.closes)
			}
			if len(n.got) != 0 {
				t.Error("the node got the message")
			}
		})
	}
}

func utf16le(s string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, r := range s {
		b.WriteByte(byte(r))
		b.WriteByte(byte(r >> 8))
	}
	return b.String()
}

// TestRequestOctets: which octets and which Content-Type reach the node.
func TestRequestOctets(t *testing.T) {
	hop := strings.Replace(env12, "<env:Body>", `<env:Header><h:a xmlns:h="urn:h" env:role="http://www.w3.org/2003/05/soap-envelope/role/next"/></env:Header><env:Body>`, 1)
	for _, c := range []struct {
		name, typ, body string
		coding          string
		route           Route
		wantTyp, want   string
	}{
		{name: "as it came", typ: "Text/XML ;charset=\"UTF-8\";", body: "\ufeff" + env11 + "\r\n", wantTyp: "Text/XML ;charset=\"UTF-8\";", want: "\ufeff" + env11 + "\r\n"},
		{name: "wrong media type stays", typ: "text/xml; charset=utf-8", body: env12, wantTyp: "text/xml; charset=utf-8", want: env12},
		{name: "no media type", body: env11, want: env11},
		{name: "UTF-16", typ: `application/soap+xml; charset=utf-16; action="urn:a;b"`, body: utf16le(env12), wantTyp: `application/soap+xml; charset=utf-8; action="urn:a;b"`, want: env12},
		{name: "Latin-1 by label", typ: "text/xml; charset=ISO-8859-1", body: strings.Replace(env11, ">x<", ">\xe9<", 1), wantTyp: "text/xml; charset=utf-8", want: strings.Replace(env11, ">x<", ">é<", 1)},
		{name: "UTF-16 without a label", typ: "text/xml", body: utf16le(env11), wantTyp: "text/xml", want: env11},
		{name: "mark over label", typ: "text/xml; charset=iso-8859-1", body: "\ufeff" + env11, wantTyp: "text/xml; charset=utf-8", want: "\ufeff" + env11},
		{name: "mark over US-ASCII", typ: "text/xml; charset=us-ascii", body: "\ufeff" + env11, wantTyp: "text/xml; charset=utf-8", want: "\ufeff" + env11},
		{name: "gzip", typ: "text/xml", coding: "gzip", body: env11, wantTyp: "text/xml", want: env11},
		{name: "zstd", typ: "text/xml", coding: "zstd", body: env11, wantTyp: "text/xml", want: env11},
		{name: "normalized", typ: "text/xml", body: strings.Replace(env11, "<soap:Body>", " <!-- c --><soap:Body  >", 1), route: Route{Normalize: soapcodec.Envelope}, wantTyp: "text/xml", want: env11},
		{name: "node", typ: "application/soap+xml", body: hop, route: Route{Node: true}, wantTyp: "application/soap+xml", want: strings.Replace(env12, "<env:Body>", "<env:Header></env:Header><env:Body>", 1)},
		{name: "keep and no node", typ: "application/soap+xml", body: hop, wantTyp: "application/soap+xml", want: hop},
	} {
		for _, buffer := range []int64{0, 40} { // whole, and as a stream
			r := c.route
			r.Limits.Buffer = buffer
			if buffer > 0 && (r.Node || r.Normalize != soapcodec.Keep) {
				r.Limits.Buffer = int64(len(c.body) - 20) // edits need the head
			}
			n := newNode("http://node.test/svc")
			ex := exchange(c.typ, string(encode(t, c.coding, []byte(c.body))), "Content-Md5", "x")
			if c.coding != "" {
				ex.Header.Set("Content-Encoding", c.coding)
			}
			g := serve(t, one(t, r, n), ex)
			g.wantAnswer(t, 200, reply11)
			if len(n.got) == 0 {
				t.Errorf("%s: nothing was sent: %s", c.name, g.body)
				continue
			}
			s := n.last(t)
			if s.body != c.want || s.Header.Get("Content-Type") != c.wantTyp || s.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s, buffer %d: the node got %q with type %q, want %q with %q", c.name, buffer, s.body, s.Header.Get("Content-Type"), c.want, c.wantTyp)
			}
			if s.Length >= 0 && s.Length != int64(len(c.want)) {
				t.Errorf("%s, buffer %d: Length is %d, want %d", c.name, buffer, s.Length, len(c.want))
			}
			if changed := c.want != c.body || c.coding != ""; !changed && s.Header.Get("Content-Md5") == "" || changed && s.Header.Get("Content-Md5") != "" {
				t.Errorf("%s, buffer %d: Content-MD5 is %q", c.name, buffer, s.Header.Get("Content-Md5"))
			}
		}
	}
}

func TestChoiceByEnvelope(t *testing.T) {
	var nodes []*node
	add := func(name string, m Match, max int64) Route {
		n := newNode("http://node.test/" + name)
		nodes = append(nodes, n)
		return Route{Name: name, Match: m, Limits: Limits{MaxMessage: max}, Backend: &Backend{Name: name, Nodes: []Node{n}}}
	}
	q := func(local string) soapcodec.QName { return soapcodec.QName{Space: "urn:depot", Local: local} }
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		add("tell", Match{Path: "/depot", Operation: q("Tell")}, 0),
		add("action", Match{Path: "/depot", Action: "urn:act"}, 0),
		add("ask", Match{Path: "/depot", Operation: q("Ask")}, 400),
		add("rest", Match{Path: "/*"}, 0),
	}}), Options{})
	for _, c := range []struct {
		name, typ, body string
		fields          []string
		want            string
		status          int
	}{
		{name: "operation", typ: "text/xml", body: env11, want: "ask", status: 200},
		{name: "earlier operation", typ: "text/xml", body: strings.ReplaceAll(env11, "Ask", "Tell"), fields: []string{"SOAPAction", "urn:act"}, want: "tell", status: 200},
		{name: "SOAPAction", typ: "text/xml", body: env11, fields: []string{"SOAPAction", `"urn:act"`}, want: "action", status: 200},
		{name: "action parameter", typ: `application/soap+xml; action="urn:act"`, body: env12, want: "action", status: 200},
		{name: "no operation", typ: "text/xml", body: `<a:Envelope xmlns:a="http://schemas.xmlsoap.org/soap/envelope/"><a:Body/></a:Envelope>`, want: "rest", status: 200},
		{name: "other namespace", typ: "text/xml", body: strings.ReplaceAll(env11, "urn:depot", "urn:other"), want: "rest", status: 200},
		{name: "the chosen route's own limit", typ: "text/xml", body: env11 + strings.Repeat(" ", 400), status: 413},
		{name: "the limit of a route not chosen", typ: "text/xml", body: strings.ReplaceAll(env11, "Ask", "Tell") + strings.Repeat(" ", 400), want: "tell", status: 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := serve(t, h, exchange(c.typ, c.body, c.fields...))
			if g.Status != c.status {
				t.Errorf("got %d %s, want %d", g.Status, g.body, c.status)
			}
			for i, n := range nodes {
				if name := []string{"tell", "action", "ask", "rest"}[i]; (len(n.got) == 1) != (name == c.want) {
					t.Errorf("route %s got %d requests, want route %q", name, len(n.got), c.want)
				}
				n.got = nil
			}
		})
	}
}

func TestPassThrough(t *testing.T) {
	html := "<html>" + strings.Repeat("not a soap message ", 100)
	n := newNode("http://node.test/web")
	n.answer = always(respond(200, "text/html", html, "Etag", "x"), nil)
	h := one(t, Route{Match: Match{Path: "/web/*"}, Methods: []string{"PUT", "HEAD"}, WSDLPass: true}, n)
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/web/svc?wsdl", ""}, {"GET", "/web/svc?a=b&xsd=1", ""}, {"PUT", "/web/x", "{json}"},
	} {
		n.answer = always(respond(200, "text/html", html, "Etag", "x"), nil)
		ex := exchange("application/json", c.body, "Content-Encoding", "snappy", "Accept-Encoding", "gzip")
		ex.Method, ex.Target = c.method, c.target
		g := serve(t, h, ex)
		g.wantAnswer(t, 200, html)
		s := n.last(t)
		if s.Method != c.method || s.body != c.body || s.Header.Get("Content-Encoding") != "snappy" || s.Length != int64(len(c.body)) {
			t.Errorf("%s %s: the node got %s, %q", c.method, c.target, s.Method, s.body)
		}
		if g.Header.Get("Etag") != "x" || g.Header.Get("Content-Type") != "text/html" {
			t.Errorf("%s %s: fields %v", c.method, c.target, g.Header)
		}
	}
	// HEAD has no body and keeps the length.
	n.answer = always(&Response{Status: 200, Header: field.List{}, Length: 77}, nil)
	ex := exchange("", "")
	ex.Method, ex.Target = "HEAD", "/web/x?wsdl"
	if g := serve(t, h, ex); g.Status != 200 || g.Body != nil || g.Length != 77 {
		t.Errorf("HEAD: got %+v", g.Reply)
	}
	// An error in the middle cuts the caller.
	n.answer = always(&Response{Status: 200, Header: field.List{}, Length: -1, Body: io.NopCloser(&chunks{parts: [][]byte{[]byte("ab")}, err: io.ErrUnexpectedEOF})}, nil)
	ex = exchange("", "")
	ex.Method, ex.Target = "GET", "/web/x?wsdl"
	if g := serve(t, h, ex); g.body != "ab" || !errors.Is(g.err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut page: got %q, %v", g.body, g.err)
	}
	// The size of an unchecked body is limited too.
	small := one(t, Route{Methods: []string{"PUT"}, Limits: Limits{MaxMessage: 10}}, newNode("http://node.test"))
	for _, length := range []int64{11, -1} {
		ex := exchange("", strings.Repeat("x", 11))
		ex.Method, ex.Length = "PUT", length
		serve(t, small, ex).wantPlain(t, 413, "TooLarge")
	}
}

func TestEmptyPost(t *testing.T) {
	n := newNode("http://node.test/acs")
	n.answer = always(&Response{Status: 204, Header: field.Of(http.Header{"Set-Cookie": {"a=b"}})}, nil)
	ex := exchange("", "", "Cookie", "c=d")
	g := serve(t, one(t, Route{EmptyPost: true}, n), ex)
	if g.Status != 204 || g.Body != nil || g.Header.Get("Set-Cookie") != "a=b" {
		t.Errorf("got %+v", g.Reply)
	}
	s := n.last(t)
	if s.body != "" || s.Length != 0 || s.Header.Get("Content-Type") != "" || spelled(s.Header, soapActionName) != nil || s.Header.Get("Cookie") != "c=d" {
		t.Errorf("the node got %+v, %v", s, s.Header)
	}
}

func TestTrustedProxy(t *testing.T) {
	n := newNode("http://node.test/svc")
	h := NewHandler(mustCompile(t, TableOptions{
		Routes:         []Route{{Name: "r", Match: Match{Path: "/depot"}, Backend: &Backend{Nodes: []Node{n}}}},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}), Options{})
	location := func(client string) (string, field.List) {
		n.answer = always(respond(307, "", "", "Location", "http://node.test/svc?x"), nil)
		ex := exchange("text/xml", env11, "X-Forwarded-Proto", "https", "X-Forwarded-Host", "pub.test", "Gateway-Attempt", "3")
		ex.Client = netip.MustParseAddrPort(client)
		g := serve(t, h, ex)
		return g.Header.Get("Location"), n.last(t).Header
	}
	if got, h := location("[::ffff:192.0.2.1]:9"); got != "https://pub.test/depot?x" || h.Get("Gateway-Attempt") != "3" || h.Get("X-Forwarded-Host") != "pub.test" {
		t.Errorf("trusted: Location %q, fields %v", got, h)
	}
	if got, h := location("198.51.100.1:9"); got != "http://gw.test/depot?x" || h.Get("Gateway-Attempt") != "" || h.Get("X-Forwarded-Host") != "gw.test" {
		t.Errorf("not trusted: Location %q, fields %v", got, h)
	}
}

func TestSwapLeavesExchangesAlone(t *testing.T) {
	first, second := newNode("http://node.test/1"), newNode("http://node.test/2")
	table := func(n Node) *Table {
		return mustCompile(t, TableOptions{Routes: []Route{{Name: "r", Backend: &Backend{Nodes: []Node{n}}}}})
	}
	h := NewHandler(table(first), Options{})
	ex := exchange("text/xml", env11)
	body := ex.Body
	ex.Body = readerFunc(func(p []byte) (int, error) { h.Swap(table(second)); return body.Read(p) })
	serve(t, h, ex).wantAnswer(t, 200, reply11)
	serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11)
	if len(first.got) != 1 || len(second.got) != 1 {
		t.Errorf("the nodes got %d and %d requests, want 1 and 1", len(first.got), len(second.got))
	}
}

func TestPanic(t *testing.T) {
	n := newNode("http://node.test/svc")
	n.answer = func(context.Context, *Request) (*Response, error) { panic("internal secret node.test") }
	var log strings.Builder
	h := one(t, Route{}, n)
	h.opt.Log = textLog(&log)
	g := serve(t, h, exchange("text/xml", env11))
	g.wantFault(t, soapcodec.V11, soapcodec.CodeInternal)
	if !g.CloseConnection {
		t.Error("the connection is not closed")
	}
	if s := log.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "internal secret") || !strings.Contains(s, "handler_test.go") {
		t.Errorf("log: %s", s)
	}
}
