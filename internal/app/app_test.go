package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"soapway/config"
	"soapway/internal/telemetry"
)

const (
	envelope = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><hello xmlns="urn:x"/></s:Body></s:Envelope>`
	patience = 20 * time.Second

	head = `
admin: {address: "127.0.0.1:0"}
listeners:
  - {name: web, address: "127.0.0.1:0"}
  - {name: plant, address: "127.0.0.1:0", protocol: framed, length: 4}
`
	echo = head + `
routes:
  - {name: echo, to: ["builtin:echo"]}
`
)

// A gateway is an App that runs for one test.
type gateway struct {
	t    *testing.T
	app  *App
	file string
	log  *lockedBuffer
	stop context.CancelFunc
	done chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func write(t *testing.T, file, yaml string) {
	t.Helper()
	// By rename, so that a watcher never sees half of it.
	tmp := file + ".new"
	if err := os.WriteFile(tmp, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
}

// start runs a gateway until the end of the test, or until its end is called,
// and then checks that no goroutine of it is left.
func start(t *testing.T, yaml string) *gateway {
	t.Helper()
	before := runtime.NumGoroutine()
	g := &gateway{t: t, file: filepath.Join(t.TempDir(), "gateway.yaml"), log: &lockedBuffer{}, done: make(chan error, 1)}
	write(t, g.file, yaml)
	load := func() (*config.Config, error) { return config.Load(g.file, config.Options{}) }
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	isReady := make(chan struct{})
	g.app, err = New(cfg, Options{Log: telemetry.NewLog(g.log), Load: load, Ready: func() { close(isReady) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go func() { g.done <- g.app.Run(ctx) }()
	<-isReady
	t.Cleanup(func() {
		g.end()
		http.DefaultClient.CloseIdleConnections()
		for deadline := time.After(patience); runtime.NumGoroutine() > before; {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
	return g
}

// end stops the gateway and waits for it.
func (g *gateway) end() {
	g.stop()
	select {
	case err, first := <-g.done:
		if err != nil {
			g.t.Errorf("Run: %v", err)
		}
		if first {
			close(g.done)
		}
	case <-time.After(patience):
		g.t.Fatalf("Run has not returned; log:\n%s", g.log)
	}
}

func (g *gateway) addr(name string) string {
	g.t.Helper()
	for _, l := range g.app.Listeners() {
		if l.Name == name {
			return l.Address
		}
	}
	g.t.Fatalf("no listener %s", name)
	return ""
}

// post sends the envelope over client and returns status and body.
func (g *gateway) post(client *http.Client, path string) (int, string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+g.addr("web")+path, strings.NewReader(envelope))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(body)
}

func (g *gateway) admin(path string) (int, string) {
	g.t.Helper()
	resp, err := http.Get("http://" + g.app.Admin() + path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (g *gateway) metric(line string) bool {
	_, body := g.admin("/metrics")
	return strings.Contains(body, "\n"+line+"\n")
}

func (g *gateway) eventually(what string, ok func() bool) {
	g.t.Helper()
	for deadline := time.After(patience); !ok(); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			g.t.Fatalf("%s did not come; log:\n%s", what, g.log)
		}
	}
}

// A backend is a server that answers with an envelope that names it, holds
// exchanges while it is told to, and counts connections.
type backend struct {
	*httptest.Server
	opened, closed atomic.Int64
	arrived        chan struct{}
	hold           chan struct{} // nil: answer at once
}

func newBackend(t *testing.T, name string, hold chan struct{}) *backend {
	b := &backend{arrived: make(chan struct{}, 100), hold: hold}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		b.arrived <- struct{}{}
		if b.hold != nil {
			select {
			case <-b.hold:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, strings.Replace(envelope, "hello", name, 1))
	}))
	b.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			b.opened.Add(1)
		case http.StateClosed:
			b.closed.Add(1)
		}
	}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// oneConnection is a client that fails the test when it has to dial twice.
func oneConnection(t *testing.T) (*http.Client, *atomic.Int64) {
	dials := &atomic.Int64{}
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, dials
}

func TestServe(t *testing.T) {
	g := start(t, echo)
	if got := g.app.Listeners(); len(got) != 2 || got[0].Protocol != "http" || got[1].Protocol != "framed" {
		t.Errorf("Listeners: got %v", got)
	}
	client, _ := oneConnection(t)
	if status, body := g.post(client, "/any"); status != 200 || body != envelope {
		t.Errorf("over http: got %d %q", status, body)
	}

	c, err := net.Dial("tcp", g.addr("plant"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "\x00\x00\x00%c%s", len(envelope), envelope); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 4+len(envelope))
	if _, err := io.ReadFull(c, reply); err != nil || string(reply[4:]) != envelope {
		t.Errorf("framed: got %q, %v", reply, err)
	}

	if status, body := g.admin("/readyz"); status != 200 || body != "ready\n" {
		t.Errorf("/readyz: got %d %q", status, body)
	}
	g.eventually("the request's metric", func() bool {
		return g.metric(`gateway_requests_total{operation="",outcome="answered",route="echo"} 2`)
	})
}

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
	yaml := func(url string) string { return head + fmt.Sprintf("routes:\n  - {name: r, to: [%q]}\n", url) }
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
		client, dials := oneConnection(t)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					if n := dials.Load(); n != 1 {
						t.Errorf("a caller had to dial %d times, want 1", n)
					}
					return
				default:
				}
				if status, body := g.post(client, "/"); status != 200 {
					t.Errorf("got %d %q", status, body)
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

// TestDrain: a stop lets the exchange under way finish, takes no new
// connection, and answers probes with 503 meanwhile.
func TestDrain(t *testing.T) {
	hold := make(chan struct{})
	slow := newBackend(t, "slow", hold)
	g := start(t, head+fmt.Sprintf("routes:\n  - {name: slow, to: [%q]}\n", slow.URL))
	client, _ := oneConnection(t)
	got := make(chan int)
	go func() {
		status, _ := g.post(client, "/")
		got <- status
	}()
	<-slow.arrived
	g.stop()
	g.eventually("503 of /readyz", func() bool {
		status, body := g.admin("/readyz")
		return status == 503 && body == "not ready: draining\n"
	})
	g.eventually("refusal of new connections", func() bool {
		c, err := net.Dial("tcp", g.addr("web"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if err := g.app.Reload(); !errors.Is(err, ErrStopping) {
		t.Errorf("Reload during the drain: got %v, want %v", err, ErrStopping)
	}
	close(hold)
	if status := <-got; status != 200 {
		t.Errorf("the exchange under way: got %d", status)
	}
	g.end()
}

// TestDrainEnds: what does not end in time is cut, by the budget, by the
// budget of a reload, or by a second signal.
func TestDrainEnds(t *testing.T) {
	for _, tt := range []struct {
		name, drain, reload string
		cut                 bool
	}{
		{"budget", "100ms", "", false},
		{"budget of a reload", "1h", "100ms", false},
		{"cut", "1h", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			slow := newBackend(t, "slow", make(chan struct{}))
			yaml := head + fmt.Sprintf("routes:\n  - {name: slow, to: [%q]}\n", slow.URL)
			g := start(t, yaml+"drain: "+tt.drain+"\n")
			if tt.reload != "" {
				write(t, g.file, yaml+"drain: "+tt.reload+"\n")
				if err := g.app.Reload(); err != nil {
					t.Fatal(err)
				}
			}
			web, err := net.Dial("tcp", g.addr("web"))
			if err != nil {
				t.Fatal(err)
			}
			defer web.Close()
			fmt.Fprintf(web, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", len(envelope), envelope)
			plant, err := net.Dial("tcp", g.addr("plant"))
			if err != nil {
				t.Fatal(err)
			}
			defer plant.Close()
			fmt.Fprintf(plant, "\x00\x00\x00%c%s", len(envelope), envelope)
			<-slow.arrived
			<-slow.arrived

			g.stop()
			if tt.cut {
				g.app.Cut()
			}
			g.end()
			if resp, err := http.ReadResponse(bufio.NewReader(web), nil); err == nil {
				resp.Body.Close()
				if resp.StatusCode < 500 {
					t.Errorf("http: got %d, want the end of the connection or a failure", resp.StatusCode)
				}
			}
			if reply, err := io.ReadAll(plant); err == nil && bytes.Contains(reply, []byte("<slow ")) {
				t.Errorf("framed: got %q", reply)
			}
		})
	}
}

func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	for _, tt := range []struct{ name, yaml, key string }{
		{"listener", strings.Replace(echo, `web, address: "127.0.0.1:0"`, `web, address: "`+addr+`"`, 1), "listeners.web.address"},
		{"admin", strings.Replace(echo, `admin: {address: "127.0.0.1:0"}`, `admin: {address: "`+addr+`"}`, 1), "admin.address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gateway.yaml")
			write(t, file, tt.yaml)
			cfg, err := config.Load(file, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			_, err = New(cfg, Options{})
			problems, ok := errors.AsType[config.Problems](err)
			if !ok || len(problems) != 1 {
				t.Fatalf("New: got %v, want one problem", err)
			}
			p := problems[0]
			if p.Key != tt.key || p.Line == 0 || !strings.Contains(p.Message, "in use") || p.Hint == "" {
				t.Errorf("New: got %+v, want a place, a reason and a hint for %s", p, tt.key)
			}
			if n := runtime.NumGoroutine(); n > before {
				t.Errorf("%d goroutines, %d before", n, before)
			}
		})
	}
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
