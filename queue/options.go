package queue

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"soapway/internal/retry"
)

// Options configures a [Queue]; the zero value works.
type Options struct {
	// Log gets one record per dead letter and per change of a circuit.
	// Default: discard.
	Log *slog.Logger

	// Observer is told what happens. Default: nobody.
	Observer Observer

	// Drain is how long Run lets attempts under way go on once its context has
	// ended. Default 30s; negative cuts them off at once.
	Drain time.Duration

	// HotBytes bounds the bodies that are kept in memory from their acceptance
	// to their first attempt; others are read back. Default 64 MiB.
	HotBytes int64

	// Wall is the wall clock, by which it is noticed that it was set. Default: time.Now.
	Wall func() time.Time

	// Rand draws from [0,1) for jitter. Default: math/rand/v2.
	Rand func() float64
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.HotBytes == 0 {
		o.HotBytes = 64 << 20
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}

func (o Options) validate() error {
	if o.HotBytes < 0 {
		return fmt.Errorf("queue: options: option HotBytes: got %d, want 0 or more", o.HotBytes)
	}
	return nil
}

// Observer is told what happens to messages, for metrics. Its methods are
// called under a lock and must return at once.
type Observer interface {
	// Accepted: a message is durable.
	Accepted(route string)
	// Attempted: an attempt has ended.
	Attempted(route string, o Outcome, took time.Duration)
	// Finished: a message was delivered, waited after its acceptance.
	Finished(route string, waited time.Duration)
	// Died: a message has become a dead letter.
	Died(route, reason string)
	// Circuit: a destination is taken for down, or for up again.
	Circuit(destination string, open bool)
	// ClockSet: the wall clock was set by much, or a start finds it far ahead of, or
	// behind, what is stored.
	ClockSet(by time.Duration)
}

type nobody struct{}

func (nobody) Accepted(string)                          {}
func (nobody) Attempted(string, Outcome, time.Duration) {}
func (nobody) Finished(string, time.Duration)           {}
func (nobody) Died(string, string)                      {}
func (nobody) Circuit(string, bool)                     {}
func (nobody) ClockSet(time.Duration)                   {}

// Route is what the queue must know of a route that stores messages.
type Route struct {
	Name        string
	Destination string
	Retry       retry.Policy // zero fields are defaults

	// AtMostOnce gives no message to the destination again once it may have
	// processed it: that an attempt begins is on the disk before its first
	// octet, and an outcome that is not known makes a dead letter.
	AtMostOnce bool

	// MaxMessages and MaxBytes bound what may wait of the route: messages, and
	// octets of their envelopes. Dead letters do not count, and a replay is never
	// refused. Default: no bounds.
	MaxMessages int
	MaxBytes    int64

	// Closed says that the route stores nothing any more: what it has is still
	// delivered, and nothing is moved to it.
	Closed bool

	// StopOnDead makes a lane stand still when its head becomes a dead letter,
	// until that is replayed, which then goes first, or dropped. Default: the
	// next one goes on.
	StopOnDead bool
}

// Destination is what the queue must know of a backend.
type Destination struct {
	Name string

	// Failures is how many unhealthy outcomes in a row open the circuit.
	// Default 5.
	Failures int

	// Initial and Max bound the wait between two probes of a destination that
	// is down. Defaults 5s and 30s.
	Initial, Max time.Duration

	// Parallel is the most attempts under way at once. Default 64.
	Parallel int

	// Link says that the destination is a link to another site, and which: messages
	// get labels when they enter the log, in the class of the link, and attempts are
	// under way as many as may be, since they share batches. Default: it is none.
	Link  string
	Class uint8
}

func (d Destination) withDefaults() Destination {
	if d.Failures == 0 {
		d.Failures = 5
	}
	if d.Initial == 0 {
		d.Initial = 5 * time.Second
	}
	if d.Max == 0 {
		d.Max = max(30*time.Second, d.Initial)
	}
	if d.Parallel == 0 {
		d.Parallel = 64
	}
	return d
}

func (d Destination) validate() error {
	var errs []error
	if d.Failures < 0 {
		errs = append(errs, fmt.Errorf("option Failures: got %d, want at least 1", d.Failures))
	}
	if d.Initial < 0 || d.Max < d.Initial {
		errs = append(errs, fmt.Errorf("options Initial and Max: got %v and %v, want 0 < Initial ≤ Max", d.Initial, d.Max))
	}
	if d.Parallel < 0 {
		errs = append(errs, fmt.Errorf("option Parallel: got %d, want at least 1", d.Parallel))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("queue: destination %q: %w", d.Name, err)
	}
	return nil
}
