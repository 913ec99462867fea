package listen

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/frame"
	"soapway/proxy"
	"soapway/proxy/guard"
	"soapway/soapcodec"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, pool: x509.NewCertPool()}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate that ends when it says.
func (a *authority) issue(name string, until time.Time) (certificate, key []byte) {
	a.t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"Example"}},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &priv.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// server is the configuration of a listener.
func (a *authority) server(name string, clients *authority, optional bool) *tls.Config {
	a.t.Helper()
	opt := TLSOptions{Optional: optional}
	opt.Certificate, opt.Key = a.issue(name, time.Now().Add(time.Hour))
	if clients != nil {
		opt.ClientCA = clients.pem
	}
	cfg, err := TLSConfig(opt)
	if err != nil {
		a.t.Fatal(err)
	}
	return cfg
}

// client trusts the authority and shows a certificate of signer, if there is one.
func (a *authority) client(signer *authority, until time.Time) *tls.Config {
	a.t.Helper()
	cfg := &tls.Config{RootCAs: a.pool, ServerName: "gw.test"}
	if signer != nil {
		pair, err := tls.X509KeyPair(signer.issue("erp.test", until))
		if err != nil {
			a.t.Fatal(err)
		}
		// Also one that the server would not like.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

var inAnHour = time.Now().Add(time.Hour)

// kind is a listener of one kind with TLS, and a call through it.
type kind struct {
	name  string
	start func(t *testing.T, cfg *tls.Config, timeouts Timeouts, srv serverFunc, log *logged) secureRunner
	call  func(c net.Conn, r *bufio.Reader, body string) (string, error)
}

type secureRunner interface {
	runner
	SetTLS(*tls.Config)
}

func kinds() []kind {
	web := func(engine Engine) func(*testing.T, *tls.Config, Timeouts, serverFunc, *logged) secureRunner {
		return func(t *testing.T, cfg *tls.Config, timeouts Timeouts, srv serverFunc, log *logged) secureRunner {
			l, err := NewHTTP(HTTPOptions{Name: "web", Address: "127.0.0.1:0", Engine: engine, TLS: cfg, Timeouts: timeouts, Log: log.logger()}, srv)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
	}
	return []kind{
		{"fast", web(Fast), callHTTP},
		{"std", web(Std), callHTTP},
		{"framed", func(t *testing.T, cfg *tls.Config, timeouts Timeouts, srv serverFunc, log *logged) secureRunner {
			l, err := NewFramed(FramedOptions{Name: "tcp", Address: "127.0.0.1:0", Length: 4, TLS: cfg, Timeouts: timeouts, Log: log.logger()}, srv)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}, callFramed},
	}
}

func callHTTP(c net.Conn, r *bufio.Reader, body string) (string, error) {
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return "", err
	}
	return readHTTP(r)
}

func readHTTP(r *bufio.Reader) (string, error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status)
	}
	return string(b), err
}

func callFramed(c net.Conn, r *bufio.Reader, body string) (string, error) {
	b, err := frame.Append(nil, 4, []byte(body))
	if err != nil {
		return "", err
	}
	if _, err := c.Write(b); err != nil {
		return "", err
	}
	return readFramed(r)
}

func readFramed(r *bufio.Reader) (string, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", err
	}
	b := make([]byte, int(head[2])<<8|int(head[3]))
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// echoAny answers over both transports.
func echoAny(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
	if ex.Framed {
		return echoFrame(ctx, ex)
	}
	return echoServer(ctx, ex)
}

func dialTLS(t *testing.T, addr string, cfg *tls.Config) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	raw := connect(t, addr)
	c := tls.Client(raw.TCPConn, cfg)
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

// Who is let in, and what an exchange knows of the certificate. Under TLS 1.3 a
// client learns of a refusal only when it reads.
func TestTLSClients(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	clients := map[string]*tls.Config{
		"none":    ours.client(nil, inAnHour),
		"right":   ours.client(ours, inAnHour),
		"wrong":   ours.client(theirs, inAnHour),
		"expired": ours.client(ours, time.Now().Add(-time.Hour)),
	}
	for _, k := range kinds() {
		for _, tt := range []struct {
			name     string
			clients  *authority
			optional bool
			in       string // of whom
		}{
			{"not asked", nil, false, "none right wrong expired"},
			{"require", ours, false, "right"},
			{"request", ours, true, "none right"},
		} {
			t.Run(k.name+"/"+tt.name, func(t *testing.T) {
				noLeaks(t)
				got := make(chan *proxy.Exchange, 1)
				log := new(logged)
				addr, _ := running(t, k.start(t, ours.server("gw.test", tt.clients, tt.optional), Timeouts{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
					got <- ex
					return echoAny(ctx, ex)
				}, log))
				for name, cfg := range clients {
					for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
						cfg := cfg.Clone()
						cfg.MaxVersion = version
						c, r := dialTLS(t, addr, cfg)
						answer, err := k.call(c, r, "<x/>")
						if in := strings.Contains(tt.in, name); in != (err == nil) {
							t.Errorf("certificate %s, version %x: got %v", name, version, err)
						}
						if err != nil {
							continue
						}
						if answer != "<x/>" {
							t.Errorf("got %q", answer)
						}
						ex := await(t, got, "exchange")
						if !ex.TLS || (ex.Certificate != nil) != (name == "right" && tt.clients != nil) {
							t.Errorf("certificate %s: got TLS %v, certificate %v", name, ex.TLS, ex.Certificate)
						}
						c.Close()
					}
				}
				if s := log.String(); (tt.name != "not asked") != strings.Contains(s, "TLS handshake failed") {
					t.Errorf("log: got %q", s)
				}
			})
		}
	}
}

// TLS 1.1 is refused; of the protocols that a client offers it is HTTP/2 or
// HTTP/1.1, and none where messages are framed.
func TestTLSVersionAndProtocol(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			addr, _ := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{}, echoAny, new(logged)))
			old := ours.client(nil, inAnHour)
			old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			if c, _ := dialTLS(t, addr, old); c.Handshake() == nil {
				t.Error("TLS 1.1 was taken")
			}
			for offer, want := range map[string]string{"http/1.1": "http/1.1", "http/1.1 h2": "h2", "": ""} {
				if k.name == "framed" {
					want = ""
				}
				cfg := ours.client(nil, inAnHour)
				cfg.NextProtos = strings.Fields(offer)
				c, r := dialTLS(t, addr, cfg)
				if err := c.Handshake(); err != nil || c.ConnectionState().NegotiatedProtocol != want {
					t.Errorf("offer %q: got %v, protocol %q", offer, err, c.ConnectionState().NegotiatedProtocol)
				}
				if want == "h2" {
					continue
				}
				if answer, err := k.call(c, r, "<x/>"); answer != "<x/>" {
					t.Errorf("offer %q: got %q, %v", offer, answer, err)
				}
			}
		})
	}
}

// A client that says nothing, or half of its hello, is cut off after
// Timeouts.Header, and keeps nobody waiting.
func TestTLSSlowHandshake(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			log := new(logged)
			addr, stop := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{Header: 300 * time.Millisecond}, echoAny, log))
			silent, half := connect(t, addr), connect(t, addr)
			half.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
			c, r := dialTLS(t, addr, ours.client(nil, inAnHour))
			if answer, err := k.call(c, r, "<x/>"); answer != "<x/>" {
				t.Errorf("got %q, %v", answer, err)
			}
			silent.closed()
			half.closed()
			stop() // the connection is closed before that is told
			if s := log.String(); strings.Count(s, "TLS handshake failed") != 2 || !strings.Contains(s, "deadline exceeded") {
				t.Errorf("log: got %q", s)
			}
		})
	}
}

// A stop does not wait for handshakes.
func TestTLSStopDuringHandshake(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			addr, stop := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{Header: time.Hour}, echoAny, new(logged)))
			half := connect(t, addr)
			half.send("\x16\x03\x01\x02\x00")
			c, r := dialTLS(t, addr, ours.client(nil, inAnHour))
			if answer, err := k.call(c, r, "<x/>"); answer != "<x/>" {
				t.Errorf("got %q, %v", answer, err)
			}
			if err := stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
			half.closed()
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("idle connection: got %v, want a close_notify", err)
			}
		})
	}
}

// HTTP in the clear is answered in the clear; what is neither is closed.
func TestTLSPlainClient(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			addr, _ := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{}, echoAny, new(logged)))
			p := connect(t, addr)
			p.send("POST /orders HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n<x/>")
			p.CloseWrite()
			b, err := io.ReadAll(p.r)
			if k.name == "framed" {
				if len(b) != 0 {
					t.Errorf("got %q", b)
				}
			} else if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 400 ") || !strings.Contains(string(b), "https") {
				t.Errorf("got %q, %v", b, err)
			}
			p = connect(t, addr)
			p.send("\x00\x00\x00\x04<x/>")
			if b, _ := io.ReadAll(p.r); strings.Contains(string(b), "HTTP") {
				t.Errorf("octets of another protocol: got %q", b)
			}
		})
	}
}

// A client that has said its last word still gets its answer, whether it says so
// by close_notify or closes its side of the connection too.
func TestTLSHalfClosed(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds() {
		for _, fin := range []bool{false, true} {
			if k.name == "std" {
				continue // net/http takes both for the end of the caller
			}
			t.Run(fmt.Sprint(k.name, "/fin=", fin), func(t *testing.T) {
				noLeaks(t)
				began, release := make(chan bool), make(chan bool)
				addr, _ := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
					reply := echoAny(ctx, ex)
					began <- true
					<-release
					return reply
				}, new(logged)))
				raw := connect(t, addr)
				c := tls.Client(raw.TCPConn, ours.client(nil, inAnHour))
				read := readHTTP
				request := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n<x/>"
				if k.name == "framed" {
					request, read = framed(4, "<x/>"), readFramed
				}
				if _, err := io.WriteString(c, request); err != nil {
					t.Fatal(err)
				}
				await(t, began, "exchange")
				c.CloseWrite()
				if fin {
					raw.CloseWrite()
				}
				release <- true
				r := bufio.NewReader(c)
				if answer, err := read(r); answer != "<x/>" {
					t.Errorf("got %q, %v", answer, err)
				}
				if _, err := r.ReadByte(); err != io.EOF {
					t.Errorf("end: got %v, want a close_notify", err)
				}
			})
		}
	}
}

// An answer that breaks off must not end like one that is whole: without a
// length only the missing close_notify tells.
func TestTLSCutReply(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds()[:2] {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			addr, _ := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{}, func(context.Context, *proxy.Exchange) *proxy.Reply {
				return &proxy.Reply{Status: 200, Length: -1, Body: io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), &failing{errors.New("cut")})}
			}, new(logged)))
			c, r := dialTLS(t, addr, ours.client(nil, inAnHour))
			io.WriteString(c, "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\n<x/>")
			if b, err := io.ReadAll(r); err == nil {
				t.Errorf("got a whole answer of %d octets", len(b))
			}
		})
	}
}

// A renewed certificate is shown to new connections, and fails no call on old
// ones; their sessions are not resumed under it.
func TestTLSRenewal(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			l := k.start(t, ours.server("gw.test", ours, false), Timeouts{}, echoAny, new(logged))
			addr, _ := running(t, l)
			client := ours.client(ours, inAnHour)
			client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			old, oldR := dialTLS(t, addr, client)
			again := func() *tls.Conn {
				c, r := dialTLS(t, addr, client)
				if answer, err := k.call(c, r, "<x/>"); answer != "<x/>" {
					t.Errorf("got %q, %v", answer, err)
				}
				return c
			}
			if answer, err := k.call(old, oldR, "<x/>"); answer != "<x/>" {
				t.Fatalf("got %q, %v", answer, err)
			}
			if !again().ConnectionState().DidResume {
				t.Error("a session was not resumed")
			}
			renewed := ours.server("gw.test", ours, false)
			l.SetTLS(renewed)
			c := again()
			if state := c.ConnectionState(); state.DidResume || string(state.PeerCertificates[0].Raw) != string(renewed.Certificates[0].Certificate[0]) {
				t.Error("the old certificate, or an old session")
			}
			l.SetTLS(ours.server("gw.test", theirs, false)) // whose clients are others
			c, r := dialTLS(t, addr, client)
			if _, err := k.call(c, r, "<x/>"); err == nil {
				t.Error("a client of the authority of before got in, by its session")
			}
			if answer, err := k.call(old, oldR, "<y/>"); answer != "<y/>" {
				t.Errorf("old connection: got %q, %v", answer, err)
			}
		})
	}
}

// Renewals under load fail no call.
func TestTLSRenewalUnderLoad(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			l := k.start(t, ours.server("gw.test", nil, false), Timeouts{}, echoAny, new(logged))
			addr, _ := running(t, l)
			var calls, failed atomic.Int64
			done := make(chan bool)
			const callers = 4
			for range callers {
				go func() {
					defer func() { done <- true }()
					for range 15 { // connections
						c, err := tls.Dial("tcp", addr, ours.client(nil, inAnHour))
						if err != nil {
							failed.Add(1)
							continue
						}
						r := bufio.NewReader(c)
						for range 5 {
							calls.Add(1)
							if answer, err := k.call(c, r, "<x/>"); answer != "<x/>" || err != nil {
								failed.Add(1)
							}
						}
						c.Close()
					}
				}()
			}
			for left := callers; left > 0; {
				select {
				case <-done:
					left--
				default:
					l.SetTLS(ours.server("gw.test", nil, false))
				}
			}
			if calls.Load() != callers*15*5 || failed.Load() != 0 {
				t.Errorf("got %d calls, %d failed", calls.Load(), failed.Load())
			}
		})
	}
}

// What reading may have to write never meets a deadline of an earlier answer,
// and always has one.
func TestTLSReadingRenewsDeadline(t *testing.T) {
	ours := newAuthority(t, "ours")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, _ := dialTLS(t, ln.Addr().String(), ours.client(nil, inAnHour))
	raw, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	s := &secured{Conn: tls.Server(raw, ours.server("gw.test", nil, false)), patience: time.Minute}
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, "ab")
		b := make([]byte, 1)
		if err == nil {
			_, err = c.Read(b)
		}
		done <- err
	}()
	b := make([]byte, 1)
	if _, err := s.Read(b); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(time.Unix(0, s.writeBy.Load())); left < 30*time.Second || left > time.Minute {
		t.Errorf("deadline of writing: got %v, want a minute", left)
	}
	s.SetDeadline(past)
	s.SetReadDeadline(time.Time{})
	if _, err := s.Read(b); err != nil || b[0] != 'b' {
		t.Fatalf("got %q, %v", b, err)
	}
	if _, err := s.Write(b); err != nil {
		t.Errorf("Write: got %v, since its deadline was over before", err)
	}
	if err := await(t, done, "the client"); err != nil {
		t.Error(err)
	}
}

// Large messages pass both ways.
func TestTLSLarge(t *testing.T) {
	ours := newAuthority(t, "ours")
	body := strings.Repeat("0123456789abcdef", 1<<16)
	for _, k := range kinds()[:2] {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			addr, _ := running(t, k.start(t, ours.server("gw.test", nil, false), Timeouts{}, echoAny, new(logged)))
			c, r := dialTLS(t, addr, ours.client(nil, inAnHour))
			for range 3 {
				if answer, err := k.call(c, r, body); answer != body {
					t.Fatalf("got %d octets, %v", len(answer), err)
				}
			}
		})
	}
}

// A guard over a framed listener, which has no fields, knows callers by their
// certificate.
func TestTLSFramedCertificate(t *testing.T) {
	noLeaks(t)
	ours := newAuthority(t, "ours")
	subjects, err := guard.NewSubjects([]string{"erp.test"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Options{Subjects: subjects})
	if err != nil {
		t.Fatal(err)
	}
	k := kinds()[2]
	addr, _ := running(t, k.start(t, ours.server("gw.test", ours, true), Timeouts{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		name, _, denial := g.Enter(&guard.Caller{Addr: ex.Client.Addr(), Certificate: ex.Certificate})
		if denial != nil {
			return &proxy.Reply{Status: denial.Status, Code: soapcodec.CodeNotAuthorised}
		}
		defer g.Leave()
		return textReply(200, name)
	}, new(logged)))
	c, r := dialTLS(t, addr, ours.client(ours, inAnHour))
	if answer, err := k.call(c, r, "<x/>"); answer != "mtls:erp.test" {
		t.Errorf("got %q, %v", answer, err)
	}
	c, r = dialTLS(t, addr, ours.client(nil, inAnHour))
	if answer, err := k.call(c, r, "<x/>"); !strings.Contains(answer, ">NotAuthorised<") {
		t.Errorf("without a certificate: got %q, %v", answer, err)
	}
}

func TestTLSConfig(t *testing.T) {
	ours := newAuthority(t, "ours")
	certificate, key := ours.issue("a.test", inAnHour)
	_, other := ours.issue("b.test", inAnHour)
	for name, tt := range map[string]struct {
		opt  TLSOptions
		want string
	}{
		"nothing":      {TLSOptions{}, "certificate: "},
		"other key":    {TLSOptions{Certificate: certificate, Key: other}, "certificate: "},
		"swapped":      {TLSOptions{Certificate: key, Key: certificate}, "certificate: "},
		"empty roots":  {TLSOptions{Certificate: certificate, Key: key, ClientCA: []byte{}}, "client ca: "},
		"key as roots": {TLSOptions{Certificate: certificate, Key: key, ClientCA: key}, "client ca: "},
	} {
		if _, err := TLSConfig(tt.opt); err == nil || !strings.Contains(err.Error(), "listen: tls: "+tt.want) {
			t.Errorf("TLSConfig, %s: got %v, want %s", name, err, tt.want)
		}
	}
}

// A listener whose certificates are issued shows each client what it is given. An
// authority that looks for a challenge is asked for no certificate, and gets no
// further than its handshake.
func TestTLSIssued(t *testing.T) {
	ours := newAuthority(t, "ours")
	pair, err := tls.X509KeyPair(ours.issue("gw.test", inAnHour))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			asked := make(chan string, 1)
			cfg, err := TLSConfig(TLSOptions{ClientCA: ours.pem, Issued: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if hello.ServerName == "none.test" {
					return nil, errors.New("none yet")
				}
				asked <- hello.ServerName
				return &pair, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			log := new(logged)
			addr, stop := running(t, k.start(t, cfg, Timeouts{}, echoAny, log))
			client := ours.client(ours, inAnHour)
			c, r := dialTLS(t, addr, client)
			if answer, err := k.call(c, r, "<x/>"); answer != "<x/>" || await(t, asked, "question") != "gw.test" {
				t.Errorf("got %q, %v", answer, err)
			}
			looks := ours.client(nil, inAnHour)
			looks.NextProtos = []string{"acme-tls/1"}
			c, r = dialTLS(t, addr, looks)
			if err := c.Handshake(); err != nil || c.ConnectionState().NegotiatedProtocol != "acme-tls/1" || await(t, asked, "question") != "gw.test" {
				t.Errorf("challenge: got %v, protocol %q", err, c.ConnectionState().NegotiatedProtocol)
			}
			if answer, err := k.call(c, r, "<x/>"); err == nil {
				t.Errorf("challenge: got %q, want the connection closed", answer)
			}
			both := ours.client(nil, inAnHour) // who speaks anything else too is a client like any other
			both.NextProtos = []string{"acme-tls/1", "http/1.1"}
			c, r = dialTLS(t, addr, both)
			if answer, err := k.call(c, r, "<x/>"); err == nil {
				t.Errorf("without a certificate: got %q", answer)
			}
			<-asked
			for until := time.After(patience); !strings.Contains(log.String(), "TLS handshake failed"); { // told after the client
				select {
				case <-until:
					t.Fatalf("log: got %q", log)
				case <-time.After(time.Millisecond):
				}
			}
			stop()
			if s := log.String(); strings.Count(s, "TLS handshake failed") != 1 {
				t.Errorf("log: got %q", s)
			}
		})
	}
}
