package main

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// BenchmarkStart measures from the start of the process to its ready line, and
// the resident memory of the idle gateway: the second run on, since the first
// reads the binary from the disk. The promise is 250 ms and 64 MiB; a run that
// breaks it fails. Measure: go test ./cmd/gateway -run '^$' -bench Start
func BenchmarkStart(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "gateway")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if out, err := osexec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gateway.yaml"), []byte(smallest), 0o600); err != nil {
		b.Fatal(err)
	}
	start := func() (time.Duration, float64) {
		began := time.Now()
		p, err := launch(bin, dir, os.Environ(), "--json")
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(began)
		rss, err := residentMiB(p.cmd.Process.Pid)
		p.kill()
		if err != nil {
			b.Skip(err)
		}
		return took, rss
	}
	start()
	var total time.Duration
	var rss float64
	n := 0
	for b.Loop() {
		took, resident := start()
		total += took
		rss = max(rss, resident)
		n++
	}
	ms := float64(total.Microseconds()) / 1000 / float64(n)
	b.ReportMetric(ms, "ms/start")
	b.ReportMetric(rss, "MiB-RSS")
	if ms >= 250 || rss >= 64 {
		b.Errorf("a start takes %.0f ms and %.1f MiB, want less than 250 ms and 64 MiB", ms, rss)
	}
}

var vmRSS = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// residentMiB reads the resident memory of a process where the system tells it.
func residentMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory is measured on Linux only: %w", err)
	}
	m := vmRSS.FindSubmatch(status)
	if m == nil {
		return 0, fmt.Errorf("no VmRSS in\n%s", status)
	}
	kb, err := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024, err
}
