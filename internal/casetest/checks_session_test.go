package casetest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// An acs is a gateway in front of three nodes that keep sessions, each of which
// knows only those that it has opened itself, as TR-069 lets a server do.
type acs struct {
	g     *gateway
	nodes []*backend
}

// startACS makes the nodes open sessions with the given cookie, and end them
// with the scripted answer.
func startACS(t testing.TB, end []byte) *acs {
	t.Helper()
	a := &acs{}
	var urls []string
	for range 3 {
		b := listenHTTP(t)
		a.nodes = append(a.nodes, b)
		urls = append(urls, fmt.Sprintf("%q", "http://"+b.addr+"/acs"))
	}
	a.reset(end)
	a.g = start(t, httpOnly+fmt.Sprintf(`
backends:
  acs: {nodes: [%s], balance: hash, hash_by: "cookie:cwmpsess"}
routes:
  - {name: cwmp, match: {path: /acs}, backend: acs, empty_post: pass}
  - {name: other, match: {path: /soap}, backend: acs}
`, strings.Join(urls, ", ")), a.nodes...)
	return a
}

// reset forgets what the nodes got. A message without a cookie opens a session
// of the name that its SOAPAction has.
func (a *acs) reset(end []byte) {
	for _, b := range a.nodes {
		b.reset()
		b.do(func(p *peer, c *call) {
			if len(c.Body) == 0 {
				_, _ = p.Write(end)
				return
			}
			name := strings.Trim(c.Fields.get("SOAPAction"), `"`)
			_, _ = p.Write(response(200, append(xml11(""), field{"Set-Cookie", "cwmpsess=" + name + "; Path=/acs"}), informResponse))
		})
	}
}

var informResponse = []byte(`<e:Envelope xmlns:e="` + ns11 + `"><e:Body><r:ok xmlns:r="urn:test:reply"/></e:Body></e:Envelope>`)

// session opens a session and says at which node.
func (a *acs) session(t testing.TB, name string) *backend {
	t.Helper()
	body := []byte(`<e:Envelope xmlns:e="` + ns11 + `"><e:Body><c:Inform xmlns:c="urn:dslforum-org:cwmp-1-0"/></e:Body></e:Envelope>`)
	if r := post(t, a.g.addr["http"], "/acs", xml11(name), body); r.Status != 200 || !strings.Contains(r.Fields.get("Set-Cookie"), name) {
		t.Fatalf("opening a session: %s", r)
	}
	var at *backend
	for _, b := range a.nodes {
		if n := len(b.got()); n > 1 || n == 1 && at != nil {
			t.Fatal("one message came to more than one node, or twice")
		} else if n == 1 {
			at = b
		}
	}
	return at
}

// got is all that the nodes got.
func (a *acs) got() (calls []*call) {
	for _, b := range a.nodes {
		calls = append(calls, b.got()...)
	}
	return calls
}

// drive38 opens a session and goes on in it with the empty POST of the case.
func drive38(t *testing.T, r *run) {
	end := r.reply(t, variant{})
	a := startACS(t, end)
	at := a.session(t, "dock-4411")
	a.reset(end)
	o := r.message(t, "", variant{})
	o.reply = end
	began := time.Now()
	o.a = exchange(t, a.g.addr["http"], request(o.target, o.fields.without("Content-Length"), o.body))
	o.a.Took = time.Since(began)
	o.calls = at.got()
	r.add(o)
}

var sessionChecks = checkTable{
	"38": {
		"verdict": onAll(acceptedAsSent),
		"to_backend/body": onAll(func(t *testing.T, _ *run, o *outcome) {
			c := o.sole(t)
			if len(c.Body) != 0 || strings.Join(c.Fields.all("Content-Length"), "|") != "0" || c.Fields.has("Transfer-Encoding") {
				t.Errorf("the node got %s", c.Raw)
			}
		}),
		"to_backend/headers": all(onAll(func(t *testing.T, r *run, o *outcome) {
			for _, name := range []string{"Cookie", "Content-Type", "SOAPAction"} {
				fieldKept(name)(t, r, o)
			}
		}), sameNode),
		"to_client/body": onAll(func(t *testing.T, _ *run, o *outcome) {
			if len(o.a.Body) != 0 || o.a.Fields.has("Transfer-Encoding") || o.a.Fields.has("Content-Type") {
				t.Errorf("got %s", o.a)
			}
		}),
		"to_client/headers": onAll(func(t *testing.T, _ *run, o *outcome) {
			if got := o.a.Fields.get("Set-Cookie"); got != "cwmpsess=dock-4411; Path=/acs" {
				t.Errorf("Set-Cookie is %q", got)
			}
		}),
		"other_routes/verdict": emptyRefused,
		"other_routes/status":  emptyRefused,
		"other_routes/fault":   emptyRefused,
		"must_not/reply with a SOAP fault on a CWMP route": onAll(func(t *testing.T, _ *run, o *outcome) {
			if f, _ := readFault(o.a.Body, o.a.Fields.get("Content-Type")); f != nil {
				t.Errorf("got %s", o.a)
			}
		}),
		"must_not/hold the request waiting for a body": onAll(func(t *testing.T, _ *run, o *outcome) {
			if o.a.Took > 5*time.Second {
				t.Errorf("took %s", o.a.Took)
			}
		}),
		"must_not/turn it into a chunked request": all(onAll(lengthExact), func(t *testing.T, r *run) {
			// Not even one that came chunked.
			s := startACS(t, r.reply(t, variant{}))
			a := exchange(t, s.g.addr["http"], []byte("POST /acs HTTP/1.1\r\nHost: acs\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
			calls := s.got()
			if a.Status != 204 || len(calls) != 1 {
				t.Fatalf("an empty chunked POST: %d requests, %s", len(calls), a)
			}
			if c := calls[0]; c.Fields.get("Content-Length") != "0" || c.Fields.has("Transfer-Encoding") {
				t.Errorf("it became %s", c.Raw)
			}
		}),
		"must_not/retry it on another node": func(t *testing.T, r *run) {
			end := r.reply(t, variant{})
			a := startACS(t, end)
			at := a.session(t, "lost")
			a.reset(end)
			at.close()
			got := post(t, a.g.addr["http"], "/acs", fields{{"Cookie", "cwmpsess=lost"}}, nil)
			if n := len(a.got()); n != 0 || got.Status != 500 {
				t.Errorf("%d requests at the other nodes, %s", n, got)
			}
		},
	},
}

// sameNode: wherever a session was opened, what follows in it comes there, also
// when the hash of its cookie leads to another node.
func sameNode(t *testing.T, r *run) {
	end := r.reply(t, variant{})
	a := startACS(t, end)
	for i := range 24 {
		name := fmt.Sprintf("session-%d", i)
		a.reset(end)
		at := a.session(t, name)
		for range 3 {
			a.reset(end)
			got := post(t, a.g.addr["http"], "/acs", fields{{"Cookie", "other=1; cwmpsess=" + name}}, nil)
			if got.Status != 204 || len(at.got()) != 1 || len(a.got()) != 1 {
				t.Fatalf("%s: %d requests at its node, %d at all, %s", name, len(at.got()), len(a.got()), got)
			}
		}
	}
}

// emptyRefused: on a route that does not pass empty messages one is the fault
// of its sender, and reaches nobody.
func emptyRefused(t *testing.T, r *run) {
	a := startACS(t, r.reply(t, variant{}))
	wantFault(t, post(t, a.g.addr["http"], "/soap", fields{{"Cookie", "cwmpsess=dock-4411"}}, nil), "1.1", "Client", "")
	if n := len(a.got()); n != 0 {
		t.Errorf("%d requests at the nodes", n)
	}
}
