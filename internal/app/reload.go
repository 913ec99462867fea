package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"soapway/config"
	"soapway/proxy"
)

// A RestartError says that a configuration cannot be taken by a reload.
type RestartError struct {
	// Keys are those that differ and are read only at a start.
	Keys []string
}

// Error names the keys.
func (e *RestartError) Error() string {
	return "app: reload: nothing was changed, because only a restart can change " + strings.Join(e.Keys, ", ")
}

// The errors of a reload that is not possible at all.
var (
	// ErrStopping says that the stop has begun.
	ErrStopping = errors.New("app: reload: the gateway is stopping")
	// ErrNoSource says that there is no [Options.Load].
	ErrNoSource = errors.New("app: reload: there is nothing to load from")
)

// Reload reads the configuration again and puts it in place: all of it, or
// nothing when it has a problem or changes what only a restart can change. No
// connection is dropped. Whether it was taken is told to log and metrics too.
func (a *App) Reload() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.access.Reopen() // what moves files sends SIGHUP, whatever becomes of the reload
	_, err := a.reload()
	return err
}

// reload is Reload with a.mu held; it returns the configuration in use.
func (a *App) reload() (*config.Config, error) {
	if a.state.Load() == draining {
		return a.cfg, ErrStopping
	}
	if err := a.audit.Reopen(); err != nil { // whoever has moved it away sends SIGHUP
		a.log.Error("the audit file cannot be opened anew; the old one is written on", "file", a.cfg.Admin.Audit, "err", reason(err))
	}
	if a.opt.Load == nil {
		return a.cfg, ErrNoSource
	}
	cfg, err := a.opt.Load()
	if err == nil {
		err = a.put(cfg)
	}
	a.metrics.Reloaded(err == nil)
	a.showConfig(a.cfg, true, err)
	if err != nil {
		complain(a.log, err)
		return a.cfg, err
	}
	a.log.Info("reloaded", "config", cfg.Path(), "routes", len(cfg.Routes))
	return cfg, nil
}

// put switches to cfg.
func (a *App) put(cfg *config.Config) error {
	keys := config.RestartNeeded(a.cfg, cfg)
	keys = append(keys, a.depot.restartNeeded(a.cfg, cfg)...)
	size := sizesOf(cfg)
	if size.header > a.headBytes {
		keys = append(keys, "limits.header_bytes")
	}
	if len(keys) > 0 {
		return &RestartError{keys}
	}
	fresh, guards, table, problems := build(cfg, a.pools, a.guards, a.sites.hub, a.log)
	undo := func() {
		for _, p := range fresh.without(a.pools) {
			p.close()
		}
	}
	securities, more := buildTLS(cfg, *a.securities.Load(), a.log)
	links, peers, bad := a.sites.build(cfg)
	if problems = append(append(problems, more...), bad...); problems != nil {
		undo()
		return problems
	}
	if problems := a.depot.open(cfg); problems != nil {
		undo()
		return problems
	}
	if problems := a.setAccess(cfg); problems != nil {
		undo()
		return problems
	}
	dropNodes := undo
	undo = func() {
		dropNodes()
		_ = a.setAccess(a.cfg) // its file is open already, or it is off
	}
	if err := a.depot.configure(cfg); err != nil {
		undo()
		return err
	}
	if problems := a.depot.rekey(cfg); problems != nil {
		undo()
		return errors.Join(problems, a.depot.configure(a.cfg))
	}
	// Set changes nothing when it fails, so it is the last step that can.
	if err := a.opt.Log.Set(string(cfg.Log.Level), string(cfg.Log.Format)); err != nil {
		undo()
		return errors.Join(err, a.depot.configure(a.cfg))
	}
	a.sites.configure(cfg, links)
	a.peers.Store(&peers)
	a.handler.Swap(table) // before the door, see there
	for _, p := range fresh.without(a.pools) {
		a.depot.renewed(p.backend.Name)
	}
	a.sites.proven(cfg)
	a.retire(a.pools, fresh, a.table)
	resize(a.listeners, size)
	renew(a.listeners, securities, *a.securities.Load(), a.log)
	a.setAlerts(cfg)
	a.traces.Set(cfg.Telemetry.OTLP.Reveal(), cfg.Telemetry.Sample)
	a.renewAdmin(securities[adminListener])
	a.group.SetDrain(drainOf(cfg))
	a.cfg, a.pools, a.guards, a.table = cfg, fresh, guards, table
	a.securities.Store(&securities)
	fresh.watch(a.depot.tell)
	a.depot.tellOrphans()
	return nil
}

// retire ends the present generation; the pools of old that are not in fresh
// are closed once it is over, and so are the copies that went by its table. a.mu
// is held.
func (a *App) retire(old, fresh pools, table *proxy.Table) {
	ended := a.door.next()
	gone := old.without(fresh)
	for _, p := range gone {
		p.backend.Health.Watch(nil) // what it has to tell is not of the present nodes
	}
	a.closing.Go(func() {
		ended.wait()
		table.Wait()
		for _, p := range gone {
			p.close()
		}
	})
}

// complain logs each problem of a configuration that was not taken.
func complain(log *slog.Logger, err error) {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		log.Error("reload refused, the configuration in use stays", "err", err)
		return
	}
	for _, p := range problems {
		log.Error("reload refused, the configuration in use stays", "problem", p.String())
	}
}

// runWatch is the part that reloads when a file changes.
func (a *App) runWatch(stop, _ context.Context) error {
	if a.opt.Load == nil {
		<-stop.Done()
		return nil
	}
	a.mu.Lock()
	cfg := a.cfg
	a.mu.Unlock()
	return config.Watch(stop, cfg.Files(), config.WatchOptions{Log: a.log, Since: cfg}, func() []string {
		a.mu.Lock()
		defer a.mu.Unlock()
		cfg, err := a.reload()
		if err != nil {
			return nil
		}
		return cfg.Files()
	})
}
