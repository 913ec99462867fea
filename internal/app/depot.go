package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/retry"
	"soapway/internal/telemetry"
	"soapway/proxy"
	"soapway/queue"
)

// A depot is the durable side of a gateway: a store and the queue that empties
// it. A gateway without a route that stores has none open; a reload that brings
// the first such route opens one. It is what the proxy stores with and what the
// queue delivers by, so that neither of them knows the other.
type depot struct {
	log        *slog.Logger
	metrics    *telemetry.Metrics
	history    *telemetry.History
	happened   *admin.Events
	happenings happenings
	handler    *proxy.Handler // set before the first message
	door       *door
	sites      *sites // set before the first message
	openStore  func(queue.StoreOptions) (queue.Store, error)

	present atomic.Pointer[stock]
	opened  chan *stock // to run; holds one, nil for one that waits for room
	starved atomic.Bool // there is a store, and no room to open it
	watched sync.Once   // by the metrics
	cfg     atomic.Pointer[config.Config]
	exit    atomic.Bool // store.on_failure
	adopt   func()      // called once the queue knows what it holds

	abort   context.Context // of deliveries: ends when the drain is cut
	abandon context.CancelCauseFunc
}

// stock is an open store with its queue.
type stock struct {
	store   queue.Store
	queue   *queue.Queue
	relaxed bool
	keys    config.Secret         // what the store is sealed with; the reload's
	waiting uint64                // when it was opened
	broken  atomic.Pointer[error] // why it takes no messages any more
}

var (
	_ proxy.BatchEnqueuer  = (*depot)(nil)
	_ proxy.Follower       = (*depot)(nil)
	_ queue.BatchDeliverer = (*depot)(nil)
)

func newDepot(log *slog.Logger, m *telemetry.Metrics, h *telemetry.History, e *admin.Events, d *door) *depot {
	p := &depot{log: log, metrics: m, history: h, happened: e, door: d, opened: make(chan *stock, 1), adopt: func() {}}
	p.abort, p.abandon = context.WithCancelCause(context.Background())
	return p
}

// stores reports whether a route of cfg stores messages.
func stores(cfg *config.Config) bool {
	for i := range cfg.Routes {
		if cfg.Routes[i].Stores() {
			return true
		}
	}
	return false
}

// checkStore reports what would keep the store of cfg from opening, without
// touching it.
func checkStore(cfg *config.Config) config.Problems {
	if !stores(cfg) {
		return keyProblems(cfg)
	}
	if err := queue.CheckDir(string(cfg.Store.Dir), string(cfg.Store.Durability)); err != nil {
		return append(config.Problems{storeProblem(cfg, err)}, keyProblems(cfg)...)
	}
	return keyProblems(cfg)
}

// open opens the store of cfg if a route needs it. One that is there from an
// earlier configuration is opened as well, since messages may wait in it; that
// it cannot be opened then keeps nobody from running.
func (p *depot) open(cfg *config.Config) config.Problems {
	p.exit.Store(cfg.Store.OnFailure == config.OnFailureExit)
	need := stores(cfg)
	p.cfg.Store(cfg)
	if p.present.Load() != nil || p.starved.Load() || !need && !exists(string(cfg.Store.Dir)) {
		return nil
	}
	s, err := p.acquire(cfg)
	switch {
	case err == nil:
	case errors.Is(err, queue.ErrNoRoom) && exists(string(cfg.Store.Dir)):
		// Everything else goes on meanwhile.
		p.log.Error("the disk has no room to open the store: queue routes are closed until there is some", "err", err)
		p.starved.Store(true)
		p.opened <- nil
		return nil
	case need:
		return config.Problems{storeProblem(cfg, err)}
	default:
		p.log.Warn("there is a store that no route uses, and it cannot be opened", "dir", cfg.Store.Dir, "err", err)
		return nil
	}
	p.show(s)
	p.opened <- s
	return nil
}

// show makes s the store of the gateway.
func (p *depot) show(s *stock) {
	p.present.Store(s)
	p.starved.Store(false)
	p.watched.Do(func() {
		p.metrics.WatchQueue(telemetry.QueueSource{Queues: p.samples, Links: p.links, DiskFree: p.free})
	})
}

// exists reports whether there is a store in dir.
func exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "store.json"))
	return err == nil
}

func (p *depot) acquire(cfg *config.Config) (*stock, error) {
	options, err := storeOptions(cfg, p.log, storeObserver{storeWatch{p.metrics, &p.happenings}, p.happened})
	if err != nil {
		return nil, err
	}
	store, err := p.openStore(options)
	if err != nil {
		return nil, err
	}
	warnOfKeyFile(cfg, p.log)
	s := &stock{store: store, keys: cfg.Store.EncryptionKey, relaxed: cfg.Store.Durability == config.DurabilityRelaxed, waiting: store.Info().Messages}
	s.queue, err = queue.New(store, p, queue.Options{
		Log: p.log, Observer: observer{p.metrics, p.history, p.happened, &p.happenings},
		Drain: forever, // the group of parts has the budget
	})
	if err == nil {
		err = s.queue.Configure(queueRoutes(cfg, nil))
	}
	if err == nil {
		err = s.queue.SetKeepDelivered(cfg.Store.KeepDelivered.Or(forever))
	}
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return s, nil
}

// storeProblem says at which key of cfg the store's refusal can be mended.
func storeProblem(cfg *config.Config, err error) config.Problem {
	message := strings.TrimPrefix(err.Error(), "queue: ")
	var kind *queue.FilesystemError
	switch {
	case errors.Is(err, queue.ErrLocked):
		return cfg.Problem("store.dir", message, "stop the other gateway, or give each a dir of its own")
	case errors.Is(err, queue.ErrKey), errors.Is(err, errKeyFile):
		return keyProblem(cfg, err)
	case errors.As(err, &kind):
		return cfg.Problem("store.durability", kind.Reason(),
			"set store.dir to a folder on a local disk, or accept what a power cut may lose by durability: relaxed or GATEWAY_STORE_DURABILITY=relaxed")
	}
	return cfg.Problem("store.dir", message, "")
}

func storeOptions(cfg *config.Config, log *slog.Logger, o queue.StoreObserver) (queue.StoreOptions, error) {
	c := &cfg.Store
	keys, err := storeKeys(cfg)
	if err != nil {
		return queue.StoreOptions{}, err
	}
	opt := queue.StoreOptions{
		Dir: string(c.Dir), Durability: string(c.Durability), Keys: keys,
		MaxBytes: int64(c.MaxBytes), MinFree: int64(c.MinFree), Log: log, Observer: o,
		KeepDelivered: c.KeepDelivered.Or(forever),
	}
	if c.MaxBytes.None() {
		opt.MaxBytes = 1 << 50 // the disk ends before
	}
	if c.MinFree == 0 {
		opt.MinFree = -1
	}
	return opt, nil
}

// queueRoutes are the routes that store messages and those that have some,
// with their backends.
func queueRoutes(cfg *config.Config, has map[string]bool) (routes []queue.Route, dests []queue.Destination) {
	known, classes := map[string]bool{}, linkClasses(cfg)
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if !r.Stores() && !has[r.Name] {
			continue
		}
		name, b := cfg.BackendOf(r)
		messages, octets := quota(r)
		routes = append(routes, queue.Route{
			MaxMessages: messages, MaxBytes: octets,
			Name: r.Name, Destination: name, Retry: retryPolicy(&r.Retry),
			// The assurance of a route that has turned sync is not that of what it stored.
			AtMostOnce: r.Stores() && r.Assurance == config.AtMostOnce,
			StopOnDead: r.OnDead == config.OnDeadStop, Closed: !r.Stores(),
		})
		if leadsToSite(b) {
			overLink(&routes[len(routes)-1])
		}
		dests = destination(dests, known, classes, name, b)
		// The answers of the route have circuits of their own, one for each place.
		for _, n := range r.ReplyNodes() {
			routes = append(routes, queue.Route{
				Name: proxy.AnswerRoute(r.Name, n.Origin()), Destination: n.Origin(), Retry: retryPolicy(&r.Retry),
				AtMostOnce: r.Assurance == config.AtMostOnce,
			})
			dests = destination(dests, known, classes, n.Origin(), cfg.ReplyBackend(n))
		}
	}
	back, sites := returnRoutes(cfg, known, classes)
	return append(routes, back...), append(dests, sites...)
}

// destination appends a backend, unless it is known.
func destination(dests []queue.Destination, known map[string]bool, classes map[string]uint8, name string, b *config.Backend) []queue.Destination {
	if known[name] {
		return dests
	}
	known[name] = true
	d := queue.Destination{
		Name: name, Failures: int(b.Outlier.Failures),
		Initial: time.Duration(b.Probe.Initial), Max: time.Duration(b.Probe.Max),
		Parallel: min(maxParallel, countOr(b.MaxConnections, maxParallel), countOr(b.MaxConcurrency, maxParallel)),
	}
	if n, ok := b.SiteNode(); ok {
		d.Link, d.Class, d.Parallel = n.Site, classes[n.Site], linkParallel
	}
	return append(dests, d)
}

// linkParallel is how many messages are on their way over a link at once: as many as
// fill its batches. Each is in memory, with up to 1 MiB.
const linkParallel = 256

// overLink makes a route one whose messages go over a link: they do not expire
// (SPEC.md §6), and under their labels they arrive once, however often they are tried.
func overLink(r *queue.Route) {
	r.Retry.Expire, r.Retry.Attempts, r.AtMostOnce = -1, 0, false
}

// linkClasses are the priorities of the links of cfg.
func linkClasses(cfg *config.Config) map[string]uint8 {
	classes := map[string]uint8{}
	if cfg.Sites != nil {
		for _, l := range cfg.Sites.Links {
			classes[l.Name] = uint8(l.Priority)
		}
	}
	return classes
}

// quota is what may wait of a route, 0 for no bound.
func quota(r *config.Route) (messages int, octets int64) {
	if q := r.Quota; q != nil {
		messages, octets = max(0, int(q.Messages)), max(0, int64(q.Bytes)) // none is negative
	}
	return messages, octets
}

// maxParallel is how many stored messages are on their way to one backend at
// once; fewer where the backend has fewer connections, since an attempt that
// finds none would count as a failure.
const maxParallel = 64

func retryPolicy(r *config.Retry) retry.Policy {
	p := retry.Policy{
		Initial: time.Duration(r.Initial), Factor: r.Factor, Max: time.Duration(r.Max), Jitter: r.Jitter,
		Expire: time.Duration(r.Expire),
	}
	if !r.Attempts.None() {
		p.Attempts = int(r.Attempts)
	}
	switch {
	case p.Jitter == 0:
		p.Jitter = -1 // none; 0 would be the default
	case p.Jitter >= 1:
		p.Jitter = 0.999 // a wait of nothing is none
	}
	return p
}

// configure gives the queue the routes of cfg. Routes that do not store any
// more keep delivering what they have stored.
func (p *depot) configure(cfg *config.Config) error {
	p.cfg.Store(cfg)
	s := p.present.Load()
	if s == nil {
		return nil
	}
	p.exit.Store(cfg.Store.OnFailure == config.OnFailureExit)
	if err := s.queue.Configure(queueRoutes(cfg, holders(s.queue))); err != nil {
		return err
	}
	if err := s.queue.SetKeepDelivered(cfg.Store.KeepDelivered.Or(forever)); err != nil && !errors.Is(err, queue.ErrClosed) {
		return err
	}
	return nil
}

// restartNeeded lists what an open store takes only when it is opened.
func (p *depot) restartNeeded(old, fresh *config.Config) (keys []string) {
	if p.present.Load() == nil {
		return nil
	}
	if old.Store.MaxBytes != fresh.Store.MaxBytes {
		keys = append(keys, "store.max_bytes")
	}
	if old.Store.MinFree != fresh.Store.MinFree {
		keys = append(keys, "store.min_free")
	}
	return keys
}

// loaded waits until the queue knows all that the store holds.
func (s *stock) loaded(ctx context.Context) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			if s.queue.Loaded() {
				return true
			}
		}
	}
}

// close lets go of a store whose part never ran.
func (p *depot) close() {
	if s := p.present.Load(); s != nil {
		_ = s.store.Close()
	}
}

// Enqueue implements [proxy.Enqueuer].
func (p *depot) Enqueue(ctx context.Context, m *proxy.Stored) (proxy.Receipt, error) {
	s, err := p.taking()
	if err != nil {
		return proxy.Receipt{}, err
	}
	receipt, err := s.put(ctx, messageOf(m), m.Identity)
	return receipt, enqueued(&receipt, err)
}

// messageOf is a message as the queue takes it.
func messageOf(m *proxy.Stored) *queue.Message {
	message := &queue.Message{
		ID: m.ID, Route: m.Route, Destination: m.Backend, Lane: m.Lane, Operation: m.Operation,
		Accepted: m.Accepted, Meta: m.Meta, Body: m.Body, Forwards: m.Forwards, Behind: m.Behind,
	}
	if m.Blob != nil {
		message.Blob = m.Blob // no typed nil
	}
	message.Came, _ = m.Came.(*queue.Label)
	return message
}

// enqueued is what the proxy is told of the end of a put.
func enqueued(r *proxy.Receipt, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrSeen):
		*r = proxy.Receipt{Before: true}
		return nil
	}
	*r = proxy.Receipt{}
	switch {
	case errors.Is(err, proxy.ErrDeadLettered):
		return err
	case errors.Is(err, queue.ErrBehind):
		return fmt.Errorf("%w: %w", proxy.ErrBehind, err)
	case errors.Is(err, queue.ErrOtherContent):
		return fmt.Errorf("%w: %w", proxy.ErrOtherContent, err)
	case errors.Is(err, queue.ErrUnknown): // before the errors that it may wrap
		return fmt.Errorf("%w: %w", proxy.ErrStoreUnknown, err)
	case errors.Is(err, queue.ErrTooLarge):
		return fmt.Errorf("%w: %w", proxy.ErrStoreTooLarge, err)
	case errors.Is(err, queue.ErrFull), errors.Is(err, queue.ErrClosed):
		return fmt.Errorf("%w: %w", proxy.ErrStoreBusy, err)
	}
	return fmt.Errorf("%w: %w", proxy.ErrStoreUnknown, err)
}

// now is the time by which replies expire, as the store and the proxy have it: no
// change of the wall clock ends them early.
func (s *stock) now() time.Time {
	opened := s.store.Info().Opened
	return opened.Add(time.Since(opened))
}

// put keeps a message, unless it repeats another.
func (s *stock) put(ctx context.Context, m *queue.Message, id *proxy.Identity) (proxy.Receipt, error) {
	if id == nil {
		return proxy.Receipt{Relaxed: s.relaxed}, s.queue.Put(ctx, m)
	}
	m.Identity = queue.Identity(*id)
	kept, err := s.queue.PutOnce(ctx, m)
	if err != nil {
		return proxy.Receipt{}, err
	}
	return s.receipt(&kept)
}

// receipt is what a caller is told of a message with an identity.
func (s *stock) receipt(kept *queue.Kept) (proxy.Receipt, error) {
	r := proxy.Receipt{Relaxed: s.relaxed}
	switch {
	case !kept.Repeat:
		return r, nil
	case kept.Fate == queue.FateDead, kept.Fate == queue.FateDropped:
		return r, fmt.Errorf("%w: message %s", proxy.ErrDeadLettered, kept.ID)
	}
	if s.queue.DeadThere(kept.ID) {
		return r, fmt.Errorf("%w: message %s", proxy.ErrDeadLettered, kept.ID)
	}
	r.Repeat = kept.ID
	if kept.Fate == queue.FateDelivered {
		if reply, err := s.store.Reply(kept.ID); err == nil && !reply.Expired(s.now()) {
			r.Reply = keptReply(reply)
		}
	}
	return r, nil
}

// verdicts maps the proxy's words to the queue's.
var verdicts = map[proxy.Verdict]queue.Verdict{
	proxy.VerdictDelivered: queue.Delivered,
	proxy.VerdictRetry:     queue.Retry,
	proxy.VerdictDead:      queue.Dead,
	proxy.VerdictAborted:   queue.Aborted,
	proxy.VerdictBehind:    queue.Behind,
}

// Deliver implements [queue.Deliverer]. A delivery counts as an exchange, so
// that a reload closes no node under it.
func (p *depot) Deliver(ctx context.Context, d *queue.Delivery) queue.Outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.abort, func() { cancel(context.Cause(p.abort)) })()
	g := p.door.enter()
	defer g.leave()
	if site, ok := returning(d.Destination); ok {
		return p.sites.sendReturns(ctx, site, []*queue.Delivery{d})[0]
	}
	r := p.handler.Deliver(ctx, storedOf(d), tryOf(d))
	return outcomeOf(&r, d)
}

// storedOf is a message under way as the proxy takes it.
func storedOf(d *queue.Delivery) *proxy.Stored {
	m := &proxy.Stored{
		ID: d.ID, Route: d.Route, Backend: d.Destination, Lane: d.Lane, Operation: d.Operation,
		Accepted: d.Accepted, Meta: d.Meta, Body: d.Body, Behind: d.Follows,
	}
	if d.Blob != nil {
		m.Blob = d.Blob // no typed nil
	}
	if d.Label != nil {
		m.Label = d.Label // no typed nil
	}
	return m
}

func tryOf(d *queue.Delivery) proxy.Try {
	return proxy.Try{Attempt: d.Attempt, PossibleDuplicate: d.PossibleDuplicate}
}

// outcomeOf is the end of an attempt as the queue takes it.
func outcomeOf(r *proxy.DeliveryResult, d *queue.Delivery) queue.Outcome {
	o := queue.Outcome{
		Verdict: verdicts[r.Verdict], Unhealthy: r.Unhealthy, Denied: r.Denied, Maybe: r.Maybe, Status: r.Status, Reason: r.Reason,
		RetryAfter: r.RetryAfter, Reply: r.Reply, ReplyType: r.ReplyType,
	}
	o.Keep = keptAs(r.Kept)
	if r.Awaits != nil {
		o.Awaits = &queue.Awaited{Site: d.Label.Link, Meta: r.Awaits}
	}
	o.Next = nextAs(r.Next)
	return o
}

func keptReply(r *queue.Reply) *proxy.KeptReply {
	return &proxy.KeptReply{Meta: r.Meta, Body: r.Body, Until: r.Until}
}

// Follow implements [proxy.Follower].
func (p *depot) Follow(id string) (*proxy.Followed, error) {
	s := p.present.Load()
	if s == nil && p.starved.Load() {
		return nil, proxy.ErrStoreBusy
	}
	if s == nil {
		return nil, proxy.ErrNoMessage
	}
	f, err := s.queue.Follow(id)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return nil, proxy.ErrNoMessage
	case errors.Is(err, queue.ErrBusy), errors.Is(err, queue.ErrClosed):
		return nil, fmt.Errorf("%w: %w", proxy.ErrStoreBusy, err)
	case err != nil:
		return nil, err
	}
	out := &proxy.Followed{Route: f.Route, Waiting: f.Fate == queue.FateWaiting, Dead: f.Fate == queue.FateDead, Expired: f.Expired, Meta: f.Meta}
	if f.Reply != nil {
		out.Reply = keptReply(f.Reply)
	}
	return out, nil
}

// Probe implements [queue.Deliverer].
func (p *depot) Probe(ctx context.Context, destination string) error {
	g := p.door.enter()
	defer g.leave()
	if site, ok := returning(destination); ok {
		return p.sites.hub.Probe(ctx, site)
	}
	return p.handler.Probe(ctx, destination)
}

// samples are the stored messages as a scrape tells them.
func (p *depot) samples() []telemetry.QueueSample {
	s := p.present.Load()
	if s == nil {
		return nil
	}
	var out []telemetry.QueueSample
	for _, st := range s.queue.Stats() {
		if idleReturn(&st) {
			continue
		}
		out = append(out, telemetry.QueueSample{
			Route: st.Route, Backend: st.Destination, Pending: st.Pending, Retrying: st.Retrying, Dead: st.Dead,
			Orphaned: st.Orphaned, Oldest: st.Oldest, Down: st.Down, Held: string(st.Held), Stopped: st.Stopped, IDs: st.IDs,
			Awaiting: st.Awaiting,
		})
	}
	return out
}

// free is the room on the filesystem of the store.
func (p *depot) free() (int64, bool) {
	s := p.present.Load()
	if s == nil {
		return 0, false
	}
	n, err := queue.FreeBytes(s.store.Info().Dir)
	return n, err == nil
}
