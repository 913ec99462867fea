package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The size of TestDeadDestinations, which a normal run leaves out:
//
//	go test ./queue -run TestDeadDestinations -v -waiting 1000000 -destinations 2000
var (
	flagWaiting      = flag.Int("waiting", 0, "TestDeadDestinations: messages that wait")
	flagDestinations = flag.Int("destinations", 2000, "TestDeadDestinations: destinations, all of them down")
	flagWatched      = flag.Duration("watched", time.Minute, "TestDeadDestinations: how long the CPU time is measured")
)

// scaled is a message as a gateway makes them, for one of so many destinations.
func scaled(i, destinations int) *Message {
	name := "backend-" + strconv.Itoa(i%destinations)
	return &Message{
		ID: uuid.Must(uuid.NewV7()).String(), Route: name, Destination: name, Operation: "PlaceOrder",
		Accepted: time.Now(), Meta: bytes.Repeat([]byte("m"), 120), Body: bytes.Repeat([]byte("b"), 400),
	}
}

// scaledRoutes are as many routes, each with a destination of its own.
func scaledRoutes(n int) (routes []Route, dests []Destination) {
	for i := range n {
		name := "backend-" + strconv.Itoa(i)
		routes = append(routes, Route{Name: name, Destination: name})
		dests = append(dests, Destination{Name: name})
	}
	return routes, dests
}

// nowhere is where nothing can be reached.
type nowhere struct{}

func (nowhere) Deliver(context.Context, *Delivery) Outcome { return refused }
func (nowhere) Probe(context.Context, string) error        { return errors.New("refused") }

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestIndexMemory: what a waiting message costs in memory once the log was read,
// beside what its store keeps.
func TestIndexMemory(t *testing.T) {
	const messages, destinations = 50_000, 100
	s := NewMemory()
	for i := range messages {
		if _, err := s.Put(t.Context(), scaled(i, destinations)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = s.Reopen()
	q, err := New(s, nowhere{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Configure(scaledRoutes(destinations)); err != nil {
		t.Fatal(err)
	}
	before := heapInUse()
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	each := float64(heapInUse()-before) / messages
	t.Logf("%.0f octets for each waiting message", each)
	if each > mostEach {
		t.Errorf("%.0f octets for each waiting message, want at most %d", each, mostEach)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(q)
}

// mostEach is what DESIGN.md's 2,000 dead destinations with 1,000,000 messages in
// 512 MiB leave for one.
const mostEach = 200

// scaleReport is what the second process of TestDeadDestinations tells.
type scaleReport struct {
	Open       time.Duration // until the gateway would be ready
	OpenCPU    time.Duration
	Load       time.Duration // from then on, until the index was complete
	LoadCPU    time.Duration // of the process until then
	Resident   int64         // octets, when all destinations were down
	Peak       int64
	Heap       uint64
	Goroutines int
	CPU        time.Duration // within flagWatched, all destinations down
	Waiting    int
}

// TestDeadDestinations measures what messages that wait for destinations that are
// down cost: a process fills an embedded store, and another one opens it and lets
// all of them find out that they are down.
func TestDeadDestinations(t *testing.T) {
	if dir := os.Getenv("SOAPWAY_SCALE_DIR"); dir != "" {
		reportScale(t, dir)
		return
	}
	if *flagWaiting == 0 {
		t.Skip("takes minutes: -waiting 1000000")
	}
	dir := t.TempDir()
	fillScale(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestDeadDestinations$", "-test.timeout=30m",
		"-waiting="+strconv.Itoa(*flagWaiting), "-destinations="+strconv.Itoa(*flagDestinations), "-watched="+flagWatched.String())
	cmd.Env = append(os.Environ(), "SOAPWAY_SCALE_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r scaleReport
	_, line, _ := bytes.Cut(out, []byte("scale: "))
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const mib = 1 << 20
	t.Logf("%d messages wait for %d destinations, all of them down", r.Waiting, *flagDestinations)
	t.Logf("ready after %v, with %v of CPU time", r.Open.Round(time.Millisecond), r.OpenCPU.Round(time.Millisecond))
	t.Logf("index complete after %v more, with %v of CPU time", r.Load.Round(time.Millisecond), r.LoadCPU.Round(time.Millisecond))
	t.Logf("resident %d MiB (at most %d MiB), heap %d MiB, %d goroutines", r.Resident/mib, r.Peak/mib, r.Heap/mib, r.Goroutines)
	t.Logf("CPU time %v in %v, %.2f %% of one core", r.CPU.Round(time.Millisecond), *flagWatched, 100*r.CPU.Seconds()/flagWatched.Seconds())
	if r.Waiting != *flagWaiting {
		t.Errorf("%d messages wait, want %d", r.Waiting, *flagWaiting)
	}
	if perMillion := r.Resident * 1_000_000 / int64(*flagWaiting); *flagWaiting >= 1_000_000 && perMillion > 512*mib {
		t.Errorf("resident %d MiB for 1,000,000 messages, want at most 512", perMillion/mib)
	}
}

func fillScale(t *testing.T, dir string) {
	t.Helper()
	s, err := OpenEmbedded(StoreOptions{Dir: dir, Durability: Relaxed, MinFree: -1, MaxBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var wg sync.WaitGroup
	const senders = 256
	for n := range senders {
		wg.Go(func() {
			for i := n; i < *flagWaiting; i += senders {
				if _, err := s.Put(t.Context(), scaled(i, *flagDestinations)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("filled in %v", time.Since(began).Round(time.Millisecond))
}

// reportScale is the second process.
func reportScale(t *testing.T, dir string) {
	opening := time.Now()
	s, err := OpenEmbedded(StoreOptions{Dir: dir, Durability: Relaxed, MinFree: -1, MaxBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(s, nowhere{}, Options{Drain: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Configure(scaledRoutes(*flagDestinations)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r := scaleReport{Open: time.Since(opening), OpenCPU: cpuTime(t)}
	began := time.Now()
	go func() { done <- q.Run(ctx) }()
	<-q.complete
	r.Load, r.LoadCPU = time.Since(began), cpuTime(t)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for down := 0; down < *flagDestinations; {
		<-tick.C
		down = 0
		for _, s := range q.Stats() {
			if s.Down && s.InFlight == 0 {
				down++
			}
		}
	}
	settled := time.NewTimer(10 * time.Second)
	<-settled.C
	before := cpuTime(t)
	watched := time.NewTimer(*flagWatched)
	<-watched.C
	r.CPU = cpuTime(t) - before
	r.Resident, r.Peak = procStatus(t, "VmRSS:"), procStatus(t, "VmHWM:")
	r.Goroutines, r.Waiting = runtime.NumGoroutine(), q.Waiting()
	r.Heap = heapInUse()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(os.Stdout, "scale: %s\n", b); err != nil {
		t.Fatal(err)
	}
}

// procStatus is a size of this process, in octets; 0 where the system does not tell.
func procStatus(t *testing.T, name string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0
}

// cpuTime is what this process has used, in hundredths of a second; 0 where the
// system does not tell.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	var ticks int64
	for _, v := range f[11:13] { // utime and stime
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
