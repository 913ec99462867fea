package uitest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the gateway's binary, made once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "uitest")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "gateway")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/gateway")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// gateway is a running one.
type gateway struct {
	listen string // address of its listener
	admin  string // URL of its admin listener
	config string // its file
	pid    int
}

// run starts a gateway with a configuration, whose listeners are added, and ends it
// with the test.
func run(t *testing.T, config string) *gateway {
	t.Helper()
	return runIn(t, t.TempDir(), config)
}

// runIn is run in a folder, which may have a store already.
func runIn(t *testing.T, dir, config string) *gateway {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{config: filepath.Join(dir, "gateway.yaml")}
	g.write(t, config)
	cmd := exec.Command(bin, "serve", "--json", "-c", g.config)
	var log lockedBuffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", log.tail())
		}
	})
	var ready struct {
		Listeners []struct{ Address string }
		Admin     string
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		t.Fatalf("no ready line: %v\n%s", err, log.tail())
	}
	g.listen, g.admin, g.pid = ready.Listeners[0].Address, "http://"+ready.Admin, cmd.Process.Pid
	return g
}

// write puts a configuration in the gateway's file.
func (g *gateway) write(t *testing.T, config string) {
	t.Helper()
	head := "listeners: [{name: web, address: \"127.0.0.1:0\"}]\nstore: {dir: data, durability: relaxed, min_free: 1MiB}\n"
	if !strings.Contains(config, "admin:") {
		head += "admin: {address: \"127.0.0.1:0\"}\n"
	}
	if err := os.WriteFile(g.config, []byte(head+config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// send posts an envelope and returns the status.
func (g *gateway) send(t *testing.T, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.listen+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/xml; charset=utf-8")
	r.Header.Set("SOAPAction", `"urn:orders:place"`)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// sendAll posts n envelopes, from several goroutines.
func (g *gateway) sendAll(t *testing.T, path string, n int, envelope func(i int) string) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				if got := g.send(t, path, envelope(i)); got != http.StatusAccepted {
					t.Errorf("message %d: status %d", i, got)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// order is an envelope.
func order(item string) string {
	return `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><o:PlaceOrder xmlns:o="urn:orders"><o:item quantity="3">` + item + `</o:item></o:PlaceOrder></soap:Body></soap:Envelope>`
}

// fault is one that says that the message is to blame.
func fault(text string) string {
	return `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><soap:Fault><faultcode>soap:Client</faultcode><faultstring>` + text + `</faultstring></soap:Fault></soap:Body></soap:Envelope>`
}

// lockedBuffer is the log of a gateway.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *lockedBuffer) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b[max(0, len(l.b)-4000):])
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for tick := time.NewTicker(50 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("in %v not: %s", patience, what)
		}
	}
}

// patience bounds each step; the machine may be busy.
const patience = 60 * time.Second
