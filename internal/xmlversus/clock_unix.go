//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of all cores.
func cpuTime() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}
