package app

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"soapway/config"
)

// TestReloadKeepsConnections: neither the caller's connection nor that to an
// unchanged backend is dropped, and the new routes hold.
func TestReloadKeepsConnections(t *testing.T) {
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	yaml := func(path string) string {
		return head + fmt.Sprintf(`
backends:
  a: {nodes: [%q], idle_timeout: 1h}
routes:
  - {name: a, match: {path: /a}, backend: a}
  - {name: b, match: {path: %s}, to: [%q]}
`, a.URL, path, b.URL)
	}
	g := start(t, yaml("/b"))
	client, dials := oneConnection(t)
	for _, step := range []struct {
		yaml, path, body string
		status           int
	}{
		{"", "/a", "<a ", 200},
		{"", "/b", "<b ", 200},
		{yaml("/c"), "/b", "", 404},
		{"", "/c", "<b ", 200},
		{"", "/a", "<a ", 200},
		{yaml("/b"), "/b", "<b ", 200},
		{"", "/a", "<a ", 200},
	} {
		if step.yaml != "" {
			write(t, g.file, step.yaml)
			if err := g.app.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		if status, body := g.post(client, step.path); status != step.status || !strings.Contains(body, step.body) {
			t.Errorf("%s: got %d %q, want %d with %q", step.path, status, body, step.status, step.body)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("the caller had to dial %d times, want 1", n)
	}
	if n := a.opened.Load(); n != 1 {
		t.Errorf("backend a saw %d connections, want 1", n)
	}
}

// TestReloadAllOrNothing: what is wrong leaves everything as it was, says so,
// and does not get in the way of the next reload.
func TestReloadAllOrNothing(t *testing.T) {
	g := start(t, echo)
	client, _ := oneConnection(t)
	bad := []struct {
		name, yaml, want string
	}{
		{"not YAML", "routes: [", ""},
		{"unknown key", echo + "drian: 1s\n", "drian"},
		{"bad in one of two", strings.Replace(echo, "routes:", "routes:\n  - {name: new, match: {path: /new}, to: [\"builtin:echo\"]}\n  - {name: bad, match: {path: nowhere}, to: [\"builtin:echo\"]}", 1), "bad"},
		{"listener", strings.Replace(echo, "length: 4", "length: 2", 1), "listeners"},
		{"head", echo + "limits: {header_bytes: 1MiB}\n", "limits.header_bytes"},
		{"admin", strings.Replace(echo, `admin: {address: "127.0.0.1:0"}`, `admin: {address: "127.0.0.2:0"}`, 1), "admin"},
	}
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			write(t, g.file, tt.yaml)
			err := g.app.Reload()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Reload: got %v, want an error with %q", err, tt.want)
			}
			if status, body := g.post(client, "/"); status != 200 || body != envelope {
				t.Errorf("after it: got %d %q", status, body)
			}
			if status, _ := g.admin("/readyz"); status != 200 {
				t.Errorf("/readyz after it: got %d", status)
			}
			if !g.metric("gateway_config_reload_ok 0") {
				t.Error("gateway_config_reload_ok is not 0")
			}
			if !strings.Contains(g.log.String(), "reload refused") {
				t.Errorf("nothing in the log:\n%s", g.log)
			}
		})
	}
	if _, ok := errors.AsType[*RestartError](g.app.Reload()); !ok {
		t.Error("a changed admin address did not give a RestartError")
	}
	write(t, g.file, strings.Replace(echo, "name: echo", "name: echo2", 1))
	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	if !g.metric("gateway_config_reload_ok 1") {
		t.Error("gateway_config_reload_ok is not 1 after a good reload")
	}
}

// TestReloadLimits: limits are no part of a listener, so a reload changes them.
func TestReloadLimits(t *testing.T) {
	framed := func(g *gateway, n int) int {
		c, err := net.Dial("tcp", g.addr("plant"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		message := strings.Replace(envelope, "/>", "/>"+strings.Repeat(" ", n-len(envelope)), 1)
		_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(n)), message...))
		reply, _ := io.ReadAll(io.LimitReader(c, int64(4+n)))
		return len(reply)
	}
	head := func(g *gateway, n int) int {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+g.addr("web"), strings.NewReader(envelope))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/xml")
		req.Header.Set("X-Large", strings.Repeat("x", n))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	g := start(t, echo+"limits: {max_message: 1kB, header_bytes: 4kB}\n")
	if n := framed(g, 1500); n != 0 {
		t.Errorf("1500 octets framed: %d came back, want the connection closed", n)
	}
	if status := head(g, 5000); status != 431 {
		t.Errorf("a head of 5000 octets: got %d, want 431", status)
	}
	write(t, g.file, echo+"limits: {max_message: 2kB, header_bytes: 100kB}\n")
	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	if n := framed(g, 1500); n != 4+1500 {
		t.Errorf("1500 octets framed after the reload: %d came back, want all", n)
	}
	if status := head(g, 90000); status != 200 {
		t.Errorf("a head of 90000 octets after the reload: got %d, want 200", status)
	}
}

// TestReloadDuringExchange: an exchange under way ends with the backend that
// it began with, although that is gone from the configuration; only then its
// connections are closed.
func TestReloadDuringExchange(t *testing.T) {
	hold := make(chan struct{})
	slow := newBackend(t, "slow", hold)
	g := start(t, head+fmt.Sprintf("routes:\n  - {name: slow, to: [%q]}\n", slow.URL))
	client, _ := oneConnection(t)
	type result struct {
		status int
		body   string
	}
	got := make(chan result)
	go func() {
		status, body := g.post(client, "/")
		got <- result{status, body}
	}()
	<-slow.arrived

	write(t, g.file, echo)
	for range 3 { // later generations wait for earlier ones
		if err := g.app.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	other, _ := oneConnection(t)
	if status, body := g.post(other, "/"); status != 200 || body != envelope {
		t.Errorf("a new exchange: got %d %q, want the echo", status, body)
	}
	if n := slow.closed.Load(); n != 0 {
		t.Errorf("%d connections to the backend were closed under the exchange", n)
	}
	close(hold)
	if r := <-got; r.status != 200 || !strings.Contains(r.body, "<slow ") {
		t.Errorf("the exchange under way: got %d %q", r.status, r.body)
	}
	g.eventually("the close of the removed backend's connection", func() bool { return slow.closed.Load() == 1 })
}

// TestReloadUnderLoad: no exchange fails while backends come and go.
func TestReloadUnderLoad(t *testing.T) {
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	// queue_wait: on a busy machine a connection may take longer than usual.
	yaml := func(url string) string {
		return head + fmt.Sprintf("backends:\n  b: {nodes: [%q], queue_wait: 5s}\nroutes:\n  - {name: r, backend: b}\n", url)
	}
	g := start(t, yaml(a.URL))
	var wg sync.WaitGroup
	var answered atomic.Int64
	stop := make(chan struct{})
	for _, backend := range []*backend{a, b} {
		go func() { // lets the backend answer any number of times
			for {
				select {
				case <-backend.arrived:
				case <-stop:
					return
				}
			}
		}()
	}
	for range 4 {
		// A socket of its own: http.Transport gives connections up by itself on a
		// busy machine.
		c, err := net.Dial("tcp", g.addr("web"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wg.Go(func() {
			r := bufio.NewReader(c)
			for {
				select {
				case <-stop:
					return
				default:
				}
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: gw\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", len(envelope), envelope)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("the connection is gone: %v", err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 200 || err != nil || resp.Close {
					t.Errorf("got %d %q %v, close %v", resp.StatusCode, body, err, resp.Close)
					return
				}
				answered.Add(1)
			}
		})
	}
	for i := range 40 {
		write(t, g.file, yaml([]string{a.URL, b.URL}[i%2]))
		if err := g.app.Reload(); err != nil {
			t.Error(err)
		}
		n := answered.Load()
		g.eventually("an answer", func() bool { return answered.Load() > n })
	}
	close(stop)
	wg.Wait()
	g.eventually("the close of the other's connections", func() bool { return a.opened.Load() == a.closed.Load() })
	if b.opened.Load() == 0 {
		t.Error("backend b saw nothing")
	}
}

// TestWatch: saving the file is enough.
func TestWatch(t *testing.T) {
	g := start(t, echo)
	client, _ := oneConnection(t)
	write(t, g.file, strings.Replace(echo, "{name: echo,", "{name: echo, match: {path: /moved},", 1))
	g.eventually("the new route", func() bool {
		status, _ := g.post(client, "/old")
		return status == 404
	})
	if status, _ := g.post(client, "/moved"); status != 200 {
		t.Errorf("/moved: got %d", status)
	}
	write(t, g.file, "listeners: []\n")
	g.eventually("the refusal", func() bool { return g.metric("gateway_config_reload_ok 0") })
	write(t, g.file, echo)
	g.eventually("the recovery", func() bool { return g.metric("gateway_config_reload_ok 1") })
}

func TestReloadWithoutSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, echo)
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(); !errors.Is(err, ErrNoSource) {
		t.Errorf("Reload: got %v, want %v", err, ErrNoSource)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}
