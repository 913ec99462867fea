//go:build !windows

package app

import (
	"errors"
	"syscall"
)

// inUse reports whether an address could not be bound because it is taken.
func inUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
