package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"
)

// ErrNoRoute: no route of this name has or had messages here.
var ErrNoRoute = errors.New("queue: no such route")

// ErrBusy: the message is being delivered at this moment.
var ErrBusy = errors.New("queue: message is being delivered")

// ErrShutdown is the cancellation cause that attempts see when Run gives up
// waiting for them.
var ErrShutdown = errors.New("queue: shutting down")

// A Queue delivers what a [Store] holds. It keeps an index of all waiting
// messages in memory, never their bodies but for those just accepted.
type Queue struct {
	opt   Options
	store Store
	deliv Deliverer
	many  BatchDeliverer // deliv, nil if it is none

	mu     sync.Mutex
	routes map[string]*routeState
	dests  map[string]*destState
	byID   map[idKey]*item
	buried burial      // dead letters
	hot    int64       // octets of bodies kept in memory
	early  []earlyItem // accepted while the index is being rebuilt
	// inHand are the messages that a Replay or a Move puts elsewhere, and those that
	// an Import brings. They are held until the old place is empty, or until the
	// import is remembered.
	inHand   map[string]*hand
	keeps    atomic.Bool // SetKeepDelivered
	ids      *identities
	complete chan struct{} // closed once the index is
	scanned  uint64        // up to here the log was read when the index was rebuilt
	loaded   bool
	run      *running
	agenda   agenda
	clock    clock

	epoch   uint64                // of the labels that are given
	numbers map[Stream]*numbering // of this epoch
	seen    seen
	awaits  awaits
	saving  sync.Mutex // held while the states of seen are written; before mu

	// moving is held for reading by what takes a message to where a backup has
	// looked already, for writing by a backup. It comes before mu.
	moving  sync.RWMutex
	backing atomic.Bool // a backup is being made
}

// hand is a message in hand.
type hand struct {
	item *item // in its new place, nil until it is there
	// history is what it begins with there, with a mark among it; nil for none.
	history []AttemptRecord
	replied bool // item.replied
}

// earlyItem is an item that waits to become part of the index.
type earlyItem struct {
	*item
	lane string
}

// running is what exists while Run does.
type running struct {
	ctx  context.Context // ends when the stop begins: no new attempt
	work context.Context // of attempts; ends when their time is up
	wg   sync.WaitGroup
}

// New returns a queue over s that delivers by d. It registers with s, so there
// must be only one for each store.
func New(s Store, d Deliverer, opt Options) (*Queue, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	q := &Queue{
		opt: opt, store: s, deliv: d,
		routes: map[string]*routeState{},
		dests:  map[string]*destState{},
		byID:   map[idKey]*item{},
		buried: burial{byID: map[string]*deadEntry{}},

		inHand: map[string]*hand{},
		ids:    newIdentities(), complete: make(chan struct{}),
		agenda: newAgenda(), clock: newClock(opt.Wall),
		epoch: newEpoch(), numbers: map[Stream]*numbering{}, seen: newSeen(), awaits: newAwaits(),
	}
	q.many, _ = d.(BatchDeliverer)
	s.OnCommit(q.committed)
	return q, nil
}

// Configure replaces routes and destinations. Messages of a route that is gone
// wait as orphaned until a route of that name is back. An error changes nothing.
func (q *Queue) Configure(routes []Route, dests []Destination) error {
	known := map[string]bool{}
	for i, d := range dests {
		dests[i] = d.withDefaults()
		if err := dests[i].validate(); err != nil {
			return err
		}
		known[d.Name] = true
	}
	for i, r := range routes {
		routes[i].Retry = r.Retry.WithDefaults()
		if err := routes[i].Retry.Validate(); err != nil {
			return fmt.Errorf("queue: route %q: %w", r.Name, err)
		}
		if !known[r.Destination] {
			return fmt.Errorf("queue: route %q: no destination %q", r.Name, r.Destination)
		}
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range q.dests {
		d.routes = nil
	}
	for _, r := range q.routes {
		r.dest = nil
	}
	for _, cfg := range dests {
		d := q.dests[cfg.Name]
		if d == nil {
			d = &destState{q: q, place: -1, pace: newPace()}
			if v, err := q.store.State(heldState + cfg.Name); err == nil && len(v) > 0 {
				d.held = true
			}
			q.dests[cfg.Name] = d
		}
		d.cfg = cfg
	}
	for _, cfg := range routes {
		r := q.route(cfg.Name)
		r.cfg, r.dest = cfg, q.dests[cfg.Destination]
		if r.held = r.held || cfg.StopOnDead && !q.loaded; !cfg.StopOnDead {
			r.free()
		}
		r.dest.routes = append(r.dest.routes, r)
	}
	for _, d := range q.dests {
		d.poke()
	}
	return nil
}

// route returns the state of a route, made if need be.
func (q *Queue) route(name string) *routeState {
	r := q.routes[name]
	if r == nil {
		r = &routeState{name: name, lanes: map[string]*lane{}}
		q.routes[name] = r
		if v, err := q.store.State(pausedState + name); err == nil && len(v) > 0 {
			r.paused = true
		}
		if v, err := q.store.State(movedState + name); err == nil && len(v) > 0 {
			r.parted, r.blocked = true, !q.loaded
		}
	}
	return r
}

// pausedState prefixes the names of the states that say a route is paused.
const pausedState = "paused."

// Put accepts a message. It returns nil once the message is durable; from then
// on it is delivered or becomes a dead letter, whatever happens. The errors are
// those of [Store.Put]; ErrFull also for a route that has as much as it may, and
// ErrSeen for a message with a label that has come before. m must not be changed
// afterwards.
func (q *Queue) Put(ctx context.Context, m *Message) error {
	if m.Came == nil {
		return q.accept(ctx, m)
	}
	return q.once(ctx, m.Came, func() error { return q.accept(ctx, m) })
}

func (q *Queue) accept(ctx context.Context, m *Message) error {
	size := m.Size()
	if err := q.reserve(m.Route, size); err != nil {
		return err
	}
	_, err := q.put(ctx, m)
	q.unreserve(m.Route, size)
	return err
}

// committed is called by the store for every durable message, in the order of
// the log.
func (q *Queue) committed(seq uint64, m *Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opt.Observer.Accepted(m.Route)
	if seq <= q.scanned {
		return // the scan was faster, and the message is in the index, or done
	}
	q.identify(m)
	if m.Came != nil {
		q.seen.add(m.Came)
	}
	it := q.item(seq, m, m.Size())
	h := q.inHand[m.ID]
	if h != nil && len(h.history) > 0 {
		it.setHistory(h.history)
		it.maybe, it.replied = true, h.replied
	}
	if old := q.byID[keyOf(m.ID)]; old != nil && m.Anew {
		it.takeOver(old)
		q.end(nil, old)
	}
	if m.Blob == nil && q.hot+int64(it.size) <= q.opt.HotBytes {
		it.extra().hot = m
		q.hot += int64(it.size)
	}
	if !q.loaded {
		// Older messages of the same lane may still be unknown.
		q.early = append(q.early, earlyItem{it, m.Lane})
		it.route.coming.add(1, int64(it.size))
		return
	}
	q.insert(it, m.Lane)
	if h != nil {
		it.route.take(it)
		h.item = it
	}
}

func (q *Queue) item(seq uint64, m *Message, size int64) *item {
	it := &item{
		seq: seq, key: keyOf(m.ID), route: q.route(m.Route), op: unique.Make(m.Operation),
		accepted: min(q.clock.taken(m.Accepted), q.clock.now()), size: uint32(min(size, math.MaxUint32)), first: m.First, anew: m.Anew, again: m.Again,
	}
	if it.key[6]&hashed == hashed {
		it.extra().id = strings.Clone(m.ID)
	}
	if !m.Identity.IsZero() {
		it.extra().same, it.more.known = m.Identity.Key, true
	}
	if m.Came != nil {
		it.extra().came = m.Came
	}
	if m.Forwards {
		it.extra().next, it.more.forwards = nextKey(m.ID, m.Accepted), true
	}
	return it
}

// insert makes an item part of the index.
func (q *Queue) insert(it *item, lane string) {
	q.byID[it.key] = it
	it.route.add(it, lane)
	if d := it.route.dest; d != nil && !d.asleep() {
		d.poke()
	}
}

// Run rebuilds the index from the store and delivers until ctx ends; attempts
// under way then get Options.Drain and are cut off with [ErrShutdown]. It
// returns once no goroutine of its own is left, with nil for an orderly stop.
// It must be called once.
func (q *Queue) Run(ctx context.Context) error {
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := &running{ctx: ctx, work: work}

	q.mu.Lock()
	q.run = run
	q.mu.Unlock()
	run.wg.Go(func() { q.dispatch(run) })

	err := q.Load(ctx)
	if err == nil {
		run.wg.Go(func() { q.sweep(ctx) })
		run.wg.Go(func() { q.repayLabels(ctx) })
		<-ctx.Done()
	} else if ctx.Err() != nil {
		err = nil
	}
	stop()

	idle := make(chan struct{})
	go func() { run.wg.Wait(); close(idle) }()
	patience := time.NewTimer(max(0, q.opt.Drain))
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		abort(ErrShutdown)
		<-idle
	}
	if err == nil {
		q.noteClock(context.WithoutCancel(ctx))
		q.repay(context.WithoutCancel(ctx))
	}
	return err
}

// Load rebuilds the index: what is known of messages that are gone, dead letters,
// attempts, then the log in order. Run does it by itself; tools that look at a
// stopped store call only Load.
func (q *Queue) Load(ctx context.Context) error {
	err := q.store.ScanKnown(ctx, func(k Known) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.ids.set(&k.Identity, k.ID, k.Route, k.Fate)
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue: identities: %w", err)
	}
	if err := q.loadSeen(); err != nil {
		return err
	}
	if err := q.loadAwaited(ctx); err != nil {
		return err
	}
	follow := followers{}
	err = q.store.ScanDead(ctx, func(d *DeadLetter, size int64) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.bury(d, size)
		if d.Came != nil {
			q.seen.add(d.Came)
		}
		follow.add(d.Message)
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue: dead letters: %w", err)
	}
	clock, err := q.readClock()
	if err != nil {
		return err
	}
	histories := map[string][]AttemptRecord{}
	replied := map[string]bool{}
	err = q.store.ScanAttempts(ctx, func(id string, a []AttemptRecord) error {
		for i := range a {
			clock.add(a[i].At)
			if len(a[i].Reply) > 0 {
				replied[id] = true
				a[i].Reply = nil
			}
		}
		histories[strings.Clone(id)] = a
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue: attempts: %w", err)
	}
	doubt, err := q.openDoubt(ctx)
	if err != nil {
		return err
	}
	var stale []uint64
	var first, last uint64
	err = q.store.Scan(ctx, func(seq uint64, m *Message, size int64) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.early) > 0 && seq >= q.early[0].seq {
			return nil // accepted meanwhile: it waits in early
		}
		q.scanned = seq
		follow.add(m)
		old := q.byID[keyOf(m.ID)]
		if old != nil && m.Anew && old.where != inFlight {
			// A crash has brought back the older of its records.
			stale = append(stale, old.seq)
			last = seq
			it := q.item(seq, m, size)
			it.takeOver(old)
			q.end(nil, old)
			q.insert(it, m.Lane)
			return nil
		}
		if old != nil || q.buried.byID[m.ID] != nil {
			// It was buried, or replayed, and a crash has brought it back.
			stale = append(stale, seq)
			return nil
		}
		if m.Came != nil && !q.seen.take(m) {
			stale = append(stale, seq)
			return nil
		}
		if first == 0 {
			first = seq
		}
		last = seq
		if !m.Identity.IsZero() {
			q.ids.set(&m.Identity, m.ID, m.Route, FateWaiting)
		}
		it := q.item(seq, m, size)
		it.accepted = q.clock.stored(m.Accepted)
		clock.add(m.Accepted)
		it.setHistory(histories[m.ID])
		it.replied = replied[m.ID]
		it.maybe = seq <= doubt
		for _, a := range it.history() {
			it.maybe = it.maybe || a.Maybe || a.Open
			it.setDue(q.clock.left(&a))
		}
		delete(histories, m.ID)
		q.insert(it, m.Lane)
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue: log: %w", err)
	}
	if err := q.settleDoubt(ctx, doubt, first, last); err != nil {
		return err
	}
	if len(stale) > 0 {
		if err := q.store.Remove(stale...); err != nil {
			q.opt.Log.Warn("queue: messages that are done could not be removed", "err", err)
		}
	}

	if len(stale) == 0 {
		if err := q.forgetMoves(ctx); err != nil {
			return err
		}
	}

	q.mu.Lock()
	for _, r := range q.routes {
		r.blocked = false
		r.free()
	}
	for _, it := range q.early {
		it.route.coming.add(-1, -int64(it.size))
		q.insert(it.item, it.lane)
	}
	q.early = nil
	for _, r := range q.routes {
		follow.settle(r.log.after(0))
	}
	q.settleClock(clock)
	q.loaded = true
	close(q.complete)
	for _, d := range q.dests {
		d.poke()
	}
	for id := range histories {
		if q.byID[keyOf(id)] != nil {
			delete(histories, id)
		}
	}
	q.mu.Unlock()
	for id := range histories { // of messages that are gone
		if err := q.store.SaveAttempts(id, nil); err != nil {
			break
		}
	}
	return nil
}
