package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"soapway/soapcodec"
)

const relatedType = `multipart/related; boundary="b:1"; type="application/xop+xml"; start="<root@depot.test>"; start-info="text/xml"`

// A shape is a package to be written, and what becomes of it.
type shape struct {
	line           string // line break
	fields         string // of the root, with its line breaks
	root           []byte
	before, after  [][]byte // other parts, header and all
	preamble, tail string
}

// write makes the octets of the package, with other octets of the root.
func (s *shape) write(fields string, root []byte) []byte {
	var b bytes.Buffer
	b.WriteString(s.preamble)
	parts := append(append([][]byte{}, s.before...), append([]byte(fields+s.line), root...))
	for _, p := range append(parts, s.after...) {
		if b.Len() > 0 {
			b.WriteString(s.line)
		}
		b.WriteString("--b:1" + s.line)
		b.Write(p)
	}
	b.WriteString(s.line + "--b:1--" + s.tail)
	return b.Bytes()
}

func (s *shape) bytes() []byte { return s.write(s.fields, s.root) }

// randomShape makes a package around root.
func randomShape(rng *rand.Rand, fields string, root []byte) *shape {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	s := &shape{line: pick("\r\n", "\r\n", "\n"), root: root}
	s.fields = strings.ReplaceAll(fields, "\n", s.line)
	s.preamble = pick("", "", "This is no part.")
	s.tail = pick("", s.line, s.line+"epilogue"+s.line)
	part := func() []byte {
		content := make([]byte, []int{0, 1, 100, 40_000, 300_000}[rng.IntN(5)])
		for i := range content {
			content[i] = byte(rng.Uint32())
		}
		// What nearly ends it.
		content = append(content, pick("", "\r\n--b:", " --b:1", "\r\n\r\n", "\n-", "\r\n--B:1\r\n")...)
		return append([]byte(pick("", "Content-Type: image/png"+s.line, "X-A: 1"+s.line+"Content-ID: <a@b>"+s.line)+s.line), content...)
	}
	for range rng.IntN(3) {
		s.before = append(s.before, part())
	}
	for range rng.IntN(3) {
		s.after = append(s.after, part())
	}
	return s
}

const rootFields = "Content-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\nContent-ID: <root@depot.test>\n"

// passOf is a pass over a package, as streamPackage makes it.
func passOf(t testing.TB, src io.Reader, opt soapcodec.Options, buffer int64) *pass {
	t.Helper()
	ct, err := soapcodec.ParseContentType(relatedType)
	if err != nil || !ct.IsPackage() {
		t.Fatalf("%+v, %v", ct, err)
	}
	lim := Limits{Buffer: buffer}.withDefaults()
	dec := soapcodec.NewDecoder(opt)
	m := newRelated(dec, opt, lim, t.TempDir()).from(src, ct)
	m.edits = opt.Node || opt.Normalize != soapcodec.Keep
	t.Cleanup(m.close)
	p := &pass{raw: true, dec: dec, rel: m, tee: tee{src: m, most: unlimited}}
	p.from = &p.tee
	return p
}

// TestRelatedEqualsApply: whatever the reads, of a package go on exactly the
// octets that came, but for the edits of its root and the length that tells of
// them, and the tail is held back.
func TestRelatedEqualsApply(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for i := range 100 {
		doc := bigEnvelope(rng, []int{100, holdBack, 60 << 10, 300 << 10}[rng.IntN(4)])
		opt := soapcodec.Options{Node: rng.IntN(2) == 0, Normalize: soapcodec.Normalize(rng.IntN(2))}
		dec := soapcodec.NewDecoder(opt)
		dec.ResetBytes(doc)
		if err := dec.Finish(); err != nil {
			t.Fatalf("document %d: %v\n%.300s", i, err, doc)
		}
		edited := soapcodec.Apply(nil, doc, dec.TakeEdits())
		fields, want := rootFields, rootFields
		if rng.IntN(2) == 0 {
			fields += "content-length: " + strconv.Itoa(len(doc)) + "\n"
			want += "content-length: " + strconv.Itoa(len(edited)) + "\n"
		}
		s := randomShape(rng, fields, doc)
		in := s.bytes()
		wanted := s.write(strings.ReplaceAll(want, "\n", s.line), edited)
		p := passOf(t, &random{rng: rng, data: in, max: 1 + rng.IntN(40_000)}, opt, 64<<10)
		got, err := drain(t, p, rng, 1+rng.IntN(50_000))
		if err != nil || !bytes.Equal(got, wanted) {
			at := firstDiff(got, wanted)
			t.Fatalf("document %d, options %+v: got %d octets, %v, want %d (input %d); first difference at %d: %.80q, want %.80q",
				i, opt, len(got), err, len(wanted), len(in), at, got[min(at, len(got)):], wanted[min(at, len(wanted)):])
		}
		if !opt.Node && opt.Normalize == soapcodec.Keep && !bytes.Equal(got, in) {
			t.Errorf("document %d: keep changed octets", i)
		}
	}
}

// TestRelatedHoldsBackTheTail: wherever a package is cut, or made bad, its last
// 16 KiB do not leave and the error is one of the message or of the source.
func TestRelatedHoldsBackTheTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 11))
	boom := &bodyError{io.ErrUnexpectedEOF}
	for i := range 100 {
		s := randomShape(rng, rootFields, bigEnvelope(rng, []int{1000, 4 * holdBack}[rng.IntN(2)]))
		s.tail = "" // in an epilogue a message may be cut unseen: it was complete
		in := s.bytes()
		src := &random{rng: rng, max: 1 + rng.IntN(40_000), data: in[:rng.IntN(len(in)-1)]}
		var want any = new(*soapcodec.Error)
		switch rng.IntN(3) {
		case 0:
			src.err, want = boom, new(*bodyError)
		case 1: // the end of the root is bad
			s.root = append(s.root, "<x/>"...)
			src.data = s.bytes()
		}
		got, err := drain(t, passOf(t, src, soapcodec.Options{}, 0), rng, 1+rng.IntN(50_000))
		if err == nil || !errors.As(err, want) {
			t.Fatalf("package %d: got %v, want a %T", i, err, want)
		}
		if len(got) > 0 && len(got) > len(src.data)-holdBack {
			t.Errorf("package %d: %d octets of %d left", i, len(got), len(src.data))
		}
	}
}

// TestRelatedCharset: a root that is not UTF-8 is converted and its own label
// says so; the package's label and every other part stay.
func TestRelatedCharset(t *testing.T) {
	const text = `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><a>é</a></e:Body></e:Envelope>`
	image := []byte("Content-Type: text/plain; charset=iso-8859-1\r\n\r\n\xe9\x00")
	latin := strings.ReplaceAll(text, "é", "\xe9")
	for _, c := range []struct{ name, fields, root, wantFields, want string }{
		{"Latin-1", "Content-ID: <root@depot.test>\r\nContent-Type: text/xml;\r\n\tcharset=\"ISO-8859-1\"; a=b\r\n", latin, "Content-ID: <root@depot.test>\r\nContent-Type: text/xml;\r\n\tcharset=\"utf-8\"; a=b\r\n", text},
		{"by the declaration", "Content-ID: root@depot.test\r\n", `<?xml version="1.0" encoding="iso-8859-1"?>` + latin, "Content-ID: root@depot.test\r\n", `<?xml version="1.0"?>` + text},
		{"UTF-16", "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=utf-16\r\nContent-Transfer-Encoding: 7bit\r\n", utf16le(text), "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n", text},
		{"its length", "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=iso-8859-1\r\nContent-Length: 1\r\n", latin, "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n", text},
		{"a mark overrules the label", "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=iso-8859-1\r\nContent-Length: 9\r\n", "\ufeff" + text, "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: 9\r\n", "\ufeff" + text},
		{"UTF-8", "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=UTF8\r\nContent-Length: 9\r\n", text, "Content-ID: <root@depot.test>\r\nContent-Type: text/xml; charset=UTF8\r\nContent-Length: 9\r\n", text},
	} {
		s := shape{line: "\r\n", root: []byte(c.root), fields: c.fields, before: [][]byte{image}, after: [][]byte{image}}
		want := string(s.write(c.wantFields, []byte(c.want)))
		for _, buffer := range []int64{1 << 20, 64} {
			n := newNode("http://node.test/svc")
			ex := exchange(relatedType, string(s.bytes()))
			serve(t, one(t, Route{Limits: Limits{Buffer: buffer}}, n), ex).wantAnswer(t, 200, reply11)
			if got := n.last(t); got.body != want || got.Header.Get("Content-Type") != relatedType {
				t.Errorf("%s, buffer %d: the node got %q %q, want %q", c.name, buffer, got.Header.Get("Content-Type"), got.body, want)
			}
		}
	}
}

// TestRelatedTransferEncoding: a root in base64 or quoted-printable is checked
// decoded and goes on as it came; on a route that changes it, it goes on decoded.
func TestRelatedTransferEncoding(t *testing.T) {
	const fields = "Content-ID: <root@depot.test>\r\nContent-Transfer-Encoding: base64\r\nContent-Length: 118\r\n"
	const coded = "PGU6RW52ZWxvcGUgeG1sbnM6ZT0iaHR0cDovL3NjaGVtYXMueG1sc29hcC5vcmcv\r\nc29hcC9lbnZlbG9wZS8iPjxlOkJvZHkvPjwvZTpFbnZlbG9wZT4="
	const plain = `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body/></e:Envelope>`
	s := shape{line: "\r\n", root: []byte(coded), fields: fields, after: [][]byte{[]byte("\r\nx")}}
	for _, c := range []struct {
		route Route
		want  []byte
	}{
		{Route{}, s.bytes()},
		{Route{Normalize: soapcodec.Envelope}, s.write("Content-ID: <root@depot.test>\r\nContent-Transfer-Encoding: binary\r\nContent-Length: "+strconv.Itoa(len(plain))+"\r\n", []byte(plain))},
	} {
		for _, buffer := range []int64{1 << 20, 64} {
			c.route.Limits.Buffer = buffer
			n := newNode("http://node.test/svc")
			serve(t, one(t, c.route, n), exchange(relatedType, string(s.bytes()))).wantAnswer(t, 200, reply11)
			if got := n.last(t); got.body != string(c.want) {
				t.Errorf("buffer %d: the node got %q, want %q", buffer, got.body, c.want)
			}
		}
	}
	s.root = []byte(strings.Replace(coded, "4=", "4=\r\nPHgvPg==", 1)) // more behind the padding
	n := newNode("http://node.test/svc")
	serve(t, one(t, Route{}, n), exchange(relatedType, string(s.bytes()))).wantFault(t, soapcodec.V11, "InvalidPackage")
	if len(n.got) != 0 {
		t.Error("the node got it")
	}
}

// FuzzRelated: octets of a package that is not changed are kept, for any reads,
// and a whole message in memory is judged like one that streams.
func FuzzRelated(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		s := randomShape(rng, rootFields, bigEnvelope(rng, 400))
		f.Add(s.bytes(), uint8(rng.UintN(255)))
	}
	ct, err := soapcodec.ParseContentType(relatedType)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		if len(in) > 100_000 {
			return
		}
		dec := soapcodec.NewDecoder(soapcodec.Options{})
		lim := Limits{}.withDefaults()
		whole := new(buffer)
		m := newRelated(dec, soapcodec.Options{}, lim, "").fromBytes(in, ct)
		err := m.check(whole)
		p := passOf(t, &random{rng: rand.New(rand.NewPCG(3, uint64(size))), data: in, max: 1 + int(size)}, soapcodec.Options{}, 0)
		got, err2 := io.ReadAll(p)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %v, streaming: %v", err, err2)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(whole.b, got) || !m.changed && !bytes.Equal(got, in) {
			t.Errorf("whole: %q\nstreaming: %q\ninput: %q", whole.b, got, in)
		}
	})
}

func TestRelatedAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := shape{line: "\r\n", root: []byte(env11), fields: strings.ReplaceAll(rootFields, "\n", "\r\n"), after: [][]byte{[]byte("\r\n" + strings.Repeat("x", 20_000))}}
	h := one(t, Route{}, &sink{resp: []byte(reply11), buf: make([]byte, 32<<10)})
	body := string(s.bytes())
	header := exchange(relatedType, "").Header
	got := testing.AllocsPerRun(100, func() {
		ex := exchange("", "")
		ex.Header, ex.Body, ex.Length = header, strings.NewReader(body), int64(len(body))
		r := h.Serve(t.Context(), ex)
		if r.Status != 200 {
			t.Fatal(r.Status)
		}
		r.Close()
	})
	if got > 70 { // 59 when it was written, 15 more than a message without parts
		t.Errorf("got %v allocations a message", got)
	}
}

func BenchmarkServeRelated(b *testing.B) {
	for _, size := range []int{2_000, 200_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := shape{line: "\r\n", root: []byte(env11), fields: strings.ReplaceAll(rootFields, "\n", "\r\n"), after: [][]byte{[]byte("\r\n" + strings.Repeat("x", size))}}
			h := one(b, Route{}, &sink{resp: []byte(reply11), buf: make([]byte, 32<<10)})
			body := string(s.bytes())
			header := exchange(relatedType, "").Header
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				ex := exchange("", "")
				ex.Header, ex.Body, ex.Length = header, strings.NewReader(body), int64(len(body))
				h.Serve(b.Context(), ex).Close()
			}
		})
	}
}

// packageAround is a package with root as its second part.
func packageAround(fields, root string, size int) *shape {
	return &shape{line: "\r\n", fields: fields, root: []byte(root), before: [][]byte{[]byte("Content-ID: <a@b>\r\n\r\n" + strings.Repeat("0123456789abcdef", size/16))}}
}

const (
	fields11 = "Content-Type: application/xop+xml; type=\"text/xml\"\r\nContent-ID: <root@depot.test>\r\n"
	fields12 = "Content-Type: application/xop+xml; type=\"application/soap+xml\"\r\nContent-ID: <root@depot.test>\r\n"
)

// TestPackageSettings: what the other settings of a route make of a message with
// attachments, in memory and streaming.
func TestPackageSettings(t *testing.T) {
	to := strings.Replace(withTo, "urn:gw", "http://node.test/svc", 1)
	loose := strings.Replace(env11, "<p:Ask", "<p:Ask  a = '1'", 1)
	op := soapcodec.QName{Space: "urn:depot", Local: "Ask"}
	for _, c := range []struct {
		name         string
		fields, root string
		want         string // root at the node; "" = the message is refused
		typ          string
		route        Route
		code         soapcodec.Code
		status       int
		header       []string
	}{
		{name: "by operation", fields: fields11, root: env11, want: env11, route: Route{Match: Match{Operation: op}}},
		{name: "other operation", fields: fields11, root: env11, route: Route{Match: Match{Operation: soapcodec.QName{Local: "x"}}}, status: 404, code: "NoRoute"},
		{name: "action of the root", fields: strings.Replace(fields11, "text/xml\"", "text/xml\"; action=\"urn:1\"", 1), root: env11, want: env11, route: Route{Match: Match{Action: "urn:1"}}},
		{name: "version", fields: fields12, root: env12, route: Route{Accept11: true}, code: "VersionMismatch"},
		{name: "wsa:To", fields: fields11, root: withTo, want: to, route: Route{WSATo: true}},
		{name: "add", fields: fields11, root: env11, want: strings.Replace(env11, "<soap:Body>", "<soap:Header><x:a xmlns:x=\"urn:x\"/></soap:Header><soap:Body>", 1), route: Route{Add: []byte("<x:a xmlns:x=\"urn:x\"/>")}},
		{name: "canonical", fields: fields11, root: loose, want: strings.Replace(env11, "<p:Ask xmlns:p=\"urn:depot\"", "<p:Ask xmlns:p=\"urn:depot\" a=\"1\"", 1), route: Route{Normalize: soapcodec.Canonical}},
		{name: "strict", fields: fields11, root: env11, want: env11, route: Route{Strict: true}, header: []string{"SOAPAction", `""`}},
		{name: "strict, no SOAPAction", fields: fields11, root: env11, route: Route{Strict: true}, code: "Strict"},
		{name: "strict, no start-info", fields: fields11, root: env11, typ: strings.Replace(relatedType, `; start-info="text/xml"`, "", 1), route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
		{name: "strict, no type", fields: fields11, root: env11, typ: strings.Replace(relatedType, `type="application/xop+xml"; `, "", 1), route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
		{name: "strict, other type", fields: strings.Replace(fields11, "text/xml", "application/soap+xml", 1), root: env11, route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
		{name: "strict, Latin-1", fields: strings.Replace(fields11, "; type", "; charset=iso-8859-1; type", 1), root: env11, route: Route{Strict: true}, header: []string{"SOAPAction", `""`}, code: "Strict"},
	} {
		for _, size := range []int{160, 400_000} {
			n := newNode("http://node.test/svc")
			s := packageAround(c.fields, c.root, size)
			typ := relatedType
			if c.typ != "" {
				typ = c.typ
			}
			c.route.Limits.Buffer = 64 << 10
			ex := exchange(typ, string(s.bytes()), c.header...)
			g := serve(t, one(t, c.route, n), ex)
			name := fmt.Sprintf("%s, %d octets", c.name, size)
			switch {
			case c.want != "":
				g.wantAnswer(t, 200, reply11)
				if len(n.got) != 1 {
					t.Errorf("%s: not forwarded: %d %s", name, g.Status, g.body)
					continue
				}
				if got, want := n.last(t).body, string(s.write(c.fields, []byte(c.want))); got != want {
					t.Errorf("%s: the node got %.900q, want %.900q", name, got[max(0, len(got)-900):], want[max(0, len(want)-900):])
				}
				continue
			case c.status != 0:
				g.wantPlain(t, c.status, c.code)
			case g.Code != c.code:
				t.Errorf("%s: got %d %s %s, want %s", name, g.Status, g.Code, g.body, c.code)
			}
			if c.code != "VersionMismatch" && len(n.got) > 0 || len(n.got) > 0 && n.last(t).err == nil {
				t.Errorf("%s: the node got it", name)
			}
		}
	}
}

// TestPackageToFramed: of two nodes the one that is not framed gets it; where all
// are framed nobody does, and a stored message dies.
func TestPackageToFramed(t *testing.T) {
	body := string(packageAround(fields11, env11, 16).bytes())
	refuses := always(nil, &SendError{Class: NotSent, Permanent: true, Err: ErrMultipart})
	framed, plain := newNode("framed://node.test:1"), newNode("http://node.test/svc")
	framed.unread, framed.answer = true, refuses
	plain.load = 100 // so that the framed one is asked first
	serve(t, one(t, Route{}, framed, plain), exchange(relatedType, body)).wantAnswer(t, 200, reply11)
	if len(framed.got) != 1 || !framed.got[0].Multipart || plain.last(t).body != body {
		t.Errorf("framed: %d times, plain: %q", len(framed.got), plain.last(t).body)
	}
	framed.got = nil
	serve(t, one(t, Route{}, framed), exchange(relatedType, body)).wantPlain(t, 415, "")
	if len(framed.got) > 0 {
		t.Error("a framed node was asked")
	}
	s := &shelf{}
	serve(t, storing(t, s, Route{}), exchange(relatedType, body)).wantPlain(t, 202, "")
	if r := storing(t, s, Route{}, framed).Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != VerdictDead || r.Maybe {
		t.Errorf("Deliver: got %+v, want a dead message", r)
	}
	serve(t, storing(t, s, Route{}, framed), exchange(relatedType, body)).wantPlain(t, 415, "")
}

// TestPackageDelivered: a stored message gets what a try writes into it, and an
// answer with attachments is an envelope like any other.
func TestPackageDelivered(t *testing.T) {
	body := packageAround(fields11, withTo, 1600)
	for _, c := range []struct {
		name string
		resp func() *Response
		want Verdict
	}{
		{"good", func() *Response {
			return respond(200, relatedType, string(packageAround(fields11, reply11, 100_000).bytes()))
		}, VerdictDelivered},
		{"gzip", func() *Response {
			return respond(200, relatedType, string(encode(t, "gzip", packageAround(fields11, reply11, 1000).bytes())), "Content-Encoding", "gzip")
		}, VerdictDelivered},
		{"a fault", func() *Response {
			return respond(500, relatedType, string(packageAround(fields11, fault11, 100).bytes()))
		}, VerdictRetry},
		{"no close delimiter", func() *Response {
			b := string(packageAround(fields11, reply11, 100).bytes())
			return respond(200, relatedType, b[:len(b)-3])
		}, VerdictRetry},
	} {
		s := &shelf{}
		n := newNode("http://node.test/svc")
		n.answer = always(c.resp(), nil)
		h := storing(t, s, Route{WSATo: true}, n)
		serve(t, h, exchange(relatedType, string(body.bytes()))).wantPlain(t, 202, "")
		if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != c.want {
			t.Errorf("%s: got %+v", c.name, r)
		}
		want := string(body.write(fields11, []byte(strings.Replace(withTo, "urn:gw", "http://node.test/svc", 1))))
		if got := n.last(t); got.body != want || got.Length != int64(len(want)) {
			t.Errorf("%s: the node got %q, Length %d, want %q", c.name, got.body, got.Length, want)
		}
	}
}

// TestPackageReplies: answers with attachments of every kind, for callers over
// HTTP and framed ones, who get none.
func TestPackageReplies(t *testing.T) {
	small, large := packageAround(fields11, reply11, 160).bytes(), packageAround(fields11, reply11, 400_000).bytes()
	for _, c := range []struct {
		name  string
		body  []byte
		code  soapcodec.Code // of the fault of the gateway
		cut   bool
		route Route
		typ   string
		coded bool
	}{
		{name: "small", body: small},
		{name: "large", body: large},
		{name: "small, coded", body: small, coded: true},
		{name: "large, coded", body: large, coded: true},
		{name: "cut", body: small[:len(small)-4], code: "BackendNotSOAP"},
		{name: "large, cut", body: large[:len(large)-4], cut: true},
		{name: "no boundary", body: small, typ: "multipart/related", code: "BackendNotSOAP"},
		{name: "root is no envelope", body: bytes.Replace(small, []byte("application/xop+xml"), []byte("text/html"), 1), code: "BackendNotSOAP"},
	} {
		n := newNode("http://node.test/svc")
		typ := relatedType
		if c.typ != "" {
			typ = c.typ
		}
		body := c.body
		resp := respond(200, typ, string(body))
		if c.coded {
			body = encode(t, "gzip", body)
			resp = respond(200, typ, string(body), "Content-Encoding", "gzip")
		}
		n.answer = always(resp, nil)
		c.route.Limits = Limits{Buffer: 64 << 10, DecodeRatio: -1}
		g := serve(t, one(t, c.route, n), exchange("text/xml", env11))
		switch {
		case c.code != "":
			g.wantFault(t, soapcodec.V11, c.code)
		case c.cut:
			if g.err == nil || len(g.body) > len(c.body)-holdBack {
				t.Errorf("%s: got %d of %d octets, %v, want the reply cut", c.name, len(g.body), len(c.body), g.err)
			}
		default:
			if g.Status != 200 || g.body != string(body) || g.err != nil || g.Header.Get("Content-Type") != relatedType {
				t.Errorf("%s: got %d, %d octets of %d, %v", c.name, g.Status, len(g.body), len(body), g.err)
			}
		}
		n.answer = always(respond(200, relatedType, string(small)), nil)
		serve(t, one(t, Route{}, n), framedExchange(env11)).wantFault(t, soapcodec.V11, "BackendNotSOAP")
	}
}
