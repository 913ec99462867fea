package selftest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configures a [Runner].
type Options struct {
	// Command starts this program; `bench` and what follows it is appended. Without
	// it no self-test can be started.
	Command []string

	// Env is the environment of this process; a self-test gets a few variables of it.
	Env []string

	// Dir has the reports. It is made when it is first needed. Required.
	Dir string

	// Room says why the disk has too little room. Default: it has enough.
	Room func() error

	// Over is told of each self-test that is over. Default: nobody is.
	Over func(Report)

	// Keep is how many reports are kept. Default 10.
	Keep int

	// Patience is how long a self-test may take to stop when it is asked to.
	// Default 30s: it has processes of its own to stop.
	Patience time.Duration

	// Log receives starts and ends. Default: discard.
	Log *slog.Logger
}

// withDefaults returns o with zero fields filled in.
func (o Options) withDefaults() Options {
	if o.Room == nil {
		o.Room = func() error { return nil }
	}
	if o.Over == nil {
		o.Over = func(Report) {}
	}
	if o.Keep == 0 {
		o.Keep = 10
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Runner starts self-tests, one at a time.
type Runner struct {
	opt Options

	mu      sync.Mutex
	owned   bool           // Run is there to wait
	running *running       // guarded by mu; nil: none
	work    sync.WaitGroup // the goroutine of running
}

// running is a self-test that is under way.
type running struct {
	id      string
	test    *Test
	began   time.Time
	said    progress
	ctx     context.Context // done when it is to end, for a cause
	cancel  context.CancelCauseFunc
	now     context.Context // done when nothing is asked any more
	cut     context.CancelFunc
	stopped bool // it was asked to stop; guarded by Runner.mu
}

// Running is a self-test that is under way, as it is shown.
type Running struct {
	ID       string    `json:"id"`
	Test     string    `json:"test"` // name of a [Test]
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"` // since then
	Stopping bool      `json:"stopping,omitempty"`
	Lines    []string  `json:"lines"` // the last that it has said
}

// State is what can be started, what is under way and what is over.
type State struct {
	Tests   []Test   `json:"tests"`
	Running *Running `json:"running,omitempty"`
	Reports []Report `json:"reports"` // the latest first
}

// New returns a Runner. It touches nothing.
func New(opt Options) *Runner { return &Runner{opt: opt.withDefaults()} }

// Run waits until stop is done, then ends the self-test that is under way, at once
// when cut is done, and returns when it is gone. Its shape is that of a part in package
// lifecycle.
func (r *Runner) Run(stop, cut context.Context) error {
	r.mu.Lock()
	r.owned = true
	r.mu.Unlock()
	<-stop.Done()
	r.mu.Lock()
	r.owned = false
	if r.running != nil {
		r.running.cancel(ErrStopping)
	}
	r.mu.Unlock()
	end := context.AfterFunc(cut, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.running != nil {
			r.running.cut()
		}
	})
	defer end()
	r.work.Wait()
	return nil
}

// State tells of all self-tests.
func (r *Runner) State() State {
	s := State{Tests: Tests, Reports: append([]Report{}, reports(r.opt.Dir)...)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running != nil {
		s.Running = r.running.shown()
	}
	return s
}

// shown is how it is shown. Runner.mu is held.
func (n *running) shown() *Running {
	return &Running{
		ID: n.id, Test: n.test.Name, Started: n.began, Seconds: time.Since(n.began).Seconds(), Stopping: n.stopped, Lines: n.said.last(),
	}
}

// Start starts a self-test by the name of a [Test]. ErrTest, ErrRunning, ErrRoom,
// ErrStopping.
func (r *Runner) Start(name string) (*Running, error) {
	t := find(name)
	if t == nil {
		return nil, ErrTest
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.opt.Command) == 0 || !r.owned:
		return nil, ErrStopping
	case r.running != nil:
		return nil, ErrRunning
	}
	if err := r.opt.Room(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRoom, err)
	}
	r.sweep()
	n := &running{id: newID(), test: t, began: time.Now()}
	if err := os.MkdirAll(filepath.Join(r.opt.Dir, n.id, workName), 0o700); err != nil {
		return nil, fmt.Errorf("selftest: %w", err)
	}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	n.now, n.cut = context.WithCancel(context.Background())
	cmd, results, err := r.launch(n)
	if err != nil {
		n.cancel(nil)
		n.cut()
		_ = os.RemoveAll(filepath.Join(r.opt.Dir, n.id))
		return nil, fmt.Errorf("selftest: %w", err)
	}
	r.running = n
	r.opt.Log.Info("a self-test has started: it loads this machine", "test", t.Name, "id", n.id, "pid", cmd.Process.Pid)
	r.work.Go(func() { r.finish(n, cmd, results) })
	return n.shown(), nil
}

// newID is a name that sorts by time and that nobody else has.
func newID() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // it never fails
	return strings.ReplaceAll(time.Now().UTC().Format("20060102-150405.000"), ".", "-") + "-" + hex.EncodeToString(b[:])
}

// launch starts the process of a self-test, whose results go to a file.
func (r *Runner) launch(n *running) (*exec.Cmd, *os.File, error) {
	dir, err := filepath.Abs(filepath.Join(r.opt.Dir, n.id))
	if err != nil {
		return nil, nil, err
	}
	results, err := os.OpenFile(filepath.Join(dir, resultsName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, err
	}
	args := slices.Concat(r.opt.Command[1:], []string{"bench"}, n.test.args, []string{
		"--quick", "--max-runs", maxRuns, "--json", "--html", filepath.Join(dir, pageName), "--dir", filepath.Join(dir, workName),
	})
	cmd := exec.Command(r.opt.Command[0], args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(r.opt.Env), results, &n.said
	apart(cmd)
	// What a child of its own holds open must not hold up the end.
	cmd.WaitDelay = r.opt.Patience
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, results.Close())
	}
	return cmd, results, nil
}

// maxRuns bounds how often a row is measured whose runs disagree: beside a gateway at
// work they may never agree.
const maxRuns = "5"

// environment is what a self-test gets of an environment: nothing that configures a
// gateway, and no secrets.
func environment(env []string) []string {
	fine := []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG"}
	out := []string{} // nil would be all of it
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(fine, strings.ToUpper(name)) {
			out = append(out, kv)
		}
	}
	return out
}

var errLate = errors.New("it was not done in time")

// finish waits for the end of a self-test, sees to it that there is one, and makes its
// report.
func (r *Runner) finish(n *running, cmd *exec.Cmd, results *os.File) {
	limit := time.AfterFunc(time.Duration(n.test.Limit)*time.Second, func() { n.cancel(errLate) })
	err := r.await(n, cmd)
	limit.Stop()
	err = errors.Join(err, results.Close())
	dir := filepath.Join(r.opt.Dir, n.id)
	rep := Report{ID: n.id, Test: n.test.Name, Started: n.began.UTC(), Seconds: time.Since(n.began).Seconds(), Result: Done}
	switch cause := context.Cause(n.ctx); {
	case errors.Is(cause, errLate):
		rep.Result, rep.Error = Late, fmt.Sprintf("it was not done within %d s, and was ended", n.test.Limit)
	case cause != nil:
		rep.Result, rep.Error = Cancelled, cause.Error()
	default:
		if e := rep.conclude(dir); e != nil {
			rep.Result, rep.Error = Failed, e.Error()
			if lines := n.said.last(); len(lines) > 0 {
				rep.Error += ": " + lines[len(lines)-1]
			}
		}
		rep.Good = err == nil && rep.Result == Done
	}
	n.cancel(nil)
	n.cut()
	if e := errors.Join(os.RemoveAll(filepath.Join(dir, workName)), rep.write(dir)); e != nil {
		r.opt.Log.Error("the report of a self-test cannot be kept", "id", n.id, "err", e)
	}
	r.mu.Lock()
	r.running = nil
	r.prune()
	r.mu.Unlock()
	r.opt.Log.Info("a self-test is over", "test", rep.Test, "id", rep.ID, "result", rep.Result, "verdict", rep.Verdict, "err", rep.Error)
	r.opt.Over(rep)
}

// await returns when the process is gone. When the self-test is to end it asks the
// process, and kills it when that takes too long.
func (r *Runner) await(n *running, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-n.ctx.Done():
	}
	r.mu.Lock()
	n.stopped = true
	r.mu.Unlock()
	terminate(cmd)
	select {
	case err := <-ended:
		return err
	case <-n.now.Done():
	case <-time.After(r.opt.Patience):
		r.opt.Log.Warn("a self-test does not stop and is killed", "id", n.id)
	}
	kill(cmd)
	return <-ended
}

// Cancel ends the self-test that is under way and does not wait until it is gone.
// ErrNotRunning.
func (r *Runner) Cancel() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		return ErrNotRunning
	}
	r.running.cancel(errAsked)
	return nil
}

var errAsked = errors.New("somebody has cancelled it")

// Results are those of a report, as JSON. ErrReport.
func (r *Runner) Results(id string) ([]byte, error) { return r.file(id, resultsName) }

// Page is a report as one HTML page that needs nothing else. ErrReport.
func (r *Runner) Page(id string) ([]byte, error) { return r.file(id, pageName) }

func (r *Runner) file(id, name string) ([]byte, error) {
	if !isID(id) {
		return nil, ErrReport
	}
	dir := filepath.Join(r.opt.Dir, id)
	if rep, err := readReport(dir); err != nil || rep.ID != id || rep.Result != Done {
		return nil, ErrReport
	}
	b, err := readBounded(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrReport
	}
	return b, err
}

// sweep removes what self-tests have left whose gateway was killed. mu is held, and
// none is running.
func (r *Runner) sweep() {
	entries, err := os.ReadDir(r.opt.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(r.opt.Dir, e.Name())
		if !e.IsDir() || !isID(e.Name()) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, reportName)); errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(dir)
		}
	}
}

// prune removes the oldest reports. mu is held.
func (r *Runner) prune() {
	list := reports(r.opt.Dir)
	for _, rep := range list[min(len(list), r.opt.Keep):] {
		if err := os.RemoveAll(filepath.Join(r.opt.Dir, rep.ID)); err != nil {
			r.opt.Log.Warn("an old report of a self-test cannot be removed", "id", rep.ID, "err", err)
		}
	}
}
