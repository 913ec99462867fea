package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	hello11 = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><hello/></s:Body></s:Envelope>`
	hello12 = `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><hello/></s:Body></s:Envelope>`
	fault11 = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault>` +
		`<faultcode>s:Server</faultcode><faultstring>out of  order</faultstring></s:Fault></s:Body></s:Envelope>`
)

// utf16 is hello12 in UTF-16LE.
func utf16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, c := range []byte(s) {
		b = append(b, c, 0)
	}
	return string(b)
}

// TestSendFields: what goes over the wire, field by field.
func TestSendFields(t *testing.T) {
	var got *http.Request
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer srv.Close()
	const absent = "\x00"
	tests := []struct {
		name, stdin string
		args        []string
		want        map[string]string // absent: must not be there
	}{
		{"1.1", hello11, nil, map[string]string{
			"Content-Type": "text/xml; charset=utf-8", "Soapaction": `""`, "Accept-Encoding": absent, "Authorization": absent, "Host": srv.Listener.Addr().String(),
		}},
		{"1.1 with an action", hello11, []string{"--action", "urn:a"}, map[string]string{"Soapaction": `"urn:a"`}},
		{"1.2", hello12, nil, map[string]string{"Content-Type": "application/soap+xml; charset=utf-8", "Soapaction": absent}},
		{"1.2 with an action", hello12, []string{"--action", `urn:"a"`}, map[string]string{
			"Content-Type": `application/soap+xml; charset=utf-8; action="urn:\"a\""`, "Soapaction": absent,
		}},
		{"--soap wins over the envelope", hello11, []string{"--soap", "1.2"}, map[string]string{"Content-Type": "application/soap+xml; charset=utf-8"}},
		{"other charset", `<?xml version="1.0" encoding="ISO-8859-1"?>` + hello11, nil, map[string]string{"Content-Type": "text/xml; charset=iso-8859-1"}},
		{"UTF-16", utf16(hello12), nil, map[string]string{"Content-Type": "application/soap+xml; charset=utf-16"}},
		{"nothing known", "what is this", nil, map[string]string{"Content-Type": "text/xml; charset=utf-8"}},
		{
			"fields of the command line win", hello11,
			[]string{"-H", "content-type: text/plain", "-H", "SoapAction:", "-H", "X-A: 1", "-H", "X-A: 2", "-H", "Host: other", "-H", "user-agent: me"},
			map[string]string{"Content-Type": "text/plain", "Soapaction": absent, "X-A": "1, 2", "Host": "other", "User-Agent": "me"},
		},
		{"no agent", hello11, []string{"-H", "User-Agent:"}, map[string]string{"User-Agent": absent}},
		{"credentials", hello11, []string{"--user", "Aladdin:open:sesame"}, map[string]string{"Authorization": "Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ=="}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := run(t, tt.stdin, append([]string{"send", "--to", srv.URL + "/p?q=1", "-"}, tt.args...)...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if body != tt.stdin || got.RequestURI != "/p?q=1" || got.Method != "POST" {
				t.Errorf("got %s %s with %q", got.Method, got.RequestURI, body)
			}
			fields := got.Header.Clone()
			fields.Set("Host", got.Host)
			for name, want := range tt.want {
				values, have := fields[name]
				switch v := strings.Join(values, ", "); {
				case want == absent && have:
					t.Errorf("%s: got %q, want none", name, v)
				case want != absent && v != want:
					t.Errorf("%s: got %q, want %q", name, v, want)
				}
			}
		})
	}
}

// TestSendAnswers: what each kind of answer means for exit code and streams.
func TestSendAnswers(t *testing.T) {
	tests := []struct {
		name           string
		answer         http.HandlerFunc
		code           int
		stdout, stderr string
	}{
		{"reply", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Gateway-Message-Id", "0190-x")
			_, _ = io.WriteString(w, hello11)
		}, 0, hello11, "gateway: 200 OK, id 0190-x, "},
		{"accepted", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, 0, "", "gateway: 202 Accepted, "},
		{"fault", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); _, _ = io.WriteString(w, fault11) }, 1, fault11, "gateway: error: fault Server: out of order\n"},
		{"fault in 200", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, fault11) }, 1, fault11, "gateway: 200 OK, "},
		{"redirect is not followed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(307)
		}, 1, "", "gateway: 307 Temporary Redirect, "},
		{"cut reply", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, hello11)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 1, "", "gateway: error: send: the reply broke off: "},
		{"closed", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, "", "gateway: error: send: the connection was closed without an answer\n"},
		{"no reply", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 1, "", "gateway: error: send: no answer within 100ms\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				tt.answer(w, r)
			}))
			defer srv.Close()
			timeout := "20s"
			if tt.name == "no reply" {
				timeout = "100ms"
			}
			code, stdout, stderr := run(t, hello11, "send", "--timeout", timeout, "--to", srv.URL, "-")
			if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("got %d %q %q, want %d %q %q", code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

func TestSendTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()

	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca := file("ca.pem", "CERTIFICATE", srv.Certificate().Raw)
	keyFile := file("key.pem", "PRIVATE KEY", key)
	framed := frameServer(t, &tls.Config{Certificates: srv.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert}, echoFrames)

	for _, to := range []string{srv.URL, "framed+tls://" + framed + "?length=4"} {
		if code, stdout, stderr := run(t, hello11, "send", "--to", to, "--ca", ca, "--cert", ca, "--key", keyFile, "-"); code != 0 || stdout != hello11 {
			t.Errorf("%s: got %d %q %q", to, code, stdout, stderr)
		}
		if code, _, stderr := run(t, hello11, "send", "--to", to, "--ca", ca, "-"); code != 1 || !strings.Contains(stderr, "error: send: ") {
			t.Errorf("%s without a client certificate: got %d %q", to, code, stderr)
		}
		if code, _, stderr := run(t, hello11, "send", "--to", to, "-"); code != 1 || !strings.Contains(stderr, "certificate") {
			t.Errorf("%s without its authority: got %d %q", to, code, stderr)
		}
	}
}

// frameServer serves each connection with serve until the end of the test.
func frameServer(t *testing.T, secure *tls.Config, serve func(net.Conn)) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

// echoFrames sends frames with lengths of 4 bytes back.
func echoFrames(c net.Conn) {
	for {
		b, err := readFrame4(c)
		if err != nil {
			return
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// readFrame4 returns a whole frame, its length included.
func readFrame4(c net.Conn) ([]byte, error) {
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	_, err := io.ReadFull(c, b[4:])
	return b, err
}

// TestSendFramedTrouble: every way in which a frame can go wrong is an error
// that says so, and the next message gets a new connection.
func TestSendFramedTrouble(t *testing.T) {
	tests := []struct {
		name  string
		serve func(net.Conn)
		want  string
	}{
		{"closed", func(c net.Conn) { _, _ = readFrame4(c) }, "closed without an answer"},
		{"half a length", func(c net.Conn) { _, _ = readFrame4(c); _, _ = c.Write([]byte{0, 0}) }, "unexpected EOF"},
		{"half a reply", func(c net.Conn) { _, _ = readFrame4(c); _, _ = c.Write([]byte{0, 0, 0, 9, '<'}) }, "the reply broke off"},
		{"huge", func(c net.Conn) { _, _ = readFrame4(c); _, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff}) }, "over the limit"},
		{"silent", func(c net.Conn) { _, _ = readFrame4(c); _, _ = io.Copy(io.Discard, c) }, "no answer within"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int32
			addr := frameServer(t, nil, func(c net.Conn) {
				if n.Add(1) == 1 {
					tt.serve(c)
				} else {
					echoFrames(c)
				}
			})
			code, stdout, _ := run(t, hello11, "send", "--timeout", "300ms", "-n", "2", "--to", "framed://"+addr+"?length=4", "-")
			first, rest, _ := strings.Cut(stdout, "\n")
			if code != 1 || !strings.Contains(first, "error: ") || !strings.Contains(first, tt.want) {
				t.Errorf("first: got %d %q, want %q", code, first, tt.want)
			}
			if !strings.HasPrefix(rest, "-: answered, ") {
				t.Errorf("second: got %q", rest)
			}
		})
	}
	if code, _, stderr := run(t, strings.Repeat("x", 1<<16), "send", "--to", "framed://127.0.0.1:1", "-"); code != 1 || !strings.Contains(stderr, "65536 bytes do not fit a length of 2 bytes") {
		t.Errorf("too long: got %d %q", code, stderr)
	}
}

// TestSendRate: messages start at the rate even when answers take longer, and
// the time of a message counts from when it was due.
func TestSendRate(t *testing.T) {
	var last time.Time
	var under, most atomic.Int32
	arrive := make(chan time.Time, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrive <- time.Now()
		now := under.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(60 * time.Millisecond)
		under.Add(-1)
	}))
	defer srv.Close()
	began := time.Now()
	code, stdout, stderr := run(t, hello11, "send", "--to", srv.URL, "-n", "6", "-C", "6", "--rate", "50/s", "-")
	if code != 0 {
		t.Fatalf("got %d %q %q", code, stdout, stderr)
	}
	close(arrive)
	for last = range arrive {
	}
	if took := last.Sub(began); took < 100*time.Millisecond {
		t.Errorf("the sixth message at 50/s arrived after %v, want 100ms or more", took)
	}
	if most.Load() < 2 {
		t.Error("a message waited for the answer to the one before it")
	}
}

// TestSendInterrupted: what was not sent is counted, and nothing hangs.
func TestSendInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1) == 3 {
			cancel()
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	before := goroutines()
	var stdout, stderr bytes.Buffer
	code := exec(ctx, []string{"send", "--to", srv.URL, "-n", "100", "-"}, nil, strings.NewReader(hello11), &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "interrupted, 97 of 100 not sent") || !strings.Contains(stdout.String(), "-: error: interrupted\n") {
		t.Errorf("got %d %q %q", code, &stdout, &stderr)
	}
	leaks(t, before)
}

// failing is a stdout that is full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestSendStdoutFails(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer srv.Close()
	before := goroutines()
	var stderr bytes.Buffer
	code := exec(t.Context(), []string{"send", "--to", srv.URL, "-n", "50", "-C", "4", "-"}, nil, strings.NewReader(hello11), failing{}, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("got %d %q", code, &stderr)
	}
	leaks(t, before)
}

// goroutines counts them, once package os/signal has started the one that it
// keeps for good.
func goroutines() int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	return runtime.NumGoroutine()
}

// leaks fails the test when goroutines are left.
func leaks(t *testing.T, before int) {
	t.Helper()
	for late := time.After(patience); runtime.NumGoroutine() > before; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestProgress: one line each 5 s where nobody watches, one line that changes
// on a terminal, and never both on one screen.
func TestProgress(t *testing.T) {
	var stdout, stderr bytes.Buffer
	c := &cli{stdout: &stdout, stderr: &stderr}
	p := &plan{target: &target{}, messages: []*message{{name: "a"}}, times: 10}
	r := c.newReport(p)
	if r.every != 5*time.Second || r.live {
		t.Errorf("to a file: every %v, live %v", r.every, r.live)
	}
	if err := r.add(&outcome{job: job{message: p.messages[0]}, err: io.ErrUnexpectedEOF}); err != nil {
		t.Fatal(err)
	}
	r.progress()
	if got, want := stderr.String(), "gateway: 1 of 10 sent, 1 not ok\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	stderr.Reset()
	r.live = true
	r.progress()
	r.progress()
	if got, want := stderr.String(), "\r1 of 10 sent, 1 not ok \r1 of 10 sent, 1 not ok "; got != want {
		t.Errorf("on a terminal: got %q, want %q", got, want)
	}
	stderr.Reset()
	r.wipe()
	r.wipe()
	if got := stderr.String(); strings.Count(got, "\r") != 2 {
		t.Errorf("wipe: got %q, want the line overwritten once", got)
	}
}

// Percentiles are nearest ranks: of few times the 99th is the longest.
func TestPercentile(t *testing.T) {
	for _, tt := range []struct{ n, p, want int }{
		{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {2, 99, 2}, {3, 50, 2}, {10, 99, 10}, {99, 99, 99}, {100, 99, 99}, {100, 50, 50}, {101, 99, 100}, {1000, 99, 990},
	} {
		var times []time.Duration
		for i := range tt.n {
			times = append(times, time.Duration(i+1))
		}
		if got := percentile(times, tt.p); got != time.Duration(tt.want) {
			t.Errorf("percentile %d of %d: got %d, want %d", tt.p, tt.n, got, tt.want)
		}
	}
}
