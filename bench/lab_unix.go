//go:build !windows

package bench

import (
	"os"
	"syscall"
)

// terminate asks a process to stop.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
