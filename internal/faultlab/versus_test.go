package faultlab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	versus  = flag.Bool("versus", false, "run TestVersusQueue, which measures and takes some minutes")
	waiting = flag.Int64("waiting", 100_000, "waiting messages with which TestVersusQueue times a start")
)

const (
	versusBody  = 1500
	versusConns = 64
	versusTurns = 5
	versusTurn  = time.Second
	// versusWaiting is how many messages a delivery is timed over.
	versusWaiting = 15_000
)

// TestVersusQueue measures the built gateway from outside, by turns with what
// it is compared with, so that both meet the same machine: HTTP accept beside
// JetStream that syncs every message, delivery beside the direct path, and the
// direct path beside a dead backend of another route. Figures are medians; what
// misses its goal is said, and is no failure, since other work on the machine
// moves them.
func TestVersusQueue(t *testing.T) {
	if !*versus {
		t.Skip("a measurement; -versus asks for it (make versus WHAT=queue)")
	}
	t.Run("fsync", func(t *testing.T) { t.Logf("write and fsync of %d octets: median %v", versusBody, fsyncTime(t)) })
	t.Run("accept", versusAccept)
	t.Run("deliver", versusDeliver)
	t.Run("neighbour", versusNeighbour)
	t.Run("start", versusStart)
}

// goal logs a ratio beside what it should be.
func goal(t *testing.T, what string, got, want float64, atLeast bool) {
	t.Helper()
	word, verdict := "≥", "reached"
	if !atLeast {
		word = "≤"
	}
	if atLeast == (got < want) && got != want {
		verdict = "MISSED"
	}
	t.Logf("%s: %.2fx (goal %s %.2fx): %s", what, got, word, want, verdict)
}

func median[T ~int64 | ~float64](v []T) T {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}

// fsyncTime is how long this disk takes.
func fsyncTime(t *testing.T) time.Duration {
	f, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := f.Write(make([]byte, versusBody)); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return median(took)
}

// A sink is a backend that only counts.
type sink struct {
	*backend
	n    atomic.Int64
	last atomic.Int64 // nanoseconds since the lab began
}

func newSink(t *testing.T, l *lab, route string) *sink {
	s := &sink{backend: newBackend(t, l.rec, l.seed, route)}
	s.raw = s.count
	return s
}

var sinkReply = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", len(replyEnvelope), replyEnvelope)

func (s *sink) count(c net.Conn) {
	r := bufio.NewReaderSize(c, 16<<10)
	for {
		if err := skipMessage(r); err != nil {
			return
		}
		s.last.Store(int64(s.rec.now()))
		s.n.Add(1)
		if _, err := c.Write(sinkReply); err != nil {
			return
		}
	}
}

// skipMessage reads one HTTP message that has a Content-Length.
func skipMessage(r *bufio.Reader) error {
	_, err := readMessage(r)
	return err
}

// readMessage does so and returns its first line.
func readMessage(r *bufio.Reader) (first string, err error) {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if first == "" {
			first = string(line)
		}
		if len(line) <= 2 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && len(name) == 14 && bytes.EqualFold(name, []byte("content-length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return "", err
			}
		}
	}
	_, err = r.Discard(length)
	return first, err
}

// A caller posts one message again and again on a connection of its own.
type caller struct {
	c       net.Conn
	r       *bufio.Reader
	request []byte
	id      []byte // the part of request that is another for each call; nil for none
	want    string
}

// lastID is the last id that a caller has given to a message.
var lastID atomic.Int64

func newCaller(t *testing.T, l *lab, route, want string) *caller {
	t.Helper()
	c, err := l.door.dial(context.Background(), "web")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	body := l.w.body("0-0", versusBody, false, rand.New(rand.NewPCG(l.seed, 3)))
	req := fmt.Appendf(nil, "POST /%s HTTP/1.1\r\nHost: gateway\r\nContent-Type: text/xml; charset=utf-8\r\nSOAPAction: \"\"\r\nContent-Length: %d\r\n\r\n%s", route, len(body), body)
	return &caller{c: c, r: bufio.NewReaderSize(c, 16<<10), request: req, want: "HTTP/1.1 " + want}
}

// identify gives each message an id of its own.
func (c *caller) identify() *caller {
	const name, digits = "Idempotency-Key: ", "0000000000000000"
	c.request = bytes.Replace(c.request, []byte("SOAPAction:"), []byte(name+digits+"\r\nSOAPAction:"), 1)
	at := bytes.Index(c.request, []byte(name)) + len(name)
	c.id = c.request[at : at+len(digits)]
	return c
}

func (c *caller) call() error {
	if c.id != nil {
		copy(c.id, fmt.Sprintf("%016d", lastID.Add(1)))
	}
	if _, err := c.c.Write(c.request); err != nil {
		return err
	}
	first, err := readMessage(c.r)
	if err != nil {
		return err
	}
	if len(first) < len(c.want) || first[:len(c.want)] != c.want {
		return fmt.Errorf("got %q, want %q", first, c.want)
	}
	return nil
}

// rate lets each of n callers do its work over and over, for a while or until
// count is reached, and returns how often a second.
func rate(t *testing.T, n int, turn time.Duration, count int64, call func(i int) error) float64 {
	t.Helper()
	var wg sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			for (count == 0 && time.Since(began) < turn) || done.Load() < count {
				if err := call(i); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

func callers(t *testing.T, l *lab, n int, route, want string) func(int) error {
	all := make([]*caller, n)
	for i := range all {
		all[i] = newCaller(t, l, route, want)
	}
	return func(i int) error { return all[i].call() }
}

// versusAccept: 64 connections that get a 202 for each message, beside 64
// publishers of JetStream with sync_interval: always.
func versusAccept(t *testing.T) {
	l := newLab(t)
	node := newBackend(t, l.rec, l.seed, "orders") // down: only the acceptance is measured
	second := newBackend(t, l.rec, l.seed+1, onceRoute)
	l.configure(plan{name: "orders", node: node}, plan{name: onceRoute, node: second, once: true})
	l.start()
	accept := callers(t, l, versusConns, "orders", "202")
	known := make([]*caller, versusConns)
	for i := range known {
		known[i] = newCaller(t, l, onceRoute, "202").identify()
	}
	always := alwaysSynced(t)
	var ours, once, theirs []float64
	for range versusTurns {
		ours = append(ours, rate(t, versusConns, versusTurn, 0, accept))
		once = append(once, rate(t, versusConns, versusTurn, 0, func(i int) error { return known[i].call() }))
		theirs = append(theirs, rate(t, versusConns, versusTurn, 0, always))
	}
	t.Logf("HTTP accept, %d connections: %.0f/s; JetStream sync_interval always, %d publishers: %.0f/s", versusConns, median(ours), versusConns, median(theirs))
	t.Logf("with dedup, each message with an id of its own: %.0f/s, %.2fx", median(once), median(once)/median(ours))
	goal(t, "HTTP accept : JetStream always", median(ours)/median(theirs), 4, true)
	l.kill()
}

// alwaysSynced is a publisher of JetStream that syncs each message.
func alwaysSynced(t *testing.T) func(int) error {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "jetstream-") // the disk of the gateway's store
	if err != nil {
		t.Fatal(err)
	}
	srv, err := bareServer(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		os.RemoveAll(dir)
	})
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, versusBody)
	return func(int) error {
		_, err := js.Publish(context.Background(), "s", body)
		return err
	}
}

// versusDeliver: stored messages to a sink, beside the same messages on the
// direct path to a sink. Callers of the direct path share the machine with the
// gateway; nobody calls while stored messages are delivered.
func versusDeliver(t *testing.T) {
	l := newLab(t)
	direct, stored := newSink(t, l, "direct"), newSink(t, l, "orders")
	direct.up()
	l.configure(plan{name: "direct", node: direct.backend, sync: true}, plan{name: "orders", node: stored.backend})
	l.start()
	pass := callers(t, l, versusConns, "direct", "200")
	accept := callers(t, l, versusConns, "orders", "202")
	var ours, theirs []float64
	for range 3 {
		theirs = append(theirs, rate(t, versusConns, 2*versusTurn, 0, pass))
		stored.n.Store(0)
		rate(t, versusConns, 0, versusWaiting, accept)
		waiting := int64(l.waiting(t))
		stored.up()
		if !eventually(patience, func() bool { return stored.n.Load() > waiting/20 }) {
			t.Fatal("nothing is delivered")
		}
		from, began := stored.n.Load(), l.rec.now()
		if !eventually(patience, func() bool { return stored.n.Load() >= waiting }) {
			t.Fatalf("%d of %d messages were delivered", stored.n.Load(), waiting)
		}
		took := time.Duration(stored.last.Load()) - began
		ours = append(ours, float64(waiting-from)/took.Seconds())
		stored.down()
	}
	t.Logf("delivery of stored messages: %.0f/s; direct path, %d connections: %.0f/s", median(ours), versusConns, median(theirs))
	goal(t, "delivery : direct path", median(ours)/median(theirs), 0.5, true)
	l.stop()
}

func (l *lab) waiting(t *testing.T) int {
	t.Helper()
	_, n, err := l.gw.queues(l.routes)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// versusNeighbour: how long callers of the direct path wait while the backend
// of a route that stores is down and messages for it come in, beside when it is
// up.
func versusNeighbour(t *testing.T) {
	l := newLab(t)
	direct, stored := newSink(t, l, "direct"), newSink(t, l, "orders")
	direct.up()
	stored.up()
	l.configure(plan{name: "direct", node: direct.backend, sync: true}, plan{name: "orders", node: stored.backend})
	l.start()
	const callersEach, each = 8, 60 // a second, of each caller
	pass := callers(t, l, callersEach, "direct", "200")
	accept := callers(t, l, callersEach, "orders", "202")
	turn := func() time.Duration {
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		end := time.Now().Add(3 * time.Second)
		for i := range callersEach {
			wg.Go(func() {
				for next := time.Now(); next.Before(end); next = next.Add(time.Second / each) {
					pause(time.Until(next))
					began := time.Now()
					if err := pass(i); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			})
			wg.Go(func() {
				for next := time.Now(); next.Before(end); next = next.Add(time.Second / each) {
					pause(time.Until(next))
					if err := accept(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	turn() // warm
	var up, down []time.Duration
	for range 3 {
		up = append(up, turn())
		stored.down()
		down = append(down, turn())
		stored.up()
		if !eventually(patience, func() bool { return l.waiting(t) == 0 }) {
			t.Fatal("the queue does not drain")
		}
	}
	t.Logf("p99 of the direct path, %d/s beside %d/s stored: backend of the stored up %v, down %v", callersEach*each, callersEach*each, median(up), median(down))
	goal(t, "p99, other backend down : up", float64(median(down))/float64(median(up)), 1.3, false)
	l.stop()
}

// bareServer is JetStream with nothing of ours around it.
func bareServer(dir string, always bool) (*server.Server, error) {
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, SyncAlways: always, JetStreamMaxStore: 64 << 30})
	if err != nil {
		return nil, err
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		return nil, errors.New("JetStream does not start")
	}
	return srv, nil
}

// bareEnv makes this program a bare server on the directory it names, which
// says when it is ready and ends with its input.
const bareEnv = "FAULTLAB_BARE"

func runBare(dir string) int {
	srv, err := bareServer(dir, false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	srv.Shutdown()
	srv.WaitForShutdown()
	return 0
}

// bareProcess is how long a bare server takes, from the start of its process;
// it is then stopped, or killed.
func bareProcess(t *testing.T, dir string, kill bool) time.Duration {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), bareEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(began)
	if kill {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // killed, as it says
	} else {
		in.Close()
		err = errors.Join(err, cmd.Wait())
	}
	if err != nil || line != "ready\n" {
		t.Fatalf("bare server: got %q, %v", line, err)
	}
	return took
}

// versusStart: a gateway with many waiting messages, from the start of the
// process until it is ready and until its index is complete, beside the process
// of a bare server on the same store; after an orderly stop, and after kill -9,
// when the server must read its files again.
func versusStart(t *testing.T) {
	l := newLab(t)
	node := newBackend(t, l.rec, l.seed, "orders") // down
	l.configure(plan{name: "orders", node: node})
	l.start()
	l.stop()
	l.start()
	t.Logf("empty: gateway ready after %v", l.gw.took)
	t.Logf("%.0f/s accepted", rate(t, 2*versusConns, 0, *waiting, callers(t, l, 2*versusConns, "orders", "202")))
	for _, end := range []struct {
		name string
		stop func()
	}{{"orderly stop", l.stop}, {"kill -9", func() {
		// Something must be new, or what the last stop left still describes the files.
		rate(t, versusConns, 0, 200, callers(t, l, versusConns, "orders", "202"))
		l.kill()
	}}} {
		var bare, ready, loaded []time.Duration
		for range versusTurns {
			end.stop()
			bare = append(bare, bareProcess(t, l.store, end.name == "kill -9"))
			l.start()
			ready = append(ready, l.gw.took)
			if !eventually(patience, func() bool {
				qs, n, err := l.gw.queues(l.routes)
				return err == nil && n >= int(*waiting) && !slices.ContainsFunc(qs, func(q queueState) bool { return q.Loading })
			}) {
				t.Fatal("the index is not rebuilt")
			}
			loaded = append(loaded, time.Since(l.gw.began))
		}
		t.Logf("%d waiting, after %s: bare server %v, gateway ready after %v, its index complete after %v", *waiting, end.name, median(bare), median(ready), median(loaded))
		goal(t, "start after "+end.name+", gateway : bare server", float64(median(ready))/float64(median(bare)), 2, false)
	}
	l.kill()
}
