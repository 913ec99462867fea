package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	headTimeout  = 5 * time.Second
	replyTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHead      = 16 << 10
)

// Options configures a [Server]. The zero value works.
type Options struct {
	// Token is what callers must present as a bearer token. Default: none is
	// asked for, which is right on the loopback only.
	Token string

	// Ready returns why the gateway is not ready, a reason each; none means
	// that it is. It must be fast: probes call it. Default: always ready.
	Ready func() []string

	// Degraded returns what the gateway has to do without although it is ready.
	// Default: nothing.
	Degraded func() []string

	// Metrics serves /metrics. Default: the path does not exist.
	Metrics http.Handler

	// Queue returns what the API shows and operates, nil while there is no
	// store. Default: there is none.
	Queue func() Queue

	// Gateway is what the API shows and does beside the stored messages. Default:
	// it is stopped.
	Gateway Gateway

	// SelfTest starts self-tests. Default: none can be started.
	SelfTest SelfTest

	// Events are what has happened. Default: some of its own.
	Events *Events

	// Audit gets a line for every change and refusal. Default: none is kept.
	Audit *Audit

	// TLS is what the listener speaks. Default: plain text. See [Server.SetTLS].
	TLS *tls.Config

	// Version is told by /api/v1/status. Default: left out.
	Version string

	// Log receives refusals, a line for every change that somebody has made
	// through the API, and what goes wrong on connections. Default: discard.
	Log *slog.Logger
}

// withDefaults returns o with zero fields filled in.
func (o Options) withDefaults() Options {
	if o.Ready == nil {
		o.Ready = func() []string { return nil }
	}
	if o.Degraded == nil {
		o.Degraded = func() []string { return nil }
	}
	if o.Queue == nil {
		o.Queue = func() Queue { return nil }
	}
	if o.Gateway == nil {
		o.Gateway = noGateway{}
	}
	if o.Events == nil {
		o.Events = new(Events)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Server is the admin listener of one gateway.
type Server struct {
	ln   net.Listener
	opt  Options
	http *http.Server
	base context.Context
	halt context.CancelCauseFunc
	tls  atomic.Pointer[tls.Config]

	guesses  guesses
	refusals refusals
}

// New returns a server on ln, which it owns from now on. It has not started.
func New(ln net.Listener, opt Options) *Server {
	s := &Server{ln: ln, opt: opt.withDefaults()}
	if opt.TLS != nil {
		s.tls.Store(opt.TLS)
		s.ln = tls.NewListener(ln, &tls.Config{
			MinVersion:         tls.VersionTLS12,
			GetConfigForClient: s.configFor,
		})
	}
	s.base, s.halt = context.WithCancelCause(context.Background())
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       replyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		// Requests see the cut of the gateway, so that a profile of minutes
		// does not hold up its stop.
		BaseContext: func(net.Listener) context.Context { return s.base },
	}
	return s
}

// configFor is the TLS of a connection. One by which an authority looks for a challenge
// (RFC 8737) gets what the configuration has for it, and net/http ends it after its
// handshake: nothing is served under the protocol that it agrees on.
func (s *Server) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	cfg := s.tls.Load()
	if cfg.GetConfigForClient != nil {
		if own, err := cfg.GetConfigForClient(hello); own != nil || err != nil {
			return own, err
		}
	}
	return cfg, nil
}

// SetTLS gives connections made from now on another certificate. The listener must
// have been made with [Options.TLS].
func (s *Server) SetTLS(cfg *tls.Config) { s.tls.Store(cfg) }

// Addr is the bound address.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Run serves until stop is done, then lets requests under way finish until cut
// is done. It returns nil on a clean stop, and once the connections are closed.
// Its shape is that of a part in package lifecycle.
func (s *Server) Run(stop, cut context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.ln) }()
	select {
	case err := <-failed:
		s.halt(err)
		_ = s.http.Close()
		return err
	case <-stop.Done():
	}
	// A profile under way is worth nothing to a process that stops.
	s.halt(errStopping)
	err := s.http.Shutdown(cut)
	if err != nil {
		_ = s.http.Close()
		err = nil // the cut was asked for; the group tells its cause
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}

// Close releases a server that never ran.
func (s *Server) Close() error { return s.ln.Close() }

var errStopping = errors.New("admin: stopping")
