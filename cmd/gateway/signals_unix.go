//go:build !windows

package main

import (
	"os"
	"syscall"
)

// serveSignals are those that serve answers.
var serveSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func isReload(s os.Signal) bool { return s == syscall.SIGHUP }
