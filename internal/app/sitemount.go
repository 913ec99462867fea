package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"soapway/config"
	"soapway/internal/enrol"
	"soapway/internal/field"
	"soapway/proxy"
	"soapway/proxy/guard"
	"soapway/queue/relay"
)

// A siteMount answers what is below /_site/ on every HTTP listener, and lets all else
// through. Who sends is told by the certificate that the listener has verified, and by
// nothing else.
type siteMount struct {
	proxy.Server
	sites *sites
	peers *atomic.Pointer[peers]
}

// peers are the sites that are accepted, in the order of the configuration.
type peers []acceptedSite

type acceptedSite struct {
	name     string
	subjects *guard.Subjects
	routes   []string
}

const sitePath = "/_site/"

// peersOf are those of cfg.
func peersOf(cfg *config.Config) (peers, config.Problems) {
	if cfg.Sites == nil {
		return nil, nil
	}
	var made peers
	var problems config.Problems
	for i := range cfg.Sites.Accept {
		a := &cfg.Sites.Accept[i]
		p := acceptedSite{name: a.Name, routes: a.Routes}
		if len(a.Subjects) > 0 {
			var err error
			if p.subjects, err = guard.NewSubjects(a.Subjects); err != nil {
				problems = append(problems, cfg.Problem("sites.accept."+a.Name+".subjects", err.Error(), "write them as for auth.mtls"))
				continue
			}
		}
		made = append(made, p)
	}
	return made, problems
}

// of returns who has a certificate; issued is the site that the authority of this
// one has given it to, "" if it was somebody else's. An entry without subjects means
// the certificate of that name, and no other.
func (p peers) of(c *guard.Certificate, issued string) (relay.Peer, bool) {
	for _, a := range p {
		if a.subjects == nil {
			if issued != "" && issued == a.name {
				return relay.Peer{Site: a.name, Subject: c.Leaf().Subject.String(), Routes: a.routes}, true
			}
			continue
		}
		if subject, ok := a.subjects.Match(c, time.Now()); ok {
			return relay.Peer{Site: a.name, Subject: subject, Routes: a.routes}, true
		}
	}
	return relay.Peer{}, false
}

var (
	errNoPeer  = errors.New("the certificate belongs to no site that is accepted")
	errExpired = errors.New("the certificate has expired")
)

// Serve implements [proxy.Server].
func (m siteMount) Serve(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
	if ex.Framed || !strings.HasPrefix(ex.Target, sitePath) {
		return m.Server.Serve(ctx, ex)
	}
	path, _, _ := strings.Cut(ex.Target, "?")
	hub := m.sites.enrolment.Load()
	if hub != nil && (path == enrol.JoinPath || path == enrol.RenewPath) {
		return m.sites.enrol(hub, ex, path)
	}
	peers := m.peers.Load()
	if peers == nil || len(*peers) == 0 {
		return m.Server.Serve(ctx, ex) // which knows nothing there
	}
	issued, err := hub.issuedTo(ex.Certificate)
	if err != nil && !errors.Is(err, enrol.ErrRevoked) {
		m.sites.log.Error("the certificate of a site cannot be checked", "client", ex.Client, "err", err)
		return plainReply(http.StatusServiceUnavailable, "certificates cannot be checked")
	}
	peer, ok := relay.Peer{}, false
	if err == nil {
		if peer, ok = peers.of(ex.Certificate, issued); !ok {
			err = errNoPeer
		}
	}
	if !ok && ex.Certificate != nil && time.Now().After(ex.Certificate.Leaf().NotAfter) {
		err = errExpired // over a connection that was open before
	}
	if !ok {
		m.sites.log.Warn("a site is refused", "client", ex.Client, "certificate", subjectOf(ex.Certificate), "err", err)
		m.sites.turnedAway(ex, err)
		return plainReply(http.StatusForbidden, err.Error())
	}
	if ex.Waits != nil { // for the disk, or for something to fetch
		ex.Waits.Wait()
	}
	peer.Address = ex.Client
	r := m.sites.hub.Serve(ctx, peer, &relay.Request{Method: ex.Method, Path: path, Header: ex.Header.HTTP(), Body: ex.Body})
	reply := &proxy.Reply{Status: r.Status, Header: field.Of(r.Header), CloseConnection: r.Status >= 400}
	if r.Body != nil {
		reply.Body, reply.Length = r.Body, r.Length
		reply.Close = func() { _ = r.Body.Close() }
	}
	return reply
}

// plainReply is a refusal.
func plainReply(status int, reason string) *proxy.Reply {
	b, err := json.Marshal(map[string]string{"error": reason})
	if err != nil { // of a text there is none
		b = nil
	}
	return &proxy.Reply{
		Status: status, Header: field.List{{Name: "Content-Type", Value: "application/json"}},
		Body: strings.NewReader(string(b)), Length: int64(len(b)), CloseConnection: true,
	}
}
