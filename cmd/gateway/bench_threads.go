package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// threadsFlags are the flags of threads.
type threadsFlags struct {
	combos, arrival string
	threads, first  int
	findMax         bool
	lag             time.Duration
	faults          bench.Faults
}

func (c *cli) benchThreads(f *benchFlags) *cobra.Command {
	t := &threadsFlags{}
	cmd := &cobra.Command{
		Use:   "threads [--threads N | --find-max]",
		Short: "how many callers that send once a second are served steadily",
		Long: `Each thread has a connection of its own and sends one message a second, whether or
not the server keeps up: an open loop. The time of a reply counts from when its
request was due, so that a server which stops for a moment cannot hide it.

--threads N loads with N threads until it is interrupted, or for --duration.
--find-max, which is the default, looks for the highest number that is stable:
doubling from 64, halving the gap down to 1 %, and confirming for 30 s. It takes some four
minutes, --quick one and a half.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			j, err := c.threadsJob(f, t)
			if err != nil {
				return err
			}
			return c.runBench(cmd, f, j)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&t.combos, "combo", "hh,ff", "`combinations`, such as hh,ff, or all")
	fl.IntVar(&t.threads, "threads", 0, "`number` of threads")
	fl.BoolVar(&t.findMax, "find-max", false, "look for the highest number that is stable")
	fl.StringVar(&t.arrival, "arrival", "uniform", "when in its second a thread sends: `uniform` or random")
	fl.DurationVar(&t.lag, "lag-limit", 250*time.Millisecond, "p99 that a stable number keeps")
	faultFlags(fl, &t.faults)
	hideFaultFlags(fl)
	return cmd
}

// threadsJob makes sense of the flags of threads.
func (c *cli) threadsJob(f *benchFlags, t *threadsFlags) (benchJob, error) {
	j := benchJob{name: "threads", uses: []string{"target", "size", "soap", "via"}}
	if err := f.parseMessage(); err != nil {
		return j, err
	}
	switch {
	case t.threads < 0 || t.lag <= 0:
		return j, &usageError{"bench: --threads and --lag-limit must be more than 0", ""}
	case t.findMax && t.threads > 0:
		return j, &usageError{"bench: --threads and --find-max contradict each other", ""}
	case t.arrival != "uniform" && t.arrival != "random" && t.arrival != "poisson":
		return j, &usageError{fmt.Sprintf("bench: --arrival %.20q is not uniform or random", t.arrival), ""}
	}
	remote, err := f.remote(&t.combos)
	if err != nil {
		return j, err
	}
	if f.quick && remote == nil && t.combos == "hh,ff" {
		t.combos = "hh"
	}
	combos, err := chooseCombos(t.combos)
	if err != nil {
		return j, err
	}
	if err := f.fits(f.size, combos, remote); err != nil {
		return j, err
	}
	search := bench.SearchOptions{First: t.first, Lag: t.lag, Warmup: f.warmup, Window: f.duration}
	if f.quick {
		search = quickSearch(t.lag)
	}
	j.build = func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
		for _, combo := range combos {
			for _, via := range f.vias() {
				rows = append(rows, bench.NewThreads(bench.ThreadsOptions{
					EchoOptions: bench.EchoOptions{
						Lab: e.lab, Product: dialProduct, Combo: combo, Version: f.version, Size: f.size, Via: via,
						Faults: t.faults, Remote: remote, RemoteName: f.target,
					},
					Threads: t.threads, Search: search, Warmup: f.warmup, Duration: f.duration, Poisson: t.arrival != "uniform",
				}))
			}
		}
		return rows, nil
	}
	return j, nil
}
