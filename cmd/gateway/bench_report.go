package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// benchReport makes a page of results that are there already.
func (c *cli) benchReport(f *benchFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "report FILE --html out.html",
		Short: "make a page, or the table, of results in a file",
		Long: `Reads results.json, - for stdin, and writes the page with charts that --html
names, - for stdout. Without --html it prints the table.

The page is one file. It has no script and asks nobody for anything, so that it
can be sent to somebody or kept as it is.`,
		Args: oneFile("report", "the file with the results is missing"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := c.readResults(args[0])
			if err != nil {
				return err
			}
			switch f.html {
			case "":
				if c.json {
					return c.printJSON(r)
				}
				return bench.WriteTable(c.stdout, r, c.paint())
			case "-":
				return bench.WriteHTML(c.stdout, r)
			}
			if err := bench.WriteFile(f.html, r, bench.WriteHTML, false); err != nil {
				return &problem{err, ""}
			}
			return nil
		},
	}
}

// oneFile is the Args of a command that takes one file.
func oneFile(name, missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return &usageError{"bench " + name + ": " + missing, "results.json of a run with --out"}
		case 1:
			return nil
		}
		return &usageError{fmt.Sprintf("bench %s: takes one file, got %.40q as well", name, args[1]), ""}
	}
}

// readResults reads a file with results, or a folder that --out has made.
func (c *cli) readResults(path string) (*bench.Results, error) {
	in := c.stdin
	if path != "-" {
		if s, err := os.Stat(path); err == nil && s.IsDir() {
			path = filepath.Join(path, "results.json")
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, &problem{fmt.Errorf("bench: %w", err), ""}
		}
		defer f.Close()
		in = f
	}
	r, err := bench.ReadJSON(io.LimitReader(in, 1<<30))
	if err != nil {
		return nil, &problem{fmt.Errorf("%s: %w", path, err), ""}
	}
	return r, nil
}

// benchCompare compares two results.
func (c *cli) benchCompare(f *benchFlags) *cobra.Command {
	var old string
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "whether two results differ by more than chance",
		Long: `Compares the runs of each row by their ranks (Mann-Whitney U test). "~" may well
be chance; a regression is no chance, to the bad, and more than --tolerance:
exit code 5. Each side needs four runs of a row. Results of different machines
are refused, unless --force is given.

With --ab OLDBIN the arguments are a test and its flags, and both programs run it
by turns, so that both meet the same machine:

  gateway bench compare --ab ./gateway-1.0 -- ping --combo ff`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(); err != nil {
				return err
			}
			if old != "" {
				return c.compareBinaries(cmd, f, old, args)
			}
			if len(args) != 2 {
				return &usageError{fmt.Sprintf("bench compare: want two files, got %d", len(args)), "gateway bench compare OLD.json NEW.json"}
			}
			a, err := c.readResults(args[0])
			if err != nil {
				return err
			}
			b, err := c.readResults(args[1])
			if err != nil {
				return err
			}
			return c.printComparison(f, a, b)
		},
	}
	cmd.Flags().StringVar(&old, "ab", "", "another `program` that takes turns with this one")
	return cmd
}

func (c *cli) printComparison(f *benchFlags, a, b *bench.Results) error {
	cmp, err := bench.Compare(a, b, bench.CompareOptions{Tolerance: f.parsedSlip, Force: f.force})
	if errors.Is(err, bench.ErrOtherMachine) {
		return &problem{err, "--force compares them all the same"}
	}
	if err != nil {
		return &problem{err, ""}
	}
	if c.json {
		err = c.printJSON(cmp)
	} else {
		_, err = fmt.Fprint(c.stdout, cmp)
	}
	if err == nil && cmp.Regressions > 0 {
		return exitCode(bench.ExitRegression)
	}
	return err
}

// benchExplain says in plain words what a test does.
func (c *cli) benchExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain TEST",
		Short: "what a test does, how to read it, what it does not say",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Sprintf("bench explain: want one test, got %d", len(args)), "one of " + strings.Join(bench.Explained(), ", ")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text, ok := bench.Explain(args[0])
			if !ok {
				return &usageError{fmt.Sprintf("bench explain: no test %.40q", args[0]), "one of " + strings.Join(bench.Explained(), ", ")}
			}
			_, err := fmt.Fprint(c.stdout, text)
			return err
		},
	}
}
