//go:build !linux

package bench

import (
	"errors"
	"os/exec"
)

// dieWithParent does nothing here: peers end with their standard input, and a
// gateway that outlives a bench that was killed must be stopped by hand.
func dieWithParent(*exec.Cmd) {}

func onCPUs(cpus []int, start func() error) error {
	if len(cpus) > 0 {
		return errPin
	}
	return start()
}

// PinSelf lets the threads of this process use only these processors. It fails
// on systems other than Linux.
func PinSelf([]int) error { return errPin }

var errPin = errors.New("bench: processors can be chosen on Linux only")
