package listen

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"soapway/proxy"
)

// HTTP is a listener for HTTP/1.1.
type HTTP struct {
	opt  HTTPOptions
	srv  proxy.Server
	ln   *bounded
	http *http.Server
	open sync.WaitGroup // connections that net/http serves

	abort context.CancelCauseFunc // ends every exchange

	cut   context.Context // done when the drain is to end before its time
	cutIt context.CancelFunc
}

// NewHTTP returns a listener that is not bound yet.
func NewHTTP(opt HTTPOptions, srv proxy.Server) (*HTTP, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	l := &HTTP{opt: opt, srv: srv}
	base, abort := context.WithCancelCause(context.Background())
	l.abort = abort
	l.cut, l.cutIt = context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	l.http = &http.Server{
		Handler:                      http.HandlerFunc(l.serveHTTP),
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
				l.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				l.open.Done()
			}
		},
	}
	return l, nil
}

type connKey struct{}

// Listen binds the address.
func (l *HTTP) Listen() error {
	ln, err := bind(l.opt.Name, l.opt.Address, l.opt.MaxConnections)
	if err != nil {
		return err
	}
	l.ln = ln
	return nil
}

// Addr is the bound address, nil before Listen.
func (l *HTTP) Addr() net.Addr {
	if l.ln == nil {
		return nil
	}
	return l.ln.Addr()
}

// Close gives the address back when Run is never called. After Run it does
// nothing.
func (l *HTTP) Close() error {
	if l.ln == nil {
		return nil
	}
	return l.ln.Close()
}

// Cut ends the drain of a Run whose context is cancelled, now or later, as if
// HTTPOptions.Drain were over.
func (l *HTTP) Cut() { l.cutIt() }

// Run serves until ctx is cancelled, then takes no further connection or
// request, gives exchanges under way HTTPOptions.Drain to finish and cuts the
// rest: their context ends with [ErrShutdown]. It returns once no goroutine of
// its own is left; nil means a clean stop. Call it once, after Listen.
func (l *HTTP) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- l.http.Serve(watched{l.ln}) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(l.cut, max(l.opt.Drain, 0))
		l.ln.Close()
		// Shutdown would wait for those who have not said anything yet.
		l.ln.closeSilent()
		if l.http.Shutdown(drain) != nil {
			l.abort(ErrShutdown)
		}
		cancel()
		err = <-served
	}
	l.abort(ErrShutdown)
	l.http.Close()
	l.ln.Close()
	l.open.Wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return nil
	}
	return err
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
