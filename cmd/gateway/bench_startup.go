package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"soapway/bench"
	"soapway/config"
	"soapway/internal/app"
	"soapway/internal/telemetry"
)

// startupFlags are the flags of startup.
type startupFlags struct {
	inProcess     bool
	queue, starts int
}

func (c *cli) benchStartup(f *benchFlags) *cobra.Command {
	s := &startupFlags{}
	cmd := &cobra.Command{
		Use:   "startup",
		Short: "how long a start takes, until the first right reply",
		Long: `Starts the gateway again and again, as a process with an empty folder, and takes the
time until a SOAP message is answered rightly; then stops it and takes that time
too. The program is in the page cache after the first start, which is not counted.

--in-process starts the parts inside this process as well, --queue N finds N
stored messages at each start.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.queue < 0 || s.starts < 1 {
				return &usageError{"bench: --queue and --starts must be more than 0", ""}
			}
			return c.runBench(cmd, f, c.startupJob(s))
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&s.inProcess, "in-process", false, "also start the parts inside this process")
	fl.IntVar(&s.queue, "queue", 0, "also start with so `many` stored messages")
	fl.IntVar(&s.starts, "starts", 20, "how `often` it is started")
	return cmd
}

func (c *cli) startupJob(s *startupFlags) benchJob {
	return benchJob{name: "startup", build: func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
		o := bench.StartupOptions{Lab: e.lab, Starts: s.starts}
		rows = append(rows, bench.NewStartup(o))
		if s.inProcess {
			o.InProcess = startInProcess
			rows = append(rows, bench.NewStartup(o))
			o.InProcess = nil
		}
		if s.queue > 0 {
			o.Queue = s.queue
			rows = append(rows, bench.NewStartup(o))
		}
		return rows, nil
	}}
}

// startInProcess runs a gateway inside this process until it is stopped.
func startInProcess(ctx context.Context, file string) (stop func() error, err error) {
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		return nil, err
	}
	a, err := app.New(cfg, app.Options{Log: telemetry.NewLog(io.Discard), Version: buildInfo().Version})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }() // stop waits for it
	return func() error { cancel(); return <-done }, nil
}
