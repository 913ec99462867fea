package listen

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"

	"soapway/proxy"
)

// netHTTP is what the engines of net/http have in common: a server of its, whose
// connections and exchanges end when they must.
type netHTTP struct {
	http  *http.Server
	open  sync.WaitGroup          // connections that net/http serves
	abort context.CancelCauseFunc // ends every exchange
}

// init makes the server, which speaks protocols; level is that of what net/http
// itself has to say.
func (n *netHTTP) init(opt *HTTPOptions, handler http.HandlerFunc, protocols *http.Protocols, level slog.Level) {
	base, abort := context.WithCancelCause(context.Background())
	n.abort = abort
	n.http = &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            opt.Timeouts.Header,
		IdleTimeout:                  opt.Timeouts.Idle,
		MaxHeaderBytes:               opt.HeaderBytes,
		ErrorLog:                     slog.NewLogLogger(opt.Log.With("listener", opt.Name).Handler(), level),
		Protocols:                    protocols,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				n.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				n.open.Done()
			}
		},
	}
}

type connKey struct{}

// drain implements engine.
func (n *netHTTP) drain(ctx context.Context, ln *bounded) {
	// Shutdown would wait for those who have not said anything yet.
	ln.closeSilent()
	if n.http.Shutdown(ctx) != nil {
		n.abort(ErrShutdown)
	}
}

// stop implements engine.
func (n *netHTTP) stop() {
	n.abort(ErrShutdown)
	n.http.Close()
	n.open.Wait()
}

// announce gives an answer the length of its reply, where it has one, and returns
// it with whether a body follows.
func announce(h http.Header, method string, reply *proxy.Reply) (length int64, body bool) {
	bodiless := reply.Status == http.StatusNoContent || reply.Status == http.StatusNotModified
	length = reply.Length
	if reply.Body == nil && method != http.MethodHead {
		length = 0
	}
	if length >= 0 && !bodiless {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	return length, reply.Body != nil && method != http.MethodHead && !bodiless
}
