package app

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"soapway/config"
	"soapway/internal/enrol"
	"soapway/internal/field"
	"soapway/proxy"
	"soapway/proxy/guard"
)

// An enrolment is the authority of a site that invites others (sites.ca_dir).
type enrolment struct {
	dir, name string
	routes    map[string][]string // by site, those that it may send to

	mu  sync.Mutex
	hub *enrol.Hub
}

// newEnrolment is that of cfg, nil if it has none.
func newEnrolment(cfg *config.Config) *enrolment {
	if cfg.Sites == nil || cfg.Sites.CADir == "" {
		return nil
	}
	e := &enrolment{dir: string(cfg.Sites.CADir), name: cfg.Sites.Name, routes: map[string][]string{}}
	for i := range cfg.Sites.Accept {
		e.routes[cfg.Sites.Accept[i].Name] = cfg.Sites.Accept[i].Routes
	}
	return e
}

// open returns the hub. The first invitation makes the authority, perhaps after the
// start: so it is looked for with each request until it is there.
func (e *enrolment) open() (*enrol.Hub, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hub != nil {
		return e.hub, nil
	}
	a, err := enrol.Open(e.dir)
	if err != nil {
		return nil, err
	}
	e.hub = &enrol.Hub{Authority: a, Name: e.name, Routes: func(site string) []string { return e.routes[site] }}
	return e.hub, nil
}

// issuedTo says which site the authority has given a certificate to, "" if it has not.
// The error is [enrol.ErrRevoked] for one that does not count any more.
func (e *enrolment) issuedTo(c *guard.Certificate) (string, error) {
	if e == nil || c == nil {
		return "", nil
	}
	hub, err := e.open()
	if errors.Is(err, enrol.ErrNoAuthority) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	site, err := hub.Authority.Check(c.Leaf())
	if errors.Is(err, enrol.ErrForeign) {
		return "", nil
	}
	return site, err
}

// enrol answers a request to join, or to renew a certificate.
func (s *sites) enrol(e *enrolment, ex *proxy.Exchange, path string) *proxy.Reply {
	log := s.log
	switch {
	case ex.Method != http.MethodPost:
		r := plainReply(http.StatusMethodNotAllowed, "this is for gateway site join")
		r.Header.Set("Allow", http.MethodPost)
		return r
	case !ex.TLS:
		return plainReply(http.StatusForbidden, "this goes over TLS only")
	}
	if ex.Waits != nil {
		ex.Waits.Wait()
	}
	hub, err := e.open()
	if errors.Is(err, enrol.ErrNoAuthority) {
		return plainReply(http.StatusNotFound, "nobody was invited here")
	}
	if err != nil {
		log.Error("the authority of the sites cannot be opened", "dir", e.dir, "err", err)
		return plainReply(http.StatusInternalServerError, "the authority cannot be opened")
	}
	var a *enrol.Answer
	if path == enrol.JoinPath {
		a, err = hub.Join(ex.Body)
	} else if c := ex.Certificate; c != nil {
		a, err = hub.Renew(c.Leaf(), ex.Body)
	} else {
		a, err = hub.Renew(nil, ex.Body)
	}
	s.enrolled(ex, path, a.Site, err)
	switch {
	case err != nil:
		log.Warn("a site gets no certificate", "request", path, "client", ex.Client, "certificate", subjectOf(ex.Certificate), "err", err)
	default:
		log.Info("a site has got a certificate", "site", a.Site, "request", path, "client", ex.Client)
	}
	return &proxy.Reply{
		Status: a.Status, Header: field.List{{Name: "Content-Type", Value: "application/json"}, {Name: "Cache-Control", Value: "no-store"}},
		Body: bytes.NewReader(a.Body), Length: int64(len(a.Body)), CloseConnection: a.Status != http.StatusOK,
	}
}

// subjectOf is the subject of a certificate for logs.
func subjectOf(c *guard.Certificate) string {
	if c == nil {
		return "none"
	}
	return c.Leaf().Subject.String()
}

const (
	// certificatesEvery is how often certificates are looked at.
	certificatesEvery = time.Minute
	// tryAgain is the pause after a renewal that failed.
	tryAgain = time.Hour
)

// keepCertificates renews the certificates of the links, and that of the listener that
// the authority has made, until stop is done. Files that were changed are read again
// as after any change.
func (s *sites) keepCertificates(stop context.Context) {
	tried := map[string]time.Time{}
	for {
		if cfg := s.depot.cfg.Load(); cfg != nil && cfg.Sites != nil {
			for i := range cfg.Sites.Links {
				l := &cfg.Sites.Links[i]
				if time.Since(tried[l.Name]) >= tryAgain && s.renewLink(stop, l) {
					tried[l.Name] = time.Now()
				}
			}
		}
		if e := s.enrolment.Load(); e != nil {
			s.renewServer(e)
		}
		select {
		case <-stop.Done():
			return
		case <-time.After(certificatesEvery):
		}
	}
}

// renewLink reports whether it has tried.
func (s *sites) renewLink(ctx context.Context, l *config.Link) bool {
	file := string(l.Certificate)
	if file == "" || l.Key != l.Certificate {
		return false // somebody else sees to it
	}
	expires, due, err := enrol.Due(file)
	if err == nil && !due {
		return false
	}
	if err == nil {
		cfg, e := tlsOfLink(l)
		if err = e; err == nil {
			err = enrol.RenewFile(ctx, file, linkURL(&l.URL), cfg)
		}
	}
	switch {
	case err == nil:
		expires, _, err = enrol.Due(file)
		s.log.Info("the certificate of a link was renewed", "link", l.Name, "expires", expires, "err", err)
	case ctx.Err() != nil:
	default:
		s.log.Warn("the certificate of a link cannot be renewed; it is tried again in an hour", "link", l.Name, "expires", expires, "err", err)
	}
	return true
}

// renewServer renews the certificate of the listener, if the authority has made one.
func (s *sites) renewServer(e *enrolment) {
	hub, err := e.open()
	if err != nil {
		return // nobody was invited yet, or each request tells of it
	}
	made, err := hub.Authority.Server(nil)
	if err != nil {
		s.log.Error("the certificate of the listener for sites cannot be renewed", "dir", e.dir, "err", err)
	} else if made {
		s.log.Info("the certificate of the listener for sites was renewed", "dir", e.dir)
	}
}
