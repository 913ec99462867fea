package h1

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"
)

// script is a connection whose peer has sent octets and then a FIN. What is
// written to it is kept.
type script struct {
	in    []byte
	most  int // octets a read gives at most, 0 = all
	out   bytes.Buffer
	reads int
}

func (s *script) Read(p []byte) (int, error) {
	s.reads++
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	if s.most > 0 {
		p = p[:min(len(p), s.most)]
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error)    { return s.out.Write(p) }
func (*script) Close() error                     { return nil }
func (*script) LocalAddr() net.Addr              { return nil }
func (*script) RemoteAddr() net.Addr             { return nil }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// handlerFunc answers and has nothing to do afterwards.
type handlerFunc func(ctx context.Context, r *Request, w *Response)

func (f handlerFunc) Serve(ctx context.Context, r *Request, w *Response) { f(ctx, r, w) }
func (handlerFunc) Done(*Response, error)                                {}

// echo answers with the octets of the request, or 400 when they break off.
func echo(_ context.Context, r *Request, w *Response) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.Status, w.Close = 400, true
		return
	}
	w.Status, w.Body, w.Length = 200, bytes.NewReader(b), int64(len(b))
}

func mustServer(opt Options, h Handler) *Server {
	s, err := NewServer(opt, h)
	if err != nil {
		panic(err)
	}
	return s
}

// converse runs a server on what a client sends, at most most octets a time, and
// returns what the client gets.
func converse(octets []byte, most int, h Handler) []byte {
	c := &script{in: octets, most: most}
	s := mustServer(Options{}, h)
	s.start(c)
	s.open.Wait()
	return c.out.Bytes()
}
