package app

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"soapway/config"
	"soapway/internal/telemetry"
	"soapway/proxy/upstream"
)

// linkCertificate is what the names of the certificates of links begin with, among
// those of the listeners.
const linkCertificate = "sites.links."

// tlsOfLink is how a link proves this site to the other, and that to this one.
func tlsOfLink(l *config.Link) (*tls.Config, error) {
	return upstream.TLSConfig(upstream.TLSOptions{CA: string(l.CA), Certificate: string(l.Certificate), Key: string(l.Key)})
}

// expiryOf is when the certificate that a configuration shows expires, zero if it shows
// none.
func expiryOf(t *tls.Config) time.Time {
	if len(t.Certificates) == 0 || len(t.Certificates[0].Certificate) == 0 {
		return time.Time{}
	}
	leaf := t.Certificates[0].Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(t.Certificates[0].Certificate[0]); err != nil {
			return time.Time{}
		}
	}
	return leaf.NotAfter
}

// certificates are those of the links in use, as a scrape and the alarms tell them.
func (s *sites) certificates() []telemetry.CertificateSample {
	var out []telemetry.CertificateSample
	cfg := s.depot.cfg.Load()
	if cfg == nil || cfg.Sites == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range cfg.Sites.Links {
		name := cfg.Sites.Links[i].Name
		if k, ok := s.known[name]; ok && !k.expires.IsZero() {
			out = append(out, telemetry.CertificateSample{Listener: linkCertificate + name, Until: k.expires})
		}
	}
	slices.SortFunc(out, func(a, b telemetry.CertificateSample) int { return strings.Compare(a.Listener, b.Listener) })
	return out
}
