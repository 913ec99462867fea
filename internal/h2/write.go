package h2

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"soapway/internal/h1"
)

// errCut says that an answer could not be completed.
var errCut = errors.New("h2: answer cut")

// errPanic is the reason for Done when the writing of an answer panicked.
var errPanic = errors.New("h2: the writing of the answer panicked")

const (
	// mostOut bounds the octets that wait to be written, but for a last frame.
	mostOut  = 64 << 10
	copySize = 32 << 10
)

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// flush writes what waits to be written, unless somebody does already. It is
// called with mu held, and gives it away meanwhile.
func (c *conn) flush() {
	if c.flushing {
		return
	}
	c.flushing = true
	if len(c.streams) > 1 && len(c.out) > 0 {
		// Others may be about to answer: their frames go with ours.
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	for len(c.out) > 0 && c.err == nil {
		b := c.out
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		c.armWrite()
		_, err := c.raw.Write(b)
		c.mu.Lock()
		if cap(b) <= 2*mostOut {
			c.spare = b
		}
		c.budget.sent += len(b)
		if err != nil {
			c.fail(err)
		}
		c.room.Broadcast()
	}
	c.flushing = false
	c.leave()
}

// flushElsewhere is flush for those that must not wait for the peer to read: the
// reader of the connection, and who reads a body. It keeps mu.
func (c *conn) flushElsewhere() {
	if c.flushing {
		return
	}
	if len(c.out) == 0 {
		c.leave()
		return
	}
	if c.booked {
		return
	}
	c.booked = true
	c.srv.run(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.booked = false
		c.flush()
	})
}

// armWrite gives a write its time: a slow reader passes, one that has stopped
// reading does not. Only who flushes calls it.
func (c *conn) armWrite() {
	limit := c.srv.opt.BodyTimeout
	if want := time.Now().Add(limit); c.writeBy.After(want) || c.writeBy.Before(want.Add(-limit/32)) {
		c.writeBy = want
		c.raw.SetWriteDeadline(want)
	}
}

// respond writes the answer of s; nil means that it is complete. It is called
// with mu held.
func (s *stream) respond() error {
	resp := &s.resp
	if s.gone {
		return fmt.Errorf("%w: %w", errCut, h1.ErrGone)
	}
	if resp.Status < 200 || resp.Status > 999 {
		return fmt.Errorf("%w: status %d", errCut, resp.Status)
	}
	head := s.Method == http.MethodHead
	noContent := resp.Status == http.StatusNoContent || resp.Status == http.StatusNotModified
	length := resp.Length
	if resp.Body == nil && !head {
		length = 0
	}
	whole := h1.Whole(resp.Body, length)
	body := resp.Body != nil && !head && !noContent && !(whole != nil && length == 0)
	if noContent {
		length = -1
	}
	s.answered = true
	s.c.appendAnswer(s.id, resp, length, !body)
	s.ended = !body
	if !body {
		return nil
	}
	if whole == nil {
		return s.copy(resp.Body, length)
	}
	w := memoryWriter{s, length}
	s.c.mu.Unlock()
	_, err := whole.WriteTo(&w)
	s.c.mu.Lock()
	if err == nil && !s.ended {
		err = errCut // it was not the one that it said
	}
	return err
}

// memoryWriter writes a body of which so many octets are left.
type memoryWriter struct {
	s    *stream
	left int64
}

// Write implements [io.Writer].
func (w *memoryWriter) Write(p []byte) (int, error) {
	w.left -= int64(len(p))
	w.s.c.mu.Lock()
	defer w.s.c.mu.Unlock()
	if err := w.s.send(p, w.left <= 0); err != nil {
		return 0, err
	}
	return len(p), nil
}

// copy writes the body of an answer as it comes.
func (s *stream) copy(body io.Reader, length int64) error {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	for total := int64(0); ; {
		s.c.mu.Unlock()
		n, err := h1.ReadPiece(body, buf[:], &total, length)
		s.c.mu.Lock()
		if err != nil && err != io.EOF {
			return errCut
		}
		if err := s.send(buf[:n], err == io.EOF); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if n > 0 {
			s.c.flush() // what is there does not wait for what is not
		}
	}
}

// send puts octets of the answer behind what waits to be written, once the
// client has a window for them. What comes last is left to be flushed.
func (s *stream) send(p []byte, last bool) error {
	c := s.c
	var by time.Time
	for {
		if s.gone {
			return fmt.Errorf("%w: %w", errCut, h1.ErrGone)
		}
		n := int(min(int64(len(p)), int64(c.maxFrame), max(min(s.sendWindow, c.sendWindow), 0)))
		end := last && n == len(p)
		if n > 0 || end {
			if len(c.out) >= mostOut {
				c.flush()
				if len(c.out) >= mostOut && !s.gone { // another one is at it
					c.room.Wait()
				}
				continue
			}
			c.out = appendHead(c.out, n, kindData, flagIf(end, flagEndStream), s.id)
			c.out = append(c.out, p[:n]...)
			s.sendWindow -= int64(n)
			c.sendWindow -= int64(n)
			p = p[n:]
			by = time.Time{}
			if end {
				s.ended = true
				return nil
			}
		}
		if len(p) == 0 {
			return nil
		}
		if n > 0 {
			continue
		}
		c.flush()
		if min(s.sendWindow, c.sendWindow) > 0 || s.gone {
			continue
		}
		if by.IsZero() {
			by = time.Now().Add(c.srv.opt.BodyTimeout)
		} else if !time.Now().Before(by) {
			return fmt.Errorf("%w: no window for it within %v", errCut, c.srv.opt.BodyTimeout)
		}
		if c.sendWindow <= 0 {
			s.wait(&c.room, by)
		} else {
			s.wait(&s.changed, by)
		}
	}
}

func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// appendStatus appends a head with nothing but a status.
func (c *conn) appendStatus(id uint32, status int, flags byte) {
	c.block.Reset()
	c.encode.WriteField(hpack.HeaderField{Name: ":status", Value: statusText(status)})
	c.appendBlock(id, flags)
}

// appendAnswer appends the head of an answer; length is -1 where none is told.
func (c *conn) appendAnswer(id uint32, resp *h1.Response, length int64, end bool) {
	c.block.Reset()
	c.encode.WriteField(hpack.HeaderField{Name: ":status", Value: statusText(resp.Status)})
	dated := false
	for i := range resp.Header {
		f := &resp.Header[i]
		name := lowerName(f.Name)
		if name == "" || ownField(name) ||
			resp.Status == http.StatusNotModified && name == "content-type" { // of a content that is not here (RFC 9110 §15.4.5)
			continue
		}
		dated = dated || name == "date"
		c.encode.WriteField(hpack.HeaderField{Name: name, Value: cleanValue(f.Value)})
	}
	if length >= 0 {
		c.encode.WriteField(hpack.HeaderField{Name: "content-length", Value: strconv.FormatInt(length, 10)})
	}
	if !dated {
		c.encode.WriteField(hpack.HeaderField{Name: "date", Value: c.srv.today.Text()})
	}
	c.appendBlock(id, flagIf(end, flagEndStream))
}

// appendBlock appends the fields that are encoded as a head, in as many frames as
// it takes (RFC 9113 §4.3).
func (c *conn) appendBlock(id uint32, flags byte) {
	kind := byte(kindHeaders)
	for b := c.block.Bytes(); ; {
		n := min(len(b), c.maxFrame)
		if n == len(b) {
			flags |= flagEndHeaders
		}
		c.out = appendHead(c.out, n, kind, flags, id)
		c.out = append(c.out, b[:n]...)
		if b = b[n:]; len(b) == 0 {
			return
		}
		kind, flags = kindContinuation, 0
	}
}

func statusText(status int) string {
	switch status {
	case http.StatusOK:
		return "200"
	case http.StatusInternalServerError:
		return "500"
	}
	return strconv.Itoa(status)
}

// cleanValue makes blanks of control octets in a value, so that it is one field
// for whoever reads it, and takes white space off its ends (RFC 9113 §8.2.1).
func cleanValue(v string) string {
	if validValue(v) {
		return v
	}
	b := []byte(v)
	for i, o := range b {
		if o < ' ' && o != '\t' || o == 0x7f {
			b[i] = ' '
		}
	}
	return strings.Trim(string(b), " \t")
}
