package listen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// streamPeer is a raw client of HTTP/2: it sends what it is told to, right or
// wrong.
type streamPeer struct {
	t *testing.T
	net.Conn
	*http2.Framer
	next uint32 // the next stream

	text   bytes.Buffer
	encode *hpack.Encoder
	decode *hpack.Decoder

	streams map[uint32]*streamAnswer
	away    *http2.GoAwayFrame
	pongs   int
	stingy  bool // sends no WINDOW_UPDATE of its own
}

// streamAnswer is what came on a stream.
type streamAnswer struct {
	fields   map[string]string
	interim  []string // statuses below 200
	body     strings.Builder
	ended    bool
	reset    bool
	code     http2.ErrCode // of the reset
	trailers map[string]string
}

func (a *streamAnswer) status() string { return a.fields[":status"] }

// speak begins HTTP/2 on c.
func speak(t *testing.T, c net.Conn, settings ...http2.Setting) *streamPeer {
	t.Helper()
	p := quiet(t, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	p.must(p.WriteSettings(settings...))
	return p
}

// quiet is a peer that has not said anything.
func quiet(t *testing.T, c net.Conn) *streamPeer {
	p := &streamPeer{t: t, Conn: c, Framer: http2.NewFramer(c, c), next: 1, streams: map[uint32]*streamAnswer{}}
	p.encode = hpack.NewEncoder(&p.text)
	p.decode = hpack.NewDecoder(4096, nil)
	p.AllowIllegalWrites = true
	return p
}

func connectH2(t *testing.T, addr string) *streamPeer {
	t.Helper()
	return speak(t, connect(t, addr).TCPConn)
}

func (p *streamPeer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// block encodes fields, which are names and values in turn.
func (p *streamPeer) block(fields ...string) []byte {
	p.text.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.text.Bytes())
}

// common are the fields of a request, with further ones.
func common(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":authority", "gw", ":path", "/x"}, more...)
}

// open sends the head of a request.
func (p *streamPeer) open(end bool, fields ...string) uint32 {
	p.t.Helper()
	id := p.next
	p.next += 2
	p.streams[id] = &streamAnswer{}
	p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(fields...), EndStream: end, EndHeaders: true}))
	return id
}

// post sends a whole request.
func (p *streamPeer) post(body string, more ...string) uint32 {
	p.t.Helper()
	id := p.open(false, common(more...)...)
	p.must(p.WriteData(id, true, []byte(body)))
	return id
}

// one takes in one frame.
func (p *streamPeer) one() error {
	f, err := p.ReadFrame()
	if err != nil {
		return err
	}
	a := p.streams[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			p.WriteSettingsAck() // it may have closed by now
		}
	case *http2.HeadersFrame:
		fields, err := p.decode.DecodeFull(f.HeaderBlockFragment())
		if err != nil || a == nil || !f.HeadersEnded() {
			return fmt.Errorf("got %v, %v", f, err)
		}
		m := map[string]string{}
		for _, hf := range fields {
			m[hf.Name] = hf.Value
		}
		switch {
		case strings.HasPrefix(m[":status"], "1"):
			a.interim = append(a.interim, m[":status"])
		case a.fields == nil:
			a.fields = m
		default:
			a.trailers = m
		}
		a.ended = f.StreamEnded()
	case *http2.DataFrame:
		a.body.Write(f.Data())
		a.ended = f.StreamEnded()
		if n := uint32(len(f.Data())); n > 0 && !p.stingy {
			p.WriteWindowUpdate(0, n)
			if !a.ended {
				p.WriteWindowUpdate(f.StreamID, n)
			}
		}
	case *http2.RSTStreamFrame:
		if a != nil {
			a.reset, a.code = true, f.ErrCode
		}
	case *http2.PingFrame:
		p.pongs++
	case *http2.GoAwayFrame:
		p.away = f
	}
	return nil
}

// pong waits until the server has taken in what it was sent.
func (p *streamPeer) pong() {
	p.t.Helper()
	p.must(p.WritePing(false, [8]byte{}))
	for seen := p.pongs; p.pongs == seen; {
		p.must(p.one())
	}
}

// answer waits for the end of a stream: an answer, or an error that says how it
// ended else.
func (p *streamPeer) answer(id uint32) (*streamAnswer, error) {
	a := p.streams[id]
	for !a.ended && !a.reset {
		if err := p.one(); err != nil {
			if p.away != nil {
				return a, fmt.Errorf("GOAWAY %v, %w", p.away.ErrCode, err)
			}
			return a, err
		}
	}
	if a.reset && !a.ended {
		return a, errors.New("RST_STREAM " + a.code.String())
	}
	return a, nil
}

// echoed expects the answer of a stream to be 200 with a body.
func (p *streamPeer) echoed(id uint32, want string) {
	p.t.Helper()
	if a, err := p.answer(id); err != nil || a.status() != "200" || a.body.String() != want {
		p.t.Errorf("got %v, %d octets %.40q, %v, want 200 and %d octets %.40q", a.fields, a.body.Len(), a.body.String(), err, len(want), want)
	}
}

// gone reads until the connection ends and returns how.
func (p *streamPeer) gone() error {
	for {
		if err := p.one(); err != nil {
			return err
		}
	}
}
