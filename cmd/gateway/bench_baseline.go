package main

import (
	"errors"
	"fmt"

	"soapway/bench"
)

// readBaseline reads what --baseline names, nil without it, and refuses results
// of another machine before anything is measured.
func (c *cli) readBaseline(f *benchFlags, env bench.Env) (*bench.Results, error) {
	if f.baseline == "" {
		return nil, nil
	}
	old, err := c.readResults(f.baseline)
	if err != nil {
		return nil, err
	}
	_, err = bench.Compare(old, &bench.Results{Env: env}, f.comparing())
	if errors.Is(err, bench.ErrOtherMachine) {
		return nil, &problem{fmt.Errorf("bench: --baseline: %w", err), "--force compares them all the same"}
	}
	return old, err
}

func (f *benchFlags) comparing() bench.CompareOptions {
	return bench.CompareOptions{Tolerance: f.parsedSlip, Force: f.force}
}

// compareBaseline compares r with what was read, and says whether it is worse.
// Rows that were not measured this time are left out.
func compareBaseline(f *benchFlags, old, r *bench.Results) (text string, regression bool, err error) {
	if old == nil {
		return "", false, nil
	}
	cmp, err := bench.Compare(old, r, f.comparing())
	if err != nil {
		return "", false, err
	}
	rows := cmp.Rows[:0]
	for _, row := range cmp.Rows {
		if row.Outcome != bench.Missing {
			rows = append(rows, row)
		}
	}
	cmp.Rows = rows
	return cmp.String(), cmp.Regressions > 0, nil
}
