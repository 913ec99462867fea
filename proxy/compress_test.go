package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"soapway/internal/field"
	"soapway/proxy/balance"
	"soapway/soapcodec"
)

// unpacked is a body without its coding.
func unpacked(t *testing.T, coding, body string) string {
	t.Helper()
	var r io.Reader = strings.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("%s: %v after %d octets", coding, err, len(b))
	}
	return string(b)
}

// TestCompress: messages go to HTTP nodes in the coding of the backend, whole,
// streaming and stored ones; short ones, and those to other nodes, as they are.
func TestCompress(t *testing.T) {
	medium := strings.Replace(env11, ">x<", ">"+strings.Repeat("abc ", 2000)+"<", 1)
	for _, kind := range []Compress{CompressGzip, CompressZstd} {
		for _, c := range []struct {
			name, node, body string
			coding           string
			length           bool // is known
		}{
			{"whole", "http://node.test/x", medium, kind.String(), true},
			{"stream", "https://node.test/x", string(big(400_000)), kind.String(), false},
			{"short", "http://node.test/x", env11, "", true},
			{"framed", "framed://node.test:7", medium, "", true},
			{"builtin", "builtin:echo", medium, "", true},
		} {
			n := newNode(c.node)
			r := streamRoute()
			r.Backend = &Backend{Nodes: []Node{n}, Compress: kind}
			ex := exchange("text/xml; charset=utf-8", c.body, "Content-MD5", "x", "Content-Digest", "y", "Accept-Encoding", "br")
			serve(t, one(t, r), ex).wantAnswer(t, 200, reply11)
			s := n.last(t)
			if got := s.Header.Get("Content-Encoding"); got != c.coding {
				t.Errorf("%v, %s: Content-Encoding %q, want %q", kind, c.name, got, c.coding)
			}
			if (s.Length >= 0) != c.length || c.length && s.Length != int64(len(s.body)) {
				t.Errorf("%v, %s: Length is %d of %d octets", kind, c.name, s.Length, len(s.body))
			}
			if c.coding != "" && (len(s.body) > len(c.body)/2 || s.Header.Get("Content-Digest")+s.Header.Get("Content-Md5") != "") {
				t.Errorf("%v, %s: %d octets of %d, digests %v", kind, c.name, len(s.body), len(c.body), s.Header)
			}
			if got := unpacked(t, c.coding, s.body); got != c.body {
				t.Errorf("%v, %s: the node reads %d octets, want the %d of the message", kind, c.name, len(got), len(c.body))
			}
		}
		n, shelf := newNode("http://node.test/x"), &shelf{}
		h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{{Name: "r", Delivery: Queue, Backend: &Backend{Nodes: []Node{n}, Compress: kind}}}}), Options{Enqueuer: shelf})
		serve(t, h, exchange("text/xml", medium))
		if string(shelf.kept[0].Body) != medium {
			t.Error("what is stored is compressed")
		}
		h.Deliver(t.Context(), shelf.kept[0], Try{Attempt: 1})
		if s := n.last(t); unpacked(t, kind.String(), s.body) != medium {
			t.Errorf("%v: a stored message does not arrive", kind)
		}
	}
}

// TestCompressOnceMore: each node is given the message from its start, and a
// coding that the caller of an unchecked method has chosen stays.
func TestCompressOnceMore(t *testing.T) {
	medium := strings.Replace(env11, ">x<", ">"+strings.Repeat("abc ", 2000)+"<", 1)
	a, b := newNode("http://a.test/x"), newNode("http://b.test/x")
	a.answer = always(nil, &SendError{Class: NotSent, Err: errDial})
	r := Route{Backend: &Backend{Nodes: []Node{a, b}, Policy: new(balance.RoundRobin), Compress: CompressGzip}, Methods: []string{"PUT"}}
	h := one(t, r)
	serve(t, h, exchange("text/xml", medium)).wantAnswer(t, 200, reply11)
	if got := unpacked(t, "gzip", b.last(t).body); got != medium || a.last(t).body != b.last(t).body {
		t.Error("the second node got something else than the first")
	}
	ex := exchange("text/plain", strings.Repeat("z", 5000), "content-encoding", "x-own")
	ex.Method = "PUT"
	serve(t, h, ex)
	if s := b.last(t); s.body != strings.Repeat("z", 5000) {
		t.Error("a body with a coding of its own was compressed")
	}
}

// TestCompressKeepsTheTail: a message that turns out bad at its end never
// becomes a complete body, compressed or not.
func TestCompressKeepsTheTail(t *testing.T) {
	doc := big(400_000)
	doc = append(doc[:len(doc)-len("</s:Envelope>")], []byte("</s:Envelopf>")...)
	for _, kind := range []Compress{CompressGzip, CompressZstd} {
		n := newNode("http://node.test/x")
		r := streamRoute()
		r.Backend = &Backend{Nodes: []Node{n}, Compress: kind}
		serve(t, one(t, r), exchange("text/xml", string(doc))).wantFault(t, soapcodec.V11, soapcodec.CodeNotWellFormed)
		if s := n.last(t); s.err == nil {
			t.Errorf("%v: the node got a complete body of %d octets", kind, len(s.body))
		}
	}
}

// TestCompressorIsClosedAnyTime: a Close does not wait for the sender, and a
// read after it gives nothing more.
func TestCompressorIsClosedAnyTime(t *testing.T) {
	pr, pw := io.Pipe()
	stuck := &stubborn{r: pr}
	p := newCompressor(stuck, CompressZstd, -1)
	read := make(chan error, 1)
	go func() {
		_, err := p.Read(make([]byte, 10))
		read <- err
	}()
	if _, err := pw.Write([]byte("<a>")); err != nil { // it reads
		t.Fatal(err)
	}
	if err := p.Close(); err != nil || !stuck.closed {
		t.Errorf("Close: got %v, closed %v", err, stuck.closed)
	}
	pw.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-read; err == nil {
		t.Error("a read that was under way has given something")
	}
	if n, err := p.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("Read after Close: got %d, %v", n, err)
	}
	again := newCompressor(io.NopCloser(strings.NewReader("<a/>")), CompressZstd, 4)
	b, err := io.ReadAll(iotest.OneByteReader(again))
	if err != nil || unpacked(t, "zstd", string(b)) != "<a/>" {
		t.Errorf("the next one: got %q, %v", b, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// stubborn is a body whose Close ends no read.
type stubborn struct {
	r      io.Reader
	closed bool
}

func (s *stubborn) Read(p []byte) (int, error) { return s.r.Read(p) }
func (s *stubborn) Close() error               { s.closed = true; return nil }

// TestCompressorFails: the error of the message is what a node's sender sees.
func TestCompressorFails(t *testing.T) {
	boom := errors.New("boom")
	for _, kind := range []Compress{CompressGzip, CompressZstd} {
		p := newCompressor(io.NopCloser(io.MultiReader(bytes.NewReader(bytes.Repeat([]byte("<a/>"), 9000)), iotest.ErrReader(boom))), kind, -1)
		if _, err := io.ReadAll(p); !errors.Is(err, boom) {
			t.Errorf("%v: got %v, want boom", kind, err)
		}
	}
}

func BenchmarkCompress(b *testing.B) {
	body := strings.Replace(env11, ">x<", ">"+strings.Repeat("abc ", 500)+"<", 1)
	for _, kind := range []Compress{CompressGzip, CompressZstd} {
		b.Run(kind.String(), func(b *testing.B) {
			n := newNode("http://node.test/x")
			back := compileBackend(&Backend{Nodes: []Node{n}, Compress: kind})
			c := &call{ctx: context.Background()}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				req := &Request{Header: field.List{}, Length: int64(len(body)), Body: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}
				if _, err := c.packed(back, 0, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
