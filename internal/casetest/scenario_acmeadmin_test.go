package casetest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"soapway/internal/acmelab"
)

// serveSecure runs a gateway whose admin listener speaks TLS alone, and returns its
// addresses. The listener is named web.
func serveSecure(t *testing.T, file string) (admin, web string, log *syncBuffer) {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	log = &syncBuffer{}
	cmd := exec.Command(bin, "serve", "--json", "-c", file)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway ended with %v\n%s", err, tail(log.String()))
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || len(r.Listeners) == 0 {
		t.Fatalf("no ready line: %v\n%s", err, log.String())
	}
	return r.Admin, r.Listeners[0].Address, log
}

// TestAdminCertificateIssued: the admin listener has a certificate of an authority, by
// either challenge; before it has one nothing is served in its place, and a restart
// needs no authority. gateway queue believes it at the address that the listener has.
func TestAdminCertificateIssued(t *testing.T) {
	for _, challenge := range []string{"tls-alpn", "http"} {
		t.Run(challenge, func(t *testing.T) {
			port443, port80 := acmelab.NewPort(t), acmelab.NewPort(t)
			ca := acmelab.Start(t, acmelab.Options{Life: time.Hour, TLSPort: port443.Number, HTTPPort: port80.Number})
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			plain := free.Addr().(*net.TCPAddr).Port
			_ = free.Close()
			more := ""
			if challenge == "http" {
				more = fmt.Sprintf(", http_port: %d", plain)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "gateway.yaml")
			config := fmt.Sprintf(`
log: {level: info, format: json}
listeners: [{name: web, address: "127.0.0.1:%d"}]
admin: {address: "127.0.0.1:0", token: s3cret, tls: {acme: {domains: [Admin.test], ca: %q, root_ca: %q, dir: acme, challenge: %s%s}}}
routes: [{name: echo, to: ["builtin:echo"]}]
`, plain, ca.Directory, ca.RootFile, challenge, more)
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}

			t.Run("issued", func(t *testing.T) {
				admin, web, log := serveSecure(t, file)
				if resp, err := http.Get("http://" + admin + "/healthz"); err == nil {
					_ = resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						t.Error("the admin listener answers in the clear")
					}
				}
				port443.Lead(admin)
				port80.Lead(web)
				chain := shownAt(t, admin, ca.Roots, log)
				if err := chain[0].VerifyHostname("admin.test"); err != nil {
					t.Error(err)
				}
				if c, err := tls.Dial("tcp", admin, &tls.Config{InsecureSkipVerify: true, ServerName: "admin.test", NextProtos: []string{"acme-tls/1"}}); err == nil {
					t.Errorf("no challenge is open: got %v", c.ConnectionState().NegotiatedProtocol)
					_ = c.Close()
				}
				metrics, err := secureGet(t, admin, ca.Roots, "/metrics")
				if err != nil || !strings.Contains(metrics, `gateway_certificate_expiry_seconds{listener="admin.address"} 3`) {
					t.Errorf("metrics: %v, %v", err, strings.Contains(metrics, "gateway_certificate_expiry_seconds"))
				}

				// What vouches for it is not in the system's list.
				vouches := filepath.Join(dir, "issuer.pem")
				if err := os.WriteFile(vouches, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[1].Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
				asks := func(args ...string) error {
					bin, _ := build()
					out, err := exec.CommandContext(t.Context(), bin, append([]string{"queue", "ls", "--admin", "https://" + admin, "--token", "s3cret"}, args...)...).CombinedOutput()
					if err != nil {
						err = fmt.Errorf("%w: %s", err, out)
					}
					return err
				}
				if err := asks("-c", file, "--ca", vouches); err != nil {
					t.Errorf("by the name of the configuration: %v", err)
				}
				if err := asks("--ca", vouches); err == nil {
					t.Error("its address is none of its names, and nobody said that it has others")
				}
				if err := asks("-c", file); err == nil {
					t.Error("nobody vouches for it")
				}
			})
			port443.Lead("")
			port80.Lead("")
			t.Run("kept", func(t *testing.T) {
				admin, _, log := serveSecure(t, file)
				shownAt(t, admin, ca.Roots, log)
				if s := log.String(); strings.Contains(s, "certificate issued") {
					t.Errorf("a restart asked the authority: %s", s)
				}
			})
		})
	}
}

// shownAt waits until an address shows a certificate that the roots vouch for.
func shownAt(t *testing.T, address string, roots *x509.CertPool, log *syncBuffer) (chain []*x509.Certificate) {
	t.Helper()
	if !eventually(90*time.Second, func() bool { // the first try may have been before the port led there
		c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "admin.test"})
		if err != nil {
			return false
		}
		chain = c.ConnectionState().PeerCertificates
		return c.Close() == nil
	}) {
		t.Fatalf("no certificate:\n%s", tail(log.String()))
	}
	return chain
}

// secureGet asks an admin listener with the token.
func secureGet(t *testing.T, address string, roots *x509.CertPool, path string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer s3cret")
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "admin.test"}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), errors.Join(err, resp.Body.Close())
}
