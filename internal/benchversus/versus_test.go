//go:build linux

package benchversus

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

var (
	versus = flag.Bool("versus", false, "measure, which takes a minute")
	turns  = flag.Int("turns", 7, "turns of each side")
	turn   = flag.Duration("turn", 2*time.Second, "how long a turn is")
)

// patience bounds what takes a moment.
const patience = 30 * time.Second

// conns are the connections of both HTTP clients.
const conns = 8

// length and number of turns: a moment without -versus.
func plan() (time.Duration, int) {
	if *versus {
		return *turn, *turns
	}
	return time.Second, 1 // iperf3 and wrk count in seconds
}

func binary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("GATEWAY"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "gateway")
	if out, err := exec.Command("go", "build", "-o", bin, "soapway/cmd/gateway").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("%s is not installed: bash internal/benchversus/setup.sh", tool)
	}
	return path
}

// server starts a program that tells in its first line, as JSON, where it is.
func server(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, io.Discard
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return line
}

// run runs a program to its end; a gateway may end with 3, since how far its runs
// agree is not what is asked here.
func run(t *testing.T, length time.Duration, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience+4*length)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil && len(out) == 0 {
		t.Fatalf("%s %s: %v", filepath.Base(name), args, err)
	}
	return out
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// apart are the commands that keep a server on the first processor and clients on
// the others, so that it is the server that limits and not the processor which both
// share; empty where that is not possible.
func apart() (server, client []string) {
	taskset, err := exec.LookPath("taskset")
	if n := runtime.NumCPU(); err == nil && n > 1 {
		return []string{taskset, "-c", "0"}, []string{taskset, "-c", fmt.Sprintf("1-%d", n-1)}
	}
	return nil, nil
}

// command puts what keeps a program on some processors in front of it.
func command(on []string, name string, args ...string) (string, []string) {
	all := slices.Concat(on, []string{name}, args)
	return all[0], all[1:]
}

// A goal is what a ratio, ours by theirs, has to be.
type goal struct{ low, high float64 }

// near is a ratio of 1, give or take a share.
func near(share float64) goal { return goal{1 - share, 1 + share} }

// compare lets both sides take turns, each first in every other turn, and says how
// far apart they are: by the median of the ratios of the turns, since both sides of
// a turn met the same machine.
func compare(t *testing.T, what, unit string, want goal, ours, theirs func() float64) {
	t.Helper()
	_, n := plan()
	var a, b []float64
	for i := range n {
		if i%2 == 0 {
			a, b = append(a, ours()), append(b, theirs())
		} else {
			b, a = append(b, theirs()), append(a, ours())
		}
	}
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	ratio := median(ratios)
	t.Logf("%s: ours %.0f %s, theirs %.0f %s, ratio %.3f", what, median(a), unit, median(b), unit, ratio)
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio <= 0 {
		t.Fatalf("%s: no figure", what)
	}
	// What misses its goal is said, and is no failure: other work moves it.
	if *versus {
		verdict := "met"
		if ratio < want.low || ratio > want.high {
			verdict = "MISSED"
		}
		t.Logf("%s: %s, want a ratio of %.2f to %.2f, turns %.2f", what, verdict, want.low, want.high, ratios)
	}
}

// TestVersusWrk: the raw HTTP client finds the rate that wrk finds, with server and
// clients on processors of their own.
func TestVersusWrk(t *testing.T) {
	onServer, onClient := apart()
	versusWrk(t, "processors of their own", onServer, onClient)
}

// TestVersusWrkShared: the same where both share all processors, so that a client
// which costs more leaves less to the server.
func TestVersusWrkShared(t *testing.T) { versusWrk(t, "shared processors", nil, nil) }

func versusWrk(t *testing.T, how string, onServer, onClient []string) {
	t.Helper()
	wrk, bin := need(t, "wrk"), binary(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("gateway.yaml", `{listeners: [{name: web, address: "127.0.0.1:0"}], admin: {address: "127.0.0.1:0"}, routes: [{name: echo, match: {path: /echo}, to: ["builtin:echo"]}]}`)
	var ready struct {
		Listeners []struct{ Address string }
	}
	name, args := command(onServer, bin, "serve", "-c", "gateway.yaml", "--json")
	if err := json.Unmarshal(server(t, dir, name, args...), &ready); err != nil || len(ready.Listeners) != 1 {
		t.Fatalf("ready line: %v, %+v", err, ready)
	}
	url := "http://" + ready.Listeners[0].Address + "/echo"
	// As long as the messages of bench ping.
	script := write("post.lua", `wrk.method = "POST"
wrk.headers["Content-Type"] = "text/xml; charset=utf-8"
wrk.headers["SOAPAction"] = '""'
local head = '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><b:ping xmlns:b="urn:soapway:bench"><b:n>1</b:n><b:t>'
local tail = '</b:t></b:ping></s:Body></s:Envelope>'
wrk.body = head .. string.rep("a", 225 - #head - #tail) .. tail
`)
	length, _ := plan()
	perSecond := regexp.MustCompile(`Requests/sec: +([0-9.]+)`)
	compare(t, fmt.Sprintf("raw HTTP client, %d connections, %s : wrk", conns, how), "/s", near(0.15),
		func() float64 {
			var r struct {
				Tests []struct {
					Summary struct {
						Mean   float64
						Errors int
					}
				}
			}
			name, args := command(onClient, bin, "bench", "ping", "--combo", "rh", "--target", url, "--conns", strconv.Itoa(conns),
				"--runs", "1", "--max-runs", "1", "--duration", length.String(), "--json", "--no-progress")
			out := run(t, length, name, args...)
			if err := json.Unmarshal(out, &r); err != nil || len(r.Tests) != 1 || r.Tests[0].Summary.Errors > 0 {
				t.Fatalf("bench ping: %v\n%s", err, out)
			}
			return r.Tests[0].Summary.Mean
		},
		func() float64 {
			name, args := command(onClient, wrk, "-t1", "--timeout", "30s", "-c"+strconv.Itoa(conns), fmt.Sprintf("-d%.0fs", length.Seconds()), "-s", script, url)
			out := run(t, length, name, args...)
			m := perSecond.FindSubmatch(out)
			if m == nil || regexp.MustCompile(`Non-2xx|Socket errors`).Match(out) {
				t.Fatalf("wrk:\n%s", out)
			}
			v, _ := strconv.ParseFloat(string(m[1]), 64)
			return v
		})
}

// TestVersusIperf: a raw stream finds what iperf3 finds with writes of the same size
// on a line of 1 Gbit/s, where it is the line that limits.
func TestVersusIperf(t *testing.T) {
	need(t, "iperf3")
	versusIperf(t, "a line of 1 Gbit/s", near(0.10), line(t))
}

// TestVersusIperfLoopback: over the loopback it is the tool that limits: how much it
// does for each buffer. Ours may not do more than iperf3; it does less.
func TestVersusIperfLoopback(t *testing.T) {
	versusIperf(t, "loopback", goal{0.9, math.Inf(1)}, nil)
}

// line makes a network of its own whose loopback carries 1 Gbit/s, in packets as an
// Ethernet has them, and returns the command that puts a program into it.
func line(t *testing.T) (in []string) {
	t.Helper()
	nsenter := need(t, "nsenter")
	for _, tool := range []string{"unshare", "ip", "tc"} {
		need(t, tool)
	}
	if os.Geteuid() != 0 {
		t.Skip("a network of its own takes root")
	}
	cmd := exec.Command("unshare", "-n", "sh", "-ec", "ip link set lo mtu 1500 up; tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 50ms; echo ok; exec cat")
	hold, err := cmd.StdinPipe() // its end is the end of the network
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Close(); _ = cmd.Wait() })
	if word, err := bufio.NewReader(out).ReadString('\n'); err != nil || word != "ok\n" {
		t.Skipf("this system gives no line of its own: %v", err)
	}
	return []string{nsenter, "-n", "-t", strconv.Itoa(cmd.Process.Pid)}
}

// versusIperf compares streams; in is the command that puts a program where they go.
func versusIperf(t *testing.T, where string, want goal, in []string) {
	t.Helper()
	iperf, bin := need(t, "iperf3"), binary(t)
	var ready struct{ Address string }
	name, args := command(in, bin, "bench", "net", "server", "-port", "0", "-json")
	if err := json.Unmarshal(server(t, t.TempDir(), name, args...), &ready); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ready.Address)
	if err != nil {
		t.Fatal(err)
	}
	length, _ := plan()
	for _, size := range []int{1500, 64 << 10} {
		compare(t, fmt.Sprintf("raw stream by %d octets, %s : iperf3", size, where), "Mbit/s", want,
			func() float64 {
				var r struct {
					Avg float64 `json:"avg_mbit_per_s"`
				}
				name, args := command(in, bin, "bench", "net", "client", "-server", "127.0.0.1", "-port", port, "-protocol", "raw", "-size", strconv.Itoa(size), "-json")
				out := run(t, length, name, args...)
				if err := json.Unmarshal(out, &r); err != nil {
					t.Fatalf("bench net: %v\n%s", err, out)
				}
				return r.Avg
			},
			func() float64 { return iperfRate(t, in, iperf, size, length) })
	}
}

// iperfRate is what the receiving end of iperf3 has counted, in Mbit/s.
func iperfRate(t *testing.T, in []string, iperf string, size int, length time.Duration) float64 {
	t.Helper()
	// A port that was free a moment ago: iperf3 cannot choose one by itself.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	name, args := command(in, iperf, "-s", "-1", "-B", "127.0.0.1", "-p", port)
	srv := exec.Command(name, args...)
	said, err := srv.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Process.Kill(); _ = srv.Wait() }()
	go func() { _, _ = io.Copy(io.Discard, said) }()
	var r struct {
		Error string
		End   struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	for end := time.Now().Add(patience); ; {
		name, args := command(in, iperf, "-c", "127.0.0.1", "-p", port, "-l", strconv.Itoa(size), "-t", fmt.Sprintf("%.0f", length.Seconds()), "-J")
		out := run(t, length, name, args...)
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("iperf3: %v\n%s", err, out)
		}
		if r.Error == "" {
			return r.End.Received.Bits / 1e6
		}
		if time.Now().After(end) { // it does not listen yet
			t.Fatalf("iperf3: %s", r.Error)
		}
		r.Error = ""
	}
}
