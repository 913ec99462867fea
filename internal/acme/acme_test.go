package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"soapway/internal/acmelab"
)

const patience = 90 * time.Second

// logged is a logger whose text a test can read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// shows is a listener that does nothing but shake hands.
func shows(t *testing.T, m *Manager) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				_ = tls.Server(c, &tls.Config{GetCertificate: m.GetCertificate, NextProtos: []string{"http/1.1", ALPN}}).Handshake()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Wait()
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// runs runs a manager; the returned function stops it.
func runs(t *testing.T, m *Manager, at netip.AddrPort) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, at) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: got %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !ok(); {
		if time.Now().After(until) {
			t.Fatalf("%s: waited %v in vain", what, patience)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// shown is the certificate that a client of a name gets.
func shown(at netip.AddrPort, name string, roots *x509.CertPool) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", at.String(), &tls.Config{ServerName: name, RootCAs: roots, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

func roots(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	return pool
}

// Certificates are issued, for each name its own, renewed before they end, and
// still there after a restart without the authority.
func TestIssueAndRenew(t *testing.T) {
	port := acmelab.NewPort(t)
	ca := acmelab.Start(t, acmelab.Options{Life: 40 * time.Second, TLSPort: port.Number})
	log := new(logged)
	opt := Options{
		Domains: []string{"gw.test", "Second.test", "127.0.0.1"}, Dir: filepath.Join(t.TempDir(), "acme"), Email: "ops@gw.test",
		CA: ca.Directory, Roots: roots(t, ca.RootFile), Every: 500 * time.Millisecond, Log: log.logger(),
	}
	m, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Prepare(); err != nil {
		t.Fatal(err)
	}
	at := shows(t, m)
	if _, err := shown(at, "gw.test", ca.Roots); err == nil || !m.Until().IsZero() {
		t.Errorf("before Run: got %v, until %v", err, m.Until())
	}
	port.Lead(at.String())
	stop := runs(t, m, at)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log: %s\npebble: %s", log, ca.Log())
		}
	})
	eventually(t, "certificates", func() bool { return !m.Until().IsZero() })
	first := map[string]*x509.Certificate{}
	for _, name := range []string{"gw.test", "second.test", "127.0.0.1"} {
		cert, err := shown(at, name, ca.Roots)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, log)
		}
		first[name] = cert
	}
	if first["gw.test"].Equal(first["second.test"]) {
		t.Error("two names have one certificate")
	}
	for name, cert := range first {
		eventually(t, "renewal of "+name, func() bool {
			c, err := shown(at, name, ca.Roots)
			if err != nil {
				t.Fatalf("%s: during the renewal: %v\n%s", name, err, log)
			}
			return c.NotAfter.After(cert.NotAfter)
		})
	}
	if s := log.String(); strings.Count(s, `msg="certificate issued"`) < 6 || !strings.Contains(s, "renewal=true") || strings.Contains(s, "WARN") {
		t.Errorf("log: %s", s)
	}
	stop()
	if err := filepath.WalkDir(opt.Dir, func(path string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); err == nil && e == nil && !strings.HasSuffix(path, ".lock") && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		return err
	}); err != nil {
		t.Error(err)
	}

	opt.CA, opt.Log = "https://127.0.0.1:1/dir", nil
	// The folder is of the authority that the certificates came from; another one
	// asks anew, and shows nothing until then.
	other, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	runs(t, other, shows(t, other))
	opt.CA = ca.Directory
	again, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	at = shows(t, again)
	runs(t, again, at)
	eventually(t, "certificates after a restart", func() bool { return !again.Until().IsZero() })
	if !other.Until().IsZero() {
		t.Error("another authority shows the certificates of this one")
	}
}

// The challenge http-01 is answered by a port of the manager's own, or by whoever
// has the port already.
func TestHTTPChallenge(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own port/", own), func(t *testing.T) {
			port := acmelab.NewPort(t)
			ca := acmelab.Start(t, acmelab.Options{Life: time.Hour, HTTPPort: port.Number})
			web, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			port.Lead(web.Addr().String())
			var answered, other int
			var mu sync.Mutex
			if own {
				web.Close()
			} else {
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if text, ok := KeyAuthorization(r.Host, r.URL.Path); ok {
						answered++
						if _, ok := KeyAuthorization("other.test", r.URL.Path); ok {
							t.Error("the challenge of another name was answered")
						}
						if _, ok := KeyAuthorization(r.Host, r.URL.Path+"x"); ok {
							t.Error("another path was answered")
						}
						w.Write([]byte(text))
						return
					}
					other++
					http.NotFound(w, r)
				})}
				go srv.Serve(web)
				defer srv.Close()
			}
			log := new(logged)
			m, err := New(Options{
				Domains: []string{"gw.test"}, Dir: t.TempDir(), CA: ca.Directory, Roots: roots(t, ca.RootFile), Log: log.logger(),
				HTTP: true, HTTPPort: web.Addr().(*net.TCPAddr).Port,
			})
			if err != nil {
				t.Fatal(err)
			}
			at := shows(t, m)
			runs(t, m, at)
			eventually(t, "certificate", func() bool { return !m.Until().IsZero() })
			if _, err := shown(at, "gw.test", ca.Roots); err != nil {
				t.Errorf("got %v\n%s", err, log)
			}
			mu.Lock()
			defer mu.Unlock()
			if !own && (answered == 0 || other > 0) {
				t.Errorf("answered %d challenges, %d other requests", answered, other)
			}
			if text, ok := KeyAuthorization("gw.test", "/.well-known/acme-challenge/x"); ok {
				t.Errorf("no challenge is open: got %q", text)
			}
		})
	}
}

// What fails says what to do, and holds nobody up.
func TestFailures(t *testing.T) {
	nowhere := acmelab.NewPort(t)
	ca := acmelab.Start(t, acmelab.Options{Life: time.Hour, TLSPort: nowhere.Number, HTTPPort: nowhere.Number})
	trusted := roots(t, ca.RootFile)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name string
		opt  Options
		want string
	}{
		{"a root that is not known", Options{CA: ca.Directory}, "root_ca"},
		{"nobody there", Options{CA: "https://127.0.0.1:1/dir", Roots: trusted}, "the authority must be reachable at 127.0.0.1:1"},
		{"443 leads elsewhere", Options{CA: ca.Directory, Roots: trusted}, "gw.test:443 must lead to this listener"},
		{"80 leads elsewhere", Options{CA: ca.Directory, Roots: trusted, HTTP: true, HTTPPort: taken.Addr().(*net.TCPAddr).Port}, "http://gw.test:80/.well-known/acme-challenge/ must lead to port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := new(logged)
			tt.opt.Domains, tt.opt.Dir, tt.opt.Log = []string{"gw.test"}, t.TempDir(), log.logger()
			m, err := New(tt.opt)
			if err != nil {
				t.Fatal(err)
			}
			at := shows(t, m)
			stop := runs(t, m, at)
			eventually(t, "a line of the log", func() bool { return strings.Contains(log.String(), "was not issued") })
			if s := log.String(); !strings.Contains(s, tt.want) {
				t.Errorf("log: got %q, want %q", s, tt.want)
			}
			if _, err := shown(at, "gw.test", ca.Roots); err == nil {
				t.Error("a certificate is shown")
			}
			stop()
		})
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil || strings.Count(err.Error(), "option") != 3 {
		t.Errorf("New(Options{}): got %v, want two bad options", err)
	}
	if _, err := New(Options{Domains: []string{"*.test"}, Dir: "x", HTTPPort: -1, Every: -1}); err == nil || strings.Count(err.Error(), "option ") != 3 {
		t.Errorf("New: got %v, want three bad options", err)
	}
	if _, err := New(Options{Domains: []string{"a.test"}, Dir: "x", CA: "nonsense"}); err == nil || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("New: got %v, want a bad CA without its text", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := New(Options{Domains: []string{"a.test"}, Dir: filepath.Join(file, "acme")})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Prepare(); err == nil {
		t.Error("Prepare: got nil for a folder below a file")
	}
}
