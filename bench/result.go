package bench

import (
	"slices"
	"time"
)

// Schema is the version of [Results] as JSON.
const Schema = 1

// Results is what a self-test found: the content of results.json.
type Results struct {
	Schema  int      `json:"schema"` // always [Schema]
	Env     Env      `json:"env"`
	Limits  *Limits  `json:"limits,omitempty"` // nil: not measured
	Tests   []Test   `json:"tests"`
	Require []Check  `json:"require,omitempty"` // what --require asked for
	Verdict string   `json:"verdict"`           // one line for people
	Notes   []string `json:"notes,omitempty"`   // what else to know, each a sentence
}

// Env is where and by what the results were measured.
type Env struct {
	Version    string    `json:"version"`
	Commit     string    `json:"commit,omitempty"`
	Go         string    `json:"go"`
	OS         string    `json:"os"`
	Arch       string    `json:"arch"`
	CPU        string    `json:"cpu,omitempty"` // model name
	CPUs       int       `json:"cpus"`
	GOMAXPROCS int       `json:"gomaxprocs"`
	Kernel     string    `json:"kernel,omitempty"`
	Host       string    `json:"host,omitempty"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"` // how long all took
	Command    []string  `json:"command"` // the arguments as typed, without secrets
}

// A Test is one row: one thing, measured in several runs.
type Test struct {
	Name     string `json:"name"`            // such as "ping"
	Combo    string `json:"combo,omitempty"` // such as "ff"; with Name unique in [Results]
	Label    string `json:"label"`           // such as "framed - framed"
	Founding string `json:"founding,omitempty"`
	Loop     string `json:"loop"` // see [Loop]
	// Processes says whether client and server share one: "separate" or "one",
	// "" where there are no two sides.
	Processes string `json:"processes,omitempty"`
	// Unit is that of Run.Value: "messages/s", "s", "Mbit/s", "µs".
	Unit          string         `json:"unit"`
	LowerIsBetter bool           `json:"lower_is_better,omitempty"`
	Conns         int            `json:"conns,omitempty"`
	Size          int            `json:"size,omitempty"`   // octets of a message
	Params        map[string]any `json:"params,omitempty"` // other settings that the row depends on
	Cold          *Run           `json:"cold,omitempty"`   // the warm-up pass; never averaged
	Runs          []Run          `json:"runs"`
	Summary       Summary        `json:"summary"`
	Measures      []Measure      `json:"measures,omitempty"` // means of those of the runs, and the row's own
	Memory        *MemoryUse     `json:"memory,omitempty"`   // after the last run; nil: not known
	Limit         *Limit         `json:"limit,omitempty"`
	Eff           *float64       `json:"eff,omitempty"` // how near to Limit, 0 to 1
	Limiter       string         `json:"limiter,omitempty"`
	Verdict       Verdict        `json:"verdict"`
	Reasons       []string       `json:"reasons,omitempty"` // why it is not plainly valid
	// Detail is what only this test has, such as the probes of threads.
	Detail any `json:"detail,omitempty"`
}

// The kinds of load.
const (
	LoopClosed = "closed" // the next request waits for the reply before
	LoopOpen   = "open"   // requests have due times, and latency counts from them
	LoopNone   = ""       // nothing is sent: sizes, counts
)

// A Verdict says how far a row can be believed.
type Verdict string

// The verdicts, from good to bad.
const (
	Valid     Verdict = "valid"
	Disturbed Verdict = "DISTURBED" // others used the machine; the runs agree all the same
	Generator Verdict = "GENERATOR" // the sender could not keep its times: it says nothing about the server
	Invalid   Verdict = "INVALID"   // runs that disagree, or a law that does not hold
	Wrong     Verdict = "WRONG"     // replies that failed or were not the right ones
)

// worse returns the worse of two verdicts.
func worse(a, b Verdict) Verdict {
	order := []Verdict{Valid, Disturbed, Generator, Invalid, Wrong}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// A Run is one measured pass.
type Run struct {
	Value      float64   `json:"value"` // the score, in Test.Unit
	Rate       float64   `json:"rate"`  // right replies per second
	Ops        int64     `json:"ops"`   // right replies
	Seconds    float64   `json:"seconds"`
	Errors     int64     `json:"errors"`
	FirstError string    `json:"first_error,omitempty"`
	Scheduled  int64     `json:"scheduled,omitempty"` // open loop: requests that were due
	Sent       int64     `json:"sent,omitempty"`      // open loop: those that were sent
	Latency    Latency   `json:"latency_us"`          // closed: send to reply; open: due to reply
	Service    *Latency  `json:"service_us,omitempty"`
	Lag        *Latency  `json:"lag_us,omitempty"` // open loop: how late the sender was by its own fault
	Client     Cost      `json:"client"`
	Server     *Cost     `json:"server,omitempty"` // nil: on another machine, or not known here
	Series     []float64 `json:"series_per_s,omitempty"`
	HDR        string    `json:"hdr_base64,omitempty"` // Latency as an HDR histogram (V2, compressed), in ns
	Little     *float64  `json:"little,omitempty"`     // rate × cycle ÷ callers; 1 when all is counted
	Foreign    *float64  `json:"foreign,omitempty"`    // share of the machine that others used, 0 to 1
	Steal      *float64  `json:"steal,omitempty"`      // share that the hypervisor took
	Pressure   *float64  `json:"pressure,omitempty"`   // share of the time in which a task waited for a CPU
	Verdict    Verdict   `json:"verdict"`
	Reasons    []string  `json:"reasons,omitempty"`
	Measures   []Measure `json:"measures,omitempty"`
}

// Latency summarises a histogram, in microseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Cost is what one side of a run used.
type Cost struct {
	CPU      float64 `json:"cpu_s"` // seconds of CPU time, user and system
	Reads    int64   `json:"reads"` // system calls that read
	Writes   int64   `json:"writes"`
	Switches int64   `json:"switches"` // context switches
}

// Summary is over the values of all runs.
type Summary struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Spread float64 `json:"spread"` // (max−min)/mean
	CoV    float64 `json:"cov"`    // standard deviation/mean
	// CI95 is the half width of the 95 % interval of the mean, by Student's t, as
	// a share of the mean; absent with fewer than two runs.
	CI95 *float64 `json:"ci95,omitempty"`
	// Latency is over the operations of all runs together.
	Latency Latency `json:"latency_us"`
	Errors  int64   `json:"errors"`
	PerOp   *PerOp  `json:"per_op,omitempty"` // nil where there are no operations
}

// PerOp is what one operation costs, over all runs.
type PerOp struct {
	ClientCPU float64  `json:"client_cpu_us"`
	ServerCPU *float64 `json:"server_cpu_us,omitempty"` // nil: not known
	Reads     float64  `json:"reads"`                   // of both sides, as far as known; so the next two
	Writes    float64  `json:"writes"`
	Switches  float64  `json:"switches"`
	// Ceiling is how many operations a second all processors of this machine could
	// do at that cost; absent where the cost of a side is not known.
	Ceiling float64 `json:"ceiling_per_s,omitempty"`
}

// MemoryUse is what the processes of one side had in memory together, in octets;
// what is not known is 0.
type MemoryUse struct {
	Of    string `json:"of"`         // "server", or "both" where client and server share a process
	RSS   uint64 `json:"rss_bytes"`  // resident
	Peak  uint64 `json:"peak_bytes"` // the most that was resident since the process began
	PSS   uint64 `json:"pss_bytes"`  // resident, what is shared counted in parts
	VSZ   uint64 `json:"vsz_bytes"`  // reserved; Go reserves far more than it uses
	Files int    `json:"files"`      // open descriptors
}

// Measure is a figure beside the score.
type Measure struct {
	Name  string  `json:"name"` // lower case, such as "rss"
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "s", "B", "/s", "bit/s", or "" for a count or a share
}

// Limit is what this machine lets a row reach at most.
type Limit struct {
	Name  string  `json:"name"`  // such as "TCP round trip"
	Value float64 `json:"value"` // in Test.Unit
}

// A Check is one expression of --require and what came of it.
type Check struct {
	Expr string  `json:"expr"`
	Row  string  `json:"row"` // such as "ping.ff"; "" when no row fits
	Got  float64 `json:"got"`
	Unit string  `json:"unit"` // of Got, as that of a Measure
	OK   bool    `json:"ok"`
	// Void is true when the row cannot be believed, so that nothing was decided.
	Void bool `json:"void,omitempty"`
}
