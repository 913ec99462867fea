package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// compareBinaries lets another program and this one run a test by turns, one run
// each, as often as --runs says, and compares what came of it.
func (c *cli) compareBinaries(cmd *cobra.Command, f *benchFlags, old string, args []string) error {
	if len(args) == 0 {
		return &usageError{"bench compare: --ab needs a test", "gateway bench compare --ab " + old + " -- ping --combo ff"}
	}
	self, err := os.Executable()
	if err != nil {
		return &problem{fmt.Errorf("bench compare: %w", err), ""}
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	progress := c.benchProgress(f)
	var sums [2]*bench.Results
	for turn := range f.runs {
		for side, program := range []string{old, self} {
			progress.Say("turn %d/%d: %s", turn+1, f.runs, [2]string{"old", "new"}[side])
			r, err := c.oneTurn(ctx, program, args)
			if err != nil {
				return &problem{fmt.Errorf("bench compare: %s: %w", program, err), ""}
			}
			sums[side] = bench.Alternate(sums[side], r)
		}
	}
	return c.printComparison(f, sums[0], sums[1])
}

// oneTurn has a program run a test once.
func (c *cli) oneTurn(ctx context.Context, program string, args []string) (*bench.Results, error) {
	// What the test is told comes first: a turn is one run, whatever it says.
	all := slices.Concat([]string{"bench"}, args, []string{"--runs", "1", "--max-runs", "1", "--no-progress", "--json"})
	run := osexec.CommandContext(ctx, program, all...)
	var out, said bytes.Buffer
	run.Env, run.Stdout, run.Stderr = c.env, &out, &said
	err := run.Run()
	if _, exited := errors.AsType[*osexec.ExitError](err); err != nil && !exited {
		return nil, err
	}
	// Exit codes other than 0 are of the verdict, and results come with them.
	r, readErr := bench.ReadJSON(&out)
	if readErr != nil {
		if said.Len() > 0 {
			return nil, errors.New(strings.TrimSpace(said.String()))
		}
		return nil, errors.Join(err, readErr)
	}
	return r, nil
}
