package casetest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// coders are the content codings of SPEC.md §3.3. deflate is the zlib format
// (RFC 9110 §8.4.1.2).
var coders = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"x-gzip":  func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // only for bad options
		}
		return z
	},
}

// encode codes plain in one of coders.
func encode(coding string, plain []byte) []byte {
	var b bytes.Buffer
	w := coders[coding](&b)
	if _, err := w.Write(plain); err != nil {
		panic(err) // writing to memory
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func gzipOf(plain []byte) []byte { return encode("gzip", plain) }
