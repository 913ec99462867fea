package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"soapway/bench"
	"soapway/soapcodec"
)

// benchFlags are the flags that all tests have in common.
type benchFlags struct {
	quick, full          bool
	target               string
	size                 int
	soap, via, conn      string
	runs, maxRuns        int
	ci, tolerance        string
	warmup, duration     time.Duration
	pin, dir, out        string
	prom, goBench, html  string
	baseline             string
	require              []string
	csv, histograms      bool
	noProgress, force    bool
	founding             bool              // print the table of the founding measures
	parsedCI, parsedSlip float64           // of ci and tolerance
	version              soapcodec.Version // of soap
	extra                time.Duration     // what added runs may take in all; 0: no bound
	clientCPUs           []int             // of pin
	serverCPUs           []int
	requirements         []*bench.Requirement
}

// A benchJob is a test as a command runs it.
type benchJob struct {
	name   string
	uses   []string       // those of choosable that it heeds
	limits bench.LimitSet // what is measured of the machine before
	// build makes the rows. It is called once the limits are known.
	build func(ctx context.Context, e *benchEnv) ([]bench.Scenario, error)
	// measure, in place of build, makes the rows of a test whose rows are
	// measured together.
	measure func(ctx context.Context, e *benchEnv) ([]bench.Test, error)
}

// choosable are the flags that say what is measured, not how. A test that does not
// heed one refuses it: its rows would not be what was asked for.
var choosable = []string{"target", "size", "soap", "via", "conn"}

// benchEnv is what a job is built of.
type benchEnv struct {
	flags   *benchFlags
	lab     *bench.Lab
	limits  *bench.Limits
	options bench.Options
}

func (c *cli) benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench TEST",
		Short: "measure this machine and a gateway on it",
		Long: `Measures on a gateway of its own, with a folder of its own: nothing that is in
use is touched. Each row says what was measured, how far the runs agree, what
this machine allows at most and what held the row back.

Exit code 0: all is well, 1: an internal error, 2: wrong usage, 3: a figure cannot be
believed (INVALID: noise, the generator, Little's law), 4: --require was not met,
5: worse than --baseline, 6: replies failed or were wrong.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{"bench: no test given", benchTests(cmd)}
			}
			return &usageError{fmt.Sprintf("bench: unknown test %.40q", args[0]), benchTests(cmd)}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	fl := cmd.PersistentFlags()
	fl.BoolVar(&f.quick, "quick", false, "shorter: a first look")
	fl.BoolVar(&f.full, "full", false, "for the record, which is the default")
	fl.StringVar(&f.target, "target", "", "measure what answers at this `URL` in place of a gateway of our own")
	fl.IntVar(&f.size, "size", bench.PingSize, "`octets` of a message")
	fl.StringVar(&f.soap, "soap", "1.1", "`version` of SOAP")
	fl.StringVar(&f.via, "via", "direct", "`way`: direct, gateway or both")
	fl.StringVar(&f.conn, "conn", "per-thread", "`connections`: per-thread or fresh, one for each message")
	fl.IntVar(&f.runs, "runs", 5, "how `often` each row is run")
	fl.IntVar(&f.maxRuns, "max-runs", 10, "how `often` at most, while the runs disagree")
	fl.StringVar(&f.ci, "ci", "2.5%", "95 % interval of the mean, as a `share` of it, that ends the adding of runs")
	fl.StringVar(&f.tolerance, "tolerance", "5%", "loss against the baseline that is no regression")
	fl.DurationVar(&f.warmup, "warmup", 0, "`time` of the warm-up (default: that of the test)")
	fl.DurationVar(&f.duration, "duration", 0, "`time` of a run (default: that of the test)")
	fl.StringVar(&f.pin, "pin", "", "processors of client and server, as `LIST/LIST`: 0/1 or 0-1/2,3")
	fl.StringVar(&f.dir, "dir", "", "existing `folder` for temporary stores, on the disk to be measured (default: that of the system)")
	fl.StringVar(&f.out, "out", "", "`folder` for the files with the results")
	fl.BoolVar(&f.histograms, "hgrm", false, "latencies of each row as percentile tables, into the folder of --out")
	fl.BoolVar(&f.csv, "csv", false, "print results as CSV")
	fl.StringVar(&f.prom, "prom", "", "`file` for the textfile collector of Prometheus")
	fl.StringVar(&f.goBench, "gobench", "", "`file` in the format of Go's benchmarks, for benchstat")
	fl.StringVar(&f.html, "html", "", "`file` for a page with charts")
	fl.StringVar(&f.baseline, "baseline", "", "`file` with results that must not be worse now: results.json, or the folder of --out")
	fl.StringArrayVar(&f.require, "require", nil, "`expression` that must hold, such as 'ping.*.p99<5ms'")
	fl.BoolVar(&f.noProgress, "no-progress", false, "do not show what goes on")
	fl.BoolVar(&f.force, "force", false, "go on where the bench would rather refuse")
	cmd.AddCommand(
		c.benchAll(f),
		c.benchLimits(f),
		c.benchStartup(f),
		c.benchWeb(f),
		c.benchPing(f),
		c.benchThreads(f),
		c.benchNet(),
		c.benchCalls(f),
		c.benchMem(f),
		c.benchQueue(f),
		c.benchReport(f),
		c.benchCompare(f),
		c.benchExplain(),
		c.benchPeer(),
	)
	return cmd
}

// benchTests names the tests for a hint.
func benchTests(cmd *cobra.Command) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return "the tests are " + strings.Join(names, ", ")
}

// benchArgs is the Args of a test: none, but "--json -" is a common way to ask
// for JSON on stdout.
func (c *cli) benchArgs(cmd *cobra.Command, args []string) error {
	if c.json && len(args) == 1 && args[0] == "-" {
		return nil
	}
	return noArgs(cmd, args)
}

// parse checks the flags.
func (f *benchFlags) parse() (err error) {
	if f.quick && f.full {
		return &usageError{"bench: --quick and --full contradict each other", ""}
	}
	for _, n := range []struct {
		flag string
		ok   bool
	}{{"--runs", f.runs > 0}, {"--max-runs", f.maxRuns > 0}, {"--warmup", f.warmup >= 0}, {"--duration", f.duration >= 0}} {
		if !n.ok {
			return &usageError{"bench: " + n.flag + " must be more than 0", ""}
		}
	}
	if err := f.parseMessage(); err != nil {
		return err
	}
	if f.parsedCI, err = parseShare("--ci", f.ci); err != nil {
		return err
	}
	if f.parsedSlip, err = parseShare("--tolerance", f.tolerance); err != nil {
		return err
	}
	for _, expr := range f.require {
		r, err := bench.ParseRequirement(expr)
		if err != nil {
			return &usageError{err.Error(), ""}
		}
		f.requirements = append(f.requirements, r)
	}
	if f.histograms && f.out == "" {
		return &usageError{"bench: --hgrm needs --out", ""}
	}
	return f.parsePin()
}

// parseMessage checks what is sent, and how.
func (f *benchFlags) parseMessage() (err error) {
	if f.version, err = parseVersion(cmp.Or(f.soap, "1.1")); err != nil {
		return &usageError{fmt.Sprintf("bench: --soap %.20q is not 1.1 or 1.2", f.soap), ""}
	}
	if !slices.Contains([]string{"", "direct", "gateway", "both"}, f.via) {
		return &usageError{fmt.Sprintf("bench: --via %.20q is not direct, gateway or both", f.via), ""}
	}
	if !slices.Contains([]string{"", "per-thread", "fresh"}, f.conn) {
		return &usageError{fmt.Sprintf("bench: --conn %.20q is not per-thread or fresh", f.conn), ""}
	}
	if f.target != "" && f.via != "" && f.via != "direct" {
		return &usageError{"bench: --via and --target exclude each other", ""}
	}
	return nil
}

// heeded refuses what none of the jobs heeds.
func heeded(cmd *cobra.Command, jobs []benchJob) error {
	for _, name := range choosable {
		if cmd.Flags().Changed(name) && !slices.ContainsFunc(jobs, func(j benchJob) bool { return slices.Contains(j.uses, name) }) {
			return &usageError{fmt.Sprintf("bench %s: --%s means nothing here", cmd.Name(), name), ""}
		}
	}
	return nil
}

// vias says of each row whether it goes straight, and whether through a gateway.
func (f *benchFlags) vias() []bool {
	switch f.via {
	case "gateway":
		return []bool{true}
	case "both":
		return []bool{false, true}
	}
	return []bool{false}
}

func (f *benchFlags) parsePin() (err error) {
	if f.pin == "" {
		return nil
	}
	client, server, ok := strings.Cut(f.pin, "/")
	if f.clientCPUs, err = parseCPUs(client); err == nil && ok {
		f.serverCPUs, err = parseCPUs(server)
	}
	if err != nil || !ok {
		return &usageError{fmt.Sprintf("bench: --pin %.40q is not two lists of processors of this machine", f.pin), "such as 0/1 or 0-1/2,3"}
	}
	return nil
}

// parseShare reads 2.5% or 0.025.
func parseShare(flag, s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v < 1) {
		return 0, &usageError{fmt.Sprintf("bench: %s %.20q is not a share", flag, s), "such as 2.5%"}
	}
	return v, nil
}

// parseCPUs reads 0,2-3.
func parseCPUs(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if a < 0 || b < a || b >= 1024 {
			return nil, fmt.Errorf("no such processors: %s", part)
		}
		for n := a; n <= b; n++ {
			cpus = append(cpus, n)
		}
	}
	return cpus, nil
}

// runBench carries out jobs and reports them. Its error is an exitCode, or what
// went wrong inside.
func (c *cli) runBench(cmd *cobra.Command, f *benchFlags, jobs ...benchJob) (err error) {
	if err := errors.Join(f.parse(), heeded(cmd, jobs)); err != nil {
		return err
	}
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	lab, remove, err := c.newLab(f)
	if err != nil {
		return err
	}
	defer func() {
		if e := errors.Join(lab.Close(), remove()); e != nil {
			err = &problem{e, ""}
		}
	}()
	if len(f.clientCPUs) > 0 {
		if err := bench.PinSelf(f.clientCPUs); err != nil {
			return &problem{err, ""}
		}
	}
	r := &bench.Results{Schema: bench.Schema, Env: c.benchEnvironment(cmd)}
	baseline, err := c.readBaseline(f, r.Env)
	if err != nil {
		return err
	}
	began := time.Now()
	runErr := c.runJobs(ctx, f, lab, r, jobs)
	r.Env.Seconds = time.Since(began).Seconds()
	if runErr != nil && len(r.Tests) == 0 {
		return &problem{runErr, ""}
	}
	bench.AddTax(r.Tests)
	for _, q := range f.requirements {
		checks, err := q.Apply(r.Tests)
		if err != nil {
			return &usageError{err.Error(), ""}
		}
		r.Require = append(r.Require, checks...)
	}
	compared, regression, err := compareBaseline(f, baseline, r)
	if err != nil {
		return &problem{err, ""}
	}
	code := bench.ExitCode(r, regression)
	if runErr != nil {
		r.Notes = append(r.Notes, "broken off: "+runErr.Error())
		code = bench.ExitInternal
	}
	bench.Conclude(r, code)
	if compared != "" {
		// Above the table, as all that is no result of its own.
		fmt.Fprintf(c.stderr, "%s\n", strings.TrimSuffix(compared, "\n"))
	}
	if err := errors.Join(c.printBench(r, f), writeBench(r, f)); err != nil {
		return &problem{err, ""}
	}
	if runErr != nil {
		return &problem{runErr, ""}
	}
	return exitCode(code)
}

// untilStopped is a context that ends with SIGINT or SIGTERM.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// quickRuns is how often --quick runs each row: the founding measurements did so.
const quickRuns = 3

// runJobs fills r. What was measured before an error stays in it.
func (c *cli) runJobs(ctx context.Context, f *benchFlags, lab *bench.Lab, r *bench.Results, jobs []benchJob) error {
	runs := f.runs
	if f.quick {
		runs = min(runs, quickRuns)
	}
	opt := bench.Options{Runs: runs, MaxRuns: f.maxRuns, Extra: f.extra, CI: f.parsedCI, Others: lab.PIDs, Progress: c.benchProgress(f)}
	var err error
	if opt.Sampler, err = bench.NewSampler(); err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	e := &benchEnv{flags: f, lab: lab, options: opt}
	if e.limits, err = bench.MeasureLimits(ctx, lab, allLimits(f, jobs)); err != nil {
		return err
	}
	r.Limits = e.limits
	runner := bench.NewRunner(opt)
	began := time.Now()
	for i, j := range jobs {
		if len(jobs) > 1 {
			opt.Progress.Say("%d/%d %s, after %v", i+1, len(jobs), j.name, time.Since(began).Round(time.Second))
		}
		if j.measure != nil {
			tests, err := j.measure(ctx, e)
			r.Tests = append(r.Tests, tests...)
			if err != nil {
				return fmt.Errorf("%s: %w", j.name, err)
			}
			continue
		}
		scenarios, err := j.build(ctx, e)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		for _, s := range scenarios {
			t, err := runner.Measure(ctx, s)
			if len(t.Runs) > 0 {
				r.Tests = append(r.Tests, t)
			}
			if err != nil {
				return err
			}
			if ctx.Err() != nil { // a row that had no end of its own
				r.Notes = append(r.Notes, "interrupted: what would have followed is missing")
				return nil
			}
		}
	}
	return nil
}

// allLimits is what any of the jobs wants to know of the machine.
func allLimits(f *benchFlags, jobs []benchJob) bench.LimitSet {
	set := bench.LimitSet{SyncDir: f.dir}
	if f.quick {
		set.Budget = 200 * time.Millisecond
	}
	for _, j := range jobs {
		set.Floor = set.Floor || j.limits.Floor
		set.Stream = set.Stream || j.limits.Stream
		set.Memory = set.Memory || j.limits.Memory
		set.Clock = set.Clock || j.limits.Clock
		set.Sync = set.Sync || j.limits.Sync
	}
	return set
}

// newLab makes a lab in a new folder, which remove removes.
func (c *cli) newLab(f *benchFlags) (lab *bench.Lab, remove func() error, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, &problem{fmt.Errorf("bench: %w", err), ""}
	}
	dir, err := os.MkdirTemp(f.dir, "gateway-bench-")
	if err != nil {
		return nil, nil, &problem{fmt.Errorf("bench: %w", err), "name a folder that you may write to with --dir"}
	}
	if dir, err = filepath.Abs(dir); err != nil { // processes of the lab work elsewhere
		return nil, nil, &problem{fmt.Errorf("bench: %w", err), ""}
	}
	lab = bench.NewLab(bench.LabOptions{Command: []string{exe}, Env: benchChildEnv(c.env), Dir: dir, ServerCPUs: f.serverCPUs})
	return lab, func() error { return os.RemoveAll(dir) }, nil
}

// benchChildEnv leaves out what would configure the gateways of the lab.
func benchChildEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "GATEWAY_") })
}

// benchProgress shows what goes on, on stderr, unless that is not wanted.
func (c *cli) benchProgress(f *benchFlags) *bench.Progress {
	if f.noProgress {
		return nil
	}
	columns := 0
	if file, ok := c.stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		columns = 80
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
			columns = w
		}
	}
	return bench.NewProgress(c.stderr, columns)
}

// benchEnvironment says where the results are measured.
func (c *cli) benchEnvironment(cmd *cobra.Command) bench.Env {
	b := buildInfo()
	e := bench.Env{
		Version: b.Version, Commit: b.Commit, Go: b.Go, OS: b.OS, Arch: b.Arch,
		CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		Started: time.Now().UTC().Truncate(time.Second),
		Command: strings.Fields(cmd.CommandPath())[1:],
	}
	bench.DescribeMachine(&e)
	return e
}

// printBench writes the results to stdout.
func (c *cli) printBench(r *bench.Results, f *benchFlags) error {
	switch {
	case c.json:
		return c.printJSON(r)
	case f.csv:
		return bench.WriteCSV(c.stdout, r)
	}
	if err := bench.WriteTable(c.stdout, r, c.paint()); err != nil {
		return err
	}
	var after strings.Builder
	if f.out != "" {
		fmt.Fprintf(&after, "results: %s\n", f.out)
	}
	if f.founding {
		after.WriteString("\n" + bench.FoundingTable(r))
	}
	_, err := io.WriteString(c.stdout, after.String())
	return err
}

// writeBench writes the files that were asked for.
func writeBench(r *bench.Results, f *benchFlags) error {
	var errs []error
	if f.out != "" {
		errs = append(errs, bench.WriteFolder(f.out, r, f.histograms))
	}
	if f.prom != "" {
		errs = append(errs, bench.WriteFile(f.prom, r, bench.WriteProm, false))
	}
	if f.html != "" {
		errs = append(errs, bench.WriteFile(f.html, r, bench.WriteHTML, false))
	}
	if f.goBench != "" {
		errs = append(errs, bench.WriteFile(f.goBench, r, bench.WriteGoBench, false))
	}
	return errors.Join(errs...)
}

// paint greys what cannot be believed and reddens what is wrong, on a terminal
// whose user has not set NO_COLOR.
func (c *cli) paint() func(bench.Verdict, string) string {
	file, ok := c.stdout.(*os.File)
	noColor := slices.ContainsFunc(c.env, func(kv string) bool {
		return strings.HasPrefix(kv, "NO_COLOR=") && kv != "NO_COLOR="
	})
	if !ok || noColor || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(v bench.Verdict, s string) string {
		switch v {
		case bench.Wrong:
			return "\x1b[31m" + s + "\x1b[0m"
		case bench.Invalid, bench.Generator:
			return "\x1b[90m" + s + "\x1b[0m"
		case bench.Disturbed:
			return "\x1b[33m" + s + "\x1b[0m"
		}
		return s
	}
}

// An exitCode is an error of a command that has told everything already and
// ends with this code.
type exitCode int

func (e exitCode) Error() string { return "exit code " + strconv.Itoa(int(e)) }
