package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// netFlags are the flags of both ends of bench net. They are parsed by package
// flag, since the founding syntax has one dash.
type netFlags struct {
	server, token, out string
	port               int
	json               bool

	protocol, mode, dir, buffers string
	size, passes, window         int

	oneOff      bool
	maxDuration time.Duration
	maxBytes    int64
	dataPort    int
}

const netUsage = `Measures what the network carries between two machines.

  gateway bench net server -server HOST [-port 8001] [-token T] [-one-off]
  gateway bench net client -server HOST [-port 8001] [-token T] [-protocol raw]

The server waits on one machine, the client measures from another. Protocols:
raw (a stream of buffers over TCP), http (a POST for each buffer), rpc or rmi (a
NATS request for each), soap and framed (an envelope for each, which the other end
checks). The client prints a sign for each pass: + was too short and the next has
ten times the buffers, . counts.

The token also comes from GATEWAY_BENCH_TOKEN, or from a file with file:PATH. A
server that is reached from other machines makes one if it is given none.
`

func (c *cli) benchNet() *cobra.Command {
	return &cobra.Command{
		Use:   "net server|client -server HOST",
		Short: "what the network carries between two machines",
		Long:  netUsage,
		// One dash or two: package flag takes both.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{"bench net: want server or client", "gateway bench net server -server HOST on one machine, gateway bench net client -server HOST on the other"}
			}
			switch role := args[0]; role {
			case "server", "client":
				f, done, err := c.parseNet(role, args[1:])
				if err != nil || done {
					return err
				}
				ctx, stop := untilStopped(cmd.Context())
				defer stop()
				if role == "server" {
					return c.netServer(ctx, f)
				}
				return c.netClient(ctx, cmd, f)
			case "-h", "-help", "--help", "help":
				fmt.Fprint(c.stdout, netUsage)
				return nil
			default:
				return &usageError{fmt.Sprintf("bench net: got %.40q, want server or client", role), ""}
			}
		},
	}
}

// parseNet parses the flags of a role; done says that help was asked for and
// given.
func (c *cli) parseNet(role string, args []string) (f *netFlags, done bool, err error) {
	f = &netFlags{}
	fs := flag.NewFlagSet("bench net "+role, flag.ContinueOnError)
	var said strings.Builder
	fs.SetOutput(&said)
	fs.StringVar(&f.server, "server", "", "`host` on which the server listens (default: this machine only)")
	fs.IntVar(&f.port, "port", bench.NetPort, "`port` of the control connection")
	fs.StringVar(&f.token, "token", "", "what both ends must know: `text`, or file:PATH")
	fs.BoolVar(&f.json, "json", false, "print results as JSON")
	fs.StringVar(&f.out, "out", "", "`folder` for the files with the results")
	if role == "server" {
		fs.BoolVar(&f.oneOff, "one-off", false, "end after one test")
		fs.DurationVar(&f.maxDuration, "max-duration", 5*time.Minute, "`time` that one test may take")
		fs.Int64Var(&f.maxBytes, "max-bytes", 64<<30, "`octets` that one test may move")
		fs.IntVar(&f.dataPort, "data-port", 0, "`port` of the data connections (default: any)")
	} else {
		fs.StringVar(&f.protocol, "protocol", bench.NetRaw, "`protocol`: http, rpc (rmi), raw, soap or framed")
		fs.StringVar(&f.mode, "mode", bench.NetOneWay, "`mode`: oneway or roundtrip")
		fs.StringVar(&f.dir, "dir", bench.NetUp, "`direction`: up, to the server, or down")
		fs.IntVar(&f.size, "size", 1500, "`octets` of a buffer")
		fs.StringVar(&f.buffers, "buffers", "auto", "`buffers` of a pass, or auto")
		fs.IntVar(&f.passes, "passes", 10, "`passes` to measure")
		fs.IntVar(&f.window, "window", 1, "`buffers` under way at once, of rpc and framed")
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(c.stdout, netUsage, "\n", said.String())
		return nil, true, nil
	case err != nil:
		return nil, false, &usageError{fs.Name() + ": " + err.Error(), "see gateway bench net " + role + " -help"}
	case fs.NArg() > 0:
		return nil, false, &usageError{fmt.Sprintf("%s: takes no argument, got %.40q", fs.Name(), fs.Arg(0)), ""}
	case f.port < 0 || f.port > 65535 || f.dataPort < 0 || f.dataPort > 65535:
		return nil, false, &usageError{fs.Name() + ": a port is a number up to 65535", ""}
	}
	f.json = f.json || c.json
	f.token, err = c.netToken(f.token)
	return f, false, err
}

// netToken finds the token: the flag, a file that it names, the environment.
func (c *cli) netToken(token string) (string, error) {
	if token == "" {
		for _, kv := range c.env {
			if v, ok := strings.CutPrefix(kv, "GATEWAY_BENCH_TOKEN="); ok {
				token = v
			}
		}
	}
	path, ok := strings.CutPrefix(token, "file:")
	if !ok {
		return token, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", &problem{fmt.Errorf("bench net: -token: %w", err), ""}
	}
	return strings.TrimSpace(string(b)), nil
}

// netHost says who this end is.
func netHost() bench.NetHost {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return bench.NetHost{Name: name, Gateway: buildInfo().Version, System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU()}
}

func (c *cli) netServer(ctx context.Context, f *netFlags) error {
	host := f.server
	if host == "" {
		host = "127.0.0.1"
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(f.port)))
	if err != nil {
		return &problem{fmt.Errorf("bench net: %w", err), ""}
	}
	made := false
	if a, ok := ln.Addr().(*net.TCPAddr); f.token == "" && (!ok || !a.IP.IsLoopback()) {
		f.token, made = bench.NetToken(), true
	}
	address := ln.Addr().String()
	if f.json {
		if err := c.printJSON(map[string]string{"address": address}); err != nil {
			return err
		}
	}
	c.say("bench net: server at %s", address)
	if made {
		c.say("bench net: whoever measures needs -token %s", f.token)
	}
	failed := error(nil)
	err = bench.NetServe(ctx, ln, bench.NetServerOptions{
		Token: f.token, OneOff: f.oneOff, MaxDuration: f.maxDuration, MaxBytes: f.maxBytes, DataPort: f.dataPort, Host: netHost(),
		Event: func(e bench.NetEvent) {
			if e.Began {
				c.say("bench net: test by %s", e.Client)
				return
			}
			if e.Err != nil {
				failed = e.Err
				c.say("bench net: %s: %v", e.Client, e.Err)
				return
			}
			failed = c.netReport(e.Result, f, false)
			if failed != nil {
				c.say("bench net: %v", failed)
			}
		},
	})
	if err == nil && f.oneOff {
		err = failed
	}
	if err != nil {
		return &problem{fmt.Errorf("bench net: %w", err), ""}
	}
	return nil
}

func (c *cli) netClient(ctx context.Context, cmd *cobra.Command, f *netFlags) error {
	host := f.server
	if host == "" {
		return &usageError{"bench net client: -server is missing", ""}
	}
	o := bench.NetOptions{
		Server: net.JoinHostPort(host, strconv.Itoa(f.port)), Token: f.token,
		Protocol: f.protocol, Mode: f.mode, Dir: f.dir, Size: f.size, Passes: f.passes, Window: f.window, Host: netHost(),
	}
	if f.size < 1 || f.passes < 1 || f.window < 1 {
		return &usageError{"bench net client: -size, -passes and -window must be more than 0", ""}
	}
	if f.buffers != "auto" {
		n, err := strconv.ParseInt(f.buffers, 10, 64)
		if err != nil || n < 1 {
			return &usageError{fmt.Sprintf("bench net client: -buffers %.20q is not a number, nor auto", f.buffers), ""}
		}
		o.Buffers = n
	}
	if err := o.Validate(); err != nil {
		return &usageError{"bench net client: " + strings.ReplaceAll(err.Error(), "\n", "\nbench net client: "), ""}
	}
	began := time.Now()
	c.say("bench net: connecting to control socket: /%s:%d", host, f.port)
	marks := 0
	o.Mark = func(b byte) {
		marks++
		_, _ = c.stderr.Write([]byte{b})
	}
	r, err := bench.NetClient(ctx, o)
	if marks > 0 {
		fmt.Fprintln(c.stderr)
	}
	if err != nil {
		hint := ""
		if errors.Is(err, bench.ErrNetDenied) {
			hint = "the token is what the server was given, or has printed: -token"
		}
		return &problem{fmt.Errorf("bench net: %w", err), hint}
	}
	if err := c.netReport(r, f, true); err != nil {
		return &problem{fmt.Errorf("bench net: %w", err), ""}
	}
	c.say("done in %d ms", time.Since(began).Milliseconds())
	if t := r.Test(); t.Verdict != bench.Valid {
		c.say("bench net: %s: %s", t.Verdict, strings.Join(t.Reasons, ", "))
		return exitCode(bench.ExitInvalid)
	}
	return nil
}

// netReport prints what a test has found and writes the files for it. Both ends
// do so.
func (c *cli) netReport(r *bench.NetResult, f *netFlags, client bool) error {
	if f.json {
		if err := json.NewEncoder(c.stdout).Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(c.stdout, "gateway bench net: %s\n", r)
		fmt.Fprintf(c.stdout, "gateway bench net: %s %s %s, cpu of a core: client %.0f %%, server %.0f %%%s\n",
			r.Protocol, r.Mode, r.Dir, 100*r.Share(r.Client), 100*r.Share(r.Server), r.Times())
	}
	if f.out == "" {
		return nil
	}
	b := buildInfo()
	results := &bench.Results{
		Schema: bench.Schema,
		Env: bench.Env{
			Version: b.Version, Commit: b.Commit, Go: b.Go, OS: b.OS, Arch: b.Arch, CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
			Started: time.Now().UTC().Truncate(time.Second), Seconds: r.Seconds, Command: []string{"bench", "net", map[bool]string{true: "client", false: "server"}[client]},
		},
		Tests: []bench.Test{r.Test()},
	}
	bench.DescribeMachine(&results.Env)
	bench.Conclude(results, bench.ExitCode(results, false))
	return bench.WriteFolder(f.out, results, false)
}
