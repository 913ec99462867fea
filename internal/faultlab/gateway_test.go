package faultlab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// build compiles the binary once per test run, unless there is one to be judged.
var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("GATEWAY"); bin != "" {
		return filepath.Abs(bin)
	}
	bin := filepath.Join(scratch, "gateway")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/gateway")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/gateway: %w\n%s", err, out)
	}
	return bin, nil
})

// A gateway is one running process.
type gateway struct {
	cmd   *exec.Cmd
	log   *logTail
	ready chan struct{} // closed when the ready line was read
	addr  map[string]string
	admin string
	began time.Time
	took  time.Duration // from the start to the ready line
	gone  chan struct{}
	err   error // of Wait, valid once gone is closed
}

// logTail keeps the end of what a process prints, and hands all of it on.
type logTail struct {
	mu   sync.Mutex
	b    []byte
	also io.Writer // may be nil
	hope []hope
}

// hope is for a text that has not been printed yet.
type hope struct {
	text []byte
	came chan struct{}
}

// await returns a channel that is closed when the text is printed from now on.
func (l *logTail) await(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := hope{[]byte(text), make(chan struct{})}
	l.hope = append(l.hope, h)
	return h.came
}

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.also != nil {
		_, _ = l.also.Write(p)
	}
	l.b = append(l.b, p...)
	l.hope = slices.DeleteFunc(l.hope, func(h hope) bool {
		came := bytes.Contains(l.b[max(0, len(l.b)-len(p)-len(h.text)):], h.text) // it may come in parts
		if came {
			close(h.came)
		}
		return came
	})
	if len(l.b) > 1<<20 {
		l.b = append(l.b[:0], l.b[len(l.b)-1<<19:]...)
	}
	return len(p), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// launch starts a process and does not wait for it to be ready. What it prints
// goes to also, too, unless that is nil.
func launch(file string, also io.Writer) (*gateway, error) {
	bin, err := build()
	if err != nil {
		return nil, err
	}
	return launchBy(nil, bin, file, also)
}

// launchBy is launch of a binary by a program that becomes the gateway.
func launchBy(by []string, bin, file string, also io.Writer) (*gateway, error) {
	g := &gateway{log: &logTail{also: also}, ready: make(chan struct{}), gone: make(chan struct{}), addr: map[string]string{}, began: time.Now()}
	args := append(slices.Clone(by), bin, "serve", "--json", "-c", file)
	g.cmd = exec.Command(args[0], args[1:]...)
	g.cmd.Stderr = g.log
	stdout, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		r := bufio.NewReader(stdout)
		line, err := r.ReadBytes('\n')
		if err == nil && g.understand(line) {
			g.took = time.Since(g.began)
			close(g.ready)
		}
		_, _ = io.Copy(g.log, r)
		g.err = g.cmd.Wait()
		close(g.gone)
	}()
	return g, nil
}

// understand reads the ready line (SPEC.md §1).
func (g *gateway) understand(line []byte) bool {
	var r struct {
		Ready     bool
		Listeners []struct{ Name, Address string }
		Admin     string
	}
	if json.Unmarshal(line, &r) != nil || !r.Ready {
		return false
	}
	for _, l := range r.Listeners {
		g.addr[l.Name] = l.Address
	}
	g.admin = r.Admin
	return true
}

// patience is how long a gateway may take for anything on a busy machine.
const patience = 60 * time.Second

func (g *gateway) awaitReady() error {
	select {
	case <-g.ready:
		return nil
	case <-g.gone:
		return fmt.Errorf("the gateway ended before it was ready: %v\n%s", g.err, g.tail())
	case <-time.After(patience):
		g.kill()
		return fmt.Errorf("the gateway was not ready within %s\n%s", patience, g.tail())
	}
}

func (g *gateway) alive() bool {
	select {
	case <-g.gone:
		return false
	default:
		return true
	}
}

// kill is kill -9.
func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	<-g.gone
}

// stop asks for an orderly end, which must come and be without complaint.
func (g *gateway) stop() error {
	if !g.alive() {
		return fmt.Errorf("the gateway died on its own: %v\n%s", g.err, g.tail())
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-g.gone:
		if g.err != nil {
			return fmt.Errorf("exit after SIGTERM: %w\n%s", g.err, g.tail())
		}
		return nil
	case <-time.After(patience):
		_ = g.cmd.Process.Signal(syscall.SIGQUIT) // the dump says who hangs
		select {
		case <-g.gone:
		case <-time.After(5 * time.Second):
			g.kill()
		}
		return fmt.Errorf("still running %s after SIGTERM\n%s", patience, g.tail())
	}
}

func (g *gateway) tail() string {
	s := g.log.String()
	return s[max(0, len(s)-3000):]
}

// complaint returns a stack trace of the log, if there is one.
func (g *gateway) complaint() error {
	log := g.log.String()
	for _, bad := range []string{"panic:", "fatal error:", "DATA RACE", "goroutine 1 ["} {
		if i := strings.Index(log, bad); i >= 0 {
			return fmt.Errorf("%q in the log:\n%s", bad, log[max(0, i-300):min(len(log), i+4000)])
		}
	}
	return nil
}

// get reads a JSON document of the admin API.
func (g *gateway) get(path string, into any) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Get("http://" + g.admin + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, res.Status, b)
	}
	return json.Unmarshal(b, into)
}

// queueState is one route in GET /api/v1/queues.
type queueState struct {
	Route     string
	Pending   int
	Retrying  int
	Dead      int
	Orphaned  int
	InFlight  int `json:"in_flight"`
	Loading   bool
	LastError string `json:"last_error"`
	Down      bool
}

// queues returns the state of every route, all of which must be listed, and how
// many messages wait.
func (g *gateway) queues(routes []string) (qs []queueState, waiting int, err error) {
	var answer struct{ Queues []queueState }
	if err := g.get("/api/v1/queues", &answer); err != nil {
		return nil, 0, err
	}
	for _, r := range routes {
		if !slices.ContainsFunc(answer.Queues, func(q queueState) bool { return q.Route == r }) {
			return nil, 0, fmt.Errorf("route %s is not among the queues: %+v", r, answer.Queues)
		}
	}
	for _, q := range answer.Queues {
		if !slices.Contains(routes, q.Route) {
			continue
		}
		waiting += q.Pending + q.Retrying + q.Orphaned + q.InFlight
		if q.Loading {
			waiting++
		}
	}
	return answer.Queues, waiting, nil
}

// dead lists the dead letters of a route, page by page, and looks at each but
// those that are in known, to which it adds them.
func (g *gateway) dead(route string, known map[string]bool) (all []burial, err error) {
	type page struct {
		Messages []struct{ ID, Route, Reason string }
		Next     string
	}
	for after := ""; ; {
		var p page
		q := url.Values{"state": {"dead"}, "limit": {"500"}, "after": {after}}
		if after == "" {
			q.Del("after")
		}
		if err := g.get("/api/v1/queues/"+route+"/messages?"+q.Encode(), &p); err != nil {
			return nil, err
		}
		for _, m := range p.Messages {
			if known[m.ID] {
				continue
			}
			known[m.ID] = true
			var whole struct {
				Envelope    string
				EnvelopeCut bool `json:"envelope_cut"`
			}
			if err := g.get("/api/v1/messages/"+m.ID, &whole); err != nil {
				return nil, err
			}
			body := []byte(whole.Envelope)
			b := burial{m.ID, m.Route, m.Reason, keyOf(body), hashOf(body)}
			if whole.EnvelopeCut {
				b.Hash = ""
			}
			all = append(all, b)
		}
		if p.Next == "" {
			return all, nil
		}
		after = p.Next
	}
}

// command runs a command of the binary and returns what it prints on stdout.
func command(args ...string) ([]byte, error) {
	bin, err := build()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("gateway %s: %w", strings.Join(args, " "), err), errors.New(stderr.String()))
	}
	return stdout.Bytes(), nil
}
