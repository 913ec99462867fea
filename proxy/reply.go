package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// reply turns a node's answer into the caller's (SPEC.md §3: "Backend statuses
// and faults pass unchanged"). An answer that is no SOAP message is an error,
// but for the cases that notSOAP names.
func (c *call) reply(resp *Response, node int) (*Reply, error) {
	if resp.Body == nil || resp.Length == 0 || bodiless(c.ex.Method, resp.Status) {
		return c.emptyReply(resp, node)
	}
	if resp.Length > c.route.replyLimits.MaxMessage {
		return nil, &backendError{soapcodec.CodeReplyTooLarge, errTooLarge}
	}
	typ := resp.Header.Get("Content-Type")
	ct, err := c.h.types.parse(typ)
	coding := contentCoding(resp.Header)
	if resp.Framed {
		ct, err, coding = soapcodec.ContentType{}, nil, codingIdentity
	}
	if err != nil || !ct.IsSOAP() && (!ct.IsPackage() || c.ex.Framed) || coding == codingUnknown {
		if resp.Length < 0 {
			// Only reading tells whether there is a body at all.
			var one [1]byte
			if n, err := io.ReadFull(resp.Body, one[:]); n == 0 && err == io.EOF {
				return c.emptyReply(resp, node)
			}
		}
		return c.notSOAP(resp, node, errType(typ))
	}
	a := &c.answering
	*a = answer{call: c, resp: resp, node: node, ct: ct, charset: ct.Charset, coding: coding}
	if c.ex.Framed {
		return a.forFramed()
	}
	return a.forHTTP()
}

// bodiless reports whether an answer has no content by its status or the
// method, whatever its fields say (RFC 9110 §6.4.1).
func bodiless(method string, status int) bool {
	return method == "HEAD" || status == http.StatusNoContent || status == http.StatusNotModified || status < 200
}

type errType string

func (e errType) Error() string {
	return "proxy: the media type or coding of the answer is not one of SOAP: " + cut(string(e), 100)
}

// emptyReply passes an answer without a body on as it is.
func (c *call) emptyReply(resp *Response, node int) (*Reply, error) {
	c.tries.end()
	if resp.Status == http.StatusOK && c.route.OneWay == OneWayNo && !bodiless(c.ex.Method, resp.Status) {
		return nil, &backendError{soapcodec.CodeBackendNotSOAP, errEmpty}
	}
	c.outcome = OutcomeAnswered
	if c.ex.Framed {
		// A frame has no status: only success can be told without a fault.
		if resp.Status >= 300 {
			return nil, &backendError{soapcodec.CodeBackendNotSOAP, errEmpty}
		}
		return &Reply{Status: http.StatusAccepted, Version: c.version, CloseConnection: c.bodyLeft()}, nil
	}
	r := &Reply{Status: resp.Status, Header: c.replyHeader(resp, node), Version: c.version, CloseConnection: c.bodyLeft()}
	if c.ex.Method == "HEAD" {
		r.Length = resp.Length
	}
	return r, nil
}

var errEmpty = errors.New("proxy: the answer is empty")

// notSOAP answers for a backend that sent something else. Redirects and client
// errors keep their status, because the caller can act on them, but never their
// content; all others are faults.
func (c *call) notSOAP(resp *Response, node int, why error) (*Reply, error) {
	c.tries.end()
	failed := &backendError{soapcodec.CodeBackendNotSOAP, why}
	if c.ex.Framed || resp.Framed || resp.Status < 300 || resp.Status >= 500 {
		return nil, failed
	}
	var h field.List
	if resp.Status < 400 {
		h = c.replyHeader(resp, node)
		h.DelFunc(func(f *field.Field) bool {
			lower := strings.ToLower(f.Name)
			return strings.HasPrefix(lower, "content-") || lower == "etag" || lower == "last-modified"
		})
		c.outcome = OutcomeAnswered
	} else {
		for _, k := range []string{"Www-Authenticate", "Retry-After", "Allow"} {
			for _, v := range resp.Header.Values(k) {
				h.Add(k, v)
			}
		}
		c.outcome, c.code, c.logged = OutcomeFailed, soapcodec.CodeBackendNotSOAP, failed
	}
	return &Reply{
		Status: resp.Status, Header: h, Code: c.code, Version: c.version,
		CloseConnection: c.bodyLeft(),
	}, nil
}

// replyHeader makes the caller's fields.
func (c *call) replyHeader(resp *Response, node int) field.List {
	h := c.stamped(c.fwd.replyHeader(resp.Header))
	if l := h.Get("Location"); l != "" {
		h.Set("Location", c.route.mapLocation(l, c.publicBase(), c.route.backend.urls[node]))
	}
	return h
}

// publicBase is the URL that stands for the gateway in a Location: the
// configured one, else what the caller used, as a trusted proxy tells it.
func (c *call) publicBase() string {
	if u := c.t.opt.PublicURL; u != "" {
		return trimSlash(u)
	}
	scheme, host := c.fwd.scheme, c.fwd.host
	if c.fwd.trusted {
		if v := lastOf(c.ex.Header.Get("X-Forwarded-Proto")); v == "http" || v == "https" {
			scheme = v
		}
		if v := lastOf(c.ex.Header.Get("X-Forwarded-Host")); v != "" {
			host = v
		}
	}
	if host == "" { // HTTP/1.0: a reference without scheme and host will do
		return ""
	}
	return scheme + "://" + host
}

// lastOf is the last element of a list field: the one that the nearest proxy,
// which is the trusted one, has written.
func lastOf(list string) string {
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

// answer is a node's answer that may be an envelope.
type answer struct {
	*call
	resp    *Response
	node    int
	ct      soapcodec.ContentType
	charset string
	coding  coding
}

// forHTTP checks the answer and keeps its octets: as a whole up to Buffer,
// streaming beyond.
func (a *answer) forHTTP() (*Reply, error) {
	if d := a.resp.Data; d != nil && int64(len(d)) <= a.route.replyLimits.Buffer && a.route.Translate == soapcodec.V0 {
		return a.ready(d, nil)
	}
	buf := newBuffer()
	whole, err := buf.fill(a.resp.Body, a.route.replyLimits.Buffer, a.resp.Length)
	if err != nil {
		buf.release()
		return nil, a.broken(&bodyError{err})
	}
	if !whole {
		prefix := buf.detach()
		buf.release()
		if a.foreign(prefix) {
			return a.translate(prefix)
		}
		return a.stream(prefix)
	}
	if len(buf.b) == 0 {
		buf.release()
		return a.emptyReply(a.resp, a.node)
	}
	if a.foreign(buf.b) {
		prefix := buf.detach()
		buf.release()
		return a.translate(prefix)
	}
	return a.ready(buf.b, buf)
}

// ready makes the reply of an answer that is whole in memory, in buf if that is
// not nil.
func (a *answer) ready(raw []byte, buf *buffer) (*Reply, error) {
	a.tries.end() // the node's connection is free before the caller is served
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	if err := a.checkWhole(dec, raw); err != nil {
		if buf != nil {
			buf.release()
		}
		return a.failed(err)
	}
	r := a.good(dec.Facts())
	a.buf = buf
	a.give(r, raw)
	return r, nil
}

// give makes octets that stay until the exchange is over the body of a reply.
func (c *call) give(r *Reply, octets []byte) {
	c.out.Reset(octets)
	r.Body, r.Length = &c.out, int64(len(octets))
}

// checkWhole checks an answer that is whole in memory, with its coding still on.
func (a *answer) checkWhole(dec *soapcodec.Decoder, raw []byte) error {
	if a.ct.IsMultipart() {
		return a.checkedPackage(dec, raw)
	}
	dec.SetOptions(a.route.check)
	if a.coding != codingIdentity {
		src := newBody(bytes.NewReader(raw), a.coding, a.route.replyLimits)
		rd, err := xmlstream.NewReader(src, a.charset)
		if err != nil {
			return err
		}
		dec.Reset(rd)
		err = dec.Finish()
		a.codec.Add(src.n)
		return err
	}
	doc, charset, err := xmlstream.DecodeBytes(raw, a.charset)
	if err != nil {
		return err
	}
	if a.resp.Framed {
		a.charset = charset
	}
	a.codec.Add(int64(len(doc)))
	dec.ResetBytes(doc)
	return dec.Finish()
}

// good makes the reply of a checked answer, but for its body.
func (a *answer) good(f *soapcodec.Facts) *Reply {
	a.outcome, a.envelope = OutcomeAnswered, true
	fault := isFault(f)
	if fault {
		a.outcome = OutcomeFault
	}
	r := &a.replyRoom
	*r = Reply{Status: a.resp.Status, Version: f.Version, CloseConnection: a.bodyLeft()}
	if a.ex.Framed {
		r.Status = http.StatusOK
		return r
	}
	r.Header = a.replyHeader(a.resp, a.node)
	if a.resp.Framed {
		// A framed node has no status and no media type: the binding of the
		// envelope's version decides (SOAP 1.1 §6.2; SOAP 1.2 Part 2 §7.5.2.2).
		r.Status = http.StatusOK
		if fault {
			r.Status = http.StatusInternalServerError
			if f.Fault != nil {
				r.Status = f.Fault.Status(f.Version)
			}
		}
		setType(&r.Header, f.Version.MediaType()+"; charset="+charsetLabel(a.charset))
	}
	return r
}

// charsetLabel names a charset in Content-Type. UTF-16 found by its byte order
// mark has no byte order in its name (RFC 2781 §3.3), and US-ASCII is UTF-8.
func charsetLabel(charset string) string {
	switch charset {
	case "utf-16le", "utf-16be":
		return "utf-16"
	case "us-ascii", "":
		return "utf-8"
	}
	return charset
}

// isFault reports a Fault as the first child of Body, also when the decoder has
// seen no more of it than its start tag.
func isFault(f *soapcodec.Facts) bool {
	return f.Fault != nil || f.Operation.Local == "Fault" && f.Operation.Space == f.Version.Namespace()
}

// failed answers for an answer that did not pass the checks.
func (a *answer) failed(err error) (*Reply, error) {
	var broken *bodyError
	switch {
	case errors.Is(err, errTooLarge):
		return nil, &backendError{soapcodec.CodeReplyTooLarge, err}
	case errors.As(err, &broken):
		return nil, a.broken(broken)
	case signed(err):
		return nil, &backendError{soapcodec.CodeSigned, err}
	}
	return a.notSOAP(a.resp, a.node, err)
}

// broken is the error of a reply that broke off. A node may answer while it
// still reads the request: then that may be what has failed.
func (c *call) broken(err *bodyError) error {
	if cause := c.msg.failure(); cause != nil {
		return cause
	}
	if c.ctx.Err() != nil {
		return &goneError{context.Cause(c.ctx), err}
	}
	code := soapcodec.CodeBackendBroken
	if timedOut(err) {
		code = soapcodec.CodeBackendTimeout
	}
	return &backendError{code, err}
}

func timedOut(err error) bool {
	var sent *SendError
	return errors.As(err, &sent) && sent.Timeout || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// stream passes an answer on that is too large for memory: prefix has been read
// and is checked before the head of the reply is written.
func (a *answer) stream(prefix []byte) (*Reply, error) {
	if a.ct.IsMultipart() {
		return a.streamPackage(prefix)
	}
	p := &pass{raw: true, dec: soapcodec.NewDecoder(a.route.check)}
	p.tee = tee{src: io.MultiReader(bytes.NewReader(prefix), a.resp.Body), most: a.route.replyLimits.held(int64(len(prefix))), tooMuch: errTooLarge}
	src := newBody(&p.tee, a.coding, a.route.replyLimits)
	rd, err := xmlstream.NewReader(src, a.charset)
	if err != nil {
		return a.failed(err)
	}
	p.dec.Reset(rd)
	if err := p.prime(int64(len(prefix))); err != nil {
		return a.failed(err)
	}
	if a.resp.Framed {
		a.charset = rd.Charset()
	}
	r := a.good(p.dec.Facts())
	r.Body = &replyBody{call: a.call, r: &counted{pass: p, call: a.call}}
	r.Length = a.resp.Length
	return r, nil
}

// forFramed makes an answer fit for a caller that has neither status, media
// type nor coding: the envelope in UTF-8 and of known length.
func (a *answer) forFramed() (*Reply, error) {
	lim := a.route.replyLimits
	raw := a.resp.Data
	if raw == nil || a.coding != codingIdentity || int64(len(raw)) > lim.Buffer {
		src := newBody(a.resp.Body, a.coding, lim)
		hint := a.resp.Length
		if a.coding != codingIdentity {
			hint = -1
		}
		buf := newBuffer()
		a.buf = buf // the reply may lie in it
		whole, err := buf.fill(src, lim.Buffer, hint)
		switch {
		case err != nil:
			return a.failed(err)
		case !whole:
			return a.spooled(buf.b, src)
		case len(buf.b) == 0:
			return a.emptyReply(a.resp, a.node)
		}
		raw = buf.b
	}
	a.tries.end()
	doc, _, err := xmlstream.DecodeBytes(raw, a.charset)
	if err != nil {
		return a.failed(err)
	}
	a.codec.Add(int64(len(doc)))
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	dec.SetOptions(a.replyOptions())
	dec.ResetBytes(doc)
	if err := dec.Finish(); err != nil {
		return a.failed(err)
	}
	r := a.good(dec.Facts())
	if edits := dec.TakeEdits(); len(edits) > 0 {
		doc, r.Version = soapcodec.Apply(nil, doc, edits), a.version
	}
	a.give(r, doc)
	return r, nil
}

// spooled checks a large answer on its way into a file, so that its length is
// known before a frame begins.
func (a *answer) spooled(prefix []byte, src io.Reader) (*Reply, error) {
	rd, err := xmlstream.NewReader(io.MultiReader(bytes.NewReader(prefix), src), a.charset)
	if err != nil {
		return a.failed(err)
	}
	opt := a.replyOptions()
	p := &pass{dec: soapcodec.NewDecoder(opt), edits: opt.Translate != soapcodec.V0}
	p.tee = tee{src: rd, most: a.route.replyLimits.held(int64(len(prefix))), tooMuch: headFault}
	p.dec.Reset(&p.tee)
	f, n, err := spool(a.h.opt.SpoolDir, p)
	a.codec.Add(p.tee.total())
	if err != nil {
		var disk *spoolError
		if errors.As(err, &disk) {
			return nil, err
		}
		return a.failed(err)
	}
	a.tries.end()
	r := a.good(p.dec.Facts())
	if opt.Translate != soapcodec.V0 {
		r.Version = a.version
	}
	r.Body, r.Length, r.Close = io.NewSectionReader(f, 0, n), n, func() { f.Close() }
	return r, nil
}

// replyBody is the body of a streaming reply. Its error makes the listener cut
// the caller's connection, and is what the log tells.
type replyBody struct {
	call *call
	r    io.Reader
}

func (b *replyBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.call.sent += int64(n)
	if err != nil && err != io.EOF && b.call.logged == nil {
		c := b.call
		c.logged = &backendError{soapcodec.CodeBackendBroken, err}
		c.outcome, c.code = OutcomeFailed, soapcodec.CodeBackendBroken
		var broken *bodyError
		cause := c.msg.failure()
		switch {
		case c.ctx.Err() != nil:
			c.outcome = OutcomeCancelled
		case cause != nil:
			// The node answered before it had the whole request, which then failed.
			c.logged, c.outcome, c.code = cause, OutcomeRejected, soapcodec.CodeIncomplete
		case timedOut(err):
			c.code = soapcodec.CodeBackendTimeout
		case errors.Is(err, errTooLarge):
			c.code = soapcodec.CodeReplyTooLarge
		case !errors.As(err, &broken):
			c.code = soapcodec.CodeBackendNotSOAP
		}
	}
	return n, err
}

// passThrough sends a request that is not checked, and its answer as it is:
// extra methods and requests for a description.
func (c *call) passThrough() (*Reply, error) {
	if err := c.within(c.route); err != nil {
		return nil, err
	}
	c.src = newBody(c.ex.Body, codingIdentity, c.route.limits)
	c.msg.length = c.ex.Length
	if c.ex.Length != 0 {
		c.msg.stream = &stream{r: c.src}
	}
	resp, node, err := c.attempt(c.request(), c.route.tail(c.target.path))
	if err != nil {
		return nil, err
	}
	c.outcome = OutcomeAnswered
	c.judge(node, resp.Status, nil)
	r := &Reply{Status: resp.Status, Header: c.replyHeader(resp, node), Length: resp.Length, CloseConnection: c.bodyLeft()}
	if resp.Body == nil || bodiless(c.ex.Method, resp.Status) {
		c.tries.end()
		if c.ex.Method != "HEAD" {
			r.Length = 0
		}
		return r, nil
	}
	r.Body = &replyBody{call: c, r: &wire{r: resp.Body}}
	return r, nil
}
