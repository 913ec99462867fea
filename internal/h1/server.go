package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"soapway/internal/field"
)

// Head is what a request says before its body, whichever HTTP it came by.
type Head struct {
	Method string

	// Target is the request target, octet for octet.
	Target string

	// Host is the authority of a target in absolute form, else the Host field, or
	// :authority; "" where an HTTP/1.0 request has none.
	Host string

	// Header has the fields with their canonical name (net/textproto), without
	// Host and Transfer-Encoding. The handler may keep it.
	Header field.List

	// Length is the number of octets of the body, -1 if it is not known.
	Length int64

	// Received is when the head was complete.
	Received time.Time

	// Remote is the address of the peer, the zero value if it is no IP address.
	Remote netip.AddrPort

	// Conn is the connection as the listener gave it, for what the handler knows
	// of it. It must not be used.
	Conn net.Conn
}

// Request is one request whose head is read.
type Request struct {
	Head

	// Minor is 0 for HTTP/1.0 and 1 for every later HTTP/1.x.
	Minor int

	// Body is never nil.
	Body *Body
}

// Response is what the handler answers. Every field but Status may stay zero.
type Response struct {
	// Status is from 200 to 999.
	Status int

	// Header has the end-to-end fields, which are written in this order. Those of the connection and of the
	// framing are left out, as are names that are none; control octets in
	// values become blanks.
	Header field.List

	// Body is nil when there is none. A body whose read fails, or which does not
	// have Length octets, cuts the connection.
	Body io.Reader

	// Length is the number of octets of Body, -1 if it is not known.
	Length int64

	// Close ends the connection with the answer.
	Close bool

	// Value is the handler's own, for its Done.
	Value any
}

// A Handler answers requests. Its methods are called one after the other for
// each connection, and at the same time for many.
type Handler interface {
	// Serve fills the response. ctx is that of the connection: it ends with
	// [ErrGone] when the caller has left, and with the cause given to
	// [Server.Close]; it outlives a single exchange.
	Serve(ctx context.Context, r *Request, w *Response)

	// Done is called once for each Serve that returned: with nil when its
	// response is written, or is copied and about to be, else with the reason
	// why it cannot be completed. The response is not used any more.
	Done(w *Response, cut error)
}

// Options configures a [Server]. A zero field means its default.
type Options struct {
	// HeaderBytes bounds a request head, with its last line; a larger one is
	// answered with 431. Default 64 KiB.
	HeaderBytes int

	// HeaderTimeout bounds the time from the first octet of a request head to
	// its end, and on a new connection from its start. Default 10s.
	HeaderTimeout time.Duration

	// BodyTimeout bounds the silence of a peer inside a body, and the time it
	// may take to accept one write. Default 30s.
	BodyTimeout time.Duration

	// IdleTimeout bounds the silence between two requests. Default 60s.
	IdleTimeout time.Duration

	// Log receives what goes wrong on connections. Default: discard.
	Log *slog.Logger
}

// Complete returns o with its defaults, or says what is wrong with it.
func (o Options) Complete() (Options, error) {
	if o.HeaderBytes < 0 || o.HeaderTimeout < 0 || o.BodyTimeout < 0 || o.IdleTimeout < 0 {
		return o, errors.New("options: got a negative size or time")
	}
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Server serves connections. Its zero value is not usable, see [NewServer].
type Server struct {
	opt     Options
	handler Handler

	ctx   context.Context // of every exchange
	abort context.CancelCauseFunc

	today Date

	open  sync.WaitGroup // the goroutines of connections, and the watch
	conns *Conns[*conn]
}

// NewServer returns a server; it has no goroutine before Serve.
func NewServer(opt Options, h Handler) (*Server, error) {
	opt, err := opt.Complete()
	if err != nil {
		return nil, fmt.Errorf("h1: %w", err)
	}
	s := &Server{opt: opt, handler: h, conns: NewConns[*conn]()}
	s.ctx, s.abort = context.WithCancelCause(context.Background())
	return s, nil
}

// Serve takes connections from ln until that fails, waiting where the failure is
// a temporary one; call it once. A connection of ln may have a method
// Inner() net.Conn, which returns the one that has the same octets with less in
// between: it is read and written, the outer one is closed. One with a method
// Early() []byte gives what was received already, at most 16 KiB.
func (s *Server) Serve(ln net.Listener) error {
	s.open.Go(s.watch)
	for pause := time.Duration(0); ; {
		c, err := ln.Accept()
		if err == nil {
			pause = 0
			s.start(c)
			continue
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.opt.Log.Warn("accept failed, waiting", "err", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return err
		}
	}
}

// start gives a connection its goroutine.
func (s *Server) start(outer net.Conn) {
	c := newConn(s, outer)
	if !s.conns.Add(c, func() { s.open.Add(1) }) {
		outer.Close()
		return
	}
	go c.serve()
}

func (s *Server) remove(c *conn) {
	s.conns.Remove(c)
	s.open.Done()
}

// Shutdown ends every connection that has no exchange under way, at once, and
// the others with their answer. It returns nil when none is left, or the cause
// of ctx. The caller has closed the listener before.
func (s *Server) Shutdown(ctx context.Context) error { return s.conns.Drain(ctx, (*conn).closeIdle) }

// Close ends the contexts of all exchanges with cause, closes all connections
// and returns once no goroutine of the server is left. The caller has closed the
// listener and waited for Serve.
func (s *Server) Close(cause error) {
	s.abort(cause)
	s.conns.Close(func(c *conn) { c.outer.Close() })
	s.open.Wait()
}
