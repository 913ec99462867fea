//go:build !windows

package main

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("usage: send-signal HUP|TERM|INT")
	}
	ts.Check(running(ts).cmd.Process.Signal(signals[args[0]]))
}
