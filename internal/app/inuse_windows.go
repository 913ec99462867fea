package app

import (
	"errors"
	"syscall"
)

// inUse reports whether an address could not be bound because it is taken.
func inUse(err error) bool {
	const wsaeaddrinuse = syscall.Errno(10048)
	return errors.Is(err, wsaeaddrinuse)
}
