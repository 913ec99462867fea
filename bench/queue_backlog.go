package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// backlogSenders post the messages of a backlog.
const backlogSenders = 64

// queueBacklog measures how a backlog drains: the backend is down, messages are
// accepted, it comes back.
type queueBacklog struct {
	*queueRig
	runs   int
	detail *drainDetail
	store  storeWatch
}

// NewQueueBacklog returns the scenario of a mode; it is run so often.
func NewQueueBacklog(lab *Lab, mode string, runs int, o QueueOptions) Scenario {
	return &queueBacklog{queueRig: newQueueRig(lab, mode, o), runs: runs}
}

// Prepare implements [Scenario].
func (s *queueBacklog) Prepare(ctx context.Context) error { return s.start(ctx) }

// Spec implements [Scenario].
func (s *queueBacklog) Spec() Spec {
	p := Spec{
		Name: "queue", Combo: "backlog-" + s.mode, Label: fmt.Sprintf("%s, backlog of %s drains", s.mode, grouped(float64(s.o.Backlog))),
		Loop: LoopNone, Processes: "separate", Unit: "messages/s",
		Size: s.o.Size, Params: map[string]any{"mode": s.mode, "backlog": s.o.Backlog},
		Servers: s.servers(), Runs: s.runs, NoCold: true, Limiter: s.store.limiter(),
	}
	if s.detail != nil {
		p.Detail = s.detail
	}
	return p
}

// Once implements [Scenario].
func (s *queueBacklog) Once(ctx context.Context, m *Meter) error {
	if s.void != "" {
		return voidRun(m, s.void)
	}
	conns, err := s.dial(ctx, backlogSenders)
	if err != nil {
		return err
	}
	defer hangUp(conns)
	s.tally.begin(s.next)
	if err := s.store.begin(ctx, s.gateway); err != nil {
		return err
	}
	d := &drainDetail{}
	s.sink.down()
	m.Start()
	began := s.clock.now()
	since := func() float64 { return (s.clock.now() - began).Seconds() }
	first := s.next
	stop := s.watch(d, since, func() int64 {
		n, errs := m.counts()
		return n + errs - s.tally.count()
	})
	accepted := s.send(m, conns, false, func(sent int64) bool { return sent < int64(s.o.Backlog) && ctx.Err() == nil })
	built := since()
	d.Up = built
	up := s.clock.now()
	err = s.sink.up(ctx)
	if err == nil {
		err = s.tally.await(ctx, accepted)
	}
	drained := s.clock.now() - up
	stop()
	m.Stop()
	s.next = max(s.next, first+int64(s.o.Backlog))
	if errors.Is(err, errQueueLate) {
		m.Judge(Wrong, fmt.Sprintf("%d of %d accepted messages did not arrive within a minute", accepted-s.tally.count(), accepted))
	} else if err != nil {
		return err
	}
	d.Waiting = append(d.Waiting, drainSample{T: since(), N: accepted - s.tally.count()})
	s.detail = d
	if err := s.store.end(ctx, s.gateway, m); err != nil {
		return err
	}
	m.Score(float64(accepted) / max(drained.Seconds(), 1e-9))
	m.Measure("accepted", float64(accepted)/built, "/s")
	m.Measure("drain", drained.Seconds(), "s")
	return nil
}

// watch samples how many messages wait, fifty times a second.
func (s *queueBacklog) watch(d *drainDetail, since func() float64, waiting func() int64) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	d.Waiting = append(d.Waiting, drainSample{})
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				d.Waiting = append(d.Waiting, drainSample{T: since(), N: max(0, waiting())})
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// Close implements [Scenario].
func (s *queueBacklog) Close() error { return s.close() }
