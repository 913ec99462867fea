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
	earlyItems = 128
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
	octets  int64  // of waiting
	active  int    // batches under way
	greeted bool   // marks were exchanged since the last failure
	run     string // of the far side, when that was
	// confirmed is what the far side has answered for since this line was made.
	confirmed confirmed
	wake      chan struct{}
	fetched   *fetched    // the batch that the other site has fetched last
	fetch     uint64      // counts fetches of the other site
	quiet     *time.Timer // until the other site is taken for gone
	closed    error
	stats     stats
}

// pending is an item with somebody who waits for its answer.
type pending struct {
	item   *Item
	cancel context.CancelCauseFunc // of the request that it is in, if it is alone there; guarded by line.mu
	taken  bool                    // by a batch; guarded by line.mu
	done   chan struct{}           // closed once res and err are set
	res    Result
	err    error
}

func (p *pending) answer(r Result, err error) {
	p.res, p.err = r, err
	close(p.done)
}

func newLine(h *Hub, cfg Link) *line {
	l := &line{hub: h, cfg: cfg, rate: &bucket{rate: cfg.Bandwidth}, wake: make(chan struct{}, 1)}
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
	l.waiting, l.octets = nil, 0
	if l.fetched != nil {
		waiting = append(waiting, l.fetched.items...)
		l.fetched = nil
	}
	l.mu.Unlock()
	for _, p := range waiting {
		p.answer(Result{}, err)
	}
	l.cancel(err)
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
}

// send hands an item over and waits for its answer.
func (l *line) send(ctx context.Context, it *Item) (Result, error) {
	p := &pending{item: it, done: make(chan struct{})}
	l.mu.Lock()
	if l.closed == nil && l.client == nil && !l.polled(time.Now()) {
		l.mu.Unlock()
		return Result{}, l.silent()
	}
	if l.closed != nil {
		defer l.mu.Unlock()
		return Result{}, l.closed
	}
	l.waiting = append(l.waiting, p)
	l.octets += it.Size
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
		l.octets -= it.Size
		l.mu.Unlock()
		return Result{}, context.Cause(ctx)
	}
	cancel := p.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(context.Cause(ctx))
	}
	if it.Open != nil { // whose body belongs to whoever sends it
		<-p.done
		return p.res, p.err
	}
	select {
	case <-p.done:
		return p.res, p.err
	default:
		return Result{}, context.Cause(ctx)
	}
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
		if l.active > 0 && len(l.waiting) < earlyItems && l.octets < batchOctets/4 {
			return
		}
		l.active++
		// The hub waits for it; a line that is not closed has a hub that is not.
		l.hub.wg.Go(l.push)
		if len(l.waiting) < batchItems {
			return
		}
	}
}

// gather takes a batch, once those that are given at this moment are there.
func (l *line) gather() []*pending {
	l.mu.Lock()
	full := len(l.waiting) >= batchItems || l.octets >= batchOctets
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

// take takes what one batch may have. An item with a large body goes alone. mu is held.
func (l *line) take() []*pending {
	n, octets := 0, int64(0)
	for n < len(l.waiting) && n < batchItems {
		it := l.waiting[n].item
		if n > 0 && (it.Open != nil || octets+it.Size > batchOctets) {
			break
		}
		octets += it.Size
		n++
		if it.Open != nil {
			break
		}
	}
	batch := slices.Clone(l.waiting[:n])
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	l.octets -= octets
	for _, p := range batch {
		p.taken = true
	}
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
			l.fail(batch, err)
			return
		}
		defer l.hub.gate.leave(l.cfg.Priority)
	}
	l.deliver(ctx, batch)
}

// deliver makes the exchange for a batch. One that the far side cannot take as a
// whole is taken apart, so that one item does not hold the others up.
func (l *line) deliver(ctx context.Context, batch []*pending) {
	err := l.greet(ctx)
	var results []Result
	if err == nil {
		results, err = l.exchange(ctx, batch)
	}
	if errors.Is(err, errAnew) {
		if err = l.greet(ctx); err == nil {
			results, err = l.exchange(ctx, batch)
		}
	}
	refused, isRefused := errors.AsType[*refusedError](err)
	switch {
	case err == nil:
		l.settle(batch, results)
	case isRefused && len(batch) == 1:
		l.settle(batch, []Result{{Outcome: Refused, Reason: refused.reason}})
	case isRefused:
		for _, p := range batch {
			l.deliver(ctx, []*pending{p})
		}
	default:
		l.fail(batch, err)
	}
}

// settle gives the items of a batch their answers.
func (l *line) settle(batch []*pending, results []Result) {
	l.mu.Lock()
	l.stats.worked(time.Now())
	for i, r := range results {
		l.stats.sent(r.Outcome)
		l.confirmed.note(&batch[i].item.Label, r.Outcome)
	}
	l.mu.Unlock()
	for i, p := range batch {
		p.answer(results[i], nil)
	}
}

// fail tells everybody that no answer has come.
func (l *line) fail(batch []*pending, err error) {
	l.mu.Lock()
	l.greeted = false
	if l.ctx.Err() == nil {
		l.failed(err)
	}
	l.mu.Unlock()
	var source errSource
	for _, p := range batch {
		if errors.As(err, &source) {
			p.answer(Result{}, source.error)
			continue
		}
		p.answer(Result{}, fmt.Errorf("%w: %w", ErrDown, err))
	}
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
		BytesOut: s.out, BytesIn: s.in, Lost: s.lost, LostAt: s.lostAt, Rate: s.perSecond(now.Unix()), InFlight: len(l.waiting) + s.underway,
	}
	if l.client == nil {
		out.Direction, out.Up = Pulled, l.polled(now)
	}
	return out
}
