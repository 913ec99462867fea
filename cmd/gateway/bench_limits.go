package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"soapway/bench"
)

func (c *cli) benchLimits(f *benchFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "limits",
		Short: "what this machine can do at most, without the gateway",
		Long: `Measures what no gateway on this machine can surpass: a round trip of one octet
over TCP between two processes, a stream over loopback, copying in memory, a write
that is synced to the disk of --dir, a system call, a look at the clock. The other
tests print these beside their rows.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runBench(cmd, f, benchJob{
				name:   "limits",
				limits: bench.LimitSet{Floor: true, Stream: true, Memory: true, Clock: true, Sync: true},
				build: func(context.Context, *benchEnv) ([]bench.Scenario, error) {
					return nil, nil
				},
			})
		},
	}
}

// benchPeer is the program that plays the other side of a measure.
func (c *cli) benchPeer() *cobra.Command {
	var opt bench.PeerOptions
	cmd := &cobra.Command{
		Use:    "peer KIND",
		Short:  "play the other side of a measure",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && (len(args) != 2 || args[0] != callsPeer) {
				return &usageError{"bench peer: give one kind", ""}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilStopped(cmd.Context())
			defer stop()
			if len(args) == 2 {
				return c.serveCalls(ctx, args[1])
			}
			if err := bench.ServePeer(ctx, args[0], opt, c.stdin, c.stdout); err != nil {
				return &problem{err, ""}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opt.Listen, "listen", "", "`address` to listen at")
	faultFlags(fl, &opt.Faults)
	fl.BoolVar(&opt.Faults.Nagle, "nagle", false, "leave TCP_NODELAY off")
	return cmd
}

// faultFlags are what a peer can do wrong on purpose, so that anybody can see the
// bench notice it.
func faultFlags(fl *pflag.FlagSet, f *bench.Faults) {
	fl.DurationVar(&f.Pause, "pause", 0, "stop all replies for this `time` at the beginning of each second")
	fl.IntVar(&f.WrongEvery, "wrong-every", 0, "answer each `n`-th message wrongly")
	fl.IntVar(&f.Cap, "cap", 0, "give this `many` replies a second at most")
}

// hideFaultFlags leaves them out of the help: docs/bench.md speaks of them.
func hideFaultFlags(fl *pflag.FlagSet) {
	for _, name := range []string{"pause", "wrong-every", "cap"} {
		_ = fl.MarkHidden(name) // of a flag that is there
	}
}
