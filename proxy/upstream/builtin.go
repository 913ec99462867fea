package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"soapway/internal/field"
	"soapway/proxy"
)

var _ proxy.Node = (*builtin)(nil)

// echoBuffer is what echo keeps in memory of one message.
const echoBuffer = 1 << 20

// page is what builtin:page serves: static, cacheable by nobody, 1 KiB.
const page = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Soapway</title>
<style>
body { max-width: 40em; margin: 3em auto; padding: 0 1em; font: 1em/1.5 sans-serif; color: #222; background: #fff; }
code { font-family: monospace; background: #eee; padding: 0 0.2em; }
</style>
</head>
<body>
<h1>Soapway</h1>
<p>This page is built into the gateway. It is what <code>builtin:page</code> answers.</p>
<p>It shows that a listener, a route and the way back work, with no other service
behind them. The self-test fetches it, too: <code>gateway bench web</code> counts how
many times a second one caller can have it.</p>
<p>To have your own page here, give the route a node of yours:</p>
<pre>to: ["http://10.0.0.5:9000/"]</pre>
<!-- This comment makes the page 1,024 octets long: the founding measurement fetched a page of that size, one after the other over one connection, then printed how many of those came in every second. -->
</body>
</html>
`

// builtin is a node inside the process.
type builtin struct {
	name     string
	serve    func(*field.List, *proxy.Request, io.Reader) (*proxy.Response, error)
	mirror   bool // it answers with what it was sent
	inFlight atomic.Int64
	closed   atomic.Bool
}

// NewBuiltin returns a node inside the process by its name:
//
//	builtin:echo   the octets of the request, with their Content-Type and
//	               Content-Encoding, as 200; taken in whole before it answers
//	builtin:page   a small web page for GET and HEAD, 405 for the rest
//	builtin:sink   202 without a body, once the request was read
//
// Echo has a WSDL, for GET and HEAD with wsdl as the query; it and sink answer
// any other GET and HEAD with 405.
// A try at it counts as sent from the first octet that it reads.
func NewBuiltin(name string) (proxy.Node, error) {
	b := &builtin{name: name}
	switch strings.TrimPrefix(name, "builtin:") {
	case "echo":
		b.serve, b.mirror = echo, true
	case "page":
		b.serve = servePage
	case "sink":
		b.serve = sink
	default:
		return nil, fmt.Errorf("upstream: no built-in node %q, want builtin:echo, builtin:page or builtin:sink", name)
	}
	if !strings.HasPrefix(name, "builtin:") {
		b.name = "builtin:" + name
	}
	return b, nil
}

// Name implements [proxy.Node].
func (b *builtin) Name() string { return b.name }

// InFlight implements [proxy.Node].
func (b *builtin) InFlight() int64 { return b.inFlight.Load() }

// Close implements [proxy.Node].
func (b *builtin) Close() { b.closed.Store(true) }

// Send implements [proxy.Node].
func (b *builtin) Send(ctx context.Context, req *proxy.Request) (*proxy.Response, error) {
	if b.closed.Load() {
		return nil, &proxy.SendError{Class: proxy.NotSent, Err: ErrClosed}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, &proxy.SendError{Class: proxy.NotSent, Err: err}
	}
	if d := req.Data; d != nil && b.mirror && req.Method == http.MethodPost {
		return b.mirrored(ctx, req), nil
	}
	b.inFlight.Add(1)
	resp, err := b.answer(ctx, req)
	if err != nil || resp.Body == nil {
		b.inFlight.Add(-1)
	} else {
		resp.Body = &countedBody{ReadCloser: resp.Body, ctx: ctx, inFlight: &b.inFlight}
	}
	return resp, err
}

// mirrored is the answer of echo to a message that is in memory: its octets, where
// they are. To one without fields, that came in a frame, it is a frame as well.
func (b *builtin) mirrored(ctx context.Context, req *proxy.Request) *proxy.Response {
	m := new(mirror)
	resp := &m.resp
	*resp = proxy.Response{Status: http.StatusOK, Length: int64(len(req.Data)), Data: req.Data, Framed: req.Header == nil}
	if !resp.Framed {
		resp.Header = echoFields(make(field.List, 0, 2), req)
	}
	if len(req.Data) > 0 {
		b.inFlight.Add(1)
		m.body.ctx, m.body.inFlight = ctx, &b.inFlight
		m.body.Reset(req.Data)
		resp.Body = &m.body
	}
	return resp
}

// mirror is such an answer with its body, in one piece of memory.
type mirror struct {
	resp proxy.Response
	body mirrorBody
}

// mirrorBody is the body of such an answer, see countedBody.
type mirrorBody struct {
	bytes.Reader
	ctx      context.Context
	inFlight *atomic.Int64
	closed   atomic.Bool
}

func (b *mirrorBody) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, &proxy.SendError{Class: proxy.Maybe, Err: err}
	}
	return b.Reader.Read(p)
}

func (b *mirrorBody) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.inFlight.Add(-1)
	}
	return nil
}

// echoFields adds those of a request that tell what its octets are.
func echoFields(h field.List, req *proxy.Request) field.List {
	for _, k := range []string{"Content-Type", "Content-Encoding"} {
		for _, v := range req.Header.Values(k) {
			h.Add(k, v)
		}
	}
	return h
}

func (b *builtin) answer(ctx context.Context, req *proxy.Request) (*proxy.Response, error) {
	var body io.ReadCloser = http.NoBody
	if req.Length != 0 {
		var err error
		if body, err = req.Body(); err != nil {
			return nil, &proxy.SendError{Class: proxy.NotSent, Source: true, Err: err}
		}
	}
	defer body.Close()
	header := field.List{}
	return b.serve(&header, req, &ctxReader{ctx: ctx, r: body})
}

// sourceError is what a request body that failed makes of a try. The message
// has not reached anybody, but its first octets were taken.
func sourceError(err error) error {
	return &proxy.SendError{Class: proxy.Maybe, Source: true, Err: err}
}

// onlyPOST answers for a built-in service that has nothing to be fetched, such
// as a WSDL.
func onlyPOST(header *field.List, req *proxy.Request) *proxy.Response {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil
	}
	header.Set("Allow", "POST")
	return &proxy.Response{Status: http.StatusMethodNotAllowed, Header: *header}
}

func echo(header *field.List, req *proxy.Request, body io.Reader) (*proxy.Response, error) {
	if resp := described(header, req); resp != nil {
		return resp, nil
	}
	if resp := onlyPOST(header, req); resp != nil {
		return resp, nil
	}
	in := &announced{r: body, left: req.Length}
	s, err := newSpool(in, echoBuffer, req.Length)
	switch {
	case in.err != nil:
		return nil, sourceError(in.err)
	case err != nil: // the disk
		return nil, &proxy.SendError{Class: proxy.Maybe, Err: err}
	}
	resp := &proxy.Response{Status: http.StatusOK, Header: echoFields(*header, req), Length: s.size, Framed: req.Header == nil}
	if s.size > 0 {
		resp.Body = s
	}
	return resp, nil
}

func servePage(header *field.List, req *proxy.Request, body io.Reader) (*proxy.Response, error) {
	resp := &proxy.Response{Status: http.StatusOK}
	switch req.Method {
	case http.MethodGet:
		resp.Body = io.NopCloser(strings.NewReader(page))
	case http.MethodHead:
	default:
		header.Set("Allow", "GET, HEAD")
		resp.Status, resp.Header = http.StatusMethodNotAllowed, *header
		return resp, nil
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	resp.Header, resp.Length = *header, int64(len(page))
	return resp, nil
}

func sink(header *field.List, req *proxy.Request, body io.Reader) (*proxy.Response, error) {
	if resp := onlyPOST(header, req); resp != nil {
		return resp, nil
	}
	if _, err := io.Copy(io.Discard, &announced{r: body, left: req.Length}); err != nil {
		return nil, sourceError(err)
	}
	return &proxy.Response{Status: http.StatusAccepted, Header: *header}, nil
}

// announced reads a body that must have as many octets as its length says, -1
// for any number, and remembers why it did not.
type announced struct {
	r    io.Reader
	left int64
	err  error
}

func (a *announced) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if err != nil && err != io.EOF {
		a.err = err
		return n, err
	}
	if a.left >= 0 {
		if a.left -= int64(n); a.left < 0 {
			a.err = errBodyTooLong
		} else if err == io.EOF && a.left > 0 {
			a.err = io.ErrUnexpectedEOF
		}
	}
	if a.err != nil {
		return n, a.err
	}
	return n, err
}

// ctxReader stops reading once the caller has left.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// countedBody is the body of an answer that counts as in flight until it is
// closed, and that ends with its context.
type countedBody struct {
	io.ReadCloser
	ctx      context.Context
	inFlight *atomic.Int64
	once     sync.Once
}

func (b *countedBody) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, &proxy.SendError{Class: proxy.Maybe, Err: err}
	}
	return b.ReadCloser.Read(p)
}

func (b *countedBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { b.inFlight.Add(-1) })
	return err
}
