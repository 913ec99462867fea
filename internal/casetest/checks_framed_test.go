package casetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

var framedChecks = checkTable{
	"56": {
		"verdict": on("", func(t *testing.T, r *run, o *outcome) {
			if len(o.calls) != 3 {
				t.Errorf("%d messages at the backend", len(o.calls))
			}
		}),
		"segmentations/one write":                             segmented(func(int, []byte) []int { return nil }),
		"segmentations/1 byte per write":                      segmented(everyOctet),
		"segmentations/cuts at 2, 4, 5 bytes into each frame": segmented(insideFrames(2, 4, 5)),
		"segmentations/cut inside the UTF-8 sequence of frame 1 and inside a UTF-16 unit of frame 2": segmented(func(size int, stream []byte) []int {
			first := bytes.Index(stream, []byte("\xE6\xB5\x8B")) + 1
			second := bytes.Index(stream, []byte("\xDF\x00<\x00")) + 1
			return []int{first, second}
		}),
		"facts/0/soap_version": framedFact(0, "soap_version", "1.1"),
		"facts/0/body_qname":   framedFact(0, "body_qname", "{urn:depot:parcel}Scan"),
		"facts/0/text":         framedFact(0, "text", "测试 €"),
		"facts/0/action":       framedField(0, "SOAPAction", `""`),
		"facts/0/bytes":        framedLength(0, 213),
		"facts/1/soap_version": framedFact(1, "soap_version", "1.2"),
		"facts/1/text":         framedFact(1, "text", "ß"),
		"facts/1/encoding": on("", func(t *testing.T, _ *run, o *outcome) {
			// read as UTF-16LE by its BOM, or the text could not be right
			if doc, err := document(o.calls[1].Body, o.calls[1].Fields.get("Content-Type")); err != nil || doc.named("p:t")[0].text() != "ß" {
				t.Errorf("frame 2: %v", err)
			}
		}),
		"facts/1/action":       framedField(1, "SOAPAction", ""),
		"facts/1/bytes":        framedLength(1, 396),
		"facts/2/soap_version": framedFact(2, "soap_version", "1.2"),
		"facts/2/text":         framedFact(2, "text", "3"),
		"facts/2/action": func(t *testing.T, r *run) { // a route by action takes frame 3 and no other
			f := dialFramed(t, startByAction(t), 4)
			if got := f.call(r.file(t, "payload-3.xml")); !bytes.Equal(got, r.file(t, "payload-3.xml")) {
				t.Errorf("the route for wsa:Action answered %.300q", got)
			}
			noRoute := f.call(r.file(t, "payload-1.xml"))
			if ft, err := readFault(noRoute, ""); err != nil || ft == nil || ft.Own != "NoRoute" || ft.Version != "1.1" {
				t.Errorf("without action: %s", noRoute)
			}
		},
		"facts/2/bytes": framedLength(2, 272),
		"to_backend": on("", func(t *testing.T, r *run, o *outcome) {
			want := []string{"text/xml", "application/soap+xml", "application/soap+xml"}
			for i, c := range o.calls {
				one := &outcome{name: fmt.Sprint("frame ", i+1), calls: []*call{c}, a: &answer{}}
				labelsAgree(t, r, one)
				lengthExact(t, r, one)
				if got := mediaType(c.Fields.get("Content-Type")); got != want[i] {
					t.Errorf("frame %d left as %q", i+1, got)
				}
			}
		}),
		"replies": func(t *testing.T, r *run) {
			for _, size := range []int{2, 4} {
				replies := r.pipelined(t, size, nil)
				for i, want := range []string{"1.1", "1.2", "1.2"} {
					doc, err := document(replies[i], "")
					if err != nil {
						t.Fatalf("reply %d: %v %q", i+1, err, replies[i])
					}
					if doc.Root.Name.Space != nsOf[want] {
						t.Errorf("reply %d is in %s", i+1, doc.Root.Name.Space)
					}
				}
			}
			inOrderThoughSlow(t, r)
		},
		"must_not/start parsing frame n+1 inside frame n": all(segmented(insideFrames(1, 3)), cutAnywhere),
		"must_not/count characters instead of bytes":      segmented(everyOctet),
		"must_not/let a fault on one frame close the others": func(t *testing.T, r *run) {
			f := dialFramed(t, r.f.g.addr["f4"], 4)
			ok := r.file(t, "payload-1.xml")
			var stream []byte
			for _, p := range [][]byte{ok, []byte("<broken"), ok, []byte("\x00\x01"), r.file(t, "payload-3.xml")} {
				stream = append(stream, frame(4, p)...)
			}
			if _, err := f.Write(stream); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				b, err := f.next()
				if err != nil {
					t.Fatalf("reply %d: %v", i+1, err)
				}
				ft, err := readFault(b, "")
				if bad := i == 1 || i == 3; err != nil || (ft != nil) != bad || bad && (ft.Version != "1.1" || ft.Own != "NotWellFormed" && ft.Own != "Charset") {
					t.Errorf("reply %d: %v %s", i+1, err, b)
				}
			}
		},
	},
}

// payloads are the three messages of the case.
func (r *run) payloads(t testing.TB) [][]byte {
	return [][]byte{r.file(t, "payload-1.xml"), r.file(t, "payload-2.xml"), r.file(t, "payload-3.xml")}
}

// stream frames the payloads; for 4 octets it must be request.bin.
func (r *run) stream(t testing.TB, size int) (b []byte) {
	t.Helper()
	for _, p := range r.payloads(t) {
		b = append(b, frame(size, p)...)
	}
	if size == 4 && !bytes.Equal(b, r.file(t, "request.bin")) {
		t.Fatal("the harness frames otherwise than the case")
	}
	return b
}

// pipelined sends the stream cut at the given places and reads three replies;
// then half-closes, after which the gateway must close too.
func (r *run) pipelined(t testing.TB, size int, cuts []int) [][]byte {
	t.Helper()
	return r.pipelinedTo(t, map[int]string{2: "f2", 4: "f4"}[size], size, cuts)
}

func (r *run) pipelinedTo(t testing.TB, listener string, size int, cuts []int) (replies [][]byte) {
	t.Helper()
	c := dial(t, r.f.g.addr[listener])
	_ = c.SetNoDelay(true)
	f := &framer{t, c, size, c.r}
	stream := r.stream(t, size)
	last := 0
	for _, cut := range append(slices.Sorted(slices.Values(cuts)), len(stream)) {
		if cut <= last {
			continue
		}
		if err := c.send(stream[last:cut]); err != nil {
			t.Fatal(err)
		}
		last = cut
		if len(cuts) < 20 {
			pause(3 * time.Millisecond) // let the segment arrive by itself
		}
	}
	for i := range 3 {
		b, err := f.next()
		if err != nil {
			t.Fatalf("reply %d: %v", i+1, err)
		}
		replies = append(replies, b)
	}
	_ = c.CloseWrite()
	if b, err := f.next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %q, %v", b, err)
	}
	c.Close()
	return replies
}

func everyOctet(_ int, stream []byte) (cuts []int) {
	for i := range stream {
		cuts = append(cuts, i)
	}
	return cuts
}

// insideFrames cuts that many octets into each frame.
func insideFrames(at ...int) func(size int, stream []byte) []int {
	return func(size int, stream []byte) (cuts []int) {
		for begin := 0; begin < len(stream); {
			n := 0
			for _, x := range stream[begin : begin+size] {
				n = n<<8 | int(x)
			}
			for _, a := range at {
				cuts = append(cuts, begin+a)
			}
			begin += size + n
		}
		return cuts
	}
}

// segmented sends the stream so cut, with both lengths, to HTTP and to framed
// nodes: the backends get the same three messages each time.
func segmented(cuts func(size int, stream []byte) []int) check {
	return func(t *testing.T, r *run) {
		want := r.by[""].calls
		for _, size := range []int{2, 4} {
			r.f.http.reset()
			r.pipelined(t, size, cuts(size, r.stream(t, size)))
			got := r.f.http.got()
			byFrame(got)
			if len(got) != len(want) {
				t.Fatalf("%d octets of length: the backend got %d messages", size, len(got))
			}
			for i := range got {
				if !bytes.Equal(got[i].Body, want[i].Body) || got[i].Fields.get("Content-Type") != want[i].Fields.get("Content-Type") {
					t.Errorf("%d octets of length: message %d differs: %s", size, i+1, describe(got[i].Body))
				}
			}
			for _, to := range []string{"f2-f2", "f2-f4", "f4-f2", "f4-f4"} {
				if to[1:2] != fmt.Sprint(size) {
					continue
				}
				replies := r.pipelinedTo(t, to, size, cuts(size, r.stream(t, size)))
				for i, reply := range replies { // the node echoes what it got
					if !bytes.Equal(reply, want[i].Body) {
						t.Errorf("%s: reply %d is %s", to, i+1, describe(reply))
					}
				}
			}
		}
	}
}

// cutAnywhere sends the stream in two segments, for cuts all over it.
func cutAnywhere(t *testing.T, r *run) {
	want := r.pipelinedTo(t, "f4-echo", 4, nil)
	for cut := 1; cut < len(r.stream(t, 4)); cut += 9 {
		for i, reply := range r.pipelinedTo(t, "f4-echo", 4, []int{cut}) {
			if !bytes.Equal(reply, want[i]) {
				t.Errorf("cut at %d: reply %d is %s", cut, i+1, describe(reply))
			}
		}
	}
}

func drive56(t *testing.T, r *run) {
	r.f.http.reset()
	replies := r.pipelined(t, 4, nil)
	o := &outcome{target: "framed", body: r.stream(t, 4), calls: r.f.http.got(), a: &answer{Status: 200, Body: bytes.Join(replies, nil)}}
	byFrame(o.calls)
	r.by[""] = o // not in r.list: there is no HTTP answer to evaluate
	if len(o.calls) != 3 {
		t.Fatalf("%d messages at the backend", len(o.calls))
	}
}

// byFrame sorts the messages of a connection. Their replies come in order, but
// they may be under way at the same time, on several connections to the node.
func byFrame(calls []*call) {
	slices.SortFunc(calls, func(a, b *call) int { return frameOf(a) - frameOf(b) })
}

// frameOf tells which of the three messages a call is.
func frameOf(c *call) int {
	switch {
	case bytes.Contains(c.Body, []byte(">3<")):
		return 3
	case bytes.Contains(c.Body, []byte("ß")):
		return 2
	}
	return 1
}

func framedFact(i int, key, want string) check {
	return on("", func(t *testing.T, _ *run, o *outcome) {
		c := o.calls[i]
		doc, err := document(c.Body, c.Fields.get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := factOf(doc, c.Body, "", key); got != want {
			t.Errorf("frame %d: %s is %v, want %s", i+1, key, got, want)
		}
	})
}

// framedField: no action = SOAPAction "" for 1.1 and none for 1.2.
func framedField(i int, name, want string) check {
	return on("", func(t *testing.T, _ *run, o *outcome) {
		if got := o.calls[i].Fields.get(name); got != want || want == "" && o.calls[i].Fields.has(name) {
			t.Errorf("frame %d: %s is %q, want %q", i+1, name, got, want)
		}
	})
}

func framedLength(i, n int) check {
	return func(t *testing.T, r *run) {
		if got := len(r.payloads(t)[i]); got != n {
			t.Errorf("payload %d has %d octets, the case says %d", i+1, got, n)
		}
		if i != 1 { // frame 2 is converted
			if got := len(r.by[""].calls[i].Body); got != n {
				t.Errorf("message %d arrived with %d octets, want %d", i+1, got, n)
			}
		}
	}
}

// inOrderThoughSlow: the first answer is slow, and still comes first.
func inOrderThoughSlow(t *testing.T, r *run) {
	r.f.http.reset()
	r.f.http.do(func(p *peer, c *call) {
		if frameOf(c) == 1 {
			pause(200 * time.Millisecond)
		}
		_, _ = p.Write(okReply(c))
	})
	replies := r.pipelined(t, 4, nil)
	if !bytes.Contains(replies[0], []byte(ns11)) || !bytes.Contains(replies[1], []byte(ns12)) {
		t.Errorf("out of order: %q", replies)
	}
}
