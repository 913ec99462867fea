package app

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"

	"soapway/config"
	"soapway/proxy/guard"
)

// guarded is a guard and what it was made of.
type guarded struct {
	limits config.RouteLimits
	allow  []string
	auth   *config.Auth
	files  [][]byte // the content of the files of auth
	guard  *guard.Guard
}

// guards are those of the routes that have one, by the route's name.
type guards map[string]*guarded

// of returns the guard of a route; nil lets everybody in.
func (g guards) of(route string) *guard.Guard {
	if kept := g[route]; kept != nil {
		return kept.guard
	}
	return nil
}

// buildGuards makes a guard for each route that asks for one, or takes that of
// old, with all that it has counted, when nothing about it has changed.
func buildGuards(cfg *config.Config, old guards) (guards, config.Problems) {
	made := guards{}
	var problems config.Problems
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if r.Auth == nil && len(r.Allow) == 0 && r.Limits.Rate.None() && r.Limits.RatePerClient.None() && r.Limits.Concurrency.None() {
			continue
		}
		g := &guarded{auth: r.Auth}
		g.limits.Rate, g.limits.RatePerClient, g.limits.Concurrency = r.Limits.Rate, r.Limits.RatePerClient, r.Limits.Concurrency
		for _, p := range r.Allow {
			g.allow = append(g.allow, p.String())
		}
		bad := g.build(cfg, r, old[r.Name])
		problems = append(problems, bad...)
		made[r.Name] = g
	}
	return made, problems
}

// build fills in files and guard.
func (g *guarded) build(cfg *config.Config, r *config.Route, old *guarded) (problems config.Problems) {
	opt := guard.Options{
		Allow:     r.Allow,
		Rate:      rate(r.Limits.Rate),
		PerClient: rate(r.Limits.RatePerClient),
	}
	if !r.Limits.Concurrency.None() {
		opt.Concurrency = int(r.Limits.Concurrency)
	}
	if a := r.Auth; a != nil {
		key := "routes." + r.Name + ".auth."
		read := func(name string, f config.File, use func(*bytes.Reader) error) {
			if f == "" {
				return
			}
			data, err := os.ReadFile(string(f))
			g.files = append(g.files, data)
			if err == nil {
				err = use(bytes.NewReader(data))
			}
			if err != nil {
				problems = append(problems, cfg.Problem(key+name, string(f)+": "+err.Error(), ""))
			}
		}
		read("basic", a.Basic, func(b *bytes.Reader) (err error) {
			opt.Basic, err = guard.ReadPasswords(b)
			return err
		})
		read("bearer", a.Bearer, func(b *bytes.Reader) (err error) {
			opt.Bearer, err = guard.ReadTokens(b)
			return err
		})
		read("wss_username", a.WSSUsername, func(b *bytes.Reader) (err error) {
			opt.Usernames, err = guard.ReadUsernames(b)
			return err
		})
		if a.APIKey != nil {
			secrets := make([]string, len(a.APIKey.Keys))
			for i, k := range a.APIKey.Keys {
				secrets[i] = k.Reveal()
			}
			var err error
			if opt.Keys, err = guard.NewTokens(secrets); err != nil {
				problems = append(problems, cfg.Problem(key+"api_key.keys", err.Error(), ""))
			}
			opt.KeyHeader = http.CanonicalHeaderKey(a.APIKey.Header)
		}
		if a.MTLS != nil {
			var err error
			if opt.Subjects, err = guard.NewSubjects(a.MTLS.Subjects); err != nil {
				at := key + "mtls.subjects"
				if item, ok := errors.AsType[*guard.SubjectError](err); ok {
					at = fmt.Sprintf("%s[%d]", at, item.Index)
				}
				problems = append(problems, cfg.Problem(at, err.Error(), "write a name as RFC 4514 does (CN=erp,O=Example), CN=erp alone, or a DNS name, URI or e-mail address of the certificate"))
			}
		}
	}
	if problems != nil {
		return problems
	}
	if old != nil && g.sameAs(old) {
		*g = *old
		return nil
	}
	var err error
	if g.guard, err = guard.New(opt); err != nil {
		return refusals(cfg, "routes."+r.Name, err)
	}
	return nil
}

func (g *guarded) sameAs(old *guarded) bool {
	return reflect.DeepEqual(g.limits, old.limits) && reflect.DeepEqual(g.allow, old.allow) &&
		reflect.DeepEqual(g.auth, old.auth) && reflect.DeepEqual(g.files, old.files)
}

func rate(r config.Rate) guard.Rate { return guard.Rate{Events: int(r.Events), Per: r.Per} }
