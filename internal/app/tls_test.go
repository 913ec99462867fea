package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs certificates into a folder.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

// newAuthority makes one whose own certificate is in the file ca.pem.
func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: t.TempDir(), key: key, pool: x509.NewCertPool()}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.put("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) put(name, kind string, der []byte) {
	a.t.Helper()
	write(a.t, filepath.Join(a.dir, name), string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// issue writes NAME.pem and NAME.key and returns them as a pair.
func (a *authority) issue(name string, serial int64, until time.Time) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name, Organization: []string{"Example"}},
		DNSNames: []string{name + ".test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.put(name+".key", "PRIVATE KEY", private)
	a.put(name+".pem", "CERTIFICATE", der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// client is a client that shows the pairs, and its connections.
func (a *authority) client(pairs ...tls.Certificate) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool, Certificates: pairs}}
	a.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// yaml is a configuration with TLS on all three kinds of listener.
func (a *authority) yaml(routes string) string {
	over := `tls: {certificate: "` + filepath.Join(a.dir, "gw.pem") + `", key: "` + filepath.Join(a.dir, "gw.key") + `", client_ca: "` + filepath.Join(a.dir, "ca.pem") + `", client_auth: request}`
	return `
admin: {address: "127.0.0.1:0"}
listeners:
  - {name: fast, address: "127.0.0.1:0", ` + over + `}
  - {name: std, address: "127.0.0.1:0", engine: std, ` + over + `}
  - {name: plant, address: "127.0.0.1:0", protocol: framed, length: 4, route: erp, ` + over + `}
routes:
` + routes
}

// askTLS posts the envelope and returns status and the answer.
func (g *gateway) askTLS(client *http.Client, listener, path string, fields ...string) (int, string, error) {
	req, err := http.NewRequestWithContext(context.Background(), "POST", "https://"+g.addr(listener)+path, strings.NewReader(envelope))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// frameTLS sends the envelope as a frame and returns the answer.
func (g *gateway) frameTLS(a *authority, pairs ...tls.Certificate) (string, error) {
	c, err := tls.Dial("tcp", g.addr("plant"), &tls.Config{RootCAs: a.pool, Certificates: pairs})
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(envelope))), envelope...)); err != nil {
		return "", err
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return "", err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size))
	_, err = io.ReadFull(c, answer)
	return string(answer), err
}

// TestMTLS: who may send is told by the certificate, over every listener, and
// nodes learn that the caller came over TLS.
func TestMTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", 2, time.Now().Add(100*time.Hour))
	erp, eve := a.issue("erp", 3, time.Now().Add(time.Hour)), a.issue("eve", 4, time.Now().Add(time.Hour))
	var proto atomic.Value
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Header.Get("X-Forwarded-Proto") + " " + r.Header.Get("Forwarded"))
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.Copy(w, r.Body)
	}))
	defer node.Close()
	tokens := filepath.Join(a.dir, "tokens")
	write(t, tokens, "crm tok\n")
	g := start(t, a.yaml(`
  - {name: erp, match: {path: /erp}, to: ["builtin:echo"], auth: {mtls: {subjects: ["CN=erp,O=Example"]}}}
  - {name: both, match: {path: /both}, to: ["builtin:echo"], auth: {mtls: {subjects: [eve.test]}, bearer: "`+tokens+`"}}
  - {name: all, match: {path: /all}, to: ["`+node.URL+`"]}
`))
	callers := map[string]*http.Client{"": a.client(), "erp": a.client(erp), "eve": a.client(eve)}
	for _, listener := range []string{"fast", "std"} {
		for _, tt := range []struct {
			who, path string
			fields    []string
			want      int
		}{
			{"", "/erp", nil, 403},
			{"erp", "/erp", nil, 200},
			{"eve", "/erp", nil, 403},
			{"", "/both", nil, 401},
			{"erp", "/both", nil, 401},
			{"eve", "/both", nil, 200},
			{"", "/both", []string{"Authorization", "Bearer tok"}, 200},
			{"eve", "/all", nil, 200},
		} {
			got, body, err := g.askTLS(callers[tt.who], listener, tt.path, tt.fields...)
			if got != tt.want || err != nil {
				t.Errorf("%s, %s as %q: got %d %v %s, want %d", listener, tt.path, tt.who, got, err, body, tt.want)
			}
		}
		if got := fmt.Sprint(proto.Swap("")); !strings.HasPrefix(got, "https ") || !strings.Contains(got, "proto=https") {
			t.Errorf("%s: a node was told %q", listener, got)
		}
	}
	if got, err := g.frameTLS(a, erp); !strings.Contains(got, "Envelope") || strings.Contains(got, "NotAuthorised") {
		t.Errorf("framed: got %q, %v", got, err)
	}
	if got, err := g.frameTLS(a); !strings.Contains(got, ">NotAuthorised<") {
		t.Errorf("framed without a certificate: got %q, %v", got, err)
	}
}

// left is what the metric of a listener says.
func (g *gateway) certificateLeft(listener string) time.Duration {
	_, body := g.admin("/metrics")
	_, rest, _ := strings.Cut(body, "\ngateway_certificate_expiry_seconds{listener=\""+listener+"\"} ")
	number, _, _ := strings.Cut(rest, "\n")
	seconds, err := strconv.ParseFloat(number, 64)
	if err != nil {
		g.t.Errorf("no metric of %s: %v", listener, err)
	}
	return time.Duration(seconds * float64(time.Second))
}

// TestCertificateRenewal: new files are taken while calls run, without a failed
// one; files that cannot be used change nothing.
func TestCertificateRenewal(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", 10, time.Now().Add(100*time.Hour))
	g := start(t, a.yaml(`
  - {name: erp, to: ["builtin:echo"]}
`))
	if got := g.certificateLeft("fast"); got < 99*time.Hour || got > 100*time.Hour {
		t.Errorf("metric: got %v, want 100 hours", got)
	}
	serial := func(listener string) int64 {
		c, err := tls.Dial("tcp", g.addr(listener), &tls.Config{RootCAs: a.pool})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var calls, failed atomic.Int64
	for _, listener := range []string{"fast", "std"} {
		for _, keep := range []bool{true, false} {
			client := a.client()
			client.Transport.(*http.Transport).DisableKeepAlives = !keep
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					calls.Add(1)
					if status, _, err := g.askTLS(client, listener, "/"); status != 200 || err != nil {
						failed.Add(1)
						t.Errorf("%s: got %d, %v", listener, status, err)
						return
					}
				}
			})
		}
	}
	for n := int64(11); n < 14; n++ {
		a.issue("gw", n, time.Now().Add(200*time.Hour))
		g.eventually("the new certificate", func() bool { return serial("fast") == n && serial("std") == n && serial("plant") == n })
	}
	close(stop)
	callers.Wait()
	if calls.Load() == 0 || failed.Load() != 0 {
		t.Errorf("got %d calls, %d failed", calls.Load(), failed.Load())
	}
	if got := g.certificateLeft("plant"); got < 199*time.Hour {
		t.Errorf("metric: got %v, want 200 hours", got)
	}

	// A key that belongs to another certificate.
	a.issue("other", 20, time.Now().Add(time.Hour))
	other, err := os.ReadFile(filepath.Join(a.dir, "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	right, err := os.ReadFile(filepath.Join(a.dir, "gw.key"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(a.dir, "gw.key"), string(other))
	g.eventually("the refusal", func() bool {
		return g.metric("gateway_config_reload_ok 0") && strings.Contains(g.log.String(), "listeners.fast.tls.certificate: cannot be used with the key")
	})
	if got := serial("fast"); got != 13 {
		t.Errorf("after a refused reload: got certificate %d, want 13", got)
	}
	write(t, filepath.Join(a.dir, "gw.key"), string(right))
	g.eventually("the reload", func() bool { return g.metric("gateway_config_reload_ok 1") })
}

// TestExpiredCertificate: the gateway starts, says so, and clients refuse it.
func TestExpiredCertificate(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", 2, time.Now().Add(-time.Hour))
	g := start(t, a.yaml(`
  - {name: erp, to: ["builtin:echo"]}
`))
	if s := g.log.String(); strings.Count(s, "certificate has expired") != 3 {
		t.Errorf("log: got %s", s)
	}
	if got := g.certificateLeft("std"); got > -59*time.Minute || got < -2*time.Hour {
		t.Errorf("metric: got %v, want an hour ago", got)
	}
	if _, _, err := g.askTLS(a.client(), "fast", "/"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("got %v", err)
	}
}

// TestSubjectProblems: what is no subject is told at its place.
func TestSubjectProblems(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", 2, time.Now().Add(time.Hour))
	cfg := load(t, a.yaml(`
  - {name: erp, to: ["builtin:echo"], auth: {mtls: {subjects: ["CN=erp", "CN=a,FOO=b"]}}}
`))
	err := Check(cfg)
	if err == nil || !strings.Contains(err.Error(), `routes.erp.auth.mtls.subjects[1]: has an attribute of a type that is not known`) || bytes.Count([]byte(err.Error()), []byte("\n")) != 0 {
		t.Errorf("Check: got %v", err)
	}
}
