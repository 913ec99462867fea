package proxy

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"soapway/proxy/describe"
	"soapway/soapcodec"
)

// services is a node that has documents and takes messages.
func services(name string, docs map[string]string) *node {
	n := newNode(name)
	n.do(docs)
	return n
}

func (n *node) do(docs map[string]string) {
	n.answer = func(_ context.Context, req *Request) (*Response, error) {
		if req.Method != http.MethodGet {
			return respond(200, "text/xml", reply11), nil
		}
		path := req.Path
		if req.HasQuery {
			path += "?" + req.Query
		}
		doc, ok := docs[path]
		if !ok {
			return respond(404, "text/html", "<p>nothing at "+path), nil
		}
		return respond(200, "text/xml; charset=utf-8", doc), nil
	}
}

// describes is a WSDL with an operation Ask and what else is given.
func describes(address, more string) string {
	return `<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" targetNamespace="urn:depot" xmlns:t="urn:depot">` + more +
		`<w:message name="M"><w:part name="p" element="t:Ask"/></w:message>` +
		`<w:portType name="T"><w:operation name="AskSomething"><w:input message="t:M"/><w:output message="t:M"/></w:operation></w:portType>` +
		`<w:binding name="B" type="t:T"><s:binding/><w:operation name="AskSomething"/></w:binding>` +
		`<w:service name="S"><w:port name="P" binding="t:B"><s:address location="` + address + `"/></w:port></w:service></w:definitions>`
}

func get(target string, fields ...string) *Exchange {
	ex := exchange("", "", fields...)
	ex.Method, ex.Target = http.MethodGet, target
	return ex
}

// value is the text between two others.
func value(t *testing.T, doc, before, after string) string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, before)
	v, _, ok2 := strings.Cut(rest, after)
	if !ok || !ok2 {
		t.Fatalf("%s…%s is not in %s", before, after, doc)
	}
	return v
}

// What names a node is mapped by the route itself or another one; what no route
// reaches has a name of its own; the rest stays.
func TestDescribe(t *testing.T) {
	const at = "http://node.test:9000"
	more := `<w:import location="` + at + `/svc?wsdl=part"/><w:import location="` + at + `/deep/part.wsdl"/><w:import location="part.wsdl"/><w:import location="http://other.test/x.wsdl"/>` +
		`<w:types><x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"><x:import schemaLocation="` + at + `/types/a.xsd?v=1#frag"/><x:include schemaLocation="` + at + `/more/b.xsd"/></x:schema></w:types>`
	n := services(at+"/svc", map[string]string{
		"/svc?wsdl":        describes(at+"/svc", more),
		"/svc?wsdl=part":   describes(at+"/more/second", ""),
		"/deep/part.wsdl":  describes(at+"/svc", ""),
		"/types/a.xsd?v=1": `<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"><x:include schemaLocation="c.xsd"/></x:schema>`,
	})
	b := &Backend{Name: "b", Nodes: []Node{n}}
	second := &Backend{Name: "more", Nodes: []Node{services(at+"/more", nil)}}
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{Name: "depot", Match: Match{Path: "/depot"}, Backend: b, WSDL: &WSDL{}},
		{Name: "more", Match: Match{Path: "/else/*", Host: "more.test"}, Backend: second},
	}}), Options{})
	g := serve(t, h, get("/depot?wsdl"))
	if g.Status != 200 || g.Header.Get("Content-Type") != "text/xml; charset=utf-8" || g.Length != int64(len(g.body)) {
		t.Fatalf("got %d, %v, length %d of %d: %s", g.Status, g.Header, g.Length, len(g.body), g.body)
	}
	token := value(t, g.body, `location="http://gw.test/depot?wsdl=~`, `"`)
	schema := value(t, g.body, `schemaLocation="http://gw.test/depot?xsd=~`, `"`)
	want := describes("http://gw.test/depot", strings.NewReplacer(
		at+"/svc?wsdl=part", "http://gw.test/depot?wsdl=part",
		at+"/deep/part.wsdl", "http://gw.test/depot?wsdl=~"+token,
		at+"/types/a.xsd?v=1#frag", "http://gw.test/depot?xsd=~"+schema,
		at+"/more/b.xsd", "http://more.test/else/b.xsd",
	).Replace(more))
	g.wantAnswer(t, 200, want)

	serve(t, h, get("/depot?wsdl=part")).wantAnswer(t, 200, describes("http://more.test/else/second", ""))
	serve(t, h, get("/depot?wsdl=~"+token)).wantAnswer(t, 200, describes("http://gw.test/depot", ""))
	if g := serve(t, h, get("/depot?xsd=~"+schema)); !strings.Contains(g.body, `schemaLocation="c.xsd"`) {
		t.Errorf("a relative reference became %s", g.body)
	}
	serve(t, h, get("/depot?xsd=~123")).wantPlain(t, 404, "NoRoute")
	if g := serve(t, h, get("/depot?wsdl=nothing")); g.Status != 404 || g.body != "" {
		t.Errorf("what the backend does not have: %d %s", g.Status, g.body)
	}
	// Another host of the caller, and entity tags.
	ex := get("/depot?wsdl")
	ex.Host = "gw.other.test:81"
	g = serve(t, h, ex)
	value(t, g.body, `address location="http://gw.other.test:81/depot`, `"`)
	etag := g.Header.Get("Etag")
	ex = get("/depot?wsdl", "If-None-Match", `"x", W/`+etag)
	ex.Host = "gw.other.test:81"
	if g := serve(t, h, ex); g.Status != 304 || g.Body != nil || g.Header.Get("Etag") != etag {
		t.Errorf("got %d with tag %s", g.Status, g.Header.Get("Etag"))
	}
	if g := serve(t, h, get("/depot?wsdl", "If-None-Match", etag)); g.Status != 200 {
		t.Errorf("the tag of another host's document: got %d", g.Status)
	}
	ex = get("/depot?wsdl")
	ex.Method = http.MethodHead
	if g := serve(t, h, ex); g.Status != 200 || g.Body != nil || g.Length != int64(len(want)) {
		t.Errorf("HEAD: got %d, length %d, want %d", g.Status, g.Length, len(want))
	}
}

// A prefix route stands for many services, and nodes for each other.
func TestDescribeManyServices(t *testing.T) {
	a := services("http://a.test/base", map[string]string{"/base/one?wsdl": describes("http://a.test/base/one", ""), "/base/two?wsdl": describes("http://b.test/other/two", "")})
	b := services("http://b.test/other", map[string]string{"/other/one?wsdl": describes("http://b.test/other/one", "")})
	h := one(t, Route{Match: Match{Path: "/svc/*"}, WSDL: &WSDL{}}, a, b)
	for _, name := range []string{"one", "two"} {
		g := serve(t, h, get("/svc/"+name+"?wsdl"))
		if got := value(t, g.body, `address location="`, `"`); got != "http://gw.test/svc/"+name {
			t.Errorf("%s is at %s", name, got)
		}
	}
	// A node that stands for its whole server has no path, or one slash.
	for _, name := range []string{"http://c.test", "http://c.test/"} {
		c := services(name, map[string]string{"/one?wsdl": describes("http://c.test/one", ""), "/?wsdl": describes("http://c.test/", "")})
		h := one(t, Route{Match: Match{Path: "/svc/*"}, WSDL: &WSDL{}}, c)
		serve(t, h, get("/svc/one?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc/one", ""))
		serve(t, h, get("/svc?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc/", ""))
	}
	a.answer = always(nil, &SendError{Class: NotSent, Err: errors.New("down")})
	h = one(t, Route{Match: Match{Path: "/svc/*"}, WSDL: &WSDL{}}, a, b)
	serve(t, h, get("/svc/one?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc/one", ""))
	b.answer = a.answer
	h = one(t, Route{Match: Match{Path: "/svc/*"}, WSDL: &WSDL{}}, a, b)
	serve(t, h, get("/svc/one?wsdl")).wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
}

// A backend that is down does not keep clients from starting.
func TestDescribeWhileDown(t *testing.T) {
	const at = "http://node.test/svc"
	shelf := filepath.Join(t.TempDir(), "wsdl")
	n := services(at, map[string]string{"/svc?wsdl": describes(at, "")})
	route := func() Route {
		return Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{Shelf: describe.NewShelf(shelf), Fresh: 1}}
	}
	h := one(t, route(), n)
	serve(t, h, get("/svc?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc", ""))
	for name, answer := range map[string]func(context.Context, *Request) (*Response, error){
		"down":        always(nil, &SendError{Class: NotSent, Err: errors.New("down")}),
		"unavailable": func(context.Context, *Request) (*Response, error) { return respond(503, "text/html", "later"), nil },
		"a web page": func(context.Context, *Request) (*Response, error) {
			return respond(200, "text/html", "<p>maintenance"), nil
		},
	} {
		n.answer = answer
		serve(t, h, get("/svc?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc", ""))
		serve(t, h, get("/svc?singleWsdl")).wantAnswer(t, 200, describes("http://gw.test/svc", ""))
		t.Run(name+", after a restart", func(t *testing.T) {
			serve(t, one(t, route(), n), get("/svc?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc", ""))
		})
	}
	n.answer = func(context.Context, *Request) (*Response, error) {
		return respond(401, "text/html", "who", "Www-Authenticate", "Basic"), nil
	}
	if g := serve(t, h, get("/svc?wsdl")); g.Status != 401 || g.Header.Get("Www-Authenticate") != "Basic" || g.body != "" {
		t.Errorf("got %d, %v, %s", g.Status, g.Header, g.body)
	}
}

// A file has others beside it, and its addresses are ours unless they name a node.
func TestDescribeFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("svc.wsdl", describes("http://localhost/REPLACE", `<w:import location="part.wsdl"/><w:import location="../secret"/>`))
	write("part.wsdl", describes("http://node.test/svc", ""))
	n := newNode("http://node.test/svc")
	h := one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{File: filepath.Join(dir, "svc.wsdl")}}, n)
	g := serve(t, h, get("/svc?wsdl"))
	token := value(t, g.body, `location="http://gw.test/svc?wsdl=~`, `"`)
	g.wantAnswer(t, 200, describes("http://gw.test/svc", `<w:import location="http://gw.test/svc?wsdl=~`+token+`"/><w:import location="../secret"/>`))
	serve(t, h, get("/svc?wsdl=~"+token)).wantAnswer(t, 200, describes("http://gw.test/svc", ""))
	single := strings.TrimSuffix(describes("http://gw.test/svc", `<w:import location="../secret"/>`), "</w:definitions>")
	if g := serve(t, h, get("/svc?singleWsdl")); !strings.HasPrefix(g.body, single) || strings.Count(g.body, "<w:service") != 2 || strings.Count(g.body, `"http://gw.test/svc"`) != 2 {
		t.Errorf("in one document: got %s", g.body)
	}
	serve(t, h, get("/svc?wsdl=other")).wantPlain(t, 404, "NoRoute")
	serve(t, h, get("/svc?xsd")).wantPlain(t, 404, "NoRoute")
	// An edit counts at once.
	write("svc.wsdl", describes("http://node.test/svc", ""))
	serve(t, h, get("/svc?wsdl")).wantAnswer(t, 200, describes("http://gw.test/svc", ""))
	if len(n.got) != 0 {
		t.Errorf("the node was asked %d times", len(n.got))
	}
}

func TestWSDLCheck(t *testing.T) {
	const at = "http://node.test/svc"
	n := services(at, map[string]string{"/svc?wsdl": describes(at, "")})
	for _, buffer := range []int64{0, 300} {
		h := one(t, Route{Match: Match{Path: "/svc"}, Limits: Limits{Buffer: buffer}, WSDL: &WSDL{Check: true}}, n)
		ask := func(body string) got {
			ex := exchange("text/xml", body)
			ex.Target = "/svc"
			return serve(t, h, ex)
		}
		ask(env11).wantAnswer(t, 200, reply11)
		ask(strings.ReplaceAll(env11, "Ask", "Tell")).wantFault(t, soapcodec.V11, soapcodec.CodeUnknownOperation)
		ask(strings.ReplaceAll(env11, "urn:depot", "urn:other")).wantFault(t, soapcodec.V11, soapcodec.CodeUnknownOperation)
		ask(`<a:Envelope xmlns:a="http://schemas.xmlsoap.org/soap/envelope/"><a:Body/></a:Envelope>`).wantFault(t, soapcodec.V11, soapcodec.CodeUnknownOperation)
	}
	// Without a description nothing can be let through.
	down := newNode(at)
	down.answer = always(nil, &SendError{Class: NotSent, Err: errors.New("down")})
	ex := exchange("text/xml", env11)
	ex.Target = "/svc"
	serve(t, one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{Check: true}}, down), ex).wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
}

// What refers to places that must not be asked is not followed (see also package describe).
func TestResolve(t *testing.T) {
	b := compileBackend(&Backend{Nodes: []Node{newNode("http://a.test:80/x"), newNode("https://b.test/y")}})
	f := compileFront(compileRoute(Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{Hosts: []string{"schemas.test", "10.0.0.7:8080"}}}, 0, b))
	for _, c := range []struct{ from, ref, want string }{
		{"/x?wsdl", "http://a.test/x?xsd=1", "/x?xsd=1"},
		{"/x?wsdl", "HTTPS://B.test:443/y/t.xsd#f", "/x/t.xsd"},
		{"/x?wsdl", "https://b.test/elsewhere/t.xsd", "/elsewhere/t.xsd"},
		{"/x?wsdl", "http://a.test", "/"},
		{"/x?wsdl", "http://a.test?wsdl", "/?wsdl"},
		{"/x/a.wsdl", "b.xsd", "/x/b.xsd"},
		{"/x/a.wsdl", "../t/b.xsd?v", "/t/b.xsd?v"},
		{"/x?wsdl", "?xsd=2", "/x?xsd=2"},
		{"/x?wsdl", "/t/b.xsd#f", "/t/b.xsd"},
		{"/x?wsdl", "../../../../etc/passwd", "/etc/passwd"}, // a path on the node like any other
		{"/x?wsdl", "http://schemas.test/t.xsd", "http://schemas.test/t.xsd"},
		{"/x?wsdl", "https://SCHEMAS.test:8443/t.xsd", "https://SCHEMAS.test:8443/t.xsd"},
		{"http://schemas.test/d/t.xsd", "u.xsd", "http://schemas.test/d/u.xsd"},
		{"http://schemas.test/d/t.xsd", "//10.0.0.7:8080/u.xsd", "http://10.0.0.7:8080/u.xsd"},
		{"/x?wsdl", "http://10.0.0.7/t.xsd", ""},
		{"/x?wsdl", "http://169.254.169.254/latest/meta-data/", ""},
		{"/x?wsdl", "http://user@a.test/x", ""},
		{"/x?wsdl", "http://user:pw@schemas.test/x", ""},
		{"/x?wsdl", "http://schemas.test.evil.test/x", ""},
		{"/x?wsdl", "http://a.test:81/x", ""},
		{"/x?wsdl", "http://a.test/x/..%2f..%2fsecret", ""},
		{"/x?wsdl", "//schemas.test/t.xsd", ""},
		{"/x?wsdl", "file:///etc/passwd", ""},
		{"/x?wsdl", "file:a.xsd", ""},
		{"/x?wsdl", "urn:types", ""},
		{"/x?wsdl", "jar:http://a.test/x!/y", ""},
		{"/x?wsdl", "#here", ""},
		{"/x?wsdl", "", ""},
	} {
		got, ok := f.resolve(describe.Location(c.from), c.ref)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%q from %s: got %q, %t, want %q", c.ref, c.from, got, ok, c.want)
		}
	}
}
