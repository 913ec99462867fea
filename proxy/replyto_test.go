package proxy

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"soapway/soapcodec"
)

func TestParseAnswerAddress(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want answerAddress
		err  error
	}{
		{"http://a", answerAddress{"http://a", "/", "", false}, nil},
		{"HTTPS://A.Example:443/x/y?q#", answerAddress{}, errAddressForm},
		{"HTTPS://A.Example:443/x/Y?q=%2f", answerAddress{"https://a.example", "/x/Y", "q=%2f", true}, nil},
		{"http://a:443?", answerAddress{"http://a:443", "/", "", true}, nil},
		{"https://a:80/", answerAddress{"https://a:80", "/", "", false}, nil},
		{"http://[::1]:80/", answerAddress{"http://[::1]", "/", "", false}, nil},
		{"http://[::1]:8080/", answerAddress{"http://[::1]:8080", "/", "", false}, nil},
		{"http://a:", answerAddress{}, errAddressForm},
		{"http://a:0", answerAddress{}, errAddressForm},
		{"http://a:080", answerAddress{}, errAddressForm},
		{"http://a:65536", answerAddress{}, errAddressForm},
		{"http://a:+80", answerAddress{}, errAddressForm},
		{"http://a:x@b/", answerAddress{}, errAddressUser},
		{"http://:80/", answerAddress{}, errAddressForm},
		{"http:///x", answerAddress{}, errAddressForm},
		{"http:/a", answerAddress{}, errAddressScheme},
		{"file:///etc/passwd", answerAddress{}, errAddressScheme},
		{"framed://a:1", answerAddress{}, errAddressScheme},
		{"a/b", answerAddress{}, errAddressScheme},
		{"http://a/%2e%2e/b", answerAddress{}, errAddressForm},
		{"http://a\\@b/", answerAddress{}, errAddressForm},
		{"http://a/\r\nX: y", answerAddress{}, errAddressForm},
		{"http://\u00e9/", answerAddress{}, errAddressForm},
		{"http://a/" + strings.Repeat("x", maxAnswerAddress), answerAddress{}, errAddressLong},
	} {
		if got, err := parseAnswerAddress(tt.in); !errors.Is(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("parseAnswerAddress(%.60q): got %+v, %v, want %+v, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// asking is a message that asks for its answer at http://caller/in.
func asking(body string) string {
	return `<s:Envelope xmlns:s="` + soapcodec.NS11 + `" xmlns:a="http://www.w3.org/2005/08/addressing"><s:Header><a:MessageID>urn:1</a:MessageID><a:ReplyTo><a:Address>http://caller/in?q</a:Address></a:ReplyTo></s:Header><s:Body>` + body + `</s:Body></s:Envelope>`
}

// replying makes r a route whose answers may go to http://caller, at a node.
func replying(r Route, caller Node) Route {
	r.ReplyTo, r.ReplyAt = true, []*Backend{{Name: "http://caller", Nodes: []Node{caller}}}
	return r
}

// TestAnswerMessage: the answer as the receiver gets it, whatever form the service gave it.
func TestAnswerMessage(t *testing.T) {
	const blocks = `<wsa:To xmlns:wsa="http://www.w3.org/2005/08/addressing">http://caller/in?q</wsa:To><wsa:RelatesTo xmlns:wsa="http://www.w3.org/2005/08/addressing">urn:1</wsa:RelatesTo>`
	added := strings.Replace(reply11, "<s:Body>", "<s:Header>"+blocks+"</s:Header><s:Body>", 1)
	reply12 := strings.ReplaceAll(reply11, soapcodec.NS11, soapcodec.NS12)
	latin := strings.Replace(reply11, `<r:Told xmlns:r="urn:depot"/>`, "<r:Told xmlns:r=\"urn:depot\">\xe9</r:Told>", 1)
	has := strings.Replace(reply11, "<s:Body>", `<s:Header xmlns:a="http://www.w3.org/2005/08/addressing"><a:To>x</a:To><a:RelatesTo>y</a:RelatesTo><a:Action>urn:"done"</a:Action></s:Header><s:Body>`, 1)
	signed := strings.Replace(reply11, "<s:Body>", `<s:Header Id="h"><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/></w:Security></s:Header><s:Body>`, 1)
	packed := func(root string) string {
		return "--b\r\nContent-Type: text/xml; charset=utf-8\r\nContent-ID: <root>\r\n\r\n" + root + "\r\n--b\r\nContent-ID: <a>\r\n\r\n\x00\xff\r\n--b--\r\n"
	}
	const packedType = `multipart/related; type="text/xml"; start="<root>"; boundary=b`
	framed := respond(200, "", reply11)
	framed.Framed = true
	clientFault := fault11Of("s:Client")
	for _, tt := range []struct {
		name            string
		route           Route
		resp            *Response
		typ, want       string
		action          string // SOAPAction
		verdict         Verdict
		nothing, second bool
	}{
		{name: "plain", resp: respond(200, "text/xml", reply11), typ: "text/xml", want: added, action: `""`},
		{name: "marked", resp: respond(200, "text/xml", reply11), typ: "text/xml", want: added, action: `""`, second: true},
		{name: "has all", resp: respond(200, "text/xml", has), typ: "text/xml", want: has, action: `"urn:%22done%22"`},
		{name: "signed as a whole", resp: respond(200, "text/xml", signed), typ: "text/xml", want: signed, action: `""`},
		{
			name: "another charset", resp: respond(200, "text/xml; charset=iso-8859-1", latin), typ: "text/xml; charset=utf-8",
			want: strings.Replace(added, `<r:Told xmlns:r="urn:depot"/>`, `<r:Told xmlns:r="urn:depot">é</r:Told>`, 1), action: `""`,
		},
		{name: "a content coding", resp: respond(200, "text/xml", string(encode(t, "gzip", []byte(reply11))), "Content-Encoding", "gzip"), typ: "text/xml", want: added, action: `""`},
		{name: "framed", resp: framed, typ: "text/xml; charset=utf-8", want: added, action: `""`},
		{name: "translated", route: Route{Translate: soapcodec.V12}, resp: respond(200, "application/soap+xml", reply12), typ: "text/xml; charset=utf-8", want: added, action: `""`},
		{name: "attachments", resp: respond(200, packedType, packed(reply11)), typ: packedType, want: packed(added), action: `""`},
		{name: "a fault", resp: respond(500, "text/xml", clientFault), typ: "text/xml", verdict: VerdictDead, want: strings.Replace(clientFault, "<s:Body>", "<s:Header>"+blocks+"</s:Header><s:Body>", 1), action: `""`},
		{name: "a fault that is tried again", resp: respond(500, "text/xml", fault11Of("s:Server")), verdict: VerdictRetry, nothing: true},
		{name: "nothing", resp: respond(202, "", ""), nothing: true},
		{name: "no envelope", resp: respond(404, "text/html", "<html>"), verdict: VerdictDead, nothing: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, caller := newNode("http://n"), newNode("http://caller/")
			n.answer, caller.answer = always(tt.resp, nil), always(respond(202, "", ""), nil)
			s := &shelf{}
			h := storing(t, s, replying(tt.route, caller), n)
			if g := serve(t, h, exchange("text/xml", asking(`<o:Ask xmlns:o="urn:depot"/>`))); g.Status != 202 || !s.kept[0].Forwards {
				t.Fatalf("not stored: %d %s", g.Status, g.body)
			}
			r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1, PossibleDuplicate: tt.second})
			if r.Verdict != tt.verdict || r.Kept != nil || (r.Next == nil) != tt.nothing {
				t.Fatalf("Deliver: got %+v", r)
			}
			if tt.nothing {
				return
			}
			next := r.Next
			if next.Route != s.kept[0].Route+"@http:caller" || next.Backend != "http://caller" || string(next.Body) != tt.want {
				t.Errorf("got for %s, %s:\n%s\nwant\n%s", next.Route, next.Backend, next.Body, tt.want)
			}
			next.ID = "01900000-0000-7000-8000-000000000001"
			if r := h.Deliver(t.Context(), next, Try{Attempt: 3}); r.Verdict != VerdictDelivered || r.Next != nil {
				t.Fatalf("Deliver of the answer: got %+v", r)
			}
			sent := caller.last(t)
			if sent.Path != "/in" || sent.Query != "q" || !sent.HasQuery || sent.body != tt.want ||
				sent.Header.Get("Content-Type") != tt.typ || sent.Header.Get(soapActionName) != tt.action ||
				sent.Header.Get(messageID) != next.ID || sent.Header.Get(attemptField) != "3" || sent.Header.Get(duplicateField) != map[bool]string{true: "true"}[tt.second] {
				t.Errorf("the receiver got %s?%s %v\n%s", sent.Path, sent.Query, sent.Header, sent.body)
			}
		})
	}
}

// TestAnswersStayOnTheirRoutes: neither an answer by the way of requests, nor a
// request by that of answers, nor an answer by that of another place.
func TestAnswersStayOnTheirRoutes(t *testing.T) {
	n, caller, other := newNode("http://n"), newNode("http://caller/"), newNode("http://other/")
	n.answer = always(respond(200, "text/xml", reply11), nil)
	s := &shelf{}
	route := replying(Route{}, caller)
	route.ReplyAt = append(route.ReplyAt, &Backend{Name: "http://other", Nodes: []Node{other}})
	h := storing(t, s, route, n)
	serve(t, h, exchange("text/xml", asking(`<o:Ask xmlns:o="urn:depot"/>`)))
	request := s.kept[0]
	r := h.Deliver(t.Context(), request, Try{Attempt: 1})
	answer := r.Next
	for _, tt := range []struct {
		name  string
		m     Stored
		route string
	}{
		{"an answer as a request", *answer, request.Route},
		{"a request as an answer", *request, answer.Route},
		{"an answer for another place", *answer, AnswerRoute(request.Route, "http://other")},
	} {
		tt.m.Route = tt.route
		if r := h.Deliver(t.Context(), &tt.m, Try{Attempt: 1}); r.Verdict != VerdictDead || r.Maybe {
			t.Errorf("%s: got %+v, want a dead letter", tt.name, r)
		}
	}
	answer.Route = AnswerRoute(request.Route, "http://gone")
	if r := h.Deliver(t.Context(), answer, Try{Attempt: 1}); r.Verdict != VerdictAborted {
		t.Errorf("an answer for a place that is not allowed any more: got %+v", r)
	}
	if len(n.got)+len(caller.got)+len(other.got) != 1 {
		t.Errorf("%d requests, %d answers and %d to another place were sent", len(n.got), len(caller.got), len(other.got))
	}
}

// TestAskWherePackage: the root of a message with attachments says where the answer goes.
func TestAskWherePackage(t *testing.T) {
	n, caller := newNode("http://n"), newNode("http://caller/")
	n.answer = always(respond(200, "text/xml", reply11), nil)
	s := &shelf{}
	h := storing(t, s, replying(Route{}, caller), n)
	send := func(root string) got {
		return serve(t, h, exchange(`multipart/related; type="text/xml"; boundary=b`,
			"--b\r\nContent-Type: text/xml\r\n\r\n"+root+"\r\n--b\r\nContent-ID: <a>\r\n\r\nx\r\n--b--\r\n"))
	}
	root := asking(`<o:Ask xmlns:o="urn:depot"/>`)
	if g := send(root); g.Status != 202 || len(s.kept) != 1 {
		t.Fatalf("got %d %s", g.Status, g.body)
	}
	if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Next == nil || r.Next.Route != s.kept[0].Route+"@http:caller" {
		t.Errorf("Deliver: got %+v", r)
	}
	if g := send(strings.Replace(root, "//caller/", "//evil/", 1)); g.Code != soapcodec.CodeInvalidAddress || len(s.kept) != 1 {
		t.Errorf("another host: got %d %s", g.Status, g.body)
	}
}

// FuzzParseAnswerAddress: whatever passes goes to the host that net/url sees too.
func FuzzParseAnswerAddress(f *testing.F) {
	for _, s := range []string{"http://a/b?c", "https://A:443", "http://[::1]:8/", "http://u@a", "http://a:1@b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAnswerAddress(s)
		if err != nil {
			return
		}
		scheme, authority := a.split()
		u, err := url.Parse(s)
		if err == nil && (u.User != nil || !(nodeURL{scheme: scheme, authority: authority}).at(u.Scheme, u.Host)) {
			t.Errorf("parseAnswerAddress(%q): got %+v, net/url sees %q", s, a, u.Host)
		}
		if again, err := parseAnswerAddress(a.origin); err != nil || again.origin != a.origin {
			t.Errorf("parseAnswerAddress(%q): got %+v, %v", a.origin, again, err)
		}
	})
}
