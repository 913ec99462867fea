package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"time"

	"soapway/config"
	"soapway/internal/acme"
	"soapway/internal/telemetry"
	"soapway/proxy/listen"
)

// secured is the TLS of a listener and what it was made of.
type secured struct {
	files [3][]byte // certificate, key, client_ca
	tls   *tls.Config
	until time.Time     // of the first certificate to expire
	acme  *acme.Manager // that has the certificates instead; nil for files
}

// expires is the end of the first certificate to expire; the zero value while one
// is missing.
func (s *secured) expires() time.Time {
	if s.acme != nil {
		return s.acme.Until()
	}
	return s.until
}

// securities are those of the listeners that have TLS, by the listener's name.
type securities map[string]*secured

// of returns the TLS of a listener; nil is none.
func (s securities) of(listener string) *tls.Config {
	if kept := s[listener]; kept != nil {
		return kept.tls
	}
	return nil
}

// buildTLS reads the certificates of every listener, or takes what old has, with
// its sessions, when the files are the same.
func buildTLS(cfg *config.Config, old securities, log *slog.Logger) (securities, config.Problems) {
	made := securities{}
	var problems config.Problems
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		if l.TLS == nil {
			continue
		}
		problems = append(problems, made.add(cfg, l.Name, "listeners."+l.Name+".tls", l.TLS, old[l.Name], log)...)
	}
	if t := cfg.Admin.TLS; t != nil {
		problems = append(problems, made.add(cfg, adminListener, "admin.tls", t, old[adminListener], log)...)
	}
	return made, problems
}

// adminListener stands for the admin listener among the names of listeners; none of
// them has a dot.
const adminListener = "admin.address"

// add makes the TLS of a listener, or takes what it had.
func (s securities) add(cfg *config.Config, name, key string, t *config.ServerTLS, kept *secured, log *slog.Logger) config.Problems {
	var manager *acme.Manager
	if kept != nil {
		manager = kept.acme // its keys need a restart
	}
	fresh, problems := secure(cfg, key, t, manager, log.With("listener", name))
	if problems != nil {
		return problems
	}
	if kept != nil && fresh.sameAs(kept) {
		fresh = kept
	}
	s[name] = fresh
	return nil
}

func secure(cfg *config.Config, key string, t *config.ServerTLS, manager *acme.Manager, log *slog.Logger) (*secured, config.Problems) {
	s := &secured{acme: manager}
	var problems config.Problems
	for i, f := range []struct {
		name string
		file config.File
	}{{"certificate", t.Certificate}, {"key", t.Key}, {"client_ca", t.ClientCA}} {
		if f.file == "" {
			continue
		}
		data, err := os.ReadFile(string(f.file))
		if err != nil {
			if e, ok := errors.AsType[*os.PathError](err); ok {
				err = e.Err // the path may have come from a variable
			}
			problems = append(problems, cfg.Problem(key+"."+f.name, "cannot be read: "+err.Error(), ""))
		}
		s.files[i] = data
	}
	if problems != nil {
		return nil, problems
	}
	opt := listen.TLSOptions{
		Certificate: s.files[0], Key: s.files[1], ClientCA: s.files[2],
		Optional: t.ClientAuth == config.ClientAuthRequest,
	}
	if t.ACME != nil {
		if s.acme == nil {
			if s.acme, problems = newACME(cfg, t.ACME, key+".acme", log); problems != nil {
				return nil, problems
			}
		}
		opt.Issued = s.acme.GetCertificate
	}
	var err error
	s.tls, err = listen.TLSConfig(opt)
	if err != nil {
		return nil, refusals(cfg, key, err)
	}
	if s.acme == nil {
		s.until = expiry(s.tls)
	}
	return s, nil
}

func (s *secured) sameAs(old *secured) bool {
	for i := range s.files {
		if !bytes.Equal(s.files[i], old.files[i]) {
			return false
		}
	}
	return true
}

// expiry is the end of the first certificate to expire of those that a listener
// shows.
func expiry(cfg *tls.Config) (until time.Time) {
	for _, der := range cfg.Certificates[0].Certificate {
		c, err := x509.ParseCertificate(der)
		if err == nil && (until.IsZero() || c.NotAfter.Before(until)) {
			until = c.NotAfter
		}
	}
	return until
}

// renew gives listeners the TLS of a new configuration; connections stay as they
// are.
func renew(ls []*listener, fresh, old securities, log *slog.Logger) {
	for _, l := range ls {
		s := fresh[l.name]
		if s == nil || s == old[l.name] {
			continue
		}
		l.SetTLS(s.tls)
		log.Info("certificate renewed", "listener", l.name, "expires", s.expires())
		s.warn(l.name, log)
	}
}

// renewAdmin gives the admin listener the TLS of a new configuration, nil for none.
func (a *App) renewAdmin(s *secured) {
	if s == nil || s == (*a.securities.Load())[adminListener] {
		return
	}
	a.admin.SetTLS(s.tls)
	a.log.Info("certificate renewed", "listener", adminListener, "expires", s.expires())
	s.warn(adminListener, a.log)
}

// warn says that a certificate is of no use any more. It is no reason to refuse
// a start: some clients do not look, and the others get a clear error.
func (s *secured) warn(listener string, log *slog.Logger) {
	if s.acme == nil && time.Now().After(s.until) {
		log.Warn("certificate has expired", "listener", listener, "expired", s.until)
	}
}

// certificates are the samples of a scrape.
func (a *App) certificates() []telemetry.CertificateSample {
	var out []telemetry.CertificateSample
	for name, s := range *a.securities.Load() {
		out = append(out, telemetry.CertificateSample{Listener: name, Until: s.expires()})
	}
	return append(out, a.sites.certificates()...)
}
