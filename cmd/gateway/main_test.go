package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/*.txtar")

// patience bounds every wait for something that happens at once on an idle
// machine.
const patience = 20 * time.Second

// commandPatience bounds a command of a script that does something for a while: a
// self-test of some seconds takes minutes on a machine that is busy with all else.
const commandPatience = 4 * time.Minute

// binaryName is the command that testscript puts on the path: this test binary,
// which is main under that name.
const binaryName = "gateway"

func TestMain(m *testing.M) {
	// A program under the race detector else lives a second longer.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){"gateway": main})
}

// TestScripts runs testdata/*.txtar against this binary. Beside the commands of
// testscript a script has
//
//	exits CODE [ARG…]  gateway ARG…, which must end with that exit code, or one of CODE,CODE
//	start [ARG…]       gateway serve -c gateway.yaml ARG…; sets $ADMIN and, for
//	                   each listener, a variable of its name, and NAME_port
//	send-signal NAME   HUP, TERM or INT
//	wait-log PATTERN   waits for a line of the gateway's log
//	wait-file FILE RE  waits until the file has a match
//	wait-metric TEXT   waits for a line of its metrics
//	ends [CODE]        waits for its end and checks the exit code
//	fetch METHOD URL   prints status and body
//	wait-fetch URL RE  waits until the body fits
//	make-store DIR [unclean]
//	                   makes the store of a gateway that was stopped, or killed
//	hold-store DIR     keeps a store open in another process
//	cut-file FROM TO N TO is FROM without its last N octets
//	flip-file FILE     one bit in the middle of FILE is another
//	start-net [ARG…]   gateway bench net server -port 0 ARG…; sets $PORT
//	ends-net CODE      waits for its end and prints what it said
//	first-id NAME      sets a variable to the first id of the last command's JSON
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       scriptExits,
			"start":       scriptStart,
			"send-signal": scriptSignal,
			"wait-log":    scriptWaitLog,
			"wait-file":   scriptWaitFile,
			"wait-metric": scriptWaitMetric,
			"ends":        scriptEnds,
			"fetch":       scriptFetch,
			"wait-fetch":  scriptWaitFetch,
			"make-store":  scriptMakeStore,
			"flip-file":   scriptFlipFile,
			"hold-store":  scriptHoldStore,
			"first-id":    scriptFirstID,
			"cut-file":    scriptCutFile,
			"start-net":   scriptStartNet,
			"ends-net":    scriptEndsNet,
		},
	})
}

// A process is a gateway that a test has started.
type process struct {
	cmd    *osexec.Cmd
	stdout *buffer
	log    *buffer
	ready  ready
	done   chan struct{} // closed when it has ended
	err    error         // of Wait, valid once done is closed
}

// buffer collects what a process prints; changed tells that there is more.
type buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func newBuffer() *buffer { return &buffer{changed: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await returns once good holds for what was written, or fails after a while
// or when the process has ended.
func (b *buffer) await(p *process, good func(string) bool) error {
	late := time.After(patience)
	for {
		if good(b.String()) {
			return nil
		}
		select {
		case <-b.changed:
		case <-p.done:
			if good(b.String()) {
				return nil
			}
			return fmt.Errorf("the gateway has ended: %v\n%s", p.err, p.log)
		case <-late:
			return fmt.Errorf("nothing after %v; the log is\n%s", patience, p.log)
		}
	}
}

// launch starts bin serve -c gateway.yaml in dir and waits for the ready line.
func launch(bin, dir string, env []string, args ...string) (*process, error) {
	p := &process{stdout: newBuffer(), log: newBuffer(), done: make(chan struct{})}
	p.cmd = osexec.Command(bin, append([]string{"serve", "-c", "gateway.yaml"}, args...)...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, env, p.stdout, p.log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	err := p.stdout.await(p, func(s string) bool { return strings.Contains(s, "\n") })
	if line := p.stdout.String(); err == nil && strings.HasPrefix(line, "{") {
		err = json.Unmarshal([]byte(line), &p.ready)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// kill ends a process that a failed test has left over.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// wait returns the exit code.
func (p *process) wait() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, fmt.Errorf("still running after %v; the log is\n%s", patience, p.log)
	}
}

// processes are the gateways of scripts, by script.
var processes sync.Map // *testscript.TestScript -> *process

func running(ts *testscript.TestScript) *process {
	p, ok := processes.Load(ts)
	if !ok {
		ts.Fatalf("no gateway was started")
	}
	return p.(*process)
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exits CODE [ARG…]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandPatience)
	defer cancel()
	cmd := osexec.CommandContext(ctx, binaryName, args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), environment(ts), ts.Stdout(), ts.Stderr()
	if err := cmd.Run(); cmd.ProcessState == nil {
		ts.Fatalf("gateway did not start: %v", err)
	}
	if ctx.Err() != nil {
		ts.Fatalf("still running after %v", commandPatience)
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); !slices.Contains(strings.Split(args[0], ","), got) {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// environment is that of a script's own commands.
func environment(ts *testscript.TestScript) (env []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "GORACE", "TAKEN", "GATEWAY_DRAIN", "GATEWAY_STORE_DIR", "GATEWAY_BENCH_TOKEN"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("use exec for a gateway that does not start")
	}
	p, err := launch(binaryName, ts.MkAbs("."), environment(ts), append([]string{"--json"}, args...)...)
	ts.Check(err)
	processes.Store(ts, p)
	ts.Defer(func() { p.kill(); processes.CompareAndDelete(ts, p) })
	ts.Setenv("ADMIN", p.ready.Admin)
	for _, l := range p.ready.Listeners {
		ts.Setenv(l.Name, l.Address)
		_, port, err := net.SplitHostPort(l.Address)
		ts.Check(err)
		ts.Setenv(l.Name+"_port", port)
	}
	fmt.Fprint(ts.Stdout(), p.stdout)
}

func scriptWaitLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wait-log PATTERN")
	}
	p, re := running(ts), regexp.MustCompile(args[0])
	ts.Check(p.log.await(p, re.MatchString))
}

func scriptWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: wait-file FILE RE")
	}
	re := regexp.MustCompile(args[1])
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && re.Match(b) {
			return
		}
		select {
		case <-late:
			ts.Fatalf("%s has no match for %s after %v: %v\n%s", args[0], args[1], patience, err, b)
		case <-tick.C:
		}
	}
}

func scriptWaitMetric(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wait-metric LINE")
	}
	p := running(ts)
	late := time.After(patience)
	for {
		_, body, err := fetch("GET", "http://"+p.ready.Admin+"/metrics")
		ts.Check(err)
		if strings.Contains(body, "\n"+args[0]+"\n") {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			ts.Fatalf("no metric %s in\n%s", args[0], body)
		}
	}
}

func scriptWaitFetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: wait-fetch URL PATTERN")
	}
	re, late := regexp.MustCompile(args[1]), time.After(patience)
	for {
		_, body, err := fetch("GET", args[0])
		ts.Check(err)
		if re.MatchString(body) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			ts.Fatalf("%s does not fit\n%s", args[1], body)
		}
	}
}

func scriptEnds(ts *testscript.TestScript, neg bool, args []string) {
	want := "0"
	if len(args) == 1 {
		want = args[0]
	}
	p := running(ts)
	code, err := p.wait()
	ts.Check(err)
	if got := fmt.Sprint(code); got != want || neg {
		ts.Fatalf("exit code %s, want %s; the log is\n%s", got, want, p.log)
	}
	fmt.Fprint(ts.Stdout(), p.log)
}

func scriptFetch(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: fetch METHOD URL")
	}
	status, body, err := fetch(args[0], args[1])
	if neg {
		if err == nil {
			ts.Fatalf("fetch: got %s, want none", status)
		}
		return
	}
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n%s", status, body)
}

func fetch(method, url string) (status, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", "", err
	}
	// A connection of its own: what a test looks at is gone when it is done.
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.Status, string(b), err
}

// run calls exec as a process would be.
func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = exec(t.Context(), args, nil, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}
