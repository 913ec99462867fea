//go:build linux

package proxyversus

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

var (
	versus = flag.Bool("versus", false, "measure, which takes some minutes")
	turns  = flag.Int("turns", 7, "turns of each row")
	turn   = flag.Duration("turn", time.Second, "how long a turn is")
)

// pinned says that this process already has one core of its own.
const pinned = "PROXYVERSUS_PINNED"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(roleVariable) != "" {
		fmt.Fprintln(os.Stderr, reverseProxy())
		os.Exit(1)
	}
	if *versus && os.Getenv(pinned) == "" {
		if _, err := gatewayBinary(); err != nil { // on all cores
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		onOneCore()
	}
	os.Exit(m.Run())
}

// onOneCore starts this program again on one core; all that it starts stays there.
func onOneCore() {
	tool, err := exec.LookPath("taskset")
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxyversus: taskset is missing: bash internal/proxyversus/setup.sh")
		os.Exit(2)
	}
	self, err := os.Executable()
	if err == nil {
		bin, _ := gatewayBinary()
		env := append(os.Environ(), pinned+"=1", "GATEWAY="+bin)
		err = syscall.Exec(tool, append([]string{tool, "-c", "1", self}, os.Args[1:]...), env)
	}
	fmt.Fprintln(os.Stderr, "proxyversus:", err)
	os.Exit(2)
}

// A row is one proxy under one load.
type row struct {
	*peer
	name string
	load *load

	cost, rate []float64 // µs of CPU for each exchange; exchanges a second
	p50, p99   []float64 // ms
}

// TestVersusProxy measures; see the package's comment. What misses its goal is
// said, and is no failure, since other work on the machine moves it.
func TestVersusProxy(t *testing.T) {
	length := *turn
	if !*versus {
		length, *turns = 50*time.Millisecond, 1
	}
	backend := serve(t, httpBackend(order))
	orders := serve(t, framedBackend(order))
	readings := serve(t, framedBackend(small))
	nginx := startNginx(t, backend)
	haproxy := startHaproxy(t, backend)
	reverse := startReverseProxy(t, backend)
	ours := startGateway(t, backend, orders)
	plant := startGateway(t, backend, readings)

	h1 := func(p *peer) *row { return &row{peer: p, name: p.name + " http", load: overHTTP(t, p.h1, path, order)} }
	h2 := func(p *peer) *row { return &row{peer: p, name: p.name + " h2", load: overH2(t, p.h2, path, order)} }
	one := map[string][]*row{
		"http":  {h1(nginx), h1(haproxy), h1(reverse), h1(ours)},
		"h2":    {h2(nginx), h2(haproxy), h2(reverse), h2(ours)},
		"mixed": {{peer: ours, name: "gateway http to framed", load: overHTTP(t, ours.h1, ours.tofr, order)}},
		"framed": {
			{peer: ours, name: "gateway framed to framed, 2 KB", load: overFrames(t, ours.frames, order)},
			{peer: plant, name: "gateway framed to framed, small", load: overFrames(t, plant.frames, small)},
			{peer: ours, name: "gateway framed to echo inside, small", load: overFrames(t, ours.inside, small)},
		},
	}
	var all []*row
	for _, group := range []string{"http", "h2", "mixed", "framed"} {
		all = append(all, one[group]...)
	}
	for k := range *turns + 1 {
		for _, r := range all {
			r.turn(t, length, k > 0 || !*versus)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("order of %d octets both ways, reading of %d; %d connections, frames: %d under way", len(order), len(small), conns, window*framedConns)
	for _, r := range all {
		t.Logf("%-38s %7.2f µs CPU, %8.0f/s, %6.1f MiB", r.name, median(r.cost), median(r.rate), r.resident())
	}
	if !*versus {
		return
	}
	web := one["http"]
	rate := 0.8 * median(web[0].rate)
	for range *turns {
		for _, r := range web {
			took := r.load.pace(t, rate, length)
			r.p50 = append(r.p50, quantile(took, 0.5).Seconds()*1e3)
			r.p99 = append(r.p99, quantile(took, 0.99).Seconds()*1e3)
		}
	}
	for _, r := range web {
		t.Logf("%-38s at %.0f/s: p50 %.2f ms, p99 %.2f ms", r.name, rate, median(r.p50), median(r.p99))
	}
	cost := func(group string, i int) float64 { return median(one[group][i].cost) }
	judge(t, "CPU http : nginx", cost("http", 3)/cost("http", 0), 1.25, 1)
	judge(t, "CPU http : haproxy", cost("http", 3)/cost("http", 1), 0, 1)
	judge(t, "CPU http : httputil.ReverseProxy", cost("http", 3)/cost("http", 2), 0.5, 0.5)
	judge(t, "CPU h2 : httputil.ReverseProxy", cost("h2", 3)/cost("h2", 2), 0.7, 0.7)
	judge(t, "p99 http : nginx", median(web[3].p99)/median(web[0].p99), 1.5, 1.5)
	judge(t, "300,000 : frames per CPU second, echo inside", 300_000*cost("framed", 2)/1e6, 1, 300./700)
	judge(t, "300,000 : frames per CPU second, to frames", 300_000*cost("framed", 1)/1e6, 1, 300./700)
}

// turn runs a row's load once and notes what it cost.
func (r *row) turn(t *testing.T, length time.Duration, count bool) {
	t.Helper()
	before, err := r.cpu()
	if err != nil {
		t.Fatal(err)
	}
	n, took := r.load.saturate(t, length)
	after, err := r.cpu()
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatalf("%s: no exchange was made\n%s", r.name, r.log)
	}
	if count {
		r.cost = append(r.cost, (after-before).Seconds()*1e6/float64(n))
		r.rate = append(r.rate, float64(n)/took.Seconds())
	}
}

// judge logs a ratio beside what it must and should be at most; must 0 is no bound.
func judge(t *testing.T, name string, got, must, goal float64) {
	t.Helper()
	verdict := "goal reached"
	switch {
	case must > 0 && got > must:
		verdict = "MISSED"
	case got > goal:
		verdict = "goal not reached"
	}
	bound := "-"
	if must > 0 {
		bound = fmt.Sprintf("%.2f", must)
	}
	t.Logf("%-42s %5.2f must %s goal %.2f: %s", name, got, bound, goal, verdict)
}
