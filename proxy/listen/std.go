package listen

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"soapway/proxy"
)

var _ engine = (*std)(nil)

// std is the engine of net/http.
type std struct {
	opt  HTTPOptions
	srv  proxy.Server
	http *http.Server
	open sync.WaitGroup // connections that net/http serves

	abort context.CancelCauseFunc // ends every exchange
}

func newStd(opt HTTPOptions, srv proxy.Server) *std {
	e := &std{opt: opt, srv: srv}
	base, abort := context.WithCancelCause(context.Background())
	e.abort = abort
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	e.http = &http.Server{
		Handler:                      http.HandlerFunc(e.serveHTTP),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            opt.Timeouts.Header,
		IdleTimeout:                  opt.Timeouts.Idle,
		MaxHeaderBytes:               opt.HeaderBytes,
		ErrorLog:                     slog.NewLogLogger(opt.Log.With("listener", opt.Name).Handler(), slog.LevelWarn),
		Protocols:                    protocols,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				e.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				e.open.Done()
			}
		},
	}
	return e
}

type connKey struct{}

func (e *std) serve(ln *bounded) error { return e.http.Serve(watched{ln}) }

func (e *std) drain(ctx context.Context, ln *bounded) {
	// Shutdown would wait for those who have not said anything yet.
	ln.closeSilent()
	if e.http.Shutdown(ctx) != nil {
		e.abort(ErrShutdown)
	}
}

func (e *std) stop() {
	e.abort(ErrShutdown)
	e.http.Close()
	e.open.Wait()
}

// watched gives every connection its eye on lengths.
type watched struct{ *bounded }

func (w watched) Accept() (net.Conn, error) {
	c, err := w.accept()
	if err != nil {
		return nil, err
	}
	c.watch = new(lengths)
	return c, nil
}
