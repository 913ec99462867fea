package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"soapway/proxy"
)

// While all connections are in use a message waits QueueWait for one, not as
// long as it may take to connect.
func TestHTTPQueueWait(t *testing.T) {
	noLeaks(t)
	asked, release := make(chan bool), make(chan bool)
	addr := node(t, func(p *peer) {
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			asked <- true
			<-release
			p.send(okReply)
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, MaxConnections: 1, QueueWait: 150 * time.Millisecond, ConnectTimeout: 20 * time.Second})
	send := func(result chan<- error) {
		resp, err := n.Send(context.Background(), request("x"))
		if err == nil {
			body(t, resp)
		}
		result <- err
	}
	first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go send(first)
	await(t, asked, "first request")
	began := time.Now()
	send(second)
	if e := sendError(t, <-second); e.Class != proxy.NotSent || !errors.Is(e, proxy.ErrNoConnection) {
		t.Errorf("got %+v", e)
	}
	if d := time.Since(began); d < 140*time.Millisecond || d > 10*time.Second {
		t.Errorf("waited %s", d)
	}
	go send(third) // one that gets free in time
	release <- true
	if err := await(t, first, "first answer"); err != nil {
		t.Error(err)
	}
	await(t, asked, "third request")
	release <- true
	if err := await(t, third, "third answer"); err != nil {
		t.Error(err)
	}
}

// lateListener lets its peers wait before it reads their first octet.
type lateListener struct {
	net.Listener
	late time.Duration
}

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &lateConn{Conn: c, late: l.late}, err
}

type lateConn struct {
	net.Conn
	late time.Duration
	once sync.Once
}

func (c *lateConn) Read(p []byte) (int, error) {
	c.once.Do(func() { <-time.After(c.late) })
	return c.Conn.Read(p)
}

// A connection that is being made has the time of ConnectTimeout.
func TestHTTPQueueWaitIsNotForConnecting(t *testing.T) {
	noLeaks(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	s.Listener = lateListener{s.Listener, 200 * time.Millisecond}
	s.StartTLS()
	t.Cleanup(s.Close)
	n := newHTTP(t, HTTPOptions{URL: s.URL, QueueWait: 20 * time.Millisecond, TLS: &tls.Config{InsecureSkipVerify: true}})
	resp, err := n.Send(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp); got != "ok" {
		t.Errorf("got %q", got)
	}
}
