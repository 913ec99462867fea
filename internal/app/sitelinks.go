package app

import (
	"time"

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
			Name: l.Name, Up: l.Up, Idle: l.Direction == "pulled" && len(backendsTo(cfg, l.Name)) == 0, LagSeconds: l.LagSeconds, BytesOut: l.BytesOut, BytesIn: l.BytesIn,
			Sent:     map[string]uint64{string(relay.Stored): l.Sent, string(relay.Duplicate): l.Duplicates, string(relay.Refused): l.Refused},
			Received: map[string]uint64{string(relay.Stored): l.Received, string(relay.Duplicate): l.ReceivedDuplicates, string(relay.Refused): l.ReceivedRefused},
		})
	}
	return out
}
