package main

import (
	"os"
	"syscall"
)

// serveSignals are those that serve answers. Windows has none that would mean a
// reload; a changed file is noticed.
var serveSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

func isReload(os.Signal) bool { return false }
