package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"soapway/proxy"
)

// HTTP is a listener for HTTP/1.1.
type HTTP struct {
	opt    HTTPOptions
	ln     *bounded
	engine engine

	cut   context.Context // done when the drain is to end before its time
	cutIt context.CancelFunc
}

// engine speaks HTTP on the connections of a listener.
type engine interface {
	// serve takes connections until the listener is closed or fails.
	serve(ln *bounded) error

	// drain ends the connections that have nothing under way, and the others
	// with their answer. It returns when none is left or ctx is done.
	drain(ctx context.Context, ln *bounded)

	// stop ends what is left, with [ErrShutdown], and returns once no goroutine
	// of the engine is left. The listener is closed and serve has returned.
	stop()
}

// NewHTTP returns a listener that is not bound yet.
func NewHTTP(opt HTTPOptions, srv proxy.Server) (*HTTP, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	l := &HTTP{opt: opt}
	l.cut, l.cutIt = context.WithCancel(context.Background())
	if opt.Engine == Std {
		l.engine = newStd(opt, srv)
		return l, nil
	}
	e, err := newFast(opt, srv)
	if err != nil {
		return nil, err
	}
	l.engine = e
	return l, nil
}

// Listen binds the address.
func (l *HTTP) Listen() error {
	ln, err := bind(l.opt.Name, l.opt.Address, l.opt.MaxConnections)
	if err != nil {
		return err
	}
	if l.opt.TLS != nil {
		ln.tls = newTerminator(l.opt.Name, l.opt.Timeouts, l.opt.Log)
		ln.tls.http = true
		ln.tls.set(l.opt.TLS)
	}
	l.ln = ln
	return nil
}

// SetTLS changes HTTPOptions.TLS for connections that are made from now on; call
// it after Listen. A listener without TLS stays so.
func (l *HTTP) SetTLS(cfg *tls.Config) {
	if l.ln.tls != nil {
		l.ln.tls.set(cfg)
	}
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
	go func() { served <- l.engine.serve(l.ln) }()
	var err error
	select {
	case err = <-served:
		l.ln.Close()
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(l.cut, max(l.opt.Drain, 0))
		l.ln.Close()
		l.engine.drain(drain, l.ln)
		cancel()
		err = <-served
	}
	l.engine.stop()
	l.ln.wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}
