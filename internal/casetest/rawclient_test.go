package casetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long any single wait of the harness may take before it is
// called a hang. No answer of the product is allowed to need longer unless the
// scenario says so.
const patience = 20 * time.Second

// pause waits on purpose, as a slow peer does.
func pause(d time.Duration) { <-time.After(d) }

// eventually polls until ok, at most for the given time.
func eventually(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); ; pause(5 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// An answer is what a client saw on the wire.
type answer struct {
	head
	Interim []head // 1xx heads before it
	Status  int
	Body    []byte
	Err     error // nil = complete as announced; else how it broke off
	Took    time.Duration
	closed  bool // set by tests that look
}

func (a *answer) String() string {
	b := a.Body
	if len(b) > 1500 {
		b = append(append([]byte(nil), b[:1500]...), "…"...)
	}
	return fmt.Sprintf("%s (err %v)\n%s%s", a.Line, a.Err, a.Raw[:min(len(a.Raw), 2000)], b)
}

// A client is one raw connection to a listener of the gateway.
type client struct {
	t testing.TB
	*net.TCPConn
	r *recorder
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	cl := &client{t, c.(*net.TCPConn), newRecorder(c)}
	t.Cleanup(func() { cl.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return cl
}

// send writes pieces, each in a write of its own. A peer that has gone is no
// failure of the harness: the answer tells.
func (c *client) send(pieces ...[]byte) error {
	for _, p := range pieces {
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// answer reads interim answers and the final one.
func (c *client) answer() *answer { return c.answerTo("POST") }

func (c *client) answerTo(method string) *answer {
	start := time.Now()
	_ = c.SetReadDeadline(start.Add(patience))
	a := &answer{}
	for {
		a.head, a.Err = c.r.head()
		if a.Err != nil {
			break
		}
		proto, rest, _ := strings.Cut(a.Line, " ")
		code, _, _ := strings.Cut(rest, " ")
		if a.Status, a.Err = strconv.Atoi(code); a.Err != nil || !strings.HasPrefix(proto, "HTTP/1.") || len(code) != 3 {
			a.Err = fmt.Errorf("bad status line %q (%w)", a.Line, errFraming)
			break
		}
		if a.Status >= 200 {
			break
		}
		a.Interim = append(a.Interim, a.head)
	}
	if a.Err == nil && a.Status != 204 && a.Status != 304 && method != "HEAD" {
		a.Body, _, a.Err = c.r.body(a.head, true)
	}
	a.Took = time.Since(start)
	if ne := net.Error(nil); errors.As(a.Err, &ne) && ne.Timeout() {
		c.t.Errorf("no answer within %s: the gateway hangs", patience)
	}
	return a
}

// closes reports whether the gateway ends the connection with nothing further
// on it.
func (c *client) closes(within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	b, err := c.r.r.ReadByte()
	if err == nil {
		c.t.Logf("connection goes on with %q", b)
		return false
	}
	ne := net.Error(nil)
	return !(errors.As(err, &ne) && ne.Timeout())
}

// exchange sends octets on a new connection while it reads the answer, so that
// an early answer to a large body is seen.
func exchange(t testing.TB, addr string, octets []byte) *answer {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- c.send(octets) }()
	a := c.answer()
	a.Took = time.Since(start)
	c.Close()
	<-done
	return a
}

// post sends one message and requires a whole answer.
func post(t testing.TB, addr, target string, f fields, body []byte) *answer {
	t.Helper()
	a := exchange(t, addr, request(target, f, body))
	if a.Err != nil {
		t.Fatalf("POST %s: broken answer: %s", target, a)
	}
	return a
}

// xml11 and xml12 are the fields of a plain message of each version.
func xml11(action string) fields {
	return fields{{"Content-Type", "text/xml; charset=utf-8"}, {"SOAPAction", `"` + action + `"`}}
}

func xml12() fields { return fields{{"Content-Type", "application/soap+xml; charset=utf-8"}} }

// A framer is a raw connection to a framed listener, or from a framed backend.
type framer struct {
	t testing.TB
	net.Conn
	size int // octets of the length
	r    *recorder
}

func dialFramed(t testing.TB, addr string, size int) *framer {
	t.Helper()
	c := dial(t, addr)
	return &framer{t, c.TCPConn, size, c.r}
}

// frame prefixes payload with its length.
func frame(size int, payload []byte) []byte {
	n := len(payload)
	if size == 2 {
		return append([]byte{byte(n >> 8), byte(n)}, payload...)
	}
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
}

// next reads one frame; io.EOF = closed at a frame border.
func (f *framer) next() ([]byte, error) {
	_ = f.SetReadDeadline(time.Now().Add(patience))
	b, err := f.r.octets(1)
	if err != nil {
		if len(b) == 0 && errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return nil, err
	}
	rest, err := f.r.octets(f.size - 1)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, x := range append(b, rest...) {
		n = n<<8 | int(x)
	}
	return f.r.octets(n)
}

// call sends one frame and returns the one that answers it.
func (f *framer) call(payload []byte) []byte {
	f.t.Helper()
	if _, err := f.Write(frame(f.size, payload)); err != nil {
		f.t.Fatalf("framed write: %v", err)
	}
	b, err := f.next()
	if err != nil {
		f.t.Fatalf("framed read: %v", err)
	}
	return b
}

// quiet reports that nothing arrives for that long.
func quiet(c *client, ms int) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Duration(ms) * time.Millisecond))
	_, err := c.r.r.Peek(1)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	ne := net.Error(nil)
	return errors.As(err, &ne) && ne.Timeout()
}
