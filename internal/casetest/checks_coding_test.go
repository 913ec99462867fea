package casetest

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"
)

var codingChecks = map[string]check{
	"to_backend/body": onAll(func(t *testing.T, r *run, o *outcome) {
		if o.a.Status == 200 { // SPEC.md §3.3: decoded here, the node gets identity
			octetsKept(t, r, o)
			lengthExact(t, r, o)
		}
	}),
	"variant x-gzip-upper": on("x-gzip-upper", func(t *testing.T, r *run, o *outcome) {
		accepted(t, r, o)
		octetsKept(t, r, o)
	}),
	"variant unsupported/headers": on("unsupported", func(t *testing.T, _ *run, o *outcome) {
		wantBare(t, o.a, 415)
		got := strings.ToLower(strings.Join(o.a.Fields.list("Accept-Encoding"), " "))
		for _, c := range []string{"gzip", "deflate", "zstd", "br"} {
			if !strings.Contains(" "+got+" ", " "+c+" ") {
				t.Errorf("Accept-Encoding %q lacks %s", got, c)
			}
		}
	}),
	"variant bomb/limits": func(t *testing.T, r *run) {
		o := r.by["bomb"]
		grown := r.f.g.growth(t, func() { post(t, r.f.g.addr["http"], o.target, o.fields, o.body) })
		if grown > 32<<20 {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
		for _, c := range r.f.http.got() {
			if c.Err == nil {
				t.Errorf("a whole message of %d octets reached the backend", len(c.Body))
			}
			if len(c.Body) > 80<<20 {
				t.Errorf("%d octets were decoded and sent on", len(c.Body))
			}
		}
	},
	"must_not/forward Content-Encoding: gzip with a plain body or the reverse": onAll(func(t *testing.T, _ *run, o *outcome) {
		for _, c := range o.calls {
			if c.Fields.has("Content-Encoding") || bytes.HasPrefix(c.Body, []byte("\x1f\x8b")) {
				t.Errorf("%s: forwarded with Content-Encoding %q: % x", o.label(), c.Fields.all("Content-Encoding"), c.Body[:min(4, len(c.Body))])
			}
		}
	}),
	"must_not/measure the size limit on compressed bytes only": func(t *testing.T, r *run) {
		r.f.http.reset() // 8 KiB decoded, a few octets coded, on a route for 4 KiB
		plain := []byte(`<e:Envelope xmlns:e="` + ns11 + `"><e:Body>` + strings.Repeat(" ", 8<<10) + `</e:Body></e:Envelope>`)
		a := post(t, r.f.g.addr["http"], "/small/x", xml11("").with("Content-Encoding", "gzip"), gzipOf(plain))
		wantBare(t, a, 413)
		if r.f.http.gotComplete() != 0 {
			t.Error("forwarded")
		}
	},
}

func drive41(t *testing.T, r *run) {
	plain := r.file(t, "decoded.xml")
	for _, v := range append([]variant{{"", object{}}}, r.variants()...) {
		if v.Name == "bomb" {
			v.doc["body"] = "request.bin"
		}
		o := r.message(t, "/depot", v)
		o.doc = plain
		if v.Name == "bomb" {
			o.body = gzipBomb(1 << 30)
		}
		r.f.http.reset()
		o.a = post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
		o.calls = r.f.http.got()
		r.add(o)
	}
}

// gzipBomb is the gzip of an envelope whose Body holds n blanks (a multiple of
// 1 MiB). One compressed MiB is repeated, which a full flush allows.
func gzipBomb(n int) []byte {
	const mib = 1 << 20
	head, foot := []byte(`<e:Envelope xmlns:e="`+ns11+`"><e:Body><p:x xmlns:p="urn:p">`), []byte(`</p:x></e:Body></e:Envelope>`)
	blanks := bytes.Repeat([]byte(" "), mib)
	part := func(b []byte, last bool) []byte {
		var out bytes.Buffer
		w, err := flate.NewWriter(&out, 9)
		if err == nil {
			_, err = w.Write(b)
		}
		if err == nil && last {
			err = w.Close()
		} else if err == nil {
			err = w.Flush()
		}
		if err != nil {
			panic(err) // writing to memory
		}
		return out.Bytes()
	}
	sum := crc32.NewIEEE()
	_, _ = sum.Write(head)
	for range n / mib {
		_, _ = sum.Write(blanks)
	}
	_, _ = sum.Write(foot)
	b := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	b = append(b, part(head, false)...)
	b = append(b, bytes.Repeat(part(blanks, false), n/mib)...)
	b = append(b, part(foot, true)...)
	b = binary.LittleEndian.AppendUint32(b, sum.Sum32())
	return binary.LittleEndian.AppendUint32(b, uint32(n+len(head)+len(foot)))
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
		a := post(t, r.f.g.addr["http"], "/follow/parcel", r.authorized(), body)
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
	a := post(t, r.f.g.addr["http"], "/follow/parcel", r.authorized(), r.file(t, "request.bin"))
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
	r.f.http.reset()
	r.f.http.answerWith(response(307, fields{{"Location", "/depot/parcel"}}, nil))
	a := post(t, r.f.g.addr["http"], "/follow/parcel", r.authorized(), r.file(t, "request.bin"))
	wantFault(t, a, "1.1", "Server", "")
	return len(r.f.http.got())
}

// describe names a body in a failure without printing all of it.
func describe(b []byte) string { return fmt.Sprintf("%d octets, %.200q", len(b), b) }
