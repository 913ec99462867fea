package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MemOptions are the settings of [NewMems].
type MemOptions struct {
	Lab *Lab
	// Idle is how many idle connections are opened. Default 1000.
	Idle int
	// Load is how many messages are sent for the row after a load. Default 20000.
	Load int
	// Settle is how long a gateway is left alone before it is looked at. Default
	// 500ms.
	Settle time.Duration
}

// mem is the test mem: what a gateway has in memory in one state.
type mem struct {
	opt     MemOptions
	combo   string
	label   string
	gateway *Child
	callers []Caller
}

// NewMems returns the scenarios of the rows of mem: idle, with idle connections
// over HTTP and framed TCP, after a load, and after that when all that is free was given
// back to the system.
func NewMems(opt MemOptions) []Scenario {
	if opt.Idle == 0 {
		opt.Idle = 1000
	}
	if opt.Load == 0 {
		opt.Load = 20_000
	}
	if opt.Settle == 0 {
		opt.Settle = 500 * time.Millisecond
	}
	conns := strconv.Itoa(opt.Idle)
	return []Scenario{
		&mem{opt: opt, combo: "idle", label: "idle"},
		&mem{opt: opt, combo: "http-" + conns, label: conns + " idle connections over HTTP"},
		&mem{opt: opt, combo: "framed-" + conns, label: conns + " idle connections over framed TCP"},
		&mem{opt: opt, combo: "load", label: fmt.Sprintf("after %d messages over 64 connections", opt.Load)},
		&mem{opt: opt, combo: "freed", label: "after that, and a collection of garbage"},
	}
}

func (t *mem) Prepare(ctx context.Context) (err error) {
	t.gateway, err = t.opt.Lab.Serve(ctx, echoConfig("builtin:echo", 10_000))
	return err
}

func (t *mem) Spec() Spec {
	return Spec{
		Name: "mem", Combo: t.combo, Label: t.label, Loop: LoopNone, Unit: "MiB", LowerIsBetter: true,
		Runs: 1, NoCold: true, Servers: []int{t.gateway.PID()},
	}
}

func (t *mem) Close() error {
	var errs []error
	for _, c := range t.callers {
		errs = append(errs, c.Close())
	}
	if t.gateway != nil {
		errs = append(errs, t.gateway.Stop())
	}
	return errors.Join(errs...)
}

// Once brings the gateway into its state and looks.
func (t *mem) Once(ctx context.Context, m *Meter) error {
	m.Start()
	defer m.Stop()
	if err := t.look(ctx, nil); err != nil { // the first scrape takes memory too
		return err
	}
	sleepUntil(ctx, time.Now().Add(t.opt.Settle))
	before, err := ReadMemory(t.gateway.PID())
	if err != nil {
		return err
	}
	if err := t.enter(ctx); err != nil {
		return err
	}
	sleepUntil(ctx, time.Now().Add(t.opt.Settle))
	after, err := ReadMemory(t.gateway.PID())
	if err != nil {
		return err
	}
	m.Score(float64(after.RSS) / (1 << 20))
	m.Measure("rss", float64(after.RSS), "B")
	m.Measure("peak", float64(after.Peak), "B")
	m.Measure("pss", float64(after.PSS), "B")
	m.Measure("vsz", float64(after.VSZ), "B")
	m.Measure("fds", float64(after.Files), "")
	if n := len(t.callers); n > 0 {
		m.Measure("per-conn", float64(int64(after.RSS)-int64(before.RSS))/float64(n), "B")
	}
	return t.look(ctx, m)
}

// enter brings the gateway into the state of the row.
func (t *mem) enter(ctx context.Context) error {
	kind, _, _ := strings.Cut(t.combo, "-")
	switch kind {
	case "http":
		return t.idle(ctx, DialRaw, Target{Address: t.gateway.Ready.Listener("web"), Path: "/echo"})
	case "framed":
		return t.idle(ctx, DialFramed, Target{Address: t.gateway.Ready.Listener("plant")})
	case "load", "freed":
		target := Target{Address: t.gateway.Ready.Listener("web"), Path: "/echo", ContentType: "text/xml; charset=utf-8"}
		if err := store(ctx, target, t.opt.Load); err != nil {
			return err
		}
	}
	if kind == "freed" {
		// A heap profile with gc=1 collects garbage first; twice, for what has
		// finalizers. What is free then goes back to the system by and by.
		for range 2 {
			if _, err := t.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle opens connections, each of which has been used once.
func (t *mem) idle(ctx context.Context, dial DialCaller, target Target) error {
	message, err := NewPing(1, PingSize)
	if err != nil {
		return err
	}
	target.ContentType = message.contentType
	for range t.opt.Idle {
		c, err := dial(ctx, target)
		if err != nil {
			return err
		}
		t.callers = append(t.callers, c)
		sent := message.Next()
		reply, err := c.Call(ctx, sent)
		if err != nil {
			return err
		}
		if err := Echoed(sent, reply); err != nil {
			return err
		}
	}
	return nil
}

// look reads what the runtime of the gateway tells of itself.
func (t *mem) look(ctx context.Context, m *Meter) error {
	text, err := t.get(ctx, "/metrics")
	if err != nil || m == nil {
		return err
	}
	for _, want := range []struct{ metric, name, unit string }{
		{"go_memstats_heap_inuse_bytes", "heap", "B"},
		{"go_goroutines", "goroutines", ""},
	} {
		v, ok := metricIn(text, want.metric)
		if !ok {
			return fmt.Errorf("bench: the gateway's metrics lack %s", want.metric)
		}
		m.Measure(want.name, v, want.unit)
	}
	return nil
}

// metricIn finds a metric without labels in the text format of Prometheus.
func metricIn(text, name string) (float64, bool) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			return f, err == nil
		}
	}
	return 0, false
}

// get asks the gateway's admin listener.
func (t *mem) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.gateway.Ready.Admin+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	if err != nil {
		return "", fmt.Errorf("bench: %s: %w", path, err)
	}
	return string(b), nil
}
