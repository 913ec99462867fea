package proxyversus

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
)

// serve gives every connection of a listener on loopback to f, until the test ends.
func serve(t testing.TB, f func(net.Conn)) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return ln.Addr().String()
}

// httpBackend answers every request with one message.
func httpBackend(body []byte) func(net.Conn) {
	reply := answer(body)
	return func(c net.Conn) {
		r := bufio.NewReaderSize(c, 16<<10)
		for {
			if _, err := readMessage(r); err != nil {
				return
			}
			if _, err := c.Write(reply); err != nil {
				return
			}
		}
	}
}

// framedBackend answers every frame with one message; what is asked for
// together is answered together.
func framedBackend(body []byte) func(net.Conn) {
	reply := framed(body)
	return func(c net.Conn) {
		r := bufio.NewReaderSize(c, 128<<10)
		w := bufio.NewWriterSize(c, 128<<10)
		for {
			if err := skipFrame(r); err != nil {
				return
			}
			if _, err := w.Write(reply); err != nil {
				return
			}
			if r.Buffered() == 0 && w.Flush() != nil {
				return
			}
		}
	}
}

func skipFrame(r *bufio.Reader) error {
	head, err := r.Peek(2)
	if err != nil {
		return err
	}
	n := 2 + int(binary.BigEndian.Uint16(head))
	_, err = r.Discard(n)
	return err
}

// readMessage reads an HTTP message that has a Content-Length or is chunked,
// and returns the status of an answer, 0 of a request.
func readMessage(r *bufio.Reader) (status int, err error) {
	length, chunked, first := 0, false, true
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if first {
			if first = false; bytes.HasPrefix(line, []byte("HTTP/1.1 ")) && len(line) > 12 {
				if status, err = strconv.Atoi(string(line[9:12])); err != nil {
					return 0, err
				}
			}
			continue
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == 14 && bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		case len(name) == 17 && bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	if chunked {
		return status, skipChunks(r)
	}
	_, err = r.Discard(length)
	return status, err
}

func skipChunks(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size %.20q: %w", line, err)
		}
		if _, err := r.Discard(int(n) + 2); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// discardBody reads a body to its end and counts it.
func discardBody(body io.ReadCloser) (int64, error) {
	n, err := io.Copy(io.Discard, body)
	return n, errors.Join(err, body.Close())
}
