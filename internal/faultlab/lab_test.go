package faultlab

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	faultTime = flag.Duration("faults", 0, "how long TestFaults goes on; 0 = a few seconds")
	kills     = flag.Int("kills", 0, "at least so many kill -9 in TestFaults")
	cuts      = flag.Int("cuts", 0, "power cuts of TestPowerCuts; 0 = one, and none with -short")
	outage    = flag.Int("outage", 400, "messages of each run of TestOutageAndKill")
	seeding   = flag.Uint64("seed", 0, "seed of everything random; 0 = by the clock")
)

// scratch is removed at the end of the run. It lies below a folder of the lab's
// own, where the next run finds what a run that was killed has left.
var scratch string

// total is printed as the very last line.
var total struct {
	sync.Mutex
	report
	runs int
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(bareEnv); dir != "" {
		os.Exit(runBare(dir))
	}
	flag.Parse()
	if *seeding == 0 {
		*seeding = uint64(time.Now().UnixNano())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	root := filepath.Join(os.TempDir(), "soapway-faultlab")
	if err := os.MkdirAll(root, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	sweep(root)
	var err error
	if scratch, err = os.MkdirTemp(root, "run-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	unlock, err := claim(scratch)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		unlock()
		os.RemoveAll(scratch)
	}()
	code := m.Run()
	if total.runs > 0 {
		fmt.Fprintln(os.Stdout, total.report.String())
	}
	return code
}

// A lab is one scenario: its backends, its gateway, and what was seen.
type lab struct {
	t       testing.TB
	seed    uint64
	rnd     *rand.Rand
	rec     *recorder
	w       *writer
	door    door
	senders int
	dir     string // of the configuration, on a disk that is never cut
	store   string
	file    string
	config  string
	gw      *gateway
	starts  int
	routes  []string
	replies map[string]bool // routes that keep replies
}

// newLab returns a lab whose store is in a directory of this machine's disk.
func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{t: t, seed: *seeding, rec: newRecorder(), dir: t.TempDir(), replies: map[string]bool{}}
	t.Logf("seed %d", l.seed)
	l.rnd = rand.New(rand.NewPCG(l.seed, 0))
	l.w = newWriter(l.seed)
	l.file = filepath.Join(l.dir, "gateway.yaml")
	l.store = filepath.Join(scratch, fmt.Sprintf("store-%d", time.Now().UnixNano()))
	if kind := unsafeFilesystem(scratch); kind != "" {
		disk := mountDisk(t, 2<<30)
		l.store = filepath.Join(disk.mount, "store")
	}
	t.Cleanup(func() {
		l.killQuietly()
		os.RemoveAll(l.store)
	})
	return l
}

// A plan is what the configuration says of one route.
type plan struct {
	name    string
	node    *backend
	ordered bool
	keyed   bool // by a key in the body
	once    bool // a message that is sent again is taken for what it is
	replies bool // answers are kept for the callers
	sync    bool // delivery: sync, for comparison
}

// configure writes the configuration. Waits are short, so that a run sees many
// of them; everything else is as shipped.
func (l *lab) configure(plans ...plan) {
	l.t.Helper()
	var b strings.Builder
	b.WriteString("namespaces: {o: \"urn:soapway:faultlab\"}\nlisteners:\n  - {name: web, address: \"127.0.0.1:0\"}\n")
	if slices.ContainsFunc(plans, func(p plan) bool { return p.name == framedRoute }) {
		fmt.Fprintf(&b, "  - {name: plant, address: \"127.0.0.1:0\", protocol: framed, length: 4, route: %s}\n", framedRoute)
	}
	fmt.Fprintf(&b, `admin: {address: "127.0.0.1:0"}
log: {level: info, format: json}
drain: 5s
store: {dir: %q, min_free: 16MiB}
backends:
`, l.store)
	for _, p := range plans {
		probe := ", probe: {initial: 100ms, max: 500ms}"
		if p.sync {
			probe = "" // is for stored messages
		}
		fmt.Fprintf(&b, "  %s: {nodes: [%q], timeout: 2s, connect_timeout: 1s%s}\n", p.name, p.node.url("/"+p.name), probe)
	}
	b.WriteString("routes:\n")
	for _, p := range plans {
		match := fmt.Sprintf("{path: /%s}", p.name)
		if p.name == framedRoute {
			match = "none"
		}
		if p.sync {
			fmt.Fprintf(&b, "  - {name: %s, match: %s, backend: %s}\n", p.name, match, p.name)
			continue
		}
		fmt.Fprintf(&b, "  - {name: %s, match: %s, backend: %s, delivery: queue, retry: {initial: 50ms, factor: 2, max: 1s}", p.name, match, p.name)
		switch {
		case p.ordered:
			b.WriteString(", order_by: route")
		case p.keyed:
			b.WriteString(`, order_by: "body:/o:Place/o:Lane"`)
		}
		if p.once {
			b.WriteString(", dedup: {by: message-id, window: 1h}")
		}
		if p.replies {
			b.WriteString(", reply: store")
			l.replies[p.name] = true
		}
		b.WriteString("}\n")
		l.rec.h.Ordered[p.name] = p.ordered || p.keyed
		l.rec.h.Once[p.name] = p.once
		l.routes = append(l.routes, p.name)
	}
	l.config = b.String()
	if err := writeConfig(l.file, l.config); err != nil {
		l.t.Fatal(err)
	}
}

// launch starts the gateway and does not wait for it.
func (l *lab) launch() {
	l.t.Helper()
	g, err := launch(l.file)
	if err != nil {
		l.t.Fatal(err)
	}
	l.gw = g
	l.starts++
	go func() { // the door opens as soon as there is one
		select {
		case <-g.ready:
			l.door.set(g.addr)
		case <-g.gone:
		}
	}()
}

// start starts the gateway and waits until it takes messages.
func (l *lab) start() {
	l.t.Helper()
	l.launch()
	if err := l.gw.awaitReady(); err != nil {
		l.t.Fatal(err)
	}
	l.door.set(l.gw.addr)
}

// kill ends the gateway by kill -9.
func (l *lab) kill() {
	l.t.Helper()
	select {
	case <-l.gw.gone:
		l.t.Errorf("the gateway died on its own: %v\n%s", l.gw.err, l.gw.tail())
	default:
	}
	l.rec.breach("", "kill -9")
	l.gw.kill()
	l.after()
}

// restart ends the gateway in good order and starts it again.
func (l *lab) stop() {
	l.t.Helper()
	l.rec.breach("", "SIGTERM")
	if err := l.gw.stop(); err != nil {
		l.t.Error(err)
	}
	l.after()
}

func (l *lab) after() {
	l.t.Helper()
	l.door.set(nil)
	if err := l.gw.complaint(); err != nil {
		l.t.Error(err)
	}
}

func (l *lab) killQuietly() {
	if l.gw != nil && l.gw.alive() {
		l.gw.kill()
	}
}

// settle waits until nothing is waiting any more, with every backend up, and
// reads what is dead. What still waits after the time is a violation.
func (l *lab) settle(within time.Duration) {
	l.t.Helper()
	var qs []queueState
	var err error
	waiting := 0
	if !eventually(within, func() bool {
		qs, waiting, err = l.gw.queues(l.routes)
		return err == nil && waiting == 0 || !l.gw.alive()
	}) || err != nil {
		l.t.Errorf("%d messages wait after %v: %+v, %v\n%s", waiting, within, qs, err, l.gw.tail())
	}
	l.rec.h.Waiting = waiting
	for _, r := range l.routes {
		dead, err := l.gw.dead(r)
		if err != nil {
			l.t.Error(err)
		}
		l.rec.h.Dead = append(l.rec.h.Dead, dead...)
	}
	asked, wrong := l.lostReplies()
	for _, v := range wrong[:min(len(wrong), 10)] {
		l.t.Error(v)
	}
	l.t.Logf("%d replies asked for, %d lost", asked, len(wrong))
}

// finish drains, stops, and judges.
func (l *lab) finish() {
	l.t.Helper()
	l.settle(2 * patience)
	l.stop()
	l.judge()
}

// judge runs the checker over what was seen, and reports it.
func (l *lab) judge() {
	l.t.Helper()
	r := check(&l.rec.h)
	const shown = 10
	for i, v := range r.Violations {
		if i == shown {
			l.t.Errorf("and %d more violations", len(r.Violations)-shown)
			break
		}
		l.t.Error(v)
	}
	if len(r.Violations) > 0 {
		l.keep(r)
	}
	l.t.Logf("%d starts, %d requests, %d repeats\n%s", l.starts, len(l.rec.h.Receipts), r.Repeats, &r)
	total.Lock()
	defer total.Unlock()
	total.add(r)
	total.runs++
}

// keep writes the whole history where it can be looked at (go test -artifacts).
func (l *lab) keep(r report) {
	dir := l.t.ArtifactDir()
	for name, v := range map[string]any{"history.json": &l.rec.h, "violations.json": r.Violations} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			l.t.Log(err)
			continue
		}
		err = json.NewEncoder(f).Encode(v)
		if err := errors.Join(err, f.Close()); err != nil {
			l.t.Log(err)
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "gateway.log"), []byte(l.gw.log.String()), 0o600)
}

// between draws a duration.
func (l *lab) between(low, high time.Duration) time.Duration {
	return low + time.Duration(l.rnd.Int64N(int64(high-low)))
}

// fork returns randomness of its own for another goroutine.
func (l *lab) fork() *rand.Rand { return rand.New(rand.NewPCG(l.rnd.Uint64(), l.rnd.Uint64())) }
