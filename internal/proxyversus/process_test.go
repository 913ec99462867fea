//go:build linux

package proxyversus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a proxy under test, with its children.
type process struct {
	pid int
	log *tail
}

// tail keeps what a process prints, to be shown when it fails.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.b) < 64<<10 {
		l.b = append(l.b, p...)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// start runs a command until the test ends and waits until somebody listens at
// each address.
func start(t testing.TB, cmd *exec.Cmd, addresses ...string) *process {
	t.Helper()
	p := &process{log: &tail{}}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, address := range addresses {
		if err := p.await(ctx, address, gone); err != nil {
			t.Fatalf("%s: %v\n%s", cmd.Path, err, p.log)
		}
	}
	return p
}

func (p *process) await(ctx context.Context, address string, gone <-chan error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		select {
		case err := <-gone:
			return fmt.Errorf("it ended: %w", errors.Join(err, errors.New("nobody listens")))
		case <-ctx.Done():
			return fmt.Errorf("nobody listens at %s", address)
		case <-tick.C:
		}
	}
}

// family returns the process and its children: nginx works in one of its own.
func (p *process) family() []int {
	all := []int{p.pid}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	if err != nil {
		return all
	}
	for f := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(f); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// cpu is the time that all threads of the process have run for.
func (p *process) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range p.family() {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(files) == 0 {
			return 0, fmt.Errorf("process %d: no schedstat: %w", pid, errors.Join(err, os.ErrNotExist))
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				continue // the thread has ended between the two
			}
			fields := strings.Fields(string(b))
			if len(fields) == 0 {
				return 0, fmt.Errorf("%s: got %q", file, b)
			}
			ns, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			sum += time.Duration(ns)
		}
	}
	return sum, nil
}

// resident is the memory of the process in MiB.
func (p *process) resident() float64 {
	var sum float64
	for _, pid := range p.family() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(b) {
			if kb, found := bytes.CutPrefix(line, []byte("VmRSS:")); found {
				n, _ := strconv.ParseFloat(strings.Fields(string(kb))[0], 64)
				sum += n / 1024
			}
		}
	}
	return sum
}

// free returns addresses on loopback at which nobody listens.
func free(t testing.TB, n int) []string {
	t.Helper()
	var all []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		all = append(all, ln.Addr().String())
	}
	return all
}

// find looks for a program, also where administrators keep theirs.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if path = filepath.Join("/usr/sbin", name); exists(path) {
		return path, nil
	}
	return "", err
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// write makes a file in the folder of the test.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func median[T ~int64 | ~float64](v []T) T {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
