package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "xmlversus: error:", err)
			os.Exit(1)
		}
		return
	}
	pure := flag.String("purego", "", "this program, built with the tag purego")
	peers := flag.String("peers", "", "the program that setup.sh builds")
	rounds := flag.Int("rounds", 21, "slices of each contender")
	slice := flag.Duration("slice", 20*time.Millisecond, "CPU time of a slice, about")
	flag.Parse()
	if *pure == "" || *peers == "" || flag.NArg() != 0 || *rounds < 1 {
		fmt.Fprintln(os.Stderr, "xmlversus: usage: xmlversus -purego FILE -peers FILE (make versus WHAT=xml does it)")
		os.Exit(2)
	}
	if err := compare(os.Stdout, *pure, *peers, *rounds, *slice); err != nil {
		fmt.Fprintln(os.Stderr, "xmlversus: error:", err)
		os.Exit(1)
	}
}

// compare measures and prints everything.
func compare(w io.Writer, pure, peers string, rounds int, slice time.Duration) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	pin, pinned := pinning()
	children := map[string]*child{}
	defer func() {
		for _, c := range children {
			err = errors.Join(err, c.stop())
		}
	}()
	fams := families()
	for name, argv := range map[string][]string{goUsual: {self, "serve"}, goPure: {pure, "serve"}, goPeers: {peers}} {
		c, err := start(pin, argv)
		if err != nil {
			return err
		}
		children[name] = c
		for _, f := range fams {
			if err := c.load(f); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	model, vector := processor()
	fmt.Fprintf(w, "%s, %s %s/%s, %s; %d rounds of %v\n", model, runtime.Version(), runtime.GOOS, runtime.GOARCH, pinned, rounds, slice)
	for _, f := range fams {
		fmt.Fprintf(w, "%s: %d of %d octets\n", f.name, len(f.variants), f.size()/len(f.variants))
	}
	r, err := measure(children, fams, rounds, slice)
	if err != nil {
		return err
	}
	if err := table(w, r, fams); err != nil {
		return err
	}
	all := promises(r, vector)
	for _, what := range []struct {
		process, id, family string
		none                bool // promised; a decoder may keep a value that is the message's own, its MessageID
	}{
		{goUsual, "scan", order2k, true},
		{goUsual, "scan", orders1m, true},
		{goPure, "scan", order2k, true},
		{goUsual, "decode", envelope1k, false},
	} {
		n, err := children[what.process].allocs(what.id, what.family)
		if err != nil {
			return err
		}
		all = append(all, promise{name: what.family + ":" + what.id + ":allocations:" + what.process, got: n, atMost: what.none})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "name\tratio\tmust\tgoal\tverdict")
	for _, p := range all {
		fmt.Fprintln(t, p)
	}
	return t.Flush()
}

// pinning is what to put before a command so that it keeps to the last core.
func pinning() (argv []string, told string) {
	taskset, err := exec.LookPath("taskset")
	if err != nil || runtime.NumCPU() < 2 {
		return nil, "not pinned to a core"
	}
	core := strconv.Itoa(runtime.NumCPU() - 1)
	if exec.Command(taskset, "-c", core, "true").Run() != nil {
		return nil, "not pinned to a core"
	}
	return []string{taskset, "-c", core}, "pinned to core " + core
}

// processor names the machine, and says whether it has AVX2.
func processor() (model string, avx2 bool) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor unknown", false
	}
	model = "processor unknown"
	if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
		model = string(m[1])
	}
	flags := regexp.MustCompile(`(?m)^flags\s*:.*$`).FindString(string(info))
	return model, strings.Contains(flags+" ", " avx2 ")
}
