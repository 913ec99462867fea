package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// batchItems and batchOctets are how much one batch takes of what waits.
	batchItems  = 256
	batchOctets = 1 << 20
	// maxBatches is how many batches are under way at once. One more begins only when
	// there is enough for it (earlyItems, or octets as many as a quarter of a batch):
	// a few large ones are cheaper, on both disks.
	maxBatches = 4
	earlyItems = 64
	// gathering is how long a batch that is not full waits for those that are given at
	// the same time: far less than a link takes, and each batch costs a sync there.
	gathering = time.Millisecond
)

// A line is a link with what is under way on it. What waits here is in the hands of
// the queue: each item has somebody in send.
type line struct {
	hub    *Hub
	cfg    Link
	client *http.Client // nil where the other site fetches
	rate   *bucket
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	waiting []*pending
	items   int    // of waiting
	octets  int64  // of waiting
	active  int    // batches under way
	greeted bool   // marks were exchanged since the last failure
	run     string // of the far side, when that was
	// confirmed is what the far side has answered for since this line was made.
	confirmed confirmed
	wake      chan struct{}
	fetched   *fetched  // the batch that the other site has fetched last
	fetch     uint64    // counts fetches of the other site
	expects   time.Time // until then answers are fetched, as some were asked for
	asked     chan struct{}
	quiet     *time.Timer // until the other site is taken for gone
	closed    error
	stats     stats
}

// pending is items that go together, with somebody who waits for their answers.
type pending struct {
	items  []*Item
	octets int64
	cancel context.CancelCauseFunc // of the request that they are in, if they are alone there; guarded by line.mu
	done   chan struct{}           // closed once res and err are set
	res    []Result                // one for each; without an Outcome where err says why
	err    error
}

func newPending(items []*Item) *pending {
	p := &pending{items: items, done: make(chan struct{})}
	for _, it := range items {
		p.octets += it.Size
	}
	return p
}

// large reports whether it is one item whose body is read while it is sent.
func (p *pending) large() bool { return p.items[0].Open != nil }

func (p *pending) answer(rs []Result, err error) {
	if rs == nil {
		rs = make([]Result, len(p.items))
	}
	p.res, p.err = rs, err
	close(p.done)
}

// answers gives everybody their part of the results of a batch.
func answers(batch []*pending, results []Result, err error) {
	for _, p := range batch {
		n := len(p.items)
		p.answer(results[:n:n], err)
		results = results[n:]
	}
}

// itemsOf are the items of a batch in their order.
func itemsOf(batch []*pending) []*Item {
	if len(batch) == 1 {
		return batch[0].items
	}
	var all []*Item
	for _, p := range batch {
		all = append(all, p.items...)
	}
	return all
}

func newLine(h *Hub, cfg Link) *line {
	l := &line{hub: h, cfg: cfg, rate: &bucket{rate: cfg.Bandwidth}, wake: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancelCause(h.ctx)
	l.stats.since = time.Now()
	if cfg.URL != "" {
		l.client = &http.Client{Transport: h.opt.Transport(cfg), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return l
}

// close ends the line: what waits fails with err, what is under way is cut off.
func (l *line) close(err error) {
	l.mu.Lock()
	l.closed = err
	if l.quiet != nil {
		l.quiet.Stop()
	}
	waiting := l.waiting
	l.waiting, l.items, l.octets = nil, 0, 0
	if l.fetched != nil {
		waiting = append(waiting, l.fetched.batch...)
		l.fetched = nil
	}
	l.mu.Unlock()
	for _, p := range waiting {
		p.answer(nil, err)
	}
	l.cancel(err)
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
}

// send hands items over and waits for their answers.
func (l *line) send(ctx context.Context, items []*Item) ([]Result, error) {
	p := newPending(items)
	none := make([]Result, len(items))
	l.mu.Lock()
	if l.closed == nil && l.client == nil && !l.polled(time.Now()) {
		l.mu.Unlock()
		return none, l.silent()
	}
	if l.closed != nil {
		defer l.mu.Unlock()
		return none, l.closed
	}
	l.enlist(p)
	l.begin()
	l.mu.Unlock()
	select {
	case <-p.done:
		return p.res, p.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	if i := slices.Index(l.waiting, p); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.delist(p)
		l.mu.Unlock()
		return none, context.Cause(ctx)
	}
	cancel := p.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(context.Cause(ctx))
	}
	if p.large() { // whose body belongs to whoever sends it
		<-p.done
		return p.res, p.err
	}
	select {
	case <-p.done:
		return p.res, p.err
	default:
		return none, context.Cause(ctx)
	}
}

// enlist makes items wait, before what comes later. mu is held.
func (l *line) enlist(p *pending) {
	l.waiting = append(l.waiting, p)
	l.items += len(p.items)
	l.octets += p.octets
}

// delist counts items out that do not wait any more. mu is held.
func (l *line) delist(p *pending) {
	l.items -= len(p.items)
	l.octets -= p.octets
}

// begin starts batches of what waits. mu is held.
func (l *line) begin() {
	if l.client == nil {
		select {
		case l.wake <- struct{}{}:
		default:
		}
		return
	}
	for len(l.waiting) > 0 && l.closed == nil && l.active < maxBatches {
		if l.active > 0 && l.items < earlyItems && l.octets < batchOctets/4 {
			return
		}
		l.active++
		// The hub waits for it; a line that is not closed has a hub that is not.
		l.hub.wg.Go(l.push)
		if l.items < batchItems && l.octets < batchOctets {
			return
		}
	}
}

// gather takes a batch, once those that are given at this moment are there.
func (l *line) gather() []*pending {
	l.mu.Lock()
	full := l.items >= batchItems || l.octets >= batchOctets
	l.mu.Unlock()
	if !full {
		pause := time.NewTimer(gathering)
		select {
		case <-pause.C:
		case <-l.ctx.Done():
			pause.Stop()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take()
}

// take takes what one batch may have: what goes together is not parted, and an item with
// a large body goes alone. mu is held.
func (l *line) take() []*pending {
	n, items, octets := 0, 0, int64(0)
	for n < len(l.waiting) {
		p := l.waiting[n]
		if n > 0 && (p.large() || items+len(p.items) > batchItems || octets+p.octets > batchOctets) {
			break
		}
		items += len(p.items)
		octets += p.octets
		n++
		if p.large() {
			break
		}
	}
	batch := slices.Clone(l.waiting[:n])
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	l.items -= items
	l.octets -= octets
	return batch
}

// push makes a batch, sends it and gives everybody the answer.
func (l *line) push() {
	defer func() {
		l.mu.Lock()
		l.active--
		l.begin()
		l.mu.Unlock()
	}()
	batch := l.gather()
	if len(batch) == 0 {
		return // taken by another, or its senders have left
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	if len(batch) == 1 {
		l.mu.Lock()
		batch[0].cancel = cancel
		l.mu.Unlock()
	}
	if l.isUp() {
		if err := l.hub.gate.enter(ctx, l.cfg.Priority); err != nil {
			answers(batch, make([]Result, len(itemsOf(batch))), fmt.Errorf("%w: %w", ErrDown, err))
			return
		}
		defer l.hub.gate.leave(l.cfg.Priority)
	}
	l.deliver(ctx, batch)
}

// deliver makes the exchange for a batch and gives everybody the answers.
func (l *line) deliver(ctx context.Context, batch []*pending) {
	items := itemsOf(batch)
	results, err := l.exchangeAll(ctx, items)
	l.mu.Lock()
	if err == nil {
		l.stats.worked(time.Now())
	} else {
		l.greeted = false
		if l.ctx.Err() == nil {
			l.failed(err)
		}
	}
	for i, r := range results {
		if r.Outcome != "" {
			l.stats.sent(r.Outcome)
			l.confirmed.note(&items[i].Label, r.Outcome)
		}
	}
	l.expect(items, results)
	l.mu.Unlock()
	var source errSource
	switch {
	case err == nil:
	case errors.As(err, &source):
		err = source.error
	default:
		err = fmt.Errorf("%w: %w", ErrDown, err)
	}
	answers(batch, results, err)
}

// exchangeAll returns a result for each item, without an Outcome for those that were not
// answered, as the error says. A batch that the far side cannot take as a whole is taken
// apart, so that one item does not hold the others up.
func (l *line) exchangeAll(ctx context.Context, items []*Item) ([]Result, error) {
	none := make([]Result, len(items))
	if err := l.greet(ctx); err != nil {
		return none, err
	}
	results, err := l.exchange(ctx, items)
	if errors.Is(err, errAnew) {
		if err = l.greet(ctx); err == nil {
			results, err = l.exchange(ctx, items)
		}
	}
	refused, isRefused := errors.AsType[*refusedError](err)
	switch {
	case err == nil:
		return results, nil
	case isRefused && len(items) == 1:
		return []Result{{Outcome: Refused, Reason: refused.reason}}, nil
	case !isRefused:
		return none, err
	}
	for i, it := range items {
		if it.Behind && i > 0 && !none[i-1].Outcome.taken() {
			none[i].Outcome = Behind
			continue
		}
		alone := *it
		alone.Behind = false
		one, err := l.exchangeAll(ctx, []*Item{&alone})
		if err != nil {
			return none, err
		}
		none[i] = one[0]
	}
	return none, nil
}

// failed notes why an exchange did not work. mu is held.
func (l *line) failed(err error) {
	if l.stats.failed(time.Now(), oneLine(err.Error())) {
		l.hub.opt.Log.Warn("link is down", "site", l.cfg.Name, "err", err)
	}
}

func (l *line) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats.up
}

// oneLine is an error as an operator reads it.
func oneLine(s string) string {
	const most = 300
	b := []byte(s[:min(len(s), most)])
	for i, c := range b {
		if c < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}

// stats is what is counted of a line. Guarded by its mu.
type stats struct {
	up       bool
	since    time.Time
	last     time.Time
	heard    time.Time // when an item came last
	why      string
	rtt      time.Duration
	out, in  uint64
	sentBy   map[Outcome]uint64
	gotBy    map[Outcome]uint64
	seconds  [10]int64 // items stored in the second
	of       [10]int64 // which second that is
	underway int       // fetched and not answered
	lost     uint64    // that the far side had answered for
	lostAt   time.Time // when that was noticed last
}

func (s *stats) worked(now time.Time) {
	s.last = now
	if !s.up {
		s.up, s.since, s.why = true, now, ""
	}
}

// failed reports whether it was up before.
func (s *stats) failed(now time.Time, why string) bool {
	was := s.up || s.why == ""
	if s.up {
		s.since = now
	}
	s.up, s.why = false, why
	return was
}

func (s *stats) sent(o Outcome) {
	if s.sentBy == nil {
		s.sentBy = map[Outcome]uint64{}
	}
	s.sentBy[o]++
	if o != Stored {
		return
	}
	now := time.Now().Unix()
	i := now % 10
	if s.of[i] != now {
		s.of[i], s.seconds[i] = now, 0
	}
	s.seconds[i]++
}

func (s *stats) got(o Outcome) {
	if s.gotBy == nil {
		s.gotBy = map[Outcome]uint64{}
	}
	s.gotBy[o]++
	s.heard = time.Now()
}

func (s *stats) perSecond(now int64) float64 {
	n := int64(0)
	for i, at := range s.of {
		if at > now-10 {
			n += s.seconds[i]
		}
	}
	return float64(n) / 10
}

// state is what an operator is told of the line.
func (l *line) state() LinkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.stats
	now := time.Now()
	out := LinkState{
		Name: l.cfg.Name, Direction: Push, Pull: l.cfg.Pull, Up: s.up, Since: s.since, LastError: s.why, LastSeen: s.last, LastHeard: s.heard, RTT: s.rtt,
		Sent: s.sentBy[Stored], Duplicates: s.sentBy[Duplicate], Refused: s.sentBy[Refused],
		Received: s.gotBy[Stored], ReceivedDuplicates: s.gotBy[Duplicate], ReceivedRefused: s.gotBy[Refused],
		BytesOut: s.out, BytesIn: s.in, Lost: s.lost, LostAt: s.lostAt, Rate: s.perSecond(now.Unix()), InFlight: l.items + s.underway,
	}
	if l.client == nil {
		out.Direction, out.Up = Pulled, l.polled(now)
	}
	return out
}
