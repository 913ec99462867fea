package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeoutOnAFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()

		tr := &http.Transport{DialContext: ln.Dial}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node/", strings.NewReader("<x/>"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := tr.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RoundTrip: got %v, want %v", err, context.DeadlineExceeded)
		}
		if got := time.Since(began); got != 20*time.Second {
			t.Errorf("RoundTrip took %v, want 20s", got)
		}
		tr.CloseIdleConnections()
		srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: got %v, want %v", err, http.ErrServerClosed)
		}
	})
}

func TestClosed(t *testing.T) {
	ln := Listen()
	ln.Close()
	ln.Close()
	if _, err := ln.Dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: got %v, want %v", err, net.ErrClosed)
	}
}
