package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	drillSenders = 8
	drillPause   = 2 * time.Millisecond // of a sender between two messages
	drillSpan    = 1 << 36              // numbers of one sender; its own number stands above
)

// What became of a message, as its sender knows it.
const (
	drillUnknown  = iota // the connection broke, or the answer says that nobody knows
	drillAccepted        // 202
)

// queueDrill breaks what can break while senders go on, and counts what became
// of each message.
type queueDrill struct {
	lab   *Lab
	o     QueueOptions
	clock queueClock

	sink    *queueSink
	dir     string
	yaml    string
	gateway *Child
	web     atomic.Pointer[string] // address of the gateway's listener
	ledger  *drillLedger
	steps   []drillStep
	void    string
}

// drillStep is [Test.Detail] of the drill: what was done, and when.
type drillStep struct {
	T    float64 `json:"t_s"`
	What string  `json:"what"`
}

// NewQueueDrill returns the scenario of the drill. Its score is the number of
// messages that were accepted and never delivered.
func NewQueueDrill(lab *Lab, o QueueOptions) Scenario {
	return &queueDrill{lab: lab, o: o.withDefaults(), clock: queueClock{time.Now()}, ledger: newDrillLedger(drillSenders)}
}

// Prepare implements [Scenario].
func (d *queueDrill) Prepare(ctx context.Context) (err error) {
	if d.sink, err = newQueueSink(ctx, d.clock, d.ledger.saw); err != nil {
		return err
	}
	if d.dir, err = d.lab.Folder("drill"); err != nil {
		return err
	}
	d.yaml = fmt.Sprintf(queueConfig, QueueStrict, d.sink.address, "    order_by: \"http:X-Sender\"\n")
	if err = d.serve(ctx); err != nil && notStrict(err) {
		d.void = voidReason(err)
		return nil
	}
	return err
}

// serve starts the gateway over the store that is there.
func (d *queueDrill) serve(ctx context.Context) error {
	g, err := d.lab.ServeIn(ctx, d.dir, d.yaml)
	if err != nil {
		return err
	}
	web := g.Ready.Listener("web")
	d.gateway = g
	d.web.Store(&web)
	return nil
}

// Spec implements [Scenario].
func (d *queueDrill) Spec() Spec {
	p := Spec{
		Name: "queue", Combo: "drill", Label: "messages lost in outage, cut, kill -9 and restart",
		Loop: LoopNone, Processes: "separate", Unit: "messages", LowerIsBetter: true,
		Conns: drillSenders, Size: d.o.Size, Params: map[string]any{"mode": QueueStrict},
		Runs: 1, NoCold: true, Limiter: "nothing: it is a count",
	}
	if d.steps != nil {
		p.Detail = map[string]any{"steps": d.steps}
	}
	if d.steps != nil && d.gateway != nil { // the last of several
		p.Servers = []int{d.gateway.PID()}
	}
	return p
}

// Once implements [Scenario].
func (d *queueDrill) Once(ctx context.Context, m *Meter) error {
	if d.void != "" {
		return voidRun(m, d.void)
	}
	m.Start()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for k := range drillSenders {
		wg.Go(func() { d.sender(ctx, k, stop) })
	}
	err := d.trouble(ctx)
	close(stop)
	wg.Wait()
	healed := d.clock.now()
	if err == nil {
		err = d.ledger.await(ctx)
	}
	m.Stop()
	if err != nil && !errors.Is(err, errQueueLate) {
		return err
	}
	c := d.ledger.count()
	m.Score(float64(c.lost))
	for _, v := range []struct {
		name string
		n    int64
	}{
		{"accepted", c.accepted},
		{"delivered", c.delivered},
		{"lost", c.lost},
		{"duplicated", c.duplicated},
		{"unmarked", c.unmarked},
		{"reordered", c.reordered},
		{"unknown", c.unknown},
	} {
		m.Measure(v.name, float64(v.n), "")
	}
	m.Measure("all_delivered_after", max(0, (d.ledger.last()-healed).Seconds()), "s")
	if c.lost+c.unmarked+c.reordered > 0 {
		m.Judge(Wrong, fmt.Sprintf("%d lost, %d came again without the mark, %d out of order", c.lost, c.unmarked, c.reordered))
	}
	return nil
}

// drillFlow is how many messages have to arrive before what was broken counts as
// healed, so that the next trouble meets a gateway that delivers.
const drillFlow = 100

// trouble does one thing after the other and gives each its time. What heals is
// over when messages arrive again.
func (d *queueDrill) trouble(ctx context.Context) error {
	pause := d.o.Window / 3
	step := func(what string) { d.steps = append(d.steps, drillStep{d.clock.now().Seconds(), what}) }
	for _, s := range []struct {
		what  string
		heals bool
		do    func() error
	}{
		{"all is well", true, func() error { return nil }},
		{"backend down", false, func() error { d.sink.down(); return nil }},
		{"backend back", true, func() error { return d.sink.up(ctx) }},
		{"link cut before every answer", false, func() error { d.sink.cut.Store(true); return nil }},
		{"link whole", true, func() error { d.sink.cut.Store(false); return nil }},
		{"kill -9 of the gateway", true, func() error { d.gateway.Kill(); return d.serve(ctx) }},
		{"backend down again", false, func() error { d.sink.down(); return nil }},
		{"kill -9 of the gateway while messages wait", false, func() error { d.gateway.Kill(); return d.serve(ctx) }},
		{"backend back", true, func() error { return d.sink.up(ctx) }},
		{"restart of the gateway", true, func() error { return errors.Join(d.gateway.Stop(), d.serve(ctx)) }},
	} {
		step(s.what)
		before := d.ledger.taken()
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if s.heals {
			if err := d.ledger.flows(ctx, before+drillFlow); err != nil {
				return fmt.Errorf("%s: %w", s.what, err)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	step("the senders stop")
	return nil
}

// sender posts message after message and connects anew when it has to.
func (d *queueDrill) sender(ctx context.Context, k int, stop chan struct{}) {
	var s *queueSender
	defer func() {
		if s != nil {
			_ = s.conn.Close()
		}
	}()
	for n := int64(1); ; {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-time.After(drillPause):
		}
		if s == nil {
			var err error
			if s, err = dialQueue(ctx, *d.web.Load(), fmt.Sprintf("X-Sender: %d\r\n", k), d.o.Size, d.clock); err != nil {
				s = nil
				continue // it is being started
			}
		}
		d.ledger.sends(k, n)
		status, err := s.post(int64(k)*drillSpan + n)
		switch {
		case err != nil:
			d.ledger.told(k, n, drillUnknown)
			_ = s.conn.Close()
			s = nil
		case status == 202:
			d.ledger.told(k, n, drillAccepted)
		default:
			// 503 also means that nobody knows whether it was stored, and only a
			// field tells: nothing is concluded from it.
			d.ledger.told(k, n, drillUnknown)
		}
		n++
	}
}

// Close implements [Scenario].
func (d *queueDrill) Close() error {
	var err error
	if d.gateway != nil {
		err = d.gateway.Stop()
	}
	if d.sink != nil {
		d.sink.down()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Base(d.dir), err)
	}
	return err
}

// drillLedger is what senders and backend have seen.
type drillLedger struct {
	mu     sync.Mutex
	lanes  []drillLane
	lastAt time.Duration
	takes  int64 // answers that the backend gave
}

type drillLane struct {
	messages  []drillMessage // by number; the first is unused
	highest   int64          // that has come
	reordered int64
}

type drillMessage struct {
	told     int
	seen     int64 // how often it came
	taken    bool  // and was answered
	unmarked int64 // how often it came again without the mark
}

func newDrillLedger(lanes int) *drillLedger {
	return &drillLedger{lanes: make([]drillLane, lanes)}
}

func (l *drillLedger) message(k int, n int64) *drillMessage {
	lane := &l.lanes[k]
	for int64(len(lane.messages)) <= n {
		lane.messages = append(lane.messages, drillMessage{})
	}
	return &lane.messages[n]
}

// sends notes that message n is about to be sent.
func (l *drillLedger) sends(k int, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.message(k, n)
}

func (l *drillLedger) told(k int, n int64, what int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.message(k, n).told = what
}

// saw is called by the backend.
func (l *drillLedger) saw(s sunk) {
	k, n := int(s.n/drillSpan), s.n%drillSpan
	l.mu.Lock()
	defer l.mu.Unlock()
	if k >= len(l.lanes) || n >= int64(len(l.lanes[k].messages)) {
		return // nobody has sent it
	}
	lane, m := &l.lanes[k], l.message(k, n)
	switch {
	case m.seen > 0 && !s.marked:
		m.unmarked++
	case m.seen == 0 && n < lane.highest:
		lane.reordered++
	}
	m.seen++
	lane.highest = max(lane.highest, n)
	if !s.cut {
		m.taken = true
		l.lastAt = s.now
		l.takes++
	}
}

func (l *drillLedger) last() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastAt
}

// taken is how many answers the backend has given.
func (l *drillLedger) taken() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takes
}

// flows returns once the backend has given n answers.
func (l *drillLedger) flows(ctx context.Context, n int64) error {
	return l.until(ctx, func() bool { return l.taken() >= n })
}

// await returns once every accepted message has been taken.
func (l *drillLedger) await(ctx context.Context) error {
	return l.until(ctx, func() bool { return l.count().lost == 0 })
}

// until returns once good holds, or errQueueLate after a while.
func (l *drillLedger) until(ctx context.Context, good func() bool) error {
	late := time.NewTimer(queuePatience)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond) // counting takes a while
	defer tick.Stop()
	for !good() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return errQueueLate
		}
	}
	return nil
}

// drillCount is the outcome of a drill, in messages.
type drillCount struct {
	accepted, unknown int64
	delivered         int64 // at least once
	lost              int64 // accepted, and never taken
	duplicated        int64 // deliveries after the first, with the mark
	unmarked          int64 // and without it
	reordered         int64 // that came first after a later one of their sender
}

func (l *drillLedger) count() (c drillCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.lanes {
		c.reordered += l.lanes[k].reordered
		for i, m := range l.lanes[k].messages {
			if i == 0 {
				continue
			}
			switch m.told {
			case drillAccepted:
				c.accepted++
				if !m.taken {
					c.lost++
				}
			default:
				c.unknown++
			}
			if m.seen > 0 {
				c.delivered++
				c.duplicated += m.seen - 1 - m.unmarked
			}
			c.unmarked += m.unmarked
		}
	}
	return c
}
