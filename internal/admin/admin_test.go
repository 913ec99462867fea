package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/memnet"
)

func metrics(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "gateway_requests_total 1") }

func TestPaths(t *testing.T) {
	down := func() []string { return []string{"draining", "listener x is not bound"} }
	plain := Options{Version: "1.2.3", Metrics: http.HandlerFunc(metrics)}
	locked := Options{Token: "s3cret", Ready: down, Metrics: http.HandlerFunc(metrics)}
	tests := []struct {
		name   string
		opt    Options
		method string
		path   string
		host   string
		auth   string
		status int
		body   string // part of it
	}{
		{"front", plain, "GET", "/", "127.0.0.1:8081", "", 200, "<title>Soapway</title>"},
		{"front without metrics", Options{}, "GET", "/", "127.0.0.1", "", 200, `<script type="module" src="/ui/app.js">`},
		{"health", plain, "GET", "/healthz", "localhost:8081", "", 200, "ok\n"},
		{"health by HEAD", plain, "HEAD", "/healthz", "[::1]:8081", "", 200, ""},
		{"health on a bare IPv6 address", plain, "GET", "/healthz", "[::1]", "", 200, "ok\n"},
		{"ready", plain, "GET", "/readyz", "127.0.0.1:8081", "", 200, "ready\n"},
		{"degraded", Options{Degraded: func() []string { return []string{"the store has failed"} }}, "GET", "/readyz", "127.0.0.1:8081", "", 200, "ready\ndegraded: the store has failed\n"},
		{"not ready", Options{Ready: down}, "GET", "/readyz", "127.0.0.1:8081", "", 503, "not ready: draining\nnot ready: listener x is not bound\n"},
		{"metrics", plain, "GET", "/metrics", "127.0.0.1:8081", "", 200, "gateway_requests_total 1"},
		{"no metrics", Options{}, "GET", "/metrics", "127.0.0.1:8081", "", 404, `"status":404`},
		{"profiles", plain, "GET", "/debug/pprof/", "127.0.0.1:8081", "", 200, "goroutine"},
		{"one profile", plain, "GET", "/debug/pprof/goroutine?debug=1", "127.0.0.1:8081", "", 200, "goroutine profile"},
		{"memory given back", plain, "GET", "/debug/pprof/heap?free=1&debug=1", "127.0.0.1:8081", "", 200, "heap profile"},
		{"profiles without slash", plain, "GET", "/debug/pprof", "127.0.0.1:8081", "", 301, ""},
		{"arguments are not shown", plain, "GET", "/debug/pprof/cmdline", "127.0.0.1:8081", "", 404, ""},
		{"endless profile", plain, "GET", "/debug/pprof/profile?seconds=86400", "127.0.0.1:8081", "", 400, "at most 300"},
		{"endless difference", plain, "GET", "/debug/pprof/heap?seconds=1e9", "127.0.0.1:8081", "", 400, "at most 300"},
		{"endless trace", plain, "GET", "/debug/pprof/trace?seconds=NaN", "127.0.0.1:8081", "", 400, "at most 300"},
		{"unknown path", plain, "GET", "/etc/passwd", "127.0.0.1:8081", "", 404, "nothing at this path"},
		{"wrong method", plain, "POST", "/healthz", "127.0.0.1:8081", "", 405, "only GET and HEAD"},
		{"rebound name", plain, "GET", "/metrics", "evil.example:8081", "", 421, "IP address"},
		{"no host", plain, "GET", "/metrics", "", "", 421, "IP address"},
		{"name with a token", locked, "GET", "/metrics", "gw.example", "Bearer s3cret", 200, "gateway_requests_total"},
		{"scheme in any case", locked, "GET", "/metrics", "gw.example", "bearer s3cret", 200, ""},
		{"no token", locked, "GET", "/metrics", "gw.example", "", 401, "bearer token is required"},
		{"wrong token", locked, "GET", "/metrics", "gw.example", "Bearer s3cres", 401, ""},
		{"longer token", locked, "GET", "/debug/pprof/", "gw.example", "Bearer s3cret2", 401, ""},
		{"other scheme", locked, "GET", "/metrics", "gw.example", "Basic s3cret", 401, ""},
		{"dashboard needs none, it asks for it", locked, "GET", "/", "gw.example", "", 200, "<title>Soapway</title>"},
		{"nor do its files", locked, "GET", "/ui/app.js", "gw.example", "", 200, "import"},
		{"a file that it does not have", locked, "GET", "/ui/../openapi.yaml", "gw.example", "", 401, ""},
		{"dots in the path", plain, "GET", "/debug/../metrics", "127.0.0.1", "", 404, ". and .."},
		{"path that only looks open", locked, "GET", "/healthz/../metrics", "gw.example", "", 401, ""},
		{"health needs none", locked, "GET", "/healthz", "gw.example", "", 200, "ok\n"},
		{"readiness needs none", locked, "GET", "/readyz", "gw.example", "", 503, "not ready: draining"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, nil)
			r.Host = tt.host
			if tt.auth != "" {
				r.Header.Set("Authorization", tt.auth)
			}
			w := httptest.NewRecorder()
			New(memnet.Listen(), tt.opt).http.Handler.ServeHTTP(w, r)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%s %s: got %d %q, want %d with %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.body)
			}
			if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("status %d with WWW-Authenticate %q", w.Code, w.Header().Get("WWW-Authenticate"))
			}
			if w.Code == 405 && w.Header().Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if w.Code >= 400 && w.Code != 503 {
				var doc struct{ Status int }
				if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.Status != w.Code {
					t.Errorf("not a problem document: %s", w.Body)
				}
			}
		})
	}
}

// serve runs a server in a bubble and returns its listener, the way to stop
// it, and the way to cut it.
func serve(t *testing.T, opt Options) (ln *memnet.Listener, stop, cut context.CancelFunc, done chan error) {
	t.Helper()
	ln = memnet.Listen()
	sctx, stop := context.WithCancel(t.Context())
	cctx, cut := context.WithCancel(t.Context())
	s := New(ln, opt)
	done = make(chan error, 1)
	go func() { done <- s.Run(sctx, cctx) }()
	return ln, stop, cut, done
}

func dial(t *testing.T, ln *memnet.Listener) net.Conn {
	t.Helper()
	c, err := ln.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestSlowHead: a caller that never finishes its head does not hold the
// connection.
func TestSlowHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln, stop, _, done := serve(t, Options{})
		c := dial(t, ln)
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: lo"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := io.Copy(io.Discard, c)
		if took := time.Since(began); err != nil || took > headTimeout+time.Second {
			t.Errorf("slow head: closed after %v (%v), want %v", took, err, headTimeout)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestSlowReader: a caller that does not take its answer does not hold the
// connection either.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		ln, stop, _, done := serve(t, Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(gone)
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		})})
		c := dial(t, ln)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-gone
		if took := time.Since(began); took != replyTimeout {
			t.Errorf("slow reader: given up after %v, want %v", took, replyTimeout)
		}
		stop()
		<-done
	})
}

// TestStop: a scrape under way is finished, a stop does not wait for idle
// connections, and a cut ends even what hangs.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		cut   time.Duration // after the stop
		ok    bool          // the answer arrives
	}{
		{"finishes", 3 * time.Second, 10 * time.Second, true},
		{"is cut", time.Hour, 10 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang, release := context.WithCancel(t.Context())
				ln, stop, cut, done := serve(t, Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					select {
					case <-time.After(tt.takes):
						_, _ = io.WriteString(w, "done")
					case <-hang.Done():
					}
				})})
				idle, busy := dial(t, ln), dial(t, ln)
				if _, err := io.WriteString(busy, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()

				stop()
				time.AfterFunc(tt.cut, cut)
				began := time.Now()
				resp, err := http.ReadResponse(bufio.NewReader(busy), nil)
				if (err == nil) != tt.ok {
					t.Errorf("answer: %v, want one: %v", err, tt.ok)
				}
				if err == nil {
					resp.Body.Close()
				}
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(began); took > tt.cut+time.Second {
					t.Errorf("stop took %v", took)
				}
				if _, err := io.Copy(io.Discard, idle); err != nil {
					t.Errorf("idle connection: %v", err)
				}
				release()
			})
		})
	}
}

// TestProfileEndsWithTheServer: thirty seconds of profile do not use up the
// drain budget.
func TestProfileEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln, stop, _, done := serve(t, Options{})
		c := dial(t, ln)
		if _, err := io.WriteString(c, "GET /debug/pprof/heap?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
		synctest.Wait()
		began := time.Now()
		stop()
		if err := <-done; err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("Run ended after %v with %v, want at once", time.Since(began), err)
		}
	})
}

func TestListenerFails(t *testing.T) {
	ln := memnet.Listen()
	s := New(ln, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), t.Context()); err == nil {
		t.Error("Run on a closed listener: got no error")
	}
}
