package listen

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy"
)

// What a connection of HTTP/2 may have under way. A client can make us hold its
// window for all streams in bodies, and a head for each stream.
const (
	maxStreams   = 100
	frameSize    = 16 << 10
	streamWindow = 256 << 10
	connWindow   = 1 << 20

	// mostLost is how many exchanges a client may give up on one connection
	// before it has to make another one: whoever opens streams only to reset
	// them pays for each hundred with a handshake.
	mostLost = 100

	// longAfter is a deadline that never comes. net/http must know one from the
	// start of a stream, or it would make its timer also when the stream is over.
	longAfter = 10_000 * time.Hour
)

var _ engine = (*stdH2)(nil)

// stdH2 serves the connections of HTTP/2 by net/http.
type stdH2 struct {
	opt  HTTPOptions
	srv  proxy.Server
	http *http.Server
	open sync.WaitGroup // connections that net/http serves

	abort context.CancelCauseFunc // ends every exchange

	mu       sync.Mutex
	stopped  bool
	handlers sync.WaitGroup // exchanges; none begins once stopped is set

	underWay atomic.Int64
}

func newStdH2(opt HTTPOptions, srv proxy.Server) *stdH2 {
	e := &stdH2{opt: opt, srv: srv}
	base, abort := context.WithCancelCause(context.Background())
	e.abort = abort
	protocols := new(http.Protocols)
	// TLS, if there is any, is below what net/http sees.
	protocols.SetUnencryptedHTTP2(true)
	e.http = &http.Server{
		Handler:                      http.HandlerFunc(e.serveHTTP),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            opt.Timeouts.Header, // for the preface
		WriteTimeout:                 longAfter,
		IdleTimeout:                  opt.Timeouts.Idle,
		MaxHeaderBytes:               opt.HeaderBytes,
		ErrorLog:                     slog.NewLogLogger(opt.Log.With("listener", opt.Name).Handler(), slog.LevelInfo),
		Protocols:                    protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              frameSize,
			MaxReceiveBufferPerConnection: connWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			WriteByteTimeout:              opt.Timeouts.BodyIdle,
		},
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				e.open.Add(1)
			case http.StateClosed:
				e.open.Done()
			}
		},
	}
	return e
}

// serve takes connections until the listener is closed.
func (e *stdH2) serve(ln *bounded) error { return e.http.Serve(&spoken{ln, e.opt}) }

// drain has every connection end with its last stream, see engine.
func (e *stdH2) drain(ctx context.Context, ln *bounded) {
	ln.closeSilent()
	if e.http.Shutdown(ctx) != nil {
		e.abort(ErrShutdown)
	}
}

// stop ends what is left, see engine.
func (e *stdH2) stop() {
	e.abort(ErrShutdown)
	e.http.Close()
	e.open.Wait()
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.handlers.Wait()
}

// begin counts an exchange, until end is called, or says that none may begin.
func (e *stdH2) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return false
	}
	e.handlers.Add(1)
	e.underWay.Add(1)
	return true
}

func (e *stdH2) end() {
	e.underWay.Add(-1)
	e.handlers.Done()
}

// spoken is where the connections of HTTP/2 come from.
type spoken struct {
	*bounded
	opt HTTPOptions
}

// Accept implements [net.Listener].
func (s *spoken) Accept() (net.Conn, error) {
	select {
	case c := <-s.entry.h2:
		return newHTTP2Conn(c, s.opt), nil
	case <-s.closing:
		return nil, net.ErrClosed
	}
}
