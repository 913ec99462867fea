package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/bench"
)

// loadtestUsage is the founding command line.
const loadtestUsage = "gateway loadtest -[w|s|t] HOST PORT DIRECTORY [REQUESTS]"

// loadtestFlags are the flags of loadtest as typed.
type loadtestFlags struct {
	web, soap, threads bool
	path               string
	json               bool
	benchFlags
}

// loadtestCommand is the founding tool under its founding command line: flags of
// one letter and one dash, which package flag reads and pflag does not.
func (c *cli) loadtestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "loadtest -[w|s|t] HOST PORT DIRECTORY [REQUESTS]",
		Short: "the founding load test: bench web, ping or threads of a server",
		Long: `The founding load test, with its command line: -w fetches web pages (bench web), -s
sends SOAP messages one after the other (bench ping), -t looks for the highest stable
number of threads that send once a second (bench threads).

A DIRECTORY that exists on this machine is one of messages: its *.xml files are sent
in turn, to the path of -path. Any other is the path at the server, where the
built-in message is sent. REQUESTS is how many of a run (1000), with -t the number
of threads.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "-help") {
				return cmd.Help()
			}
			f, j, err := c.parseLoadtest(args)
			if err != nil {
				return err
			}
			c.json = f.json
			return c.runBench(cmd, &f.benchFlags, j)
		},
	}
}

// parseLoadtest makes a job of the founding command line.
func (c *cli) parseLoadtest(args []string) (*loadtestFlags, benchJob, error) {
	f := &loadtestFlags{benchFlags: benchFlags{ci: "2.5%", tolerance: "5%"}}
	fl := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	fl.SetOutput(io.Discard)
	fl.BoolVar(&f.web, "w", false, "web pages")
	fl.BoolVar(&f.soap, "s", false, "SOAP messages")
	fl.BoolVar(&f.threads, "t", false, "threads")
	fl.StringVar(&f.path, "path", "/", "path at the server for the messages of a directory")
	fl.IntVar(&f.runs, "runs", 5, "runs of each row")
	fl.IntVar(&f.maxRuns, "max-runs", 10, "runs at most")
	fl.DurationVar(&f.duration, "duration", 0, "time of a run")
	fl.DurationVar(&f.warmup, "warmup", 0, "time of the warm-up")
	fl.BoolVar(&f.quick, "quick", false, "shorter")
	fl.BoolVar(&f.noProgress, "no-progress", false, "do not show what goes on")
	fl.StringVar(&f.out, "out", "", "folder for the results")
	fl.BoolVar(&f.json, "json", false, "results as JSON")
	usage := func(message string) (*loadtestFlags, benchJob, error) {
		return nil, benchJob{}, &usageError{"loadtest: " + message, loadtestUsage}
	}
	if err := fl.Parse(args); err != nil {
		return usage(err.Error())
	}
	args = fl.Args()
	if len(args) < 3 || len(args) > 4 {
		return usage("want HOST, PORT, DIRECTORY and at most REQUESTS")
	}
	if port, err := strconv.Atoi(args[1]); err != nil || port < 1 || port > 65535 {
		return usage(fmt.Sprintf("%.20q is not a port", args[1]))
	}
	requests := 0
	if len(args) == 4 {
		var err error
		if requests, err = strconv.Atoi(args[3]); err != nil || requests < 1 {
			return usage(fmt.Sprintf("%.20q is not a number of requests", args[3]))
		}
	}
	chosen := 0
	for _, on := range []bool{f.web, f.soap, f.threads} {
		if on {
			chosen++
		}
	}
	if chosen != 1 {
		return usage("want one of -w, -s and -t")
	}
	j, err := c.loadtestJob(f, net.JoinHostPort(args[0], args[1]), args[2], requests)
	return f, j, err
}

// loadtestJob makes the job; requests 0 means that none were given.
func (c *cli) loadtestJob(f *loadtestFlags, address, directory string, requests int) (benchJob, error) {
	messages, path, err := c.loadtestMessages(f, directory)
	if err != nil {
		return benchJob{}, err
	}
	combo := "hh"
	if f.web {
		combo = "nn"
	}
	combos, err := chooseCombos(combo)
	if err != nil {
		return benchJob{}, err
	}
	f.target = "http://" + address + path
	remote := &bench.Target{Address: address, Path: path}
	j := benchJob{name: "loadtest", limits: bench.LimitSet{}}
	j.build = func(_ context.Context, e *benchEnv) ([]bench.Scenario, error) {
		o := bench.EchoOptions{
			Lab: e.lab, Product: dialProduct, Combo: combos[0],
			Messages: messages, Page: f.web, Remote: remote, RemoteName: f.target,
		}
		if f.threads {
			search := bench.SearchOptions{Warmup: f.warmup, Window: f.duration}
			if f.quick {
				search = quickSearch(search.Lag)
			}
			return []bench.Scenario{bench.NewThreads(bench.ThreadsOptions{
				EchoOptions: o, Threads: requests, Search: search, Warmup: f.warmup, Duration: f.duration,
			})}, nil
		}
		return []bench.Scenario{bench.NewPings(bench.PingOptions{EchoOptions: o, Count: requests, Duration: f.duration, Warmup: f.warmup})}, nil
	}
	return j, nil
}

// loadtestMessages returns what DIRECTORY stands for, and says which: the messages
// of a folder, or none and the path at the server.
func (c *cli) loadtestMessages(f *loadtestFlags, directory string) (messages []*bench.Message, path string, err error) {
	info, err := os.Stat(directory)
	if f.web || err != nil || !info.IsDir() {
		path = "/" + strings.TrimPrefix(directory, "/")
		what := "the built-in message"
		if f.web {
			what = "GET"
		}
		c.say("loadtest: %s to the path %s", what, path)
		return nil, path, nil
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.xml"))
	if err != nil || len(files) == 0 {
		return nil, "", &problem{errors.Join(fmt.Errorf("loadtest: the folder %s has no *.xml files", directory), err), ""}
	}
	for _, file := range files {
		m, err := readMessage(file)
		if err == nil && len(messages) > 0 && m.Version() != messages[0].Version() {
			err = fmt.Errorf("the folder has messages of SOAP %v and of SOAP %v, want one version", messages[0].Version(), m.Version())
		}
		if err != nil {
			return nil, "", &problem{fmt.Errorf("loadtest: %s: %w", file, err), ""}
		}
		messages = append(messages, m)
	}
	path = "/" + strings.TrimPrefix(f.path, "/")
	c.say("loadtest: %d messages of the folder %s in turn, to the path %s", len(messages), directory, path)
	return messages, path, nil
}

func readMessage(file string) (*bench.Message, error) {
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return bench.NewMessage(octets)
}

// quickSearch is the search of --quick.
func quickSearch(lag time.Duration) bench.SearchOptions {
	return bench.SearchOptions{
		Lag: lag, First: 512, Probes: 8,
		Warmup: time.Second, Window: 2 * time.Second, Confirm: 5 * time.Second,
	}
}
