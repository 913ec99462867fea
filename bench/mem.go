package bench

import (
	"context"
	"errors"
	"fmt"
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
	limiter string
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
		&mem{opt: opt, combo: "freed", label: "after that, garbage collected and given back to the system"},
	}
}

func (t *mem) Prepare(ctx context.Context) (err error) {
	t.gateway, err = t.opt.Lab.Serve(ctx, echoConfig("builtin:echo", 10_000))
	return err
}

func (t *mem) Spec() Spec {
	return Spec{
		Name: "mem", Combo: t.combo, Label: t.label, Loop: LoopNone, Unit: "MiB", LowerIsBetter: true,
		Runs: 1, NoCold: true, Servers: []int{t.gateway.PID()}, Limiter: t.limiter,
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
	if err := t.look(ctx, nil, 0); err != nil { // the first scrape takes memory too
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
	return t.look(ctx, m, after.RSS)
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
		// Twice, for what has finalizers.
		for range 2 {
			if _, err := t.gateway.get(ctx, "/debug/pprof/heap?free=1"); err != nil {
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

// look reads what the runtime of the gateway tells of itself, of which rss octets
// are resident.
func (t *mem) look(ctx context.Context, m *Meter, rss uint64) error {
	v, err := t.gateway.metrics(ctx, "go_memstats_heap_inuse_bytes", "go_goroutines")
	if err != nil || m == nil {
		return err
	}
	m.Measure("heap", v[0], "B")
	m.Measure("goroutines", v[1], "")
	t.limiter = "program and runtime" // what would have to shrink
	if v[0] >= float64(rss)/2 {
		t.limiter = "heap"
	}
	return nil
}
