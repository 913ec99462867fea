package casetest

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var faultChecks = checkTable{
	"33": {
		"to_client/status": onAll(relayed), // SPEC.md §3: a fault in 200 stays in 200
		"accounting": onAll(func(t *testing.T, r *run, o *outcome) {
			if n := len(o.calls); n != 1 {
				t.Errorf("%d tries", n)
			}
			count := func(outcome string) float64 {
				return r.f.g.metricSum(t, "gateway_requests_total", `route="depot"`, `outcome="`+outcome+`"`)
			}
			settle(r.f)
			faults, answered := count("fault"), count("answered")
			r.f.http.reset()
			r.f.http.answerWith(o.reply)
			post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
			if !eventually(2*time.Second, func() bool { return count("fault") == faults+1 }) || count("answered") != answered {
				t.Errorf("outcome fault went from %v to %v, answered from %v to %v", faults, count("fault"), answered, count("answered"))
			}
			r.f.http.reset() // the same with a reply that is none counts the other way
			post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
			if !eventually(2*time.Second, func() bool { return count("answered") == answered+1 }) || count("fault") != faults+1 {
				t.Error("a plain answer was not counted as answered")
			}
		}),
		"must_not/flatten detail to text":                       onAll(relayed),
		"must_not/replace prefix x by one that is not declared": onAll(relayed),
		"must_not/drop Header":                                  onAll(relayed),
	},
	"34": {
		"to_client/content_type": onAll(func(t *testing.T, r *run, o *outcome) {
			if got, want := o.a.Fields.all("Content-Type"), "application/soap+xml; charset=utf-8; action=\"http://www.w3.org/2005/08/addressing/fault\""; len(got) != 1 || got[0] != want {
				t.Errorf("Content-Type %q, want %q", got, want)
			}
		}),
		"must_not/replace the body by an error page": onAll(relayed),
		"must_not/retry (Sender: must not be resent unchanged)": onAll(func(t *testing.T, _ *run, o *outcome) {
			o.sole(t)
		}),
		"must_not/map to 500 or 502": onAll(relayed),
	},
	"35": {
		"variant 200-empty/request_response_route": func(t *testing.T, r *run) {
			a := r.emptyReply(t, "/twoway/x")
			wantFault(t, a, "1.1", "Server", "BackendNotSOAP")
		},
		"variant 200-empty/one_way_route": func(t *testing.T, r *run) {
			for _, target := range []string{"/oneway/x", "/depot/x"} {
				if a := r.emptyReply(t, target); a.Status != 200 || len(a.Body) != 0 {
					t.Errorf("%s: %s", target, a)
				}
			}
		},
		"retry": on("503-html", func(t *testing.T, _ *run, o *outcome) {
			o.sole(t) // sync: an answer is final, whatever its status
		}),
		"variants_expect": on("200-html", func(t *testing.T, _ *run, o *outcome) {
			wantFault(t, o.a, "1.1", "Server", "BackendNotSOAP")
		}),
		"must_not/relay HTML under text/xml or application/soap+xml": onAll(noHTML),
		"must_not/parse HTML as XML and report success": onAll(func(t *testing.T, r *run, o *outcome) {
			r.f.http.reset() // XHTML is well-formed, and labelled as XML: still no envelope
			page := []byte(`<html xmlns="http://www.w3.org/1999/xhtml"><head><title>ok</title></head><body>ok</body></html>`)
			r.f.http.answerWith(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, page))
			a := post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
			wantFault(t, a, "1.1", "Server", "BackendNotSOAP")
		}),
		"must_not/leak back-end host names in the fault text": onAll(func(t *testing.T, r *run, o *outcome) {
			for _, s := range []string{"pool-b", "internal.test", r.f.http.addr, "resting"} {
				if bytes.Contains(append(o.a.Raw, o.a.Body...), []byte(s)) {
					t.Errorf("%s: the answer contains %q", o.label(), s)
				}
			}
		}),
	},
}

// drive35 leaves the empty 200 to its checks: it depends on the route.
func drive35(t *testing.T, r *run) {
	r.postVariant(t, "/depot", variant{"", object{}})
	for _, v := range r.variants() {
		if v.Name != "200-empty" {
			r.postVariant(t, "/depot", v)
		}
	}
}

// emptyReply posts the message of the case to a backend that answers an empty
// 200.
func (r *run) emptyReply(t *testing.T, target string) *answer {
	t.Helper()
	r.f.http.reset()
	r.f.http.answerWith(response(200, nil, nil))
	return post(t, r.f.g.addr["http"], target, xml11("urn:depot:parcel#Track"), r.file(t, "request.bin"))
}

func noHTML(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	if s := strings.ToLower(string(o.a.Body)); strings.Contains(s, "<html") || strings.Contains(s, "<h1") {
		t.Errorf("%s: HTML came through: %s", o.label(), o.a)
	}
	if mediaType(o.a.Fields.get("Content-Type")) == "text/html" {
		t.Errorf("%s: text/html came through: %s", o.label(), o.a)
	}
}

// settle waits until no exchange is being counted any more.
func settle(f *fixture) {
	last := ""
	eventually(2*time.Second, func() bool {
		text, err := f.g.get("/metrics")
		var now strings.Builder
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "gateway_requests_total") {
				now.WriteString(l)
			}
		}
		same := err == nil && now.String() == last
		last = now.String()
		return same
	})
}
