package casetest

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// build compiles the binary once per test run.
var build = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(scratch, "gateway")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/gateway")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/gateway: %w\n%s", err, out)
	}
	return bin, nil
})

// scratch is removed by TestMain; cleanups run before that.
var (
	scratch  string
	cleanups []func() error
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "casetest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for i := len(cleanups) - 1; i >= 0; i-- {
		if err := cleanups[i](); err != nil {
			fmt.Fprintln(os.Stderr, "casetest: at the end of the run:", err)
			code = max(code, 1)
		}
	}
	os.RemoveAll(scratch)
	os.Exit(code)
}

// A gateway is one running process.
type gateway struct {
	cmd   *exec.Cmd
	dir   string
	file  string            // its configuration
	addr  map[string]string // listener name → bound address
	admin string
	ready ready
	base  float64 // goroutines when idle, before the first exchange
	log   *syncBuffer
	done  chan struct{}
	ended bool  // the test has stopped it and looked at its exit itself
	err   error // of Wait, valid once done is closed
}

// A syncBuffer collects what a process prints.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// ready is the one line that serve prints on stdout (SPEC.md §1).
type ready struct {
	Ready     bool
	Listeners []struct{ Name, Protocol, Address string }
	Admin     string
	Store     string
	StoreID   string `json:"store_id"`
	Waiting   *int
}

// preamble binds every listener of a test to a port of the kernel's choice.
const preamble = `
admin: {address: "127.0.0.1:0"}
log: {level: info, format: json}
`

// httpOnly is preamble with one HTTP listener.
const httpOnly = preamble + `
listeners: [{name: http, address: "127.0.0.1:0"}]
`

// start runs a gateway for one test and stops it with every check at its end.
// The backends are closed before, so that no pooled connection to them counts
// as a leak.
func start(t testing.TB, config string, backends ...*backend) *gateway {
	t.Helper()
	g, err := startGateway(t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, b := range backends {
			b.close()
		}
		if err := g.stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func startGateway(dir, config string) (*gateway, error) {
	bin, err := build()
	if err != nil {
		return nil, err
	}
	g := &gateway{dir: dir, file: filepath.Join(dir, "gateway.yaml"), addr: map[string]string{}, log: &syncBuffer{}, done: make(chan struct{})}
	if err := os.WriteFile(g.file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	g.cmd = exec.Command(bin, "serve", "--json", "-c", g.file)
	g.cmd.Stderr = g.log
	stdout, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		r := bufio.NewReader(stdout)
		l, err := r.ReadString('\n')
		if err == nil {
			lines <- l
		}
		_, _ = io.Copy(g.log, r)
	}()
	select {
	case l, ok := <-lines:
		var r ready
		if !ok || json.Unmarshal([]byte(l), &r) != nil || !r.Ready {
			g.kill()
			return nil, fmt.Errorf("serve printed no ready line but %q; stderr:\n%s", l, g.log)
		}
		for _, x := range r.Listeners {
			g.addr[x.Name] = x.Address
		}
		g.admin, g.ready = r.Admin, r
	case <-time.After(patience):
		g.kill()
		return nil, fmt.Errorf("serve printed no ready line within %s; stderr:\n%s", patience, g.log)
	}
	go func() {
		for range lines { // the pipe must be empty before Wait
		}
		g.err = g.cmd.Wait()
		close(g.done)
	}()
	if g.base, err = g.settled(); err != nil {
		g.kill()
	}
	return g, err
}

// settled is the number of goroutines once it stands still.
func (g *gateway) settled() (n float64, err error) {
	last, same := 0.0, 0
	eventually(patience, func() bool {
		if n, err = g.metric("go_goroutines"); n == last {
			same++
		} else {
			last, same = n, 0
		}
		return err != nil || same == 3
	})
	return n, err
}

func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	if g.err == nil {
		_ = g.cmd.Wait()
	}
}

// crash ends the process by kill -9 and waits until it is gone.
func (g *gateway) crash(t testing.TB) {
	t.Helper()
	g.ended = true
	if err := g.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-g.done
}

func (g *gateway) signal(s os.Signal) error { return g.cmd.Process.Signal(s) }

// stackTrace matches what a Go program prints when it dies or dumps.
var stackTrace = regexp.MustCompile(`(?m)panic:|fatal error:|^goroutine \d+ \[|runtime error|DATA RACE|\.go:\d+ \+0x`)

// secrets that tests send; none may reach a log or an answer.
var secrets = []string{"ZG9jazpkb2Nr", "dock4</", "hunter2", "s3cr3t-body"}

// stop ends the process by SIGTERM and checks everything that must hold at the
// end of every run.
func (g *gateway) stop() error {
	if g.ended {
		return g.logProblems()
	}
	select {
	case <-g.done:
		return fmt.Errorf("the gateway died on its own: %v\n%s", g.err, tail(g.log.String()))
	default:
	}
	errs := []error{g.leaks(), g.signal(syscall.SIGTERM)}
	select {
	case <-g.done:
		if g.err != nil {
			errs = append(errs, fmt.Errorf("exit after SIGTERM: %w\n%s", g.err, tail(g.log.String())))
		}
	case <-time.After(patience + 15*time.Second):
		_ = g.signal(syscall.SIGQUIT) // the dump says who hangs
		<-g.done
		errs = append(errs, fmt.Errorf("still running long after SIGTERM\n%s", tail(g.log.String())))
	}
	return errors.Join(append(errs, g.logProblems())...)
}

func (g *gateway) logProblems() error {
	log := g.log.String()
	if loc := stackTrace.FindStringIndex(log); loc != nil {
		return fmt.Errorf("stack trace in the log:\n%s", tail(log[max(0, loc[0]-200):min(len(log), loc[0]+3000)]))
	}
	for _, s := range secrets {
		if strings.Contains(log, s) {
			return fmt.Errorf("the log holds the secret %q", s)
		}
	}
	return nil
}

func tail(s string) string { return s[max(0, len(s)-6000):] }

// leaks compares the goroutines of the idle process with those before the
// first exchange. Pooled idle connections live 4s (CONFIG.md idle_timeout).
func (g *gateway) leaks() error {
	var n float64
	var err error
	if eventually(10*time.Second, func() bool {
		n, err = g.metric("go_goroutines")
		return err != nil || n <= g.base+3
	}) {
		return err
	}
	dump, _ := g.get("/debug/pprof/goroutine?debug=1")
	return fmt.Errorf("%v goroutines when idle, %v at the start: a leak\n%s", n, g.base, dump[:min(len(dump), 6000)])
}

// get fetches a path of the admin listener.
func (g *gateway) get(path string) (string, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	c := http.Client{Transport: tr, Timeout: patience}
	res, err := c.Get("http://" + g.admin + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, res.Status, b)
	}
	return string(b), err
}

// metric reads one sample; with labels written as in the exposition. A metric
// that has no sample yet is 0.
func (g *gateway) metric(series string) (float64, error) {
	text, err := g.get("/metrics")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(l), series+" "); ok {
			return strconv.ParseFloat(strings.Fields(v)[0], 64)
		}
	}
	return 0, nil
}

// metricSum adds up every sample of a metric whose labels contain all parts.
func (g *gateway) metricSum(t testing.TB, name string, labels ...string) (sum float64) {
	t.Helper()
	return sumOf(t, g.metrics(t), name, labels...)
}

func (g *gateway) metrics(t testing.TB) string {
	t.Helper()
	text, err := g.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sumOf is metricSum in one reading of all metrics.
func sumOf(t testing.TB, text, name string, labels ...string) (sum float64) {
	t.Helper()
next:
	for l := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(l), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, want := range labels {
			if !strings.Contains(rest, want) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metric line %q: %v", l, err)
		}
		sum += v
	}
	return sum
}

// memory reads a line of /proc/PID/status in bytes: VmRSS, VmHWM.
func (g *gateway) memory(t testing.TB, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Skipf("memory is read from /proc: %v", err)
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == name+":" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	t.Fatalf("no %s in /proc status", name)
	return 0
}

// raced tells whether the binary under test was built with the race detector,
// as GOFLAGS=-race does, which multiplies its memory.
var raced = sync.OnceValue(func() bool {
	bin, err := build()
	if err != nil {
		return false
	}
	info, err := buildinfo.ReadFile(bin)
	return err == nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

// growth runs f and returns by how much the peak resident set rose over the
// resident set before it. Writing 5 to clear_refs resets the peak.
func (g *gateway) growth(t testing.TB, f func()) int64 {
	t.Helper()
	if raced() {
		f()
		return 0
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", g.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Skipf("the peak of memory cannot be reset: %v", err)
	}
	before := g.memory(t, "VmRSS")
	f()
	return g.memory(t, "VmHWM") - before
}
