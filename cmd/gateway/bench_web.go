package main

import (
	"context"

	"github.com/spf13/cobra"

	"soapway/bench"
)

func (c *cli) benchWeb(f *benchFlags) *cobra.Command {
	count := "1000"
	cmd := &cobra.Command{
		Use:   "web",
		Short: "web pages a second, one after the other",
		Long: `Fetches a page of 1 KiB through the gateway's HTTP listener, over one connection, one
after the other: the founding measurement of the web server, without any SOAP.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			j, err := c.webJob(f, count)
			if err != nil {
				return err
			}
			return c.runBench(cmd, f, j)
		},
	}
	cmd.Flags().StringVar(&count, "count", count, "`pages` of a run")
	return cmd
}

func (c *cli) webJob(f *benchFlags, count string) (benchJob, error) {
	j := benchJob{name: "web", uses: []string{"target", "conn"}, limits: bench.LimitSet{Floor: true}}
	counts, err := parseCounts("--count", count)
	if err != nil {
		return j, err
	}
	client := "rh"
	if f.target != "" {
		client = "nn" // a page from elsewhere may come in any form
	}
	remote, err := f.remote(&client)
	if err != nil {
		return j, err
	}
	if client == "ff" {
		return j, &usageError{"bench: a web page needs an http:// target", ""}
	}
	combos, err := chooseCombos(client)
	if err != nil {
		return j, err
	}
	j.build = func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
		for _, n := range counts {
			rows = append(rows, bench.NewPings(bench.PingOptions{
				EchoOptions: bench.EchoOptions{Lab: e.lab, Combo: combos[0], Page: true, Remote: remote, RemoteName: f.target},
				Fresh:       f.conn == "fresh",
				Count:       n, Duration: f.duration, Warmup: f.warmup, Limits: e.limits, Suffix: suffix(len(counts) > 1, "", n),
			}))
		}
		return rows, nil
	}
	return j, nil
}
