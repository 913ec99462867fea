package app

import (
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/telemetry"
	"soapway/queue/relay"
)

// linkStatus is what an operator is told of a link.
type linkStatus struct {
	relay.LinkState
	LagMessages int     // that wait for it
	LagSeconds  float64 // age of the oldest of them
}

// links are all links, by their names.
func (a *App) links() []linkStatus {
	states := a.sites.hub.States()
	out := make([]linkStatus, len(states))
	for i := range states {
		out[i].LinkState = states[i]
	}
	waiting := map[string]telemetry.LinkSample{}
	for _, l := range a.depot.links() {
		waiting[l.Link] = l
	}
	for i := range out {
		l := waiting[out[i].Name]
		out[i].LagMessages = l.Waiting
		if !l.Oldest.IsZero() {
			out[i].LagSeconds = time.Since(l.Oldest).Seconds()
		}
	}
	return out
}

// traffic are the links as a scrape tells them.
func (a *App) traffic() []telemetry.TrafficSample {
	var out []telemetry.TrafficSample
	cfg := a.depot.cfg.Load()
	for _, l := range a.links() {
		out = append(out, telemetry.TrafficSample{
			Name: l.Name, Up: l.Up, Idle: l.Direction == relay.Pulled && len(backendsTo(cfg, l.Name)) == 0, LagSeconds: l.LagSeconds, BytesOut: l.BytesOut, BytesIn: l.BytesIn,
			Sent:     map[string]uint64{string(relay.Stored): l.Sent, string(relay.Duplicate): l.Duplicates, string(relay.Refused): l.Refused},
			Received: map[string]uint64{string(relay.Stored): l.Received, string(relay.Duplicate): l.ReceivedDuplicates, string(relay.Refused): l.ReceivedRefused},
		})
	}
	return out
}

// Links implements [admin.Gateway].
func (g adminGateway) Links() []admin.Link {
	cfg := g.depot.cfg.Load()
	issued := g.sites.issued()
	out := []admin.Link{}
	for _, l := range g.links() {
		s := admin.Link{
			Name: l.Name, Mode: admin.LinkPush, Since: l.Since, Seen: later(l.LastSeen, l.LastHeard), RTT: float64(l.RTT.Round(time.Microsecond)) / 1e6,
			Routes: routesTo(cfg, l.Name), LagMessages: l.LagMessages, LagSeconds: l.LagSeconds, InFlight: l.InFlight,
			Rate: l.Rate, Sent: l.Sent, Refused: l.Refused, Received: l.Received,
		}
		switch {
		case l.Direction == relay.Pulled:
			s.Mode, s.Certificate = admin.LinkAccept, issued[l.Name]
		case l.Pull:
			s.Mode = admin.LinkPushAndPull
			fallthrough
		default:
			s.Peer, s.Certificate = peerOf(cfg, l.Name), g.sites.expires(l.Name)
		}
		s.State, s.Reason = stateOf(&l, len(s.Routes) > 0)
		out = append(out, s)
	}
	return out
}

// later is the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// heardLately is how long a site that only sends to us counts as there after its last
// message: nothing else is known of it.
const heardLately = time.Minute

// stateOf says in a word how a link is, and why; used is whether routes lead over it.
func stateOf(l *linkStatus, used bool) (state, reason string) {
	pulled := l.Direction == relay.Pulled
	switch {
	case l.Up, pulled && !used && time.Since(l.LastHeard) < heardLately:
		return admin.LinkUp, ""
	case !pulled && l.LastError == "", pulled && !used:
		return admin.LinkIdle, ""
	case pulled && l.LastSeen.IsZero():
		return admin.LinkDown, "the site has not fetched since this gateway started"
	case pulled:
		return admin.LinkDown, "the site does not fetch any more"
	}
	return admin.LinkDown, l.LastError
}

// routesTo are the routes that lead to a site.
func routesTo(cfg *config.Config, site string) []string {
	names := []string{}
	if cfg == nil {
		return names
	}
	for i := range cfg.Routes {
		if n, ok := cfg.SiteNode(&cfg.Routes[i]); ok && n.Site == site {
			names = append(names, cfg.Routes[i].Name)
		}
	}
	return names
}

// peerOf is the address of the link to a site as it may be shown.
func peerOf(cfg *config.Config, site string) string {
	if cfg == nil || cfg.Sites == nil {
		return ""
	}
	for i := range cfg.Sites.Links {
		if l := &cfg.Sites.Links[i]; l.Name == site {
			return l.URL.String()
		}
	}
	return ""
}

// expires is the end of the certificate that this site shows on a link, the zero time
// if it shows none.
func (s *sites) expires(link string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[link].expires
}

// issuedFor is how long what the authority has given is not looked up again: it is
// a file for each certificate.
const issuedFor = time.Minute

// issued are the ends of the certificates that our authority has given to sites and
// that count.
func (s *sites) issued() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.enrolment.Load()
	if e == nil {
		return nil
	}
	if s.given.of == e && time.Since(s.given.read) < issuedFor {
		return s.given.until
	}
	hub, err := e.open()
	if err != nil {
		return nil // nobody was invited yet, or each request tells of it
	}
	list, err := hub.Authority.Issued()
	if err != nil {
		s.log.Warn("the certificates of the sites cannot be listed", "dir", e.dir, "err", err)
		return nil
	}
	until := map[string]time.Time{}
	for _, is := range list { // the latest one comes last
		if is.Revoked.IsZero() {
			until[is.Site] = is.Expires
		} else {
			delete(until, is.Site)
		}
	}
	s.given = issuedCertificates{e, time.Now(), until}
	return until
}

// issuedCertificates is what was found in the folder of an authority.
type issuedCertificates struct {
	of    *enrolment
	read  time.Time
	until map[string]time.Time // by site
}
