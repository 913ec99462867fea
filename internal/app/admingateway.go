package app

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/telemetry"
	"soapway/proxy"
	"soapway/queue"
)

// adminGateway shows an App to the admin API.
type adminGateway struct{ *App }

var _ admin.Gateway = adminGateway{}

// History implements [admin.Gateway].
func (g adminGateway) History() *telemetry.History { return g.history }

// Reload implements [admin.Gateway].
func (g adminGateway) Reload() error {
	err := g.App.Reload()
	if err == nil || errors.Is(err, ErrStopping) || errors.Is(err, ErrNoSource) {
		return err
	}
	return &admin.BadConfiguration{Problems: problemLines(err)}
}

// problemLines are the problems of a configuration that was not taken.
func problemLines(err error) []string {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return []string{err.Error()}
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return lines
}

// shownConfig is the configuration in use as the admin API shows it. It is made
// when that changes, so that nobody who looks waits for a reload.
type shownConfig struct {
	cfg    *config.Config
	loaded time.Time
	text   []byte
	reload *admin.Reload
}

// showConfig makes cfg the configuration that is shown; err is that of the reload
// that has brought it, or has not.
func (a *App) showConfig(cfg *config.Config, reloaded bool, err error) {
	now := time.Now()
	s := &shownConfig{cfg: cfg, loaded: now, text: cfg.Redacted()}
	if old := a.shown.Load(); old != nil && old.cfg == cfg {
		s.loaded = old.loaded
	}
	if reloaded {
		s.reload = &admin.Reload{Time: now, OK: err == nil}
		e := admin.Event{Kind: admin.EventReload, OK: err == nil, Text: "the configuration was read again and is in use"}
		if err != nil {
			s.reload.Problems = problemLines(err)
			e.Text = "the configuration was not taken: " + s.reload.Problems[0]
		}
		a.happened.Publish(e)
	}
	a.shown.Store(s)
}

// Configuration implements [admin.Gateway].
func (g adminGateway) Configuration() admin.Configuration {
	s := g.shown.Load()
	sum := sha256.Sum256(s.text)
	return admin.Configuration{
		Path: s.cfg.Path(), Loaded: s.loaded, Digest: hex.EncodeToString(sum[:]), Text: string(s.text), Reload: s.reload,
	}
}

// Routes implements [admin.Gateway].
func (g adminGateway) Routes() []admin.Route {
	cfg := g.shown.Load().cfg
	out := make([]admin.Route, 0, len(cfg.Routes))
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		name, _ := cfg.BackendOf(r)
		hour := g.history.Hour(r.Name)
		s := admin.Route{
			Name: r.Name, Match: conditions(cfg, r), Direct: r.Match.None, Backend: name, Delivery: string(r.Delivery),
			Hour: admin.HourOf(hour),
		}
		if r.Stores() {
			s.Assurance, s.OnDead, s.Reply = string(r.Assurance), string(r.OnDead), string(r.Reply)
			if o := r.OrderBy.String(); o != "none" {
				s.OrderBy = o
			}
			if r.Dedup != nil {
				s.Dedup = r.Dedup.By.String()
			}
		}
		out = append(out, s)
	}
	return out
}

// conditions are those of a match. Values of header fields may be credentials: only
// their names are shown.
func conditions(cfg *config.Config, r *config.Route) map[string]string {
	m := &r.Match
	out := map[string]string{}
	set := func(key, value string) {
		if value != "" {
			out[key] = cfg.Shown("routes."+r.Name+".match."+key, value)
		}
	}
	set("host", m.Host)
	set("path", m.Path.String())
	if m.Action != nil {
		set("action", *m.Action)
	}
	if m.Operation != (config.QName{}) {
		set("operation", m.Operation.String())
	}
	for name := range m.Headers {
		out["header "+name] = "[redacted]"
	}
	return out
}

// Backends implements [admin.Gateway].
func (g adminGateway) Backends() []admin.Backend {
	stored := map[string]queue.RouteStats{}
	if s := g.depot.present.Load(); s != nil {
		for _, st := range s.queue.Stats() {
			stored[st.Destination] = st // what it says of the destination is the same for all its routes
		}
	}
	leads := map[string][]string{}
	cfg := g.shown.Load().cfg
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		name, _ := cfg.BackendOf(r)
		leads[name] = append(leads[name], r.Name)
	}
	var out []admin.Backend
	list := g.handler.Health()
	slices.SortFunc(list, func(x, y proxy.BackendHealth) int { return cmp.Compare(x.Name, y.Name) })
	for i := 0; i < len(list); i++ {
		h := list[i]
		for i+1 < len(list) && list[i+1].Name == h.Name { // a backend, and the nodes of a route of that name
			i++
			h.Nodes, h.Down = slices.Concat(h.Nodes, list[i].Nodes), h.Down || list[i].Down
		}
		b := admin.Backend{Name: h.Name, Routes: append([]string{}, leads[h.Name]...), Nodes: make([]admin.Node, 0, len(h.Nodes))}
		for _, n := range h.Nodes {
			b.Nodes = append(b.Nodes, admin.Node{Name: n.Name, Up: n.Up, Reason: n.Why, Until: n.Until})
		}
		st := stored[h.Name]
		b.State, b.Reason = backendState(&h, &st)
		b.NextProbe = st.NextProbe
		out = append(out, b)
	}
	return out
}

// backendState says in a word how a backend is, and why.
func backendState(h *proxy.BackendHealth, st *queue.RouteStats) (state, reason string) {
	for _, n := range h.Nodes {
		if !n.Up {
			state, reason = admin.BackendDegraded, n.Why
		}
	}
	switch {
	case st.Held == queue.HeldByOperator:
		return admin.BackendHeld, "an operator holds it"
	case st.Held != "":
		return admin.BackendDenied, st.LastError
	case st.Down:
		return admin.BackendDown, cmp.Or(st.LastError, reason)
	case h.Down:
		return admin.BackendDown, reason
	}
	return cmp.Or(state, admin.BackendUp), reason
}
