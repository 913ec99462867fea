package listen

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"soapway/internal/frame"
	"soapway/proxy"
)

// benchServer reads the request and answers 1 KiB.
func benchServer(_ context.Context, ex *proxy.Exchange) *proxy.Reply {
	io.Copy(io.Discard, ex.Body)
	return &proxy.Reply{Status: 200, Body: strings.NewReader(benchBody), Length: int64(len(benchBody))}
}

var benchBody = strings.Repeat("x", 1024)

func benchDial(b *testing.B, l runner) *net.TCPConn {
	b.Helper()
	if err := l.Listen(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(); cancel(); <-done })
	return c.(*net.TCPConn)
}

// BenchmarkHTTP: one keep-alive client, one request after the other. Compare the
// engines within one run.
func BenchmarkHTTP(b *testing.B) {
	for _, engine := range []struct {
		name string
		Engine
	}{{"fast", Fast}, {"std", Std}} {
		b.Run(engine.name, func(b *testing.B) {
			l, err := NewHTTP(HTTPOptions{Address: "127.0.0.1:0", Engine: engine.Engine}, serverFunc(benchServer))
			if err != nil {
				b.Fatal(err)
			}
			c := benchDial(b, l)
			req := []byte(post(benchBody, "Content-Type: text/xml", "Content-Length: 1024", `SOAPAction: "a"`, "User-Agent: bench", "Accept: */*"))
			answer := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				c.Write(req)
				for n := 0; !bytes.HasSuffix(answer[:n], []byte("xxxx")) || n < len(benchBody); {
					m, err := c.Read(answer[n:])
					if err != nil {
						b.Fatal(err)
					}
					n += m
				}
			}
		})
	}
}

// BenchmarkHTTP2: one client, one stream after the other; compare with BenchmarkHTTP
// in the same run.
func BenchmarkHTTP2(b *testing.B) {
	l, err := NewHTTP(HTTPOptions{Address: "127.0.0.1:0", H2C: true}, serverFunc(benchServer))
	if err != nil {
		b.Fatal(err)
	}
	c := benchDial(b, l)
	fr := http2.NewFramer(c, bufio.NewReaderSize(c, 16<<10))
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	io.WriteString(c, http2.ClientPreface)
	fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	id := uint32(1)
	b.ReportAllocs()
	for b.Loop() {
		head.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":authority", "gw"},
			{":path", "/x"},
			{"content-type", "text/xml"},
			{"content-length", "1024"},
			{"soapaction", `"a"`},
			{"user-agent", "bench"},
			{"accept", "*/*"},
		} {
			enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
		fr.WriteData(id, true, []byte(benchBody))
		for ended := false; !ended; {
			f, err := fr.ReadFrame()
			if err != nil {
				b.Fatal(err)
			}
			if d, ok := f.(*http2.DataFrame); ok {
				ended = d.StreamEnded()
			}
		}
		fr.WriteWindowUpdate(0, uint32(len(benchBody)))
		id += 2
	}
}

// BenchmarkFramed: one client with 64 requests in flight; one iteration is one
// message.
func BenchmarkFramed(b *testing.B) {
	l, err := NewFramed(FramedOptions{Address: "127.0.0.1:0"}, serverFunc(benchServer))
	if err != nil {
		b.Fatal(err)
	}
	c := benchDial(b, l)
	const batch = 32
	req := []byte(strings.Repeat(framed(2, benchBody), batch))
	r := frame.NewReader(c, 2, 65535, 64<<10)
	b.ReportAllocs()
	c.Write(req)
	left := batch
	for b.Loop() {
		if left == batch/2 {
			c.Write(req[:len(req)/2])
			left += batch / 2
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, r)
		left--
	}
}
