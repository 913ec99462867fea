package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a process.
const patience = 30 * time.Second

// An output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String gives the last part of the output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.buf.Bytes()
	return string(b[max(0, len(b)-4000):])
}

// freePort returns a loopback port that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// startPeer runs a server and waits until it accepts connections; it is killed
// when the test ends.
func startPeer(t *testing.T, name, address string, argv ...string) {
	t.Helper()
	out := &output{}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v (interop/setup.sh installs the peers)", name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed: there is always an error
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, out)
		}
	})
	deadline := time.After(patience)
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			c.Close()
			return
		}
		select {
		case <-retry.C:
		case <-exited:
			t.Fatalf("%s ended before it listened:\n%s", name, out)
		case <-deadline:
			t.Fatalf("%s does not listen on %s after %s:\n%s", name, address, patience, out)
		}
	}
}

// buildGateway compiles the binary under test once.
var buildGateway = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(scratch, "gateway")
	cmd := exec.Command("go", "build", "-o", bin, "../cmd/gateway")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ../cmd/gateway: %w\n%s", err, out)
	}
	return bin, nil
})

var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "interop"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// ready is what serve prints once it listens.
type ready struct {
	Ready     bool
	Listeners []struct{ Name, Address string }
}

// startGateway runs the binary with a configuration and returns the address of
// each listener by name. At the end of the test it must stop cleanly on SIGTERM.
func startGateway(t *testing.T, config string) map[string]string {
	t.Helper()
	addresses, _ := startProcess(t, config)
	return addresses
}

// startProcess is startGateway, with the number of the process.
func startProcess(t *testing.T, config string) (map[string]string, int) {
	t.Helper()
	bin, err := buildGateway()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "serve", "--json", "-c", file)
	log := &output{}
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan []byte, 1), make(chan error, 1)
	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadBytes('\n')
		lines <- line
		_, _ = io.Copy(log, r)
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the gateway's end after SIGTERM: %v", err)
			}
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Errorf("the gateway still ran %s after SIGTERM", patience)
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", log)
		}
	})
	var r ready
	select {
	case line := <-lines:
		if err := json.Unmarshal(line, &r); err != nil || !r.Ready {
			t.Fatalf("serve --json printed %q, want a ready line; log:\n%s", line, log)
		}
	case <-time.After(patience):
		t.Fatalf("no ready line after %s; log:\n%s", patience, log)
	}
	addresses := map[string]string{}
	for _, l := range r.Listeners {
		addresses[l.Name] = l.Address
	}
	return addresses, cmd.Process.Pid
}

// runCommand runs a command to its end and returns its standard output.
func runCommand(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1") // some libraries would ask a proxy even here
	var stderr output
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", argv[0], err, &stderr)
	}
	return out, nil
}
