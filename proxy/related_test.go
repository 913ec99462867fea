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
