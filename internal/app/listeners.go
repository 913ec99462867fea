package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"soapway/config"
	"soapway/proxy"
	"soapway/proxy/listen"
)

// transport is what the listeners of package listen have in common.
type transport interface {
	Listen() error
	Run(context.Context) error
	Cut()
	SetTLS(*tls.Config)
	Addr() net.Addr
	Close() error
}

var (
	_ transport = (*listen.HTTP)(nil)
	_ transport = (*listen.Framed)(nil)
)

// A listener is a transport with its place in the configuration.
type listener struct {
	transport
	name     string
	protocol config.Protocol
}

// newListeners makes the listeners of cfg, not yet bound.
// trusted says which peers of those with proxy_protocol are believed.
func newListeners(cfg *config.Config, securities securities, srv proxy.Server, trusted func(netip.Addr) bool, log *slog.Logger) ([]*listener, config.Problems) {
	var (
		made     []*listener
		problems config.Problems
		sizes    = sizesOf(cfg)
	)
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		proxies := trusted
		if !l.ProxyProtocol {
			proxies = nil
		}
		t, err := newTransport(l, sizes, securities.of(l.Name), proxies, srv, log.With("listener", l.Name))
		if err != nil {
			problems = append(problems, refusals(cfg, "listeners."+l.Name, err)...)
			continue
		}
		made = append(made, &listener{t, l.Name, l.Protocol})
	}
	return made, problems
}

// headRoom is how large a head a listener reads at least. What a route takes is
// for the handler to say; the room lets a reload widen limits.header_bytes on a
// listener that it cannot touch.
const headRoom = 256 << 10

func (s sizes) headBytes() int64 { return max(s.header, headRoom) }

// resize gives listeners the sizes of a new configuration.
func resize(ls []*listener, s sizes) {
	for _, l := range ls {
		if f, ok := l.transport.(*listen.Framed); ok {
			f.SetSizes(s.message, s.buffer)
		}
	}
}

func newTransport(l *config.Listener, s sizes, over *tls.Config, proxies func(netip.Addr) bool, srv proxy.Server, log *slog.Logger) (transport, error) {
	timeouts := listen.Timeouts{
		Header:   l.Timeouts.Header.Or(forever),
		BodyIdle: l.Timeouts.BodyIdle.Or(forever),
		Idle:     l.Timeouts.Idle.Or(forever),
	}
	if l.Protocol == config.ProtocolFramed {
		return listen.NewFramed(listen.FramedOptions{
			Name:           l.Name,
			Address:        l.Address,
			TLS:            over,
			Proxies:        proxies,
			Length:         l.Length,
			Route:          l.Route,
			Timeouts:       timeouts,
			MaxMessage:     s.message,
			Buffer:         s.buffer,
			MaxConnections: countOr(l.MaxConnections, 1<<30),
			Drain:          forever, // the group of parts has the budget
			Log:            log,
		}, srv)
	}
	return listen.NewHTTP(listen.HTTPOptions{
		Name:           l.Name,
		Address:        l.Address,
		TLS:            over,
		Proxies:        proxies,
		Route:          l.Route,
		H2C:            l.H2C,
		Engine:         engines[l.Engine],
		Timeouts:       timeouts,
		MaxConnections: countOr(l.MaxConnections, 1<<30),
		HeaderBytes:    int(s.headBytes()),
		Drain:          forever,
		Log:            log,
	}, srv)
}

// engines are the engines of HTTP listeners by their name.
var engines = map[config.Engine]listen.Engine{config.EngineFast: listen.Fast, config.EngineStd: listen.Std}

// bindAll binds every listener, or none.
func bindAll(cfg *config.Config, ls []*listener) config.Problems {
	var problems config.Problems
	for i, l := range ls {
		if err := l.Listen(); err != nil {
			problems = append(problems, addressProblem(cfg, "listeners."+l.name+".address", err))
			for _, bound := range ls[:i] {
				_ = bound.Close()
			}
			return problems
		}
	}
	return nil
}

// addressProblem says why an address cannot be bound.
func addressProblem(cfg *config.Config, key string, err error) config.Problem {
	hint := ""
	if e, ok := errors.AsType[*net.OpError](err); ok {
		// "listen tcp 127.0.0.1:80: " is what the key says already.
		err = e.Err
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		err = errors.New(e.Err) // the name may have come from a variable
	}
	if inUse(err) {
		hint = "another program listens there, or another gateway"
	}
	return cfg.Problem(key, fmt.Sprintf("cannot be bound: %v", err), hint)
}

// runListeners is the part that runs all of them together. When one fails the
// others stop.
func runListeners(ls []*listener) func(stop, cut context.Context) error {
	return func(stop, cut context.Context) error {
		stop, fail := context.WithCancel(stop)
		defer fail()
		defer context.AfterFunc(cut, func() {
			for _, l := range ls {
				l.Cut()
			}
		})()
		errs := make([]error, len(ls))
		var wg sync.WaitGroup
		for i, l := range ls {
			wg.Go(func() {
				defer fail()
				if err := l.Run(stop); err != nil {
					errs[i] = fmt.Errorf("%s: %w", l.name, err)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}
