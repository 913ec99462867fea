package casetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestReloadUnderLoad changes the configuration by SIGHUP while messages are
// under way: no connection is dropped, none fails, the new routes hold, and a
// bad file changes nothing (SPEC.md §1, CONFIG.md).
func TestReloadUnderLoad(t *testing.T) {
	one, two := listenHTTP(t), listenHTTP(t)
	config := func(to *backend, extra string) string {
		return httpOnly + fmt.Sprintf("routes:\n  - {name: r, match: {path: /r}, to: [\"http://%s/\"]}\n%s", to.addr, extra)
	}
	g := start(t, config(one, ""), one, two)
	var stop atomic.Bool
	var sent atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		c := dial(t, g.addr["http"]) // one connection for the whole test
		wg.Go(func() {
			for !stop.Load() {
				if err := c.send(request("/r", typed("1.1"), envelope("1.1", op))); err != nil {
					t.Errorf("the connection was dropped: %v", err)
					return
				}
				if a := c.answer(); a.Status != 200 || a.Err != nil {
					t.Errorf("during a reload: %s", a)
					return
				}
				sent.Add(1)
			}
		})
	}
	defer func() { stop.Store(true); wg.Wait() }()
	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	const reloads = 20
	for i := range reloads {
		to, from := two, one
		if i%2 == 1 {
			to, from = one, two
		}
		reload(config(to, fmt.Sprintf("  - {name: extra-%d, match: {path: /extra/%d}, to: [\"builtin:echo\"]}\n", i, i)))
		if !eventually(5*time.Second, func() bool {
			return post(t, g.addr["http"], fmt.Sprintf("/extra/%d", i), typed("1.1"), envelope("1.1", op)).Status == 200
		}) {
			t.Fatalf("reload %d did not come through", i)
		}
		from.reset()
		before := sent.Load()
		if !eventually(5*time.Second, func() bool { return sent.Load() > before+20 }) {
			t.Fatal("the load stands still")
		}
		if n := len(from.got()); n > 8 { // what was under way may still end there
			t.Errorf("reload %d: the old node still got %d messages", i, n)
		}
	}
	for _, bad := range []string{"routes: [", config(one, "  - {name: r, to: [\"builtin:echo\"]}\n"), config(one, "") + "nonsense: 1\n", ""} {
		reload(bad)
		if !eventually(5*time.Second, func() bool { v, err := g.metric("gateway_config_reload_ok"); return err == nil && v == 0 }) {
			t.Errorf("gateway_config_reload_ok does not tell that this was refused: %q", bad)
		}
		if a := post(t, g.addr["http"], fmt.Sprintf("/extra/%d", reloads-1), typed("1.1"), envelope("1.1", op)); a.Status != 200 {
			t.Errorf("after a refused reload the old configuration does not hold: %s", a)
		}
	}
	reload(config(one, ""))
	if !eventually(5*time.Second, func() bool { v, err := g.metric("gateway_config_reload_ok"); return err == nil && v == 1 }) {
		t.Error("a good file after bad ones was not taken")
	}
	if n := sent.Load(); n < 100 {
		t.Errorf("only %d messages were sent", n)
	}
}

// TestDrain: SIGTERM lets exchanges under way end, takes no new connection,
// and the process exits with 0 as soon as they are done.
func TestDrain(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf("routes: [{name: r, to: [\"http://%s/\"]}]\n", b.addr))
	release := make(chan struct{})
	b.do(func(p *peer, c *call) {
		<-release
		_, _ = p.Write(okReply(c))
	})
	under := dial(t, g.addr["http"])
	idle := dial(t, g.addr["http"])
	half := dial(t, g.addr["http"])
	octets := request("/x", typed("1.1"), envelope("1.1", op))
	_ = under.send(octets)
	_ = half.send(octets[:len(octets)-20])
	if !eventually(patience, func() bool { return len(b.got()) == 1 }) {
		t.Fatal("not forwarded")
	}
	if err := g.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !eventually(5*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", g.addr["http"], time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	}) {
		t.Error("new connections are still taken")
	}
	if !idle.closes(5 * time.Second) {
		t.Error("an idle connection stays open")
	}
	_ = half.send(octets[len(octets)-20:]) // it had begun before the signal
	if !eventually(5*time.Second, func() bool { return len(b.got()) == 2 }) {
		t.Error("a request that was half sent was not taken to its end")
	}
	close(release)
	for what, c := range map[string]*client{"under way": under, "half sent": half} {
		a := c.answer()
		if a.Status != 200 || a.Err != nil {
			t.Errorf("the exchange %s at SIGTERM: %s", what, a)
		}
	}
	select {
	case <-g.done:
		g.ended = true
		if g.err != nil {
			t.Errorf("exit: %v", g.err)
		}
	case <-time.After(10 * time.Second):
		t.Error("still running after everything was done")
	}
	if err := g.logProblems(); err != nil {
		t.Error(err)
	}
}

// TestDrainBudget: what does not end within drain is cut, and the exit is 0.
func TestDrainBudget(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf("drain: 500ms\nroutes: [{name: r, to: [\"http://%s/\"]}]\n", b.addr))
	b.do(func(p *peer, _ *call) { _, _ = p.r.r.ReadByte() })
	c := dial(t, g.addr["http"])
	_ = c.send(request("/x", typed("1.1"), envelope("1.1", op)))
	if !eventually(patience, func() bool { return len(b.got()) == 1 }) {
		t.Fatal("not forwarded")
	}
	begin := time.Now()
	_ = g.signal(syscall.SIGTERM)
	a := c.answer()
	if a.Status == 200 {
		t.Errorf("got %s", a)
	}
	select {
	case <-g.done:
		g.ended = true
		if d := time.Since(begin); d < 400*time.Millisecond || d > 5*time.Second || g.err != nil {
			t.Errorf("a budget of 500ms took %s, %v", d, g.err)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("still running long after the budget\n%s", g.log)
	}
}

// TestCheck is the command's exit codes and the form of its problems.
func TestCheck(t *testing.T) {
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) (code int, stdout, stderr string) {
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := write("good.yaml", httpOnly+"routes: [{name: e, to: [\"builtin:echo\"]}]\n")
	if code, out, errs := run("check", "-c", good); code != 0 || strings.Contains(out+errs, "error") {
		t.Errorf("check of a good file: exit %d, %s%s", code, out, errs)
	}
	bad := write("bad.yaml", "listeners:\n  - {address: \"127.0.0.1:0\", protcol: http}\nroutes:\n  - {name: A, to: [\"ftp://x\"]}\n")
	code, out, errs := run("check", "-c", bad)
	if code != 1 {
		t.Errorf("check of a bad file: exit %d", code)
	}
	for _, want := range []string{bad + ":2:", "protcol", "protocol", bad + ":4:", "ftp"} {
		if !strings.Contains(out+errs, want) {
			t.Errorf("check says nothing of %q:\n%s%s", want, out, errs)
		}
	}
	if code, _, errs := run("serve", "-c", bad); code != 1 || !strings.Contains(errs, bad+":2:") {
		t.Errorf("serve with a bad file: exit %d, %s", code, errs)
	}
	if code, _, errs := run("check", "-c", filepath.Join(dir, "none.yaml")); code != 1 || errs == "" {
		t.Errorf("check of no file: exit %d, %s", code, errs)
	}
	for _, usage := range [][]string{{"frobnicate"}, {"serve", "--no-such-flag"}, {"check", "a", "b"}} {
		if code, out, errs := run(usage...); code != 2 || errs == "" || out != "" {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", usage, code, out, errs)
		}
	}
	if code, out, _ := run("version"); code != 0 || !strings.Contains(out, "go1.") {
		t.Errorf("version: exit %d, %s", code, out)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := write("taken.yaml", strings.Replace(httpOnly, `http, address: "127.0.0.1:0"`, `http, address: "`+busy.Addr().String()+`"`, 1)+"routes: [{name: e, to: [\"builtin:echo\"]}]\n")
	if code, out, errs := run("serve", "-c", taken); code != 1 || out != "" || !strings.Contains(errs, taken+":5:") || stackTrace.MatchString(errs) {
		t.Errorf("serve on a port that is taken: exit %d, %q, %s", code, out, errs)
	}
}

// TestAdmin: the operator's listener answers, and says so while draining.
func TestAdmin(t *testing.T) {
	f := shared(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if body, err := f.g.get(path); err != nil {
			t.Errorf("%s: %v %s", path, err, body)
		}
	}
	post(t, f.g.addr["http"], "/echo", typed("1.1"), envelope("1.1", op))
	if !eventually(2*time.Second, func() bool {
		return f.g.metricSum(t, "gateway_requests_total", `route="echo"`) > 0 && f.g.metricSum(t, "gateway_request_duration_seconds_count", `route="echo"`) > 0
	}) {
		t.Error("no request was counted for the route echo")
	}
	if v := f.g.metricSum(t, "process_resident_memory_bytes"); v == 0 {
		t.Error("no process metrics")
	}
}
