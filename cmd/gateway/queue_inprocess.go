package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// inProcess hands requests to a handler of this process. What that writes is read
// while it is written, so that a file of any size passes through.
type inProcess struct {
	h     http.Handler
	calls sync.WaitGroup // of the handler
}

var _ http.RoundTripper = (*inProcess)(nil)

// RoundTrip implements [http.RoundTripper].
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	w := &piped{header: http.Header{}, out: out, begun: make(chan struct{})}
	if r.Body == nil {
		r.Body = http.NoBody // as a handler may expect
	}
	t.calls.Go(func() {
		defer r.Body.Close()
		defer func() {
			if p := recover(); p != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_ = out.CloseWithError(fmt.Errorf("broke off: %v", p))
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = out.Close()
		}()
		t.h.ServeHTTP(w, r)
	})
	<-w.begun
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// piped passes on what a handler writes.
type piped struct {
	header http.Header
	out    *io.PipeWriter
	begun  chan struct{} // closed once status and sent are set
	status int
	sent   http.Header
}

func (a *piped) Header() http.Header { return a.header }

func (a *piped) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	}
}

func (a *piped) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(b)
}
