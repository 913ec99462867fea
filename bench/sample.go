package bench

import (
	"slices"
	"time"
)

// A Sampler reads what processes and the machine have used so far. Its zero
// knowledge is an error: rows then lack the figures.
type Sampler interface {
	// Process returns what a process has used since it began.
	Process(pid int) (Usage, error)
	// Machine returns what all processors have done since the boot.
	Machine() (Load, error)
	// Reaped returns the CPU time of the processes that this one has started and
	// that have ended.
	Reaped() time.Duration
}

// Usage is what a process has used since it began.
type Usage struct {
	CPU      time.Duration // user and system, all threads
	Reads    int64         // system calls that read: files, sockets, pipes
	Writes   int64
	Switches int64 // context switches, all threads that are alive
}

// Load is what all processors together have done since the boot.
type Load struct {
	Busy     time.Duration // not idle, steal left out
	Steal    time.Duration // what the hypervisor gave to others
	Pressure time.Duration // time in which at least one task waited for a processor; -1: not known
	CPUs     int
}

// Memory is what a process has in memory, in octets; what is not known is 0.
type Memory struct {
	RSS   uint64 // resident
	Peak  uint64 // the most that was resident
	PSS   uint64 // resident, what is shared counted in parts
	VSZ   uint64 // reserved; Go reserves far more than it uses
	Files int    // open descriptors
}

// memoryUse looks at the server side of a row, or at this process where client
// and server share it; nil where there is nothing to look at, or no way to.
func memoryUse(spec *Spec) *MemoryUse {
	use, pids := &MemoryUse{Of: "server"}, spec.Servers
	if spec.Processes == "one" {
		use.Of, pids = "both", []int{self}
	}
	if len(pids) == 0 {
		return nil
	}
	for _, pid := range pids {
		m, err := ReadMemory(pid)
		if err != nil {
			return nil // it has ended, or the system does not tell
		}
		use.RSS += m.RSS
		use.Peak += m.Peak
		use.PSS += m.PSS
		use.VSZ += m.VSZ
		use.Files += m.Files
	}
	return use
}

// sample is one look at all that a run is charged for.
type sample struct {
	at      time.Time
	client  Usage
	server  Usage
	own     time.Duration // CPU time of all processes of ours, dead ones too
	machine Load
	okOwn   bool // all of ours were read
	okAll   bool // and machine
	serving bool // there is a server process that could be read
}

func (m *Meter) sample() sample { return takeSample(m.sampler, m.servers, m.others) }

// takeSample looks at this process, the servers and other processes of ours.
func takeSample(s Sampler, servers []int, others func() []int) sample {
	x := sample{at: time.Now(), okOwn: true, serving: len(servers) > 0}
	if s == nil {
		return sample{at: x.at}
	}
	var err error
	if x.client, err = s.Process(self); err != nil {
		x.okOwn = false
	}
	x.own = x.client.CPU + s.Reaped()
	for _, pid := range servers {
		u, err := s.Process(pid)
		x.okOwn = x.okOwn && err == nil
		x.server = x.server.plus(u)
		x.own += u.CPU
	}
	for _, pid := range others() {
		if slices.Contains(servers, pid) {
			continue
		}
		// One that has ended meanwhile is among the reaped at the next look.
		if u, err := s.Process(pid); err == nil {
			x.own += u.CPU
		}
	}
	x.machine, err = s.Machine()
	x.okAll = err == nil && x.okOwn
	return x
}

func (u Usage) plus(o Usage) Usage {
	return Usage{u.CPU + o.CPU, u.Reads + o.Reads, u.Writes + o.Writes, u.Switches + o.Switches}
}

func (u Usage) minus(o Usage) Usage {
	return Usage{u.CPU - o.CPU, u.Reads - o.Reads, u.Writes - o.Writes, u.Switches - o.Switches}
}

func (u Usage) cost() Cost {
	return Cost{CPU: u.CPU.Seconds(), Reads: u.Reads, Writes: u.Writes, Switches: u.Switches}
}

// charge fills in what the run cost.
func (m *Meter) charge(r *Run) {
	if !m.before.okOwn || !m.after.okOwn {
		return
	}
	r.Client = m.after.client.minus(m.before.client).cost()
	if m.before.serving {
		c := m.after.server.minus(m.before.server).cost()
		r.Server = &c
	}
}

// strangers is what others did to the machine between two samples, as shares of
// all its processors (foreign, steal) and of the time (pressure). ok is false
// when that is not known.
func strangers(a, b sample) (foreign, steal, pressure float64, ok bool) {
	wall := b.at.Sub(a.at)
	if !a.okAll || !b.okAll || wall <= 0 || b.machine.CPUs == 0 {
		return 0, 0, 0, false
	}
	all := float64(wall) * float64(b.machine.CPUs)
	foreign = max(0, float64(b.machine.Busy-a.machine.Busy-(b.own-a.own))/all)
	steal = max(0, float64(b.machine.Steal-a.machine.Steal)/all)
	pressure = -1
	if a.machine.Pressure >= 0 && b.machine.Pressure >= 0 {
		pressure = min(1, float64(b.machine.Pressure-a.machine.Pressure)/float64(wall))
	}
	return foreign, steal, pressure, true
}
