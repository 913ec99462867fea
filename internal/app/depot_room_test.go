package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"soapway/config"
	"soapway/internal/telemetry"
	"soapway/queue"
)

// cellar opens a store in memory, or fails as it was told to.
type cellar struct {
	mu     sync.Mutex
	disk   *queue.Memory
	err    error
	opened int
	broken bool                            // there is more wrong than the room
	with   func(*queue.Memory) queue.Store // nil: as it is
}

func (s *cellar) open(queue.StoreOptions) (queue.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.opened++; s.opened > 1 {
		s.disk = s.disk.Reopen()
	}
	if s.broken {
		return broken{s.disk}, nil
	}
	if s.with != nil {
		return s.with(s.disk), nil
	}
	return s.disk, nil
}

// broken is a store whose last sync fails, when it is closed.
type broken struct{ *queue.Memory }

func (b broken) Close() error { return errors.Join(errors.New("input/output error"), os.ErrClosed) }

func (s *cellar) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *cellar) present() *queue.Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk
}

// startOn runs a gateway with one route that stores and one that does not.
func startOn(t *testing.T, s *cellar, to, mode string) *gateway {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "store.json"), nil, 0o600); err != nil { // there is a store
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, head+fmt.Sprintf("store: {dir: %q, durability: relaxed, on_failure: %s}\nroutes:\n", dir, mode)+queueRoute("orders", to)+"  - {name: echo, match: {path: /echo}, to: [\"builtin:echo\"]}\n")
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, file: file, log: &lockedBuffer{}, done: make(chan error, 1)}
	ready := make(chan struct{})
	if g.app, err = New(cfg, Options{Log: telemetry.NewLog(g.log), Ready: func() { close(ready) }, openStore: s.open}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	g.stop = stop
	go func() { g.done <- g.app.Run(ctx) }()
	<-ready
	return g
}

var errDiskFull = fmt.Errorf("%w: write x: no space left on device", queue.ErrNoRoom)

// TestStoreOutOfRoom: a store that has failed for lack of room is opened again
// without a restart, whatever on_failure says; until then its routes answer 503
// with Retry-After, and the others go on. What was accepted is delivered, marked.
func TestStoreOutOfRoom(t *testing.T) {
	for _, mode := range []string{"degrade", "exit"} {
		t.Run(mode, func(t *testing.T) {
			b := newTaker(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
			s := &cellar{disk: queue.NewMemory()}
			g := startOn(t, s, b.URL, mode)
			for range 2 { // again and again
				if status, _ := g.post(http.DefaultClient, "/orders"); status != 202 {
					t.Fatalf("got %d, want 202", status)
				}
				s.set(errDiskFull) // for whoever opens it
				s.present().FailNextSync(errDiskFull)
				if status, _ := g.post(http.DefaultClient, "/orders"); status != 503 {
					t.Errorf("a message in the group that failed: got %d, want 503", status)
				}
				g.eventually("a word of it in /readyz", func() bool {
					status, body := g.admin("/readyz")
					return status == 200 && strings.Contains(body, "degraded")
				})
				resp, err := http.Post("http://"+g.addr("web")+"/orders", "text/xml", strings.NewReader(envelope))
				if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Gateway-Outcome") != "" {
					t.Errorf("while it is closed: got %v, %v, want 503 with Retry-After", resp, err)
				} else {
					resp.Body.Close()
				}
				if status, body := g.post(http.DefaultClient, "/echo"); status != 200 || body != envelope {
					t.Errorf("the sync route: got %d %q", status, body)
				}
				s.set(nil)
				g.eventually("the store is open again", func() bool { return g.app.Queue().Loaded() && len(g.app.depot.degraded()) == 0 })
			}
			n := len(b.taken())
			g.eventually("marked deliveries", func() bool {
				for _, m := range b.taken()[n:] {
					if m.header.Get("Gateway-Possible-Duplicate") == "true" {
						return true
					}
				}
				return false
			})
			if got := g.app.Queue().Waiting(); got < 2 {
				t.Errorf("%d messages wait, want the 2 that were accepted", got)
			}
			if err := g.app.Reload(); !errors.Is(err, ErrNoSource) { // there is nothing to load from in this test
				t.Errorf("Reload: %v", err)
			}
			g.end()
		})
	}
}

// TestStoreOutOfRoomAndBroken: a disk that is full and cannot be synced is not trusted again.
func TestStoreOutOfRoomAndBroken(t *testing.T) {
	s := &cellar{disk: queue.NewMemory(), broken: true}
	g := startOn(t, s, "http://127.0.0.1:1/", "degrade")
	s.present().FailNextSync(errDiskFull)
	if status, _ := g.post(http.DefaultClient, "/orders"); status != 503 {
		t.Errorf("got %d, want 503", status)
	}
	g.eventually("closed for good", func() bool {
		d := g.app.depot.degraded()
		return len(d) == 1 && strings.Contains(d[0], "input/output error")
	})
	g.end()
	if s.opened != 1 {
		t.Errorf("the store was opened %d times, want once", s.opened)
	}
}

// TestStartWithoutRoom: a gateway on a full disk starts, and takes messages as
// soon as its store can be opened.
func TestStartWithoutRoom(t *testing.T) {
	b := newTaker(t, nil)
	s := &cellar{disk: queue.NewMemory(), err: errDiskFull}
	g := startOn(t, s, b.URL, "degrade")
	if status, _ := g.post(http.DefaultClient, "/orders"); status != 503 {
		t.Errorf("without a store: got %d, want 503", status)
	}
	if status, body := g.post(http.DefaultClient, "/echo"); status != 200 || body != envelope {
		t.Errorf("the sync route: got %d %q", status, body)
	}
	if status, body := g.admin("/readyz"); status != 200 || !strings.Contains(body, "degraded") {
		t.Errorf("/readyz: got %d %q, want it ready and degraded", status, body)
	}
	s.set(nil)
	g.eventually("a message is accepted", func() bool { status, _ := g.post(http.DefaultClient, "/orders"); return status == 202 })
	g.eventually("the delivery", func() bool { return len(b.taken()) == 1 })
	g.end()
}
