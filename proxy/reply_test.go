package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"soapway/internal/field"
	"soapway/soapcodec"
)

func TestAnswersPassUnchanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		resp   *Response
		status int
		body   string
		fault  bool
	}{
		{name: "200", resp: respond(200, "text/xml", reply11), status: 200, body: reply11},
		{name: "fault in 200", resp: respond(200, "text/xml", fault11), status: 200, body: fault11, fault: true},
		{name: "fault in 500", resp: respond(500, "text/xml", fault11), status: 500, body: fault11, fault: true},
		{name: "fault in 400", resp: respond(400, "application/soap+xml; action=\"urn:f\"", fault12), status: 400, body: fault12, fault: true},
		{name: "fault in 503", resp: respond(503, "text/xml", fault11), status: 503, body: fault11, fault: true},
		{name: "no media type", resp: respond(200, "", reply11), status: 200, body: reply11},
		{name: "202 with an envelope", resp: respond(202, "text/xml", reply11), status: 202, body: reply11},
		{name: "202", resp: respond(202, "text/xml", ""), status: 202},
		{name: "202 chunked", resp: &Response{Status: 202, Header: field.Of(http.Header{"Content-Type": {"text/html"}}), Body: io.NopCloser(strings.NewReader("")), Length: -1}, status: 202},
		{name: "200 chunked and coded, empty", resp: &Response{Status: 200, Header: field.Of(http.Header{"Content-Encoding": {"gzip"}}), Body: io.NopCloser(strings.NewReader("")), Length: -1}, status: 200},
		{name: "204", resp: &Response{Status: 204, Header: field.List{}}, status: 204},
		{name: "204 whatever it says", resp: respond(204, "text/xml", "x"), status: 204},
		{name: "200 empty", resp: respond(200, "", ""), status: 200},
		{name: "500 empty", resp: respond(500, "", ""), status: 500},
		{name: "UTF-16", resp: respond(200, "text/xml; charset=utf-16", utf16le(reply11)), status: 200, body: utf16le(reply11)},
		{name: "mark and blanks", resp: respond(200, "text/xml", "\ufeff"+reply11+"\n"), status: 200, body: "\ufeff" + reply11 + "\n"},
		{name: "other version than asked", resp: respond(200, "application/soap+xml", strings.Replace(env12, "Ask", "Told", 2)), status: 200, body: strings.Replace(env12, "Ask", "Told", 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o observed
			n := newNode("http://node.test/svc")
			fields := c.resp.Header.Clone()
			n.answer = always(c.resp, nil)
			h := one(t, Route{}, n)
			h.opt.Observer = &o
			g := serve(t, h, exchange("text/xml", env11))
			g.wantAnswer(t, c.status, c.body)
			for k, v := range fields.HTTP() {
				if got := g.Header.Values(k); len(got) != len(v) || got[0] != v[0] {
					t.Errorf("%s: got %q, want %q", k, got, v)
				}
			}
			want := OutcomeAnswered
			if c.fault {
				want = OutcomeFault
			}
			if o.exchanges[0].Outcome != want {
				t.Errorf("observed %s, want %s", o.exchanges[0].Outcome, want)
			}
		})
	}
}

func TestCodedReplies(t *testing.T) {
	for _, name := range []string{"gzip", "deflate", "zstd", "br"} {
		n := newNode("http://node.test/svc")
		raw := string(encode(t, name, []byte(reply11)))
		n.answer = always(respond(200, "text/xml", raw, "Content-Encoding", name), nil)
		g := serve(t, one(t, Route{}, n), exchange("text/xml", env11))
		g.wantAnswer(t, 200, raw)
		if g.Header.Get("Content-Encoding") != name {
			t.Errorf("%s: Content-Encoding is %q", name, g.Header.Get("Content-Encoding"))
		}
		n.answer = always(respond(200, "text/xml", raw[:len(raw)-1], "Content-Encoding", name), nil)
		serve(t, one(t, Route{}, n), exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
		n.answer = always(respond(200, "text/xml", string(encode(t, name, []byte("<html/>"))), "Content-Encoding", name), nil)
		serve(t, one(t, Route{}, n), exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
	}
}

func TestBadAnswers(t *testing.T) {
	cutAfter := func(err error) *Response {
		return &Response{
			Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Length: -1,
			Body: io.NopCloser(&chunks{parts: [][]byte{[]byte(reply11[:40])}, err: err}),
		}
	}
	for _, c := range []struct {
		name  string
		resp  *Response
		route Route
		code  soapcodec.Code
	}{
		{name: "HTML in 200", resp: respond(200, "text/html", "<html/>"), code: "BackendNotSOAP"},
		{name: "HTML in 503", resp: respond(503, "text/html", "<html/>", "Retry-After", "2"), code: "BackendNotSOAP"},
		{name: "HTML of unknown length", resp: &Response{Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/html"}}), Body: io.NopCloser(strings.NewReader("x")), Length: -1}, code: "BackendNotSOAP"},
		{name: "HTML labelled XML", resp: respond(200, "text/xml", "<html><br></html>"), code: "BackendNotSOAP"},
		{name: "XML, but no envelope", resp: respond(200, "text/xml", "<a/>"), code: "BackendNotSOAP"},
		{name: "doctype", resp: respond(200, "text/xml", "<!DOCTYPE a>"+reply11), code: "BackendNotSOAP"},
		{name: "too deep", resp: respond(200, "text/xml", strings.Replace(env11, ">x<", ">"+strings.Repeat("<a>", 300)+strings.Repeat("</a>", 300)+"<", 1)), code: "BackendNotSOAP"},
		{name: "undecodable", resp: respond(200, "text/xml", strings.Replace(env11, ">x<", ">\xff<", 1)), code: "BackendNotSOAP"},
		{name: "unknown coding", resp: respond(200, "text/xml", reply11, "Content-Encoding", "snappy"), code: "BackendNotSOAP"},
		{name: "not what its coding says", resp: respond(200, "text/xml", reply11, "Content-Encoding", "gzip"), code: "BackendNotSOAP"},
		{name: "cut", resp: cutAfter(io.ErrUnexpectedEOF), code: "BackendBroken"},
		{name: "ends too early", resp: cutAfter(io.EOF), code: "BackendNotSOAP"},
		{name: "stalls", resp: cutAfter(&SendError{Class: Maybe, Timeout: true, Err: errDial}), code: "BackendTimeout"},
		{name: "stalls, by deadline", resp: cutAfter(os.ErrDeadlineExceeded), code: "BackendTimeout"},
		{name: "announced too large", resp: respond(200, "text/xml", reply11+strings.Repeat(" ", 500)), route: Route{Limits: Limits{MaxMessage: 400}}, code: "ReplyTooLarge"},
		{name: "bomb", resp: respond(200, "text/xml", string(encode(t, "gzip", []byte(reply11+strings.Repeat(" ", 500)))), "Content-Encoding", "gzip"), route: Route{Limits: Limits{MaxMessage: 400}}, code: "ReplyTooLarge"},
		{name: "empty on a two-way route", resp: respond(200, "", ""), route: Route{OneWay: OneWayNo}, code: "BackendNotSOAP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			n.answer = always(c.resp, nil)
			var log strings.Builder
			h := one(t, c.route, n)
			h.opt.Log = textLog(&log)
			serve(t, h, exchange("text/xml", env11)).wantFault(t, soapcodec.V11, c.code)
			if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "level=WARN") || !strings.Contains(s, "code="+string(c.code)) {
				t.Errorf("log: %s", s)
			}
		})
	}
}

func TestStatusWithoutContent(t *testing.T) {
	for _, c := range []struct {
		name   string
		resp   *Response
		want   http.Header // nil value: absent
		status int
	}{
		{
			name:   "401",
			resp:   respond(401, "text/html", "<html>", "Www-Authenticate", `Basic realm="a"`, "Www-Authenticate", "Negotiate", "Server", "internal"),
			status: 401, want: http.Header{"Www-Authenticate": {`Basic realm="a"`, "Negotiate"}, "Server": nil, "Content-Type": nil},
		},
		{name: "429", resp: respond(429, "text/plain", "slow", "Retry-After", "9"), status: 429, want: http.Header{"Retry-After": {"9"}}},
		{name: "405", resp: respond(405, "application/json", "{}", "Allow", "GET"), status: 405, want: http.Header{"Allow": {"GET"}}},
		{name: "404 labelled XML", resp: respond(404, "text/xml", "<html/>"), status: 404, want: http.Header{"Content-Type": nil}},
		{
			name:   "302",
			resp:   respond(302, "text/html", "<html>", "Location", "http://node.test/svc/x", "Set-Cookie", "a=b", "Content-Language", "nl"),
			status: 302, want: http.Header{"Location": {"http://gw.test/depot/x"}, "Set-Cookie": {"a=b"}, "Content-Type": nil, "Content-Language": nil},
		},
		{name: "307 without content", resp: respond(307, "", "", "Location", "/svc"), status: 307, want: http.Header{"Location": {"/depot"}}},
		{name: "307 elsewhere", resp: respond(307, "", "", "Location", "http://169.254.10.10/latest"), status: 307, want: http.Header{"Location": {"http://169.254.10.10/latest"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			n.answer = always(c.resp, nil)
			h := one(t, Route{Match: Match{Path: "/depot/*"}}, n)
			g := serve(t, h, exchange("text/xml", env11))
			g.wantAnswer(t, c.status, "")
			for k, v := range c.want {
				got := g.Header.Values(k)
				if len(got) != len(v) || len(v) > 0 && strings.Join(got, "|") != strings.Join(v, "|") {
					t.Errorf("%s: got %q, want %q", k, got, v)
				}
			}
		})
	}
}

func TestFramedNode(t *testing.T) {
	framed := func(body string) *Response {
		return &Response{Status: 200, Header: field.List{}, Body: io.NopCloser(strings.NewReader(body)), Length: int64(len(body)), Framed: true}
	}
	for _, c := range []struct {
		name, typ string
		resp      *Response
		status    int
		body      string
	}{
		{name: "1.1", resp: framed(reply11), status: 200, typ: "text/xml; charset=utf-8", body: reply11},
		{name: "1.2", resp: framed(env12), status: 200, typ: "application/soap+xml; charset=utf-8", body: env12},
		{name: "UTF-16", resp: framed(utf16le(env12)), status: 200, typ: "application/soap+xml; charset=utf-16", body: utf16le(env12)},
		{name: "fault 1.1", resp: framed(fault11), status: 500, typ: "text/xml; charset=utf-8", body: fault11},
		{name: "sender fault 1.2", resp: framed(fault12), status: 400, typ: "application/soap+xml; charset=utf-8", body: fault12},
		{name: "receiver fault 1.2", resp: framed(strings.Replace(fault12, "Sender", "Receiver", 1)), status: 500, typ: "application/soap+xml; charset=utf-8", body: strings.Replace(fault12, "Sender", "Receiver", 1)},
		{name: "zero length", resp: &Response{Status: 202, Framed: true}, status: 202},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode("framed://node.test:7000")
			n.answer = always(c.resp, nil)
			g := serve(t, one(t, Route{}, n), exchange("text/xml", env11))
			g.wantAnswer(t, c.status, c.body)
			if got := g.Header.Get("Content-Type"); got != c.typ {
				t.Errorf("Content-Type: got %q, want %q", got, c.typ)
			}
			if s := n.last(t); s.Length != int64(len(env11)) {
				t.Errorf("the node got Length %d", s.Length)
			}
		})
	}
	n := newNode("framed://node.test:7000")
	n.answer = always(framed("rubbish"), nil)
	serve(t, one(t, Route{}, n), exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
}

// framedExchange is a message as a framed listener takes it.
func framedExchange(body string) *Exchange {
	return &Exchange{Framed: true, Method: "POST", Body: strings.NewReader(body), Length: int64(len(body))}
}

func TestFramedCaller(t *testing.T) {
	const actioned = `<e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope"><e:Header><a:Action xmlns:a="http://www.w3.org/2005/08/addressing">urn:act</a:Action></e:Header><e:Body/></e:Envelope>`
	path, byAction, rest := newNode("http://node.test/p"), newNode("http://node.test/a"), newNode("http://node.test/r")
	tab := TableOptions{Routes: []Route{
		{Name: "path", Match: Match{Path: "/*"}, Backend: &Backend{Nodes: []Node{path}}},
		{Name: "host", Match: Match{Host: "gw.test"}, Backend: &Backend{Nodes: []Node{path}}},
		{Name: "field", Match: Match{Headers: map[string]string{"X": "1"}}, Backend: &Backend{Nodes: []Node{path}}},
		{Name: "action", Match: Match{Action: "urn:act"}, Backend: &Backend{Nodes: []Node{byAction}}},
		{Name: "fixed", MatchNone: true, Match: Match{Action: "never"}, Backend: &Backend{Nodes: []Node{path}}},
	}}
	h := NewHandler(mustCompile(t, tab), Options{})

	serve(t, h, framedExchange(actioned)).wantAnswer(t, 200, reply11)
	s := byAction.last(t)
	if got := s.Header.Get("Content-Type"); got != `application/soap+xml; charset=utf-8; action="urn:act"` || spelled(s.Header, soapActionName) != nil || s.Rest != "" || s.HasQuery {
		t.Errorf("the node got %v, rest %q", s.Header, s.Rest)
	}
	serve(t, h, framedExchange(env11)).wantPlain(t, 404, "NoRoute")

	ex := framedExchange(utf16le(env11))
	ex.Route = "fixed"
	serve(t, h, ex).wantAnswer(t, 200, reply11)
	if s := path.last(t); s.body != env11 || s.Header.Get("Content-Type") != "text/xml; charset=utf-8" || spelled(s.Header, soapActionName)[0] != `""` {
		t.Errorf("the node got %q with %v", s.body, s.Header)
	}

	tab.Routes = append(tab.Routes, Route{Name: "rest", Limits: Limits{MaxMessage: 300}, Backend: &Backend{Nodes: []Node{rest}}})
	h.Swap(mustCompile(t, tab))
	serve(t, h, framedExchange(env11)).wantAnswer(t, 200, reply11)
	if len(rest.got) != 1 {
		t.Errorf("route rest got %d requests", len(rest.got))
	}
	serve(t, h, framedExchange("<a/>")).wantFault(t, soapcodec.V11, soapcodec.CodeVersionMismatch)
	serve(t, h, framedExchange("rubbish")).wantFault(t, soapcodec.V11, soapcodec.CodeNotWellFormed)
	big := framedExchange(env11 + strings.Repeat(" ", 300))
	g := serve(t, h, big)
	g.wantPlain(t, 413, "TooLarge")
	if g.CloseConnection {
		t.Error("a message that is too large for its route closes a framed connection")
	}

	for _, c := range []struct {
		name string
		resp *Response
		body string
		code soapcodec.Code
	}{
		{name: "gzip", resp: respond(200, "text/xml", string(encode(t, "gzip", []byte(reply11))), "Content-Encoding", "gzip"), body: reply11},
		{name: "Latin-1", resp: respond(200, "text/xml; charset=iso-8859-1", strings.Replace(reply11, "<r:Told xmlns:r=\"urn:depot\"/>", "<r xmlns=''>\xe9</r>", 1)), body: strings.Replace(reply11, "<r:Told xmlns:r=\"urn:depot\"/>", "<r xmlns=''>é</r>", 1)},
		{name: "fault", resp: respond(500, "text/xml", fault11), body: fault11},
		{name: "202", resp: respond(202, "", "")},
		{name: "200 empty", resp: respond(200, "", "")},
		{name: "chunked and coded, empty", resp: &Response{Status: 200, Header: field.Of(http.Header{"Content-Encoding": {"gzip"}}), Body: io.NopCloser(strings.NewReader("")), Length: -1}},
		{name: "500 empty", resp: respond(500, "", ""), code: "BackendNotSOAP"},
		{name: "401", resp: respond(401, "text/html", "x"), code: "BackendNotSOAP"},
		{name: "302", resp: respond(302, "", "", "Location", "/x"), code: "BackendNotSOAP"},
	} {
		rest.answer = always(c.resp, nil)
		g := serve(t, h, framedExchange(env11))
		if c.code != "" {
			g.wantFault(t, soapcodec.V11, c.code)
		} else if g.body != c.body || g.Length != int64(len(c.body)) || g.Code != "" {
			t.Errorf("%s: got %q, Length %d, code %q, want %q", c.name, g.body, g.Length, g.Code, c.body)
		}
	}
}

// TestLargeReplyToFramedCaller: it is checked before a frame begins, and its
// length is known.
func TestLargeReplyToFramedCaller(t *testing.T) {
	big := []byte(strings.Replace(reply11, "<r:Told", "<!--"+strings.Repeat("c", 300_000)+"--><r:Told", 1))
	for _, bad := range []bool{false, true} {
		body := big
		if bad {
			body = bytes.Replace(big, []byte("</s:Envelope>"), []byte("</s:Envelop>"), 1)
		}
		n := newNode("http://node.test/r")
		n.answer = always(&Response{Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}), Body: io.NopCloser(bytes.NewReader(body)), Length: -1}, nil)
		g := serve(t, one(t, Route{Limits: Limits{Buffer: 1000}}, n), framedExchange(env11))
		if bad {
			g.wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
		} else if g.body != string(big) || g.Length != int64(len(big)) || g.err != nil {
			t.Errorf("got %d octets, Length %d, %v, want %d", len(g.body), g.Length, g.err, len(big))
		}
	}
}

func TestLogHasNoSecrets(t *testing.T) {
	n := newNode("http://node.test/svc")
	n.answer = always(nil, &SendError{Class: NotSent, Err: errors.New("dial 10.0.0.5")})
	var log strings.Builder
	h := one(t, Route{}, n)
	h.opt.Log = textLog(&log)
	ex := exchange("text/xml", strings.Replace(env11, ">x<", ">BODYSECRET<", 1), "Authorization", "Basic HEADERSECRET", "Cookie", "HEADERSECRET")
	ex.Target = "/depot?token=QUERYSECRET"
	serve(t, h, ex)
	bad := exchange("text/xml", strings.Replace(env11, ">x<", "><BODYSECRET<", 1))
	serve(t, h, bad)
	s := log.String()
	if strings.Contains(s, "SECRET") {
		t.Errorf("the log has secrets: %s", s)
	}
	for _, want := range []string{"id=" + ex.ID, "route=r", "code=BackendUnavailable", "dial 10.0.0.5", "level=WARN", "level=INFO", "code=NotWellFormed", "path=/depot", "client=192.0.2.7:4000"} {
		if !strings.Contains(s, want) {
			t.Errorf("the log does not say %q: %s", want, s)
		}
	}
}
