package faultlab

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk: a disk that fills up, by messages or by somebody else, makes
// the gateway refuse messages before the store fails; it goes on delivering,
// loses nothing, and takes messages again by itself once there is room. Where a
// stranger takes the very last octet the store may fail while it notes a
// delivery; it is then closed, and opened again when there is room, without a
// restart.
func TestFullDisk(t *testing.T) {
	t.Run("by a stranger", func(t *testing.T) { fullDisk(t, mountDisk(t, 128<<20), spare, "strict") })
	t.Run("of memory", func(t *testing.T) { fullDisk(t, mountMemory(t, 64<<20), -1, "relaxed") })
	if *faultTime == 0 {
		return // the rest takes some seconds
	}
	t.Run("by messages", func(t *testing.T) { fullDisk(t, mountDisk(t, 128<<20), -1, "strict") })
	t.Run("to the last octet", func(t *testing.T) { fullDisk(t, mountDisk(t, 128<<20), 0, "strict") })
}

// spare is less than min_free, so that messages are refused, and more than the
// server needs to write one of its files anew while it makes room.
const spare = 12 << 20

// fullDisk fills a disk by messages, or lets a stranger leave only so much of it.
func fullDisk(t *testing.T, disk *disk, leave int64, durability string) {
	stranger := leave >= 0
	l := newLabOn(t, disk)
	l.durability = durability
	nodes := l.site()
	for _, n := range nodes {
		n.down()
	}
	l.start()
	l.send(16, 20, 0, 0, l.routes...).wait()
	if stranger {
		if err := disk.fill(l.ballast(), leave); err != nil {
			t.Fatal(err)
		}
	}
	l.fillUp("free")
	if !l.gw.alive() {
		t.Fatalf("the gateway died of a full disk: %v\n%s", l.gw.err, l.gw.tail())
	}
	l.turnedAway("free")
	_, acc, _ := l.rec.counts()
	t.Logf("full with %d messages accepted after %v", acc, l.rec.now().Round(time.Millisecond))

	heal(nodes)
	switch {
	case leave > 0:
		// A reply needs room before its message goes, and there is none for it: see
		// docs/guarantees.md. All else is delivered.
		l.drain(patience, slices.DeleteFunc(slices.Clone(l.routes), func(r string) bool { return l.rec.h.Kept[r] }))
	case leave < 0:
		l.drain(patience, l.routes)
	default:
		l.starve(2 * time.Second) // it delivers what it can
	}
	if stranger {
		if err := os.Remove(l.ballast()); err != nil {
			t.Fatal(err)
		}
	}
	l.takesAgain()
	l.send(16, 10, 0, 0, l.routes...).wait()
	l.finish()
}

// fillUp sends messages until all are refused. Some are before: what is under way
// counts twice. Many senders share each sync; with 16 of them this took 200 s on a
// disk that needed 0.2 s for one.
func (l *lab) fillUp(routes ...string) {
	l.t.Helper()
	const senders, each = 96, 4
	for range 200 {
		before := l.refusals()
		if l.send(senders, each, 0, 0, routes...).wait(); l.refusals()-before >= senders*each {
			return
		}
	}
	l.t.Fatal("messages are accepted on a full disk")
}

// starve lets some time pass on a full disk, at any moment of which the store may
// fail; what was delivered before is then delivered again, marked.
func (l *lab) starve(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		l.rec.breach("", "no room")
		pause(50 * time.Millisecond)
	}
	l.rec.breach("", "no room")
}

// turnedAway: a caller is told that it may come again, and when (SPEC.md §3,
// "Answers of the gateway itself").
func (l *lab) turnedAway(route string) {
	l.t.Helper()
	res, err := http.Post("http://"+l.gw.addr["web"]+"/"+route, "text/xml; charset=utf-8", bytes.NewReader(l.w.body("0-0", largest, false, l.fork())))
	if err != nil {
		l.t.Error(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		l.t.Errorf("a message for a full store: got %s with Retry-After %q, want 503 and a time", res.Status, res.Header.Get("Retry-After"))
	}
}

// takesAgain waits until a message is accepted.
func (l *lab) takesAgain() {
	l.t.Helper()
	if !eventually(patience, func() bool {
		_, before, _ := l.rec.counts()
		l.send(1, 1, 0, 0, "free").wait()
		_, after, _ := l.rec.counts()
		return after > before
	}) {
		l.t.Errorf("no message is accepted although there is room again\n%s", l.gw.tail())
	}
}

// TestBrim: a store on a tmpfs of 64 MiB that is filled to the brim again and
// again, by messages and by a stranger who takes the last octet, while messages
// come and go, with kill -9 in between. Callers get 503; nothing that was
// accepted is lost; it recovers without a restart. The store is encrypted, and gets
// another key with each kill.
func TestBrim(t *testing.T) {
	if *faultTime == 0 {
		t.Skip("fills a disk to its last octet again and again; make faults asks for it")
	}
	turns := max(4, int(*faultTime/(15*time.Second)))
	l := newLabOn(t, mountMemory(t, 64<<20))
	l.durability = "relaxed"
	l.keys = filepath.Join(l.dir, "store.key")
	l.newKey()
	nodes := l.site()
	l.start()
	for turn := range turns {
		for _, n := range nodes {
			n.down()
		}
		before := l.refusals()
		if turn%2 == 0 { // messages fill it, then a stranger takes what is left
			l.fillUp("free", "first", keyedRoute)
		} else {
			l.send(16, 20, 0, 0, l.routes...).wait()
		}
		heal(nodes) // what is delivered has to be noted, and there is no room for it
		c := l.send(16, 0, 5*time.Millisecond, 0, l.routes...)
		for range 3 {
			if err := l.disk.fill(l.ballast()+strconv.Itoa(l.pick(1<<30)), 0); err != nil {
				t.Fatal(err)
			}
			l.starve(l.between(100*time.Millisecond, 600*time.Millisecond))
		}
		if l.refusals() == before {
			t.Errorf("turn %d: nothing was refused on a full disk", turn)
		}
		if l.rnd.IntN(2) == 0 {
			l.kill()
			l.newKey()
			l.start() // on a full disk
		}
		l.starve(l.between(100*time.Millisecond, 500*time.Millisecond))
		c.halt()
		l.rec.breach("", "no room")
		balls, err := filepath.Glob(l.ballast() + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range balls {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		l.takesAgain()
		if !l.gw.alive() {
			t.Fatalf("the gateway died of a full disk: %v\n%s", l.gw.err, l.gw.tail())
		}
		l.drain(2*patience, l.routes)
	}
	l.finish()
}

// fill writes a file until no more than leave octets of the disk are left, and never
// takes those, not even for a moment: a store that needs them must find them.
func (d *disk) fill(name string, leave int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	d.reserve(f, leave) // most of it at once
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	for _, chunk := range []int64{1 << 20, 4096} {
		for err == nil && (leave == 0 || d.free() >= leave+chunk) {
			var n int
			n, err = f.Write(make([]byte, chunk))
			size += int64(n)
			if leave > 0 && err == nil {
				err = f.Sync() // or it is not yet missing
			}
		}
		if errors.Is(err, syscall.ENOSPC) {
			err = nil
		}
	}
	return errors.Join(err, f.Truncate(size), f.Sync())
}

// refusals is how many messages were refused so far.
func (l *lab) refusals() (n int) {
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	for i := range l.rec.h.Ops {
		if l.rec.h.Ops[i].Outcome == refused {
			n++
		}
	}
	return n
}

// drain waits until nothing of these routes waits any more.
func (l *lab) drain(within time.Duration, routes []string) {
	l.t.Helper()
	n := 0
	if !eventually(within, func() bool {
		var err error
		_, n, err = l.gw.queues(routes)
		return err == nil && n == 0
	}) {
		l.t.Errorf("%d messages wait after %v\n%s", n, within, l.gw.tail())
	}
}
