package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"soapway/internal/frame"
)

// serveRawHTTP answers each request with its body: the founding SocketBinder.
func serveRawHTTP(c net.Conn, f *faults) error {
	r := bufio.NewReaderSize(c, 16<<10)
	var body, out []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) < 5 || string(line[:5]) != "POST " {
			return fmt.Errorf("not a POST: %.40q", line)
		}
		length, err := contentLength(r)
		if err != nil {
			return err
		}
		body = grow(body, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		reply := f.before(body)
		out = append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(reply)), 10)
		out = append(out, "\r\n\r\n"...)
		out = append(out, reply...)
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

// serveFramed answers each frame with its payload.
func serveFramed(c net.Conn, f *faults) error {
	const width = 2
	r := frame.NewReader(c, width, frame.MaxPayload(width), 16<<10)
	var body, out []byte
	for {
		n, err := r.Next()
		if err != nil {
			return err
		}
		body = grow(body, int(n))
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if out, err = frame.Append(out[:0], width, f.before(body)); err != nil {
			return err
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

// stdEcho answers each request with its body, by net/http.
func stdEcho(f *faults) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has left
		}
		w.Header()["Content-Type"] = r.Header["Content-Type"]
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
		// An error is the caller's to notice.
		_, _ = w.Write(f.before(body))
	})
}
