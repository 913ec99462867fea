package bench

import (
	"fmt"
	"runtime"
)

// The shares at which a resource counts as used up.
const (
	cpuFull = 0.90
	idle    = 0.30 // of one processor: below it nothing computes
)

// limiter answers "why not double?" for a row: what both sides wait for. It
// knows processors and waiting; disk, network and descriptors are named by the
// scenarios that use them ([Spec.Limiter]).
func limiter(t *Test, spec *Spec) string {
	cores, known := coresUsed(t.Runs)
	if !known {
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
