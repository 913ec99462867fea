package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"soapway/proxy"
)

// identity writes a self-signed certificate and its key as PEM files.
func identity(t *testing.T, name string) (certificate, key string, pair tls.Certificate) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: der},
		key:         {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.LoadX509KeyPair(certificate, key); err != nil {
		t.Fatal(err)
	}
	return certificate, key, pair
}

// tlsNode is a scripted node behind TLS.
func tlsNode(t *testing.T, cfg *tls.Config, scripts ...script) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, tls.NewListener(ln, cfg), scripts...)
}

func TestTLS(t *testing.T) {
	noLeaks(t)
	ca, _, server := identity(t, "node.test")
	clientCert, clientKey, client := identity(t, "gateway.test")
	pool := x509.NewCertPool()
	pool.AddCert(client.Leaf)
	cfg := &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, NextProtos: []string{"h2", "http/1.1"}}
	addr := tlsNode(t, cfg, func(p *peer) {
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			p.send(okReply)
		}
	})
	frames := tlsNode(t, cfg, echoFrames)
	good, err := TLSConfig(TLSOptions{CA: ca, Certificate: clientCert, Key: clientKey, ServerName: "node.test"})
	if err != nil {
		t.Fatal(err)
	}
	n := newHTTP(t, HTTPOptions{URL: "https://" + addr, TLS: good})
	f := newFramed(t, FramedOptions{Address: frames, TLS: good})
	if got, want := f.Name(), "framed+tls://"+frames; got != want {
		t.Errorf("Name: got %q, want %q", got, want)
	}
	for range 3 { // fresh, then pooled
		for _, node := range []proxy.Node{n, f} {
			resp, err := node.Send(t.Context(), request("<r/>"))
			if err != nil {
				t.Fatalf("%s: %v", node.Name(), err)
			}
			if got := body(t, resp); got != "<r/>" {
				t.Errorf("%s: got %q", node.Name(), got)
			}
		}
	}

	// No handshake, no octet of the request.
	for name, opt := range map[string]TLSOptions{
		"unknown authority": {ServerName: "node.test", Certificate: clientCert, Key: clientKey},
		"other name":        {CA: ca, ServerName: "other.test", Certificate: clientCert, Key: clientKey},
		"address as name":   {CA: ca, Certificate: clientCert, Key: clientKey},
	} {
		cfg, err := TLSConfig(opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range []proxy.Node{newHTTP(t, HTTPOptions{URL: "https://" + addr, TLS: cfg}), newFramed(t, FramedOptions{Address: frames, TLS: cfg})} {
			_, err := node.Send(t.Context(), request("<r/>"))
			if e := sendError(t, err); e.Class != proxy.NotSent || e.Timeout {
				t.Errorf("%s, %s: got %+v, want not sent", node.Name(), name, e)
			}
		}
	}
	insecure, err := TLSConfig(TLSOptions{Insecure: true, Certificate: clientCert, Key: clientKey})
	if err != nil {
		t.Fatal(err)
	}
	m := newHTTP(t, HTTPOptions{URL: "https://" + addr, TLS: insecure})
	resp, err := m.Send(t.Context(), request("<r/>"))
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
}

// A node that takes the connection and never shakes hands.
func TestTLSHandshakeTimeout(t *testing.T) {
	noLeaks(t)
	addr := node(t, func(p *peer) { p.gone() })
	opt := 50 * time.Millisecond
	for _, n := range []proxy.Node{
		newHTTP(t, HTTPOptions{URL: "https://" + addr, ConnectTimeout: opt}),
		newFramed(t, FramedOptions{Address: addr, TLS: new(tls.Config), ConnectTimeout: opt}),
	} {
		_, err := n.Send(t.Context(), request("x"))
		if e := sendError(t, err); e.Class != proxy.NotSent || !e.Timeout {
			t.Errorf("%s: got %+v", n.Name(), e)
		}
	}
}

func TestTLSConfigErrors(t *testing.T) {
	cert, key, _ := identity(t, "x")
	for want, opt := range map[string]TLSOptions{
		"ca: open":               {CA: filepath.Join(t.TempDir(), "none")},
		"no certificate in":      {CA: key},
		"must be given":          {Certificate: cert},
		"certificate: tls":       {Certificate: key, Key: key},
		"ca: open|must be given": {CA: "/none/such", Key: key},
	} {
		_, err := TLSConfig(opt)
		for w := range strings.SplitSeq(want, "|") {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: got %v, want %q", opt, err, w)
			}
		}
	}
}
