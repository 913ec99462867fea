package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
)

// ALPN is the protocol that a connection agrees on to which an authority looks
// for the challenge tls-alpn-01 (RFC 8737 §6.2). It carries nothing.
const ALPN = "acme-tls/1"

// ErrNone says that there is no certificate yet.
var ErrNone = errors.New("acme: no certificate yet")

// Options configures a [Manager]. Domains and Dir are required.
type Options struct {
	// Domains are the names, or IP addresses, to have a certificate for, one
	// each. A client that asks for none of them gets that of the first.
	Domains []string

	// Dir keeps account, keys and certificates; it is made if it is missing.
	Dir string

	// Email is where the authority writes to. Default: nowhere.
	Email string

	// CA is the URL of the authority's directory. Default: Let's Encrypt.
	CA string

	// Roots vouch for the authority's own certificate. Default: the system's.
	Roots *x509.CertPool

	// HTTP selects the challenge http-01, which the authority makes on port 80.
	// Default: tls-alpn-01, on port 443.
	HTTP bool

	// HTTPPort is where http-01 is answered; port 80 must lead there. If nobody
	// listens on it while a challenge is open the Manager does. Default 80.
	HTTPPort int

	// Every is how often certificates are looked at whether they must be renewed.
	// Default 10m.
	Every time.Duration

	// Log receives what was issued and what failed, and certmagic's own log at
	// level debug. Default: discard.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.CA == "" {
		o.CA = certmagic.LetsEncryptProductionCA
	}
	if o.HTTPPort == 0 {
		o.HTTPPort = 80
	}
	if o.Every == 0 {
		o.Every = 10 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	if len(o.Domains) == 0 {
		errs = append(errs, errors.New("option Domains: got none, want at least one"))
	}
	for _, d := range o.Domains {
		if strings.Contains(d, "*") {
			errs = append(errs, fmt.Errorf("option Domains: got %q, want no wildcard", d))
		}
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("option Dir: got none, want a folder"))
	}
	if o.HTTPPort < 1 || o.HTTPPort > 65535 {
		errs = append(errs, fmt.Errorf("option HTTPPort: got %d, want a port", o.HTTPPort))
	}
	if o.Every < 0 {
		errs = append(errs, fmt.Errorf("option Every: got %v, want more than 0", o.Every))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("acme: options: %w", err)
	}
	return nil
}

// Manager has the certificates of one listener.
type Manager struct {
	opt     Options
	ca      string                           // the host of the authority; its URL may hold secrets
	present atomic.Pointer[certmagic.Config] // nil while Run is not called
	cache   atomic.Pointer[certmagic.Cache]
}

// New returns a manager that has no certificate before Run is called.
func New(opt Options) (*Manager, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	// An authority has names in lower case, and certmagic compares them.
	opt.Domains = slices.Clone(opt.Domains)
	for i, d := range opt.Domains {
		opt.Domains[i] = strings.ToLower(d)
	}
	ca, err := url.Parse(opt.CA)
	if err != nil || ca.Host == "" {
		return nil, errors.New("acme: options: option CA: got no URL with a host")
	}
	return &Manager{opt: opt, ca: ca.Host}, nil
}

// Run gets and renews the certificates until ctx is cancelled; it never fails.
// at is the address of the listener that shows them, which is bound: that tells
// the challenge that somebody answers there. Call it once.
func (m *Manager) Run(ctx context.Context, at netip.AddrPort) error {
	log := bridge(m.opt.Log)
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return m.present.Load(), nil },
		RenewCheckInterval: m.opt.Every,
		Logger:             log,
	})
	defer cache.Stop()
	magic := certmagic.New(cache, certmagic.Config{
		Storage:            &certmagic.FileStorage{Path: m.opt.Dir},
		DefaultServerName:  m.opt.Domains[0],
		FallbackServerName: m.opt.Domains[0],
		OCSP:               certmagic.OCSPConfig{DisableStapling: true},
		KeySource:          certmagic.StandardKeyGenerator{KeyType: certmagic.P256},
		OnEvent:            m.tell,
		ShouldEmitFunc:     func(event string) bool { return event == obtained || event == failed },
		Logger:             log,
	})
	magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(magic, certmagic.ACMEIssuer{
		CA:                        m.opt.CA,
		Email:                     m.opt.Email,
		Agreed:                    true, // whoever writes acme into the configuration has
		TrustedRoots:              m.opt.Roots,
		DisableHTTPChallenge:      !m.opt.HTTP,
		DisableTLSALPNChallenge:   m.opt.HTTP,
		DisableDistributedSolvers: true,
		ListenHost:                m.hostOf(at),
		AltHTTPPort:               m.opt.HTTPPort,
		AltTLSALPNPort:            int(at.Port()),
		Logger:                    log,
	})}
	m.cache.Store(cache)
	m.present.Store(magic)
	var names sync.WaitGroup
	for _, name := range m.opt.Domains {
		names.Go(func() { m.obtain(ctx, name) })
	}
	names.Wait()
	<-ctx.Done()
	return nil
}

// obtain returns when there is a certificate, which the cache then renews, or
// ctx is done. certmagic tries again by itself what an authority refuses.
func (m *Manager) obtain(ctx context.Context, name string) {
	magic, cache := m.present.Load(), m.cache.Load()
	for pause := time.Second; ; pause = min(2*pause, time.Hour) {
		_, err := magic.CacheManagedCertificate(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = magic.ObtainCertAsync(ctx, name); err == nil {
				_, err = magic.CacheManagedCertificate(ctx, name)
			}
		}
		if err == nil {
			// It may be one that should have been renewed while nobody ran.
			err = cache.RenewManagedCertificates(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		m.opt.Log.Warn("certificate is missing, it is tried again", "name", name, "err", err, "hint", m.hint(name, err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Prepare makes the folder, and finds out whether it can be written.
func (m *Manager) Prepare() error {
	if err := os.MkdirAll(m.opt.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(m.opt.Dir, ".try-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// hostOf is the host to bind for the same address; "" is all. The challenge http-01
// comes from outside also where what shows the certificate is on the loopback.
func (m *Manager) hostOf(at netip.AddrPort) string {
	if at.Addr().IsUnspecified() || !at.IsValid() || m.opt.HTTP && at.Addr().IsLoopback() {
		return ""
	}
	return at.Addr().String()
}

// GetCertificate is for a tls.Config. It also answers the challenge tls-alpn-01,
// for connections that agree on [ALPN]; those must not be served.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	magic := m.present.Load()
	if magic == nil {
		return nil, ErrNone
	}
	cert, err := magic.GetCertificate(hello)
	if err == nil || Challenges(hello) {
		return cert, err
	}
	return nil, fmt.Errorf("%w: %w", ErrNone, err)
}

// Challenges reports whether a client is an authority that looks for the
// challenge tls-alpn-01.
func Challenges(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == ALPN
}

// Until is the end of the first certificate to expire; the zero value while one
// is missing.
func (m *Manager) Until() (until time.Time) {
	cache := m.cache.Load()
	if cache == nil {
		return time.Time{}
	}
	for _, name := range m.opt.Domains {
		var latest time.Time // a renewed one may stand beside the one before
		for _, c := range cache.AllMatchingCertificates(name) {
			if c.Leaf != nil && c.Leaf.NotAfter.After(latest) {
				latest = c.Leaf.NotAfter
			}
		}
		if latest.IsZero() {
			return latest
		}
		if until.IsZero() || latest.Before(until) {
			until = latest
		}
	}
	return until
}

// The events of certmagic that are of interest.
const (
	obtained = "cert_obtained"
	failed   = "cert_failed"
)

// tell tells the log what has become of a certificate.
func (m *Manager) tell(_ context.Context, event string, data map[string]any) error {
	name, _ := data["identifier"].(string)
	renewal, _ := data["renewal"].(bool)
	switch event {
	case obtained:
		m.opt.Log.Info("certificate issued", "name", name, "renewal", renewal, "ca", m.ca)
	case failed:
		err, _ := data["error"].(error)
		if errors.Is(err, context.Canceled) {
			return nil // our own stop
		}
		m.opt.Log.Warn("certificate was not issued, it is tried again", "name", name, "renewal", renewal, "ca", m.ca, "err", err, "hint", m.hint(name, err))
	}
	return nil
}

// hint says what to look at when a certificate was not issued.
func (m *Manager) hint(name string, err error) string {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case strings.Contains(text, "rateLimited"), strings.Contains(text, "rate limit"):
		return "the authority has given too many certificates for this name; wait, and keep the folder " + strconv.Quote(m.opt.Dir) + " over restarts"
	case strings.Contains(text, "x509:"), strings.Contains(text, "certificate signed by unknown"):
		return "the authority's own certificate is not believed; name its root in root_ca"
	case strings.Contains(text, "could not start listener"):
		return fmt.Sprintf("port %d cannot be bound; let an http listener have it, or set http_port and lead port 80 there", m.opt.HTTPPort)
	case strings.Contains(text, "storage"):
		return "the folder " + strconv.Quote(m.opt.Dir) + " must be there and writable"
	case strings.Contains(text, "urn:ietf:params:acme:error:"):
		if m.opt.HTTP {
			return fmt.Sprintf("http://%s:80/.well-known/acme-challenge/ must lead to port %d of this gateway, from the authority's side", name, m.opt.HTTPPort)
		}
		return fmt.Sprintf("%s:443 must lead to this listener, from the authority's side, with nothing in between that ends TLS", name)
	}
	return "the authority must be reachable at " + m.ca
}

// KeyAuthorization is what a GET of http://host/path is answered with while the
// challenge http-01 of that host is open (RFC 8555 §8.3), as text/plain or
// application/octet-stream.
func KeyAuthorization(host, path string) (text string, ok bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	c, ok := certmagic.GetACMEChallenge(strings.ToLower(host))
	if !ok || c.Type != "http-01" || path != c.HTTP01ResourcePath() {
		return "", false
	}
	return c.KeyAuthorization, true
}
