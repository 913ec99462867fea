package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// quickMaxRuns is how often a row of all --quick is run at most, where nobody asked
// for another number.
const quickMaxRuns = 5

func (c *cli) benchAll(f *benchFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "all",
		Short: "every test, and the measures of the founding documents beside theirs",
		Long: `Runs every test on a gateway of its own, one after the other: --quick in less than
150 seconds, --full in about ten minutes. At the end each measure of the founding
documents stands beside the figure that they print.

The exit code is 0 if all rows can be believed, or 3 with the reason.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			jobs, err := c.allJobs(cmd, f)
			if err != nil {
				return err
			}
			f.founding = true
			return c.runBench(cmd, f, jobs...)
		},
	}
}

// allJobs are the tests in the order of the founding documents; what breaks things
// comes last.
func (c *cli) allJobs(cmd *cobra.Command, f *benchFlags) ([]benchJob, error) {
	starts, count, senders, combos := 20, "1000", "1,64,512", "hh,ff"
	if f.quick {
		starts, senders, combos = 10, "1,64", "hh"
		if !cmd.Flags().Changed("max-runs") {
			f.maxRuns = quickMaxRuns
		}
	}
	limits := benchJob{
		name: "limits", limits: bench.LimitSet{Floor: true, Stream: true, Memory: true, Clock: true, Sync: true},
		build: func(context.Context, *benchEnv) ([]bench.Scenario, error) { return nil, nil },
	}
	web, err := c.webJob(f, count)
	if err != nil {
		return nil, err
	}
	ping, err := c.pingJob(f, &pingFlags{combos: "all", soap: "1.1", via: "direct", conn: "per-thread", size: bench.PingSize, count: count, conns: "1"})
	if err != nil {
		return nil, err
	}
	threads, err := c.threadsJob(f, &threadsFlags{combos: combos, arrival: "uniform", via: "direct", size: bench.PingSize, findMax: true, lag: 250 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	calls, err := c.callsJob(f, &callsFlags{transport: bench.CallFramed})
	if err != nil {
		return nil, err
	}
	queue, err := c.queueJob(f, &benchQueueFlags{durability: "both", senders: senders, size: bench.PingSize, backlog: 10_000, drill: true})
	if err != nil {
		return nil, err
	}
	return []benchJob{limits, c.startupJob(&startupFlags{starts: starts}), web, ping, threads, netJob(), calls, c.memJob(f, 1000), queue}, nil
}

// netJob is the network test over the loopback, of every protocol.
func netJob() benchJob {
	return benchJob{
		name: "net", limits: bench.LimitSet{Stream: true},
		build: func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
			for _, protocol := range []string{bench.NetHTTP, bench.NetRPC, bench.NetRaw, bench.NetSOAP, bench.NetFramed} {
				rows = append(rows, bench.NewNet(e.lab, protocol, 1500, e.limits))
			}
			return rows, nil
		},
	}
}
