package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the program that the tests start in place of the gateway.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[2] == "bench" {
		os.Exit(pretend(os.Args[1], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// pretend does what gateway bench may do.
func pretend(how string, args []string) int {
	value := func(flag string) string { return args[slices.Index(args, flag)+1] }
	work := value("--dir")
	if err := os.WriteFile(filepath.Join(work, "store"), []byte("x"), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch how {
	case "fails":
		fmt.Fprintln(os.Stderr, "gateway: error: \x1b[31mno disk")
		return 1
	case "says nothing":
		return 0
	case "says nonsense":
		_, _ = os.Stdout.WriteString("{")
		return 0
	case "hangs", "is deaf":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "at work")
		if how == "is deaf" {
			select {}
		}
		<-signals
		return 1
	case "floods":
		for i := range 100_000 {
			fmt.Fprintf(os.Stderr, "line %d %s\n", i, strings.Repeat("x", 100))
		}
		fmt.Fprint(os.Stderr, strings.Repeat("y", 1<<20))
	}
	fmt.Fprintln(os.Stderr, "ping.hh run 1/3")
	page := strings.Join(args, " ") + "\n" + strings.Join(os.Environ(), "\n")
	if err := os.WriteFile(value("--html"), []byte(page), 0o600); err != nil {
		return 1
	}
	_, _ = os.Stdout.WriteString(`{"schema":1,"tests":[{"name":"ping"}],"verdict":"ok: 1 valid"}` + "\n")
	if how == "doubts" {
		return 3
	}
	return 0
}

const patience = 30 * time.Second

// owned is a Runner whose Run is at work. over has each report.
type owned struct {
	*Runner
	over      chan Report
	stop, cut context.CancelFunc
	done      chan error
}

func own(t *testing.T, how string, opt Options) *owned {
	t.Helper()
	o := &owned{over: make(chan Report, 10), done: make(chan error, 1)}
	if opt.Dir == "" {
		opt.Dir = filepath.Join(t.TempDir(), "store", "selftest")
	}
	opt.Command = []string{os.Args[0], how}
	opt.Over = func(r Report) { o.over <- r }
	opt.Env = append(os.Environ(), "GATEWAY_ADMIN_TOKEN=s3cret", "DB_PASSWORD=s3cret")
	o.Runner = New(opt)
	var stop, cut context.Context
	stop, o.stop = context.WithCancel(t.Context())
	cut, o.cut = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { o.done <- o.Run(stop, cut) }()
	o.until(t, "Run is at work", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.owned })
	t.Cleanup(func() { o.cut(); o.stop() })
	return o
}

func (o *owned) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("in %v not: %s", patience, what)
		}
	}
}

// report waits for the end of a self-test.
func (o *owned) report(t *testing.T) Report {
	t.Helper()
	select {
	case r := <-o.over:
		return r
	case <-time.After(patience):
		t.Fatal("a self-test has no end")
	}
	return Report{}
}

func (o *owned) start(t *testing.T) *Running {
	t.Helper()
	n, err := o.Start("ping")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRun: a self-test runs apart, is shown while it does and when it is over, and
// leaves its report and nothing else.
func TestRun(t *testing.T) {
	o := own(t, "works", Options{})
	if s := o.State(); len(s.Tests) != len(Tests) || s.Running != nil || s.Reports == nil || len(s.Reports) != 0 {
		t.Errorf("before: %+v", s)
	}
	if _, err := o.Start("rm"); !errors.Is(err, ErrTest) {
		t.Errorf("a test that is none: %v", err)
	}
	if err := o.Cancel(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("cancel of nothing: %v", err)
	}
	n := o.start(t)
	r := o.report(t)
	if r.ID != n.ID || r.Test != "ping" || r.Result != Done || !r.Good || r.Verdict != "ok: 1 valid" || r.Error != "" {
		t.Errorf("report: %+v", r)
	}
	if s := o.State(); s.Running != nil || len(s.Reports) != 1 || s.Reports[0].ID != r.ID {
		t.Errorf("after: %+v", s)
	}
	if b, err := o.Results(r.ID); err != nil || !strings.Contains(string(b), `"schema":1`) {
		t.Errorf("results: %s, %v", b, err)
	}
	page, err := o.Page(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"GATEWAY_", "s3cret"} {
		if strings.Contains(string(page), bad) {
			t.Errorf("the process has got %s:\n%s", bad, page)
		}
	}
	if args, _, _ := strings.Cut(string(page), "\n"); !strings.HasPrefix(args, "ping --quick --max-runs 5 --json --html /") {
		t.Errorf("arguments: %s", args)
	}
	entries, _ := os.ReadDir(filepath.Join(o.opt.Dir, r.ID))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{pageName, reportName, resultsName}; !slices.Equal(names, want) {
		t.Errorf("the folder has %v, want %v", names, want)
	}
	for _, id := range []string{"", ".", "..", "../" + r.ID, r.ID + "/work", `..\` + r.ID, "nobody", strings.Repeat("a", 300)} {
		if _, err := o.Page(id); !errors.Is(err, ErrReport) {
			t.Errorf("Page(%.20q): %v, want ErrReport", id, err)
		}
	}
}

// TestResults: what a process leaves, and what is made of it.
func TestResults(t *testing.T) {
	for _, tt := range []struct{ how, result, err string }{
		{"doubts", Done, ""},
		{"fails", Failed, "it has written no results: gateway: error: [31mno disk"},
		{"says nothing", Failed, "it has written no results"},
		{"says nonsense", Failed, "its results cannot be read"},
		{"floods", Done, ""},
	} {
		t.Run(tt.how, func(t *testing.T) {
			o := own(t, tt.how, Options{})
			n := o.start(t)
			r := o.report(t)
			if r.Result != tt.result || !strings.HasPrefix(r.Error, tt.err) || (r.Error == "") != (tt.err == "") || r.Good != (tt.how == "floods") {
				t.Errorf("report: %+v, want %s with %q", r, tt.result, tt.err)
			}
			if _, err := o.Results(n.ID); (err == nil) != (tt.result == Done) {
				t.Errorf("results: %v", err)
			}
		})
	}
}

// TestOneAtATime: a second one is refused while one runs, and what it says is shown.
func TestOneAtATime(t *testing.T) {
	o := own(t, "hangs", Options{})
	n := o.start(t)
	if _, err := o.Start("mem"); !errors.Is(err, ErrRunning) {
		t.Errorf("a second one: %v", err)
	}
	var started int
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			if _, err := o.Start("ping"); err == nil {
				mu.Lock()
				started++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if started > 0 {
		t.Errorf("%d more have started", started)
	}
	o.until(t, "what it says is shown", func() bool {
		s := o.State()
		return s.Running != nil && s.Running.ID == n.ID && slices.Equal(s.Running.Lines, []string{"at work"})
	})
	if err := o.Cancel(); err != nil {
		t.Fatal(err)
	}
	if r := o.report(t); r.Result != Cancelled || r.Error != "somebody has cancelled it" {
		t.Errorf("report: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(o.opt.Dir, n.ID, workName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}

// TestDeaf: a process that does not stop is killed.
func TestDeaf(t *testing.T) {
	o := own(t, "is deaf", Options{Patience: 50 * time.Millisecond})
	o.start(t)
	o.until(t, "it is at work", func() bool { return len(o.State().Running.Lines) > 0 })
	if err := o.Cancel(); err != nil {
		t.Fatal(err)
	}
	if r := o.report(t); r.Result != Cancelled {
		t.Errorf("report: %+v", r)
	}
}

// TestLate: a self-test that is not done in time is ended.
func TestLate(t *testing.T) {
	o := own(t, "hangs", Options{})
	o.start(t)
	o.until(t, "it is at work", func() bool { return len(o.State().Running.Lines) > 0 })
	o.mu.Lock()
	o.running.cancel(errLate) // as the timer does
	o.mu.Unlock()
	if r := o.report(t); r.Result != Late || !strings.Contains(r.Error, "not done within") {
		t.Errorf("report: %+v", r)
	}
}

// TestStop: with the gateway its self-test ends, at once when that is cut, and none is
// started any more.
func TestStop(t *testing.T) {
	for _, how := range []string{"hangs", "is deaf"} {
		o := own(t, how, Options{Patience: time.Hour})
		o.start(t)
		o.until(t, "it is at work", func() bool { return len(o.State().Running.Lines) > 0 })
		o.stop()
		o.until(t, "it is asked to stop", func() bool { s := o.State(); return s.Running == nil || s.Running.Stopping })
		if how == "is deaf" {
			o.cut()
		}
		select {
		case err := <-o.done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: Run does not return", how)
		}
		if r := o.report(t); r.Result != Cancelled || r.Error != ErrStopping.Error() {
			t.Errorf("%s: report: %+v", how, r)
		}
		if _, err := o.Start("ping"); !errors.Is(err, ErrStopping) {
			t.Errorf("%s: a start after the stop: %v", how, err)
		}
	}
}

// TestKeep: the last reports are kept; what a killed gateway has left goes with the
// next start, and what nobody understands stays.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "20260101-000000-000-aaaaaa", workName)
	odd := filepath.Join(dir, "20260101-000000-000-bbbbbb")
	for _, d := range []string{left, odd, filepath.Join(dir, "Not Ours")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(odd, reportName), []byte("from a later version"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := own(t, "works", Options{Dir: dir, Keep: 2})
	var ids []string
	for range 4 {
		ids = append(ids, o.start(t).ID)
		o.report(t)
	}
	s := o.State()
	if len(s.Reports) != 2 || s.Reports[0].ID != ids[3] || s.Reports[1].ID != ids[2] {
		t.Errorf("kept: %+v, want the last two of %v", s.Reports, ids)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 4 {
		t.Errorf("the folder has %v, want two reports, and what is not ours", entries)
	}
	if again := New(Options{Dir: dir}).State(); len(again.Reports) != 2 {
		t.Errorf("after a restart: %+v", again.Reports)
	}
}

// TestNoRoom: no self-test fills the disk of the store.
func TestNoRoom(t *testing.T) {
	o := own(t, "works", Options{Room: func() error { return errors.New("3 MiB are free") }})
	if _, err := o.Start("ping"); !errors.Is(err, ErrRoom) || !strings.Contains(err.Error(), "3 MiB") {
		t.Errorf("got %v, want ErrRoom", err)
	}
	if _, err := os.Stat(o.opt.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

// TestNobodyWaits: without an owner nothing is started.
func TestNobodyWaits(t *testing.T) {
	if _, err := New(Options{Dir: t.TempDir(), Command: []string{os.Args[0]}}).Start("ping"); !errors.Is(err, ErrStopping) {
		t.Errorf("got %v", err)
	}
	o := own(t, "works", Options{})
	o.opt.Command = nil
	if _, err := o.Start("ping"); !errors.Is(err, ErrStopping) {
		t.Errorf("without a program: got %v", err)
	}
	o.opt.Command = []string{filepath.Join(t.TempDir(), "missing")}
	if _, err := o.Start("ping"); err == nil || len(o.State().Reports) != 0 || o.State().Running != nil {
		t.Errorf("of a program that is gone: got %v and %+v", err, o.State())
	}
}

// TestTests: each can be chosen by its own name, and has an end.
func TestTests(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range Tests {
		if seen[test.Name] || test.Title == "" || test.About == "" || test.Seconds <= 0 || test.Limit <= test.Seconds || test.Limit > 600 || len(test.args) == 0 {
			t.Errorf("%+v", test)
		}
		seen[test.Name] = true
	}
}

func FuzzProgress(f *testing.F) {
	f.Add([]byte("a\nb\r\n\x1b[31m\n\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, parts progress
		_, _ = whole.Write(b)
		for rest, n := b, max(1, cut&15); len(rest) > 0; {
			k := min(n, len(rest))
			_, _ = parts.Write(rest[:k])
			rest = rest[k:]
		}
		if !slices.Equal(whole.last(), parts.last()) {
			t.Errorf("%q in parts: %q, want %q", b, parts.last(), whole.last())
		}
		for _, l := range whole.last() {
			if len(l) > 3*lineLength || strings.ContainsAny(l, "\n\r\x1b") || l == "" {
				t.Errorf("line %q", l)
			}
		}
		if len(whole.last()) > keptLines {
			t.Errorf("%d lines", len(whole.last()))
		}
	})
}
