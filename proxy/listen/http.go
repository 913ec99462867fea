package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"

	"soapway/proxy"
)

// HTTP is a listener for HTTP/1.1 and, where clients can ask for it, HTTP/2.
type HTTP struct {
	opt    HTTPOptions
	ln     *bounded
	engine engine
	h2     engine // for HTTP/2; nil where nobody can ask for it

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
	takesH2 := opt.TLS != nil || opt.H2C
	if opt.Engine == Std {
		l.engine = newStd(opt, srv)
		if takesH2 {
			l.h2 = newStdH2(opt, srv)
		}
		return l, nil
	}
	var err error
	if l.engine, err = newFast(opt, srv); err == nil && takesH2 {
		l.h2, err = newFastH2(opt, srv)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Listen binds the address.
func (l *HTTP) Listen() error {
	ln, err := bind(l.opt.Name, l.opt.Address, l.opt.MaxConnections)
	if err != nil {
		return err
	}
	l.use(ln)
	return nil
}

// use makes ln the socket of the listener.
func (l *HTTP) use(ln *bounded) {
	if l.h2 != nil || l.opt.Proxies != nil {
		ln.entry = newEntrance(l.opt.Name, l.opt.Timeouts, l.opt.Log)
		ln.entry.http = true
		ln.entry.sniffs = l.opt.H2C
		ln.entry.proxies = l.opt.Proxies
		if l.opt.TLS != nil {
			ln.entry.set(l.opt.TLS)
		}
	}
	l.ln = ln
}

// SetTLS changes HTTPOptions.TLS for connections that are made from now on; call
// it after Listen. A listener without TLS stays so.
func (l *HTTP) SetTLS(cfg *tls.Config) {
	if l.opt.TLS != nil {
		l.ln.entry.set(cfg)
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
	engines := []engine{l.engine}
	if l.h2 != nil {
		engines = append(engines, l.h2)
	}
	served := make(chan error, len(engines))
	for _, e := range engines {
		go func() { served <- e.serve(l.ln) }()
	}
	left := len(engines)
	var err error
	select {
	case err = <-served:
		left--
		l.ln.Close()
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(l.cut, max(l.opt.Drain, 0))
		l.ln.Close()
		var drains sync.WaitGroup
		for _, e := range engines {
			drains.Go(func() { e.drain(drain, l.ln) })
		}
		drains.Wait()
		cancel()
	}
	for range left {
		if e := <-served; err == nil {
			err = e
		}
	}
	for _, e := range engines {
		e.stop()
	}
	l.ln.wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}
