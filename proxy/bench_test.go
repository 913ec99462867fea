package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// sink is a node that reads and answers with as little as it can, so that what
// is measured is the handler.
type sink struct {
	resp []byte
	buf  []byte
}

func (s *sink) Name() string                { return "http://node.test/svc" }
func (s *sink) Probe(context.Context) error { return nil }
func (s *sink) InFlight() int64             { return 0 }
func (s *sink) Close()                      {}

func (s *sink) Send(_ context.Context, req *Request) (*Response, error) {
	rc, err := req.Body()
	if err != nil {
		return nil, err
	}
	for err == nil {
		_, err = rc.Read(s.buf)
	}
	rc.Close()
	return &Response{
		Status: 200, Header: field.Of(http.Header{"Content-Type": []string{"text/xml; charset=utf-8"}}),
		Body: io.NopCloser(bytes.NewReader(s.resp)), Length: int64(len(s.resp)),
	}, nil
}

// run serves one exchange and reads the reply as a listener does.
func run(h *Handler, body *bytes.Reader, doc []byte, header field.List, scratch []byte) int {
	body.Reset(doc)
	ex := &Exchange{Method: "POST", Target: "/depot", Host: "gw.test", Header: header, Body: body, Length: int64(len(doc))}
	r := h.Serve(context.Background(), ex)
	for {
		if _, err := r.Body.Read(scratch); err != nil {
			break
		}
	}
	r.Close()
	return r.Status
}

func smallPath(tb testing.TB) (h *Handler, doc []byte, header field.List) {
	doc = []byte(strings.Replace(env11, ">x<", ">"+strings.Repeat("<i>text</i>", 100)+"<", 1))
	n := &sink{resp: doc, buf: make([]byte, 32<<10)}
	h = one(tb, Route{Match: Match{Path: "/depot"}}, n)
	header = field.Of(http.Header{
		"Content-Type": {"text/xml; charset=utf-8"}, soapActionKey: {`"urn:a"`}, "User-Agent": {"x"}, "Accept": {"*/*"},
		"Accept-Encoding": {"gzip"},
	})
	return h, doc, header
}

// TestAllocs bounds the allocations of a good message that fits the buffer: its
// fields, its ids and the objects of one exchange, and none per octet or token.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget at random under the race detector")
	}
	h, doc, header := smallPath(t)
	var body bytes.Reader
	scratch := make([]byte, 32<<10)
	got := testing.AllocsPerRun(200, func() {
		if status := run(h, &body, doc, header, scratch); status != 200 {
			t.Fatalf("got status %d", status)
		}
	})
	if got > maxAllocs {
		t.Errorf("an exchange allocates %v times, want at most %d", got, maxAllocs)
	}
}

// maxAllocs: 22 were counted by BenchmarkServe; headroom for
// the pools that a collection empties.
const maxAllocs = 26

// BenchmarkServe is the handler alone, without sockets.
func BenchmarkServe(b *testing.B) {
	h, doc, header := smallPath(b)
	var body bytes.Reader
	scratch := make([]byte, 32<<10)
	b.SetBytes(int64(2 * len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if status := run(h, &body, doc, header, scratch); status != 200 {
			b.Fatalf("got status %d", status)
		}
	}
}

// pit is a store that forgets.
type pit struct{}

func (pit) NewBlob(int64) (BlobWriter, error) { return nil, ErrStoreBusy }

func (pit) Enqueue(context.Context, *Stored) (Receipt, error) { return Receipt{}, nil }

// BenchmarkAccept is what taking a message for the store costs, but for the
// socket and the store.
func BenchmarkAccept(b *testing.B) {
	_, doc, header := smallPath(b)
	h := one(b, Route{Match: Match{Path: "/depot"}, Delivery: Queue}, &sink{})
	h.opt.Enqueuer = pit{}
	client := netip.MustParseAddrPort("192.0.2.7:4711")
	var body bytes.Reader
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(doc)
		ex := &Exchange{
			Method: "POST", Target: "/depot", Host: "gw.test", Header: header, Client: client,
			Body: &body, Length: int64(len(doc)),
		}
		r := h.Serve(context.Background(), ex)
		if r.Status != 202 {
			b.Fatalf("got status %d", r.Status)
		}
		r.Close()
	}
}

// BenchmarkPass is a large message on its way, checked and held back.
func BenchmarkPass(b *testing.B) {
	doc := big(8 << 20)
	scratch := make([]byte, 32<<10)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		p := newPass(bytes.NewReader(doc), soapcodec.Options{})
		for {
			if _, err := p.Read(scratch); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
