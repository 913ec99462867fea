package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/memnet"
)

// inBubble runs a server over pipes, whose writes wait for their reader, on a
// fake clock. dial connects to it.
func inBubble(t *testing.T, opt Options, h Handler, test func(t *testing.T, s *Server, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := mustServer(opt, h)
		pipes := memnet.Listen()
		done := make(chan error)
		go func() { done <- s.Serve(pipes) }()
		defer func() { // also where the test ends itself
			pipes.Close()
			<-done
			s.Close(errors.New("over"))
		}()
		test(t, s, func() net.Conn {
			c, err := pipes.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return c
		})
	})
}

// ends waits until the peer closes and checks that this comes when it should: a
// deadline may be 1/32 early.
func ends(t *testing.T, c net.Conn, begun time.Time, limit time.Duration) {
	t.Helper()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v, want a close", b, err)
	}
	if d := time.Since(begun); d < limit-slack(limit) || d > limit {
		t.Errorf("closed after %v, want %v", d, limit)
	}
}

// ask sends a request and reads its answer.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	send(t, c, get)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("got %v, %v, want 200", resp, err)
	}
}

func TestTimes(t *testing.T) {
	opt := Options{HeaderTimeout: 10 * time.Second, BodyTimeout: 30 * time.Second, IdleTimeout: 60 * time.Second}
	inBubble(t, opt, handlerFunc(echo), func(t *testing.T, s *Server, dial func() net.Conn) {
		begun := time.Now()
		ends(t, dial(), begun, opt.HeaderTimeout) // says nothing

		c := dial() // an octet each second: the head has one deadline
		begun = time.Now()
		slow := c
		go func() {
			for _, o := range []byte("POST / HTTP/1.1\r\nHost: h") {
				if _, err := slow.Write([]byte{o}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		ends(t, c, begun, opt.HeaderTimeout)

		c = dial() // idle, several times for a while, then for good
		for range 3 {
			ask(t, c)
			time.Sleep(opt.IdleTimeout - 5*time.Second)
		}
		ask(t, c)
		begun = time.Now()
		ends(t, c, begun, opt.IdleTimeout)

		c = dial() // a later head that does not come to its end
		ask(t, c)
		time.Sleep(20 * time.Second)
		begun = time.Now()
		send(t, c, "GET / HT")
		ends(t, c, begun, opt.HeaderTimeout)

		c = dial() // a slow body passes
		send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
		for range 10 {
			time.Sleep(opt.BodyTimeout - 2*time.Second)
			send(t, c, "x")
		}
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("slow body: got %v, %v", resp, err)
		}
		c.Close()
	})
}

// A handler may take as long as it likes, whatever deadlines were set before.
func TestSlowHandler(t *testing.T) {
	h := func(ctx context.Context, r *Request, w *Response) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-ctx.Done():
			w.Status = 500
		case <-time.After(time.Hour):
			w.Status = 200
		}
	}
	inBubble(t, Options{}, handlerFunc(h), func(t *testing.T, s *Server, dial func() net.Conn) {
		c := dial()
		ask(t, c)
		ask(t, c)
		c.Close()
	})
}

// A silent connection has no buffer.
func TestParked(t *testing.T) {
	inBubble(t, Options{}, handlerFunc(echo), func(t *testing.T, s *Server, dial func() net.Conn) {
		fresh, used := dial(), dial()
		ask(t, used)
		time.Sleep(2 * parkAfter)
		synctest.Wait()
		s.conns.Each(func(c *conn) {
			if c.in.buf != nil {
				t.Error("a silent connection has a buffer")
			}
		})
		ask(t, used)
		ask(t, fresh)
		send(t, used, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
		go io.WriteString(used, strings.Repeat("x", 100000))
		resp, err := http.ReadResponse(bufio.NewReader(used), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); len(b) != 100000 || err != nil {
			t.Errorf("got %d octets, %v", len(b), err)
		}
		used.Close()
		fresh.Close()
	})
}

// Who does not read its answer keeps the connection no longer than one write
// may take.
func TestNeverReads(t *testing.T) {
	h := &doneOnce{handlerFunc: func(_ context.Context, _ *Request, w *Response) {
		w.Status, w.Body, w.Length = 200, strings.NewReader(strings.Repeat("x", 2*bufSize)), 2*bufSize
	}}
	inBubble(t, Options{BodyTimeout: 30 * time.Second}, h, func(t *testing.T, s *Server, dial func() net.Conn) {
		h.cut = make(chan error, 1) // of the bubble
		c := dial()
		begun := time.Now()
		send(t, c, get)
		if err := <-h.cut; !errors.Is(err, errCut) {
			t.Errorf("Done: got %v, want %v", err, errCut)
		}
		if d := time.Since(begun); d != 30*time.Second {
			t.Errorf("after %v, want 30s", d)
		}
		c.Close()
	})
}

// Shutdown ends what is silent at once and what is under way with its answer.
func TestShutdown(t *testing.T) {
	var release chan bool
	h := func(ctx context.Context, r *Request, w *Response) {
		if r.Method == "POST" {
			<-release
		}
		w.Status = 200
	}
	inBubble(t, Options{}, handlerFunc(h), func(t *testing.T, s *Server, dial func() net.Conn) {
		release = make(chan bool)
		fresh, idle, busy := dial(), dial(), dial()
		ask(t, idle)
		go io.WriteString(busy, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"+get)
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		for _, c := range []net.Conn{fresh, idle} {
			if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
				t.Errorf("got %q, %v, want a close", b, err)
			}
		}
		synctest.Wait()
		select {
		case err := <-down:
			t.Errorf("Shutdown: got %v while an exchange is under way", err)
		default:
		}
		close(release)
		resp, err := http.ReadResponse(bufio.NewReader(busy), nil)
		if err != nil || resp.StatusCode != 200 || !resp.Close {
			t.Errorf("got %v, %v, want 200 and a close", resp, err)
		}
		busy.Close()
		if err := <-down; err != nil {
			t.Errorf("Shutdown: got %v, want nil", err)
		}
	})
}

// Close tells exchanges why, and does not wait for peers.
func TestClose(t *testing.T) {
	reason := errors.New("enough")
	var cause chan error
	h := func(ctx context.Context, r *Request, w *Response) {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		w.Status = 200
	}
	inBubble(t, Options{}, handlerFunc(h), func(t *testing.T, s *Server, dial func() net.Conn) {
		cause = make(chan error, 1)
		c := dial()
		send(t, c, get)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err == nil {
			t.Error("Shutdown: got nil while an exchange is under way")
		}
		s.Close(reason)
		if err := <-cause; err != reason {
			t.Errorf("cause: got %v, want %v", err, reason)
		}
		c.Close()
	})
}
