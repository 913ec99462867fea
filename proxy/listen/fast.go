package listen

import (
	"context"
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
	e.h1, err = h1.NewServer(h1.Options{
		HeaderBytes:   opt.HeaderBytes,
		HeaderTimeout: opt.Timeouts.Header,
		BodyTimeout:   opt.Timeouts.BodyIdle,
		IdleTimeout:   opt.Timeouts.Idle,
		Log:           opt.Log.With("listener", opt.Name),
	}, e)
	return e, err
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
	reply := answer(c.ending, &e.opt, e.srv, &proxy.Exchange{
		Received:    r.Received,
		Listener:    e.opt.Name,
		Route:       e.opt.Route,
		Client:      r.Remote,
		TLS:         c.tls,
		Certificate: c.certificate,
		Caller:      &c.caller,
		Method:      r.Method,
		Target:      r.Target,
		Host:        r.Host,
		Header:      r.Header,
		Body:        r.Body,
		Length:      r.Length,
	})
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
