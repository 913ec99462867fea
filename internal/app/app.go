package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/alert"
	"soapway/internal/lifecycle"
	"soapway/internal/selftest"
	"soapway/internal/telemetry"
	"soapway/proxy"
	"soapway/queue"
	"soapway/queue/relay"
)

// The states of an App, in the order in which it goes through them.
const (
	starting int32 = iota
	running
	draining
)

// An App is one gateway.
type App struct {
	opt       Options
	log       *slog.Logger
	metrics   *telemetry.Metrics
	access    *telemetry.Access
	traces    *telemetry.Tracer
	alerts    *alert.Watcher
	history   *telemetry.History
	happened  *admin.Events
	audit     *admin.Audit
	handler   *proxy.Handler
	door      door
	depot     *depot
	sites     *sites
	tests     *selftest.Runner
	peers     atomic.Pointer[peers]
	admin     *admin.Server
	listeners []*listener
	headBytes int64 // what they read of a head
	group     *lifecycle.Group
	state     atomic.Int32

	mu      sync.Mutex // held over a whole reload; guards what follows
	cfg     *config.Config
	pools   pools
	guards  guards
	table   *proxy.Table
	closing sync.WaitGroup // goroutines that wait for a generation to be over

	// shown is the configuration as the admin API shows it.
	shown atomic.Pointer[shownConfig]

	// securities change under mu and are read without: a scrape must not wait
	// for a reload.
	securities atomic.Pointer[securities]
}

// Bound is a listener and the address that it has.
type Bound struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Address  string `json:"address"`
}

// New makes a gateway of cfg and binds its addresses; [App.Run] serves them.
// Its error is config.Problems for everything that cfg is to blame for.
func New(cfg *config.Config, opt Options) (*App, error) {
	opt = opt.withDefaults()
	if err := opt.Log.Set(string(cfg.Log.Level), string(cfg.Log.Format)); err != nil {
		return nil, err
	}
	a := &App{opt: opt, log: opt.Log.Logger(), metrics: telemetry.NewMetrics(), history: telemetry.NewHistory(), happened: new(admin.Events), cfg: cfg}
	a.access = telemetry.NewAccess(opt.Stdout, a.log, a.metrics)
	a.traces = telemetry.NewTracer(opt.Version, a.log, a.metrics)
	a.alerts = alert.New(alert.Options{Source: a.conditions, Log: a.log, About: aboutGateway(opt.Version)})
	a.depot = newDepot(a.log, a.metrics, a.history, a.happened, &a.door)
	a.depot.openStore = opt.openStore
	a.sites = newSites(a.log, a.depot, &a.door)
	a.depot.sites = a.sites
	a.tests = a.newSelfTest(cfg)
	securities, problems := buildTLS(cfg, nil, a.log)
	a.showConfig(cfg, false, nil)
	links, peers, bad := a.sites.build(cfg)
	pools, guards, table, more := build(cfg, nil, nil, a.sites.hub, a.log)
	if problems = append(append(problems, bad...), more...); problems != nil {
		for _, p := range pools {
			p.close()
		}
		return nil, problems
	}
	for name, s := range securities {
		s.warn(name, a.log)
	}
	a.pools, a.guards, a.table = pools, guards, table
	a.securities.Store(&securities)
	a.handler = proxy.NewHandler(table, proxy.Options{Log: a.log, Observer: &watchers{a.metrics, a.history, a.access, a.traces}, Tracer: a.traces, Enqueuer: a.depot, Follower: a.depot})
	a.depot.handler, a.depot.adopt = a.handler, a.adopt
	a.sites.handler = a.handler
	a.sites.configure(cfg, links)
	a.peers.Store(&peers)
	a.metrics.WatchBackends(a.backends)
	a.metrics.WatchLinks(a.traffic)
	a.metrics.WatchCertificates(a.certificates)
	a.door.server = a.handler
	a.door.present.Store(newGeneration(nil))

	// The store first: that another gateway has it says more than that its
	// addresses are taken.
	problems = a.setAccess(cfg)
	if problems == nil {
		problems = a.depot.open(cfg)
	}
	if problems == nil {
		problems = a.bind(cfg)
	}
	if problems != nil {
		_ = a.access.Set(telemetry.AccessTarget{})
		a.depot.close()
		for _, p := range a.pools {
			p.close()
		}
		return nil, problems
	}
	a.setAlerts(cfg)
	a.traces.Set(cfg.Telemetry.OTLP.Reveal(), cfg.Telemetry.Sample)
	a.group = lifecycle.New(lifecycle.Options{Drain: drainOf(cfg), Log: a.log},
		lifecycle.Part{Name: "access log", Run: a.access.Run},
		lifecycle.Part{Name: "traces", Run: a.traces.Run},
		lifecycle.Part{Name: "alerts", Run: a.alerts.Run},
		lifecycle.Part{Name: "nodes", Run: a.runNodes},
		lifecycle.Part{Name: "links", Run: a.sites.run},
		lifecycle.Part{Name: "store", Run: a.depot.run},
		lifecycle.Part{Name: "wsdl", Run: a.runDescriptions},
		lifecycle.Part{Name: "self-test", Run: a.tests.Run},
		lifecycle.Part{Name: "admin", Run: a.runAdmin},
		lifecycle.Part{Name: "certificates", Run: a.runCertificates},
		lifecycle.Part{Name: "listeners", Run: runListeners(a.listeners)},
		lifecycle.Part{Name: "watch", Run: a.runWatch},
		lifecycle.Part{Name: "ready", Run: a.runReady},
	)
	return a, nil
}

// Check reports everything that would keep cfg from running, short of what
// only a bound address can show. Its error is config.Problems.
func Check(cfg *config.Config) error {
	log := slog.New(slog.DiscardHandler)
	pools, _, table, problems := build(cfg, nil, nil, nil, log)
	for _, p := range pools {
		p.close()
	}
	if table == nil {
		// The listeners are looked at as well: all problems at once.
		table, _ = proxy.Compile(proxy.TableOptions{})
	}
	securities, more := buildTLS(cfg, nil, log)
	problems = append(problems, more...)
	handler := proxy.NewHandler(table, proxy.Options{})
	_, more = newListeners(cfg, securities, handler, handler.Trusts, log)
	problems = append(append(append(problems, more...), checkStore(cfg)...), checkAccess(cfg)...)
	_, _, more = newSites(log, nil, nil).build(cfg)
	problems = append(problems, more...)
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// build makes what a reload replaces. Nodes and guards of old that are the same
// are kept.
func build(cfg *config.Config, old pools, before guards, hub *relay.Hub, log *slog.Logger) (pools, guards, *proxy.Table, config.Problems) {
	guards, problems := buildGuards(cfg, before)
	blocks, more := readBlocks(cfg)
	problems = append(append(problems, more...), checkDescriptions(cfg)...)
	pools, more := buildPools(cfg, old, hub)
	if problems = append(problems, more...); problems != nil {
		for _, p := range pools.without(old) {
			p.close()
		}
		return nil, nil, nil, problems
	}
	opt := tableOptions(cfg, pools, guards, log)
	for i := range opt.Routes {
		opt.Routes[i].Add = blocks[opt.Routes[i].Name]
	}
	table, err := proxy.Compile(opt)
	if err != nil {
		for _, p := range pools.without(old) {
			p.close()
		}
		return nil, nil, nil, tableProblems(cfg, pools, err)
	}
	return pools, guards, table, nil
}

// bind makes and binds the listeners and the admin listener: all or none.
func (a *App) bind(cfg *config.Config) config.Problems {
	listeners, problems := newListeners(cfg, *a.securities.Load(), siteMount{challenges{&a.door}, a.sites, &a.peers}, a.handler.Trusts, a.log)
	if problems != nil {
		return problems
	}
	if problems := append(a.prepareACME(cfg), bindAll(cfg, listeners)...); problems != nil {
		for _, l := range listeners {
			_ = l.Close()
		}
		return problems
	}
	if problems := a.bindAdmin(cfg); problems != nil {
		for _, l := range listeners {
			_ = l.Close()
		}
		return problems
	}
	a.listeners, a.headBytes = listeners, sizesOf(cfg).headBytes()
	return nil
}

// bindAdmin makes and binds the admin listener, and opens its audit file.
func (a *App) bindAdmin(cfg *config.Config) config.Problems {
	audit, problems := openAudit(cfg, a.log)
	if problems != nil {
		return problems
	}
	ln, err := net.Listen("tcp", cfg.Admin.Address)
	if err != nil {
		_ = audit.Close()
		return config.Problems{addressProblem(cfg, "admin.address", err)}
	}
	a.audit = audit
	a.sites.audit.Store(audit)
	a.admin = admin.New(ln, admin.Options{
		Token:    cfg.Admin.Token.Reveal(),
		Ready:    a.unready,
		Degraded: a.depot.degraded,
		Metrics:  a.metrics.Handler(),
		Queue:    a.depot.shown,
		Gateway:  adminGateway{a},
		SelfTest: a.tests,
		Events:   a.happened,
		Audit:    audit,
		TLS:      a.securities.Load().of(adminListener),
		Version:  a.opt.Version,
		Log:      a.log,
	})
	return nil
}

// openAudit opens the file that gets a line for each change, nil for none.
func openAudit(cfg *config.Config, log *slog.Logger) (*admin.Audit, config.Problems) {
	if cfg.Admin.Audit == "" {
		return nil, nil
	}
	audit, err := admin.OpenAudit(string(cfg.Admin.Audit), log)
	if err != nil {
		return nil, config.Problems{cfg.Problem("admin.audit", "cannot be written: "+reason(err).Error(), "it must be a file that the gateway may make and write")}
	}
	return audit, nil
}

// drainOf is the budget of a stop.
func drainOf(cfg *config.Config) time.Duration { return cfg.Drain.Or(forever) }

// Listeners returns the listeners in the order of the configuration.
func (a *App) Listeners() []Bound {
	var bound []Bound
	for _, l := range a.listeners {
		bound = append(bound, Bound{l.name, string(l.protocol), l.Addr().String()})
	}
	return bound
}

// Admin returns the address of the admin listener.
func (a *App) Admin() string { return a.admin.Addr().String() }

// Store describes the open store; ok is false if there is none.
type Store struct {
	Dir     string // absolute
	ID      string
	Waiting uint64 // messages when it was opened
}

// Store returns the store that was opened at the start.
func (a *App) Store() (s Store, ok bool) {
	p := a.depot.present.Load()
	if p == nil {
		return s, false
	}
	i := p.store.Info()
	return Store{Dir: i.Dir, ID: i.ID, Waiting: p.waiting}, true
}

// Queue returns the stored messages, nil without a store. A reload may open one.
func (a *App) Queue() *queue.Queue {
	if p := a.depot.present.Load(); p != nil {
		return p.queue
	}
	return nil
}

// adopt gives the queue, once it knows which routes it has messages of, those
// that do not store any more.
func (a *App) adopt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.depot.configure(a.cfg); err != nil {
		a.log.Error("routes of the queue", "err", err)
	}
	a.depot.tellOrphans()
}

// Run serves until ctx is cancelled, then drains, and returns once every
// goroutine of the gateway is gone. It must be called once.
func (a *App) Run(ctx context.Context) error { return a.group.Run(ctx) }

// runAdmin is the part that serves the admin listener.
func (a *App) runAdmin(stop, cut context.Context) error {
	return errors.Join(a.admin.Run(stop, cut), a.audit.Close())
}

// Cut ends the drain now. Exchanges under way are broken off.
func (a *App) Cut() { a.group.Cut() }

// unready says why the gateway does not take messages.
func (a *App) unready() []string {
	switch a.state.Load() {
	case starting:
		return []string{"starting"}
	case draining:
		return []string{"draining"}
	}
	return nil
}

// runReady is the part that is started last and stopped first.
func (a *App) runReady(stop, _ context.Context) error {
	a.state.Store(running)
	a.opt.Ready()
	<-stop.Done()
	a.state.Store(draining)
	return nil
}

// runNodes is the part that watches the nodes, and closes them when no exchange
// is left.
func (a *App) runNodes(stop, _ context.Context) error {
	a.mu.Lock()
	a.pools.watch(a.depot.tell)
	a.mu.Unlock()
	<-stop.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handler.CutShadows()
	a.retire(a.pools, pools{}, a.table)
	a.closing.Wait()
	return nil
}
