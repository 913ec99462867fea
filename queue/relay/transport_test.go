package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTransport: a link speaks HTTP/2, and HTTP/1.1 with who knows no better.
func TestTransport(t *testing.T) {
	for _, c := range []struct {
		http2 bool
		want  string
	}{{true, "HTTP/2.0"}, {false, "HTTP/1.1"}} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		s.EnableHTTP2 = c.http2
		s.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		tr := transport(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
		r, err := (&http.Client{Transport: tr}).Post(s.URL, typeBatch, strings.NewReader("batch"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		if r.Proto != c.want || string(b) != "batch" || err != nil {
			t.Errorf("%s %q, %v: want %s", r.Proto, b, err, c.want)
		}
		r.Body.Close()
		tr.CloseIdleConnections()
		s.Close()
	}
}

// TestGate: while something of a higher priority is under way those below it wait, and
// those beside and above it do not.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		enter := func(p uint8) chan error {
			done := make(chan error, 1)
			go func() { done <- g.enter(t.Context(), p) }()
			synctest.Wait()
			return done
		}
		in := func(c chan error) bool {
			synctest.Wait()
			select {
			case err := <-c:
				return err == nil
			default:
				return false
			}
		}
		if !in(enter(5)) {
			t.Fatal("the first does not get in")
		}
		low := enter(1)
		if in(low) {
			t.Error("one of a lower priority does not wait")
		}
		if !in(enter(5)) || !in(enter(9)) {
			t.Error("one beside, or above, waits")
		}
		g.leave(5)
		g.leave(5)
		if in(low) {
			t.Error("one of a lower priority does not wait for the highest")
		}
		g.leave(9)
		if !in(low) {
			t.Error("one of a lower priority waits for nobody")
		}
		g.leave(1)

		if !in(enter(5)) {
			t.Fatal("the gate is shut")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.enter(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("enter: got %v, want that the time is over", err)
		}
		g.leave(5)
		if !in(enter(0)) {
			t.Error("one that has given up holds the gate")
		}
	})
}

// TestBucket: what goes through takes the time that the rate asks for.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bucket{rate: 1000}
		began := time.Now()
		r := &slow{t.Context(), strings.NewReader(strings.Repeat("x", 10_000)), b, func(int) {}}
		n, err := io.Copy(io.Discard, r)
		if took := time.Since(began); n != 10_000 || err != nil || took < 9500*time.Millisecond || took > 10*time.Second {
			t.Errorf("%d octets at 1000 a second: %v, %v", n, took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := io.Copy(io.Discard, &slow{ctx, strings.NewReader(strings.Repeat("x", 10_000)), b, func(int) {}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read that is cut off: got %v", err)
		}
	})
}
