package faultlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A storm is a lab in which everything happens to one gateway under load.
type storm struct {
	*lab
	plans []plan
	nodes []*backend // of the routes of each kind; they come and go
	flock *backend   // of many more routes; answers as it likes, and is always there
	dead  *backend   // is down throughout

	bursts []*crowd
	missed bool // the moment that was aimed at did not come
}

// A fault is something that is done to a gateway under load. It ends with the
// gateway at work.
type fault struct {
	name    string // kind and which
	without func(s *storm) string
	do      func(s *storm)
}

// destinations is how many backends a storm has, one of which is down throughout.
const destinations = 50

// deadRoute is the route to the backend that is down throughout.
const deadRoute = "dead"

// newStorm returns a storm over a disk of its own, or over that of this machine
// where there can be none.
func newStorm(t *testing.T) *storm {
	t.Helper()
	var d *disk
	if why := noDisk(); why == "" {
		d = mountDisk(t, 768<<20)
	}
	s := &storm{lab: newLabOn(t, d)}
	s.minFree = "64MiB"
	if s.seed%2 == 0 { // by turns encrypted and in clear
		s.keys = filepath.Join(s.dir, "store.key")
		s.newKey()
		t.Log("the store is encrypted")
	}
	s.plans = kinds()
	for i := range s.plans {
		n := newBackend(t, s.rec, s.seed+uint64(i), s.plans[i].name)
		newChaos(t, n, s.seed+uint64(i))
		n.act(usual)
		n.up()
		s.plans[i].node = n
		s.nodes = append(s.nodes, n)
	}
	s.dead = newBackend(t, s.rec, s.seed+100, deadRoute)
	s.flock = newBackend(t, s.rec, s.seed+101, "flock")
	s.flock.act(usual)
	s.flock.up()
	s.plans = append(s.plans, plan{name: deadRoute, node: s.dead})
	for i := range destinations - len(s.plans) {
		s.plans = append(s.plans, plan{name: fmt.Sprintf("plant-%02d", i), node: s.flock})
	}
	s.configure(s.plans...)
	return s
}

// storming does everything to one gateway, in an order that is drawn, until the
// time is over and everything was done once.
func storming(t *testing.T, d time.Duration) {
	s := newStorm(t)
	deck := slices.DeleteFunc(everything(), func(f fault) bool {
		why := ""
		if f.without != nil {
			why = f.without(s)
		}
		if why != "" {
			t.Logf("left out: %s: %s", f.name, why)
		}
		return why != ""
	})
	s.start()
	begun := time.Now()
	for first := true; first || time.Since(begun) < d; first = false {
		s.era(deck, first, begun.Add(d))
		if t.Failed() {
			break
		}
	}
	s.stop()
}

// era does faults until its time is over, heals everything, and judges. What is
// remembered fits in memory then, however long a storm lasts.
func (s *storm) era(deck []fault, whole bool, until time.Time) {
	s.t.Helper()
	if over := time.Now().Add(*eraTime); until.After(over) {
		until = over
	}
	c := s.work()
	defer c.halt()
	moods := s.moods()
	defer moods()
	for ; whole || time.Now().Before(until); whole = false {
		s.rnd.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		for i := range deck {
			if !whole && time.Now().After(until) {
				break
			}
			pause(s.between(50*time.Millisecond, 250*time.Millisecond))
			fmt.Fprintf(s.log, "--- %v %s\n", s.rec.now(), deck[i].name)
			s.missed = false
			deck[i].do(s)
			name := deck[i].name
			if s.missed {
				name += " missed"
			}
			s.met[name]++
			s.regain(name)
		}
	}
	moods()
	c.halt()
	for _, b := range s.bursts {
		b.wait()
	}
	s.bursts = nil
	heal(append([]*backend{s.dead, s.flock}, s.nodes...))
	s.settle(2 * patience)
	s.t.Logf("%d messages sent again with nothing waiting", c.repeatAll())
	for _, n := range append([]*backend{s.dead, s.flock}, s.nodes...) {
		n.down() // so that nobody is at work on the ledger
	}
	s.judge()
	s.dropDead()
	h := newHistory()
	old := &s.rec.h
	h.Ordered, h.Once, h.AtMost, h.Kept, h.Stops = old.Ordered, old.Once, old.AtMost, old.Kept, old.Stops
	s.rec.h = h
	clear(s.buried) // one that comes back is one that nobody sent
	for _, n := range append([]*backend{s.flock}, s.nodes...) {
		n.act(usual)
		n.up()
	}
}

// work is the load: senders for each kind of route, some for the many, and one
// for the backend that is down.
func (s *storm) work() *crowd {
	c := &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	usual := func(s *sender) { s.think, s.deadly = 40*time.Millisecond, 60 }
	var flock []string
	for _, p := range s.plans {
		switch p.node {
		case s.flock:
			flock = append(flock, p.name)
		case s.dead:
			s.hire(ctx, c, 0, func(s *sender) { s.think = 300 * time.Millisecond }, p.name)
		default:
			s.hire(ctx, c, 0, usual, p.name)
			s.hire(ctx, c, 0, usual, p.name)
		}
	}
	for range 6 {
		s.hire(ctx, c, 0, usual, flock...)
	}
	return c
}

// moods lets the backends change how they answer, and now and then be down for a
// moment, until it is called off.
func (s *storm) moods() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		rnd := s.fork()
		wg.Go(func() {
			all := []script{always(takes), usual, usual, always(faults), always(busy), always(dawdles), mixed(takes, resets), mixed(takes, takes, takes, hangs)}
			for ctx.Err() == nil {
				n.act(all[rnd.IntN(len(all))])
				if rnd.IntN(8) == 0 {
					n.down()
					wait(ctx, time.Duration(rnd.Int64N(int64(time.Second))))
					n.up()
				}
				wait(ctx, time.Duration(rnd.Int64N(int64(4*time.Second))))
			}
		})
	}
	return func() { stop(); wg.Wait() }
}

// regain: after a fault the gateway is there, or comes, and takes messages.
func (s *storm) regain(fault string) {
	s.t.Helper()
	if err := s.gw.awaitReady(); err != nil {
		s.t.Fatalf("after %s: %v", fault, err)
	}
	s.door.set(s.gw.addr)
	before := s.acceptances()
	if !eventually(patience, func() bool { return s.acceptances() > before }) {
		s.t.Fatalf("after %s: no message is accepted\n%s", fault, s.gw.tail())
	}
}

// acceptances is how many messages were accepted so far.
func (l *lab) acceptances() int {
	_, n, _ := l.rec.counts()
	return n
}

// everything is all that is done to a gateway.
func everything() []fault {
	var all []fault
	for _, m := range moments {
		all = append(
			all,
			fault{"kill, " + m.name, nil, func(s *storm) { s.await(m); s.kill(); s.launch() }},
			fault{"power, " + m.name, withoutDisk, func(s *storm) { s.await(m); s.powerCut(); s.launch() }},
		)
	}
	for _, x := range troubles {
		all = append(all, fault{"network, " + string(x), nil, func(s *storm) { s.disturb(x) }})
	}
	return append(
		all,
		fault{"stop, orderly", nil, func(s *storm) { s.stop(); s.start() }},
		fault{"reload, asked for", nil, func(s *storm) { s.reload(s.hangUp) }},
		fault{"reload, key", withoutKey, func(s *storm) { s.reload(s.newKey) }},
		fault{"frozen, gateway", withoutFreezing, (*storm).freezeGateway},
		fault{"frozen, backend", nil, (*storm).freezeBackend},
		fault{"disk, full", withoutDisk, func(s *storm) { s.fillDisk(stormSpare) }},
		fault{"disk, last octet", withoutDisk, func(s *storm) { s.fillDisk(0) }},
		fault{"disk, neighbour", nil, (*storm).neighbour},
		fault{"error, sync", withoutStrace, func(s *storm) { s.failStore("sync", false) }},
		fault{"error, write", withoutStrace, func(s *storm) { s.failStore("GW_IN_00", false) }},
		fault{"error, note", withoutStrace, func(s *storm) { s.failStore("GW_STATE", false) }},
		fault{"error, reply", withoutStrace, func(s *storm) { s.failStore("GW_ANSWER", false) }},
		fault{"operator, replay", nil, (*storm).replayDead},
		fault{"operator, drop", nil, (*storm).dropHeads},
		fault{"operator, pause", nil, func(s *storm) { s.meddle("pause", "resume") }},
		fault{"operator, hold", nil, func(s *storm) { s.meddle("hold", "release") }},
		fault{"operator, flush", nil, func(s *storm) { s.operate("flush", "", s.some()...) }},
		fault{"error, sync and exit", withoutStrace, func(s *storm) { s.failStore("sync", true) }},
	)
}

func withoutDisk(s *storm) string {
	if s.disk == nil {
		return noDisk()
	}
	return ""
}

func withoutKey(s *storm) string {
	if s.keys == "" {
		return "the store is in clear; it is encrypted when the seed is even"
	}
	return ""
}

func (s *storm) hangUp() {
	if err := s.gw.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Error(err)
	}
}

// reload changes files that the gateway watches, and waits until it has seen it.
func (s *storm) reload(change func()) {
	if err := s.gw.awaitReady(); err != nil {
		s.t.Fatal(err)
	}
	seen := s.gw.log.await(`"msg":"reloaded"`)
	change()
	select {
	case <-seen:
	case <-time.After(patience):
		s.t.Errorf("the gateway has not noticed that its configuration has changed\n%s", s.gw.tail())
	}
}

// disturb makes trouble on the way to some backends.
func (s *storm) disturb(x trouble) {
	var hit []*chaos
	for _, i := range s.rnd.Perm(len(s.nodes))[:4] {
		hit = append(hit, s.nodes[i].chaos)
	}
	for _, c := range hit {
		c.make(x)
	}
	pause(s.between(time.Second, 3*time.Second))
	for _, c := range hit {
		c.make(calm)
	}
}

// freezeBackend lets backends stand still for longer than the gateway waits.
func (s *storm) freezeBackend() {
	some := []*backend{s.nodes[s.rnd.IntN(len(s.nodes))], s.nodes[s.rnd.IntN(len(s.nodes))]}
	for _, n := range some {
		n.freeze()
	}
	pause(s.between(time.Second, 4*time.Second))
	for _, n := range some {
		n.thaw()
	}
}

// freezeGateway lets the gateway stand still for 5 to 13 s, the last of which are
// more than an acknowledgement may take, and in a long run for up to 90 s.
func (s *storm) freezeGateway() {
	most := min(90*time.Second, max(13*time.Second, *faultTime/10))
	defer s.rec.lasting("SIGSTOP")()
	if err := freeze(s.gw.cmd.Process); err != nil {
		s.t.Fatal(err)
	}
	pause(s.between(5*time.Second, most))
	if err := thaw(s.gw.cmd.Process); err != nil {
		s.t.Fatal(err)
	}
}

// fillDisk lets a stranger fill the disk but for so much, and go after a while.
// Messages are refused before the store fails, and taken again by themselves. Where
// nothing is left the store may fail, and is opened again by itself.
func (s *storm) fillDisk(leave int64) {
	failed := s.gw.log.await(storeFailed)
	defer s.rec.lasting("a stranger on the disk")()
	if err := s.disk.fill(s.ballast(), leave); err != nil {
		s.t.Fatal(err)
	}
	before := s.refusals()
	if !eventually(10*time.Second, func() bool { return s.refusals() > before }) {
		s.t.Errorf("nothing is refused on a full disk\n%s", s.gw.tail())
	}
	more := s.ballast() + "-2"
	if leave == 0 { // what the gateway gave up to have room at all
		pause(s.between(0, 500*time.Millisecond))
		if err := s.disk.fill(more, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	pause(s.between(500*time.Millisecond, 2*time.Second))
	if err := errors.Join(os.RemoveAll(more), os.Remove(s.ballast())); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-failed:
		if leave > 0 {
			s.t.Errorf("the store has failed for a stranger on its disk\n%s", s.gw.tail())
		}
	case <-s.gw.gone:
		s.t.Errorf("the gateway died of a full disk: %v\n%s", s.gw.err, s.gw.tail())
	default:
		s.missed = leave == 0
	}
}

// stormSpare is what a stranger leaves of a storm's disk, less than its min_free. It
// is more than [spare]: under load the log is trimmed in several places at once, and
// what is written anew stands beside its second name until the next sync. With 12
// MiB left the store was closed for a second in three of three storms of five minutes.
const stormSpare = 48 << 20

// storeFailed is what the gateway's log says when a store is given up.
const storeFailed = "the store can not be trusted any more"
