package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

func (c *cli) benchMem(f *benchFlags) *cobra.Command {
	idle := 1000
	cmd := &cobra.Command{
		Use:   "mem",
		Short: "what a gateway has in memory: idle, with connections, after a load",
		Long: `Looks at a gateway of its own: idle, with idle connections over HTTP and framed TCP
(per-conn is what each takes), after a load, and after garbage was collected and what
is free given back to the system.
vsz is what is reserved: Go reserves far more than it uses, and none of it counts.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if idle < 1 {
				return &usageError{"bench: --idle must be more than 0", ""}
			}
			return c.runBench(cmd, f, c.memJob(f, idle))
		},
	}
	cmd.Flags().IntVar(&idle, "idle", idle, "idle `connections`")
	return cmd
}

func (c *cli) memJob(f *benchFlags, idle int) benchJob {
	return benchJob{name: "mem", build: func(_ context.Context, e *benchEnv) ([]bench.Scenario, error) {
		o := bench.MemOptions{Lab: e.lab, Idle: idle}
		if f.quick {
			o.Settle, o.Load = 100*time.Millisecond, 5000
		}
		return bench.NewMems(o), nil
	}}
}
