package casetest

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var httpChecks = checkTable{
	"37": {
		"to_client/status": onAll(func(t *testing.T, _ *run, o *outcome) {
			if o.reply != nil && !strings.HasPrefix(o.a.Line, "HTTP/1.1 "+string(o.reply[9:12])) {
				t.Errorf("%s: got %s, the backend sent %.20q", o.label(), o.a, o.reply)
			}
		}),
		"to_client/body": onAll(func(t *testing.T, r *run, o *outcome) {
			if o.name == "202-with-envelope" {
				relayed(t, r, o)
			} else if o.name != "" && len(o.a.Body) != 0 {
				t.Errorf("%s: empty did not stay empty: %s", o.label(), o.a)
			}
		}),
		"variant 202-with-envelope/body":           on("202-with-envelope", relayed),
		"must_not/parse a zero-length body as XML": onAll(acceptedAsSent),
		"must_not/send 204 with Content-Length > 0, Transfer-Encoding or a body": on("204", func(t *testing.T, r *run, o *outcome) {
			if cl := o.a.Fields.get("Content-Length"); cl != "" && cl != "0" || o.a.Fields.has("Transfer-Encoding") {
				t.Errorf("204 with %v", o.a.Fields)
			}
			r.f.http.reset()
			r.f.http.answerWith(o.reply)
			c := dial(t, r.f.g.addr["http"])
			msg := request(o.target, o.fields, o.body)
			for range 2 { // the second answer begins right after the head of the first
				if err := c.send(msg); err != nil {
					t.Fatal(err)
				}
				if a := c.answer(); a.Status != 204 || a.Err != nil {
					t.Fatalf("got %s", a)
				}
			}
		}),
		"must_not/change 204 to 202 or 200": on("204", func(t *testing.T, _ *run, o *outcome) {
			if o.a.Status != 204 {
				t.Errorf("got %s", o.a)
			}
		}),
		"must_not/answer one-way calls with an empty envelope of its own": onAll(func(t *testing.T, _ *run, o *outcome) {
			if o.name != "" && o.name != "202-with-envelope" && bytes.Contains(o.a.Body, []byte("nvelope")) {
				t.Errorf("%s: got %s", o.label(), o.a)
			}
		}),
	},
	"39": {
		"client_script/send wire-head.bin, then wait (give up after 5 s)": on("http11", acceptedAsSent),
		"client_script/on 100: send request.bin":                          on("http11", acceptedAsSent),
		"client_script/read the final response":                           on("http11", acceptedAsSent),
		"to_client": all(on("http11", func(t *testing.T, r *run, o *outcome) {
			if len(o.a.Interim) != 1 || !strings.Contains(o.a.Interim[0].Line, " 100") {
				t.Errorf("interim answers %v, want one 100", o.a.Interim)
			}
		}), expectRefused),
		"to_backend/headers": onAll(func(t *testing.T, _ *run, o *outcome) {
			if c := o.sole(t); c.Fields.has("Expect") {
				t.Errorf("%s: Expect was forwarded", o.label()) // SPEC.md §3.3
			}
		}),
		"must_not/deliver a 1xx as the final response": on("backend-sends-100", func(t *testing.T, r *run, o *outcome) {
			if o.a.Status != 200 || len(o.a.Interim) != 0 {
				t.Errorf("interim %v, then %s", o.a.Interim, o.a) // SPEC.md §3.3: 1xx of a node end here
			}
		}),
		"must_not/answer 417 to 100-continue":                                         onAll(acceptedAsSent),
		"must_not/wait longer than 1 s before the 100 when the message is acceptable": on("http11", acceptedAsSent), // drive39 measured it
	},
	"40": {
		"to_backend/framing": onAll(lengthExact),
		"to_backend/trailer": onAll(func(t *testing.T, _ *run, o *outcome) {
			if c := o.sole(t); c.Fields.has("X-Depot-Sum") {
				t.Error("the trailer was merged into the head")
			}
		}),
		"must_not/chunk-size lines in the body":         onAll(octetsKept),
		"must_not/decode each chunk separately as text": onAll(sameMessage),
		"must_not/answer 411 to the client":             onAll(acceptedAsSent),
	},
	"41": codingChecks,
	"44": redirectChecks,
	"43": {
		"variant cl-te/then": on("cl-te", nothingSmuggled),
		"must_not/forward both Content-Length and Transfer-Encoding": onAll(func(t *testing.T, _ *run, o *outcome) {
			for _, c := range o.calls {
				if c.Err != nil || c.Fields.has("Content-Length") == c.Fields.has("Transfer-Encoding") {
					t.Errorf("%s: forwarded %v %v", o.label(), c.Fields, c.Err)
				}
			}
		}),
		"must_not/send /depot/admin to any back end": onAll(nothingSmuggled),
		"must_not/keep the connection open after a Content-Length/Transfer-Encoding conflict or after a 400 for broken framing": onVariants(func(t *testing.T, _ *run, o *outcome) {
			if o.name == "same-length-list" && o.a.Status == 200 {
				return
			}
			if !o.a.closed {
				t.Errorf("%s: the connection is still open after %s", o.label(), o.a)
			}
		}),
	},
}

// acceptedAsSent: exactly one final answer, the backend's.
func acceptedAsSent(t *testing.T, r *run, o *outcome) {
	t.Helper()
	if o.a.Status >= 400 || o.a.Err != nil || len(o.calls) != 1 {
		t.Errorf("%s: %d requests at the backend, answer %s", o.label(), len(o.calls), o.a)
	}
}

// nothingSmuggled: what stood behind the broken message was no request.
func nothingSmuggled(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	if len(o.calls) > 1 {
		t.Errorf("%s: %d requests reached the backend", o.label(), len(o.calls))
	}
	for _, c := range o.calls {
		if strings.Contains(c.Line, "admin") || bytes.Contains(c.Body, []byte("/depot/admin")) {
			t.Errorf("%s: smuggled: %s %q", o.label(), c.Line, c.Body)
		}
	}
}

// drive39 plays the client script of the case.
func drive39(t *testing.T, r *run) {
	hd, body := r.file(t, "wire-head.bin"), r.file(t, "request.bin")
	type shape struct {
		name string
		head []byte
		wait bool
	}
	for _, s := range []shape{
		{"", hd, true},
		{"http11", hd, true},
		{"http10", bytes.Replace(hd, []byte("HTTP/1.1"), []byte("HTTP/1.0"), 1), false},
		{"backend-sends-100", bytes.Replace(hd, []byte("Expect: 100-continue\r\n"), nil, 1), false},
	} {
		r.f.http.reset()
		if s.name == "backend-sends-100" {
			r.f.http.do(func(p *peer, c *call) {
				_, _ = p.Write([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"))
				_, _ = p.Write(okReply(c))
			})
		}
		c := dial(t, r.f.g.addr["http"])
		o := &outcome{name: s.name, target: "/depot/parcel", fields: xml11("urn:depot:parcel#Track"), body: body, doc: body}
		if err := c.send(s.head); err != nil {
			t.Fatal(err)
		}
		if s.wait {
			begin := time.Now()
			_ = c.SetReadDeadline(begin.Add(5 * time.Second))
			h, err := c.r.head()
			if err != nil || !strings.HasPrefix(h.Line, "HTTP/1.1 100") {
				t.Fatalf("%s: no 100 but %q %v", o.label(), h.Line, err)
			}
			if d := time.Since(begin); d > time.Second {
				t.Errorf("%s: the 100 took %s", o.label(), d)
			}
			o.a = &answer{Interim: []head{h}}
		} else if !quiet(c, 200) {
			t.Errorf("%s: an answer before the body was sent", o.label())
		}
		if err := c.send(body); err != nil {
			t.Fatal(err)
		}
		a := c.answer()
		if o.a != nil {
			a.Interim = append(o.a.Interim, a.Interim...)
		}
		o.a, o.calls = a, r.f.http.got()
		r.add(o)
		c.Close()
	}
}

// expectRefused: what will be refused anyway gets its final answer without a
// 100 and without the body being read.
func expectRefused(t *testing.T, r *run) {
	for _, x := range []struct {
		from, to string
		status   int
	}{
		{"/depot/parcel", "/nowhere", 404},
		{"text/xml", "text/plain", 415},
		{"Content-Length: 211", "Content-Length: 99999999999", 413},
		{"POST /depot/parcel", "POST /small/parcel", 200}, // the counter-example
	} {
		r.f.http.reset()
		hd := bytes.Replace(r.file(t, "wire-head.bin"), []byte(x.from), []byte(x.to), 1)
		c := dial(t, r.f.g.addr["http"])
		if err := c.send(hd); err != nil {
			t.Fatal(err)
		}
		if x.status == 200 {
			if h, err := c.r.head(); err != nil || !strings.HasPrefix(h.Line, "HTTP/1.1 100") {
				t.Errorf("%s: got %q %v", x.to, h.Line, err)
			}
			c.Close()
			continue
		}
		a := c.answer()
		wantBare(t, a, x.status)
		if len(a.Interim) != 0 {
			t.Errorf("%s: a 100 before %d", x.to, x.status)
		}
		c.Close()
	}
}

func drive40(t *testing.T, r *run) {
	o := r.message(t, "/depot", variant{"", object{}})
	r.f.http.reset()
	o.a = exchange(t, r.f.g.addr["http"], r.file(t, "wire.bin"))
	o.calls = r.f.http.got()
	r.add(o)
	// The same octets, each in a segment of its own.
	r.f.http.reset()
	c := dial(t, r.f.g.addr["http"])
	_ = c.SetNoDelay(true)
	for _, b := range r.file(t, "wire.bin") {
		if err := c.send([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	slow := &outcome{name: "one octet per segment", target: o.target, fields: o.fields, body: o.body, doc: o.doc, a: c.answer(), calls: r.f.http.got()}
	r.add(slow)
}

func drive43(t *testing.T, r *run) {
	r.postVariant(t, "/depot", variant{"", object{}})
	for _, v := range r.variants() {
		o := &outcome{name: v.Name, target: "/depot/parcel", body: r.file(t, "request.bin"), doc: r.file(t, "request.bin")}
		r.f.http.reset()
		c := dial(t, r.f.g.addr["http"])
		go func() { _ = c.send(r.file(t, v.doc["wire_file"].(string))) }()
		o.a = c.answer()
		o.a.closed = c.closes(3 * time.Second)
		pause(50 * time.Millisecond) // what could be smuggled has time to arrive
		o.calls = r.f.http.got()
		r.add(o)
		c.Close()
	}
}
