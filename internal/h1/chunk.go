package h1

import (
	"bytes"
	"errors"
)

// Reasons for which the framing of a body is not taken.
var (
	errChunk     = errors.New("h1: malformed chunk")
	errChunkSize = errors.New("h1: chunk size too large")
	errChunkExt  = errors.New("h1: chunk extensions too large")
	errTrailers  = errors.New("h1: malformed or too large trailers")
)

const (
	maxSizeDigits = 15      // of a chunk: fits in 63 bits
	maxExtension  = 256     // octets behind the size of one chunk
	maxExtensions = 8 << 10 // for a whole body
	maxTrailer    = 2 << 10 // all lines together
)

// chunks follows the chunked coding (RFC 9112 §7.1).
type chunks struct {
	left     int64 // of the current chunk
	inside   bool  // a chunk has begun and its CR LF is not read
	ending   bool  // the last chunk was read
	over     bool  // the trailers were read too
	ext      int   // octets of extensions so far
	trailers int   // octets of trailers so far
}

// next makes progress with the octets of b, which stand between the data of
// chunks: it returns how many it used. It stops where data begin (left > 0), at
// the end (over), or where more octets are needed: then need is true.
func (c *chunks) next(b []byte) (used int, need bool, err error) {
	for !c.over && c.left == 0 {
		rest := b[used:]
		if c.inside && !c.ending {
			switch {
			case len(rest) > 0 && rest[0] != '\r' || len(rest) > 1 && rest[1] != '\n':
				return used, false, errChunk
			case len(rest) < 2:
				return used, true, nil
			}
			c.inside = false
			used += 2
			continue
		}
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			if len(rest) > maxSizeDigits+maxExtension+1 && !c.ending {
				return used, false, errChunkExt
			}
			if len(rest)+c.trailers > maxTrailer {
				return used, false, errTrailers
			}
			return used, true, nil
		}
		used += n + 1
		if n == 0 || rest[n-1] != '\r' {
			return used, false, errChunk
		}
		if c.ending {
			err = c.trailer(rest[:n-1])
		} else {
			err = c.size(rest[:n-1])
		}
		if err != nil {
			return used, false, err
		}
	}
	return used, false, nil
}

// size reads the line in front of a chunk.
func (c *chunks) size(line []byte) error {
	var n int64
	i := 0
	for ; i < len(line) && octets[line[i]]&isHex != 0; i++ {
		if i == maxSizeDigits {
			return errChunkSize
		}
		n = n<<4 | int64(hexValue(line[i]))
	}
	ext := line[i:]
	switch {
	case i == 0 || len(ext) > 0 && ext[0] != ';' || !isValue(ext):
		return errChunk
	case len(ext) > maxExtension || c.ext+len(ext) > maxExtensions:
		return errChunkExt
	}
	c.ext += len(ext)
	c.left, c.inside, c.ending = n, true, n == 0
	return nil
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

// trailer checks a line behind the last chunk; an empty one is the end.
func (c *chunks) trailer(line []byte) error {
	if len(line) == 0 {
		c.over = true
		return nil
	}
	c.trailers += len(line) + 2
	colon := bytes.IndexByte(line, ':')
	if c.trailers > maxTrailer || colon <= 0 || !all(line[:colon], isToken) || !isValue(line[colon+1:]) {
		return errTrailers
	}
	return nil
}
