package enrol

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The paths of the hub that this package answers.
const (
	JoinPath  = "/_site/v1/join"
	RenewPath = "/_site/v1/renew"
)

// messageMost is the size of a request or an answer, at most.
const messageMost = 64 << 10

// callTimeout is what a hub has for an answer.
const callTimeout = 30 * time.Second

// joinRequest and joinReply are the bodies of JoinPath, renewRequest and
// renewReply those of RenewPath, all in JSON.
type joinRequest struct {
	Token   string `json:"token"`
	Request string `json:"request"` // PEM
}

type joinReply struct {
	Hub         string   `json:"hub"`  // name of the site that answers
	Site        string   `json:"site"` // name of the site that joins
	Authority   string   `json:"authority"`
	Certificate string   `json:"certificate"`
	Routes      []string `json:"routes"` // of the hub, that the site may send to
}

type renewRequest struct {
	Request string `json:"request"`
}

type renewReply struct {
	Certificate string `json:"certificate"`
}

type errorReply struct {
	Error string `json:"error"`
}

// Joined is what a site gets by joining.
type Joined struct {
	Hub, Site string
	Routes    []string
	// Authority is that of the hub, in PEM; Public says that its listener has a
	// certificate that this machine trusts without it.
	Authority []byte
	Public    bool
	// Pair is certificate and key, in PEM.
	Pair []byte
}

// NewKey makes the key of a site, in PEM. Join takes it: it is kept before, so that
// a second try after a lost answer has the same.
func NewKey() ([]byte, error) {
	_, text, err := newKey()
	return text, err
}

// Join asks the hub at base (https://host:port) for a certificate. The secret of
// the token is sent only to who has the authority that the token names.
func Join(ctx context.Context, base string, t Token, keyText []byte) (*Joined, error) {
	key, err := keyOf(keyText)
	if err != nil {
		return nil, fmt.Errorf("enrol: key: %w", err)
	}
	request, err := newRequest(key)
	if err != nil {
		return nil, err
	}
	u, err := hubURL(base, JoinPath)
	if err != nil {
		return nil, err
	}
	public := false
	client := clientOf(&tls.Config{
		MinVersion: tls.VersionTLS12,
		// The chain is verified below, by the token or as everywhere.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) (err error) {
			public, err = t.trusts(c)
			return err
		},
	})
	defer client.CloseIdleConnections()
	var r joinReply
	if err := call(ctx, client, u, &joinRequest{t.Reveal(), string(request)}, &r); err != nil {
		return nil, err
	}
	ca, err := certificateOf([]byte(r.Authority))
	if err != nil || sha256.Sum256(ca.Raw) != t.pin {
		return nil, errors.New("enrol: the hub answered with another authority than that of the token")
	}
	cert, err := certificateOf([]byte(r.Certificate))
	if err != nil {
		return nil, fmt.Errorf("enrol: the answer of the hub: %w", err)
	}
	if pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(cert.PublicKey) || cert.CheckSignatureFrom(ca) != nil {
		return nil, errors.New("enrol: the hub answered with a certificate that is not for this key, or not of its authority")
	}
	return &Joined{
		Hub: r.Hub, Site: r.Site, Routes: r.Routes, Authority: pemOf(ca.Raw), Public: public,
		Pair: append(pemOf(cert.Raw), keyText...),
	}, nil
}

// trusts verifies a hub by the token: its chain has the authority that the token
// names, and is good by it. Public says that it is good by this machine's own
// authorities instead; the answer is compared with the token then.
func (t Token) trusts(c tls.ConnectionState) (public bool, err error) {
	leaf := c.PeerCertificates[0]
	opt := x509.VerifyOptions{DNSName: c.ServerName, Intermediates: x509.NewCertPool()}
	for _, cert := range c.PeerCertificates[1:] {
		if sha256.Sum256(cert.Raw) == t.pin {
			opt.Roots = x509.NewCertPool()
			opt.Roots.AddCert(cert)
		}
		opt.Intermediates.AddCert(cert)
	}
	if _, err := leaf.Verify(opt); err != nil {
		if opt.Roots == nil {
			return false, fmt.Errorf("the hub shows neither the authority of the token nor a certificate that this machine trusts: %w", err)
		}
		return false, err
	}
	return opt.Roots == nil, nil
}

// Renew asks the hub for the successor of a pair (PEM), over a connection that
// shows it, and returns the new pair with a new key.
func Renew(ctx context.Context, base string, cfg *tls.Config) (pair []byte, err error) {
	u, err := hubURL(base, RenewPath)
	if err != nil {
		return nil, err
	}
	key, keyText, err := newKey()
	if err != nil {
		return nil, err
	}
	request, err := newRequest(key)
	if err != nil {
		return nil, err
	}
	client := clientOf(cfg)
	defer client.CloseIdleConnections()
	var r renewReply
	if err := call(ctx, client, u, &renewRequest{string(request)}, &r); err != nil {
		return nil, err
	}
	cert, err := certificateOf([]byte(r.Certificate))
	if err != nil {
		return nil, fmt.Errorf("enrol: the answer of the hub: %w", err)
	}
	if pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(cert.PublicKey) {
		return nil, errors.New("enrol: the hub answered with a certificate that is not for this key")
	}
	return append(pemOf(cert.Raw), keyText...), nil
}

func clientOf(cfg *tls.Config) *http.Client {
	return &http.Client{
		Timeout:   callTimeout,
		Transport: &http.Transport{TLSClientConfig: cfg, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the hub redirects: give the address that it redirects to")
		},
	}
}

// hubURL checks the address of a hub and appends a path.
func hubURL(base, path string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return "", errors.New("enrol: the address of a hub is https://HOST:PORT")
	}
	return "https://" + u.Host + path, nil
}

// A RefusedError is an answer of the hub that is not the one that was asked for.
type RefusedError struct {
	Status int
	Reason string // as the hub says, "" if it says none
}

// Error names the status, and the hub's reason if there is one.
func (e *RefusedError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the hub answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the hub answered %d: %s", e.Status, e.Reason)
}

func call(ctx context.Context, client *http.Client, u string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, messageMost))
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		var e errorReply
		_ = json.Unmarshal(text, &e) // something else may have answered
		return &RefusedError{res.StatusCode, printable(e.Error)}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("enrol: the answer of the hub cannot be read: %w", err)
	}
	return nil
}

// printable bounds what another machine says, and keeps it to one line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), 300)]
}

func newRequest(key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
