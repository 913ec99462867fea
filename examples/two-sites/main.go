package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var d demo
	flag.StringVar(&d.gateway, "gateway", "", "the `binary`; built from this source if it is not given")
	flag.DurationVar(&d.down, "down", 8*time.Second, "how long the link is down")
	flag.IntVar(&d.rate, "rate", 50, "messages a second")
	flag.Parse()
	if err := d.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "two-sites:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	gateway string
	down    time.Duration
	rate    int

	dir  string
	hub  string // address of the hub's listener for sites
	link *link
	hq   *service
	web  string // where the plant takes messages
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "two-sites-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if err := d.build(ctx); err != nil {
		return err
	}
	if d.hq, err = newService(); err != nil {
		return err
	}
	defer d.hq.close()
	if d.hub, err = freeAddress(); err != nil {
		return err
	}
	if d.link, err = newLink(d.hub); err != nil {
		return err
	}
	defer d.link.close()
	if d.web, err = freeAddress(); err != nil {
		return err
	}
	if err := d.configure(); err != nil {
		return err
	}
	token, err := d.command(ctx, "hq", "site", "invite", "plant", "--route", "orders")
	if err != nil {
		return err
	}
	hq, err := d.serve(ctx, "hq")
	if err != nil {
		return err
	}
	defer hq.stop()
	if _, err := d.command(ctx, "plant", "site", "join", "https://"+d.link.address(), strings.TrimSpace(token)); err != nil {
		return err
	}
	plant, err := d.serve(ctx, "plant")
	if err != nil {
		return err
	}
	defer plant.stop()
	return d.show(ctx)
}

// build makes the binary.
func (d *demo) build(ctx context.Context) error {
	if d.gateway != "" {
		full, err := filepath.Abs(d.gateway)
		d.gateway = full
		return err
	}
	fmt.Println("building the gateway")
	d.gateway = filepath.Join(d.dir, "gateway")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", d.gateway, "soapway/cmd/gateway")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// configure writes the configurations of both sites.
func (d *demo) configure() error {
	for site, text := range map[string]string{
		"hq": `
listeners:
  - name: sites
    address: ` + d.hub + `
    tls: {certificate: sites/server.pem, key: sites/server.pem, client_ca: sites/ca.crt, client_auth: request}
routes:
  - name: orders
    match: none
    to: ["` + d.hq.url() + `"]
    delivery: queue
    order_by: "http:X-Machine"
sites:
  name: hq
  ca_dir: sites
`,
		"plant": `
listeners:
  - {name: web, address: "` + d.web + `"}
routes:
  - name: orders
    match: {path: /orders}
    to: ["site:hq/orders"]
    delivery: queue
    order_by: "http:X-Machine"
`,
	} {
		text += "store: {durability: relaxed, min_free: 64MiB}\nadmin: {address: \"127.0.0.1:0\"}\n"
		if err := os.MkdirAll(filepath.Join(d.dir, site), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.dir, site, "gateway.yaml"), []byte(text[1:]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// command runs a command of the gateway in a site's folder and shows it.
func (d *demo) command(ctx context.Context, site string, args ...string) (out string, err error) {
	fmt.Printf("%s$ gateway %s\n", site, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, d.gateway, args...)
	cmd.Dir = filepath.Join(d.dir, site)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	fmt.Print(string(b))
	return string(b), err
}

// A process is a gateway that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// serve starts the gateway of a site and waits until it is ready.
func (d *demo) serve(ctx context.Context, site string) (*process, error) {
	fmt.Printf("%s$ gateway serve &\n", site)
	cmd := exec.Command(d.gateway, "serve")
	cmd.Dir = filepath.Join(d.dir, site)
	log, err := os.Create(filepath.Join(d.dir, site, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		b := make([]byte, 4096)
		if n, _ := out.Read(b); n > 0 { // the ready line
			close(ready)
		}
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.done:
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the gateway of %s did not start:\n%s", site, text)
	case <-ctx.Done():
		p.stop()
		return nil, ctx.Err()
	}
}

func (p *process) stop() {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		_ = p.cmd.Process.Kill()
	}
	select {
	case <-p.done:
	case <-time.After(35 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// show sends messages, cuts the link, heals it, and tells what became of them.
func (d *demo) show(ctx context.Context) error {
	s := newSender("http://"+d.web+"/orders", d.rate)
	sending, stop := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() { s.run(sending); close(sent) }()
	defer func() { stop(); <-sent }()
	began := time.Now()
	line := func() {
		accepted, arrived := s.accepted(), d.hq.arrived()
		state := "up"
		if d.link.isCut() {
			state = "DOWN"
		}
		fmt.Printf("%4.0f s  link %-4s  accepted at the plant %6d  waiting %6d  arrived at hq %6d\n", time.Since(began).Seconds(), state, accepted, max(0, accepted-arrived), arrived)
	}
	phases := []struct {
		last time.Duration
		cut  bool
	}{{4 * time.Second, false}, {d.down, true}, {6 * time.Second, false}}
	for _, p := range phases {
		d.link.cut(p.cut)
		for end := time.Now().Add(p.last); time.Now().Before(end); {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				line()
			}
		}
	}
	stop()
	<-sent
	for deadline := time.Now().Add(40 * time.Second); d.hq.arrived() < s.accepted() && time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(200 * time.Millisecond)
	}
	line()
	twice, disorder := d.hq.faults()
	lost := s.accepted() - d.hq.arrived()
	fmt.Printf("\n%d messages: lost %d, twice %d, out of order %d\n", s.accepted(), lost, twice, disorder)
	if lost != 0 || twice != 0 || disorder != 0 {
		return errors.New("that should not be")
	}
	return nil
}

// freeAddress is an address on loopback that nobody listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
