package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The modes of the queue rows.
const (
	QueueStrict    = "strict"    // an answer means: on disk
	QueueRelaxed   = "relaxed"   // an answer means: in memory
	QueueJetStream = "jetstream" // JetStream alone, which syncs every message
)

// QueueOptions are the settings of the queue rows.
type QueueOptions struct {
	// Size is that of a message in octets. Default 225; shorter ones than a
	// message with its number are made that long.
	Size int
	// Window is how long a run sends. Default 3s.
	Window time.Duration
	// Backlog is how many messages are accepted while the backend is down.
	// Default 10,000.
	Backlog int
	// Limits are those of this machine, for the rows that the disk limits; may
	// be nil.
	Limits *Limits
}

func (o QueueOptions) withDefaults() QueueOptions {
	if o.Size == 0 {
		o.Size = 225
	}
	o.Size = max(o.Size, queueLeast)
	if o.Window == 0 {
		o.Window = 3 * time.Second
	}
	if o.Backlog == 0 {
		o.Backlog = 10_000
	}
	return o
}

// A queueRig is a gateway that stores, its backend, and what came there.
type queueRig struct {
	lab     *Lab
	o       QueueOptions
	mode    string
	clock   queueClock
	tally   *queueTally
	sink    *queueSink
	gateway *Child
	next    int64  // number of the next message
	void    string // why there is nothing to measure
}

const queueConfig = `
listeners: [{name: web, address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
log: {level: warn}
store: {dir: store, durability: %s, max_bytes: 2GiB, min_free: 16MiB}
backends:
  sink:
    nodes: ["http://%s/orders"]
    probe: {initial: 100ms, max: 1s}
routes:
  - name: orders
    match: {path: /orders}
    backend: sink
    delivery: queue
    retry: {initial: 100ms, max: 1s}
%s`

func newQueueRig(lab *Lab, mode string, o QueueOptions) *queueRig {
	return &queueRig{lab: lab, o: o.withDefaults(), mode: mode, clock: queueClock{time.Now()}, tally: newQueueTally(), next: 1}
}

// start starts backend and gateway. Where the folder is no place for a strict
// store that is no error: void says so, and every run says it again.
func (q *queueRig) start(ctx context.Context) (err error) {
	if q.sink, err = newQueueSink(ctx, q.clock, q.tally.add); err != nil {
		return err
	}
	q.gateway, err = q.lab.Serve(ctx, fmt.Sprintf(queueConfig, q.mode, q.sink.address, ""))
	if err != nil && notStrict(err) {
		q.void, q.gateway = voidReason(err), nil
		return nil
	}
	return err
}

// notStrict reports whether a gateway did not start because its folder is no
// place for a strict store.
func notStrict(err error) bool { return strings.Contains(err.Error(), "store.durability") }

func voidReason(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	why := strings.TrimPrefix(lines[len(lines)-1], "gateway: error: ")
	return "no place for a strict store, name another folder with --dir: " + why
}

func (q *queueRig) close() error {
	var err error
	if q.gateway != nil {
		err = q.gateway.Stop()
	}
	if q.sink != nil {
		q.sink.down()
	}
	return err
}

// servers are the processes of the gateway.
func (q *queueRig) servers() []int {
	if q.gateway == nil {
		return nil
	}
	return []int{q.gateway.PID()}
}

// dial connects n senders.
func (q *queueRig) dial(ctx context.Context, n int) ([]*queueSender, error) {
	senders := make([]*queueSender, 0, n)
	for range n {
		s, err := dialQueue(ctx, q.gateway.Ready.Listener("web"), "", q.o.Size, q.clock)
		if err != nil {
			hangUp(senders)
			return nil, err
		}
		senders = append(senders, s)
	}
	return senders, nil
}

func hangUp(senders []*queueSender) {
	for _, s := range senders {
		_ = s.conn.Close()
	}
}

// send lets every sender post until more says no. It returns how many messages
// were accepted. spans says that the time of the senders is accounted for, by
// Little's law.
func (q *queueRig) send(m *Meter, senders []*queueSender, spans bool, more func(sent int64) bool) int64 {
	var number, accepted atomic.Int64
	number.Store(q.next - 1)
	first := q.next
	var wg sync.WaitGroup
	for i, s := range senders {
		wg.Go(func() {
			shard := m.Shard(i)
			if spans { // they stop one after the other, as their last answers come
				defer func() { shard.Span(time.Since(m.Began())) }()
			}
			for {
				n := number.Add(1)
				if !more(n - first) {
					return
				}
				began := time.Now()
				status, err := s.post(n)
				switch {
				case err != nil:
					shard.Fail(err, began)
					return
				case status != 202:
					shard.Fail(statusError(status), began)
				default:
					shard.Done(began)
					accepted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	q.next = number.Load() + 1
	return accepted.Load()
}

// queueAccept measures how many messages a number of senders gets accepted, and
// how they arrive.
type queueAccept struct {
	*queueRig
	senders int
	conns   []*queueSender
	store   storeWatch
}

// NewQueueAccept returns the scenario of a mode, [QueueStrict] or
// [QueueRelaxed], with so many senders.
func NewQueueAccept(lab *Lab, mode string, senders int, o QueueOptions) Scenario {
	return &queueAccept{queueRig: newQueueRig(lab, mode, o), senders: senders}
}

// Prepare implements [Scenario].
func (s *queueAccept) Prepare(ctx context.Context) error {
	if err := s.start(ctx); err != nil || s.void != "" {
		return err
	}
	var err error
	s.conns, err = s.dial(ctx, s.senders)
	return err
}

// Spec implements [Scenario].
func (s *queueAccept) Spec() Spec {
	p := Spec{
		Name: "queue", Combo: fmt.Sprintf("%s-%d", s.mode, s.senders),
		Label:     fmt.Sprintf("%s, %s", s.mode, sendersOf(s.senders)),
		Loop:      LoopClosed,
		Processes: "separate", Unit: "messages/s",
		Conns: s.senders, Size: s.o.Size,
		Params:  map[string]any{"mode": s.mode, "senders": s.senders},
		Servers: s.servers(),
	}
	if s.mode == QueueRelaxed {
		p.Label += ", NOT power-safe"
	}
	p.Limiter = s.store.limiter()
	if l := s.o.Limits; l != nil && l.Sync != nil && s.mode == QueueStrict {
		// Those that wait at the same time share a sync.
		group, name := max(1, s.store.group()), "1 / mean write and sync"
		if group >= 1.1 {
			name = fmt.Sprintf("%.3g messages a sync / mean write and sync", group)
		}
		p.Limit = &Limit{Name: name, Value: group * 1e6 / l.Sync.Mean}
	}
	return p
}

func sendersOf(n int) string {
	if n == 1 {
		return "1 sender"
	}
	return fmt.Sprintf("%d senders", n)
}

// Once implements [Scenario].
func (s *queueAccept) Once(ctx context.Context, m *Meter) error {
	if s.void != "" {
		return voidRun(m, s.void)
	}
	s.tally.begin(s.next)
	if err := s.store.begin(ctx, s.gateway); err != nil {
		return err
	}
	m.Callers(s.senders)
	m.Start()
	until := m.Began().Add(s.o.Window)
	began := s.clock.now()
	accepted := s.send(m, s.conns, true, func(int64) bool { return time.Now().Before(until) && ctx.Err() == nil })
	m.Stop()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.store.end(ctx, s.gateway, m); err != nil {
		return err
	}
	if err := s.tally.await(ctx, accepted); errors.Is(err, errQueueLate) {
		m.Judge(Wrong, fmt.Sprintf("%d of %d accepted messages did not arrive within a minute", accepted-s.tally.count(), accepted))
	} else if err != nil {
		return err
	}
	s.tally.report(m, began)
	return nil
}

// report adds what the backend saw to a run that began then.
func (t *queueTally) report(m *Meter, began time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unique == 0 {
		return
	}
	m.Measure("delivered", float64(t.unique)/max((t.last-began).Seconds(), 1e-9), "/s")
	for _, p := range []struct {
		name string
		at   float64
	}{{"to_backend_p50", 50}, {"to_backend_p99", 99}} {
		m.Measure(p.name, float64(t.latency.ValueAtPercentile(p.at))/1e9, "s")
	}
	m.Measure("again", float64(t.again), "")
}

// voidRun is a run of a row that cannot be measured here.
func voidRun(m *Meter, why string) error {
	m.Start()
	m.Stop()
	m.Judge(Invalid, why)
	return nil
}

// Close implements [Scenario].
func (s *queueAccept) Close() error {
	hangUp(s.conns)
	return s.close()
}
