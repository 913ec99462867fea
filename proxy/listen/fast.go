package listen

import (
	"context"
	"io"
	"net/http"

	"soapway/internal/h1"
	"soapway/proxy"
)

var (
	_ engine     = (*fast)(nil)
	_ h1.Handler = (*fast)(nil)
)

// fast is the engine of package h1.
type fast struct {
	opt HTTPOptions
	srv proxy.Server
	h1  *h1.Server
}

func newFast(opt HTTPOptions, srv proxy.Server) (*fast, error) {
	e := &fast{opt: opt, srv: srv}
	var err error
	e.h1, err = h1.NewServer(opt.engine(), e)
	return e, err
}

// engine are the options of our own engines.
func (o *HTTPOptions) engine() h1.Options {
	return h1.Options{
		HeaderBytes:   o.HeaderBytes,
		HeaderTimeout: o.Timeouts.Header,
		BodyTimeout:   o.Timeouts.BodyIdle,
		IdleTimeout:   o.Timeouts.Idle,
		Log:           o.Log.With("listener", o.Name),
	}
}

func (e *fast) serve(ln *bounded) error { return e.h1.Serve(ln) }

func (e *fast) drain(ctx context.Context, _ *bounded) { e.h1.Shutdown(ctx) }

func (e *fast) stop() { e.h1.Close(ErrShutdown) }

// Serve implements [h1.Handler].
func (e *fast) Serve(ctx context.Context, r *h1.Request, w *h1.Response) {
	c := r.Conn.(*conn)
	if c.ending == nil {
		c.ending = proxy.NewEnding(ctx) // which is that of the connection
	}
	ex := e.opt.exchange(&r.Head, r.Body)
	ex.Caller = &c.caller
	give(w, answer(c.ending, &e.opt, e.srv, ex))
}

// exchange is a request of a connection, whose body is yet to be read.
func (o *HTTPOptions) exchange(h *h1.Head, body io.Reader) *proxy.Exchange {
	c := h.Conn.(*conn)
	return &proxy.Exchange{
		Received:    h.Received,
		Listener:    o.Name,
		Route:       o.Route,
		Client:      h.Remote,
		TLS:         c.tls,
		Certificate: c.certificate,
		Method:      h.Method,
		Target:      h.Target,
		Host:        h.Host,
		Header:      h.Header,
		Body:        body,
		Length:      h.Length,
	}
}

// give makes a reply the response.
func give(w *h1.Response, reply *proxy.Reply) {
	w.Status, w.Header, w.Body, w.Length = reply.Status, reply.Header, reply.Body, reply.Length
	w.Close, w.Value = reply.CloseConnection, reply
}

// Done implements [h1.Handler].
func (e *fast) Done(w *h1.Response, cut error) { done(w, cut) }

// done ends the reply behind a response.
func done(w *h1.Response, cut error) {
	reply := w.Value.(*proxy.Reply)
	if cut != nil && reply.Cut != nil {
		reply.Cut(cut)
	}
	if reply.Close != nil {
		reply.Close()
	}
}

// answer has the server answer. One that panics costs its caller the answer and
// nobody else.
func answer(ctx context.Context, opt *HTTPOptions, srv proxy.Server, ex *proxy.Exchange) (reply *proxy.Reply) {
	defer func() {
		if v := recover(); v != nil {
			opt.Log.Error("exchange panicked", "listener", opt.Name, "panic", v)
			reply = nil
		}
		if reply == nil || reply.Status < 200 || reply.Status > 999 {
			if reply != nil && reply.Close != nil {
				reply.Close()
			}
			reply = &proxy.Reply{Status: http.StatusInternalServerError, CloseConnection: true}
		}
	}()
	return srv.Serve(ctx, ex)
}
