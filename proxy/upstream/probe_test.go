package upstream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestProbe: a probe connects, sends nothing, and tells who cannot be reached.
func TestProbe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var octets, conns atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			n, _ := c.Read(make([]byte, 10))
			octets.Add(int64(n))
			c.Close()
		}
	}()
	addr := ln.Addr().String()
	web, err := NewHTTP(HTTPOptions{URL: "http://" + addr + "/orders", ConnectTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	plant, err := NewFramed(FramedOptions{Address: addr, ConnectTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	secure, err := NewHTTP(HTTPOptions{URL: "https://" + addr + "/", ConnectTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := web.Probe(t.Context()); err != nil {
		t.Errorf("http: %v", err)
	}
	if err := plant.Probe(t.Context()); err != nil {
		t.Errorf("framed: %v", err)
	}
	if err := secure.Probe(t.Context()); err == nil {
		t.Error("https: a peer that speaks no TLS passed")
	}
	ln.Close()
	<-done
	if conns.Load() != 3 || octets.Load() > 10 { // those are of the TLS handshake
		t.Errorf("%d connections and %d octets, want 3 and none but of TLS", conns.Load(), octets.Load())
	}
	for name, n := range map[string]interface{ Probe(context.Context) error }{"http": web, "framed": plant} {
		if err := n.Probe(t.Context()); err == nil {
			t.Errorf("%s: nothing listens, and it passed", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := web.Probe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	echo, err := NewBuiltin("echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := echo.Probe(t.Context()); err != nil {
		t.Errorf("builtin: %v", err)
	}
	echo.Close()
	if err := echo.Probe(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed builtin: got %v, want %v", err, ErrClosed)
	}
}
