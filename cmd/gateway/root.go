package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes.
const (
	exitOK      = 0
	exitProblem = 1
	exitUsage   = 2
)

// cli is what the commands share: the outside world and the flags of all.
type cli struct {
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool      // --json: results for machines
	started        time.Time // when the process began, as far as it can tell
}

// A usageError is a command line that makes no sense: exit code 2.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

// A problem is what a command found wrong, or what stopped it: exit code 1.
type problem struct {
	err  error
	hint string
}

func (e *problem) Error() string { return e.err.Error() }
func (e *problem) Unwrap() error { return e.err }

// errReported is returned by a command that has told everything already.
var errReported = errors.New("reported")

// root returns the tree of commands.
func (c *cli) root() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "gateway",
		Short: "a reverse proxy for SOAP with reliable delivery",
		Long: "Soapway accepts SOAP 1.1 and 1.2 over HTTP or length-prefixed TCP, checks every\n" +
			"octet of the envelope, and forwards it to backend nodes.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return c.printVersion()
			}
			if len(args) > 0 {
				return &usageError{fmt.Sprintf("unknown command %.40q", args[0]), c.suggestCommand(cmd, args[0])}
			}
			cmd.SetOut(c.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return &usageError{"no command given", ""}
		},
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolVar(&showVersion, "version", false, "print version, commit and Go version")
	root.CompletionOptions.DisableDefaultCmd = true // ours speaks as the others do
	root.SuggestionsMinimumDistance = 2
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print results as JSON")
	root.AddCommand(c.serveCommand(), c.checkCommand(), c.sendCommand(), c.queueCommand(), c.siteCommand(), c.benchCommand(), c.loadtestCommand(), c.completionCommand(), c.manCommand(), c.versionCommand())
	return root
}

// report prints err and returns the exit code for it.
func (c *cli) report(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errReported) {
		return exitProblem
	}
	if e, ok := errors.AsType[exitCode](err); ok {
		return int(e)
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		c.complain(e.message, e.hint)
		return exitUsage
	}
	hint := ""
	if e, ok := errors.AsType[*problem](err); ok {
		hint = e.hint
	}
	c.complain(err.Error(), hint)
	return exitProblem
}

// complain writes an error, a line each, and a hint if there is one.
func (c *cli) complain(message, hint string) {
	for line := range strings.Lines(message) {
		fmt.Fprintf(c.stderr, "gateway: error: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if hint != "" {
		fmt.Fprintf(c.stderr, "gateway: hint: %s\n", hint)
	}
}

// say writes a line that is neither a result nor an error.
func (c *cli) say(format string, args ...any) {
	fmt.Fprintf(c.stderr, "gateway: "+format+"\n", args...)
}

// printJSON writes v as one line.
func (c *cli) printJSON(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// noArgs is the Args of a command that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if cmd.Flags().Lookup("config") != nil {
		hint = "a configuration is named with -c " + args[0]
	}
	return &usageError{fmt.Sprintf("%s takes no argument, got %.60q", cmd.Name(), args[0]), hint}
}

// flagError makes a usage error of what pflag says, with the nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && e.GetSpecifiedShortnames() == "" {
		if near := nearest(e.GetSpecifiedName(), flagNames(cmd)); near != "" {
			hint = "did you mean --" + near + "?"
		}
	}
	message := err.Error()
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := "--" + e.GetFlag().Name
		if s := e.GetFlag().Shorthand; s != "" {
			flag = "-" + s + ", " + flag
		}
		want := map[string]string{"int": "a whole number", "duration": "a time such as 30s", "bool": "true or false"}[e.GetFlag().Value.Type()]
		if want == "" {
			want = "another value"
		}
		message = fmt.Sprintf("%s: got %.40q, want %s", flag, e.GetValue(), want)
	}
	return &usageError{cmd.Name() + ": " + message, hint}
}

func flagNames(cmd *cobra.Command) (names []string) {
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

func (c *cli) suggestCommand(root *cobra.Command, typed string) string {
	if s := root.SuggestionsFor(typed); len(s) > 0 {
		return "did you mean " + s[0] + "?"
	}
	var names []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			names = append(names, cmd.Name())
		}
	}
	return "the commands are " + strings.Join(names, ", ")
}

// nearest returns the candidate that typed is most likely a misspelling of: at
// most two edits away and fewer than half of its letters; "" if there is none.
func nearest(typed string, candidates []string) string {
	best, distance := "", 3
	for _, c := range candidates {
		if d := edits(strings.ToLower(typed), c); d < distance && 2*d <= len(c) {
			best, distance = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
