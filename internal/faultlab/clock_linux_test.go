package faultlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// clockEnv is by how many seconds a shifted binary takes the wall clock to be ahead.
const clockEnv = "FAULTLAB_CLOCK"

// clockSource is added to package time.
const clockSource = `package time

import "syscall"

var labClock = readLabClock()

func readLabClock() (seconds int64) {
	s, _ := syscall.Getenv("` + clockEnv + `")
	for i := range len(s) {
		if c := s[i]; '0' <= c && c <= '9' {
			seconds = seconds*10 + int64(c-'0')
		}
	}
	if len(s) > 0 && s[0] == '-' {
		return -seconds
	}
	return seconds
}
`

// shiftedBinary is the gateway as it is, every line of it, built with a package time
// whose wall clock is ahead or behind by what the environment says. The kernel has no
// namespace for that clock, and a library that is put before the C library has no say in
// a program that asks the kernel itself. So everything that asks for the time gets the
// shifted one, TLS and the store's server too; the monotonic clock, by which the process
// waits, is that of the machine, as it is where somebody has set the clock wrong.
var shiftedBinary = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(dir, "time.go"))
	if err != nil {
		return "", err
	}
	const asks = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	patched := strings.Replace(string(text), asks, asks+"\tsec += labClock\n", 1)
	if patched == string(text) {
		return "", errors.New("time.Now of this Go is written in another way: mend shiftedBinary")
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for name, content := range map[string]string{"time.go": patched, "lab_clock.go": clockSource} {
		file := filepath.Join(scratch, "time-"+name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return "", err
		}
		overlay["Replace"][filepath.Join(dir, name)] = file
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file, bin := filepath.Join(scratch, "overlay.json"), filepath.Join(scratch, "gateway-clock")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-overlay", file, "-o", bin, "./cmd/gateway")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build -overlay ./cmd/gateway: %w\n%s", err, out)
	}
	return bin, nil
})
