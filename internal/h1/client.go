package h1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"soapway/internal/field"
)

// Reasons for which an answer is not taken.
var (
	errStatusLine = errors.New("h1: malformed status line")
	errAnswerSize = errors.New("h1: the head of the answer is too large")
)

// Reasons for which no request is made.
var (
	errMethod = errors.New("h1: malformed method")
	errNoHost = errors.New("h1: malformed host")
)

// Answer is the head of an answer.
type Answer struct {
	Status int

	// Header has the fields with their canonical name (net/textproto), without
	// Host and Transfer-Encoding.
	Header field.List

	// Length is the number of octets of the body, -1 if it is not known. Of an
	// answer to HEAD it is what Content-Length says.
	Length int64

	// Body says whether a body follows: if not, it ends where it begins.
	Body bool

	// Reusable says that the connection goes on after the body.
	Reusable bool
}

// Reading is told before each read from the connection of a [ClientConn]: begun says
// whether an octet of the head is here already. Its error ends the read.
type Reading interface{ BeforeRead(begun bool) error }

// ClientConn reads the answers on one connection to a server. One goroutine at a
// time may use it; the connection itself may be written to by another one.
type ClientConn struct {
	// Before is told of each read from the connection; it may be nil.
	Before Reading

	in   source
	head head

	// Of the body that is being read.
	form   form
	left   int64
	chunks chunks
}

type form int

const (
	formNone form = iota
	formLength
	formChunks
	formClose // ends with the connection
)

// NewClientConn returns a reader of what c receives.
func NewClientConn(c net.Conn) *ClientConn {
	return &ClientConn{in: source{conn: c}}
}

// Release gives the buffer back while nothing is awaited.
func (c *ClientConn) Release() { c.in.release() }

// Unused is the number of octets that are received and belong to no answer that
// was read.
func (c *ClientConn) Unused() int { return len(c.in.unused()) }

// ReadHead reads the next head, of an interim answer too, of at most most octets.
// The body of the answer before was read to its end. method is that of the
// request.
//
// An answer is taken more leniently than a request, since only we read it: LF
// alone may end a line, and Content-Length may come again with the same value
// (RFC 9112 §2.2, §6.3).
func (c *ClientConn) ReadHead(method string, most int) (a Answer, err error) {
	c.in.take()
	c.in.settle()
	c.head.reset()
	c.head.lenient = true
	for {
		b := c.in.unused()
		n := 0
		if len(b) > 0 {
			if n, err = c.head.scan(b); err != nil {
				return a, err
			}
		}
		switch {
		case n > most, n == 0 && len(b) >= most:
			return a, errAnswerSize
		case n > 0:
			a, err = c.answer(b[:n], method)
			c.in.r += n
			return a, err
		}
		if err := c.fill(len(b) > 0); err != nil {
			return a, err
		}
	}
}

func (c *ClientConn) fill(begun bool) error {
	if c.Before != nil {
		if err := c.Before.BeforeRead(begun); err != nil {
			return err
		}
	}
	return c.in.fill()
}

// answer reads the head b, which scan has found.
func (c *ClientConn) answer(b []byte, method string) (a Answer, err error) {
	h := &c.head
	minor := 0
	if a.Status, minor, err = readStatusLine(h.lines[0].of(b)); err != nil {
		return a, err
	}
	if err := h.readFields(b); err != nil {
		return a, err
	}
	switch {
	case h.codings > 0 && minor == 0:
		return a, errOldCoding
	case h.chunked && h.trailer && h.framingTrailer(b):
		return a, errTrailer
	}
	a.Header = h.list(b, string(b))
	a.Reusable = !h.close && (minor > 0 || h.keepAlive)
	c.form, c.left, c.chunks = formNone, 0, chunks{}
	// RFC 9112 §6.3, in its order.
	switch {
	case method == http.MethodHead:
		a.Length = h.length
	case a.Status < 200 || a.Status == http.StatusNoContent || a.Status == http.StatusNotModified:
	case h.chunked:
		c.form, a.Length = formChunks, -1
	case h.length > 0:
		c.form, c.left, a.Length = formLength, h.length, h.length
	case h.length < 0:
		c.form, a.Length, a.Reusable = formClose, -1, false
	}
	a.Body = c.form != formNone
	h.shrink()
	return a, nil
}

// readStatusLine takes a status line apart (RFC 9112 §4). The reason may be
// missing with the blank before it.
func readStatusLine(l []byte) (status, minor int, err error) {
	const version = len("HTTP/1.1 ")
	if len(l) < version+3 || string(l[:7]) != "HTTP/1." || !isDigit(l[7]) || l[8] != ' ' || len(l) > version+3 && l[version+3] != ' ' || !isValue(l) {
		return 0, 0, errStatusLine
	}
	for _, d := range l[version : version+3] {
		if !isDigit(d) {
			return 0, 0, errStatusLine
		}
		status = 10*status + int(d-'0')
	}
	if status < 100 {
		return 0, 0, errStatusLine
	}
	if l[7] != '0' {
		minor = 1
	}
	return status, minor, nil
}

// Read reads the body of the answer whose head was read last. It ends in io.EOF,
// or in io.ErrUnexpectedEOF if that comes too early; of one that ends with its
// connection the two cannot be told apart.
func (c *ClientConn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	switch c.form {
	case formLength:
		n, err = c.some(p[:min(int64(len(p)), c.left)])
		c.left -= int64(n)
		if err == nil && c.left == 0 {
			c.form, err = formNone, io.EOF
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	case formChunks:
		return c.readChunks(p)
	case formClose:
		return c.some(p)
	}
	return 0, io.EOF
}

func (c *ClientConn) readChunks(p []byte) (n int, err error) {
	for {
		used, need, err := c.chunks.next(c.in.unused())
		c.in.r += used
		switch {
		case err != nil:
			return n, err
		case c.chunks.over:
			c.form = formNone
			return n, io.EOF
		case n > 0 && (need || n == len(p) || c.in.r == c.in.w):
			return n, nil
		}
		m := 0
		if need {
			err = c.fill(true)
		} else {
			m, err = c.some(p[n : n+int(min(int64(len(p)-n), c.chunks.left))])
		}
		n += m
		c.chunks.left -= int64(m)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, err
		}
	}
}

// some gives what is there, or waits for more. A large piece goes past the
// buffer.
func (c *ClientConn) some(p []byte) (int, error) {
	if c.in.r == c.in.w {
		if len(p) >= bufSize/4 {
			if c.Before != nil {
				if err := c.Before.BeforeRead(true); err != nil {
					return 0, err
				}
			}
			return c.in.direct(p)
		}
		c.in.r, c.in.w = 0, 0
		if err := c.fill(true); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in.unused())
	c.in.r += n
	return n, nil
}

// AppendRequest appends the head of a request. length is that of its body, -1 if
// it is chunked. Fields of the connection and of the framing, and Host and
// Expect, are left out of h; names that are none too. The others keep their order.
func AppendRequest(b []byte, method, target, host string, h field.List, length int64) ([]byte, error) {
	switch {
	case method == "" || !all(method, isToken):
		return b, errMethod
	case host == "" || !all(host, isHost):
		return b, errNoHost
	case target == "":
		return b, errTarget
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f {
			return b, errTarget
		}
	}
	b = append(append(b, method...), ' ')
	b = append(append(b, target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	switch {
	case length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case length > 0, method == http.MethodPost, method == http.MethodPut, method == http.MethodPatch:
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, length, 10), "\r\n"...)
	}
	for i := range h {
		f := &h[i]
		if ownField(f.Name) || equalFold(f.Name, "host") || equalFold(f.Name, "expect") || f.Name == "" || !all(f.Name, isToken) {
			continue
		}
		b = append(append(b, f.Name...), ": "...)
		b = append(appendValue(b, f.Value), "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}
