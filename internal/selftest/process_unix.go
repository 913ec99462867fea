//go:build !windows

package selftest

import (
	"os/exec"
	"syscall"
)

// terminate asks a process to stop.
func terminate(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }

// kill ends a process and those of its group.
func kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Process.Kill()
}
