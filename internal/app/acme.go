package app

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"soapway/config"
	"soapway/internal/acme"
	"soapway/internal/field"
	"soapway/proxy"
)

// newACME makes what has the certificates of a listener; it starts nothing.
func newACME(cfg *config.Config, a *config.ACME, key string, log *slog.Logger) (*acme.Manager, config.Problems) {
	opt := acme.Options{
		Domains:  a.Domains,
		Dir:      string(a.Dir),
		Email:    a.Email,
		CA:       a.CA.Reveal(),
		HTTP:     a.Challenge == config.ChallengeHTTP,
		HTTPPort: a.HTTPPort,
		Log:      log,
	}
	if opt.Dir == "" {
		opt.Dir = filepath.Join(string(cfg.Store.Dir), "acme")
	}
	if a.RootCA != "" {
		data, err := os.ReadFile(string(a.RootCA))
		if err != nil {
			return nil, config.Problems{cfg.Problem(key+".root_ca", "cannot be read: "+reason(err).Error(), "")}
		}
		opt.Roots = x509.NewCertPool()
		if !opt.Roots.AppendCertsFromPEM(data) {
			return nil, config.Problems{cfg.Problem(key+".root_ca", "has no certificate", "it must be a PEM file")}
		}
	}
	m, err := acme.New(opt)
	if err != nil {
		return nil, refusals(cfg, key, err)
	}
	return m, nil
}

// reason is an error without the path, which may have come from a variable.
func reason(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// prepareACME makes the folders of all listeners that have certificates issued:
// that they cannot be written must not come out when the authority has answered.
func (a *App) prepareACME(cfg *config.Config) (problems config.Problems) {
	prepare := func(listener, key string) {
		s := (*a.securities.Load())[listener]
		if s == nil || s.acme == nil {
			return
		}
		if err := s.acme.Prepare(); err != nil {
			problems = append(problems, cfg.Problem(key+".tls.acme.dir", "cannot be used: "+reason(err).Error(), "it must be a folder that the gateway may write"))
		}
	}
	for i := range cfg.Listeners {
		prepare(cfg.Listeners[i].Name, "listeners."+cfg.Listeners[i].Name)
	}
	prepare(adminListener, "admin")
	return problems
}

// runCertificates is the part that has certificates issued and renewed. Nobody
// waits for that: a listener without a certificate refuses handshakes until it
// has one, and the others serve.
func (a *App) runCertificates(stop, _ context.Context) error {
	var managers sync.WaitGroup
	run := func(listener string, address net.Addr) {
		s := (*a.securities.Load())[listener]
		if s == nil || s.acme == nil {
			return
		}
		at, _ := netip.ParseAddrPort(address.String())
		managers.Go(func() { _ = s.acme.Run(stop, at) }) // it never fails
	}
	for _, l := range a.listeners {
		run(l.name, l.Addr())
	}
	run(adminListener, a.admin.Addr())
	managers.Wait()
	<-stop.Done()
	return nil
}

// challenges answers the challenge http-01 on every HTTP listener (RFC 8555
// §8.3), while one is open, and lets all else through.
type challenges struct{ proxy.Server }

// challengePath is in front of the token.
const challengePath = "/.well-known/acme-challenge/"

// Serve implements [proxy.Server].
func (c challenges) Serve(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
	if !ex.Framed && ex.Method == http.MethodGet && strings.HasPrefix(ex.Target, challengePath) {
		if text, ok := acme.KeyAuthorization(ex.Host, ex.Target); ok {
			return &proxy.Reply{
				Status: http.StatusOK, Header: field.List{{Name: "Content-Type", Value: "application/octet-stream"}},
				Body: strings.NewReader(text), Length: int64(len(text)),
			}
		}
	}
	return c.Server.Serve(ctx, ex)
}
