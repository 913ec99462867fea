package interop

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"soapway/internal/xmldsig"
)

// signModes are the modes of normalization, all of which leave the digests of
// exclusively canonicalized parts as they are.
var signModes = []string{"keep", "envelope", "canonical"}

// TestSigned signs calls with zeep and sends them through the gateway: behind it
// xmlsec1 still accepts them, and so does a verifier on our own canonical form.
func TestSigned(t *testing.T) {
	if os.Getenv("INTEROP") != "1" {
		t.Skip("needs the peers: bash interop/setup.sh, then INTEROP=1")
	}
	xmlsec1, err := exec.LookPath("xmlsec1")
	if err != nil {
		t.Fatalf("%v (interop/setup.sh installs the peers)", err)
	}
	signer := newSigner(t)
	got := make(chan []byte, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- body
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body) // an envelope, whichever version
	}))
	defer backend.Close()
	var routes strings.Builder
	for _, mode := range signModes {
		routes.WriteString("  - {name: " + mode + ", match: {path: /" + mode + "}, to: [\"" + backend.URL + "\"], soap: {normalize: " + mode + "}}\n")
	}
	addresses := startGateway(t, `admin: {address: "127.0.0.1:0"}
log: {level: info, format: text}
listeners:
  - {name: http, address: "127.0.0.1:0"}
routes:
`+routes.String())

	for _, version := range versions {
		for _, digest := range []string{"sha1", "sha256"} {
			t.Run(version+"-"+digest, func(t *testing.T) {
				signed := loosen(t, signer.sign(t, version, digest))
				signer.verify(t, xmlsec1, version, signed, true)
				signer.verify(t, xmlsec1, version, bytes.Replace(signed, []byte("two  blanks"), []byte("two blanks"), 1), false)
				for _, mode := range signModes {
					res, err := http.Post("http://"+addresses["http"]+"/"+mode, byVersion(version, "text/xml", "application/soap+xml"), bytes.NewReader(signed))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					if res.StatusCode != http.StatusOK {
						t.Fatalf("normalize: %s: got %s, want 200", mode, res.Status)
					}
					body := <-got
					if same := bytes.Equal(body, signed); same != (mode == "keep") {
						t.Errorf("normalize: %s: octets are the same: %v\n%s", mode, same, body)
					}
					signer.verify(t, xmlsec1, version, body, true)
				}
			})
		}
	}
}

// loosen puts blanks, other quotes and comments where the signature does not
// look and normalization does; in the tag of the signed Body too.
func loosen(t *testing.T, signed []byte) []byte {
	t.Helper()
	s := string(signed)
	for _, c := range [][2]string{
		{"<soap-env:Header>", "\n  <!-- head -->\n\t<soap-env:Header >"},
		{"</soap-env:Header>", "\r\n</soap-env:Header\n>  "},
		{"<soap-env:Body ", "<!-- body --><soap-env:Body   "},
		{"</soap-env:Envelope>", "\n</soap-env:Envelope >\n"},
	} {
		if strings.Count(s, c[0]) != 1 {
			t.Fatalf("no single %q in %s", c[0], s)
		}
		s = strings.Replace(s, c[0], c[1], 1)
	}
	return []byte(s)
}

// A signer has a key and a certificate, as files and as values.
type signer struct {
	dir       string
	key, cert string
	public    *rsa.PublicKey
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "depot clerk"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &signer{dir, filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem"), &private.PublicKey}
	if err := errors.Join(
		os.WriteFile(s.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600),
		os.WriteFile(s.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signer) sign(t *testing.T, version, digest string) []byte {
	t.Helper()
	out, err := runCommand("/usr/bin/python3", "zeep/sign.py", s.key, s.cert, version, digest)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verify asks xmlsec1 and our own verifier, which must agree on want.
func (s *signer) verify(t *testing.T, xmlsec1, version string, message []byte, want bool) {
	t.Helper()
	file := filepath.Join(s.dir, "message.xml")
	if err := os.WriteFile(file, message, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(xmlsec1, "--verify", "--pubkey-cert-pem", s.cert,
		"--id-attr:Id", byVersion(version, envelope11, envelope12)+":Body", file).CombinedOutput()
	if (err == nil) != want {
		t.Errorf("xmlsec1: got %v, want valid: %v\n%s\n%s", err, want, out, message)
	}
	ids, err := xmldsig.Verify(message, xmldsig.Key{RSA: s.public})
	if want && (err != nil || len(ids) != 1) || !want && !errors.Is(err, xmldsig.ErrDigest) {
		t.Errorf("Verify: got %v, %v, want valid: %v\n%s", ids, err, want, message)
	}
}
