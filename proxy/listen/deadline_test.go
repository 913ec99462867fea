package listen

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/memnet"
	"soapway/proxy"
)

// inBubble runs an HTTP listener over pipes, whose writes wait for their
// reader, on a fake clock. dial connects to it.
func inBubble(t *testing.T, opt HTTPOptions, srv serverFunc, test func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opt.Address = "memnet"
		l, err := NewHTTP(opt, srv)
		if err != nil {
			t.Fatal(err)
		}
		pipes := memnet.Listen()
		l.use(newBounded(pipes, l.opt.MaxConnections))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		test(t, func() net.Conn {
			c, err := pipes.Dial(ctx, "", "")
			if err != nil {
				t.Fatal(err)
			}
			return c
		})
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

// TestHTTPBackendSlowerThanBodyIdle: the deadline of the last read of a body
// says nothing about how long the answer may take.
func TestHTTPBackendSlowerThanBodyIdle(t *testing.T) { onBoth(t, testHTTPBackendSlowerThanBodyIdle) }

func testHTTPBackendSlowerThanBodyIdle(t *testing.T, engine Engine) {
	slow := func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		io.Copy(io.Discard, ex.Body)
		select {
		case <-ctx.Done():
			return textReply(500, "cut")
		case <-time.After(10 * time.Minute):
			return textReply(200, "ok")
		}
	}
	for body, field := range map[string]string{"abc": "Content-Length: 3", "3\r\nabc\r\n0\r\n\r\n": "Transfer-Encoding: chunked"} {
		inBubble(t, HTTPOptions{Engine: engine}, slow, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			for range 2 {
				io.WriteString(c, post(body, field))
				got := make([]byte, len("HTTP/1.1 200"))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != "HTTP/1.1 200" {
					t.Fatalf("%s: got %q, %v, want 200", field, got, err)
				}
				readUntil(t, c, "\r\n\r\nok")
			}
		})
	}
}

// readUntil reads octet by octet what ends in text.
func readUntil(t *testing.T, c net.Conn, text string) {
	t.Helper()
	var got []byte
	for one := make([]byte, 1); len(got) < len(text) || string(got[len(got)-len(text):]) != text; {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatalf("got %q, %v, want it to end in %q", got, err, text)
		}
		got = append(got, one[0])
	}
}

// TestHTTPNeverReadsContinue: who asks for a 100 Continue and does not take it
// keeps its connection no longer than one who does not take an answer.
func TestHTTPNeverReadsContinue(t *testing.T) { onBoth(t, testHTTPNeverReadsContinue) }

func testHTTPNeverReadsContinue(t *testing.T, engine Engine) {
	inBubble(t, HTTPOptions{Engine: engine}, echoServer, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		io.WriteString(c, post("", "Content-Length: 3", "Expect: 100-continue"))
		synctest.Wait()
		time.Sleep(time.Hour)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(c, "abc"); err != io.ErrClosedPipe {
			t.Errorf("after an hour: got %v, want %v", err, io.ErrClosedPipe)
		}
	})
}
