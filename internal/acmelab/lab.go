package acmelab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// patience bounds every wait for a process.
const patience = 30 * time.Second

// Options configures an [Authority].
type Options struct {
	// Life is how long its certificates are good for, in whole seconds.
	Life time.Duration

	// HTTPPort and TLSPort are where it looks for the challenges http-01 and
	// tls-alpn-01, in place of 80 and 443.
	HTTPPort, TLSPort int
}

// Authority is a pebble that runs until the end of its test.
type Authority struct {
	// Directory is the URL to be configured; RootFile, a PEM file, has the root
	// of its certificate.
	Directory, RootFile string

	// Roots vouch for the certificates that it issues.
	Roots *x509.CertPool

	log *safeBuffer
	cmd *exec.Cmd
}

// build has the go command build pebble into its cache, and says where it is.
var build = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "soapway").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	mod := filepath.Join(string(bytes.TrimSpace(root)), "internal", "tools", "go.mod")
	var complaint bytes.Buffer
	cmd := exec.Command("go", "tool", "-modfile="+mod, "-n", "pebble")
	cmd.Stderr = &complaint
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n pebble: %w\n%s", err, &complaint)
	}
	return string(bytes.TrimSpace(path)), nil
})

// Start runs an authority. Where pebble cannot be had, for want of a network, the
// test is skipped.
func Start(t *testing.T, opt Options) *Authority {
	t.Helper()
	bin, err := build()
	if err != nil {
		for _, offline := range []string{"dial tcp", "lookup ", "GOPROXY=off", "i/o timeout"} {
			if strings.Contains(err.Error(), offline) {
				t.Skipf("no pebble: %v", err)
			}
		}
		t.Fatal(err)
	}
	a := &Authority{log: new(safeBuffer), Roots: x509.NewCertPool()}
	for try := 0; ; try++ {
		err := a.run(t, bin, opt)
		if err == nil {
			return a
		}
		if try == 3 { // its ports may be taken between our look and its start
			t.Fatalf("pebble: %v\n%s", err, a.log)
		}
	}
}

func (a *Authority) run(t *testing.T, bin string, opt Options) error {
	dir := t.TempDir()
	api, management := freePort(t), freePort(t)
	if err := a.writeIdentity(dir); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress":           fmt.Sprintf("127.0.0.1:%d", api),
		"managementListenAddress": fmt.Sprintf("127.0.0.1:%d", management),
		"certificate":             filepath.Join(dir, "cert.pem"),
		"privateKey":              filepath.Join(dir, "key.pem"),
		"httpPort":                opt.HTTPPort,
		"tlsPort":                 opt.TLSPort,
		"keyAlgorithm":            "ecdsa",
		"retryAfter":              map[string]int{"authz": 1, "order": 1},
		"profiles":                map[string]any{"default": map[string]any{"description": "test", "validityPeriod": int(opt.Life.Seconds())}},
	}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	a.cmd = exec.Command(bin, "-config", file, "-dnsserver", names(t))
	a.cmd.Env = append(a.cmd.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=10", "PEBBLE_AUTHZREUSE=0")
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	if err := a.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- a.cmd.Wait() }()
	stop := func() {
		a.cmd.Process.Kill()
		<-ended
	}
	a.Directory = fmt.Sprintf("https://127.0.0.1:%d/dir", api)
	root, err := a.fetch(fmt.Sprintf("https://127.0.0.1:%d/roots/0", management), ended)
	if err != nil {
		if a.cmd.ProcessState == nil {
			stop()
		}
		return err
	}
	if !a.Roots.AppendCertsFromPEM(root) {
		stop()
		return fmt.Errorf("no root in %q", root)
	}
	t.Cleanup(stop)
	return nil
}

// fetch waits until the authority answers.
func (a *Authority) fetch(url string, ended <-chan error) ([]byte, error) {
	pemText, err := os.ReadFile(a.RootFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pemText)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer tr.CloseIdleConnections()
	until := time.After(patience)
	for {
		resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get(url)
		if err == nil {
			defer resp.Body.Close()
			return io.ReadAll(resp.Body)
		}
		select {
		case e := <-ended:
			return nil, fmt.Errorf("it has ended: %w", e)
		case <-until:
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// writeIdentity makes the certificate of the authority's own address.
func (a *Authority) writeIdentity(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pebble"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	a.RootFile = filepath.Join(dir, "cert.pem")
	if err := os.WriteFile(a.RootFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// Log is what the authority has printed.
func (a *Authority) Log() string { return a.log.String() }

// Port is a port of the loopback interface that leads to whatever is given to
// Lead, as one of a router does. It takes no part in what is said.
type Port struct {
	Number int

	mu sync.Mutex
	to string
}

// NewPort opens a port that leads nowhere yet.
func NewPort(t *testing.T) *Port {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Port{Number: ln.Addr().(*net.TCPAddr).Port}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Wait()
	})
	return p
}

// Lead makes connections lead to an address from now on.
func (p *Port) Lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *Port) pass(in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	if to == "" {
		return
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	until := time.Now().Add(patience)
	in.SetDeadline(until)
	out.SetDeadline(until)
	done := make(chan bool, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			io.Copy(way[0], way[1])
			way[0].(*net.TCPConn).CloseWrite()
			done <- true
		}()
	}
	<-done
	<-done
}

// names answers every question for an IPv4 address with 127.0.0.1, and all others
// with nothing; pebble asks over TCP.
func names(t *testing.T) string {
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
			open.Go(func() { answerNames(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Wait()
	})
	return ln.Addr().String()
}

// answerNames answers the questions of a connection.
func answerNames(c net.Conn) {
	defer c.Close()
	for {
		c.SetDeadline(time.Now().Add(time.Second))
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply, err := lookup(query)
		if err != nil {
			return
		}
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	}
}

func lookup(query []byte) ([]byte, error) {
	var q dnsmessage.Message
	if err := q.Unpack(query); err != nil || len(q.Questions) != 1 {
		return nil, fmt.Errorf("acmelab: odd query (%w)", err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true}, Questions: q.Questions}
	if q := q.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return m.Pack()
}

// safeBuffer collects what a process prints.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
