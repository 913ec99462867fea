package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An identity is a certificate with its key, for 127.0.0.1.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes an identity and writes NAME.pem and NAME.key into dir; without a
// signer it signs others.
func issue(t *testing.T, dir, name string, signer *identity) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	id := &identity{key: key}
	if signer == nil {
		tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign
		signer = &identity{tmpl, key}
	} else {
		tmpl.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		t.Fatal(err)
	}
	if id.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// testTLS sends the operations of the depot over TLS, with the TLS libraries of
// Python, PHP and Node.
func testTLS(t *testing.T, node string) {
	dir := t.TempDir()
	issue(t, dir, "gateway", issue(t, dir, "ca", nil))
	ca := filepath.Join(dir, "ca.pem")
	over := `tls: {certificate: "` + filepath.Join(dir, "gateway.pem") + `", key: "` + filepath.Join(dir, "gateway.key") + `"}`
	addresses := startGateway(t, `admin: {address: "127.0.0.1:0"}
log: {level: info, format: text}
listeners:
  - {name: fast, address: "127.0.0.1:0", `+over+`}
  - {name: std, address: "127.0.0.1:0", engine: std, `+over+`}
routes:
  - {name: all, to: ["http://`+node+`"]}
`)
	prefixes := map[string][]string{
		"zeep":     {"env", "REQUESTS_CA_BUNDLE=" + ca},
		"php":      {"env", "SSL_CERT_FILE=" + ca},
		"npm-soap": {"env", "NODE_EXTRA_CA_CERTS=" + ca},
	}
	for _, engine := range []string{"fast", "std"} {
		for _, c := range clients {
			prefix, ok := prefixes[c.name]
			if !ok {
				continue
			}
			c.argv = append(prefix, c.argv...)
			for _, v := range c.versions {
				t.Run(engine+"/"+c.name+"-"+v, func(t *testing.T) {
					call(t, c, "https://"+addresses[engine]+"/"+v, v, all, answers(c, v))
				})
			}
		}
	}
}
