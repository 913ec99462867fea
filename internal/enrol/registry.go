package enrol

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"soapway/internal/durable"
)

// InviteLife is how long an invitation is open unless the hub says otherwise.
const InviteLife = 24 * time.Hour

var (
	// ErrRefused: the token is unknown, used, or expired. It does not say which.
	ErrRefused = errors.New("the token is not valid: it is unknown, was used, or has expired")
	// ErrRevoked: the certificate was revoked, or the authority does not know it.
	ErrRevoked = errors.New("the certificate was revoked or is not known here")
	// ErrForeign: another authority has signed the certificate.
	ErrForeign = errors.New("the certificate is not of the authority of this site")

	errRequest = errors.New("enrol: the request for a certificate cannot be used")
)

// Invite is an invitation that is open.
type Invite struct {
	Site    string    `json:"site"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`

	// Key is the SHA-256 of the key that has used it, and Serial what it got: the
	// same key may ask again.
	Key    string `json:"key,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// Issued is a certificate that was given to a site.
type Issued struct {
	Site    string    `json:"site"`
	Serial  string    `json:"serial"` // hexadecimal
	By      string    `json:"by"`     // join or renew
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked,omitzero"`
	PEM     string    `json:"pem"`
}

// Invite opens an invitation for a site.
func (a *Authority) Invite(site string, life time.Duration) (Token, error) {
	t := newToken(a.pin())
	now := a.now().UTC().Truncate(time.Second)
	return t, a.save(a.inviteFile(t), &Invite{Site: site, Created: now, Expires: now.Add(life)})
}

func (a *Authority) inviteFile(t Token) string {
	sum := sha256.Sum256(t.secret[:])
	return filepath.Join(a.dir, invitesName, hex.EncodeToString(sum[:])+".json")
}

func (a *Authority) issuedFile(serial string) string {
	return filepath.Join(a.dir, certificatesIn, serial+".json")
}

func (a *Authority) save(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	return writeFile(name, append(b, '\n'), 0o600)
}

func load[T any](name string) (*T, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("enrol: %s: %w", name, err)
	}
	return v, nil
}

// Join gives a certificate for the key of a request (PEM) to whoever has a token.
// The error is [ErrRefused] if the token does not count.
func (a *Authority) Join(t Token, request []byte) (site string, certificate []byte, err error) {
	key, err := requestKey(request)
	if err != nil {
		return "", nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := a.inviteFile(t)
	inv, err := load[Invite](name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, ErrRefused
	}
	if err != nil {
		return "", nil, err
	}
	sum, err := keySum(key)
	if err != nil {
		return "", nil, err
	}
	if t.pin != a.pin() || a.now().After(inv.Expires) || inv.Key != "" && inv.Key != sum {
		return "", nil, ErrRefused
	}
	if inv.Key != "" { // the answer was lost
		old, err := load[Issued](a.issuedFile(inv.Serial))
		if err != nil {
			return "", nil, err
		}
		if !old.Revoked.IsZero() {
			return "", nil, ErrRefused
		}
		return inv.Site, []byte(old.PEM), nil
	}
	cert, err := a.signSite(inv.Site, key)
	if err != nil {
		return "", nil, err
	}
	is := issuedOf(cert, "join")
	// First the certificate, then the note that the token is used: a crash in between
	// leaves a certificate that nobody has, not a token that is lost.
	if err := a.save(a.issuedFile(is.Serial), is); err != nil {
		return "", nil, err
	}
	inv.Key, inv.Serial = sum, is.Serial
	if err := a.save(name, inv); err != nil {
		return "", nil, err
	}
	return inv.Site, []byte(is.PEM), nil
}

// Renew gives the holder of a certificate that counts another one for the key of a
// request (PEM).
func (a *Authority) Renew(old *x509.Certificate, request []byte) (certificate []byte, err error) {
	site, err := a.Check(old)
	if err != nil {
		return nil, err
	}
	key, err := requestKey(request)
	if err != nil {
		return nil, err
	}
	cert, err := a.signSite(site, key)
	if err != nil {
		return nil, err
	}
	is := issuedOf(cert, "renew")
	if err := a.save(a.issuedFile(is.Serial), is); err != nil {
		return nil, err
	}
	return []byte(is.PEM), nil
}

// Check says which site a certificate belongs to. The error is [ErrForeign] if
// another authority has signed it, and [ErrRevoked] if it does not count any more.
// It reads one small file, so that what a command revokes counts at once.
func (a *Authority) Check(c *x509.Certificate) (site string, err error) {
	if !bytes.Equal(c.RawIssuer, a.cert.RawSubject) || c.CheckSignatureFrom(a.cert) != nil {
		return "", ErrForeign
	}
	is, err := load[Issued](a.issuedFile(serialOf(c)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrRevoked
	}
	if err != nil {
		return "", err
	}
	if now := a.now(); !is.Revoked.IsZero() || now.After(c.NotAfter) || now.Before(c.NotBefore) {
		return "", ErrRevoked
	}
	return is.Site, nil
}

// Revoke ends every certificate and every invitation of a site, and says how many
// there were.
func (a *Authority) Revoke(site string) (certificates, invites int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, err := a.Issued()
	if err != nil {
		return 0, 0, err
	}
	for _, is := range all {
		if is.Site != site || !is.Revoked.IsZero() {
			continue
		}
		is.Revoked = a.now().UTC().Truncate(time.Second)
		if err := a.save(a.issuedFile(is.Serial), is); err != nil {
			return certificates, invites, err
		}
		certificates++
	}
	names, err := a.inviteFiles()
	if err != nil {
		return certificates, invites, err
	}
	for _, name := range names {
		inv, err := load[Invite](name)
		if err != nil {
			return certificates, invites, err
		}
		if inv.Site != site {
			continue
		}
		if err := os.Remove(name); err != nil {
			return certificates, invites, fmt.Errorf("enrol: %w", err)
		}
		if inv.Key == "" && a.now().Before(inv.Expires) {
			invites++
		}
	}
	return certificates, invites, durable.SyncDir(filepath.Join(a.dir, invitesName))
}

// Issued lists the certificates that were given, by site and then by age.
func (a *Authority) Issued() (all []*Issued, err error) {
	names, err := jsonFiles(filepath.Join(a.dir, certificatesIn))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		is, err := load[Issued](name)
		if err != nil {
			return nil, err
		}
		all = append(all, is)
	}
	slices.SortFunc(all, func(x, y *Issued) int {
		if c := strings.Compare(x.Site, y.Site); c != 0 {
			return c
		}
		return x.Created.Compare(y.Created)
	})
	return all, nil
}

// Invites lists the invitations that are open, by site.
func (a *Authority) Invites() (open []*Invite, err error) {
	names, err := a.inviteFiles()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		inv, err := load[Invite](name)
		if err != nil {
			return nil, err
		}
		if inv.Key == "" && a.now().Before(inv.Expires) {
			open = append(open, inv)
		}
	}
	slices.SortFunc(open, func(x, y *Invite) int { return strings.Compare(x.Site, y.Site) })
	return open, nil
}

func (a *Authority) inviteFiles() ([]string, error) {
	return jsonFiles(filepath.Join(a.dir, invitesName))
}

func jsonFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".json" {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

func issuedOf(c *x509.Certificate, by string) *Issued {
	return &Issued{
		Site: c.Subject.CommonName, Serial: serialOf(c), By: by,
		Created: c.NotBefore.Add(skew).UTC(), Expires: c.NotAfter.UTC(), PEM: string(pemOf(c.Raw)),
	}
}

func serialOf(c *x509.Certificate) string { return hex.EncodeToString(c.SerialNumber.Bytes()) }

// requestKey returns the key of a request for a certificate, which its signature
// proves.
func requestKey(text []byte) (crypto.PublicKey, error) {
	b, _ := pem.Decode(text)
	if b == nil || b.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("%w: not in PEM", errRequest)
	}
	r, err := x509.ParseCertificateRequest(b.Bytes)
	if err == nil {
		err = r.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	return r.PublicKey, nil
}

func keySum(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("enrol: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}
