package enrol

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"soapway/internal/durable"
)

const (
	authorityLife = 20 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour
	siteLife      = 90 * 24 * time.Hour
	// skew is how far in the past a certificate begins: clocks of sites differ, by an
	// hour where somebody has a wrong zone, and by seconds beside that. The key is
	// new, so what lies before says nothing to anybody.
	skew = 24 * time.Hour
)

// The files of an authority.
const (
	caName         = "ca.crt"
	caKeyName      = "ca.key"
	invitesName    = "invites"
	certificatesIn = "certificates"
)

// ServerFile is the file with certificates and key for the listener of a hub.
const ServerFile = "server.pem"

// ErrNoAuthority: the directory has no authority yet; an invitation makes one.
var ErrNoAuthority = errors.New("there is no authority in the directory")

// Authority is what signs the certificates of sites. It is safe for concurrent
// use, by several processes too.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	now  func() time.Time

	mu sync.Mutex // one writer in this process; renames order those of several
}

// Open reads the authority in dir; the error wraps [ErrNoAuthority] if there is
// none.
func Open(dir string) (*Authority, error) {
	text, err := os.ReadFile(filepath.Join(dir, caName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("enrol: %s: %w", dir, ErrNoAuthority)
	}
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	cert, err := certificateOf(text)
	if err != nil {
		return nil, fmt.Errorf("enrol: %s: %w", filepath.Join(dir, caName), err)
	}
	keyText, err := os.ReadFile(filepath.Join(dir, caKeyName))
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	key, err := keyOf(keyText)
	if err != nil {
		return nil, fmt.Errorf("enrol: %s: %w", filepath.Join(dir, caKeyName), err)
	}
	if pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("enrol: %s: %s is not the key of %s", dir, caKeyName, caName)
	}
	return &Authority{dir: dir, cert: cert, key: key, now: time.Now}, nil
}

// Create is Open that makes the authority of a site first if there is none.
func Create(dir, site string) (*Authority, error) {
	a, err := Open(dir)
	if !errors.Is(err, ErrNoAuthority) {
		return a, err
	}
	for _, d := range []string{dir, filepath.Join(dir, invitesName), filepath.Join(dir, certificatesIn)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("enrol: %w", err)
		}
	}
	key, keyText, err := newKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: site + " sites", Organization: []string{"Soapway"}},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	// The certificate goes last: without it there is no authority, and the next try
	// makes another key.
	if err := writeFile(filepath.Join(dir, caKeyName), keyText, 0o600); err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, caName), pemOf(der), 0o644); err != nil {
		return nil, err
	}
	return Open(dir)
}

// Certificate is that of the authority, in PEM.
func (a *Authority) Certificate() []byte { return pemOf(a.cert.Raw) }

// pin is what a token says of the authority.
func (a *Authority) pin() [sha256.Size]byte { return sha256.Sum256(a.cert.Raw) }

// Server makes the certificate of the hub's listener for these hosts, names or
// addresses, and reports whether it did: one that has them all and two thirds of
// its life stays. No hosts are those that the present one has.
func (a *Authority) Server(hosts []string) (made bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := filepath.Join(a.dir, ServerFile)
	var old *x509.Certificate
	if text, err := os.ReadFile(name); err == nil {
		old, _ = certificateOf(text) // one that cannot be read is replaced
	}
	if old != nil {
		had := hostsOf(old)
		fresh := a.now().Before(renewAt(old)) && old.CheckSignatureFrom(a.cert) == nil
		if fresh && !slices.ContainsFunc(hosts, func(h string) bool { return !slices.Contains(had, h) }) {
			return false, nil
		}
		for _, h := range had {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	if len(hosts) == 0 {
		return false, nil
	}
	key, keyText, err := newKey()
	if err != nil {
		return false, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: hosts[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := a.sign(template, key.Public(), serverLife)
	if err != nil {
		return false, err
	}
	// The chain has the authority, by which a token is compared. One file has the
	// key too, so that a crash cannot leave a pair of which half is old.
	chain := append(append(pemOf(der), a.Certificate()...), keyText...)
	if err := writeFile(name, chain, 0o600); err != nil {
		return false, err
	}
	return true, nil
}

// sign makes a certificate of the authority; the template says for what.
func (a *Authority) sign(template *x509.Certificate, pub crypto.PublicKey, life time.Duration) ([]byte, error) {
	now := a.now()
	template.SerialNumber = newSerial()
	template.NotBefore, template.NotAfter = now.Add(-skew), now.Add(life)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	return der, nil
}

// signSite makes the certificate of a site.
func (a *Authority) signSite(site string, pub crypto.PublicKey) (*x509.Certificate, error) {
	der, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: site, Organization: a.cert.Subject.Organization},
		URIs:        []*url.URL{{Scheme: "urn", Opaque: "soapway:site:" + site}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, pub, siteLife)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// renewAt is when a third of the life of a certificate is left.
func renewAt(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

func hostsOf(c *x509.Certificate) (hosts []string) {
	hosts = append(hosts, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// newSerial is a random serial number of 127 bits (RFC 5280 §4.1.2.2: positive, at
// most 20 octets).
func newSerial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("enrol: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("enrol: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// certificateOf reads the first certificate of a PEM text.
func certificateOf(text []byte) (*x509.Certificate, error) {
	b := blockOf(text, "CERTIFICATE")
	if b == nil {
		return nil, errors.New("has no certificate in PEM")
	}
	return x509.ParseCertificate(b)
}

func keyOf(text []byte) (crypto.Signer, error) {
	b := blockOf(text, "PRIVATE KEY")
	if b == nil {
		return nil, errors.New("has no private key in PEM (PKCS #8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(b)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("has a key that cannot sign")
	}
	return signer, nil
}

func blockOf(text []byte, kind string) []byte {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return nil
		}
		if b.Type == kind {
			return b.Bytes
		}
	}
}

// WritePair makes data, such as [Joined].Pair, the content of a file that its owner
// alone can read: a crash leaves the old or the new.
func WritePair(name string, data []byte) error { return writeFile(name, data, 0o600) }

func writeFile(name string, data []byte, mode fs.FileMode) error {
	if err := durable.WriteFile(name, data, mode); err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	return nil
}
