package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// StartupOptions are the settings of [NewStartup].
type StartupOptions struct {
	Lab *Lab
	// InProcess, when set, starts a gateway inside this process, from the
	// configuration file, and returns how to stop it: no process is made.
	InProcess func(ctx context.Context, file string) (stop func() error, err error)
	// Queue is how many messages wait in the store. Default none, and no store.
	Queue int
	// Starts is how many are measured. Default 20, and up to three times as many
	// while their mean is not known well enough.
	Starts int
}

// startup is the test startup: from the start of the process to the first message
// that is answered rightly.
type startup struct {
	opt     StartupOptions
	cold    bool      // the first start, which does not count, is over
	took    []float64 // of the starts that count, in milliseconds
	dir     string    // of the store that is started again and again; "" without one
	relaxed bool      // the disk is none that a strict store takes
}

// NewStartup returns the scenario of one row of startup.
func NewStartup(opt StartupOptions) Scenario {
	if opt.Starts == 0 {
		opt.Starts = 20
	}
	return &startup{opt: opt}
}

func (s *startup) Prepare(ctx context.Context) (err error) {
	if s.opt.Queue == 0 {
		return nil
	}
	if s.dir, err = s.opt.Lab.Folder("store"); err != nil {
		return err
	}
	return s.fill(ctx)
}

func (s *startup) Spec() Spec {
	spec := Spec{
		Name: "startup", Label: "from the start of the process to the first right reply", Founding: "PlatformTest",
		Loop: LoopClosed, Unit: "ms", LowerIsBetter: true, Conns: 1, Size: PingSize,
		Runs: s.opt.Starts, MaxRuns: 3 * s.opt.Starts, ByInterval: true, Limiter: "start of the process",
		Params: map[string]any{"cold": "a new process; the program is in the page cache"},
	}
	if s.opt.InProcess != nil {
		spec.Combo, spec.Label, spec.Limiter = "in-process", "the same inside this process", "start of the parts"
		spec.Founding = ""
	}
	if len(s.took) > 0 { // the founding columns
		low, high := slices.Min(s.took), slices.Max(s.took)
		spec.Measures = []Measure{{"shortest", low / 1e3, "s"}, {"longest", high / 1e3, "s"}}
	}
	if s.opt.Queue > 0 {
		spec.Combo, spec.Label = fmt.Sprintf("queue-%d", s.opt.Queue), fmt.Sprintf("the same with %d stored messages", s.opt.Queue)
		spec.Params["durability"], spec.Limiter, spec.Founding = s.durability(), "reading the store", ""
	}
	return spec
}

func (s *startup) durability() string {
	if s.relaxed {
		return "relaxed"
	}
	return "strict"
}

func (s *startup) Close() error { return nil }

// config is a gateway at a port that is known before it runs.
func (s *startup) config(address string) string {
	yaml := fmt.Sprintf(`listeners:
  - {name: web, address: %q}
admin: {address: "127.0.0.1:0"}
log: {level: warn}
routes:
  - {name: echo, match: {path: /echo}, to: ["builtin:echo"]}
`, address)
	if s.opt.Queue > 0 {
		yaml += fmt.Sprintf(`  - {name: orders, match: {path: /orders}, to: ["http://127.0.0.1:1/"], delivery: queue}
store: {dir: ./data, durability: %s}
`, s.durability())
	}
	return yaml
}

// fill stores the messages that each start will find.
func (s *startup) fill(ctx context.Context) error {
	g, err := s.opt.Lab.ServeIn(ctx, s.dir, s.config("127.0.0.1:0"))
	if err != nil && strings.Contains(err.Error(), "durability") {
		s.relaxed = true // no disk that promises anything: a start reads the same
		g, err = s.opt.Lab.ServeIn(ctx, s.dir, s.config("127.0.0.1:0"))
	}
	if err != nil {
		return err
	}
	t := Target{Address: g.Ready.Listener("web"), Path: "/orders", ContentType: "text/xml; charset=utf-8", Status: 202}
	if err := store(ctx, t, s.opt.Queue); err != nil {
		return errors.Join(err, g.Stop())
	}
	return g.Stop()
}

// portTries is how often a start is tried while somebody else takes the port that
// was found for it.
const portTries = 3

// Once starts one gateway, asks it once, and stops it.
func (s *startup) Once(ctx context.Context, m *Meter) (err error) {
	for range portTries {
		if err = s.once(ctx, m); err == nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return err
}

func (s *startup) once(ctx context.Context, m *Meter) (err error) {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	dir := s.dir
	if dir == "" {
		if dir, err = s.opt.Lab.Folder("start"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	m.Start()
	g, err := s.start(ctx, dir, address)
	if err != nil {
		return err
	}
	took, err := firstReply(ctx, address, g)
	m.Stop()
	if err != nil {
		return errors.Join(err, g.stop())
	}
	m.Shard(0).Took(took)
	ms := float64(took.Microseconds()) / 1e3
	m.Score(ms)
	if s.cold {
		s.took = append(s.took, ms)
	}
	s.cold = true
	if s.opt.Queue > 0 {
		m.Measure("recovered", float64(s.opt.Queue)/took.Seconds(), "/s")
	}
	if g.child != nil {
		if mem, err := ReadMemory(g.child.PID()); err == nil {
			m.Measure("rss", float64(mem.RSS), "B")
		}
	}
	began := time.Now()
	if err := g.stop(); err != nil {
		return err
	}
	m.Measure("stop", time.Since(began).Seconds(), "s")
	return nil
}

// started is a gateway that is starting or runs.
type started struct {
	child *Child // nil in process
	began time.Time
	stop  func() error
}

// ended reports whether the process is gone already, and what it said.
func (g *started) ended() (why string, ended bool) {
	if g.child == nil {
		return "", false
	}
	select {
	case <-g.child.Done():
		return g.child.Log(), true
	default:
		return "", false
	}
}

// start starts a gateway and does not wait until it is ready.
func (s *startup) start(ctx context.Context, dir, address string) (*started, error) {
	file := filepath.Join(dir, "gateway.yaml")
	if s.opt.InProcess == nil {
		c, err := s.opt.Lab.Begin(dir, s.config(address))
		if err != nil {
			return nil, err
		}
		return &started{c, c.Began, c.Stop}, nil
	}
	if err := os.WriteFile(file, []byte(s.config(address)), 0o600); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	began := time.Now()
	stop, err := s.opt.InProcess(ctx, file)
	if err != nil {
		return nil, err
	}
	return &started{nil, began, stop}, nil
}

// pollEvery is how often a connection is tried while a gateway starts.
const pollEvery = 500 * time.Microsecond

// firstReply returns when the first message was answered rightly, counted from the
// start of g.
func firstReply(ctx context.Context, address string, g *started) (time.Duration, error) {
	message, err := NewPing(1, PingSize)
	if err != nil {
		return 0, err
	}
	t := Target{Address: address, Path: "/echo", ContentType: message.contentType}
	for {
		err := askOnce(ctx, t, message)
		took := time.Since(g.began)
		if err == nil {
			return took, nil
		}
		if why, ended := g.ended(); ended {
			return 0, fmt.Errorf("bench: the gateway ended before it answered: %s", why)
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if took > time.Minute {
			return 0, fmt.Errorf("no right reply within a minute of the start: %w", err)
		}
		time.Sleep(pollEvery)
	}
}

func askOnce(ctx context.Context, t Target, m *Message) error {
	c, err := DialRaw(ctx, t)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := m.Next()
	reply, err := c.Call(ctx, sent)
	if err != nil {
		return err
	}
	return Echoed(sent, reply)
}

// freeAddress is one that nobody listens at just now.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}
