package proxy

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"soapway/internal/field"
)

// Compress is the content coding of requests towards HTTP nodes.
type Compress uint8

// The codings.
const (
	CompressNone Compress = iota
	CompressGzip
	CompressZstd
)

// String is the name of the coding in Content-Encoding.
func (c Compress) String() string {
	switch c {
	case CompressGzip:
		return "gzip"
	case CompressZstd:
		return "zstd"
	}
	return "identity"
}

// leastCompressed is the size below which a message is not worth compressing:
// with its head it is one packet anyway.
const leastCompressed = 1 << 10

// packed is req as node i gets it: compressed where the backend asks for it, the
// node speaks HTTP, and the message has no coding already. One that is whole
// and does not get smaller goes as it is; one that streams is compressed while it
// passes, and its length is not known then.
func (c *call) packed(b *backend, i int, req *Request) (*Request, error) {
	scheme := b.urls[i].scheme
	if b.Compress == CompressNone || scheme != "http" && scheme != "https" || req.Length >= 0 && req.Length < leastCompressed ||
		req.Header.Has("Content-Encoding") {
		return req, nil
	}
	out := *req
	out.Data = nil
	out.Header = req.Header.Clone()
	out.Header.Set("Content-Encoding", b.Compress.String())
	out.Header.DelFunc(func(f *field.Field) bool { return digest(canonical(f.Name)) })
	if req.Once || req.Length < 0 || req.Length > defaultBuffer {
		out.Length = -1
		out.Body = func() (io.ReadCloser, error) {
			body, err := req.Body()
			if err != nil {
				return nil, err
			}
			return newCompressor(body, b.Compress, req.Length), nil
		}
		return &out, nil
	}
	body, err := req.Body()
	if err != nil {
		return nil, &SendError{Class: NotSent, Source: true, Err: err}
	}
	p := newCompressor(body, b.Compress, req.Length)
	defer p.Close()
	small := bytes.NewBuffer(make([]byte, 0, req.Length/2))
	if _, err := io.Copy(small, p); err != nil {
		return nil, &SendError{Class: NotSent, Source: true, Err: err}
	}
	if int64(small.Len()) >= req.Length {
		return req, nil
	}
	out.Length = int64(small.Len())
	out.Body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(small.Bytes())), nil }
	return &out, nil
}

// encoder is what gzip and zstd have in common.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// encoders keeps them, since their tables are large. One of zstd has a window of
// 1 MiB and no goroutines: the body of a message may be as large as it likes.
var encoders = map[Compress]*sync.Pool{
	CompressGzip: {New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }},
	CompressZstd: {New: func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // the options are ours
		}
		return w
	}},
}

// compressor is a body that is compressed while it is read. Octets that the body
// holds back are not given away, and its error ends what is read of it: the end
// of the coding is written only behind the whole message.
type compressor struct {
	body io.ReadCloser
	kind Compress
	size int64 // of the body, -1 if it is not known

	// closed is set by a Close, which does not wait for a Read under way: that one
	// waits for the sender of the message, and lets go when it ends.
	closed atomic.Bool

	mu  sync.Mutex // guards what follows
	enc encoder    // nil when over
	in  []byte
	out bytes.Buffer
	err error
}

func newCompressor(body io.ReadCloser, kind Compress, size int64) *compressor {
	return &compressor{body: body, kind: kind, size: size}
}

// Read implements io.Reader.
func (p *compressor) Read(dst []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in == nil && p.err == nil {
		p.enc = encoders[p.kind].Get().(encoder)
		p.enc.Reset(&p.out)
		size := int64(chunk)
		if p.size >= 0 {
			size = min(size, p.size+1) // one more, so that the end is seen at once
		}
		p.in = make([]byte, size)
	}
	for p.out.Len() == 0 && p.err == nil && !p.closed.Load() {
		p.step()
	}
	if p.closed.Load() && p.err == nil {
		p.end(io.ErrClosedPipe)
	}
	if p.out.Len() > 0 {
		return p.out.Read(dst)
	}
	return 0, p.err
}

// step compresses what one read of the body gives.
func (p *compressor) step() {
	n, err := p.body.Read(p.in)
	if n > 0 {
		if _, werr := p.enc.Write(p.in[:n]); werr != nil && err == nil {
			err = werr
		}
	}
	if err == nil {
		return
	}
	if err == io.EOF {
		if cerr := p.enc.Close(); cerr != nil {
			err = cerr
		}
	}
	p.end(err)
}

// end puts the encoder back. What it has written so far stays to be read, unless
// the message has failed.
func (p *compressor) end(err error) {
	p.err = err
	if err != io.EOF {
		p.out.Reset()
	}
	if p.enc != nil {
		p.enc.Reset(nil)
		encoders[p.kind].Put(p.enc)
		p.enc = nil
	}
}

// Close implements io.Closer.
func (p *compressor) Close() error {
	p.closed.Store(true)
	err := p.body.Close()
	if p.mu.TryLock() {
		if p.err == nil {
			p.end(io.ErrClosedPipe)
		}
		p.mu.Unlock()
	}
	return err
}
