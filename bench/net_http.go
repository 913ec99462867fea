package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
)

// httpFraming is HTTP/1.1 (RFC 9112) as far as two ends that know each other
// need it: a head in one write with its body, Content-Length, kept connections.
// An empty buffer is asked for with GET.
type httpFraming struct {
	soap bool
	path string // of the requests: the key
}

const httpHeadLimit = 4 << 10

func (f *httpFraming) request(w *bufio.Writer, key string, payload []byte) error {
	method := "POST"
	if key != "" {
		f.path, method, payload = key, "GET", nil
	} else if len(payload) == 0 {
		method = "GET"
	}
	_, _ = w.WriteString(method + " /" + f.path + " HTTP/1.1\r\nHost: bench\r\n")
	if method == "POST" {
		f.entity(w, payload, "SOAPAction: \"\"\r\n")
		return f.body(w, payload)
	}
	_, err := w.WriteString("\r\n")
	return err
}

func (f *httpFraming) reply(w *bufio.Writer, payload []byte) error {
	_, _ = w.WriteString("HTTP/1.1 200 OK\r\n")
	f.entity(w, payload, "")
	return f.body(w, payload)
}

func (f *httpFraming) entity(w *bufio.Writer, payload []byte, action string) {
	kind := "Content-Type: application/octet-stream\r\n"
	if f.soap {
		kind = "Content-Type: text/xml; charset=utf-8\r\n" + action
	}
	if len(payload) == 0 {
		kind = ""
	}
	_, _ = w.WriteString(kind + "Content-Length: ")
	_, _ = w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(len(payload)), 10))
	_, _ = w.WriteString("\r\n\r\n")
}

// body writes payload behind its head.
func (f *httpFraming) body(w *bufio.Writer, payload []byte) error {
	_, err := w.Write(payload)
	return err
}

// takeRequest returns the key itself for the GET that shows it.
func (f *httpFraming) takeRequest(r *bufio.Reader, key string, buf []byte, limit int) ([]byte, error) {
	first, length, err := readHTTPHead(r)
	if err != nil {
		return nil, err
	}
	method, rest, _ := bytes.Cut(first, []byte(" "))
	path, version, _ := bytes.Cut(rest, []byte(" "))
	if string(version) != "HTTP/1.1" || len(path) == 0 || path[0] != '/' {
		return nil, fmt.Errorf("%w: %.40q is no request", errNetAnswer, first)
	}
	if key != "" {
		return bytes.Clone(path[1:]), nil
	}
	if (string(method) == "POST") != (length > 0) {
		return nil, fmt.Errorf("%w: %s with %d octets", errNetAnswer, method, length)
	}
	if length > limit {
		return nil, fmt.Errorf("%w: a body of %d octets", errNetAnswer, length)
	}
	return readInto(r, buf, length)
}

func (f *httpFraming) takeReply(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	first, length, err := readHTTPHead(r)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(first, []byte("HTTP/1.1 200 ")) || length > limit {
		return nil, fmt.Errorf("%w: %.40q with %d octets", errNetAnswer, first, length)
	}
	return readInto(r, buf, length)
}

// readHTTPHead returns the first line of a head, valid until the next read, and
// its Content-Length, 0 if there is none.
func readHTTPHead(r *bufio.Reader) (first []byte, length int, err error) {
	for size := 0; ; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, 0, err
		}
		if size += len(line); size > httpHeadLimit {
			return nil, 0, fmt.Errorf("%w: a head of more than %d octets", errNetAnswer, httpHeadLimit)
		}
		line = bytes.TrimRight(line, "\r\n")
		if first == nil {
			first = bytes.Clone(line)
			continue
		}
		if len(line) == 0 {
			return first, length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(name) == len("content-length") && bytes.EqualFold(name, []byte("content-length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return nil, 0, fmt.Errorf("%w: Content-Length %.20q", errNetAnswer, value)
			}
		}
	}
}
