package selftest

import (
	"os/exec"
	"syscall"
)

// apart gives a process a group of its own, so that an interrupt at the terminal is for
// the gateway alone, and has the system end it when the gateway is killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
