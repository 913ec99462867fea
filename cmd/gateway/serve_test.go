package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

const smallest = `
listeners: [{name: web, address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
routes: [{name: echo, to: ["builtin:echo"]}]
`

// serve runs a gateway with a configuration in a folder of its own until the
// end of the test.
func serve(tb testing.TB, bin, yaml string, args ...string) *process {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gateway.yaml"), []byte(yaml), 0o600); err != nil {
		tb.Fatal(err)
	}
	p, err := launch(bin, dir, os.Environ(), args...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.kill)
	return p
}

// TestReadyForPeople: without --json the ready line is for people, still one
// line, and the log goes to stderr.
func TestReadyForPeople(t *testing.T) {
	p := serve(t, binaryName, smallest)
	want := regexp.MustCompile(`^ready: web http://127\.0\.0\.1:[1-9]\d*, admin http://127\.0\.0\.1:[1-9]\d* \(gateway \S+, \S*gateway\.yaml, \d+\.\d ms\)\n$`)
	if got := p.stdout.String(); !want.MatchString(got) {
		t.Errorf("ready line: got %q, want %v", got, want)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != 0 {
		t.Errorf("after an interrupt: exit code %d, %v; log:\n%s", code, err, p.log)
	}
	if got := p.stdout.String(); !want.MatchString(got) {
		t.Errorf("stdout has more than the ready line: %q", got)
	}
}
