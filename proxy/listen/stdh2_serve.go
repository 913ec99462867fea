package listen

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"soapway/internal/h1"
	"soapway/proxy"
)

// serveHTTP is the life of one stream.
func (e *stdH2) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.begin() {
		panic(http.ErrAbortHandler)
	}
	defer e.end()
	c := r.Context().Value(connKey{}).(*http2Conn)
	c.flow.earn(framesPerRequest)
	if status := e.admit(r); status != 0 {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		w.Header()["Content-Type"] = nil
		w.WriteHeader(status)
		return
	}

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	rc := http.NewResponseController(w)
	b := newStreamBody(rc, r, e.opt.Timeouts.BodyIdle)
	unhook := context.AfterFunc(r.Context(), func() {
		if cause := context.Cause(r.Context()); errors.Is(cause, ErrShutdown) {
			cancel(cause)
			b.Close()
			return
		}
		cancel(ErrGone)
	})
	defer unhook()

	reply := e.exchange(ctx, c, r, b)
	cut := e.write(w, rc, r, reply)
	if cut != nil && reply.Cut != nil {
		reply.Cut(cut)
	}
	if reply.Close != nil {
		reply.Close()
	}
	b.shut()
	if context.Cause(ctx) == ErrGone && c.lost.Add(1) >= mostLost {
		// The stream is closed, so nothing of this is sent but a GOAWAY.
		w.Header().Set("Connection", "close")
		rc.Flush()
	}
	if cut != nil {
		panic(http.ErrAbortHandler)
	}
}

// admit returns the status with which a request is refused, 0 if it is not. What
// comes here goes on as HTTP/1.1, and net/http does not look at all that matters
// there. A refusal is what [h1] answers in the same case.
func (e *stdH2) admit(r *http.Request) int {
	length, err := h1.ContentLength(r.Header["Content-Length"])
	if err == nil {
		err = h1.CheckRequest(r.Method, r.RequestURI, r.Host)
	}
	if refusal, ok := errors.AsType[*h1.Refusal](err); ok {
		return refusal.Status
	}
	switch hosts := r.Header["Host"]; {
	case len(hosts) > 1, len(hosts) == 1 && hosts[0] != r.Host,
		r.RequestURI[0] != '/' && r.RequestURI != "*", // RFC 9113 §8.3.1
		r.ContentLength == 0 && length > 0:            // it ends with its head
		return http.StatusBadRequest
	case r.Header["Expect"] != nil: // net/http takes 100-continue out
		return http.StatusExpectationFailed
	case e.underWay.Load() > int64(e.opt.MaxConnections):
		return http.StatusServiceUnavailable
	}
	delete(r.Header, "Host")
	return 0
}

// exchange hands the request to the server.
func (e *stdH2) exchange(ctx context.Context, c *http2Conn, r *http.Request, b *streamBody) *proxy.Reply {
	return answer(ctx, &e.opt, e.srv, exchangeOf(&e.opt, c.conn, r, b))
}

// write writes the reply; nil means that it is complete, or will be by what
// net/http does at the end of a handler.
func (e *stdH2) write(w http.ResponseWriter, rc *http.ResponseController, r *http.Request, reply *proxy.Reply) error {
	h := fieldsOf(w, reply)
	if err := r.Context().Err(); err != nil {
		return errors.Join(errCut, err)
	}
	length, body := announce(h, r.Method, reply)
	w.WriteHeader(reply.Status)
	if !body {
		return nil
	}
	return e.copy(w, rc, reply.Body, length)
}

// copy copies the body of a reply. Each write has BodyIdle, also the last one,
// which net/http makes when the handler has returned. While the body is waited
// for there is none.
func (e *stdH2) copy(w http.ResponseWriter, rc *http.ResponseController, body io.Reader, length int64) error {
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	buf := *bp
	for total := int64(0); ; {
		n, err := h1.ReadPiece(body, buf, &total, length)
		if err != nil && err != io.EOF {
			return errCut
		}
		if n > 0 {
			rc.SetWriteDeadline(time.Now().Add(e.opt.Timeouts.BodyIdle))
			if _, err := w.Write(buf[:n]); err != nil {
				return errors.Join(errCut, err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if n > 0 {
			if length < 0 {
				if err := rc.Flush(); err != nil {
					return errors.Join(errCut, err)
				}
			}
			rc.SetWriteDeadline(time.Now().Add(longAfter))
		}
	}
}
