package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/config"
	"soapway/internal/app"
	"soapway/internal/telemetry"
)

// ready is the line that tells a supervisor that the gateway takes messages.
type ready struct {
	Ready     bool        `json:"ready"`
	Version   string      `json:"version"`
	Config    string      `json:"config"`
	Listeners []app.Bound `json:"listeners"`
	Admin     string      `json:"admin"`
	AdminTLS  bool        `json:"admin_tls,omitempty"`
	// Store is the absolute path of the store; without one all three are absent.
	Store   string  `json:"store,omitempty"`
	StoreID string  `json:"store_id,omitempty"`
	Waiting *uint64 `json:"waiting,omitempty"`
	StartMS float64 `json:"start_ms"`
}

func (r *ready) String() string {
	var b strings.Builder
	b.WriteString("ready:")
	for _, l := range r.Listeners {
		fmt.Fprintf(&b, " %s %s://%s,", l.Name, l.Protocol, l.Address)
	}
	if r.Store != "" {
		fmt.Fprintf(&b, " store %s (%s, %d waiting),", r.Store, r.StoreID, *r.Waiting)
	}
	scheme := "http"
	if r.AdminTLS {
		scheme = "https"
	}
	fmt.Fprintf(&b, " admin %s://%s (gateway %s, %s, %.1f ms)", scheme, r.Admin, r.Version, r.Config, r.StartMS)
	return b.String()
}

func (c *cli) serveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve [-c FILE]",
		Short: "run the gateway",
		Long: `Runs the gateway and prints one line on stdout when it takes messages.

SIGTERM and SIGINT stop it: listeners close, exchanges under way get the time
drain of the configuration, a second signal cuts them off at once. SIGHUP, or a
change of the configuration or of a file that it names, reloads it: all of it,
or nothing when it has a problem.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runServe(cmd.Context(), file) },
	}
	configFlag(cmd, &file)
	return cmd
}

func (c *cli) runServe(ctx context.Context, file string) error {
	// From here on a signal is ours to answer, also while the start is under way.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, serveSignals...)
	defer signal.Stop(signals)

	cfg, err := c.load(file)
	if err != nil {
		return complainAbout(c, err)
	}
	var command []string // without it there are no self-tests
	if exe, err := os.Executable(); err == nil {
		command = []string{exe}
	}
	var a *app.App
	opt := app.Options{
		Command: command,
		Env:     c.env,
		Log:     telemetry.NewLog(c.stderr),
		Stdout:  c.stdout,
		Version: buildInfo().Version,
		Load: func() (*config.Config, error) {
			return config.Load(cfg.Path(), config.Options{Env: c.env})
		},
		Ready: func() { c.announce(a, cfg) },
	}
	// net/http tells of some faults of its peers through package log alone.
	log.SetFlags(0)
	log.SetOutput(opt.Log.Standard())

	defer calm()()
	if a, err = app.New(cfg, opt); err != nil {
		return complainAbout(c, err)
	}
	if err := c.supervise(ctx, a, signals, opt.Log); err != nil {
		return &problem{fmt.Errorf("serve: %w", err), ""}
	}
	return nil
}

// complainAbout prints every problem of a configuration; other errors are
// reported as they are.
func complainAbout(c *cli, err error) error {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return err
	}
	for _, p := range problems {
		c.complain(p.String(), "")
	}
	return errReported
}

// announce prints the ready line.
func (c *cli) announce(a *app.App, cfg *config.Config) {
	r := &ready{
		Ready:     true,
		Version:   buildInfo().Version,
		Config:    cfg.Path(),
		Listeners: a.Listeners(),
		Admin:     a.Admin(),
		AdminTLS:  cfg.Admin.TLS != nil,
		StartMS:   ms(time.Since(c.started)),
	}
	if s, ok := a.Store(); ok {
		r.Store, r.StoreID, r.Waiting = s.Dir, s.ID, &s.Waiting
	}
	if abs, err := filepath.Abs(r.Config); err == nil {
		r.Config = abs
	}
	if c.json {
		// A supervisor that has closed the pipe does not stop the gateway.
		_ = c.printJSON(r)
		return
	}
	fmt.Fprintln(c.stdout, r)
}

// supervise runs a until a signal or ctx stops it.
func (c *cli) supervise(ctx context.Context, a *app.App, signals <-chan os.Signal, log *telemetry.Log) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stopping := false
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			switch {
			case isReload(s):
				// Whether it was taken is in the log; the gateway runs on.
				_ = a.Reload()
			case stopping:
				log.Logger().Warn("second signal: cutting off what is under way", "signal", s.String())
				a.Cut()
			default:
				log.Logger().Info("draining", "signal", s.String())
				stopping = true
				stop()
			}
		}
	}
}
