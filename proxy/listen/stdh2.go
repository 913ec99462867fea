package listen

import (
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
	netHTTP
	opt HTTPOptions
	srv proxy.Server

	mu       sync.Mutex
	stopped  bool
	handlers sync.WaitGroup // exchanges; none begins once stopped is set

	underWay atomic.Int64
}

func newStdH2(opt HTTPOptions, srv proxy.Server) *stdH2 {
	e := &stdH2{opt: opt, srv: srv}
	protocols := new(http.Protocols)
	// TLS, if there is any, is below what net/http sees.
	protocols.SetUnencryptedHTTP2(true)
	e.init(&e.opt, e.serveHTTP, protocols, slog.LevelInfo)
	e.http.WriteTimeout = longAfter
	e.http.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              frameSize,
		MaxReceiveBufferPerConnection: connWindow,
		MaxReceiveBufferPerStream:     streamWindow,
		WriteByteTimeout:              opt.Timeouts.BodyIdle,
	}
	return e
}

// serve takes connections until the listener is closed.
func (e *stdH2) serve(ln *bounded) error { return e.http.Serve(&spoken{ln, e.opt}) }

// stop implements engine. net/http does not wait for its handlers.
func (e *stdH2) stop() {
	e.netHTTP.stop()
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
