package listen

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

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
