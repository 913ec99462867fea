package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The causes with which work under way is cut off; see [context.Cause].
var (
	// ErrDrainSpent says that the drain budget is used up.
	ErrDrainSpent = errors.New("stopped: drain time is over")
	// ErrCut says that somebody asked for a stop without a drain.
	ErrCut = errors.New("stopped: cut off by request")
)

// ErrEarly is the error of a part that ended although nobody had asked it to
// and that gave no reason.
var ErrEarly = errors.New("ended early")

// A Part is something that runs until it is told to stop.
type Part struct {
	// Name stands in errors and logs.
	Name string

	// Run works until stop is done, then takes nothing new and finishes what
	// is under way; once cut is done it drops that too and returns. Whatever
	// can fail at start (a port, a lock) was acquired before, by the part's
	// constructor. Run returns only when its goroutines are gone.
	Run func(stop, cut context.Context) error
}

// Options configures a [Group]. The zero value works.
type Options struct {
	// Drain is the budget of a whole stop. Default 30s; negative means that
	// work under way is cut at once.
	Drain time.Duration

	// Log receives one record when the stop begins, and one for each part
	// that was cut. Default: discard.
	Log *slog.Logger
}

// withDefaults returns o with zero fields filled in.
func (o Options) withDefaults() Options {
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Group is a list of parts that live together.
type Group struct {
	opt   Options
	parts []Part
	drain atomic.Int64 // a time.Duration

	cut     context.Context
	abandon context.CancelCauseFunc
}

// New returns a group that has not started. The parts start in the order given.
func New(opt Options, parts ...Part) *Group {
	g := &Group{opt: opt.withDefaults(), parts: parts}
	g.SetDrain(opt.Drain)
	g.cut, g.abandon = context.WithCancelCause(context.Background())
	return g
}

// SetDrain changes the budget for a stop that has not begun; d is as in
// [Options.Drain].
func (g *Group) SetDrain(d time.Duration) {
	g.drain.Store(int64(Options{Drain: d}.withDefaults().Drain))
}

// Cut ends the drain of a stop that is under way, or that will begin, now. It
// does not begin one: that is done by cancelling the context of Run.
func (g *Group) Cut() { g.abandon(ErrCut) }

// running is a part that has been started.
type running struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // valid once done is closed
}

// Run starts the parts and blocks until the last one is gone. It begins to
// stop when ctx is cancelled or when a part returns. Run must be called at
// most once.
func (g *Group) Run(ctx context.Context) error {
	// Values of ctx (trace ids) reach the parts, its cancellation does not:
	// the loop below decides when each part stops.
	base := context.WithoutCancel(ctx)
	cut, release := context.WithCancelCause(base)
	defer release(nil)
	defer context.AfterFunc(g.cut, func() { release(context.Cause(g.cut)) })()

	var (
		started []*running
		early   = make(chan struct{})
		once    sync.Once
	)
	for _, p := range g.parts {
		stop, cancel := context.WithCancel(base)
		defer cancel()
		r := &running{name: p.Name, stop: cancel, done: make(chan struct{})}
		started = append(started, r)
		go func() {
			defer close(r.done)
			err := p.Run(stop, cut)
			if err == nil && stop.Err() == nil {
				err = ErrEarly
			}
			if err != nil {
				r.err = fmt.Errorf("%s: %w", p.Name, err)
			}
			once.Do(func() { close(early) })
		}()
	}

	select {
	case <-ctx.Done():
	case <-early:
	}
	drain := time.Duration(g.drain.Load())
	g.opt.Log.Info("stopping", "asked", ctx.Err() != nil, "drain", drain.String())
	if drain < 0 {
		release(ErrDrainSpent)
	} else {
		defer time.AfterFunc(drain, func() { release(ErrDrainSpent) }).Stop()
	}

	var errs []error
	for _, r := range slices.Backward(started) {
		r.stop()
		<-r.done
		if r.err != nil {
			errs = append(errs, r.err)
		}
		if cut.Err() != nil {
			g.opt.Log.Warn("stopped without a full drain", "part", r.name, "cause", context.Cause(cut))
		} else {
			g.opt.Log.Debug("stopped", "part", r.name)
		}
	}
	return errors.Join(errs...)
}
