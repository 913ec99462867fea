package casetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"
)

var limitChecks = checkTable{
	"53": {
		"must_not/crash, panic or stack overflow": onAll(func(t *testing.T, r *run, o *outcome) {
			if err := r.f.g.logProblems(); err != nil || o.a.Err != nil {
				t.Errorf("%s: %v, %v", o.label(), err, o.a.Err)
			}
		}),
		"must_not/quadratic time": func(t *testing.T, r *run) {
			var took [2]time.Duration // the route for deep documents reads both to their end
			for i, n := range []int{4000, 16000} {
				doc := r.nested(n)
				best := time.Hour
				for range 5 {
					r.f.http.reset()
					a := post(t, r.f.g.addr["http"], "/deep/parcel", xml11(""), doc)
					if a.Status != 200 {
						t.Fatalf("n=%d: %s", n, a)
					}
					best = min(best, a.Took)
				}
				took[i] = best
			}
			if took[1] > 8*took[0]+50*time.Millisecond {
				t.Errorf("4 times the depth took %s after %s", took[1], took[0])
			}
		},
		"must_not/accept a depth on parse that the serializer cannot print": func(t *testing.T, r *run) {
			r.f.http.reset()
			doc := r.nested(19000)
			if a := post(t, r.f.g.addr["http"], "/deep/parcel", xml11(""), doc); a.Status != 200 {
				t.Fatalf("depth 19000 of 20000: %s", a)
			}
			octetsKept(t, r, &outcome{name: "n=19000", doc: doc, calls: r.f.http.got()})
		},
		"limits/n=10000":   on("n=10000", refusedCheaply(time.Second, 32<<20)),
		"limits/n=5000000": on("n=5000000", refusedCheaply(2*time.Second, 64<<20)),
	},
	"55": {
		"verdict": on("", accepted),
		"facts/text_bytes(p:data)": on("", func(t *testing.T, _ *run, o *outcome) {
			if n := len(between(o.sole(t).Body, "<p:data>", "</p:data>")); n != 52428800 {
				t.Errorf("p:data has %d octets", n)
			}
		}),
		"facts/text_sha256(p:data)": on("", func(t *testing.T, r *run, o *outcome) {
			sum := sha256.Sum256(between(o.sole(t).Body, "<p:data>", "</p:data>"))
			if want := r.expect()["facts"].(object)["text_sha256(p:data)"]; hex.EncodeToString(sum[:]) != want {
				t.Errorf("p:data has sha256 %x, want %s", sum, want)
			}
		}),
		"facts/body_qname":    on("", hasLargeFacts),
		"facts/soap_version":  on("", hasLargeFacts),
		"facts/text(p:after)": on("", hasLargeFacts),
		"to_backend/body": on("", func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o)
		}),
		"over_limit": func(t *testing.T, r *run) {
			r.f.http.reset()
			o := r.by[""]
			wantBare(t, exchange(t, r.f.g.addr["http"], request("/small/x", o.fields, o.body)), 413)
			chunkedBody := append(appendHead(nil, "POST /small/x HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, o.fields...)), chunked(o.body[:1<<20], 1000)...)
			wantBare(t, exchange(t, r.f.g.addr["http"], chunkedBody), 413)
			if r.f.http.gotComplete() != 0 {
				t.Error("a message over the limit was forwarded")
			}
		},
		"limits/extra_heap_mb": func(t *testing.T, r *run) {
			o := r.by[""]
			r.f.http.reset()
			if grown := r.f.g.growth(t, func() { post(t, r.f.g.addr["http"], o.target, o.fields, o.body) }); grown > 32<<20 {
				t.Errorf("memory grew by %d MiB for a streamed message", grown>>20)
			}
		},
		"limits/first_byte_to_backend": firstOctetsEarly,
		"limits/wall": on("", func(t *testing.T, _ *run, o *outcome) {
			if o.a.Took > 10*time.Second {
				t.Errorf("took %s", o.a.Took)
			}
		}),
		"must_not/hold more than one full copy in memory": func(t *testing.T, r *run) {
			o := r.by[""]
			r.f.http.reset()
			if grown := r.f.g.growth(t, func() { post(t, r.f.g.addr["http"], o.target, o.fields, o.body) }); grown > int64(len(o.body)) {
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
		},
		"must_not/cut the text at 10 MB":       on("", octetsKeptLarge),
		"must_not/decode and re-encode base64": on("", octetsKeptLarge),
	},
}

func between(b []byte, from, to string) []byte {
	i, j := bytes.Index(b, []byte(from)), bytes.LastIndex(b, []byte(to))
	if i < 0 || j < i {
		return nil
	}
	return b[i+len(from) : j]
}

func octetsKeptLarge(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	if !bytes.Equal(o.sole(t).Body, o.body) {
		t.Errorf("the backend got %s", describe(o.calls[0].Body))
	}
}

// hasLargeFacts reads the facts with the text cut out, which keeps the oracle
// quick.
func hasLargeFacts(t *testing.T, r *run, o *outcome) {
	t.Helper()
	b := bytes.Replace(o.sole(t).Body, between(o.calls[0].Body, "<p:data>", "</p:data>"), nil, 1)
	e := &evaluation{t: t, r: r, o: &outcome{a: o.a, calls: []*call{{head: o.calls[0].head, Body: b}}}}
	e.facts("facts", r.expect()["facts"])
	for _, p := range e.problems {
		t.Error(p)
	}
}

// generated builds the large input of a case and checks its sum.
func (r *run) generated(t *testing.T, middle []byte, size, sum any) []byte {
	t.Helper()
	g := r.doc["generate"].(object)
	doc := slices.Concat([]byte(g["PRE"].(string)), middle, []byte(g["POST"].(string)))
	h := sha256.Sum256(doc)
	if len(doc) != int(size.(float64)) || hex.EncodeToString(h[:]) != sum {
		t.Fatalf("generated %d octets with sha256 %x, want %v and %v", len(doc), h, size, sum)
	}
	return doc
}

// nested is the template of case 53 at depth n.
func (r *run) nested(n int) []byte {
	g := r.doc["generate"].(object)
	return []byte(g["PRE"].(string) + strings.Repeat("<n>", n) + "x" + strings.Repeat("</n>", n) + g["POST"].(string))
}

func drive53(t *testing.T, r *run) {
	g := r.doc["generate"].(object)
	r.postVariant(t, "/depot", variant{"", object{}})
	for _, v := range []struct {
		name string
		n    int
	}{{"n=10000", 10000}, {"n=5000000", 5000000}} {
		want := g[v.name].(object)
		middle := []byte(strings.Repeat("<n>", v.n) + "x" + strings.Repeat("</n>", v.n))
		o := &outcome{name: v.name, target: "/depot/parcel", fields: xml11(""), body: r.generated(t, middle, want["bytes"], want["sha256"])}
		o.doc = o.body
		r.f.http.reset()
		o.a = exchange(t, r.f.g.addr["http"], request(o.target, o.fields, o.body))
		o.calls = r.f.http.got()
		r.add(o)
	}
}

// refusedCheaply repeats the refusal under a clock and a memory limit.
func refusedCheaply(within time.Duration, extra int64) func(t *testing.T, r *run, o *outcome) {
	return func(t *testing.T, r *run, o *outcome) {
		t.Helper()
		wantFault(t, o.a, "1.1", "Client", "Limit")
		if o.a.Took > within {
			t.Errorf("%s: took %s", o.label(), o.a.Took)
		}
		if grown := r.f.g.growth(t, func() { exchange(t, r.f.g.addr["http"], request(o.target, o.fields, o.body)) }); grown > extra {
			t.Errorf("%s: memory grew by %d KiB", o.label(), grown>>10)
		}
		if r.f.http.gotComplete() != 0 {
			t.Errorf("%s: reached the backend", o.label())
		}
	}
}

func drive55(t *testing.T, r *run) {
	g := r.doc["generate"].(object)
	o := r.message(t, "/depot", variant{"", object{}})
	o.body = r.generated(t, bytes.Repeat([]byte(g["UNIT"].(string)), int(g["n"].(float64))), g["bytes"], g["sha256"])
	o.doc = o.body
	r.f.http.reset()
	o.a = exchange(t, r.f.g.addr["http"], request(o.target, o.fields, o.body))
	o.calls = r.f.http.got()
	r.add(o)
}

// firstOctetsEarly: a streamed message begins at the backend before its end
// was sent, and is complete there only after it.
func firstOctetsEarly(t *testing.T, r *run) {
	o := r.by[""]
	r.f.http.reset()
	began := make(chan int, 1)
	r.f.http.take(func(p *peer) {
		n, _ := p.r.r.Peek(100)
		began <- len(n)
		c := r.f.http.read(p)
		if c != nil && c.Err == nil {
			_, _ = p.Write(closing(okReply(c)))
		}
	})
	octets := request(o.target, o.fields, o.body)
	c := dial(t, r.f.g.addr["http"])
	half := len(octets) / 2
	if err := c.send(octets[:half]); err != nil {
		t.Fatal(err)
	}
	select {
	case <-began:
	case <-time.After(5 * time.Second):
		t.Error("nothing reached the backend after 25 MiB")
	}
	if r.f.http.gotComplete() != 0 {
		t.Error("complete at the backend before its end was sent")
	}
	if err := c.send(octets[half:]); err != nil {
		t.Fatal(err)
	}
	if a := c.answer(); a.Status != 200 {
		t.Errorf("got %s", a)
	}
}
