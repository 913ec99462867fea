package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"soapway/internal/h1"
)

const patience = 10 * time.Second

// handlerFunc is a handler that does not care what becomes of its answers.
type handlerFunc func(ctx context.Context, r *Request, w *h1.Response)

func (f handlerFunc) Serve(ctx context.Context, r *Request, w *h1.Response) { f(ctx, r, w) }
func (handlerFunc) Done(*h1.Response, error)                                {}

// echo answers with the body of the request.
func echo(_ context.Context, r *Request, w *h1.Response) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.Status = 400
		return
	}
	w.Status, w.Body, w.Length = 200, bytes.NewReader(b), int64(len(b))
}

// serving starts a server on loopback.
func serving(t testing.TB, opt Options, h handlerFunc) (addr string) {
	t.Helper()
	s, err := NewServer(opt, h)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepting := make(chan bool)
	go func() {
		defer close(accepting)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.ServeConn(c)
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-accepting
		s.Close(errors.New("the test is over"))
	})
	return ln.Addr().String()
}

// client is a raw client: it sends what it is told to, right or wrong.
type client struct {
	t *testing.T
	net.Conn
	*http2.Framer

	text   bytes.Buffer
	encode *hpack.Encoder
	decode *hpack.Decoder
}

// dial connects and says what a client must say first.
func dial(t *testing.T, addr string, settings ...http2.Setting) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t: t, Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.AllowIllegalWrites = true
	c.encode = hpack.NewEncoder(&c.text)
	c.decode = hpack.NewDecoder(tableSize, nil)
	io.WriteString(conn, preface)
	c.must(c.WriteSettings(settings...))
	return c
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// block encodes the fields of a request, and further ones, which are names and
// values in turn.
func (c *client) block(more ...string) []byte {
	fields := append([]string{":method", "POST", ":scheme", "http", ":authority", "gw", ":path", "/x"}, more...)
	c.text.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.text.Bytes())
}

// open sends the head of a request.
func (c *client) open(id uint32, end bool, more ...string) {
	c.t.Helper()
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(more...), EndStream: end, EndHeaders: true}))
}

// next returns the next frame but for SETTINGS and WINDOW_UPDATE, as text.
func (c *client) next() string {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			fields, err := c.decode.DecodeFull(f.HeaderBlockFragment())
			if err != nil || len(fields) == 0 {
				return fmt.Sprintf("malformed head: %v", err)
			}
			return fmt.Sprintf("HEADERS %d %s%s", f.StreamID, fields[0].Value, endText(f.StreamEnded()))
		case *http2.DataFrame:
			return fmt.Sprintf("DATA %d %q%s", f.StreamID, f.Data(), endText(f.StreamEnded()))
		case *http2.RSTStreamFrame:
			return fmt.Sprintf("RST_STREAM %d %v", f.StreamID, f.ErrCode)
		case *http2.GoAwayFrame:
			return fmt.Sprintf("GOAWAY %d %v", f.LastStreamID, f.ErrCode)
		case *http2.PingFrame:
			return fmt.Sprintf("PING %q %v", f.Data, f.IsAck())
		}
	}
}

func endText(end bool) string {
	if end {
		return " end"
	}
	return ""
}

// expect compares the next frames.
func (c *client) expect(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.next(); got != w {
			c.t.Fatalf("got %s, want %s", got, w)
		}
	}
}

// works sends a request on a stream that was not used yet, and expects its echo.
func (c *client) works(id uint32) {
	c.t.Helper()
	c.open(id, false)
	c.must(c.WriteData(id, true, []byte("abc")))
	c.expect(fmt.Sprintf("HEADERS %d 200", id), fmt.Sprintf(`DATA %d "abc" end`, id))
}

// nil2 is a connection that is never used.
type nil2 struct{ net.Conn }

func (nil2) RemoteAddr() net.Addr               { return nil }
func (nil2) SetReadDeadline(t time.Time) error  { return nil }
func (nil2) SetWriteDeadline(t time.Time) error { return nil }
func (nil2) Close() error                       { return nil }
