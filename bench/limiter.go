package bench

import (
	"fmt"
	"runtime"
)

// The shares at which a resource counts as used up.
const (
	cpuFull  = 0.90
	diskFull = 0.80 // of the time, with a sync under way
	netFull  = 0.85 // of what the line carries
	idle     = 0.30 // of one processor: below it nothing computes
)

// limiterDisk is the limiter of rows that wait for the disk.
const limiterDisk = "disk"

// limiter answers "why not double?" for a row: what both sides wait for. It
// knows processors, the line of the network and waiting; the disk, descriptors and
// what else a test knows are named by its scenario ([Spec.Limiter]).
func limiter(t *Test, spec *Spec) string {
	if spec.Line > 0 && lineUsed(t, spec) >= netFull {
		return "network"
	}
	cores, known := coresUsed(t.Runs)
	if spec.Processes == "one" {
		cores = clientCores(t.Runs)
		known = cores > 0
	}
	if !known {
		if client := clientCores(t.Runs); client >= cpuFull*cpus() || spec.Serial && client >= cpuFull {
			return "generator (its processors are busy)"
		}
		return "unknown (the server's processor time is not known here)"
	}
	can := cpus()
	if spec.Serial {
		can = 1
	}
	if cores >= cpuFull*can {
		return "cpu"
	}
	if s := stall(cores, t.Summary.Latency.P50); s != "" {
		return s
	}
	if others := foreignCores(t.Runs); others > maxForeign*cpus() && cores+others >= cpuFull*cpus() {
		return "cpu (others use most of the rest)"
	}
	if p := t.Summary.PerOp; p != nil && spec.Serial && cores >= idle && p.Switches >= 1 {
		return "waiting (wake-up)"
	}
	return "waiting"
}

// coresUsed is how many processors client and server used on average. It is
// known only when both were on this machine.
func coresUsed(runs []Run) (cores float64, known bool) {
	var cpu, wall float64
	for _, r := range runs {
		if r.Server == nil {
			return 0, false
		}
		cpu += r.Client.CPU + r.Server.CPU
		wall += r.Seconds
	}
	return cpu / max(wall, 1e-9), wall > 0
}

// clientCores is how many processors the client used on average.
func clientCores(runs []Run) float64 {
	var cpu, wall float64
	for _, r := range runs {
		cpu += r.Client.CPU
		wall += r.Seconds
	}
	return cpu / max(wall, 1e-9)
}

// foreignCores is how many processors others used on average, where that is known.
func foreignCores(runs []Run) (cores float64) {
	for _, r := range runs {
		if r.Foreign != nil {
			cores += *r.Foreign * cpus() / float64(len(runs))
		}
	}
	return cores
}

// lineUsed is the share of the line that a row fills: of a score in Mbit/s, or of
// messages that go and come at their size.
func lineUsed(t *Test, spec *Spec) float64 {
	mbit := t.Summary.Mean
	if t.Unit != "Mbit/s" {
		mbit = 0
		for _, r := range t.Runs {
			mbit += r.Rate * float64(spec.Size) * 8 / 1e6 / float64(len(t.Runs))
		}
	}
	return mbit / spec.Line
}

// stall recognises requests that wait for nothing but a timer of the network:
// the founding measurement of 24.9 messages a second on an idle processor was 40.2 ms
// a message, the delayed acknowledgement of Linux, and 200 ms is that of others.
// p50 is in microseconds.
func stall(cores, p50 float64) string {
	ms := p50 / 1e3
	if cores >= idle || (ms < 35 || ms > 50) && (ms < 190 || ms > 210) {
		return ""
	}
	return fmt.Sprintf("WAITING: %.0f ms on an idle processor looks like Nagle x delayed ACK; head and body written in two writes?", ms)
}

func cpus() float64 { return float64(runtime.NumCPU()) }
