package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"soapway/internal/field"
	"soapway/internal/h1"
	"soapway/proxy"
)

const (
	// drainMost and drainFor bound what is read of a body that nobody wanted,
	// before the answer, so that the connection can stay.
	drainMost = 256 << 10
	drainFor  = 100 * time.Millisecond

	// lingerFor bounds how long a client may go on sending after an answer
	// that ends its connection.
	lingerFor = time.Second

	copySize = 32 << 10
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copySize); return &b }}

// errCut says that a reply could not be completed.
var errCut = errors.New("listen: reply cut")

// serveHTTP is the life of one HTTP exchange, seen from the socket.
func (e *std) serveHTTP(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	// The answer may begin before the request has ended. Without this net/http
	// would read the rest of the request first.
	rc.EnableFullDuplex()
	// The first read of the body may write a 100 Continue (RFC 9110 §10.1.1),
	// which a client need not take.
	rc.SetWriteDeadline(time.Now().Add(e.opt.Timeouts.BodyIdle))
	c := r.Context().Value(connKey{}).(*conn)
	conflict := c.watch.conflict(len(r.Header["Content-Length"]) > 0, len(r.TransferEncoding) > 0)

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	b := newBody(rc, r, e.opt.Timeouts.BodyIdle, cancel)
	unhook := context.AfterFunc(r.Context(), func() { left(r.Context(), b, cancel) })
	defer unhook()

	var reply *proxy.Reply
	if r.ProtoMajor == 1 {
		reply = e.exchange(ctx, r, b)
	} else {
		// The preface of HTTP/2 is the one thing that net/http passes on.
		reply = &proxy.Reply{Status: http.StatusHTTPVersionNotSupported, CloseConnection: true}
	}
	cut := e.write(w, rc, r, b, reply, conflict)
	if cut != nil && reply.Cut != nil {
		reply.Cut(cut)
	}
	if reply.Close != nil {
		reply.Close()
	}
	whole := b.complete()
	b.shut()
	if cut != nil {
		if !r.ProtoAtLeast(1, 1) {
			c.reset() // the end of the connection would end the reply
		}
		rc.SetReadDeadline(past)
		panic(http.ErrAbortHandler)
	}
	if !whole {
		rc.SetWriteDeadline(time.Now().Add(e.opt.Timeouts.BodyIdle))
		rc.Flush()
		b.linger(drainMost, lingerFor)
	}
}

// left is called when net/http ends the context of a request: the listener gives
// up, the connection broke or was closed after the request was read, or a read
// of the body failed. That last one is for the reader of the body to judge: half
// a request may still want an answer.
func left(ctx context.Context, b *body, cancel context.CancelCauseFunc) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrShutdown) {
		cancel(cause)
		b.Close()
		return
	}
	if !b.inRead() && !b.broken() {
		cancel(ErrGone)
	}
}

// exchange hands the request to the server.
func (e *std) exchange(ctx context.Context, r *http.Request, b *body) *proxy.Reply {
	c := r.Context().Value(connKey{}).(*conn)
	return answer(ctx, &e.opt, e.srv, exchangeOf(&e.opt, c, r, b))
}

// exchangeOf is a request as net/http has taken it.
func exchangeOf(opt *HTTPOptions, c *conn, r *http.Request, body io.Reader) *proxy.Exchange {
	client, _ := netip.ParseAddrPort(r.RemoteAddr)
	ex := opt.exchange(&h1.Head{
		Method:   r.Method,
		Target:   r.RequestURI,
		Host:     r.Host,
		Header:   field.Of(r.Header),
		Length:   r.ContentLength,
		Received: time.Now(),
		Remote:   client,
		Conn:     c,
	}, body)
	if !c.h2 { // else many exchanges share it
		ex.Caller = &c.caller
	}
	return ex
}

// fieldsOf gives the answer the fields of a reply, but for those that net/http writes.
func fieldsOf(w http.ResponseWriter, reply *proxy.Reply) http.Header {
	h := w.Header()
	for _, f := range reply.Header {
		if !ownField(f.Name) {
			h[f.Name] = append(h[f.Name], f.Value)
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http guesses one
	}
	return h
}

// write writes the reply; nil means that it is complete. The connection
// stays only if the request was read to its end: what is left of it must never
// be taken for the next one.
func (e *std) write(w http.ResponseWriter, rc *http.ResponseController, r *http.Request, b *body, reply *proxy.Reply, conflict bool) error {
	h := fieldsOf(w, reply)
	expects := r.Header.Get("Expect") != ""
	if reply.CloseConnection || conflict || !b.drain(drainMost, drainFor, expects) {
		h["Connection"] = []string{"close"}
	}
	length, body := announce(h, r.Method, reply)
	out := &pacer{w: w, rc: rc, limit: e.opt.Timeouts.BodyIdle}
	out.arm()
	w.WriteHeader(reply.Status)
	if !body {
		return nil
	}
	return e.copy(out, reply.Body, length)
}

// copy copies the body of a reply.
func (e *std) copy(out *pacer, body io.Reader, length int64) error {
	bp := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(bp)
	buf := *bp
	for total := int64(0); ; {
		n, err := h1.ReadPiece(body, buf, &total, length)
		if err != nil && err != io.EOF {
			return errCut
		}
		if n > 0 {
			if err := out.write(buf[:n], length < 0 && err == nil); err != nil {
				return fmt.Errorf("%w: %w", errCut, err)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// pacer gives every write its own deadline: a slow reader passes, one that has
// stopped reading does not.
type pacer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
}

func (p *pacer) arm() { p.rc.SetWriteDeadline(time.Now().Add(p.limit)) }

func (p *pacer) write(b []byte, flush bool) error {
	p.arm()
	if _, err := p.w.Write(b); err != nil {
		return err
	}
	if flush {
		return p.rc.Flush()
	}
	return nil
}

// ownField reports whether this hop writes the field itself. Names with a colon
// would be trailers to net/http.
func ownField(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Length":
		return true
	}
	return strings.Contains(name, ":")
}
