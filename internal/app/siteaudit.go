package app

import (
	"cmp"

	"soapway/internal/admin"
	"soapway/internal/enrol"
	"soapway/proxy"
	"soapway/queue/relay"
)

// findings by what they are in the audit file: what was refused, and what was noticed
// and done all the same.
var findings = map[relay.Kind]string{
	relay.FoundForged: "refused", relay.FoundDenied: "refused", relay.FoundLoop: "refused", relay.FoundRefused: "refused",
	relay.FoundBomb: "refused", relay.FoundBroken: "refused", relay.FoundRepeated: "refused",
	relay.FoundCopy: "failed", relay.FoundLost: "failed",
}

// found writes down what was found of another site. Its form is described in
// docs/operations.md.
func (s *sites) found(f relay.Finding) {
	what := map[string]any{"site": f.Peer.Site, "certificate": f.Peer.Subject, "kind": string(f.Kind)}
	if f.Items > 0 {
		what["count"] = f.Items
	}
	if f.ID != "" {
		what["message"], what["route"] = f.ID, f.Route
	}
	client := ""
	if f.Peer.Address.IsValid() {
		client = f.Peer.Address.String()
	}
	s.audit.Load().Note(admin.Note{
		Action: "site", Result: findings[f.Kind], Client: client, What: what, Error: cmp.Or(f.Reason, string(f.Kind)),
	})
}

// turnedAway writes down who was not taken for a site.
func (s *sites) turnedAway(ex *proxy.Exchange, err error) {
	s.audit.Load().Note(admin.Note{
		Action: "site", Result: "refused", Client: ex.Client.String(), Error: err.Error(),
		What: map[string]any{"certificate": subjectOf(ex.Certificate), "kind": "certificate"},
	})
}

// enrolled writes down who was given a certificate, or was not.
func (s *sites) enrolled(ex *proxy.Exchange, path, site string, err error) {
	n := admin.Note{Action: "site-join", Result: "done", Client: ex.Client.String(), What: map[string]any{"certificate": subjectOf(ex.Certificate)}}
	if path == enrol.RenewPath {
		n.Action = "site-renew"
	}
	if site != "" {
		n.What["site"] = site
	}
	if err != nil {
		n.Result, n.Error = "refused", err.Error()
	}
	s.audit.Load().Note(n)
}
