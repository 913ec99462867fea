package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"soapway/config"
	"soapway/internal/alert"
	"soapway/internal/telemetry"
	"soapway/proxy"
	"soapway/queue"
)

// The bounds of the alarms, see docs/operations.md.
const (
	alarmExpiry = 14 * 24 * time.Hour // of a certificate
	alarmStep   = 10 * time.Minute    // a step of the clock is one for this long: nothing expires meanwhile
	alarmDamage = 24 * time.Hour      // damage of the store is one for this long after the last of it
	alarmLag    = 1000                // messages for a link
	alarmLagAge = 15 * time.Minute    // or the age of the oldest
	alarmRoom   = 64 << 20            // free octets, where store.min_free asks for none
)

// happenings are the times of what is over in a moment, for alarms: unix seconds, 0 =
// never in this run.
type happenings struct {
	clock, gap, damage atomic.Int64
}

func (h *happenings) note(at *atomic.Int64) { at.Store(time.Now().Unix()) }

// within reports whether it happened not longer ago than d.
func within(at *atomic.Int64, d time.Duration) bool {
	t := at.Load()
	return t != 0 && time.Since(time.Unix(t, 0)) < d
}

// storeWatch is told of what a store meets.
type storeWatch struct {
	*telemetry.Metrics
	happenings *happenings
}

var _ queue.StoreObserver = storeWatch{}

// Gap implements [queue.StoreObserver].
func (w storeWatch) Gap(from, to uint64) {
	w.happenings.note(&w.happenings.gap)
	w.Metrics.Gap(from, to)
}

// Damage implements [queue.StoreObserver].
func (w storeWatch) Damage(err error) {
	w.happenings.note(&w.happenings.damage)
	w.Metrics.Damage(err)
}

// gatewayName is which gateway a notice is from.
type gatewayName struct {
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
}

func aboutGateway(version string) gatewayName {
	host, _ := os.Hostname() // without it a notice has the rest
	return gatewayName{host, version}
}

// setAlerts says where alarms go, and where it is noted which were told: with the
// store, if there is one. Routes and backends are named there, so a sealed store has
// no such note.
func (a *App) setAlerts(cfg *config.Config) {
	path := ""
	if dir := string(cfg.Store.Dir); exists(dir) && cfg.Store.EncryptionKey.IsZero() {
		path = filepath.Join(dir, "alerts.json")
	}
	a.alerts.Set(cfg.Alerts.Webhook.Reveal(), path)
}

// conditions implements [alert.Source].
func (a *App) conditions() (list []alert.Condition, sure bool) {
	p := a.depot
	add := func(kind, subject string, value float64, format string, args ...any) {
		list = append(list, alert.Condition{Kind: kind, Subject: subject, Value: value, Text: fmt.Sprintf(format, args...)})
	}
	s := p.present.Load()
	for _, q := range p.samples() {
		if q.Dead > 0 {
			add("dead-letters", q.Route, float64(q.Dead), "%d dead letters of route %s wait for a person", q.Dead, q.Route)
		}
		if q.Orphaned > 0 {
			add("orphaned", q.Route, float64(q.Orphaned), "%d messages of route %s, which is gone, wait to be moved", q.Orphaned, q.Route)
		}
		if q.Stopped > 0 {
			add("key-stopped", q.Route, float64(q.Stopped), "%d order keys of route %s stand still for a dead letter", q.Stopped, q.Route)
		}
	}
	for _, b := range a.backends() {
		switch {
		case b.Held == string(queue.HeldByCredentials):
			add("credentials-refused", b.Name, 0, "backend %s refuses the gateway's own credentials: its messages wait", b.Name)
		case b.Down:
			add("circuit-open", b.Name, 0, "backend %s is down", b.Name)
		}
	}
	for _, l := range p.links() {
		if age := time.Since(l.Oldest); l.Waiting > alarmLag || l.Waiting > 0 && age > alarmLagAge {
			add("link-lag", l.Link, float64(l.Waiting), "%d messages wait for site %s", l.Waiting, l.Link)
		}
	}
	for _, l := range a.sites.hub.States() {
		if l.Lost > 0 && time.Since(l.LostAt) < alarmDamage {
			add("link-lost", l.Name, float64(l.Lost), "site %s lacks %d messages that it had answered for", l.Name, l.Lost)
		}
	}
	for _, c := range a.certificates() {
		what := "listener " + c.Listener
		if link, ok := strings.CutPrefix(c.Listener, linkCertificate); ok {
			what = "the link to " + link
		}
		switch left := time.Until(c.Until); {
		case c.Until.IsZero():
			add("certificate-expiry", c.Listener, 0, "%s has no certificate", what)
		case left < alarmExpiry:
			add("certificate-expiry", c.Listener, left.Seconds(), "the certificate of %s expires on %s", what, c.Until.UTC().Format(time.DateOnly))
		}
	}
	for _, why := range p.degraded() {
		add("store-error", "", 0, "%s", why)
		break // there is one store
	}
	if free, ok := p.free(); ok && free < a.lowDisk() {
		add("disk-low", "", float64(free), "the disk of the store has %d MiB left", free>>20)
	}
	if within(&p.happenings.gap, alarmDamage) {
		add("store-gap", "", 0, "the log of stored messages has a gap: messages may be lost")
	}
	if within(&p.happenings.damage, alarmDamage) {
		add("store-damage", "", 0, "a place of the store is not as it was written")
	}
	if within(&p.happenings.clock, alarmStep) {
		add("clock-step", "", 0, "the clock was set by more than an hour")
	}
	return list, s == nil || s.queue.Loaded()
}

// lowDisk is how much must be free: twice what the store leaves to others.
func (a *App) lowDisk() int64 {
	if cfg := a.depot.cfg.Load(); cfg != nil && cfg.Store.MinFree > 0 {
		return 2 * int64(cfg.Store.MinFree)
	}
	return alarmRoom
}

// links are the stored messages that wait for other sites, by the name of the site.
func (p *depot) links() (list []telemetry.LinkSample) {
	cfg := p.cfg.Load()
	if cfg == nil || cfg.Sites == nil {
		return nil
	}
	queues := map[string]telemetry.QueueSample{}
	for _, q := range p.samples() {
		queues[q.Route] = q
	}
	place := map[string]int{}
	add := func(site, route string) {
		at, known := place[site]
		if !known {
			at = len(list)
			place[site] = at
			list = append(list, telemetry.LinkSample{Link: site})
		}
		l, q := &list[at], queues[route]
		l.Waiting += q.Pending + q.Retrying
		if !q.Oldest.IsZero() && (l.Oldest.IsZero() || q.Oldest.Before(l.Oldest)) {
			l.Oldest = q.Oldest
		}
	}
	for i := range cfg.Routes {
		if n, ok := cfg.SiteNode(&cfg.Routes[i]); ok {
			add(n.Site, cfg.Routes[i].Name)
		}
	}
	for i := range cfg.Sites.Accept {
		site := cfg.Sites.Accept[i].Name
		if route := proxy.ReturnRoute(site); queues[route].Route != "" {
			add(site, route) // there are answers for it
		}
	}
	return list
}
