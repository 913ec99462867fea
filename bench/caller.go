package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"soapway/internal/frame"
)

// A Caller sends messages over one connection of its own, one at a time, and
// returns their replies.
type Caller interface {
	// Call returns the reply, valid until the next call. After an error the
	// connection may be unusable: the caller is closed.
	Call(ctx context.Context, message []byte) (reply []byte, err error)
	Close() error
}

// A Target is where a Caller sends to.
type Target struct {
	Address string // host:port
	Path    string // of HTTP; with a leading slash
	// ContentType is the media type of HTTP requests.
	ContentType string
	// Get asks for a page in place of sending a message.
	Get bool
	// Status is the right one. Default 200.
	Status int
	// Width is the octets of a length of framed TCP: 2 or 4.
	Width int
	// Nagle leaves TCP_NODELAY off and writes head and body by themselves, so
	// that the stall which this makes can be shown.
	Nagle bool
	// Patience is how long a reply may take. Default 30s.
	Patience time.Duration
}

// URL is the target as HTTP has it.
func (t *Target) URL() string { return "http://" + t.Address + t.Path }

// Wait is how long a reply may take.
func (t *Target) Wait() time.Duration {
	if t.Patience == 0 {
		return 30 * time.Second
	}
	return t.Patience
}

// judge says that a status is not the right one.
func (t *Target) judge(status int) error {
	if status == t.Status || t.Status == 0 && status == http.StatusOK {
		return nil
	}
	return statusError(status)
}

// A DialCaller connects a Caller. What it connects may be lazy about it.
type DialCaller func(ctx context.Context, t Target) (Caller, error)

// maxReply is the longest reply that is read.
const maxReply = 64 << 20

// socket is a connection that a Caller owns: it ends with its context.
type socket struct {
	net.Conn
	stop     func() bool
	patience time.Duration
}

func connect(ctx context.Context, t *Target) (*socket, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if tcp, ok := c.(*net.TCPConn); ok && t.Nagle {
		if err := tcp.SetNoDelay(false); err != nil {
			c.Close()
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	s := &socket{Conn: c, patience: t.Wait()}
	s.stop = context.AfterFunc(ctx, func() { c.Close() })
	return s, nil
}

func (s *socket) Close() error {
	s.stop()
	return s.Conn.Close()
}

// begin gives a call its time.
func (s *socket) begin() error { return s.SetDeadline(time.Now().Add(s.patience)) }

// framedCaller sends length-prefixed messages: the founding FastSocketSender.
type framedCaller struct {
	*socket
	r     *frame.Reader
	width int
	out   []byte
	reply []byte
}

// DialFramed connects a Caller of framed TCP.
func DialFramed(ctx context.Context, t Target) (Caller, error) {
	if t.Width == 0 {
		t.Width = 2
	}
	s, err := connect(ctx, &t)
	if err != nil {
		return nil, err
	}
	return &framedCaller{socket: s, width: t.Width, r: frame.NewReader(s, t.Width, maxReply, 16<<10)}, nil
}

func (c *framedCaller) Call(_ context.Context, message []byte) (reply []byte, err error) {
	if c.out, err = frame.Append(c.out[:0], c.width, message); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	if _, err := c.Write(c.out); err != nil {
		return nil, err
	}
	n, err := c.r.Next()
	if err != nil {
		return nil, err
	}
	c.reply = grow(c.reply, int(n))
	if _, err := io.ReadFull(c.r, c.reply); err != nil {
		return nil, err
	}
	return c.reply, nil
}

// grow returns a slice of n octets, b's memory if it is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// stdCaller sends with net/http: the yardstick.
type stdCaller struct {
	t      Target
	client *http.Client
	reply  bytes.Buffer
}

// DialStd makes a Caller of net/http, which connects at its first call.
func DialStd(_ context.Context, t Target) (Caller, error) {
	return &stdCaller{t: t, client: &http.Client{
		Timeout:   t.Wait(),
		Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true},
	}}, nil
}

func (c *stdCaller) Call(ctx context.Context, message []byte) ([]byte, error) {
	method, body := http.MethodPost, io.Reader(bytes.NewReader(message))
	if c.t.Get {
		method, body = http.MethodGet, http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, method, c.t.URL(), body)
	if err != nil {
		return nil, err
	}
	if !c.t.Get {
		req.Header["Content-Type"] = []string{c.t.ContentType}
		req.Header["SOAPAction"] = []string{`""`}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	c.reply.Reset()
	if _, err := c.reply.ReadFrom(io.LimitReader(resp.Body, maxReply)); err != nil {
		return nil, err
	}
	return c.reply.Bytes(), c.t.judge(resp.StatusCode)
}

func (c *stdCaller) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// A statusError is an answer of HTTP with another status than the right one.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }
