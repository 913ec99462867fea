package bench

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// PingOptions are the settings of [NewPings].
type PingOptions struct {
	EchoOptions
	// Count is how many messages a run sends. Default 1000.
	Count int
	// Duration, when set, is how long a run lasts, in place of Count.
	Duration time.Duration
	// Warmup, when set, is how long the warm-up pass lasts. Default: as a run.
	Warmup time.Duration
	// Callers is how many send at once, each over a connection of its own and one
	// message after the other. Default 1.
	Callers int
	// Fresh connects anew for each message.
	Fresh bool
	// Suffix is appended to the code of the row, to tell rows of one
	// combination.
	Suffix string
	// Limits are those of this machine; nil: not known.
	Limits *Limits
}

// pings is the tests ping and web: callers that send one message after the other.
type pings struct {
	opt     PingOptions
	ends    *ends
	callers []*pinger
	warm    bool // the warm-up pass is over
}

// NewPings returns the scenario of one row of ping, a closed loop, or of web.
func NewPings(opt PingOptions) Scenario {
	if opt.Count == 0 {
		opt.Count = 1000
	}
	if opt.Callers == 0 {
		opt.Callers = 1
	}
	return &pings{opt: opt}
}

func (p *pings) Prepare(ctx context.Context) (err error) {
	p.opt.EchoOptions.Conns = max(p.opt.EchoOptions.Conns, 10_000, p.opt.Callers)
	if p.ends, err = newEnds(ctx, p.opt.EchoOptions); err != nil {
		return err
	}
	for i := range p.opt.Callers {
		p.callers = append(p.callers, &pinger{ends: p.ends, fresh: p.opt.Fresh, next: p.ends.clones(uint64(i) << 32)})
	}
	return nil
}

func (p *pings) Spec() Spec {
	o := &p.opt
	label, founding := p.ends.label()
	s := Spec{
		Name: "ping", Combo: o.Combo.Code + o.Suffix, Label: label, Founding: founding,
		Loop: LoopClosed, Processes: p.ends.processes(), Unit: "messages/s",
		Conns: o.Callers, Size: p.ends.message.Size(), Serial: o.Callers == 1,
		Servers: p.ends.pids(), ServerHere: p.ends.serverHere(), Line: p.ends.line,
		Params: map[string]any{"soap": p.ends.message.Version().String()},
	}
	if o.Duration > 0 {
		s.Params["duration_s"] = o.Duration.Seconds()
	} else {
		s.Params["count"] = o.Count
	}
	if o.Fresh {
		s.Params["conn"] = "fresh"
	}
	if o.Via {
		s.Params["via"] = "gateway"
	}
	if o.Page {
		// The founding test has one row, and no name for its two ends.
		s.Name, s.Combo, s.Founding, s.Unit, s.Size = "web", o.Suffix, "", "pages/s", 0
		s.Label = "web page of " + cmp.Or(o.RemoteName, "1 KiB")
		delete(s.Params, "soap")
	}
	if o.Fresh {
		s.Label += ", a connection each"
	}
	if o.Limits != nil && o.Limits.FloorMeanUS > 0 && o.Remote == nil && s.Serial {
		s.Limit = &Limit{Name: "TCP round trip of 1 octet", Value: 1e6 / o.Limits.FloorMeanUS}
	}
	return s
}

func (p *pings) Once(ctx context.Context, m *Meter) error {
	m.Callers(p.opt.Callers)
	duration := p.opt.Duration
	if !p.warm && p.opt.Warmup > 0 {
		duration = p.opt.Warmup
	}
	p.warm = true
	for _, c := range p.callers {
		if err := c.ready(ctx); err != nil {
			return err
		}
	}
	var sent atomic.Int64
	m.Start()
	more := func() bool { return sent.Add(1) <= int64(p.opt.Count) }
	if duration > 0 {
		end := m.Began().Add(duration)
		more = func() bool { return time.Now().Before(end) }
	}
	if len(p.callers) == 1 { // on this goroutine: no other has to be woken up
		p.callers[0].run(ctx, m.Shard(0), more)
	} else {
		var wg sync.WaitGroup
		for i, c := range p.callers {
			wg.Go(func() { c.run(ctx, m.Shard(i), more) })
		}
		wg.Wait()
	}
	m.Stop()
	return ctx.Err()
}

func (p *pings) Close() error {
	var errs []error
	for _, c := range p.callers {
		errs = append(errs, c.disconnect())
	}
	return errors.Join(append(errs, p.ends.close())...)
}

// A pinger is one caller of a closed loop.
type pinger struct {
	ends   *ends
	fresh  bool
	next   []*Message
	turn   int
	caller Caller // nil: not connected
}

// givenUp is after how many failures in a row a caller ends.
const givenUp = 100

// run sends until there are no more to send, or nothing works any more.
func (p *pinger) run(ctx context.Context, shard *Shard, more func() bool) {
	for failed := 0; more() && failed < givenUp; {
		began := time.Now()
		if err := p.call(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			failed++
			shard.Fail(err, began)
			continue
		}
		failed = 0
		shard.Done(began)
	}
}

// ready connects before the clock runs, where the connection is kept.
func (p *pinger) ready(ctx context.Context) error {
	if p.fresh || p.caller != nil {
		return nil
	}
	return p.connect(ctx)
}

// call sends the next message and looks at its reply.
func (p *pinger) call(ctx context.Context) error {
	if p.caller == nil {
		if err := p.connect(ctx); err != nil {
			return err
		}
	}
	message := p.next[p.turn].Next()
	p.turn = (p.turn + 1) % len(p.next)
	reply, err := p.caller.Call(ctx, message)
	if err == nil {
		if err = p.ends.check(message, reply); err == nil && !p.fresh {
			return nil
		}
	}
	// What is wrong may leave the connection in the middle of something.
	return errors.Join(err, p.disconnect())
}

func (p *pinger) connect(ctx context.Context) (err error) {
	p.caller, err = p.ends.dial(ctx, p.ends.target)
	return err
}

func (p *pinger) disconnect() error {
	c := p.caller
	p.caller = nil
	if c == nil {
		return nil
	}
	return c.Close()
}
