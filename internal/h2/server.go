package h2

import (
	"context"
	"fmt"
	"net"
	"sync"

	"soapway/internal/h1"
)

// Request is one request whose head is read: Target is :path, octet for octet, Host
// is :authority, or the Host field where there is none.
type Request struct {
	h1.Head

	// Body is never nil.
	Body *Body
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
	// Options are those of HTTP/1.1, which bound here what corresponds.
	// HeaderBytes: the octets that a head would have there. HeaderTimeout: the time
	// for a head and for a frame of any other kind but DATA, and on a new connection
	// for what a client must say first. BodyTimeout: the silence inside a body, the
	// time for one write, and that without a window for what is to be sent.
	// IdleTimeout: the time without a stream.
	h1.Options

	// Run has f run on a goroutine of its own, without waiting. Default: go f().
	Run func(f func())
}

// Server serves connections. Its zero value is not usable, see [NewServer].
type Server struct {
	opt     Options
	handler Handler

	ctx   context.Context // of every exchange
	abort context.CancelCauseFunc

	today h1.Date

	open  sync.WaitGroup // calls of ServeConn, and exchanges
	conns *h1.Conns[*conn]
}

// NewServer returns a server, which has no goroutine of its own.
func NewServer(opt Options, h Handler) (*Server, error) {
	var err error
	if opt.Options, err = opt.Complete(); err != nil {
		return nil, fmt.Errorf("h2: %w", err)
	}
	if opt.Run == nil {
		opt.Run = func(f func()) { go f() }
	}
	s := &Server{opt: opt, handler: h, conns: h1.NewConns[*conn]()}
	s.ctx, s.abort = context.WithCancelCause(context.Background())
	return s, nil
}

// ServeConn serves a connection until it ends, and closes it. Like those of
// [h1.Server.Serve] it may have the methods Inner and Early.
func (s *Server) ServeConn(outer net.Conn) {
	c := newConn(s, outer)
	if !s.conns.Add(c, func() { s.open.Add(1) }) {
		outer.Close()
		c.end(net.ErrClosed)
		c.in.release()
		return
	}
	defer s.open.Done()
	if s.conns.Draining() { // and Drain may not have seen it
		c.drain()
	}
	c.serve()
	s.conns.Remove(c)
}

// Shutdown has every connection take no further stream and end with its last one.
// It returns nil when none is left, or the cause of ctx.
func (s *Server) Shutdown(ctx context.Context) error { return s.conns.Drain(ctx, (*conn).drain) }

// Close ends the contexts of all exchanges with cause, closes all connections and
// returns once none is served and no exchange is left.
func (s *Server) Close(cause error) {
	s.abort(cause)
	s.conns.Close(func(c *conn) { c.outer.Close() })
	s.open.Wait()
}
