package faultlab

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	faultTime = flag.Duration("faults", 0, "how long TestFaults goes on; 0 = a few seconds")
	kills     = flag.Int("kills", 0, "at least so many kill -9 in TestFaults")
	cuts      = flag.Int("cuts", 0, "power cuts of TestPowerCuts; 0 = one, and none with -short")
	outage    = flag.Int("outage", 400, "messages of each run of TestOutageAndKill")
	eraTime   = flag.Duration("era", 5*time.Minute, "about how long a storm goes on before it is judged and goes on with an empty history")
	seeding   = flag.Uint64("seed", 0, "seed of everything random; 0 = by the clock")
)

// labs counts, so that each draws something else of the same seed.
var labs atomic.Uint64

// scratch is removed at the end of the run. It lies below a folder of the lab's
// own, where the next run finds what a run that was killed has left.
var scratch string

// total is printed as the very last line.
var total struct {
	sync.Mutex
	report
	runs   int
	faults map[string]int // how often each was met
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
		fmt.Fprintf(os.Stdout, "seed=%d\n%s%s\n", *seeding, tally(total.faults), total.report.String())
	}
	return code
}

// tally lists how often each fault was met, a line for each kind of them.
func tally(faults map[string]int) string {
	var b strings.Builder
	kind := ""
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		head, rest, _ := strings.Cut(name, ", ")
		if head != kind {
			if kind != "" {
				b.WriteByte('\n')
			}
			kind = head
			fmt.Fprintf(&b, "%s:", head)
		}
		fmt.Fprintf(&b, " %s=%d", strings.ReplaceAll(rest, " ", "-"), faults[name])
	}
	if kind != "" {
		b.WriteByte('\n')
	}
	return b.String()
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
	disk    *disk  // of the store alone; nil = it is on this machine's
	store   string
	file    string
	log     *journal // of all its gateways
	gw      *gateway
	starts  int
	routes  []string
	held    map[string]bool // routes that store only what gets no answer
	leaving bool            // the gateway has been asked to stop
	kept    bool            // what a failing run leaves
	met     map[string]int  // faults
	buried  map[string]bool // dead letters that have been judged

	durability string // of the store; strict if empty
	minFree    string // of the store; 16MiB if empty
	onFailure  string // degrade if empty
	keys       string // the file with the keys of the store; empty = it is in clear
}

// newLab returns a lab whose store is in a directory of this machine's disk.
func newLab(t testing.TB) *lab { return newLabOn(t, nil) }

// newLabOn returns a lab whose store is on a disk of its own.
func newLabOn(t testing.TB, d *disk) *lab {
	t.Helper()
	l := &lab{
		t: t, seed: *seeding, rec: newRecorder(), dir: t.TempDir(), disk: d, held: map[string]bool{},
		met: map[string]int{}, buried: map[string]bool{},
	}
	t.Logf("seed %d", l.seed)
	l.rnd = rand.New(rand.NewPCG(l.seed, labs.Add(1)))
	l.w = newWriter(l.seed)
	l.file = filepath.Join(l.dir, "gateway.yaml")
	l.log = openJournal(t, filepath.Join(l.dir, "gateway.log"))
	l.store = filepath.Join(scratch, fmt.Sprintf("store-%d", time.Now().UnixNano()))
	if d == nil && unsafeFilesystem(scratch) != "" {
		d = mountDisk(t, 2<<30)
	}
	if d != nil {
		l.store = filepath.Join(d.mount, "store")
	}
	t.Cleanup(func() {
		l.killQuietly()
		if t.Failed() {
			l.keep(nil)
		}
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
	stops   bool // its key stands still for a dead letter
	once    bool // a message that is sent again is taken for what it is
	replies bool // answers are kept for the callers
	atMost  bool // at most once
	held    bool // the caller gets the backend's answer, if there is one in time
	anyway  bool // held, and stored also when it may have been processed
	sync    bool // delivery: sync, for comparison
}

// configure writes the configuration. Waits are short, so that a run sees many
// of them; everything else is as shipped.
func (l *lab) configure(plans ...plan) {
	l.t.Helper()
	for _, p := range plans {
		if p.sync {
			continue
		}
		h := &l.rec.h
		h.Ordered[p.name] = p.ordered || p.keyed
		h.Once[p.name], h.AtMost[p.name], h.Kept[p.name], h.Stops[p.name] = p.once, p.atMost, p.replies, p.stops
		l.held[p.name] = p.held
		l.routes = append(l.routes, p.name)
	}
	l.write(plans...)
}

// write writes the configuration anew, as for a lab that has changed its settings.
func (l *lab) write(plans ...plan) {
	l.t.Helper()
	var b strings.Builder
	b.WriteString("namespaces: {o: \"urn:soapway:faultlab\"}\nlisteners:\n  - {name: web, address: \"127.0.0.1:0\"}\n")
	if slices.ContainsFunc(plans, func(p plan) bool { return p.name == framedRoute }) {
		fmt.Fprintf(&b, "  - {name: plant, address: \"127.0.0.1:0\", protocol: framed, length: 4, route: %s}\n", framedRoute)
	}
	fmt.Fprintf(&b, `admin: {address: "127.0.0.1:0"}
log: {level: info, format: json}
drain: 5s
store: {dir: %q, min_free: %s, durability: %s, on_failure: %s%s}
backends:
`, l.store, cmp.Or(l.minFree, "16MiB"), cmp.Or(l.durability, "strict"), cmp.Or(l.onFailure, "degrade"), l.encryption())
	for _, p := range plans {
		probe := ", probe: {initial: 100ms, max: 500ms}"
		if p.sync {
			probe = "" // is for stored messages
		}
		fmt.Fprintf(&b, "  %s: {nodes: [%q], timeout: 2s, connect_timeout: 1s%s}\n", p.name, p.node.url("/"+p.name), probe)
	}
	b.WriteString("routes:\n  - {name: echo, match: {path: /echo}, to: [\"builtin:echo\"]}\n")
	for _, p := range plans {
		fmt.Fprintf(&b, "  - {name: %s, match: %s, backend: %s%s}\n", p.name, p.match(), p.name, p.settings())
	}
	if err := os.WriteFile(l.file, []byte(b.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) encryption() string {
	if l.keys == "" {
		return ""
	}
	return fmt.Sprintf(", encryption_key: %q", "file:"+l.keys)
}

// newKey puts a key above those that the store has.
func (l *lab) newKey() {
	l.t.Helper()
	old, err := os.ReadFile(l.keys)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	var key [32]byte
	for i := range key {
		key[i] = byte(l.rnd.Uint32())
	}
	fresh := l.keys + ".new"
	if err := os.WriteFile(fresh, fmt.Appendf(nil, "%x\n%s", key, old), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(fresh, l.keys); err != nil {
		l.t.Fatal(err)
	}
}

func (p *plan) match() string {
	if p.name == framedRoute {
		return "none"
	}
	return fmt.Sprintf("{path: /%s}", p.name)
}

// settings are the keys of a route that say how it delivers.
func (p *plan) settings() string {
	if p.sync {
		return ""
	}
	var b strings.Builder
	delivery := "queue"
	if p.held {
		delivery = "sync-then-queue, hold: 1s"
	}
	fmt.Fprintf(&b, ", delivery: %s, retry: {initial: 50ms, factor: 2, max: 1s}", delivery)
	for _, x := range []struct {
		on   bool
		text string
	}{
		{p.ordered, "order_by: route"},
		{p.keyed, `order_by: "body:/o:Place/o:Lane"`},
		{p.stops, "on_dead: stop"},
		{p.once, "dedup: {by: message-id, window: 1h}"},
		{p.replies, "reply: store"},
		{p.atMost, "assurance: at-most-once"},
		{p.anyway, "assurance: at-least-once"},
	} {
		if x.on {
			b.WriteString(", " + x.text)
		}
	}
	return b.String()
}

// launch starts the gateway and does not wait for it.
func (l *lab) launch() {
	l.t.Helper()
	fmt.Fprintf(l.log, "--- start %d at %v\n", l.starts+1, l.rec.now())
	g, err := launch(l.file, l.log)
	if err != nil {
		l.t.Fatal(err)
	}
	l.gw = g
	l.leaving = false
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

// stop ends the gateway in good order.
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
		if qs, waiting, err = l.gw.queues(l.routes); err == nil && waiting > 0 {
			err = l.freeKeys()
		}
		return err == nil && waiting == 0 || !l.gw.alive()
	}) || err != nil {
		l.t.Errorf("%d messages wait after %v: %+v, %v\n%s", waiting, within, qs, err, l.gw.tail())
	}
	l.rec.h.Waiting = waiting
	for _, r := range l.routes {
		dead, err := l.gw.dead(r, l.buried)
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
	if l.t.Failed() {
		l.keep(r.Violations)
	}
	l.t.Logf("%d starts, %d requests, %d repeats, %d answered at once, %d failed at once\n%s", l.starts, len(l.rec.h.Receipts), r.Repeats, r.Answered, r.Failed, &r)
	total.Lock()
	defer total.Unlock()
	total.add(r)
	total.runs++
	if total.faults == nil {
		total.faults = map[string]int{}
	}
	for name, n := range l.met {
		total.faults[name] += n
	}
	clear(l.met)
}

// between draws a duration.
func (l *lab) between(low, high time.Duration) time.Duration {
	return low + time.Duration(l.rnd.Int64N(int64(high-low)))
}

// pick draws from so many.
func (l *lab) pick(n int) int { return l.rnd.IntN(n) }

// fork returns randomness of its own for another goroutine.
func (l *lab) fork() *rand.Rand { return rand.New(rand.NewPCG(l.rnd.Uint64(), l.rnd.Uint64())) }
