package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// benchQueueFlags are the flags of queue.
type benchQueueFlags struct {
	durability, senders string
	backlog             int
	window              time.Duration // of a run; 0: as usual
	drill, only         bool
}

func (c *cli) benchQueue(f *benchFlags) *cobra.Command {
	p := &benchQueueFlags{}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "how fast messages are stored and delivered, and what becomes of them",
		Long: `Posts messages to a route that stores them, by 1, 64 and 512 senders, in both
modes of durability, beside JetStream alone that syncs every message and beside
the disk alone; then lets a backlog build up while the backend is down, and takes
the time until it has drained.

--drill takes the backend down, cuts connections before their answers, kills the
gateway with SIGKILL and restarts it, and counts what was lost, duplicated and
reordered. --drill-only does nothing else. A strict store needs a disk: name a folder on it with --dir.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			j, err := c.queueJob(f, p)
			if err != nil {
				return err
			}
			return c.runBench(cmd, f, j)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&p.durability, "durability", "both", "`mode`: strict, relaxed or both")
	fl.StringVar(&p.senders, "senders", "1,64,512", "`numbers` of senders")
	fl.IntVar(&p.backlog, "backlog", 10_000, "`messages` that are accepted while the backend is down")
	fl.BoolVar(&p.drill, "drill", false, "break what can break, and count what became of each message")
	fl.BoolVar(&p.only, "drill-only", false, "the drill and nothing else")
	return cmd
}

// queueJob makes sense of the flags of queue.
func (c *cli) queueJob(f *benchFlags, p *benchQueueFlags) (benchJob, error) {
	j := benchJob{name: "queue", uses: []string{"size"}, limits: bench.LimitSet{Sync: true}}
	modes := []string{bench.QueueStrict, bench.QueueRelaxed}
	if p.durability != "both" {
		if !slices.Contains(modes, p.durability) {
			return j, &usageError{fmt.Sprintf("bench queue: --durability %.20q is not strict, relaxed or both", p.durability), ""}
		}
		modes = []string{p.durability}
	}
	var senders []int
	for s := range strings.SplitSeq(p.senders, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > 10_000 {
			return j, &usageError{fmt.Sprintf("bench queue: --senders %.40q is not a list of numbers up to 10000", p.senders), "such as 1,64,512"}
		}
		senders = append(senders, n)
	}
	if f.size < 1 || f.size > 1<<20 || p.backlog < 1 || p.backlog > 10_000_000 {
		return j, &usageError{"bench queue: --size is 1 to 1048576, --backlog 1 to 10000000", ""}
	}
	j.build = func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
		o := bench.QueueOptions{Size: f.size, Window: cmp.Or(f.duration, p.window), Backlog: p.backlog, Limits: e.limits}
		times := 3
		if f.quick {
			times = 1
			if o.Window == 0 {
				o.Window = time.Second
			}
		}
		if !p.only {
			for _, n := range senders {
				for _, mode := range modes {
					rows = append(rows, bench.NewQueueAccept(e.lab, mode, n, o))
				}
				rows = append(rows, bench.NewQueueBare(e.lab, n, o))
			}
			rows = append(rows, bench.NewQueueDisk(e.lab, o))
			for _, mode := range modes {
				rows = append(rows, bench.NewQueueBacklog(e.lab, mode, times, o))
			}
		}
		if p.drill || p.only {
			rows = append(rows, bench.NewQueueDrill(e.lab, o))
		}
		return rows, nil
	}
	return j, nil
}
