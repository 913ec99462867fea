package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the system stop the process when this one is killed, and
// only then: an interrupt at the terminal is for this process alone, which may
// still have something to measure.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

// onCPUs calls start on a thread that may use only these processors, which a
// process that it starts inherits. None means all.
func onCPUs(cpus []int, start func() error) (err error) {
	if len(cpus) == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	if err := setCPUs(0, cpus); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.SchedSetaffinity(0, &before)) }()
	return start()
}

// PinSelf lets the threads of this process use only these processors.
func PinSelf(cpus []int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("bench: processors: %w", err)
	}
	for _, t := range threads {
		var tid int
		if _, err := fmt.Sscan(t.Name(), &tid); err != nil {
			continue
		}
		if err := setCPUs(tid, cpus); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return nil
}

func setCPUs(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("processors %v: %w", cpus, err)
	}
	return nil
}
