package app

import (
	"bufio"
	"bytes"
	"context"
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
	t    testing.TB
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

func write(t testing.TB, file, yaml string) {
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
func start(t testing.TB, yaml string) *gateway {
	t.Helper()
	before := runtime.NumGoroutine()
	g := launch(t, yaml)
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

// launch runs a gateway until its end is called.
func launch(t testing.TB, yaml string) *gateway {
	t.Helper()
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
