package casetest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"soapway/internal/acmelab"
)

// TestIssuedCertificates: listeners have certificates of an authority, by either
// challenge, while the gateway serves all else; a restart needs no authority.
func TestIssuedCertificates(t *testing.T) {
	port443, port80 := acmelab.NewPort(t), acmelab.NewPort(t)
	ca := acmelab.Start(t, acmelab.Options{Life: time.Hour, TLSPort: port443.Number, HTTPPort: port80.Number})
	dir := filepath.Join(t.TempDir(), "acme")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain := free.Addr().(*net.TCPAddr).Port
	free.Close()
	acme := fmt.Sprintf("email: ops@gw.test, ca: %q, root_ca: %q, dir: %q", ca.Directory, ca.RootFile, dir)
	config := preamble + fmt.Sprintf(`
listeners:
  - {name: plain, address: "127.0.0.1:%[1]d"}
  - {name: web, address: "127.0.0.1:0", tls: {acme: {domains: [gw.test, other.test], %[2]s}}}
  - {name: frames, address: "127.0.0.1:0", protocol: framed, length: 4, route: echo, tls: {acme: {domains: [frames.test], challenge: http, http_port: %[1]d, %[2]s}}}
routes: [{name: echo, to: ["builtin:echo"]}]
`, plain, acme)
	g := start(t, config)
	msg := envelope("1.1", `<x/>`)
	if a := post(t, g.addr["plain"], "/", xml11(""), msg); a.Status != 200 {
		t.Errorf("while no certificate is there: got %s", a)
	}
	left := func(g *gateway, listener string) float64 {
		n, err := g.metric(`gateway_certificate_expiry_seconds{listener="` + listener + `"}`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(g, "web"); n != 0 {
		t.Errorf("certificate_expiry_seconds: got %v, want 0", n)
	}
	port443.Lead(g.addr["web"])
	port80.Lead(g.addr["plain"])
	// The first try may have been before that; the next is a minute later.
	in := func(g *gateway) bool {
		return eventually(90*time.Second, func() bool { return left(g, "web") > 0 && left(g, "frames") > 0 })
	}
	if !in(g) {
		t.Fatalf("no certificates: %s\n%s", g.log, ca.Log())
	}
	check := func(t *testing.T, g *gateway) {
		t.Helper()
		if n := left(g, "web"); n < 3000 || n > 3600 {
			t.Errorf("certificate_expiry_seconds: got %v, want an hour", n)
		}
		for _, name := range []string{"gw.test", "other.test"} {
			tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Roots, ServerName: name}, ForceAttemptHTTP2: true}
			resp, err := (&http.Client{Transport: tr}).Post("https://"+g.addr["web"]+"/", "text/xml", bytes.NewReader(msg))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			tr.CloseIdleConnections()
			if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 || !bytes.Equal(body, msg) {
				t.Errorf("%s: got %s %s %q, %v", name, resp.Proto, resp.Status, body, err)
			}
		}
		// A client that names nobody gets the first name's.
		c, err := tls.Dial("tcp", g.addr["web"], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ConnectionState().PeerCertificates[0].VerifyHostname("gw.test"); err != nil {
			t.Error(err)
		}
		c.Close()
		c, err = tls.Dial("tcp", g.addr["frames"], &tls.Config{RootCAs: ca.Roots, ServerName: "frames.test"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		c.Write(frame(4, msg))
		got := make([]byte, 4+len(msg))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got[4:], msg) {
			t.Errorf("framed: got %q, %v", got, err)
		}
		// Connections for a challenge carry nothing.
		if c, err := tls.Dial("tcp", g.addr["web"], &tls.Config{InsecureSkipVerify: true, ServerName: "gw.test", NextProtos: []string{"acme-tls/1"}}); err == nil {
			t.Errorf("no challenge is open: got %v", c.ConnectionState().NegotiatedProtocol)
			c.Close()
		}
		if a := exchange(t, g.addr["plain"], []byte("GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: frames.test\r\n\r\n")); a.Status != 404 {
			t.Errorf("no challenge is open: got %s", a)
		}
	}
	check(t, g)
	// The authority names any moment of the life of so short a certificate for its
	// renewal (RFC 9773), which may be at once.
	first := regexp.MustCompile(`"certificate issued".*"renewal":false`)
	if s := g.log.String(); len(first.FindAllString(s, -1)) != 3 || strings.Contains(s, "ops@gw.test") {
		t.Errorf("log: %s", s)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	g.ended = true

	port443.Lead("")
	port80.Lead("")
	g = start(t, config)
	if !in(g) {
		t.Fatalf("no certificates after a restart: %s", g.log)
	}
	check(t, g)
	if s := g.log.String(); strings.Contains(s, "certificate issued") {
		t.Errorf("a restart asked the authority: %s", s)
	}

	// A folder that cannot be written is a problem at the start.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := strings.ReplaceAll(strings.ReplaceAll(config, dir, filepath.Join(file, "acme")), fmt.Sprintf("127.0.0.1:%d", plain), "127.0.0.1:0")
	if _, err := startGateway(t.TempDir(), bad); err == nil || !strings.Contains(err.Error(), "listeners.web.tls.acme.dir: cannot be used") {
		t.Errorf("a folder below a file: got %v", err)
	}
}
