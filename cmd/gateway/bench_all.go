package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// A benchPlan is how thorough bench all is.
type benchPlan struct {
	starts  int           // of startup
	combos  string        // of threads
	senders string        // of queue
	window  time.Duration // of a run of queue; 0: as usual
	maxRuns int           // where nobody asked for another number
	extra   time.Duration // that added runs may take in all
	// took is what each test takes on a machine that is otherwise idle, for the
	// time that is told at the start.
	took map[string]time.Duration
	most time.Duration // that all may take
}

// The two plans. Without --quick it is the one for the record.
var (
	quickPlan = benchPlan{
		starts: 8, combos: "hh", senders: "1,64", window: 800 * time.Millisecond, maxRuns: 5, extra: 12 * time.Second,
		took: map[string]time.Duration{
			"limits": 2 * time.Second, "startup": 3 * time.Second, "web": time.Second, "ping": 6 * time.Second, "threads": 42 * time.Second,
			"net": 9 * time.Second, "calls": 2 * time.Second, "mem": 4 * time.Second, "queue": 38 * time.Second,
		},
		most: 150 * time.Second,
	}
	fullPlan = benchPlan{
		starts: 20, combos: "hh,ff", senders: "1,64,512", window: 2 * time.Second, maxRuns: 10, extra: 2 * time.Minute,
		took: map[string]time.Duration{
			"limits": 4 * time.Second, "startup": 7 * time.Second, "web": time.Second, "ping": 8 * time.Second, "threads": 8 * time.Minute,
			"net": 20 * time.Second, "calls": 20 * time.Second, "mem": 8 * time.Second, "queue": 3 * time.Minute,
		},
		most: 25 * time.Minute,
	}
)

func (f *benchFlags) plan() *benchPlan {
	if f.quick {
		return &quickPlan
	}
	return &fullPlan
}

// tell says how long the plan takes, and each test of it.
func (p *benchPlan) tell(jobs []benchJob) string {
	var sum time.Duration
	var each []string
	for _, j := range jobs {
		sum += p.took[j.name]
		each = append(each, fmt.Sprintf("%s %v", j.name, p.took[j.name]))
	}
	return fmt.Sprintf("bench all: about %v, at most some %v: %s", (sum + p.extra/2).Round(5*time.Second), p.most, strings.Join(each, " · "))
}

func (c *cli) benchAll(f *benchFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "all",
		Short: "every test, and the measures of the founding documents beside theirs",
		Long: `Runs every test on a gateway of its own, one after the other: --quick in less than
150 seconds, --full, which is the default, in ten to fifteen minutes; it says at the
start what it will take. At the end each measure of the founding documents stands
beside the figure that they print.

The exit code is 0 if all rows can be believed, or 3 with the reason.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			jobs, err := c.allJobs(cmd, f)
			if err != nil {
				return err
			}
			if err := f.parse(); err != nil {
				return err
			}
			f.founding = true
			c.benchProgress(f).Say("%s", f.plan().tell(jobs))
			return c.runBench(cmd, f, jobs...)
		},
	}
}

// allJobs are the tests in the order of the founding documents; what breaks things
// comes last.
func (c *cli) allJobs(cmd *cobra.Command, f *benchFlags) ([]benchJob, error) {
	if f.target != "" {
		return nil, &usageError{"bench all: it measures gateways of its own: --target is for ping, web and threads", ""}
	}
	plan := f.plan()
	f.extra = plan.extra
	if !cmd.Flags().Changed("max-runs") {
		f.maxRuns = plan.maxRuns
	}
	limits := benchJob{
		name: "limits", limits: bench.LimitSet{Floor: true, Stream: true, Memory: true, Clock: true, Sync: true},
		build: func(context.Context, *benchEnv) ([]bench.Scenario, error) { return nil, nil },
	}
	web, err := c.webJob(f, "1000")
	if err != nil {
		return nil, err
	}
	ping, err := c.pingJob(f, &pingFlags{combos: "all", count: "1000", conns: "1"})
	if err != nil {
		return nil, err
	}
	threads, err := c.threadsJob(f, &threadsFlags{combos: plan.combos, first: 512, arrival: "uniform", findMax: true, lag: 250 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	calls, err := c.callsJob(f, &callsFlags{transport: bench.CallFramed})
	if err != nil {
		return nil, err
	}
	queue, err := c.queueJob(f, &benchQueueFlags{durability: "both", senders: plan.senders, window: plan.window, backlog: 10_000, drill: true})
	if err != nil {
		return nil, err
	}
	return []benchJob{limits, c.startupJob(&startupFlags{starts: plan.starts}), web, ping, threads, netJob(f), calls, c.memJob(f, 1000), queue}, nil
}

// netJob is the network test over the loopback, of every protocol.
func netJob(f *benchFlags) benchJob {
	return benchJob{
		name: "net", limits: bench.LimitSet{Stream: true},
		build: func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
			pass := time.Second
			if f.quick {
				pass = 150 * time.Millisecond
			}
			for _, protocol := range []string{bench.NetHTTP, bench.NetRPC, bench.NetRaw, bench.NetSOAP, bench.NetFramed} {
				rows = append(rows, bench.NewNet(e.lab, protocol, 1500, pass, e.limits))
			}
			return rows, nil
		},
	}
}
