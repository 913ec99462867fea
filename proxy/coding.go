package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// coding is a content coding (RFC 9110 §8.4.1).
type coding uint8

const (
	codingIdentity coding = iota
	codingGzip
	codingDeflate
	codingZstd
	codingBrotli
	codingUnknown
)

// acceptEncoding is what a 415 for the coding offers (RFC 9110 §15.5.16).
const acceptEncoding = "gzip, deflate, zstd, br"

func codingOf(name string) coding {
	switch strings.ToLower(name) {
	case "", "identity":
		return codingIdentity
	case "gzip", "x-gzip":
		return codingGzip
	case "deflate":
		return codingDeflate
	case "zstd":
		return codingZstd
	case "br":
		return codingBrotli
	}
	return codingUnknown
}

// contentCoding reads Content-Encoding. Codings are taken one at a time: a list
// of two is unknown.
func contentCoding(h field.List) coding {
	found := codingIdentity
	for i := range h {
		if !h[i].Is("Content-Encoding") {
			continue
		}
		for part := range strings.SplitSeq(h[i].Value, ",") {
			switch c := codingOf(strings.TrimSpace(part)); {
			case c == codingIdentity:
			case c == codingUnknown, found != codingIdentity:
				return codingUnknown
			default:
				found = c
			}
		}
	}
	return found
}

// codingError says that the octets are not what the content coding promises.
type codingError struct{ err error }

func (e *codingError) Error() string { return fmt.Sprintf("proxy: content coding: %v", e.err) }
func (e *codingError) Unwrap() error { return e.err }

// bodyError is an error of the transport's body reader: the message broke off.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return fmt.Sprintf("proxy: body: %v", e.err) }
func (e *bodyError) Unwrap() error { return e.err }

// errTrailing: a body goes on behind the end of its coded data.
var errTrailing = errors.New("octets after the end of the coded data")

// errTooLarge says that a message has more octets than max_message allows once
// decoded.
var errTooLarge = errors.New("proxy: message is larger than max_message")

// errRatio says that a message grows more than decode_ratio allows.
var errRatio = &soapcodec.Fault{
	Code:   soapcodec.CodeLimit,
	Reason: "The message grows more than limits.decode_ratio allows when its content coding is removed.",
}

// ratioGrace is how far a message may grow before decode_ratio counts: short
// messages compress extremely well without being bombs.
const ratioGrace = 1 << 20

// maxWindow bounds the memory of a zstd decoder; RFC 9659 limits the window of
// the content coding to it.
const maxWindow = 8 << 20

// wire reads a transport's body, counts its octets and marks its errors, so
// that a body that broke off is not taken for a corrupt coding.
type wire struct {
	r   io.Reader
	n   int64
	max int64 // 0 = any number of octets
	err error // sticky; io.EOF, errTooLarge or a *bodyError
}

func (w *wire) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.r.Read(p)
	w.n += int64(n)
	switch {
	case w.max > 0 && w.n > w.max:
		n, err = 0, errTooLarge
	case err != nil && err != io.EOF:
		err = &bodyError{err}
	}
	w.err = err
	return n, err
}

// body is a message's octets with the content coding removed, under the limits
// on their number. Its errors are io.EOF, *bodyError, *codingError and
// errTooLarge; they are sticky.
type body struct {
	wire   wire
	coding coding
	lim    Limits
	n      int64 // decoded octets so far
	err    error

	in  *bufio.Reader // gzip, deflate: what the decoder has not used
	dec io.Reader     // nil until the first Read
}

func newBody(r io.Reader, c coding, lim Limits) *body {
	b := new(body)
	b.open(r, c, lim)
	return b
}

// open makes b, which is new, the body that r gives.
func (b *body) open(r io.Reader, c coding, lim Limits) {
	b.wire.r, b.coding = r, c
	b.limit(lim)
}

// limit changes the limits of a body that may have been read in part.
func (b *body) limit(lim Limits) {
	b.lim = lim
	if b.coding != codingIdentity {
		// Empty blocks and members yield nothing, however many there are. No
		// coding makes a message longer by more than a fraction of its length.
		b.wire.max = lim.MaxMessage + lim.MaxMessage/1024 + ratioGrace
	}
}

// over returns the limit that what was read so far breaks, if it does.
func (b *body) over(lim Limits) error {
	switch {
	case b.wire.err == errTooLarge, b.n > lim.MaxMessage:
		return errTooLarge
	case b.coding != codingIdentity && b.n > ratioGrace && b.n/lim.DecodeRatio > b.wire.n:
		return errRatio
	}
	return nil
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.read(p)
	b.n += int64(n)
	switch broken := b.over(b.lim); {
	case broken != nil:
		n, err = 0, broken
	case err != nil && b.wire.n == 0 && b.wire.err == io.EOF:
		err = io.EOF // nothing, in whatever coding
	case err != nil && err != io.EOF && b.coding != codingIdentity:
		var broken *bodyError
		if errors.As(b.wire.err, &broken) {
			err = broken
		} else {
			err = &codingError{err}
		}
	}
	if err != nil {
		b.err = err
		b.release(err == io.EOF)
	}
	return n, err
}

func (b *body) read(p []byte) (int, error) {
	if b.coding == codingIdentity {
		return b.wire.Read(p)
	}
	if b.dec == nil {
		if err := b.decode(); err != nil {
			return 0, err
		}
	}
	n, err := b.dec.Read(p)
	if err == io.EOF && b.in != nil {
		// The coded data has ended; so must the body.
		switch _, more := b.in.ReadByte(); more {
		case io.EOF:
		case nil:
			err = errTrailing
		default:
			err = more
		}
	}
	return n, err
}

var (
	gzipReaders sync.Pool // of *gzip.Reader
	zstdReaders sync.Pool // of *zstd.Decoder
	bufReaders  sync.Pool // of *bufio.Reader
)

// decode makes the decoder.
func (b *body) decode() error {
	switch b.coding {
	case codingGzip:
		b.buffer()
		if z, ok := gzipReaders.Get().(*gzip.Reader); ok {
			if err := z.Reset(b.in); err != nil {
				return unexpected(err)
			}
			b.dec = z
			return nil
		}
		z, err := gzip.NewReader(b.in)
		if err != nil {
			return unexpected(err)
		}
		b.dec = z
	case codingDeflate:
		b.buffer()
		// RFC 9110 §8.4.1.2 means zlib; some senders omit its two octets.
		head, err := b.in.Peek(2)
		if err != nil {
			return unexpected(err)
		}
		if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			z, err := zlib.NewReader(b.in)
			if err != nil {
				return unexpected(err)
			}
			b.dec = z
			return nil
		}
		b.dec = flate.NewReader(b.in)
	case codingZstd:
		if z, ok := zstdReaders.Get().(*zstd.Decoder); ok {
			if err := z.Reset(&b.wire); err != nil {
				return err
			}
			b.dec = z
			return nil
		}
		z, err := zstd.NewReader(&b.wire, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		b.dec = z
	case codingBrotli:
		b.dec = brotli.NewReader(&b.wire)
	}
	return nil
}

func (b *body) buffer() {
	in, ok := bufReaders.Get().(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(nil, 16<<10)
	}
	in.Reset(&b.wire)
	b.in = in
}

// release gives decoders back to their pools, once Read has returned its last
// error and nobody can be inside them.
func (b *body) release(whole bool) {
	if z, ok := b.dec.(*zstd.Decoder); ok {
		if whole && z.Reset(nil) == nil {
			zstdReaders.Put(z)
		} else {
			z.Close()
		}
	}
	if z, ok := b.dec.(*gzip.Reader); ok && whole {
		gzipReaders.Put(z)
	}
	if b.in != nil {
		b.in.Reset(nil)
		bufReaders.Put(b.in)
	}
	b.dec, b.in = nil, nil
}

// unexpected turns the io.EOF of a decoder that found no header into an error.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
