package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"soapway/soapcodec"
)

// CallRoutes is the number of routes in the table that look-ups go through.
const CallRoutes = 1000

// CallsOptions are the settings of [MeasureCalls].
type CallsOptions struct {
	Service   *CallService
	Transport string // of remote calls; default [CallFramed]
	Ops       int    // operations of a loop; default 10,000
	Loops     int    // default 10
	Sampler   Sampler
	Progress  *Progress
	// Lab starts the same service in another process: gateway bench peer calls
	// TRANSPORT.
	Lab *Lab
}

func (o CallsOptions) withDefaults() CallsOptions {
	if o.Transport == "" {
		o.Transport = CallFramed
	}
	if o.Ops == 0 {
		o.Ops = 10_000
	}
	if o.Loops == 0 {
		o.Loops = 10
	}
	return o
}

// A callKind is one caller: what it does over and over.
type callKind struct {
	combo, label string
	processes    string
	op           func(i int) error
}

// MeasureCalls measures what a call costs, inside this process and to another
// one: first three callers at once, then two. Each row is one caller; a run is a
// loop of serial operations, which is timed as a whole, since a look at the clock
// takes longer than a look-up.
func MeasureCalls(ctx context.Context, o CallsOptions) (tests []Test, err error) {
	o = o.withDefaults()
	inside, err := memoryCalls(o.Transport, o.Service)
	if err != nil {
		return nil, fmt.Errorf("bench: calls: %w", err)
	}
	tests, err = o.phase(ctx, "in process", nil, []callKind{
		{"lookup", "look-up in a table of 1,000 routes", "one", o.lookup},
		{"local", "local call of the handler", "one", o.local},
		{"remote", "remote call through memory, " + o.Transport, "one", o.remote(inside)},
	})
	inside.close()
	if err != nil {
		return tests, err
	}
	child, err := o.Lab.Peer(ctx, "calls", o.Transport)
	if err != nil {
		return tests, fmt.Errorf("bench: calls: %w", err)
	}
	defer func() { err = errors.Join(err, child.Stop()) }()
	var carriers [2]callCarrier
	for i := range carriers {
		if carriers[i], err = dialCalls(ctx, o.Transport, child.Ready.Address); err != nil {
			return tests, fmt.Errorf("bench: calls: %w", err)
		}
		defer carriers[i].close()
	}
	more, err := o.phase(ctx, "out of process", []int{child.PID()}, []callKind{
		{"lookup-out", "look-up in another process, " + o.Transport, "separate", o.remoteLookup(carriers[0])},
		{"remote-out", "remote call to another process, " + o.Transport, "separate", o.remote(carriers[1])},
	})
	return append(tests, more...), err
}

// phase lets all callers do their loops at the same time.
func (o *CallsOptions) phase(ctx context.Context, name string, servers []int, kinds []callKind) ([]Test, error) {
	specs, rows := make([]Spec, len(kinds)), make([]*row, len(kinds))
	used := make([]Test, len(kinds)) // what all callers together cost while one did its loops
	runner := NewRunner(Options{Runs: o.Loops, Sampler: o.Sampler})
	for i, k := range kinds {
		specs[i] = Spec{
			Name: "calls", Combo: k.combo, Label: k.label, Loop: LoopClosed, Processes: k.processes, Unit: "µs", LowerIsBetter: true,
			Conns: len(kinds), Params: map[string]any{"ops": o.Ops, "transport": o.Transport}, Servers: servers,
			// Callers beside each other get the processors in turn.
			ByInterval: true,
		}
		rows[i] = &row{runner: runner, spec: &specs[i], all: histogram()}
	}
	for n := range o.Loops + 1 {
		meters := make([]*Meter, len(kinds))
		errs := make([]error, len(kinds))
		var wg sync.WaitGroup
		for i, k := range kinds {
			meters[i] = newMeter(o.Sampler, servers, func() []int { return nil })
			wg.Go(func() { errs[i] = o.loop(ctx, meters[i], k.op) })
		}
		end := o.Progress.run(meters[0], &Spec{Name: "calls", Combo: name}, n, o.Loops)
		wg.Wait()
		end()
		for i, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("bench: calls: %s: %w", kinds[i].combo, err)
			}
			run, h := meters[i].run()
			// What the processes cost is for all callers together.
			if n > 0 {
				used[i].Runs = append(used[i].Runs, run)
			}
			run.Client, run.Server = Cost{}, nil
			if n == 0 {
				rows[i].cold = &run // untimed in the founding text: kept, and not averaged
				continue
			}
			rows[i].add(run, &measured{h, meters[i].before, meters[i].after})
		}
	}
	tests := make([]Test, len(kinds))
	for i := range kinds {
		tests[i] = rows[i].test(specs[i])
		for k := range tests[i].Runs { // who else was there is known only now
			used[i].Runs[k].Foreign = tests[i].Runs[k].Foreign
		}
		tests[i].Limiter = limiter(&used[i], &specs[i])
		// Of single operations nothing is known.
		s := &tests[i].Summary
		s.Latency, s.PerOp = Latency{}, nil
		tests[i].Measures = append(tests[i].Measures, Measure{"loop_min", s.Min / 1e6, "s"}, Measure{"loop_max", s.Max / 1e6, "s"})
	}
	return tests, nil
}

// loop does the operations of one run.
func (o *CallsOptions) loop(ctx context.Context, m *Meter, op func(int) error) error {
	m.Start()
	defer m.Stop()
	began := time.Now()
	for i := range o.Ops {
		if err := op(i); err != nil {
			return err
		}
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	m.Score(float64(time.Since(began)) / 1e3 / float64(o.Ops))
	m.Shard(0).ops.Store(int64(o.Ops))
	return nil
}

// CallRoute is where message i of the calls rows goes: the host, path and action
// that route i of the table asks for.
func CallRoute(i int) (host, path, action, route string) {
	i %= CallRoutes
	return fmt.Sprintf("host-%d.example", i%10), fmt.Sprintf("/service/%d", i), fmt.Sprintf("urn:soapway:bench/action-%d", i), fmt.Sprintf("route-%d", i)
}

// callRoutes are all of them, so that no loop pays for writing them.
var callRoutes = sync.OnceValue(func() [][4]string {
	all := make([][4]string, CallRoutes)
	for i := range all {
		all[i][0], all[i][1], all[i][2], all[i][3] = CallRoute(i)
	}
	return all
})

func (o *CallsOptions) lookup(i int) error {
	r := &callRoutes()[i*7919%CallRoutes]
	if got := o.Service.Lookup(r[0], r[1], r[2]); got != r[3] {
		return fmt.Errorf("%w: route %q, want %q", errNetAnswer, got, r[3])
	}
	return nil
}

func (o *CallsOptions) remoteLookup(c callCarrier) func(int) error {
	return func(i int) error {
		r := &callRoutes()[i*7919%CallRoutes]
		got, err := c.ask(askLookup, []byte(r[0]+"\n"+r[1]+"\n"+r[2]+"\n"))
		if err != nil {
			return err
		}
		if string(got) != r[3] {
			return fmt.Errorf("%w: route %q, want %q", errNetAnswer, got, r[3])
		}
		return nil
	}
}

// callPing is the message of the calls rows.
type callPing struct {
	XMLName soapcodec.QName `xml:"urn:soapway:bench ping"`
	N       int             `xml:"n"`
}

// callMessage is written once: a local call hands over what is in memory already.
var callMessage = sync.OnceValues(func() ([]byte, error) { return soapcodec.Marshal(soapcodec.V11, callPing{N: 1}) })

func (o *CallsOptions) local(int) error {
	message, err := callMessage()
	if err != nil {
		return err
	}
	reply, err := o.Service.Local(message)
	if err != nil {
		return err
	}
	if len(reply) != len(message) {
		return fmt.Errorf("%w: %d octets, want %d", errNetAnswer, len(reply), len(message))
	}
	return nil
}

// remote writes a message from a value and reads the reply into one, as a caller
// does who is elsewhere.
func (o *CallsOptions) remote(c callCarrier) func(int) error {
	return func(i int) error {
		message, err := soapcodec.Marshal(soapcodec.V11, callPing{N: i})
		if err != nil {
			return err
		}
		reply, err := c.ask(askCall, message)
		if err != nil {
			return err
		}
		var got callPing
		if err := soapcodec.Unmarshal(reply, &got); err != nil {
			return err
		}
		if got.N != i {
			return fmt.Errorf("%w: number %d, want %d", errNetAnswer, got.N, i)
		}
		return nil
	}
}
