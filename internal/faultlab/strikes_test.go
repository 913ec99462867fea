package faultlab

import (
	"context"
	"path/filepath"
	"syscall"
	"time"
)

// kill ends the gateway by kill -9.
func (l *lab) kill() {
	l.t.Helper()
	l.unlessLeft()
	l.rec.breach("", "kill -9")
	l.gw.kill()
	l.after()
}

// unlessLeft complains of a gateway that has gone without being asked to, or not
// as it should.
func (l *lab) unlessLeft() {
	l.t.Helper()
	if l.gw.alive() || l.leaving && l.gw.err == nil {
		return
	}
	l.t.Errorf("the gateway died on its own: %v\n%s", l.gw.err, l.gw.tail())
}

// powerCut takes the power from the disk of the store, and mounts it again. The
// gateway is gone then.
func (l *lab) powerCut() {
	l.t.Helper()
	l.unlessLeft()
	l.rec.breach("", "power cut")
	if err := l.disk.cut(); err != nil {
		l.t.Fatalf("cut: %v", err)
	}
	// For a moment the gateway lives on over a disk that takes nothing.
	pause(l.between(0, 300*time.Millisecond))
	l.rec.breach("", "kill -9 after the cut")
	l.killQuietly()
	l.after()
	if err := l.disk.off(); err != nil {
		l.t.Fatal(err)
	}
	if err := l.disk.on(); err != nil {
		l.t.Fatal(err)
	}
}

// A moment is one at which a strike is worse than at another.
type moment struct {
	name string
	// aim makes ready and returns what waits for the moment; it reports whether
	// the moment came. What it gets under way besides ends with the strike.
	aim func(s *storm) func() bool
}

// await waits for a moment, and writes down if it did not come.
func (s *storm) await(m moment) { s.missed = !m.aim(s)() }

// aimTime is how long a moment is waited for; then the strike comes all the same.
const (
	aimTime  = 3 * time.Second
	trimTime = 8 * time.Second
)

// moments are those that strikes are aimed at. What the gateway is doing shows in
// the files of its store and in its log.
var moments = []moment{
	{"at random", func(s *storm) func() bool {
		return func() bool { pause(s.between(0, time.Second)); return true }
	}},
	{"accept", change("GW_IN_00", isWritten, aimTime)}, // a group is in flight
	{"keep reply", change("GW_ANSWER", isWritten, aimTime)},
	{"bury", change("GW_DEAD", isWritten, aimTime)},
	{"note", change("GW_STATE", isWritten, aimTime)}, // attempts, what is finished, what is known
	{"trim", trimmed},
	{"circuit opens", circuitOpens},
	{"start", whileStarting},
	{"stop", whileStopping},
}

// change aims at a change of a stream's files.
func change(stream string, kind uint32, within time.Duration) func(*storm) func() bool {
	return func(s *storm) func() bool {
		w, err := watchDir(messagesOf(s.store, stream), kind)
		if err != nil {
			s.t.Errorf("watch of %s: %v", stream, err)
			return func() bool { return false }
		}
		return func() bool {
			ok := w.wait(within)
			pause(s.between(0, 3*time.Millisecond))
			return ok
		}
	}
}

// trimmed aims at the removal of a file of the log, or of a part of it. For that to
// come soon much has to be finished, so there is a burst of large messages.
func trimmed(s *storm) func() bool {
	wait := change("GW_IN_00", isRemoved, trimTime)(s)
	s.bursts = append(s.bursts, s.burst())
	return wait
}

// burst sends some 15 MB to backends that are well.
func (s *storm) burst() *crowd {
	c := &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for range 16 {
		s.hire(ctx, c, 20, func(x *sender) { x.think, x.fat = 0, true }, s.plans[len(s.plans)-1].name)
	}
	return c
}

// circuitOpens aims at the moment in which a backend is found to be down.
func circuitOpens(s *storm) func() bool {
	n := s.nodes[s.rnd.IntN(len(s.nodes))]
	opens := s.gw.log.await("destination is down")
	n.down()
	return func() bool {
		defer n.up()
		select {
		case <-opens:
			pause(s.between(0, 3*time.Millisecond))
			return true
		case <-time.After(aimTime):
			return false
		}
	}
}

// whileStarting aims at a start over a store that is full of work.
func whileStarting(s *storm) func() bool {
	s.kill()
	s.launch()
	return func() bool {
		pause(s.between(0, 120*time.Millisecond))
		return true
	}
}

// whileStopping aims at an orderly stop, which is given some moments.
func whileStopping(s *storm) func() bool {
	s.leaving = true
	s.rec.breach("", "SIGTERM")
	if err := s.gw.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Error(err)
	}
	return func() bool {
		pause(s.between(0, 300*time.Millisecond))
		return s.gw.alive()
	}
}

// ballast is the name of what a stranger puts on the disk of the store.
func (l *lab) ballast() string { return filepath.Join(l.disk.mount, "ballast") }
