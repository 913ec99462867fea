//go:build unix

package faultlab

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestFrozen: a gateway that stands still for longer than any of its own
// patience, as a paused virtual machine does, goes on as if nothing had been.
func TestFrozen(t *testing.T) {
	if *faultTime < 2*time.Minute {
		t.Skip("stands still for a while; -faults 2m asks for it, and a storm has something of it")
	}
	l := newLab(t)
	nodes := l.site()
	l.start()
	for _, d := range []time.Duration{12 * time.Second, 35 * time.Second} { // more than an acknowledgement, and than a request, may take
		c := l.send(24, 0, 5*time.Millisecond, 200, l.routes...)
		pause(l.between(500*time.Millisecond, time.Second))
		l.rec.breach("", "SIGSTOP")
		if err := freeze(l.gw.cmd.Process); err != nil {
			t.Fatal(err)
		}
		pause(d)
		l.rec.breach("", "SIGCONT")
		if err := thaw(l.gw.cmd.Process); err != nil {
			t.Fatal(err)
		}
		pause(time.Second)
		c.halt()
		before := l.refusals()
		l.send(8, 10, 0, 0, l.routes...).wait()
		if n := l.refusals() - before; n > 0 {
			t.Fatalf("%d messages refused after the gateway was frozen\n%s", n, l.gw.tail())
		}
	}
	heal(nodes)
	l.finish()
}

func withoutFreezing(*storm) string { return "" }

// freeze stops a process as it stands.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
