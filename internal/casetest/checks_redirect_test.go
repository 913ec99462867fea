package casetest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// following is a gateway with redirects: follow.
func (r *run) following(t *testing.T) *gateway {
	t.Helper()
	if r.follow != nil {
		return r.follow
	}
	g, err := startGateway(t.TempDir(), httpOnly+fmt.Sprintf(`
backends: {follow: {nodes: ["http://%s/depot"], redirects: follow}}
routes: [{name: follow, match: {path: "/follow/*"}, backend: follow}]
`, r.f.http.addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.follow = nil
		if err := g.stop(); err != nil {
			t.Error(err)
		}
	})
	r.follow = g
	return g
}

var redirectChecks = map[string]check{
	"rules/307/308": all(on("307-same-host", passedOn), on("307-loop", passedOn), followsSameHost),
	"rules/301/302": all(on("302", passedOn), func(t *testing.T, r *run) {
		for _, status := range []int{301, 302} {
			r.notFollowed(t, status, "/depot/elsewhere", "POST")
		}
	}),
	"rules/303": all(on("303", passedOn), func(t *testing.T, r *run) {
		r.notFollowed(t, 303, "/result/9", "GET")
	}),
	"variant 307-foreign-host/followed": all(on("307-foreign-host", passedOn), func(t *testing.T, r *run) {
		r.notFollowed(t, 307, "http://169.254.10.10/latest", "")
		other := listenHTTP(t)
		r.notFollowed(t, 307, "http://"+other.addr+"/depot/x", "")
		r.notFollowed(t, 307, "//"+other.addr+"/depot/x", "")
		if other.connections() != 0 {
			t.Error("another host was reached")
		}
	}),
	"variant 302/followed": on("302", passedOn),
	"variant 303/followed": on("303", passedOn),
	"variant 307-loop/followed_at_most": func(t *testing.T, r *run) {
		if n := r.loop(t); n < 2 || n > 6 { // the first request and at most 5 more
			t.Errorf("%d requests in a loop", n)
		}
	},
	"variant 307-loop/then": func(t *testing.T, r *run) { r.loop(t) },
	"must_not/send GET after 301, 302, 307 or 308": func(t *testing.T, r *run) {
		for _, status := range []int{301, 302, 307, 308} {
			r.notFollowed(t, status, "/depot/elsewhere", map[bool]string{true: "", false: "POST"}[status >= 307])
			for _, c := range r.f.http.got() {
				if c.method() != "POST" {
					t.Errorf("%d was followed by %s", status, c.Line)
				}
			}
		}
	},
	"must_not/follow to 169.254.10.10 or any host outside the allow-list": func(t *testing.T, r *run) {
		a := r.notFollowed(t, 307, "http://169.254.10.10/latest", "")
		if a.Took.Seconds() > 1 { // a connect to there would hang
			t.Errorf("took %s", a.Took)
		}
	},
	"must_not/send Authorization to another host": func(t *testing.T, r *run) {
		other := listenHTTP(t)
		r.notFollowed(t, 307, "http://"+other.addr+"/depot/x", "")
		if other.connections() != 0 {
			t.Error("another host was reached")
		}
	},
	"must_not/rewrite Location to leak internal hosts when a public mapping exists": func(t *testing.T, r *run) {
		for _, loc := range []string{"http://" + r.f.http.addr + "/depot/v2/parcel?a=b", "//" + r.f.http.addr + "/depot/v2/parcel?a=b", "/depot/v2/parcel?a=b"} {
			r.f.http.reset()
			r.f.http.answerWith(response(307, fields{{"Location", loc}}, nil))
			a := post(t, r.f.g.addr["http"], "/web/parcel", r.authorized(), r.file(t, "request.bin"))
			got := a.Fields.get("Location")
			if a.Status != 307 || strings.Contains(got, r.f.http.addr) || !strings.HasSuffix(got, "/web/v2/parcel?a=b") {
				t.Errorf("Location %q became %q", loc, got)
			}
		}
	},
}

func drive44(t *testing.T, r *run) {
	for _, v := range r.variants() {
		r.postVariant(t, "/depot", v)
	}
}

func (r *run) authorized() fields {
	return append(xml11("urn:depot:parcel#Track"), field{"Authorization", "Basic ZG9jazpkb2Nr"})
}

// passedOn: on a route with redirects: pass the client gets the 3xx, with the
// Location of the backend unless it named the backend itself.
func passedOn(t *testing.T, r *run, o *outcome) {
	t.Helper()
	o.sole(t)
	if want := string(o.reply[9:12]); strconv.Itoa(o.a.Status) != want || o.a.Fields.get("Location") == "" {
		t.Errorf("%s: got %s, want %s with its Location", o.label(), o.a, want)
	}
	noHTML(t, r, &outcome{name: o.name, a: &answer{head: head{Fields: o.a.Fields.without("Content-Type")}}})
}

// followsSameHost: redirects: follow repeats method, octets and fields.
func followsSameHost(t *testing.T, r *run) {
	g := r.following(t)
	for _, status := range []int{307, 308} {
		r.f.http.reset()
		r.f.http.do(func(p *peer, c *call) {
			if c.target() == "/depot/parcel" {
				_, _ = p.Write(response(status, fields{{"Location", "/v2/parcel"}, {"Content-Type", "text/html"}}, []byte("<html>moved</html>")))
				return
			}
			_, _ = p.Write(okReply(c))
		})
		body := r.file(t, "request.bin")
		a := post(t, g.addr["http"], "/follow/parcel", r.authorized(), body)
		calls := r.f.http.got()
		if a.Status != 200 || len(calls) != 2 {
			t.Fatalf("%d: %d requests, %s", status, len(calls), a)
		}
		c := calls[1]
		if c.Line != "POST /v2/parcel HTTP/1.1" || !bytes.Equal(c.Body, body) || c.Fields.get("SOAPAction") != `"urn:depot:parcel#Track"` ||
			c.Fields.get("Content-Type") != "text/xml; charset=utf-8" || !c.Fields.has("Authorization") {
			t.Errorf("%d: the second request is %s", status, c.Raw)
		}
	}
}

// notFollowed sends through redirects: follow to a backend that redirects, and
// requires that no second request is made but one of the method in may.
func (r *run) notFollowed(t *testing.T, status int, location, may string) *answer {
	t.Helper()
	g := r.following(t)
	r.f.http.reset()
	first := true
	r.f.http.do(func(p *peer, c *call) {
		if first {
			first = false
			_, _ = p.Write(response(status, fields{{"Location", location}}, nil))
			return
		}
		_, _ = p.Write(okReply(c))
	})
	a := post(t, g.addr["http"], "/follow/parcel", r.authorized(), r.file(t, "request.bin"))
	calls := r.f.http.got()
	followable := status >= 307 && strings.HasPrefix(location, "/") && !strings.HasPrefix(location, "//")
	if len(calls) > 1 && !followable {
		t.Errorf("%d to %s was followed by %s (may only be %q)", status, location, calls[1].Line, may)
	}
	if len(calls) == 1 && a.Status != status && a.Status < 500 {
		t.Errorf("%d to %s became %s", status, location, a)
	}
	return a
}

// loop lets the backend redirect to itself for ever and counts the requests.
func (r *run) loop(t *testing.T) int {
	t.Helper()
	g := r.following(t)
	r.f.http.reset()
	r.f.http.answerWith(response(307, fields{{"Location", "/depot/parcel"}}, nil))
	a := post(t, g.addr["http"], "/follow/parcel", r.authorized(), r.file(t, "request.bin"))
	wantFault(t, a, "1.1", "Server", "")
	return len(r.f.http.got())
}
