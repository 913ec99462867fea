package app

import (
	"context"
	"os"
	"time"

	"soapway/config"
	"soapway/internal/telemetry"
	"soapway/proxy"
	"soapway/proxy/health"
)

// healthOf makes the health of the nodes of a backend.
func healthOf(c *config.Backend) *health.Group {
	opt := health.Options{
		Failures: int(c.Outlier.Failures), Within: time.Duration(c.Outlier.Within), Eject: time.Duration(c.Outlier.Eject),
	}
	if h := c.Health; h != nil {
		opt.UnhealthyAfter, opt.HealthyAfter = int(h.UnhealthyAfter), int(h.HealthyAfter)
	}
	return health.NewGroup(len(c.Nodes), opt)
}

// checkOf is how the nodes of a backend are asked whether they are well.
func checkOf(h *config.Health) (c proxy.Check, err error) {
	switch {
	case h == nil:
		return c, nil
	case h.SOAP != "":
		octets, err := os.ReadFile(string(h.SOAP))
		if err != nil {
			return c, err
		}
		parsed, err := proxy.ParseCheck(octets)
		if err != nil {
			return c, err
		}
		c = *parsed
	case h.Path != "":
		c.Path = h.Path
	}
	c.Timeout = time.Duration(h.Timeout)
	return c, nil
}

// watch begins to check the nodes of the pools, where they are to be checked,
// and tells the queue of backends that are down. Pools that it has seen before
// are left alone.
func (p pools) watch(tell func(backend string, up bool, why string)) {
	for _, pool := range p {
		if pool.watched {
			continue
		}
		pool.watched = true
		b := pool.backend
		b.Health.Watch(func(up bool, why string) { tell(b.Name, up, why) })
		h := pool.cfg.Health
		if h == nil {
			continue
		}
		var ctx context.Context
		ctx, pool.cancel = context.WithCancel(context.Background())
		pool.checks.Go(func() {
			b.Health.Run(ctx, health.Checks{
				Interval: time.Duration(h.Interval), Timeout: time.Duration(h.Timeout), Check: b.CheckNode,
			})
		})
	}
}

// tell passes on to the queue what messages that are not stored, and checks, have
// shown of a backend.
func (p *depot) tell(backend string, up bool, why string) {
	if s := p.present.Load(); s != nil {
		s.queue.Tell(backend, up, why)
	}
}

// renewed tells the queue that the settings of a backend, or the files that they
// name, have changed: its credentials may be good now.
func (p *depot) renewed(backend string) {
	if s := p.present.Load(); s != nil {
		s.queue.Renewed(backend)
	}
}

// backends are those that routes lead to, as a scrape tells them.
func (a *App) backends() []telemetry.BackendSample {
	type state struct {
		down bool
		held string
	}
	stored := map[string]state{}
	for _, s := range a.depot.samples() {
		stored[s.Backend] = state{s.Down, s.Held} // the same for all its routes
	}
	var out []telemetry.BackendSample
	for _, b := range a.handler.Health() {
		s := telemetry.BackendSample{Name: b.Name, Down: b.Down || stored[b.Name].down, Held: stored[b.Name].held}
		for _, n := range b.Nodes {
			s.Nodes = append(s.Nodes, telemetry.NodeSample{Name: n.Name, Up: n.Up})
		}
		out = append(out, s)
	}
	return out
}
