package bench

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// tick is the unit of CPU time in /proc/stat on every architecture that Go has.
const tick = 10 * time.Millisecond

// proc is the Sampler of Linux.
type proc struct {
	fs procfs.FS
	// irqApart: the kernel keeps the time of interrupts out of the processes, so
	// that the work which the network does for ours belongs to nobody. It is
	// left out of what the machine does as well.
	irqApart bool
}

// NewSampler returns the Sampler of this system.
func NewSampler() (Sampler, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return &proc{fs: fs, irqApart: irqApart()}, nil
}

// irqApart reads how the kernel was built (CONFIG_IRQ_TIME_ACCOUNTING), if it
// tells. Most that do not are those of distributions, which have it.
func irqApart() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return true
	}
	config, err := os.ReadFile("/boot/config-" + unix.ByteSliceToString(u.Release[:]))
	if err != nil {
		if config, err = readGzip("/proc/config.gz"); err != nil {
			return true
		}
	}
	return bytes.Contains(config, []byte("\nCONFIG_IRQ_TIME_ACCOUNTING=y"))
}

func readGzip(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Process adds up the threads: the CPU time of /proc/PID/stat has steps of 10 ms,
// that of a thread's schedstat one of 1 ns, and a run may be shorter than ten
// steps. A thread that has ended is lost, but the runtime of Go keeps its own.
func (p *proc) Process(pid int) (Usage, error) {
	var u Usage
	pr, err := p.fs.Proc(pid)
	if err != nil {
		return u, err
	}
	io, err := pr.IO()
	if err != nil {
		return u, err
	}
	u.Reads, u.Writes = int64(io.SyscR), int64(io.SyscW)
	tasks, err := os.ReadDir(filepath.Join(procfs.DefaultMountPoint, strconv.Itoa(pid), "task"))
	if err != nil {
		return u, err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		thread, err := pr.Thread(tid)
		if err != nil {
			continue // it has ended meanwhile
		}
		if s, err := thread.Schedstat(); err == nil {
			u.CPU += time.Duration(s.RunningNanoseconds)
		}
		if s, err := thread.NewStatus(); err == nil {
			u.Switches += int64(s.VoluntaryCtxtSwitches + s.NonVoluntaryCtxtSwitches)
		}
	}
	if u.CPU == 0 { // a kernel without schedstat
		if s, err := pr.Stat(); err == nil {
			u.CPU = time.Duration(s.UTime+s.STime) * tick
		}
	}
	return u, nil
}

// Reaped implements [Sampler].
func (p *proc) Reaped() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Machine implements [Sampler].
func (p *proc) Machine() (Load, error) {
	s, err := p.fs.Stat()
	if err != nil {
		return Load{}, err
	}
	c := s.CPUTotal
	seconds := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	l := Load{
		Busy:     seconds(c.User + c.Nice + c.System),
		Steal:    seconds(c.Steal),
		Pressure: -1,
		CPUs:     len(s.CPU),
	}
	if !p.irqApart {
		l.Busy += seconds(c.IRQ + c.SoftIRQ)
	}
	if psi, err := p.fs.PSIStatsForResource("cpu"); err == nil && psi.Some != nil {
		l.Pressure = time.Duration(psi.Some.Total) * time.Microsecond
	}
	return l, nil
}

// ReadMemory returns what a process has in memory.
func ReadMemory(pid int) (Memory, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Memory{}, fmt.Errorf("bench: %w", err)
	}
	p, err := fs.Proc(pid)
	if err != nil {
		return Memory{}, fmt.Errorf("bench: %w", err)
	}
	s, err := p.NewStatus()
	if err != nil {
		return Memory{}, fmt.Errorf("bench: %w", err)
	}
	m := Memory{RSS: s.VmRSS, Peak: s.VmHWM, VSZ: s.VmSize}
	if roll, err := p.ProcSMapsRollup(); err == nil {
		m.PSS = roll.Pss
	}
	if n, err := p.FileDescriptorsLen(); err == nil {
		m.Files = n
	}
	return m, nil
}
