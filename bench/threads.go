package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// period is how often each thread sends: the founding test is one message a
// second.
const period = time.Second

// ThreadsOptions are the settings of [NewThreads].
type ThreadsOptions struct {
	EchoOptions
	// Threads is how many callers there are, each with a connection of its own
	// and one request a second. 0: search for the most that is stable.
	Threads int
	// Search are the settings of that search.
	Search SearchOptions
	// Warmup and Duration are those of a run with Threads. Default 3s and 60s.
	Warmup, Duration time.Duration
	// Poisson draws the times at random in place of spreading them evenly: each
	// thread still sends once in each second, at any time of it.
	Poisson bool
}

// threads is the test threads: an open loop.
type threads struct {
	opt     ThreadsOptions
	ends    *ends
	found   *Found
	clamped string
	limiter string
}

// NewThreads returns the scenario of one row of threads.
func NewThreads(opt ThreadsOptions) Scenario {
	if opt.Warmup == 0 {
		opt.Warmup = 3 * time.Second
	}
	if opt.Duration == 0 {
		opt.Duration = time.Minute
	}
	return &threads{opt: opt}
}

// spareFiles are descriptors that are left for all else.
const spareFiles = 64

func (t *threads) Prepare(ctx context.Context) (err error) {
	if files := maxFiles(); files > 2*spareFiles && t.opt.Remote == nil {
		most := int(files) - spareFiles
		// The server is a process with the same limit.
		if t.opt.Via {
			most /= 2
		}
		t.clamp(most)
	}
	t.opt.Conns = max(10_000, t.opt.Threads, 60_000)
	t.ends, err = newEnds(ctx, t.opt.EchoOptions)
	return err
}

// clamp keeps the number of threads within what the machine allows, aloud.
func (t *threads) clamp(most int) {
	if t.opt.Threads > most {
		t.clamped = fmt.Sprintf("%d threads in place of %d: this process may have no more descriptors", most, t.opt.Threads)
		t.opt.Threads = most
	}
	if t.opt.Search.Most == 0 || t.opt.Search.Most > most {
		t.opt.Search.Most = most
	}
}

func (t *threads) Spec() Spec {
	o := &t.opt
	label, founding := t.ends.label()
	s := Spec{
		Name: "threads", Combo: o.Combo.Code, Label: label + ", one message a second each", Founding: founding,
		Loop: LoopOpen, Processes: t.ends.processes(), Unit: "threads",
		Conns: o.Threads, Size: t.ends.message.Size(), Servers: t.ends.pids(), ServerHere: t.ends.serverHere(), Line: t.ends.line,
		Params: map[string]any{"soap": t.ends.message.Version().String(), "arrival": "uniform"},
		Runs:   1, NoCold: true, ErrorsAllowed: maxErrors, Limiter: t.limiter,
		EverySecond: o.Threads > 0,
	}
	if o.Poisson {
		s.Params["arrival"] = "random"
	}
	if o.Via {
		s.Combo += viaSuffix
		s.Params["via"] = "gateway"
	}
	if t.found != nil {
		s.Conns, s.Detail = t.found.Stable, t.found
	}
	return s
}

func (t *threads) Close() error { return t.ends.close() }

func (t *threads) Once(ctx context.Context, m *Meter) error {
	if t.clamped != "" {
		m.Judge(Valid, t.clamped)
	}
	if t.opt.Threads > 0 {
		p, err := t.probe(ctx, m, t.opt.Threads, t.opt.Warmup, t.opt.Duration)
		if err != nil {
			return err
		}
		judgeProbe(&p, t.opt.Search.withDefaults().Lag)
		if !p.Stable && !p.Generator { // that is a verdict of its own
			m.Judge(Valid, "not stable: "+p.Why)
		}
		m.Score(float64(t.opt.Threads))
		return nil
	}
	o := t.opt.Search.withDefaults()
	s := &search{opt: o, probe: func(ctx context.Context, n int, window time.Duration) (Probe, error) {
		m.Reset()
		return t.probe(ctx, m, n, o.Warmup, window)
	}}
	found, err := s.run(ctx)
	t.found = &found
	if err != nil {
		return err
	}
	t.conclude(m)
	return nil
}

// conclude makes a score and verdicts of what the search has found.
func (t *threads) conclude(m *Meter) {
	f := t.found
	m.Score(float64(f.Stable))
	m.Measure("max", float64(f.Stable), "")
	if f.Generator {
		m.Judge(Generator, fmt.Sprintf("with %d threads it is the sender that is late: the server may do more", f.Unstable))
	}
	if f.Unstable > 0 {
		m.Judge(Valid, fmt.Sprintf("stable %d, unstable %d (%s)", f.Stable, f.Unstable, f.Why))
	}
	if f.Confirmed {
		m.Judge(Valid, fmt.Sprintf("confirmed for %v", t.opt.Search.withDefaults().Confirm))
	}
	if f.Note != "" {
		m.Judge(Valid, f.Note)
	}
	if !f.Confirmed {
		m.Judge(Invalid, "not confirmed")
	}
	if last := f.Probes[len(f.Probes)-1]; f.Unstable > 0 {
		t.limiter = limiterOf(f, last)
	}
}

// limiterOf names what kept the first unstable number from being stable.
func limiterOf(f *Found, last Probe) string {
	for _, p := range f.Probes {
		if p.Threads != f.Unstable || p.Stable {
			continue
		}
		switch {
		case p.Refused > 0:
			return "connections (descriptors, ports or the listener's limit)"
		case p.Cores >= cpuFull*cpus():
			return "cpu"
		case p.Generator:
			return "generator"
		}
	}
	return "waiting"
}

// probe loads the server with n threads for a warm-up and a window, and returns
// once nothing is in flight any more.
func (t *threads) probe(ctx context.Context, m *Meter, n int, warmup, window time.Duration) (Probe, error) {
	c := &crowd{threads: t, meter: m, n: n, warmup: warmup, window: window}
	for i := range c.thirds {
		c.thirds[i] = hdrhistogram.New(1, int64(longest), 2)
	}
	if err := c.connect(ctx); err != nil {
		return Probe{}, err
	}
	c.run(ctx)
	if ctx.Err() != nil && t.opt.Threads == 0 {
		return Probe{}, ctx.Err()
	}
	return c.probe(), nil
}

// A crowd is the threads of one probe.
type crowd struct {
	*threads
	meter          *Meter
	n              int
	warmup, window time.Duration

	callers  []Caller // by thread; nil where no connection was made
	refused  atomic.Int64
	zero     time.Time // from where due times count
	from, to time.Time // the window

	mu     sync.Mutex
	thirds [3]*hdrhistogram.Histogram // of the responses, by when they were due
}

// connecting is how many connections are made at once.
const connecting = 64

// connect connects all before the first request.
func (c *crowd) connect(ctx context.Context) error {
	c.callers = make([]Caller, c.n)
	// What the crowd has in flight when it is told to stop still gets its reply.
	live := context.WithoutCancel(ctx)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(connecting, c.n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < c.n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				caller, err := c.ends.dial(live, c.ends.target)
				if err != nil {
					c.refused.Add(1)
					c.meter.Shard(i).Fail(err, time.Now())
					continue
				}
				c.callers[i] = caller
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return errors.Join(err, c.disconnect())
	}
	return nil
}

func (c *crowd) disconnect() error {
	var errs []error
	for _, caller := range c.callers {
		if caller != nil {
			errs = append(errs, caller.Close())
		}
	}
	return errors.Join(errs...)
}

// headStart is the time from the last connection to the first due time.
const headStart = 50 * time.Millisecond

// run lets every thread send until the window is over.
func (c *crowd) run(ctx context.Context) {
	c.meter.Callers(c.n)
	c.zero = time.Now().Add(headStart)
	c.from = c.zero.Add(c.warmup)
	c.to = c.from.Add(c.window)
	c.meter.StartAt(c.from)
	var wg sync.WaitGroup
	for i, caller := range c.callers {
		if caller != nil {
			wg.Go(func() { c.thread(ctx, i, caller) })
		}
	}
	sleepUntil(ctx, c.from)
	c.meter.Sample()
	sleepUntil(ctx, c.to)
	end := c.to
	if now := time.Now(); now.Before(end) {
		end = now // stopped early
	}
	c.meter.StopAt(end)
	wg.Wait()
	// The connections have done their work; how they close decides nothing.
	_ = c.disconnect()
}

// thread is one caller: a request each second, at its own time of it; late ones
// at once.
func (c *crowd) thread(ctx context.Context, i int, caller Caller) {
	shard := c.meter.Shard(i)
	messages := c.ends.clones(uint64(i) << 20)
	random := rand.New(rand.NewPCG(uint64(i), uint64(c.n)))
	free := c.from // the end of the reply before, if that is inside the window
	begins := time.Time{}
	for k := 0; ; k++ {
		due := c.due(i, k, random)
		if !due.Before(c.to) || ctx.Err() != nil {
			break
		}
		inside := !due.Before(c.from)
		if inside {
			shard.Due(1)
			if begins.IsZero() {
				begins = free
			}
		}
		sleepUntil(ctx, due)
		o := Open{Due: due, Free: free, Sent: time.Now()}
		if o.Sent.After(c.to) || ctx.Err() != nil {
			continue // due, and not sent in time
		}
		sent := messages[(i+k)%len(messages)].Next()
		if inside {
			shard.Sent()
		}
		reply, err := caller.Call(ctx, sent)
		if err == nil {
			err = c.ends.check(sent, reply)
		}
		o.Done = time.Now()
		if o.Done.After(free) {
			free = o.Done
		}
		if inside {
			c.record(shard, o, err)
		}
		if err != nil && !c.again(ctx, &caller, i) {
			break
		}
	}
	if !begins.IsZero() {
		end := free
		if c.to.After(end) && ctx.Err() == nil {
			end = c.to
		}
		shard.Idle(end.Sub(free))
		shard.Span(end.Sub(begins))
	}
}

// record records a request that was due inside the window.
func (c *crowd) record(shard *Shard, o Open, err error) {
	shard.Idle(o.Sent.Sub(o.Free))
	if err != nil {
		shard.Fail(err, o.Sent)
		return
	}
	shard.DoneOpen(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	i := int(3 * o.Due.Sub(c.from) / c.window)
	record(c.thirds[min(i, 2)], o.Response())
}

// due is when thread i has to send for the k-th time.
func (c *crowd) due(i, k int, random *rand.Rand) time.Time {
	within := time.Duration(float64(period) * float64(i) / float64(c.n))
	if c.opt.Poisson {
		within = time.Duration(random.Int64N(int64(period)))
	}
	return c.zero.Add(time.Duration(k)*period + within)
}

// again connects a thread anew after a failure.
func (c *crowd) again(ctx context.Context, caller *Caller, i int) bool {
	_ = (*caller).Close() // it has failed already
	next, err := c.ends.dial(context.WithoutCancel(ctx), c.ends.target)
	if err != nil {
		c.refused.Add(1)
		c.callers[i] = nil
		return false
	}
	*caller, c.callers[i] = next, next
	return true
}

// probe is what the crowd has found; all of its threads have ended.
func (c *crowd) probe() Probe {
	r, _ := c.meter.run()
	p := Probe{
		Threads: c.n, Window: c.window.Seconds(),
		Scheduled: r.Scheduled, Sent: r.Sent, Errors: r.Errors, Refused: c.refused.Load(),
		P50: r.Latency.P50, P99: r.Latency.P99,
		First: float64(c.thirds[0].ValueAtPercentile(50)) / 1e3,
		Last:  float64(c.thirds[2].ValueAtPercentile(50)) / 1e3,
	}
	if r.Lag != nil {
		p.LagP99 = r.Lag.P99
	}
	p.Cores, _ = coresUsed([]Run{r})
	return p
}

// sleepUntil returns at a time, or when ctx is done.
func sleepUntil(ctx context.Context, at time.Time) {
	d := time.Until(at)
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
