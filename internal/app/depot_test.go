package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"soapway/config"
	"soapway/internal/retry"
	"soapway/internal/telemetry"
	"soapway/queue"
)

// taker is a backend that notes what it takes.
type taker struct {
	*httptest.Server
	mu     sync.Mutex
	got    []taken
	answer func(w http.ResponseWriter, r *http.Request) // nil: 202
}

type taken struct {
	header http.Header
	body   string
}

func newTaker(t *testing.T, answer func(http.ResponseWriter, *http.Request)) *taker {
	b := &taker{answer: answer}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.got = append(b.got, taken{r.Header.Clone(), string(body)})
		b.mu.Unlock()
		if b.answer != nil {
			b.answer(w, r)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *taker) taken() []taken {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]taken(nil), b.got...)
}

// storeHead is head with a store that works on any filesystem.
const storeHead = head + "store: {durability: relaxed}\n"

func queueRoute(path, to string) string {
	return fmt.Sprintf("  - {name: %s, match: {path: /%s}, to: [%q], delivery: queue, retry: {initial: 20ms, max: 50ms}}\n", path, path, to)
}

func TestQueueRoute(t *testing.T) {
	b := newTaker(t, nil)
	g := start(t, storeHead+"routes:\n"+queueRoute("orders", b.URL+"/in"))
	s, ok := g.app.Store()
	if !ok || s.ID == "" || s.Waiting != 0 || s.Dir != filepath.Join(filepath.Dir(g.file), "data") || g.app.Queue() == nil {
		t.Errorf("Store: got %+v, %v", s, ok)
	}
	if status, body := g.post(http.DefaultClient, "/orders"); status != 202 || body != "" {
		t.Fatalf("got %d %q, want 202", status, body)
	}
	g.eventually("the delivery", func() bool { return len(b.taken()) == 1 })
	got := b.taken()[0]
	if got.body != envelope || got.header.Get("Gateway-Attempt") != "1" || got.header.Get("Gateway-Message-Id") == "" || got.header.Get("Gateway-Possible-Duplicate") != "" {
		t.Errorf("the backend got %v %q", got.header, got.body)
	}
	g.eventually("an empty queue", func() bool { return g.app.Queue().Waiting() == 0 })
	for _, line := range []string{
		`gateway_requests_total{operation="",outcome="stored",route="orders"} 1`,
		`gateway_attempts_total{result="answered",route="orders"} 1`,
		`gateway_delivery_latency_seconds_count{route="orders"} 1`,
		`gateway_queue_messages{route="orders",state="pending"} 0`,
		`gateway_circuit_state{backend="orders"} 0`,
		`gateway_store_errors_total 0`,
	} {
		if !g.metric(line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
}

// TestQueueSurvivesARestart: what was accepted is delivered by the next start,
// in the order of acceptance where the route asks for it.
func TestQueueSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	yaml := func(to string) string {
		return head + fmt.Sprintf("store: {durability: relaxed, dir: %q}\n", dir) +
			fmt.Sprintf("routes:\n  - {name: r, to: [%q], delivery: queue, order_by: route, retry: {initial: 20ms, max: 50ms}}\n", to)
	}
	first := start(t, yaml("http://127.0.0.1:1/"))
	var ids []string
	for range 20 {
		resp, err := http.Post("http://"+first.addr("web")+"/", "text/xml", strings.NewReader(envelope))
		if err != nil || resp.StatusCode != 202 || resp.Header.Get("Gateway-Durability") != "relaxed" {
			t.Fatalf("got %+v, %v", resp, err)
		}
		resp.Body.Close()
		ids = append(ids, resp.Header.Get("Gateway-Message-Id"))
	}
	first.end()
	b := newTaker(t, nil)
	second := start(t, yaml(b.URL))
	if s, _ := second.app.Store(); s.Waiting != 20 {
		t.Errorf("waiting at the start: got %d, want 20", s.Waiting)
	}
	second.eventually("20 deliveries", func() bool { return len(b.taken()) >= 20 })
	var got []string
	for _, m := range b.taken() {
		got = append(got, m.header.Get("Gateway-Message-Id"))
		if m.header.Get("Gateway-Possible-Duplicate") != "" {
			t.Error("marked after an orderly stop, though nothing was sent")
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("order: got %v, want %v", got, ids)
	}
}

// TestSecondGateway: two on one store would both deliver.
func TestSecondGateway(t *testing.T) {
	g := start(t, storeHead+"routes:\n"+queueRoute("orders", "http://127.0.0.1:1/"))
	cfg, err := config.Load(g.file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(cfg, Options{})
	problems, ok := errors.AsType[config.Problems](err)
	if !ok || len(problems) != 1 || problems[0].Key != "store.dir" || problems[0].Hint == "" ||
		!strings.Contains(problems[0].Message, fmt.Sprintf("process %d", os.Getpid())) || !strings.Contains(problems[0].Message, filepath.Join(filepath.Dir(g.file), "data")) {
		t.Errorf("New: got %v, want the directory and the process that has it", err)
	}
}

// tmpfs is a folder where a strict store must be refused.
func tmpfs(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("filesystems are told apart on Linux")
	}
	dir, err := os.MkdirTemp("/dev/shm", "gateway-test-")
	if err != nil {
		t.Skipf("no tmpfs at hand: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var kind *queue.FilesystemError
	if err := queue.CheckDir(dir, queue.Strict); !errors.As(err, &kind) {
		t.Skipf("/dev/shm is no tmpfs: %v", err)
	}
	return dir
}

func TestStrictIsRefusedOnTmpfs(t *testing.T) {
	dir := tmpfs(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	load := func(store, delivery string) *config.Config {
		t.Helper()
		write(t, file, head+"store: {dir: "+dir+store+"}\nroutes:\n  - {name: r, to: [\"builtin:sink\"], delivery: "+delivery+"}\n")
		cfg, err := config.Load(file, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	for name, check := range map[string]func(*config.Config) error{
		"Check": Check,
		"New":   func(c *config.Config) error { _, err := New(c, Options{}); return err },
	} {
		err := check(load("/data, durability: strict", "queue"))
		problems, ok := errors.AsType[config.Problems](err)
		if !ok || len(problems) != 1 || problems[0].Key != "store.durability" || problems[0].Line != 6 ||
			!strings.Contains(problems[0].Message, "is on tmpfs") || !strings.Contains(problems[0].Hint, "durability: relaxed") {
			t.Errorf("%s: got %v, want store.durability in line 6", name, err)
		}
	}
	for _, c := range [][2]string{{"/data, durability: relaxed", "queue"}, {"/data", "sync"}} {
		if err := Check(load(c[0], c[1])); err != nil {
			t.Errorf("Check with %v: %v", c, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a refused store left its folder behind")
	}
}

// TestReloadBringsAStore: the first queue route may come by a reload, and the
// last may go; what it has stored is still delivered.
func TestReloadBringsAStore(t *testing.T) {
	var held sync.WaitGroup
	held.Add(1)
	b := newTaker(t, func(w http.ResponseWriter, _ *http.Request) { held.Wait(); w.WriteHeader(202) })
	defer held.Wait()
	g := start(t, storeHead+"routes:\n  - {name: echo, match: {path: /echo}, to: [\"builtin:echo\"]}\n")
	if _, ok := g.app.Store(); ok || g.app.Queue() != nil {
		t.Error("a store without a route that needs it")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(g.file), "data")); err == nil {
		t.Error("a folder for a store that nothing needs")
	}
	reload := func(yaml string) {
		t.Helper()
		write(t, g.file, yaml)
		if err := g.app.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(storeHead + "routes:\n" + queueRoute("orders", b.URL))
	for range 3 {
		if status, body := g.post(http.DefaultClient, "/orders"); status != 202 {
			t.Fatalf("after the reload: got %d %s", status, body)
		}
	}
	// Now sync: the three are still delivered, though nothing new is stored.
	reload(storeHead + strings.Replace("routes:\n"+queueRoute("orders", b.URL), ", delivery: queue, retry: {initial: 20ms, max: 50ms}", "", 1))
	g.eventually("three that are no orphans", func() bool {
		s := g.app.Queue().Stats()
		return len(s) == 1 && s[0].Pending == 3 && s[0].Orphaned == 0
	})
	held.Done()
	g.eventually("three deliveries", func() bool { return g.app.Queue().Waiting() == 0 })
	if n := len(b.taken()); n != 3 {
		t.Errorf("%d deliveries, want 3", n)
	}
}

// TestReloadOrphans: messages of a route that is gone wait until it is back.
func TestReloadOrphans(t *testing.T) {
	b := newTaker(t, nil)
	with := storeHead + "routes:\n" + queueRoute("orders", "http://127.0.0.1:1/") + queueRoute("other", b.URL)
	g := start(t, with)
	if status, _ := g.post(http.DefaultClient, "/orders"); status != 202 {
		t.Fatal(status)
	}
	write(t, g.file, storeHead+"routes:\n"+queueRoute("other", b.URL))
	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	g.eventually("an orphan", func() bool { return g.metric(`gateway_queue_messages{route="orders",state="orphaned"} 1`) })
	write(t, g.file, strings.Replace(with, "http://127.0.0.1:1/", b.URL, 1))
	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	g.eventually("its delivery", func() bool { return len(b.taken()) == 1 })
}

// TestReloadRefusesTheStoresKeys: they are read when it is opened.
func TestReloadRefusesTheStoresKeys(t *testing.T) {
	yaml := func(store string) string {
		return head + "store: {" + store + "}\nroutes:\n" + queueRoute("orders", "http://127.0.0.1:1/")
	}
	g := start(t, yaml("durability: relaxed"))
	for _, c := range []struct{ store, key string }{
		{"durability: strict", "store.durability"},
		{"durability: relaxed, dir: other", "store.dir"},
		{"durability: relaxed, max_bytes: 1GiB", "store.max_bytes"},
		{"durability: relaxed, min_free: 2GiB", "store.min_free"},
	} {
		write(t, g.file, yaml(c.store))
		restart, ok := errors.AsType[*RestartError](g.app.Reload())
		if !ok || fmt.Sprint(restart.Keys) != "["+c.key+"]" {
			t.Errorf("%s: got %v, want a RestartError for %s", c.store, restart, c.key)
		}
	}
	write(t, g.file, yaml("durability: relaxed, on_failure: exit"))
	if err := g.app.Reload(); err != nil {
		t.Errorf("on_failure: %v", err)
	}
}

// TestReloadMovesDeliveries: a reload that changes the nodes breaks no delivery
// under way, and the next go to the new ones.
func TestReloadMovesDeliveries(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	old := newTaker(t, func(w http.ResponseWriter, _ *http.Request) { entered <- struct{}{}; <-release; w.WriteHeader(202) })
	fresh := newTaker(t, nil)
	g := start(t, storeHead+"routes:\n"+queueRoute("orders", old.URL))
	g.post(http.DefaultClient, "/orders")
	<-entered
	write(t, g.file, storeHead+"routes:\n"+queueRoute("orders", fresh.URL))
	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	g.post(http.DefaultClient, "/orders")
	g.eventually("a delivery to the new node", func() bool { return len(fresh.taken()) == 1 })
	close(release)
	g.eventually("an empty queue", func() bool { return g.app.Queue().Waiting() == 0 })
	if n := len(old.taken()); n != 1 {
		t.Errorf("the old node got %d, want 1: the delivery under way was broken", n)
	}
}

// TestDrainWaitsForDeliveries, and a cut ends them without burning an attempt.
func TestDrainWaitsForDeliveries(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut=", cut), func(t *testing.T) {
			entered, release := make(chan struct{}, 1), make(chan struct{})
			b := newTaker(t, func(w http.ResponseWriter, r *http.Request) {
				entered <- struct{}{}
				select {
				case <-release:
					w.WriteHeader(202)
				case <-r.Context().Done():
				}
			})
			dir := t.TempDir()
			yaml := strings.Replace(storeHead, "relaxed", fmt.Sprintf("relaxed, dir: %q", dir), 1) + "routes:\n" + queueRoute("orders", b.URL)
			g := start(t, yaml)
			g.post(http.DefaultClient, "/orders")
			<-entered
			g.stop()
			g.eventually("the drain", func() bool {
				status, err := http.Get("http://" + g.addr("web"))
				return err != nil || status.StatusCode == 503
			})
			if cut {
				g.app.Cut()
			} else {
				close(release)
			}
			g.end()
			store, err := queue.OpenEmbedded(queue.StoreOptions{Dir: dir, Durability: queue.Relaxed, MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if !store.Info().Clean {
				t.Error("the stop was not clean")
			}
			attempts := 0
			if err := store.ScanAttempts(t.Context(), func(_ string, a []queue.AttemptRecord) error {
				for _, r := range a {
					attempts += r.N
					if !r.Maybe {
						t.Error("a message that was sent and cut off is not marked")
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]uint64{false: 0, true: 1}[cut]; store.Info().Messages != want || attempts != 0 {
				t.Errorf("%d messages with %d attempts are left, want %d with none", store.Info().Messages, attempts, want)
			}
		})
	}
}

// TestStoreNobodyUses: a store from an earlier configuration is shown, and when
// it cannot be opened the gateway runs without it.
func TestStoreNobodyUses(t *testing.T) {
	dir := t.TempDir()
	yaml := func(routes string) string {
		return head + fmt.Sprintf("store: {durability: relaxed, dir: %q}\nroutes:\n", dir) + routes
	}
	g := start(t, yaml(queueRoute("orders", "http://127.0.0.1:1/")))
	g.post(http.DefaultClient, "/orders")
	g.end()
	sync := "  - {name: echo, to: [\"builtin:echo\"]}\n"
	g = start(t, yaml(sync))
	g.eventually("the orphan", func() bool { return g.metric(`gateway_queue_messages{route="orders",state="orphaned"} 1`) })
	// A second gateway, without queue routes, does not need the lock.
	other := start(t, yaml(sync))
	if status, _ := other.post(http.DefaultClient, "/"); status != 200 {
		t.Errorf("got %d", status)
	}
	if !strings.Contains(other.log.String(), "cannot be opened") {
		t.Errorf("nothing about the store in the log:\n%s", other.log)
	}
}

// TestRetryPolicy: every value of the configuration means the same to the queue.
func TestRetryPolicy(t *testing.T) {
	for _, c := range []struct {
		in   config.Retry
		want retry.Policy
	}{
		{
			config.Retry{Initial: config.Duration(time.Second), Factor: 2, Max: config.Duration(time.Minute), Jitter: 0.2, Expire: config.Duration(time.Hour), Attempts: -1},
			retry.Policy{Initial: time.Second, Factor: 2, Max: time.Minute, Jitter: 0.2, Expire: time.Hour},
		},
		{
			config.Retry{Initial: config.Duration(time.Second), Factor: 1, Max: config.Duration(time.Second), Jitter: 0, Expire: -1, Attempts: 3},
			retry.Policy{Initial: time.Second, Factor: 1, Max: time.Second, Jitter: 0, Expire: -1, Attempts: 3},
		},
		{
			config.Retry{Initial: config.Duration(time.Second), Factor: 2, Max: config.Duration(time.Minute), Jitter: 1, Expire: config.Duration(time.Hour), Attempts: 1},
			retry.Policy{Initial: time.Second, Factor: 2, Max: time.Minute, Jitter: 0.999, Expire: time.Hour, Attempts: 1},
		},
	} {
		if got := retryPolicy(&c.in).WithDefaults(); got != c.want || got.Validate() != nil {
			t.Errorf("retryPolicy(%+v): got %+v, want %+v (%v)", c.in, got, c.want, got.Validate())
		}
	}
}

// unreadable is a store whose log cannot be read.
type unreadable struct{ *queue.Memory }

func (unreadable) Scan(context.Context, func(uint64, *queue.Message, int64) error) error {
	return errors.New("input/output error")
}

// TestStoreUnreadable: what cannot be delivered is not accepted either.
func TestStoreUnreadable(t *testing.T) {
	cfg := load(t, storeHead+"routes:\n"+queueRoute("orders", "http://127.0.0.1:1/"))
	g := &gateway{t: t, log: &lockedBuffer{}, done: make(chan error, 1)}
	ready := make(chan struct{})
	var err error
	if g.app, err = New(cfg, Options{
		Log: telemetry.NewLog(g.log), Ready: func() { close(ready) },
		openStore: func(queue.StoreOptions) (queue.Store, error) { return unreadable{queue.NewMemory()}, nil },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	g.stop = stop
	go func() { g.done <- g.app.Run(ctx) }()
	<-ready
	g.eventually("a word of it in /readyz", func() bool { _, body := g.admin("/readyz"); return strings.Contains(body, "degraded") })
	if status, _ := g.post(http.DefaultClient, "/orders"); status != 503 {
		t.Errorf("got %d, want 503", status)
	}
	g.end()
}

// TestDestinations: the settings of backends arrive where the queue reads them.
func TestDestinations(t *testing.T) {
	cfg := load(t, head+`
backends:
  b: {nodes: ["http://127.0.0.1:1"], max_connections: 7, outlier: {failures: 3}, probe: {initial: 1s, max: 9s}}
routes:
  - {name: one, match: {path: /1}, backend: b, delivery: queue, retry: {attempts: 4}}
  - {name: two, match: {path: /2}, backend: b, delivery: queue, assurance: at-most-once}
  - {name: three, match: {path: /3}, to: ["http://127.0.0.1:2"], delivery: queue}
  - {name: four, match: {path: /4}, backend: b}
  - {name: five, match: {path: /5}, to: ["http://127.0.0.1:2"]}
`)
	routes, dests := queueRoutes(cfg, map[string]bool{"five": true})
	retries := retry.Policy{Initial: time.Second, Factor: 2, Max: 10 * time.Minute, Jitter: 0.2, Expire: 120 * time.Hour}
	first := retries
	first.Attempts = 4
	wantRoutes := []queue.Route{
		{Name: "one", Destination: "b", Retry: first},
		{Name: "two", Destination: "b", Retry: retries, AtMostOnce: true},
		{Name: "three", Destination: "three", Retry: retries},
		{Name: "five", Destination: "five", Retry: retries, Closed: true},
	}
	wantDests := []queue.Destination{
		{Name: "b", Failures: 3, Initial: time.Second, Max: 9 * time.Second, Parallel: 7},
		{Name: "three", Failures: 5, Initial: 5 * time.Second, Max: 30 * time.Second, Parallel: 64},
		{Name: "five", Failures: 5, Initial: 5 * time.Second, Max: 30 * time.Second, Parallel: 64},
	}
	if fmt.Sprint(routes) != fmt.Sprint(wantRoutes) {
		t.Errorf("routes: got %+v, want %+v", routes, wantRoutes)
	}
	if fmt.Sprint(dests) != fmt.Sprint(wantDests) {
		t.Errorf("destinations: got %+v, want %+v", dests, wantDests)
	}
}

// TestStoreFails: the queue routes close, the others go on; or the gateway ends.
func TestStoreFails(t *testing.T) {
	for _, exit := range []bool{false, true} {
		t.Run(fmt.Sprint("exit=", exit), func(t *testing.T) {
			mode := map[bool]string{false: "degrade", true: "exit"}[exit]
			file := filepath.Join(t.TempDir(), "gateway.yaml")
			write(t, file, head+"store: {durability: relaxed, on_failure: "+mode+"}\nroutes:\n"+queueRoute("orders", "http://127.0.0.1:1/")+"  - {name: echo, match: {path: /echo}, to: [\"builtin:echo\"]}\n")
			cfg, err := config.Load(file, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			g := &gateway{t: t, file: file, log: &lockedBuffer{}, done: make(chan error, 1)}
			ready := make(chan struct{})
			disk := queue.NewMemory()
			open := func(queue.StoreOptions) (queue.Store, error) { return disk, nil }
			if g.app, err = New(cfg, Options{Log: telemetry.NewLog(g.log), Ready: func() { close(ready) }, openStore: open}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			g.stop = stop
			go func() { g.done <- g.app.Run(ctx) }()
			<-ready
			if status, _ := g.post(http.DefaultClient, "/orders"); status != 202 {
				t.Fatal(status)
			}
			disk.FailNextSync(errors.New("input/output error"))
			if status, _ := g.post(http.DefaultClient, "/orders"); status != 503 {
				t.Errorf("a message in the group that failed: got %d, want 503", status)
			}
			if exit {
				select {
				case err := <-g.done:
					if err == nil || !strings.Contains(err.Error(), "store") {
						t.Errorf("Run: got %v, want the error of the store", err)
					}
				case <-time.After(patience):
					t.Fatal("the gateway goes on")
				}
				return
			}
			g.eventually("a refusal", func() bool { status, _ := g.post(http.DefaultClient, "/orders"); return status == 503 })
			if status, body := g.post(http.DefaultClient, "/echo"); status != 200 || body != envelope {
				t.Errorf("the sync route: got %d %q", status, body)
			}
			g.eventually("a word of it in /readyz", func() bool {
				status, body := g.admin("/readyz")
				if status != 200 {
					t.Fatalf("/readyz: got %d %q, want it to stay ready", status, body)
				}
				return strings.Contains(body, "degraded")
			})
			g.end()
		})
	}
}
