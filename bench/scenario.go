package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// self is the process that measures: the client side.
var self = os.Getpid()

// A Scenario is one thing that can be measured over and over. Its methods are
// called one at a time, in the order Prepare, Spec, Once…, Close.
type Scenario interface {
	// Prepare starts and connects what all runs share. Close is called also when
	// it fails.
	Prepare(ctx context.Context) error
	// Spec describes the row. It is asked after Prepare, and again after the last
	// run for what only the runs could tell (Detail, Measures, Limiter).
	Spec() Spec
	// Once does one run. Its error says that there is no result: the row ends. A
	// request that failed is no such error, it goes to [Shard.Fail].
	Once(ctx context.Context, m *Meter) error
	// Close stops what Prepare has started.
	Close() error
}

// Spec describes a row; fields as in [Test].
type Spec struct {
	Name, Combo, Label, Founding string
	Loop, Processes, Unit        string
	LowerIsBetter                bool
	Conns, Size                  int
	Params                       map[string]any
	Measures                     []Measure
	Limit                        *Limit
	Detail                       any

	// Servers are the processes of the server side on this machine.
	Servers []int
	// ServerHere says that the server is on this machine and not one of Servers, so
	// that its work cannot be told from that of strangers.
	ServerHere bool
	// Runs, when not 0, is how often this row is run whatever the options say: 1
	// where a run searches or repeats by itself.
	Runs int
	// MaxRuns, with Runs, is how often it may be run while its runs disagree.
	// Default: Runs.
	MaxRuns int
	// NoCold leaves out the warm-up pass: where a run warms up by itself.
	NoCold bool
	// ByInterval judges the row by the confidence interval of its mean alone:
	// where single runs differ by nature, as starts of processes do.
	ByInterval bool
	// ErrorsAllowed is the share of requests that may fail.
	ErrorsAllowed float64
	// Serial says that only one of client and server works at any time, so that
	// one processor is all they can use.
	Serial bool
	// EverySecond shows the progress once a second also where it is no terminal: of
	// a run that is to be watched and has no end of its own.
	EverySecond bool
	// Limiter names what held the row back where the scenario knows it better.
	Limiter string
	// Line is what the network card between the two sides carries of payload each
	// way, in Mbit/s; 0 where there is none, or nobody knows.
	Line float64
}

// name is how a row is called in lists: ping.ff.
func (s *Spec) name() string { return rowName(s.Name, s.Combo) }

func rowName(test, combo string) string {
	if combo == "" {
		return test
	}
	return test + "." + combo
}

// Options are the settings of a [Runner]; the zero value is what the commands
// use by default.
type Options struct {
	// Runs is how often a row is run at least. Default 5.
	Runs int
	// MaxRuns is how often it is run at most while its runs disagree. Default 10,
	// never less than Runs.
	MaxRuns int
	// Extra is the time that all rows together may take for runs beyond the number
	// that each has at least: a self-test that is to end in time cannot repeat every
	// row. What disagrees when it is used up stays so. Default no bound.
	Extra time.Duration
	// CI is the half width of the 95 % interval of the mean, as a share of it, at
	// which no more runs are added. Default 0.025.
	CI float64
	// Sampler tells what processes use. Default: none, rows lack those figures.
	Sampler Sampler
	// Progress shows what goes on. Default: nothing is shown.
	Progress *Progress
	// Others returns the processes of ours that are alive, so that they are not
	// taken for strangers. Default none.
	Others func() []int
}

func (o Options) withDefaults() Options {
	if o.Runs == 0 {
		o.Runs = 5
	}
	if o.MaxRuns == 0 {
		o.MaxRuns = 10
	}
	o.MaxRuns = max(o.MaxRuns, o.Runs)
	if o.CI == 0 {
		o.CI = 0.025
	}
	if o.Others == nil {
		o.Others = func() []int { return nil }
	}
	return o
}

// A Runner makes rows of scenarios.
type Runner struct {
	opt   Options
	extra time.Duration // used of Options.Extra
}

// NewRunner returns a Runner.
func NewRunner(opt Options) *Runner { return &Runner{opt: opt.withDefaults()} }

// Measure makes one row. With an error the row has what was measured before it.
func (r *Runner) Measure(ctx context.Context, s Scenario) (t Test, err error) {
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Prepare(ctx); err != nil {
		return Test{}, fmt.Errorf("bench: prepare: %w", err)
	}
	spec := s.Spec()
	runs, most := r.opt.Runs, r.opt.MaxRuns
	if spec.Runs > 0 {
		runs, most = spec.Runs, max(spec.Runs, spec.MaxRuns)
	}
	row := &row{runner: r, spec: &spec, all: histogram()}
	if !spec.NoCold {
		cold, _, err := r.once(ctx, s, &spec, 0, runs)
		if err != nil {
			return row.test(spec), err
		}
		cold.HDR = ""
		row.cold = &cold
	}
	for len(row.runs) < runs || len(row.runs) < most && !row.settled() && r.mayAdd() {
		began := time.Now()
		run, h, err := r.once(ctx, s, &spec, len(row.runs)+1, max(runs, len(row.runs)+1))
		if err != nil {
			return row.test(spec), err
		}
		if len(row.runs) >= runs {
			r.extra += time.Since(began)
		}
		row.add(run, h)
	}
	return row.test(s.Spec()), nil
}

// mayAdd reports whether there is time left for runs that are added.
func (r *Runner) mayAdd() bool { return r.opt.Extra == 0 || r.extra < r.opt.Extra }

// once does run n of so many; 0 is the cold pass.
func (r *Runner) once(ctx context.Context, s Scenario, spec *Spec, n, of int) (Run, *measured, error) {
	m := newMeter(r.opt.Sampler, spec.Servers, r.opt.Others)
	end := r.opt.Progress.run(m, spec, n, of)
	defer end()
	if err := s.Once(ctx, m); err != nil {
		return Run{}, nil, fmt.Errorf("bench: %s: %w", spec.name(), err)
	}
	run, h := m.run()
	return run, &measured{h, m.before, m.after}, nil
}

// measured is what a run leaves beside its figures.
type measured struct {
	latency       *hdrhistogram.Histogram
	before, after sample
}

// A row gathers the runs of a test.
type row struct {
	runner *Runner
	spec   *Spec
	cold   *Run
	runs   []Run
	all    *hdrhistogram.Histogram
	span   span
}

// A span is a stretch of runs over which the machine is watched: the clock of
// /proc/stat is too coarse for a run of a tenth of a second.
type span struct {
	from  sample
	to    sample
	first int // index of its first run
	open  bool
}

// enough is how long a span must be for its shares to be exact to 2 %.
const enough = time.Second

func (w *row) add(run Run, m *measured) {
	judgeRun(&run, w.spec)
	w.runs = append(w.runs, run)
	w.all.Merge(m.latency)
	if !w.span.open {
		w.span = span{from: m.before, first: len(w.runs) - 1, open: true}
	}
	w.span.to = m.after
	if m.after.at.Sub(w.span.from.at) >= enough {
		w.closeSpan()
	}
}

// closeSpan tells the runs of the span what others did meanwhile.
func (w *row) closeSpan() {
	if !w.span.open {
		return
	}
	w.span.open = false
	foreign, steal, pressure, ok := strangers(w.span.from, w.span.to)
	if !ok || w.spec.Loop == LoopNone { // what takes memory takes it whoever works
		return
	}
	wall := w.span.to.at.Sub(w.span.from.at)
	for i := w.span.first; i < len(w.runs); i++ {
		r := &w.runs[i]
		f, s, p := foreign, steal, pressure
		r.Steal = &s
		if !w.spec.ServerHere {
			r.Foreign = &f
		}
		if p >= 0 {
			r.Pressure = &p
		}
		judgeStrangers(r, wall)
	}
}

// settled reports whether the runs agree well enough to stop.
func (w *row) settled() bool {
	return judgeSpread(values(w.runs), w.spec.ByInterval, w.runner.opt.CI) == ""
}

// test makes the row of what was run.
func (w *row) test(spec Spec) Test {
	w.closeSpan()
	t := Test{
		Name: spec.Name, Combo: spec.Combo, Label: spec.Label, Founding: spec.Founding,
		Loop: spec.Loop, Processes: spec.Processes, Unit: spec.Unit, LowerIsBetter: spec.LowerIsBetter,
		Conns: spec.Conns, Size: spec.Size, Params: spec.Params, Detail: spec.Detail,
		Cold: w.cold, Runs: w.runs, Limit: spec.Limit,
	}
	t.Summary = summarize(w.runs)
	t.Summary.Latency = latencyOf(w.all)
	t.Memory = memoryUse(&spec)
	t.Measures = append(meanMeasures(w.runs), spec.Measures...)
	judgeTest(&t, &spec, w.runner.opt.CI)
	return t
}

func values(runs []Run) []float64 {
	v := make([]float64, len(runs))
	for i := range runs {
		v[i] = runs[i].Value
	}
	return v
}

// meanMeasures averages the further figures of the runs, in the order in which
// they first appear.
func meanMeasures(runs []Run) []Measure {
	var sums []Measure
	counts := map[string]float64{}
	at := map[string]int{}
	for _, r := range runs {
		for _, m := range r.Measures {
			i, seen := at[m.Name]
			if !seen {
				i = len(sums)
				at[m.Name] = i
				sums = append(sums, Measure{Name: m.Name, Unit: m.Unit})
			}
			sums[i].Value += m.Value
			counts[m.Name]++
		}
	}
	for i := range sums {
		sums[i].Value /= counts[sums[i].Name]
	}
	return sums
}
