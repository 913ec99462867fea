package h2

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/field"
	"soapway/internal/h1"
)

// Request is one request whose head is read.
type Request struct {
	Method string

	// Target is :path, octet for octet.
	Target string

	// Host is :authority, or the Host field where there is none.
	Host string

	// Header has the fields with their canonical name (net/textproto), without
	// Host and what belongs to the connection. The handler may keep it.
	Header field.List

	// Length is the number of octets of Body, -1 if it is not known.
	Length int64

	// Body is never nil.
	Body *Body

	// Received is when the head was complete.
	Received time.Time

	// Remote is the address of the peer, the zero value if it is no IP address.
	Remote netip.AddrPort

	// Conn is the connection as it was given to [Server.ServeConn], for what the
	// handler knows of it. It must not be used.
	Conn net.Conn
}

// A Handler answers requests. Its methods are called at the same time for many
// streams, also of one connection.
type Handler interface {
	// Serve fills the response; Close in it has no meaning here. ctx is that of
	// the stream: it ends with [h1.ErrGone] when the caller has left, with the
	// cause given to [Server.Close], and when the exchange is over.
	Serve(ctx context.Context, r *Request, w *h1.Response)

	// Done is called once for each Serve that returned: with nil when its
	// response is written, or is copied and about to be, else with the reason
	// why it cannot be completed. The response is not used any more.
	Done(w *h1.Response, cut error)
}

// Options configures a [Server]. A zero field means its default.
type Options struct {
	// HeaderBytes bounds a request head, with the octets that it would have in
	// HTTP/1.1; a larger one is answered with 431. Default 64 KiB.
	HeaderBytes int

	// HeaderTimeout bounds the time for the head of a request and for a frame of any
	// other kind but DATA, and on a new connection for what a client must say
	// first. Default 10s.
	HeaderTimeout time.Duration

	// BodyTimeout bounds the silence of a peer inside a body,
	// the time it may take to accept one write, and that without a window for
	// what it is to be sent. Default 30s.
	BodyTimeout time.Duration

	// IdleTimeout bounds the time without a stream. Default 60s.
	IdleTimeout time.Duration

	// Run has f run on a goroutine of its own, without waiting. Default: go f().
	Run func(f func())

	// Log receives what goes wrong on connections. Default: discard.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.HeaderBytes == 0 {
		o.HeaderBytes = 64 << 10
	}
	if o.HeaderTimeout == 0 {
		o.HeaderTimeout = 10 * time.Second
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = 30 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 60 * time.Second
	}
	if o.Run == nil {
		o.Run = func(f func()) { go f() }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if o.HeaderBytes < 0 || o.HeaderTimeout < 0 || o.BodyTimeout < 0 || o.IdleTimeout < 0 {
		return errors.New("h2: options: got a negative size or time")
	}
	return nil
}

// Server serves connections. Its zero value is not usable, see [NewServer].
type Server struct {
	opt     Options
	handler Handler

	ctx   context.Context // of every exchange
	abort context.CancelCauseFunc

	today atomic.Pointer[dateText]

	open sync.WaitGroup // calls of ServeConn, and exchanges

	mu       sync.Mutex
	draining bool
	conns    map[*conn]struct{} // nil once closed
	empty    chan struct{}      // closed when draining and no connection is left
}

// NewServer returns a server, which has no goroutine of its own.
func NewServer(opt Options, h Handler) (*Server, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	s := &Server{opt: opt, handler: h, conns: make(map[*conn]struct{}), empty: make(chan struct{})}
	s.ctx, s.abort = context.WithCancelCause(context.Background())
	return s, nil
}

// ServeConn serves a connection until it ends, and closes it. Like those of
// [h1.Server.Serve] it may have the methods Inner and Early.
func (s *Server) ServeConn(outer net.Conn) {
	c := newConn(s, outer)
	s.mu.Lock()
	if s.conns == nil || s.draining {
		s.mu.Unlock()
		outer.Close()
		c.end(net.ErrClosed)
		c.in.release()
		return
	}
	s.conns[c] = struct{}{}
	s.open.Add(1)
	s.mu.Unlock()
	defer s.open.Done()
	c.serve()
	s.mu.Lock()
	delete(s.conns, c)
	if s.draining && len(s.conns) == 0 {
		s.signalEmpty()
	}
	s.mu.Unlock()
}

// signalEmpty is called with mu held.
func (s *Server) signalEmpty() {
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// Shutdown has every connection take no further stream and end with its last one.
// It returns nil when none is left, or the cause of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	for c := range s.conns {
		c.drain()
	}
	if len(s.conns) == 0 {
		s.signalEmpty()
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the contexts of all exchanges with cause, closes all connections and
// returns once none is served and no exchange is left.
func (s *Server) Close(cause error) {
	s.abort(cause)
	s.mu.Lock()
	s.draining = true
	conns := s.conns
	s.conns = nil
	for c := range conns {
		c.outer.Close()
	}
	s.mu.Unlock()
	s.open.Wait()
}
