package upstream

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"soapway/proxy"
)

// A node that knows a connection by what was proved on it (NTLM) must not take the
// next caller for that one.
func TestHTTPProvenConnection(t *testing.T) {
	for authorization, shared := range map[string]bool{
		"": true, "Basic bWU6aXQ=": true, "Bearer ntlm": true, "NTLMx y": true,
		"NTLM TlRMTVNTUAAD": false, "ntlm TlRMTVNTUAAD": false, "Negotiate YIIZ": false, " negotiate YIIZ": false, "NTLM": false,
	} {
		for _, answer := range []string{okReply, "HTTP/1.1 204 No Content\r\n\r\n"} {
			t.Run(authorization, func(t *testing.T) {
				noLeaks(t)
				var conns atomic.Int64
				addr := node(t, func(p *peer) {
					conns.Add(1)
					for r, _ := p.request(); r != nil; r, _ = p.request() {
						p.send(answer)
					}
				})
				n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
				for _, value := range []string{"", authorization, "", ""} {
					req := request("<x/>")
					if value != "" {
						req.Header.Set("Authorization", value)
					}
					resp, err := n.Send(t.Context(), req)
					if err != nil {
						t.Fatal(err)
					}
					body(t, resp)
				}
				want := int64(2)
				if shared {
					want = 1
				}
				if got := conns.Load(); got != want {
					t.Errorf("connections: got %d, want %d", got, want)
				}
			})
		}
	}
}

// A node that asks for a proof in three steps on one connection: who proves it on
// his own connection to us has his own to the node from then on, for as long as his
// is open, and nobody else ever gets that one.
func TestHTTPBoundConnection(t *testing.T) {
	noLeaks(t)
	var conns atomic.Int64
	closed := make(chan string, 8)
	addr := node(t, func(p *peer) {
		number, user := conns.Add(1), ""
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			what := r.Header.Get("Authorization")
			switch {
			case strings.HasPrefix(what, "NTLM 1"):
				p.send(fmt.Sprintf("HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM %d\r\nContent-Length: 4\r\n\r\ntext", number))
			case what == fmt.Sprintf("NTLM 3 %d", number):
				user = r.Header.Get("X-User")
				fallthrough
			case user != "":
				p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(user), user))
			default:
				p.send("HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM\r\nContent-Length: 4\r\n\r\ntext")
			}
		}
		if user != "" {
			closed <- user
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, IdleTimeout: time.Hour})
	send := func(k *proxy.CallerConn, user, authorization string) (status int, text, challenge string) {
		t.Helper()
		req := request("<x/>")
		req.Caller = k
		req.Header.Set("X-User", user)
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := n.Send(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Status == 401 { // its text is not wanted
			resp.Body.Close()
			return 401, "", resp.Header.Get("Www-Authenticate")
		}
		return resp.Status, body(t, resp), ""
	}
	callers := map[string]*proxy.CallerConn{"ann": new(proxy.CallerConn), "bob": new(proxy.CallerConn)}
	challenges := map[string]string{}
	for user, k := range callers { // interleaved: both begin before either ends
		status, _, challenge := send(k, user, "NTLM 1")
		if challenges[user] = strings.TrimPrefix(challenge, "NTLM "); status != 401 {
			t.Fatalf("%s: %d", user, status)
		}
	}
	if status, _, _ := send(nil, "eve", ""); status != 401 {
		t.Errorf("somebody else got %d in the middle", status)
	}
	for user, k := range callers {
		if status, text, _ := send(k, user, "NTLM 3 "+challenges[user]); status != 200 || text != user {
			t.Errorf("%s: proved, and got %d %q", user, status, text)
		}
	}
	for range 10 {
		for user, k := range callers {
			if status, text, _ := send(k, user, ""); status != 200 || text != user {
				t.Errorf("%s: got %d %q", user, status, text)
			}
		}
		if status, text, _ := send(new(proxy.CallerConn), "eve", ""); status != 401 {
			t.Errorf("a caller who proved nothing got %d %q", status, text)
		}
	}
	callers["ann"].Close()
	if user := await(t, closed, "the end of her connection"); user != "ann" {
		t.Errorf("the connection of %q was closed", user)
	}
	if status, _, _ := send(callers["ann"], "ann", ""); status != 401 {
		t.Errorf("after her connection had ended: %d", status)
	}
	if status, text, _ := send(callers["bob"], "bob", ""); status != 200 || text != "bob" {
		t.Errorf("bob: got %d %q", status, text)
	}
	n.Close()
	callers["bob"].Close()
	wantNone(t, n.pool.budget, n)
}

// A caller's connection that the node has closed is replaced by one that proves
// nothing, and one that is idle for long gives its place away when it is needed.
func TestHTTPBoundConnectionEnds(t *testing.T) {
	noLeaks(t)
	var conns atomic.Int64
	drop := make(chan bool)
	addr := node(t, func(p *peer) {
		conns.Add(1)
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			p.send(okReply)
			if r.Header.Get("X-Close") != "" {
				<-drop
				return
			}
		}
	})
	n := newHTTP(t, HTTPOptions{URL: "http://" + addr, MaxConnections: 1, QueueWait: 20 * time.Millisecond, IdleTimeout: 300 * time.Millisecond})
	send := func(k *proxy.CallerConn, fields ...string) error {
		req := request("<x/>")
		req.Caller = k
		for i := 0; i < len(fields); i += 2 {
			req.Header.Set(fields[i], fields[i+1])
		}
		resp, err := n.Send(t.Context(), req)
		if err == nil {
			body(t, resp)
		}
		return err
	}
	var ann proxy.CallerConn
	if err := send(&ann, "Authorization", "Negotiate abc", "X-Close", "1"); err != nil {
		t.Fatal(err)
	}
	drop <- true
	until(t, "the node's close", func() bool { n.pool.ownMu.Lock(); defer n.pool.ownMu.Unlock(); return n.pool.own[0].stale() })
	if err := send(&ann, "Authorization", "Negotiate abc"); err != nil || conns.Load() != 2 {
		t.Errorf("after the node's close: %v, %d connections", err, conns.Load())
	}
	if err := send(nil); !errors.Is(err, proxy.ErrNoConnection) {
		t.Errorf("while the only connection is hers: %v", err)
	}
	until(t, "room by her being idle", func() bool { return send(nil) == nil })
	if conns.Load() != 3 {
		t.Errorf("%d connections, want a third one", conns.Load())
	}
	ann.Close()
	n.Close()
	wantNone(t, n.pool.budget, n)
}
