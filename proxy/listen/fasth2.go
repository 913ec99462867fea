package listen

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"soapway/internal/field"
	"soapway/internal/h1"
	"soapway/internal/h2"
	"soapway/proxy"
)

var (
	_ engine     = (*fastH2)(nil)
	_ h2.Handler = (*fastH2)(nil)
)

// fastH2 serves the connections of HTTP/2 with package h2.
type fastH2 struct {
	opt      HTTPOptions
	srv      proxy.Server
	h2       *h2.Server
	workers  workers
	underWay atomic.Int64
}

func newFastH2(opt HTTPOptions, srv proxy.Server) (*fastH2, error) {
	e := &fastH2{opt: opt, srv: srv}
	var err error
	e.h2, err = h2.NewServer(h2.Options{Options: opt.engine(), Run: e.workers.run}, e)
	return e, err
}

func (e *fastH2) serve(ln *bounded) error {
	for {
		select {
		case c := <-ln.entry.h2:
			go e.h2.ServeConn(c) // stop waits for it
		case <-ln.closing:
			return net.ErrClosed
		}
	}
}

func (e *fastH2) drain(ctx context.Context, _ *bounded) { e.h2.Shutdown(ctx) }

func (e *fastH2) stop() {
	e.h2.Close(ErrShutdown)
	e.workers.close()
}

// tooMany is the reply to an exchange above MaxConnections.
var tooMany = field.List{{Name: "Retry-After", Value: "1"}}

// Serve implements [h2.Handler].
func (e *fastH2) Serve(ctx context.Context, r *h2.Request, w *h1.Response) {
	if e.underWay.Add(1) > int64(e.opt.MaxConnections) {
		give(w, &proxy.Reply{Status: http.StatusServiceUnavailable, Header: tooMany})
		return
	}
	give(w, answer(proxy.NewEnding(ctx), &e.opt, e.srv, e.opt.exchange(&r.Head, r.Body)))
}

// Done implements [h2.Handler].
func (e *fastH2) Done(w *h1.Response, cut error) {
	e.underWay.Add(-1)
	done(w, cut)
}
