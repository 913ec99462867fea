package listen

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"soapway/internal/frame"
	"soapway/internal/h1"
	"soapway/proxy"
	"soapway/soapcodec"
)

// readPayload reads n octets. Memory grows with what arrives, not with what was
// announced.
func readPayload(r io.Reader, n int64) ([]byte, error) {
	const step = 64 << 10
	b := make([]byte, 0, min(n, step))
	for {
		m, err := io.ReadFull(r, b[len(b):min(int64(cap(b)), n)])
		b = b[:len(b)+m]
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if int64(len(b)) == n {
			return b, nil
		}
		b = append(make([]byte, 0, min(n, 2*int64(cap(b)))), b...)
	}
}

// frameStream is a request that is read from the connection while it is served.
// As with HTTP a node may still read it when the reply is there. Nothing needs
// to interrupt that read: the rest of the frame has to come in any case before
// the next one can.
type frameStream struct {
	f *framedConn

	mu      sync.Mutex
	still   sync.Cond // signalled when reading becomes false
	reading bool
	closed  bool
	err     error // of the connection; sticky
}

func (b *frameStream) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed || b.reading || b.err != nil {
		defer b.mu.Unlock()
		if b.err != nil {
			return 0, b.err
		}
		return 0, errBodyClosed
	}
	b.reading = true
	b.mu.Unlock()

	n, err := b.f.r.Read(p)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.still.Broadcast()
	if err != nil && err != io.EOF {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrBodyIdle
		}
		b.err = err
		if !gentle(err) {
			b.f.cancel(ErrGone)
		}
	}
	return n, err
}

// Close makes later reads fail.
func (b *frameStream) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// shut closes the body and waits until nobody reads it: BodyIdle at most.
func (b *frameStream) shut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for b.reading {
		b.still.Wait()
	}
}

// exchange hands the request to the server. A server that panics costs its
// caller the answer and nobody else.
func (f *framedConn) exchange(body io.Reader, n int64, waits proxy.Waiter) (reply *proxy.Reply) {
	defer func() {
		if v := recover(); v != nil {
			f.l.opt.Log.Error("exchange panicked", "listener", f.l.opt.Name, "panic", v)
			reply = nil
		}
		if reply == nil {
			reply = &proxy.Reply{Status: http.StatusInternalServerError, Code: soapcodec.CodeInternal}
		}
	}()
	return f.l.srv.Serve(f.ctx, &proxy.Exchange{
		Received:    time.Now(),
		Framed:      true,
		Listener:    f.l.opt.Name,
		Route:       f.l.opt.Route,
		Client:      f.peer,
		TLS:         f.c.tls,
		Certificate: f.c.certificate,
		Method:      http.MethodPost,
		Body:        body,
		Length:      n,
		Waits:       waits,
	})
}

// fill turns the reply into what is written: one frame, whatever it is. A reply
// that is not streamed is closed here.
func (f *framedConn) fill(t *turn, reply *proxy.Reply) {
	t.last = reply.CloseConnection
	code := reply.Code
	filled := false
	switch n := reply.Length; {
	case reply.Body == nil || n == 0:
		if code == "" && (reply.Status < 200 || reply.Status > 299) {
			code = soapcodec.CodeBackendNotSOAP
		}
	case !isEnvelope(reply):
		code = soapcodec.CodeBackendNotSOAP
	case n > f.size.message:
		code = soapcodec.CodeReplyTooLarge
	case n > gatherMost:
		if f.begin(t, n) {
			t.reply = reply
			return
		}
		code = soapcodec.CodeReplyTooLarge // the limit never allows it
	case n > 0:
		filled = f.begin(t, n) && t.take(reply.Body, n)
		code = soapcodec.CodeBackendBroken
	default:
		var payload []byte
		payload, code = readReply(reply, f.size.message)
		filled = len(payload) > 0 && f.begin(t, int64(len(payload)))
		t.frame = append(t.frame, payload...)
	}
	if reply.Close != nil {
		reply.Close()
	}
	if filled {
		return
	}
	var payload []byte
	if code != "" {
		payload = fault(code, reply.Version)
	}
	if !f.begin(t, int64(len(payload))) { // the limit is that of the prefix or less, and faults are short
		t.last = true
	}
	t.frame = append(t.frame, payload...)
}

// begin makes the frame of a turn the prefix of n octets.
func (f *framedConn) begin(t *turn, n int64) bool {
	var err error
	t.frame, err = frame.AppendLength(t.frame[:0], f.l.opt.Length, n)
	return err == nil
}

// take appends the payload of n octets, and reports whether it has as many.
func (t *turn) take(r io.Reader, n int64) bool {
	at := len(t.frame)
	t.frame = slices.Grow(t.frame, int(n))[:at+int(n)]
	_, err := io.ReadFull(r, t.frame[at:])
	return err == nil && h1.AtEnd(r) == io.EOF
}

// isEnvelope reports whether the body of a reply can be one: the server has
// checked it, but a media type that needs its header cannot go without it.
func isEnvelope(reply *proxy.Reply) bool {
	if len(reply.Header) == 0 {
		return true
	}
	ct, err := soapcodec.ParseContentType(reply.Header.Get("Content-Type"))
	return err == nil && ct.IsSOAP() && !reply.Header.Has("Content-Encoding")
}

// readReply reads a reply of unknown length whole, since its length goes first.
// code says which fault takes its place; none when it was good.
func readReply(reply *proxy.Reply, limit int64) (payload []byte, code soapcodec.Code) {
	payload, err := io.ReadAll(io.LimitReader(reply.Body, limit+1))
	switch {
	case err != nil:
		return nil, soapcodec.CodeBackendBroken
	case int64(len(payload)) > limit:
		return nil, soapcodec.CodeReplyTooLarge
	case len(payload) == 0 && (reply.Status < 200 || reply.Status > 299):
		return nil, soapcodec.CodeBackendNotSOAP
	}
	return payload, ""
}

// reasons are for people; the code is what programs look at.
var reasons = map[soapcodec.Code]string{
	soapcodec.CodeNoRoute:            "No route takes this message.",
	soapcodec.CodeNotAuthorised:      "The caller is not authorised.",
	soapcodec.CodeTooLarge:           "The message is too large.",
	soapcodec.CodeBusy:               "The service is busy. Try again later.",
	soapcodec.CodeOutcomeUnknown:     "It is not known whether the message was stored. It may be sent again with the same id.",
	soapcodec.CodeReplyTooLarge:      "The reply is too large for this connection.",
	soapcodec.CodeBackendUnavailable: "The service cannot be reached.",
	soapcodec.CodeBackendTimeout:     "The service did not answer in time.",
	soapcodec.CodeBackendBroken:      "The service broke off its reply.",
	soapcodec.CodeBackendNotSOAP:     "The service did not answer with a SOAP message.",
	soapcodec.CodeInternal:           "Internal error.",
}

// fault is the envelope that stands for an answer without one (SPEC.md §3,
// Framed). A version that was not recognised is 1.1 here.
func fault(code soapcodec.Code, v soapcodec.Version) []byte {
	reason, ok := reasons[code]
	if !ok {
		reason = "The message cannot be processed."
	}
	v = soapcodec.FaultVersion(v, "")
	return (&soapcodec.Fault{Code: code, Reason: reason, Version: v}).Append(nil, v)
}
