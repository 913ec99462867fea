package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A netEnd is one end of the data of a protocol.
type netEnd interface {
	// pass takes part in moving n buffers, and returns when the part of this
	// end is over.
	pass(n int64) error
	// cut makes a pass that is under way fail, and any later one.
	cut()
}

// netMoved counts the payload that an end has moved, in both directions.
type netMoved struct{ in, out atomic.Int64 }

func (m *netMoved) sum() int64 { return m.in.Load() + m.out.Load() }

// netSession is a test under way, at either end.
type netSession struct {
	control *netControl
	params  netParams
	client  bool // this is the client's end
	end     netEnd
	moved   *netMoved
	far     atomic.Int64 // what the other end says it has moved
	before  int64        // counted when the last pass was over
}

// start begins to give signs of life that tell how far the data has come.
func (s *netSession) start() {
	s.control.beat(s.moved.sum, s.far.Store)
}

// counted is the payload in the measured direction that this end has moved.
func (s *netSession) counted() int64 {
	switch {
	case s.client == (s.params.Dir == NetUp):
		return s.moved.out.Load()
	default:
		return s.moved.in.Load()
	}
}

// pass runs one pass and returns what both ends have measured. began is when
// the clock of this end starts. It fails when neither end moves anything for
// netStep, when the control connection does, and when ctx ends; then the data
// connections are cut, and nothing is left running.
func (s *netSession) pass(ctx context.Context, number int, n int64, began time.Time) (mine, theirs netLine, err error) {
	cpu := processCPU()
	ended := make(chan error, 1)
	go func() { ended <- s.end.pass(n) }()
	running := true
	defer func() {
		if running {
			s.end.cut()
			<-ended
		}
	}()
	tick := time.NewTicker(netBeat)
	defer tick.Stop()
	progress, last := int64(-1), time.Now()
	for mine.Step == "" || theirs.Step == "" {
		select {
		case err := <-ended:
			running = false
			if err != nil {
				return mine, theirs, s.because(ctx, err)
			}
			mine = netLine{
				Step: "done", Pass: number, Bytes: s.counted() - s.before,
				NS: int64(time.Since(began)), CPU: (processCPU() - cpu).Microseconds(),
			}
			// Data of this pass may have come before its go was read, but none
			// of the next can have come yet.
			s.before = s.counted()
			if err := s.control.send(mine); err != nil {
				return mine, theirs, err
			}
			last = time.Now()
		case v, ok := <-s.control.lines:
			if !ok {
				return mine, theirs, s.control.err
			}
			if err := checkStep(v, []string{"done"}); err != nil {
				return mine, theirs, err
			}
			if theirs.Step != "" || v.Pass != number || v.NS <= 0 || v.CPU < 0 {
				return mine, theirs, fmt.Errorf("%w: done of pass %d", ErrNetPeer, v.Pass)
			}
			theirs, last = v, time.Now()
		case <-tick.C:
			if now := s.moved.sum() + s.far.Load(); now != progress {
				progress, last = now, time.Now()
			} else if time.Since(last) > netStep {
				return mine, theirs, ErrNetSilent
			}
		case <-ctx.Done():
			return mine, theirs, context.Cause(ctx)
		}
	}
	if want := n * int64(s.params.Size); mine.Bytes != want || theirs.Bytes != want {
		return mine, theirs, fmt.Errorf("of %d octets this end has counted %d and the other %d", want, mine.Bytes, theirs.Bytes)
	}
	return mine, theirs, nil
}

// because looks whether the other end says why its data broke off.
func (s *netSession) because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	for {
		v, told := s.control.next(ctx, netBeat, "error", "done")
		switch {
		case told == nil && v.Step == "error":
			return checkStep(v, nil)
		case told == nil:
			continue
		case errors.Is(told, ErrNetSilent):
			return err // it says nothing
		}
		return fmt.Errorf("%w (%w)", err, told)
	}
}
