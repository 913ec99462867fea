package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// A message of the queue rows has its number and the time at which it was sent,
// in nanoseconds since the bench began, so that whoever gets it knows how long
// it took without asking anybody.
const (
	queueHead   = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><b:m xmlns:b="urn:soapway:bench"><b:n>`
	queueMid    = `</b:n><b:a>`
	queuePad    = `</b:a><b:t>`
	queueTail   = `</b:t></b:m></s:Body></s:Envelope>`
	queueDigits = 12 // of the number
	queueNanos  = 15 // of the time
	queueLeast  = len(queueHead) + queueDigits + len(queueMid) + queueNanos + len(queuePad) + len(queueTail)
)

// queueEnvelope returns a message of size octets, at least the shortest, with
// number and time zero.
func queueEnvelope(size int) []byte {
	b := append([]byte(queueHead), bytes.Repeat([]byte{'0'}, queueDigits)...)
	b = append(b, queueMid...)
	b = append(b, bytes.Repeat([]byte{'0'}, queueNanos)...)
	b = append(b, queuePad...)
	for i := range max(0, size-queueLeast) {
		b = append(b, 'a'+byte(i*7%26))
	}
	return append(b, queueTail...)
}

// readQueueMessage finds number and time in a body.
func readQueueMessage(body []byte) (n int64, at time.Duration, err error) {
	_, rest, ok := bytes.Cut(body, []byte("<b:n>"))
	if !ok || len(rest) < queueDigits+len(queueMid)+queueNanos {
		return 0, 0, fmt.Errorf("no message of the bench: %.80q", body)
	}
	if n, err = strconv.ParseInt(string(rest[:queueDigits]), 10, 64); err != nil {
		return 0, 0, err
	}
	ns, err := strconv.ParseInt(string(rest[queueDigits+len(queueMid):][:queueNanos]), 10, 64)
	return n, time.Duration(ns), err
}

// putDigits writes v with leading zeros so that it fills b.
func putDigits(b []byte, v int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(v%10)
		v /= 10
	}
}

// queueClock is the time that messages carry.
type queueClock struct{ began time.Time }

func (c queueClock) now() time.Duration { return time.Since(c.began) }

// A queueSender posts messages over one connection, each in one write.
type queueSender struct {
	conn    net.Conn
	r       *bufio.Reader
	request []byte
	n, at   []byte // the places of number and time in request
	clock   queueClock
}

// dialQueue connects a sender to the HTTP listener at address. fields are
// further header fields, each with CR LF behind it.
func dialQueue(ctx context.Context, address, fields string, size int, clock queueClock) (*queueSender, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	body := queueEnvelope(size)
	s := &queueSender{conn: conn, r: bufio.NewReaderSize(conn, 4<<10), clock: clock}
	s.request = fmt.Appendf(nil, "POST /orders HTTP/1.1\r\nHost: bench\r\nContent-Type: text/xml; charset=utf-8\r\nSOAPAction: \"\"\r\n%sContent-Length: %d\r\n\r\n", fields, len(body))
	at := len(s.request) + len(queueHead)
	s.request = append(s.request, body...)
	s.n = s.request[at : at+queueDigits]
	s.at = s.request[at+queueDigits+len(queueMid):][:queueNanos]
	return s, nil
}

// post sends message n and returns the status of the answer. An error means that
// none came.
func (s *queueSender) post(n int64) (status int, err error) {
	putDigits(s.n, n)
	putDigits(s.at, int64(s.clock.now()))
	if err := s.conn.SetDeadline(time.Now().Add(queuePatience)); err != nil {
		return 0, err
	}
	if _, err := s.conn.Write(s.request); err != nil {
		return 0, err
	}
	first, length, err := readHTTPHead(s.r)
	if err != nil {
		return 0, err
	}
	if _, err := s.r.Discard(length); err != nil {
		return 0, err
	}
	if len(first) < len("HTTP/1.1 202") {
		return 0, fmt.Errorf("no answer of HTTP: %.40q", first)
	}
	return strconv.Atoi(string(first[9:12]))
}

// queuePatience is how long a sender waits for an answer, and a row for the last
// messages to arrive.
const queuePatience = time.Minute
