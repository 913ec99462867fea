package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"soapway/bench"
)

// TestNetRows: the rows of the network test that bench all has, each with a server
// of its own that ends when it is asked to.
func TestNetRows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes of the lab end by signals")
	}
	lab := bench.NewLab(bench.LabOptions{Command: []string{binaryName}, Env: os.Environ(), Dir: t.TempDir()})
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, err := netJob(&benchFlags{quick: true}).build(t.Context(), &benchEnv{lab: lab})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range rows {
		row, err := bench.NewRunner(bench.Options{Runs: 1, MaxRuns: 1}).Measure(t.Context(), s)
		if err != nil || row.Summary.Mean <= 0 || row.Limiter == "" {
			t.Errorf("%s.%s: %v Mbit/s, limiter %q, %v", row.Name, row.Combo, row.Summary.Mean, row.Limiter, err)
		}
		if pids := lab.PIDs(); len(pids) > 0 {
			t.Errorf("%s.%s: %d processes are left", row.Name, row.Combo, len(pids))
		}
	}
}

// A netProcess is a bench net server that a script has started.
type netProcess struct {
	cmd  *osexec.Cmd
	said *buffer
	out  *buffer
	done chan struct{} // closed when it has ended
}

var netProcesses sync.Map // *testscript.TestScript -> *netProcess

// scriptStartNet starts gateway bench net server on a port of its own and sets
// $PORT.
func scriptStartNet(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: start-net [ARG…]")
	}
	p := &netProcess{said: newBuffer(), out: newBuffer(), done: make(chan struct{})}
	p.cmd = osexec.Command(binaryName, append([]string{"bench", "net", "server", "-port", "0", "-json"}, args...)...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = ts.MkAbs("."), environment(ts), p.said
	r, w := io.Pipe()
	p.cmd.Stdout = io.MultiWriter(p.out, w)
	ts.Check(p.cmd.Start())
	ts.Defer(func() { _ = p.cmd.Process.Kill(); _ = r.Close(); <-p.done })
	go func() { _ = p.cmd.Wait(); close(p.done); _ = w.Close() }()
	lines := bufio.NewReader(r)
	line, err := lines.ReadBytes('\n')
	ts.Check(err)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	var ready struct {
		Address string `json:"address"`
	}
	ts.Check(json.Unmarshal(line, &ready))
	_, port, err := net.SplitHostPort(ready.Address)
	ts.Check(err)
	ts.Setenv("PORT", port)
	netProcesses.Store(ts, p)
}

// scriptEndsNet waits until the server has ended with a code and prints what it
// said.
func scriptEndsNet(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := netProcesses.Load(ts)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: ends-net CODE, after start-net")
	}
	p := v.(*netProcess)
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("the server is still running; it said\n%s", p.said)
	}
	if got := fmt.Sprint(p.cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s; it said\n%s", got, args[0], p.said)
	}
	fmt.Fprint(ts.Stdout(), p.out)
	fmt.Fprint(ts.Stderr(), p.said)
}
