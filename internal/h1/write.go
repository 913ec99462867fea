package h1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// errCut says that an answer could not be completed.
var errCut = errors.New("h1: answer cut")

// errPanic is the reason for Done when the writing of an answer panicked.
var errPanic = errors.New("h1: the writing of the answer panicked")

const (
	// piece bounds one write, so that a deadline for each means progress.
	piece    = 64 << 10
	copySize = 32 << 10
)

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// begin is called before an exchange: a 100 Continue may be written.
func (c *conn) begin() {
	c.writing.Lock()
	c.answered = false
	c.writing.Unlock()
}

// sendContinue asks for the body, unless the answer has begun.
func (c *conn) sendContinue() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.answered {
		return nil
	}
	return c.writeAll([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
}

// writeAll writes with a deadline: a slow reader passes, one that has stopped
// reading does not.
func (c *conn) writeAll(b []byte) error {
	c.armWrite()
	_, err := c.raw.Write(b)
	return err
}

func (c *conn) armWrite() {
	limit := c.srv.opt.BodyTimeout
	if want := time.Now().Add(limit); c.writeBy.After(want) || c.writeBy.Before(want.Add(-slack(limit))) {
		c.writeBy = want
		c.raw.SetWriteDeadline(want)
	}
}

// tell tells the handler what becomes of its response, once. For an answer that
// is whole in our memory this is before it is written, so that what the handler
// does then, and counts, is done when the client has the answer.
func (c *conn) tell(cut error) {
	if c.told {
		return
	}
	c.told = true
	c.srv.handler.Done(&c.resp, cut)
}

// write writes an answer; nil means that it is complete.
func (c *conn) write(r *Request, resp *Response, keep bool) error {
	c.writing.Lock()
	c.answered = true
	c.writing.Unlock()
	if resp.Status < 200 || resp.Status > 999 {
		return fmt.Errorf("%w: status %d", errCut, resp.Status)
	}
	out := buffers.Get().(*[bufSize]byte)
	defer buffers.Put(out)

	head := r.Method == http.MethodHead
	noContent := resp.Status == http.StatusNoContent || resp.Status == http.StatusNotModified
	length := resp.Length
	if resp.Body == nil && !head {
		length = 0
	}
	body := resp.Body != nil && !head && !noContent
	b := c.appendHead(out[:0], resp, r.Minor)
	switch {
	case noContent:
	case length >= 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, "\r\n"...)
	case body && r.Minor > 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case body:
		keep = false
	}
	switch {
	case !keep:
		b = append(b, "Connection: close\r\n"...)
	case r.Minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if !body {
		c.tell(nil)
		return cutBy(c.writeAll(b))
	}
	if whole := Whole(resp.Body, length); whole != nil {
		c.gather.head = b
		_, err := whole.WriteTo(&c.gather)
		if err == nil && c.gather.head != nil { // an empty body writes nothing
			c.tell(nil)
			err = c.writeAll(b)
		}
		c.gather.head = nil
		return cutBy(err)
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	if length < 0 && r.Minor > 0 {
		return c.copyChunked(b, resp.Body, buf[:])
	}
	return c.copy(b, resp.Body, length, buf[:])
}

func cutBy(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errCut, err)
}

// InMemory is a body whose octets are all here, like a bytes.Reader.
type InMemory interface {
	Len() int
	io.WriterTo
}

// Whole is the body of an answer, of that length, if it is in memory; else nil. It
// is for package h2 as well.
func Whole(body io.Reader, length int64) InMemory {
	if b, ok := body.(InMemory); ok && int64(b.Len()) == length {
		return b
	}
	return nil
}

// gather writes the octets of a body that is in memory together with the head
// in front of it.
type gather struct {
	c    *conn
	head []byte
	bufs net.Buffers
	all  [3][]byte // behind bufs
}

// Write implements [io.Writer].
func (g *gather) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), piece)
		if err := g.both(g.head, rest[:n], "", n == len(rest)); err != nil {
			return len(p) - len(rest), err
		}
		g.head, rest = nil, rest[n:]
	}
	return len(p), nil
}

// both writes head, p and tail as one: copied together where they are short,
// gathered where the connection can, else one after the other. It may use the
// room behind head. With last, p is the end of its body.
func (g *gather) both(head, p []byte, tail string, last bool) error {
	if len(head)+len(p)+len(tail) <= bufSize && cap(head) >= bufSize {
		all := append(append(head, p...), tail...)
		if last {
			g.c.tell(nil) // p may be gone now
		}
		return g.c.writeAll(all)
	}
	g.c.armWrite()
	g.bufs = g.all[:0]
	for _, b := range [...][]byte{head, p, []byte(tail)} {
		if len(b) > 0 {
			g.bufs = append(g.bufs, b)
		}
	}
	_, err := g.bufs.WriteTo(g.c.raw)
	clear(g.all[:])
	return err
}

// copy writes a body with a length, or one that ends with the connection.
func (c *conn) copy(head []byte, body io.Reader, length int64, buf []byte) error {
	for total := int64(0); ; {
		n, err := ReadPiece(body, buf, &total, length)
		if err != nil && err != io.EOF {
			return err
		}
		if n > 0 || head != nil && err == io.EOF {
			if err := c.gather.both(head, buf[:n], "", err == io.EOF); err != nil {
				return cutBy(err)
			}
			head = nil
		}
		if err == io.EOF {
			return nil
		}
	}
}

// copyChunked writes each piece of a body of unknown length as it comes.
func (c *conn) copyChunked(head []byte, body io.Reader, buf []byte) error {
	for {
		n, err := body.Read(buf)
		if err != nil && err != io.EOF {
			return errCut
		}
		tail := ""
		if n > 0 {
			head = strconv.AppendInt(head, int64(n), 16)
			head = append(head, "\r\n"...)
			tail = "\r\n"
		}
		if err == io.EOF {
			tail += "0\r\n\r\n"
		}
		if tail == "" {
			continue
		}
		if werr := c.gather.both(head, buf[:n], tail, err == io.EOF); werr != nil {
			return cutBy(werr)
		}
		if err == io.EOF {
			return nil
		}
		head = head[:0]
	}
}

// ReadPiece reads the next piece of an answer's body into buf and adds its octets
// to total. length is that of the body, -1 if it is not known. With the last piece
// the error is io.EOF; of a body with a length the last octets come only once the
// body has said that this is its end, so that one which turns bad is never complete
// at the client. Any other error means that the answer must be cut.
func ReadPiece(body io.Reader, buf []byte, total *int64, length int64) (int, error) {
	n, err := body.Read(buf)
	*total += int64(n)
	if err == nil && *total == length {
		err = AtEnd(body)
	}
	switch {
	case err != nil && err != io.EOF,
		length >= 0 && (*total > length || err == io.EOF && *total < length):
		return 0, errCut
	}
	return n, err
}

// AtEnd reads once more where a body should end, which gives io.EOF.
func AtEnd(r io.Reader) error {
	var one [1]byte
	for range 16 {
		if n, err := r.Read(one[:]); n > 0 {
			return errCut
		} else if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// appendHead appends the status line and the end-to-end fields.
func (c *conn) appendHead(b []byte, resp *Response, minor int) []byte {
	b = append(b, "HTTP/1."...)
	b = append(b, byte('0'+minor), ' ')
	b = strconv.AppendInt(b, int64(resp.Status), 10)
	b = append(b, ' ')
	if text := http.StatusText(resp.Status); text != "" {
		b = append(b, text...)
	} else {
		b = strconv.AppendInt(append(b, "status code "...), int64(resp.Status), 10)
	}
	b = append(b, "\r\n"...)
	dated := false
	for i := range resp.Header {
		f := &resp.Header[i]
		if ownField(f.Name) || !all(f.Name, isToken) {
			continue
		}
		if resp.Status == http.StatusNotModified && equalFold(f.Name, "content-type") {
			continue // of a content that is not here (RFC 9110 §15.4.5)
		}
		dated = dated || equalFold(f.Name, "date")
		b = append(append(b, f.Name...), ": "...)
		b = append(appendValue(b, f.Value), "\r\n"...)
	}
	if !dated {
		b = append(append(append(b, "Date: "...), c.srv.today.Text()...), "\r\n"...)
	}
	return b
}

// appendValue writes a value such that it stays on its line.
func appendValue(b []byte, v string) []byte {
	start := len(b)
	b = append(b, v...)
	if written := b[start:]; !isValue(written) {
		for i, c := range written {
			if c < ' ' && c != '\t' || c == 0x7f {
				written[i] = ' '
			}
		}
	}
	return b
}

// ownField reports whether this hop writes the field itself (RFC 9110 §7.6.1).
func ownField(name string) bool {
	switch len(name) {
	case len("te"):
		return equalFold(name, "te")
	case len("trailer"): // and upgrade
		return equalFold(name, "trailer") || equalFold(name, "upgrade")
	case len("connection"): // and keep-alive
		return equalFold(name, "connection") || equalFold(name, "keep-alive")
	case len("content-length"):
		return equalFold(name, "content-length")
	case len("proxy-connection"):
		return equalFold(name, "proxy-connection")
	case len("transfer-encoding"):
		return equalFold(name, "transfer-encoding")
	}
	return false
}
