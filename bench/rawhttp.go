package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The raw ends of HTTP know one Content-Length and connections that are kept,
// and nothing else of RFC 9112: they show what is left to win, as the founding
// dummy classes did, and are no engine.

// errRaw is the reason of an answer that the raw ends do not understand.
var errRaw = errors.New("the raw client knows answers with one Content-Length alone")

// rawCaller sends over HTTP by hand: one write a request, one read a reply.
type rawCaller struct {
	*socket
	t     Target
	r     *bufio.Reader
	out   []byte
	reply []byte
}

// DialRaw connects a Caller of raw HTTP: the founding SocketSender.
func DialRaw(ctx context.Context, t Target) (Caller, error) {
	s, err := connect(ctx, &t)
	if err != nil {
		return nil, err
	}
	return &rawCaller{socket: s, t: t, r: bufio.NewReaderSize(s, 16<<10)}, nil
}

func (c *rawCaller) Call(_ context.Context, message []byte) ([]byte, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	c.out = c.head(c.out[:0], len(message))
	if c.t.Nagle {
		if _, err := c.Write(c.out); err != nil {
			return nil, err
		}
		c.out = c.out[:0]
	}
	if !c.t.Get {
		c.out = append(c.out, message...)
	}
	if _, err := c.Write(c.out); err != nil {
		return nil, err
	}
	status, length, err := readHead(c.r)
	if err != nil {
		return nil, err
	}
	c.reply = grow(c.reply, length)
	if _, err := io.ReadFull(c.r, c.reply); err != nil {
		return nil, err
	}
	return c.reply, c.t.judge(status)
}

func (c *rawCaller) head(b []byte, length int) []byte {
	if c.t.Get {
		b = append(b, "GET "...)
	} else {
		b = append(b, "POST "...)
	}
	b = append(b, c.t.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.t.Address...)
	if !c.t.Get {
		b = append(b, "\r\nContent-Type: "...)
		b = append(b, c.t.ContentType...)
		b = append(b, "\r\nSOAPAction: \"\"\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(length), 10)
	}
	return append(b, "\r\n\r\n"...)
}

// readHead reads the head of a reply.
func readHead(r *bufio.Reader) (status, length int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("%w: it begins with %.40q", errRaw, line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("%w: it begins with %.40q", errRaw, line)
	}
	length, err = contentLength(r)
	return status, length, err
}

// contentLength reads the fields up to the empty line.
func contentLength(r *bufio.Reader) (length int, err error) {
	length = -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, noEOF(err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || n < 0 || n > maxReply {
			return 0, fmt.Errorf("%w: Content-Length %.20q", errRaw, value)
		}
		length = n
	}
	if length < 0 {
		return 0, errRaw
	}
	return length, nil
}

// noEOF makes an error of an end inside a message.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
