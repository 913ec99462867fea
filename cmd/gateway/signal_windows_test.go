package main

import "github.com/rogpeppe/go-internal/testscript"

func scriptSignal(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("a process cannot be sent a signal here; guard the script with [!windows]")
}
