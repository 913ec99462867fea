package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"soapway/bench"
	"soapway/config"
	"soapway/internal/app"
)

// callsFlags are the flags of calls.
type callsFlags struct {
	transport  string
	ops, loops int
}

func (c *cli) benchCalls(f *benchFlags) *cobra.Command {
	p := &callsFlags{}
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "what a call costs inside one process, and between two",
		Long: `In process three callers work at once: a look-up among 1,000 routes, a call of
the gateway's handler, and a remote call through memory. Then two callers with
another process: a look-up and a call. Each does 10,000 operations in a row, ten
times, after a round that does not count.`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			j, err := c.callsJob(f, p)
			if err != nil {
				return err
			}
			return c.runBench(cmd, f, j)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&p.transport, "transport", bench.CallFramed, "how remote calls are carried: "+strings.Join(bench.CallTransports(), ", "))
	fl.IntVar(&p.ops, "ops", 0, "operations of a loop (default 10000, with --quick 1000)")
	fl.IntVar(&p.loops, "loops", 0, "loops that count (default 10, with --quick 3)")
	return cmd
}

// callsJob makes sense of the flags of calls.
func (c *cli) callsJob(f *benchFlags, p *callsFlags) (benchJob, error) {
	j := benchJob{name: "calls"}
	if !slices.Contains(bench.CallTransports(), p.transport) {
		return j, &usageError{fmt.Sprintf("bench calls: --transport %.20q is not one of %s", p.transport, strings.Join(bench.CallTransports(), ", ")), ""}
	}
	if p.ops < 0 || p.loops < 0 {
		return j, &usageError{"bench calls: --ops and --loops must be more than 0", ""}
	}
	if f.quick && p.ops == 0 {
		p.ops = 1000
	}
	if f.quick && p.loops == 0 {
		p.loops = 3
	}
	j.measure = func(ctx context.Context, e *benchEnv) ([]bench.Test, error) {
		dir, err := e.lab.Folder("calls")
		if err != nil {
			return nil, err
		}
		service, done, err := callService(dir)
		if err != nil {
			return nil, err
		}
		defer done()
		return bench.MeasureCalls(ctx, bench.CallsOptions{
			Service: service, Transport: p.transport, Ops: p.ops, Loops: p.loops, Lab: e.lab,
			Sampler: e.options.Sampler, Progress: e.options.Progress,
		})
	}
	return j, nil
}

// callService is the product as the calls rows call it: a table of a thousand
// routes, and its handler in front of the built-in echo.
func callService(dir string) (_ *bench.CallService, done func(), err error) {
	var b strings.Builder
	b.WriteString("listeners: [{address: \"127.0.0.1:0\"}]\nbackends: {echo: {nodes: [\"builtin:echo\"]}}\nroutes:\n")
	for i := range bench.CallRoutes {
		host, path, action, route := bench.CallRoute(i)
		fmt.Fprintf(&b, "  - {name: %s, match: {host: %s, path: %s, action: %q}, backend: echo}\n", route, host, path, action)
	}
	b.WriteString("  - {name: call, match: {path: /call}, backend: echo}\n")
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, nil, err
	}
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		return nil, nil, err
	}
	d, err := app.NewDirect(cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	return &bench.CallService{
		Lookup: d.Resolve,
		Local:  func(message []byte) ([]byte, error) { return d.Call(ctx, "call", "/call", message) },
		Remote: func(message []byte) ([]byte, error) { return d.Call(ctx, "", "/call", message) },
	}, d.Close, nil
}

// callsPeer is the kind of peer that has the product in it, so that package bench
// cannot make it.
const callsPeer = "calls"

// serveCalls is the process that the calls rows call: gateway bench peer calls
// TRANSPORT. It ends when its standard input does.
func (c *cli) serveCalls(ctx context.Context, transport string) error {
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return &problem{fmt.Errorf("bench: %w", err), ""}
	}
	defer os.RemoveAll(dir)
	service, done, err := callService(dir)
	if err != nil {
		return &problem{err, ""}
	}
	defer done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process at the latest: a read of stdin cannot be cut off
		_, _ = io.Copy(io.Discard, c.stdin)
		stop()
	}()
	return bench.ServeCalls(ctx, transport, service, func(address string) error {
		return json.NewEncoder(c.stdout).Encode(map[string]string{"address": address})
	})
}
