package proxy

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/soapcodec"
)

// pack makes a message with attachments: fields of the root, the root, and an
// attachment of n octets before or behind it.
func pack(rootFields, root string, n int, rootLast bool) string {
	parts := []string{
		rootFields + "Content-ID: <root>\r\n\r\n" + root,
		"Content-Type: application/octet-stream\r\nContent-ID: <a>\r\n\r\n" + strings.Repeat("\x00\xFFoctets ", n/9+1),
	}
	if rootLast {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return "--b\r\n" + parts[0] + "\r\n--b\r\n" + parts[1] + "\r\n--b--\r\n"
}

// TestTranslatePackage: the root and all that names its media type are in the
// other version; attachments keep their octets, wherever they stand.
func TestTranslatePackage(t *testing.T) {
	type form struct{ outer, root string }
	mtom11 := form{`multipart/related; type="application/xop+xml"; start="<root>"; start-info="text/xml"; boundary=b`, "Content-Type: application/xop+xml; charset=utf-8; type=\"text/xml\"\r\n"}
	mtom12 := form{`multipart/related; type="application/xop+xml"; start="<root>"; start-info="application/soap+xml"; boundary=b`, "Content-Type: application/xop+xml; charset=utf-8; type=\"application/soap+xml\"\r\n"}
	swa11 := form{`multipart/related; type="text/xml"; start="<root>"; boundary=b`, "Content-Type: text/xml; charset=utf-8\r\nContent-Length: 145\r\n"}
	swa12 := form{`multipart/related; type="application/soap+xml"; start="<root>"; boundary=b`, "Content-Type: application/soap+xml; charset=utf-8\r\nContent-Length: 143\r\n"}
	if len(env11) != 145 || len(in12(env11)) != 143 {
		t.Fatalf("the documents have %d and %d octets", len(env11), len(in12(env11)))
	}
	for _, c := range []struct {
		name     string
		to       soapcodec.Version
		in, want form
	}{
		{"MTOM to 1.2", v12, mtom11, mtom12},
		{"MTOM to 1.1", v11, mtom12, mtom11},
		{"SwA to 1.2", v12, swa11, swa12},
		{"SwA to 1.1", v11, swa12, swa11},
	} {
		for _, large := range []bool{false, true} {
			for _, rootLast := range []bool{false, true} {
				t.Run(c.name, func(t *testing.T) {
					caller, service := env11, in12(env11)
					if c.to == v11 {
						caller, service = service, caller
					}
					n := 100
					r := Route{Translate: c.to, Limits: Limits{Buffer: 64 << 10}}
					if large {
						n = 400 << 10
					}
					outer, wantOuter := c.in.outer, c.want.outer
					var fields []string
					if c.to == v12 {
						fields = []string{"SOAPAction", `"urn:a"`}
						wantOuter += `; action="urn:a"`
					} else {
						outer += `; action="urn:a"`
					}
					node := newNode("http://node.test/svc")
					reply := pack(c.want.root, service, 100, false)
					node.answer = func(context.Context, *Request) (*Response, error) {
						return respond(200, c.want.outer, reply, "ETag", "x"), nil
					}
					ex := exchange(outer, pack(c.in.root, caller, n, rootLast), fields...)
					ex.Body = iotest.HalfReader(ex.Body)
					g := serve(t, one(t, r, node), ex)
					s := node.last(t)
					if want := pack(c.want.root, service, n, rootLast); s.body != want {
						t.Errorf("the node got\n%.700q, want\n%.700q", s.body, want)
					}
					if got := s.Header.Get("Content-Type"); got != wantOuter {
						t.Errorf("the node got Content-Type\n%s, want\n%s", got, wantOuter)
					}
					if got := spelled(s.Header, soapActionName); c.to == v11 && (len(got) != 1 || got[0] != `"urn:a"`) || c.to == v12 && len(got) > 0 {
						t.Errorf("the node got SOAPAction %q", got)
					}
					if want := pack(c.in.root, caller, 100, false); g.Status != 200 || g.body != want || g.Header.Get("Content-Type") != c.in.outer || g.Header.Get("ETag") != "" {
						t.Errorf("the caller got %d %v\n%.700q, want\n%.700q", g.Status, g.Header, g.body, want)
					}
				})
			}
		}
	}
}

// TestTranslatePackageReply: faults, replies that need no translation, large
// ones, and those whose version is not known in time.
func TestTranslatePackageReply(t *testing.T) {
	const outer = `multipart/related; type="text/xml"; start="<root>"; boundary=b`
	const root = "Content-Type: text/xml\r\n"
	sender := strings.Replace(fault11, "s:Server", "s:Client", 1)
	serveReply := func(t *testing.T, status int, typ, body string, fields ...string) got {
		t.Helper()
		n := newNode("http://node.test/svc")
		resp := respond(status, typ, "", fields...)
		resp.Body, resp.Length = io.NopCloser(iotest.HalfReader(strings.NewReader(body))), -1
		n.answer = always(resp, nil)
		return serve(t, one(t, Route{Translate: v11, Limits: Limits{Buffer: 64 << 10}}, n), exchange("application/soap+xml", env12))
	}
	if g := serveReply(t, 500, outer, pack(root, sender, 100, false)); g.Status != 400 || !strings.Contains(g.body, "s:Sender") || !strings.Contains(g.Header.Get("Content-Type"), `type="application/soap+xml"`) {
		t.Errorf("a fault: got %d %v %s", g.Status, g.Header, g.body)
	}
	same := pack("Content-Type: application/soap+xml\r\n", in12(reply11), 100, true)
	typ := `multipart/related; type="application/soap+xml"; start="<root>"; boundary=b`
	if g := serveReply(t, 200, typ, string(encode(t, "gzip", []byte(same))), "Content-Encoding", "gzip"); g.Status != 200 || g.body != same || g.Header.Get("Content-Type") != typ || g.Header.Get("Content-Encoding") != "" {
		t.Errorf("in the caller's version: got %d %v %q", g.Status, g.Header, g.body)
	}
	large := pack(root, reply11, 1<<20, false)
	if g := serveReply(t, 200, outer, large); g.err != nil || g.body != strings.Replace(in12(large), "text/xml", "application/soap+xml", 1) {
		t.Errorf("a large one: got %d octets, %v", len(g.body), g.err)
	}
	serveReply(t, 200, outer, pack(root, reply11, 1<<20, true)).wantFault(t, v12, soapcodec.CodeBackendNotSOAP)
}

// TestTranslatePackageStored: a stored message with attachments waits in the
// version that nodes get.
func TestTranslatePackageStored(t *testing.T) {
	s := &shelf{}
	n := newNode("http://node.test/x")
	h := storing(t, s, Route{Translate: v11, WSATo: true, Mark: true}, n)
	root := "Content-Type: application/soap+xml\r\n"
	g := serve(t, h, exchange(`multipart/related; type="application/soap+xml"; start="<root>"; boundary=b`, pack(root, in12(withTo), 100, true)))
	if g.Status != 202 {
		t.Fatalf("got %d %s, want 202", g.Status, g.body)
	}
	if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != VerdictDelivered {
		t.Errorf("Deliver: got %+v", r)
	}
	got := n.last(t)
	if !strings.Contains(got.body, soapcodec.NS11) || strings.Contains(got.body, soapcodec.NS12) || !strings.Contains(got.body, ">http://node.test/x</a:To>") || !strings.Contains(got.body, "<gw:Attempt>1<") {
		t.Errorf("the node got %q", got.body)
	}
	if typ := got.Header.Get("Content-Type"); typ != `multipart/related; type="text/xml"; start="<root>"; boundary=b` || !bytes.Contains([]byte(got.body), []byte("Content-Type: text/xml\r\n")) {
		t.Errorf("the node got Content-Type %s, %q", typ, got.body)
	}
}
