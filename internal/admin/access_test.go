package admin

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/memnet"
	"soapway/internal/telemetry"
)

// TestGuesses: an address that guesses is not heard for a while, not even with the
// right token; others are, and a flood fills neither memory nor the log.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		events := new(Events)
		s := New(memnet.Listen(), Options{Token: "s3cret", Log: slog.New(slog.NewTextHandler(&log, nil)), Events: events})
		from := func(client, token string) int {
			r := httptest.NewRequest("GET", "/api/v1/queues", nil)
			r.RemoteAddr = client
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			if (w.Code == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
			return w.Code
		}
		for range 100 {
			if got := from("192.0.2.9:1", ""); got != 401 {
				t.Fatalf("without a token: got %d, want 401: it is no guess", got)
			}
		}
		for i := range failuresAtOnce {
			if got := from(fmt.Sprintf("192.0.2.1:%d", i+1), "wrong"); got != 401 {
				t.Fatalf("guess %d: got %d, want 401", i, got)
			}
		}
		if got := from("192.0.2.1:99", "s3cret"); got != 429 {
			t.Errorf("after %d guesses: got %d, want 429", failuresAtOnce, got)
		}
		if got := from("192.0.2.2:1", "s3cret"); got != 200 {
			t.Errorf("another address: got %d, want 200", got)
		}
		if got := from("[2001:db8::1]:1", "s3cret"); got != 200 {
			t.Errorf("another address: got %d, want 200", got)
		}
		time.Sleep(failurePause)
		if got := from("192.0.2.1:99", "s3cret"); got != 200 {
			t.Errorf("after a pause: got %d, want 200", got)
		}
		for i := range failuresAtOnce { // one subscriber, many addresses
			from(fmt.Sprintf("[2001:db8:1::%x]:1", i+1), "wrong")
		}
		if got := from("[2001:db8:1:0:ffff::1]:1", "s3cret"); got != 429 {
			t.Errorf("the same /64: got %d, want 429", got)
		}
		for i := range 3 * mostAddresses {
			from(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), "wrong")
		}
		if n := len(s.guesses.from); n > mostAddresses+1 {
			t.Errorf("%d addresses are remembered, want at most %d", n, mostAddresses+1)
		}
		if n := strings.Count(log.String(), "\n"); n > 300 {
			t.Errorf("%d lines of the log", n)
		}
		time.Sleep(time.Minute)
		from("192.0.2.1:99", "wrong")
		if _, before, _, _ := events.subscribe(""); !strings.Contains(log.String(), "admin request refused") || before[len(before)-1].Kind != EventRefused {
			t.Error("refusals are not told")
		}
	})
}

// TestUI: every file of the dashboard is served with its type and its policy, which
// lets a page run nothing else, and is known again.
func TestUI(t *testing.T) {
	for path, f := range ui {
		w := ask(Options{Token: "s3cret"}, "GET", path, "", "Sec-Fetch-Site", "cross-site") // from a link in a wiki
		if w.Code != 200 || f.kind == "" || w.Header().Get("Content-Type") != f.kind || !bytes.Equal(w.Body.Bytes(), f.octets) {
			t.Errorf("%s: got %d, %s, %d octets", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "form-action 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, want)
			}
		}
		w = ask(Options{}, "GET", path, "", "If-None-Match", w.Header().Get("ETag"))
		if w.Code != 304 || w.Body.Len() != 0 {
			t.Errorf("%s again: got %d with %d octets, want 304", path, w.Code, w.Body.Len())
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http://", "style="} {
			if strings.HasSuffix(path, ".svg") || bad == "http://" && strings.HasSuffix(path, "dom.js") { // the name of a namespace
				continue
			}
			if bytes.Contains(f.octets, []byte(bad)) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
	if w := ask(Options{}, "GET", "/ui/secret.js", ""); w.Code != 404 {
		t.Errorf("a file that is none: got %d", w.Code)
	}
	if w := ask(Options{}, "GET", "/", "", "Host", "evil.example"); w.Code != 421 {
		t.Errorf("the dashboard under another name: got %d, want 421", w.Code)
	}
}

// certified is a TLS configuration with a new certificate.
func certified(t *testing.T, serial int64) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gw.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// TestTLS: with TLS nothing is served in the clear, half a handshake does not hold a
// connection, and a new certificate is taken for the next connection.
func TestTLS(t *testing.T) {
	ln := memnet.Listen()
	s := New(ln, Options{TLS: certified(t, 1), Token: "s3cret"})
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), t.Context()) }()
	serial := func() int64 {
		t.Helper()
		c := tls.Client(dial(t, ln), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if _, err := io.WriteString(c, "GET /api/v1/status HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer s3cret\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("got %v (%v)", resp, err)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d, want 1", got)
	}
	s.SetTLS(certified(t, 2))
	if got := serial(); got != 2 {
		t.Errorf("certificate %d, want 2", got)
	}
	plain := dial(t, ln)
	if _, err := io.WriteString(plain, "GET /api/v1/status HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer s3cret\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(plain), nil); err == nil && resp.StatusCode != 400 {
		t.Errorf("in the clear: got %s", resp.Status)
	}
}

// TestGatewayEndpoints: what is not about messages.
func TestGatewayEndpoints(t *testing.T) {
	history := telemetry.NewHistory()
	history.Delivered("orders")
	g := &steered{history: history, links: []Link{{Name: "hq", Mode: LinkAccept, State: LinkIdle, Routes: []string{}}}, backends: []Backend{{Name: "erp", State: BackendHeld, Routes: []string{}, Nodes: []Node{}}}}
	opt := Options{Gateway: g}
	for _, tt := range []struct {
		method, path string
		err          error
		status       int
		want         string
	}{
		{"GET", "/backends", nil, 200, `{"backends":[{"name":"erp","state":"held","routes":[],"nodes":[]}]}`},
		{"GET", "/routes", nil, 200, `{"routes":[]}`},
		{"GET", "/links", nil, 200, `{"links":[{"name":"hq","mode":"accept","state":"idle","routes":[],"lag_messages":0,"lag_seconds":0,"in_flight":0,"rate":0,"sent":0,"refused":0,"received":0}]}`},
		{"GET", "/config", nil, 200, `{"path":"gateway.yaml","loaded":"0001-01-01T00:00:00Z","digest":"d","text":"routes: []\n"}`},
		{"GET", "/history", nil, 200, `"total":{"requests":0,"failed":0,"faults":0,"refused":0,"delivered":1,"died":0}`},
		{"POST", "/reload", nil, 204, ""},
		{"POST", "/reload", &BadConfiguration{Problems: []string{"a", "b"}}, 409, `"type":"urn:soapway:problem:bad-configuration"`},
		{"POST", "/reload", &BadConfiguration{Problems: []string{"a", "b"}}, 409, `"problems":["a","b"]`},
		{"POST", "/reload", io.ErrUnexpectedEOF, 500, "internal"},
	} {
		g.err = tt.err
		w := ask(opt, tt.method, "/api/v1"+tt.path, "")
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s %s: got %d %.300s, want %d with %s", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
		}
	}
	for _, path := range []string{"/config", "/history", "/links", "/events"} {
		w := httptest.NewRecorder()
		Local(&scripted{}, Options{}).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1"+path, nil))
		if w.Code != 409 {
			t.Errorf("%s of a stopped gateway: got %d, want 409", path, w.Code)
		}
	}
}
