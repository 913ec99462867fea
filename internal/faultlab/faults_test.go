package faultlab

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFaults does all that the lab can do to a gateway under load. Without
// -faults it is one round of kill -9.
func TestFaults(t *testing.T) {
	d := *faultTime
	if d == 0 {
		t.Run("kill", func(t *testing.T) { killing(t, 2*time.Second, max(1, *kills)) })
		return
	}
	part := min(d/10, 2*time.Minute)
	t.Run("storm", func(t *testing.T) { storming(t, d-4*part) })
	t.Run("kill", func(t *testing.T) { killing(t, part, *kills) })
	if d >= 2*time.Minute { // the storm has that too, but for a gateway that runs through
		t.Run("flapping", func(t *testing.T) { flapping(t, part) })
	}
	t.Run("first start", func(t *testing.T) { firstStarts(t, part) })
	t.Run("one dead of fifty", func(t *testing.T) { oneDead(t, part) })
}

// TestPowerCuts cuts the power of the store's disk under load.
func TestPowerCuts(t *testing.T) {
	n := *cuts
	if n == 0 {
		if testing.Short() {
			t.Skip("one power cut takes some seconds; -cuts asks for them")
		}
		n = 1
	}
	powerCuts(t, 0, n)
}

// site configures a route of each kind: with order and without, by a key in the
// body, with messages that are sent again, with replies that are kept, at most
// once, with the backend's answer in place of a receipt, with messages above 1 MiB,
// and one with a framed backend that is also reached by frames.
func (l *lab) site() (nodes []*backend) {
	l.t.Helper()
	plans := kinds()
	for i := range plans {
		plans[i].node = newBackend(l.t, l.rec, l.seed+uint64(i), plans[i].name)
		plans[i].node.up()
		nodes = append(nodes, plans[i].node)
	}
	l.configure(plans...)
	return nodes
}

// bulkRoute has messages that are too large for a record of the store.
const bulkRoute = "bulk"

func kinds() []plan {
	return []plan{
		{name: "free", replies: true},
		{name: "first", ordered: true},
		{name: "second", ordered: true, replies: true},
		{name: framedRoute},
		{name: keyedRoute, keyed: true},
		{name: stopsRoute, keyed: true, stops: true},
		{name: onceRoute, once: true},
		{name: heardRoute, once: true, replies: true},
		{name: "single", atMost: true},
		{name: "held", held: true},
		{name: "anyway", held: true, anyway: true},
		{name: bulkRoute},
	}
}

// usual is what a backend in a bad mood does.
var usual = mixed(takes, takes, takes, takes, takes, nothings, dawdles, dawdles, faults, busy, resets)

// heal makes all backends well.
func heal(nodes []*backend) {
	for _, n := range nodes {
		n.act(always(takes))
		n.up()
	}
}

// killing kills the gateway at random points, during its start too.
func killing(t *testing.T, d time.Duration, least int) {
	l := newLab(t)
	nodes := l.site()
	for _, n := range nodes {
		n.act(usual)
	}
	l.start()
	c := l.send(24, 0, 10*time.Millisecond, 200, l.routes...)
	n := 0
	for end := time.Now().Add(d); n < least || time.Now().Before(end); n++ {
		switch l.rnd.IntN(4) {
		case 0: // at the start, ready or not
			pause(l.between(0, 60*time.Millisecond))
		case 1: // soon after it
			select {
			case <-l.gw.ready:
			case <-l.gw.gone:
			}
			pause(l.between(0, 100*time.Millisecond))
		default:
			if err := l.gw.awaitReady(); err != nil {
				t.Fatal(err)
			}
			pause(l.between(100*time.Millisecond, 1200*time.Millisecond))
		}
		l.kill()
		l.launch()
	}
	t.Logf("%d kill -9", n)
	if err := l.gw.awaitReady(); err != nil {
		t.Fatal(err)
	}
	c.halt()
	heal(nodes)
	l.finish()
}

// flapping lets every backend go down, come back, and do all else that backends
// do, under a gateway that runs through.
func flapping(t *testing.T, d time.Duration) {
	l := newLab(t)
	nodes := l.site()
	l.start()
	c := l.send(24, 0, 10*time.Millisecond, 200, l.routes...)
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for _, n := range nodes {
		n.silent.Store(int64(3 * time.Second)) // more than the gateway waits
		rnd := l.fork()
		wg.Go(func() {
			moods := []script{always(takes), usual, always(faults), always(busy), always(dawdles), mixed(takes, resets), mixed(takes, takes, takes, hangs), always(resets)}
			for time.Now().Before(end) {
				n.act(moods[rnd.IntN(len(moods))])
				if rnd.IntN(4) == 0 {
					n.down()
				} else {
					n.up()
				}
				pause(time.Duration(rnd.Int64N(int64(2 * time.Second))))
			}
		})
	}
	wg.Wait()
	c.halt()
	heal(nodes)
	l.finish()
}

// firstStarts breaks off starts in which a store is made, as often as there is
// time for: what there is then is a store, or becomes one.
func firstStarts(t *testing.T, d time.Duration) {
	var disk *disk
	if noDisk() == "" {
		disk = mountDisk(t, 256<<20)
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		l := newLabOn(t, disk)
		nodes := l.site()
		c := &crowd{stop: func() {}}
		for range 1 + l.pick(3) {
			l.launch()
			if c.senders == nil {
				c = l.send(8, 0, 5*time.Millisecond, 20, l.routes...)
			}
			pause(l.between(0, 150*time.Millisecond))
			if disk != nil && l.pick(2) == 0 {
				l.powerCut()
				l.met["power, first start"]++
			} else {
				l.kill()
				l.met["kill, first start"]++
			}
		}
		l.start()
		pause(l.between(100*time.Millisecond, 500*time.Millisecond))
		c.halt()
		heal(nodes)
		l.finish()
		err := os.RemoveAll(l.store)
		if disk != nil { // a power cut must not bring the old store back
			err = errors.Join(err, disk.off(), disk.on())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			n.down()
		}
	}
}

// powerCuts cuts the power under load, at least so often and for so long.
func powerCuts(t *testing.T, d time.Duration, least int) {
	l := newLabOn(t, mountDisk(t, 1<<30))
	nodes := l.site()
	for _, n := range nodes {
		n.act(usual)
	}
	l.start()
	c := l.send(24, 0, 10*time.Millisecond, 200, l.routes...)
	n := 0
	for end := time.Now().Add(d); n < least || time.Now().Before(end); n++ {
		if l.rnd.IntN(4) == 0 { // in the middle of a start
			pause(l.between(0, 60*time.Millisecond))
		} else {
			if err := l.gw.awaitReady(); err != nil {
				t.Fatal(err)
			}
			pause(l.between(0, 2500*time.Millisecond))
		}
		l.powerCut()
		l.launch()
	}
	t.Logf("%d power cuts", n)
	if err := l.gw.awaitReady(); err != nil {
		t.Fatal(err)
	}
	c.halt()
	heal(nodes)
	l.finish()
}

// TestOutageAndKill: the backend is down, every message is accepted; the
// gateway is killed in the middle of a second such run; once it and the backend
// are back, every message arrives.
func TestOutageAndKill(t *testing.T) {
	l := newLab(t)
	node := newBackend(t, l.rec, l.seed, "orders")
	l.configure(plan{name: "orders", node: node})
	const connections = 64
	each := (*outage + connections - 1) / connections
	l.start()

	began := time.Now()
	l.send(connections, each, 0, 0, "orders").wait()
	if ops, acc, _ := l.rec.counts(); acc != ops {
		t.Errorf("backend down: %d of %d messages accepted, want all", acc, ops)
	}
	t.Logf("%d messages accepted in %v, backend down", connections*each, time.Since(began).Round(time.Millisecond))

	half := connections*each + connections*each/2
	second := l.send(connections, each, 0, 0, "orders")
	if !eventually(patience, func() bool { ops, _, _ := l.rec.counts(); return ops >= half }) {
		t.Fatal("the second run does not come to its middle")
	}
	l.kill()
	second.halt()
	_, acc, receipts := l.rec.counts()
	if receipts > 0 {
		t.Errorf("%d requests came to a backend that is down", receipts)
	}
	t.Logf("killed with %d accepted", acc)

	l.start()
	began = time.Now()
	node.up()
	l.settle(2 * patience)
	t.Logf("delivered %v after the backend came back", time.Since(began).Round(time.Millisecond))
	l.stop()
	l.judge()
}

// TestSecondGateway: a store has one gateway; another refuses clearly, and the
// first does not notice.
func TestSecondGateway(t *testing.T) {
	l := newLab(t)
	l.site()
	l.start()
	l.send(4, 5, 0, 0, "free").wait()
	g, err := launch(l.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.gone:
	case <-g.ready:
		g.kill()
		t.Fatal("a second gateway became ready on the same store")
	case <-time.After(patience):
		g.kill()
		t.Fatal("a second gateway on the same store does not end")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("second gateway: exit %d, want 1\n%s", code, g.tail())
	}
	if err := g.complaint(); err != nil {
		t.Error(err)
	}
	t.Logf("it says: %s", g.tail())
	l.send(4, 5, 0, 0, "free").wait()
	l.finish()
}

// TestDeadLettersByCommand: what the admin API lists as dead is what the
// command lists, on a running gateway and on its store afterwards.
func TestDeadLettersByCommand(t *testing.T) {
	l := newLab(t)
	nodes := l.site()
	l.start()
	l.send(8, 6, 0, 2, "free", "first").wait()
	heal(nodes)
	l.settle(patience)
	if len(l.rec.h.Dead) == 0 {
		t.Fatal("no dead letter among messages of which half are poison")
	}
	for _, state := range []string{"running", "stopped"} {
		if state == "stopped" {
			l.stop()
		}
		var out []byte
		for _, route := range []string{"free", "first"} {
			args := []string{"queue", "ls", route, "--state", "dead", "--limit", "1000", "--json", "-c", l.file}
			if state == "running" {
				args = append(args, "--admin", "http://"+l.gw.admin)
			}
			o, err := command(args...)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, o...)
		}
		for _, d := range l.rec.h.Dead {
			if !strings.Contains(string(out), d.ID) || !strings.Contains(string(out), d.Reason) {
				t.Errorf("%s: queue ls does not list %+v:\n%s", state, d, out)
			}
		}
	}
	if _, err := os.Stat(l.store); err != nil {
		t.Error(err)
	}
	l.judge()
}
