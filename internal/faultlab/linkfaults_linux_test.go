package faultlab

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// linkFaults are what can be wrong with a link or its sites beside a cable that is cut
// and a process that is killed: each has a test of its own, over two gateways of its own.
var linkFaults = []struct {
	name string
	do   func(t *testing.T, l *links, n int)
	// asked: it takes long, or needs a binary of its own, and is left out unless -link
	// asks for it.
	asked bool
}{
	{"one way", oneWay, false},
	{"black hole", blackHole, true},
	{"delay", delayed, false},
	{"far disk full", func(t *testing.T, l *links, n int) { linkDiskFull(t, l, n, l.hq) }, false},
	{"own disk full", func(t *testing.T, l *links, n int) { linkDiskFull(t, l, n, l.plant) }, false},
	{"own certificate expired", func(t *testing.T, l *links, n int) { expired(t, l, n, "plant", false) }, true},
	{"own certificate expired for a new connection", func(t *testing.T, l *links, n int) { expired(t, l, n, "plant", true) }, true},
	{"far certificate expired", func(t *testing.T, l *links, n int) { expired(t, l, n, "hq", true) }, true},
	{"origin restored", originRestored, false},
	{"far side restored", farRestored, false},
	{"far clock ahead", func(t *testing.T, l *links, n int) { clocks(t, l, n, l.hq, l.plant) }, true},
	{"own clock ahead", func(t *testing.T, l *links, n int) { clocks(t, l, n, l.plant, l.hq) }, true},
	{"a year of certificates", aYear, true},
}

// TestLinkFaults: whatever happens to a link, what was accepted arrives, in order, and
// nothing comes twice without a mark.
func TestLinkFaults(t *testing.T) {
	n := *linkMessages
	if n == 0 {
		if testing.Short() {
			t.Skip("pairs of gateways with disks take half a minute; -link asks for them")
		}
		n = 400
	}
	n = min(n, 2000)
	for _, f := range linkFaults {
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			if f.asked && *linkMessages == 0 {
				t.Skip("takes long; -link asks for it")
			}
			f.do(t, newLinks(t), n)
		})
	}
}

// begin starts both sites.
func (l *links) begin() {
	l.t.Helper()
	l.configure()
	l.hq.start()
	l.plant.start()
}

// lose makes what a site sends over the link vanish on the way, or arrive again: its
// frames go to an address that nobody has. Nothing tells the site.
func (l *links) lose(from *room, yes bool) {
	l.t.Helper()
	tag := l.plant.name[:len(l.plant.name)-1]
	dev, to := tag+"l0", hqLink
	if from == l.hq {
		dev, to = tag+"l1", plantLink
	}
	args := []string{"-n", from.name, "neigh", "del", to, "dev", dev}
	if yes {
		args = []string{"-n", from.name, "neigh", "replace", to, "lladdr", "02:00:00:00:00:fe", "dev", dev, "nud", "permanent"}
	}
	if err := ip(args...); err != nil {
		l.t.Fatal(err)
	}
}

// oneWay: what one side sends is lost and what the other sends arrives, in turns: a batch
// is stored and its answer never comes, or an answer waits for a batch.
func oneWay(t *testing.T, l *links, n int) {
	l.begin()
	sending := l.send("/orders", 0, n)
	for i := range 12 {
		from := []*room{l.hq, l.plant}[i%2]
		l.lose(from, true)
		pause(time.Duration(50+l.rnd.IntN(600)) * time.Millisecond)
		l.lose(from, false)
		pause(time.Duration(20+l.rnd.IntN(200)) * time.Millisecond)
	}
	sending.Wait()
	l.arrived("/orders", n)
	l.once()
	l.judge(n)
	l.stop()
}

// blackHole: for longer than a link waits for a sign of life nothing arrives, first of
// what hq sends, then of both; then there is a connection that swallows everything for
// ever, beside which a new one would work.
func blackHole(t *testing.T, l *links, n int) {
	p := newLinkProxy(t, toPlant, hqSide+":8443")
	l.begin()
	third := n / 3
	l.lose(l.hq, true)
	sending := l.send("/orders", 0, third)
	pause(40 * time.Second)
	l.lose(l.plant, true)
	pause(20 * time.Second)
	l.lose(l.hq, false)
	l.lose(l.plant, false)
	sending.Wait()
	l.arrived("/orders", third)

	l.at = p.addr
	l.configure()
	l.again(l.plant, 0)
	for part, w := range []way{there, back} {
		from := third + part*third
		l.send("/orders", from, from+third/2).Wait()
		l.arrived("/orders", from+third/2)
		if p.swallow(w) == 0 {
			t.Fatal("the link does not go through the proxy")
		}
		l.send("/orders", from+third/2, from+third).Wait()
		l.arrived("/orders", from+third)
	}
	l.once()
	l.judge(3 * third)
	l.stop()
}

// delayed: a link over a satellite or two, whose ways take up to 2 s and change.
func delayed(t *testing.T, l *links, n int) {
	p := newLinkProxy(t, toPlant, hqSide+":8443")
	l.at = p.addr
	l.begin()
	sending := l.send("/orders", 0, n)
	for range 6 {
		p.delay(there, time.Duration(l.rnd.IntN(2000))*time.Millisecond)
		p.delay(back, time.Duration(l.rnd.IntN(2000))*time.Millisecond)
		pause(time.Duration(300+l.rnd.IntN(1000)) * time.Millisecond)
	}
	p.delay(there, 100*time.Millisecond)
	p.delay(back, 100*time.Millisecond)
	sending.Wait()
	l.arrived("/orders", n)
	l.once()
	l.judge(n)
	l.stop()
}

// linkDiskFull: a stranger fills the disk of a site. If it is the far one, messages wait where
// they are, whose callers have their receipts; if it is the own one, callers are
// refused. It ends by itself once there is room.
func linkDiskFull(t *testing.T, l *links, n int, full *room) {
	l.begin()
	half := n / 2
	l.send("/orders", 0, half).Wait()
	l.arrived("/orders", half)
	ballast := filepath.Join(full.disk.mount, "ballast")
	if err := full.disk.fill(ballast, spare); err != nil {
		t.Fatal(err)
	}
	sending := l.send("/orders", half, n)
	if full == l.hq {
		sending.Wait() // all are accepted
	}
	pause(2 * time.Second)
	if got := l.sink.unique("/orders"); got >= n {
		t.Errorf("%d messages have come, all of them: the disk was not full", got)
	}
	if dead := l.plant.list("orders", "dead"); len(dead) > 0 {
		t.Errorf("%d dead letters for a full disk", len(dead))
	}
	if err := full.disk.fill(ballast+"2", 0); err != nil { // to the last octet
		t.Fatal(err)
	}
	pause(2 * time.Second)
	for _, name := range []string{ballast, ballast + "2"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	sending.Wait()
	l.arrived("/orders", n)
	l.judge(n)
	l.stop()
}

// list are the ids of messages of a route in a state.
func (r *room) list(route, state string, more ...string) (ids []string) {
	r.t.Helper()
	args := append([]string{"queue", "ls", route, "--state", state, "--all", "--json", "--admin", "http://" + r.gw.admin}, more...)
	d := json.NewDecoder(bytes.NewReader(r.run(args...)))
	for d.More() {
		var m struct{ ID string }
		if err := d.Decode(&m); err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
	return ids
}

// lastError is what a site says of why messages of a route wait.
func (r *room) lastError(route string) string {
	r.t.Helper()
	d := json.NewDecoder(bytes.NewReader(r.run("queue", "ls", "--json", "--admin", "http://"+r.gw.admin)))
	for d.More() {
		var q struct {
			Route     string
			LastError string `json:"last_error"`
		}
		if err := d.Decode(&q); err != nil {
			r.t.Fatal(err)
		}
		if q.Route == route {
			return q.LastError
		}
	}
	return ""
}

// expired: the certificate of a site expires while the link is in use, and perhaps its
// connections end then. The link stops, says why, and nothing is lost; with another
// certificate in its file it goes on by itself.
func expired(t *testing.T, l *links, n int, site string, sever bool) {
	const life = 15 * time.Second
	if _, err := build(); err != nil { // not while it counts
		t.Fatal(err)
	}
	p := newLinkProxy(t, toPlant, hqSide+":8443")
	l.at = p.addr
	began := time.Now()
	l.issue(site, life)
	l.begin()
	half := n / 2
	l.send("/orders", 0, half).Wait()
	l.arrived("/orders", half)
	pause(time.Until(began.Add(life + time.Second)))
	if sever {
		p.sever()
	}
	l.send("/orders", half, n).Wait()
	why := ""
	if !eventually(patience, func() bool { why = l.plant.lastError("orders"); return strings.Contains(why, "certificate") }) {
		t.Errorf("the plant says %q of a link without a certificate", why)
	}
	t.Logf("the plant says: %s", why)
	if got := l.sink.unique("/orders"); got != half {
		t.Errorf("%d messages have come, want the %d from before", got, half)
	}
	l.issue(site, time.Hour)
	l.arrived("/orders", n)
	if dead := l.plant.list("orders", "dead"); len(dead) > 0 {
		t.Errorf("%d dead letters for a certificate", len(dead))
	}
	l.once()
	l.judge(n)
	l.stop()
}

// backup makes a backup of a site that runs.
func (r *room) backup(name string) string {
	r.t.Helper()
	file := filepath.Join(filepath.Dir(r.file), name)
	r.run("queue", "backup", "--admin", "http://"+r.gw.admin, "-o", file)
	return file
}

// restore kills a site, puts a backup in place of its store, and starts it.
func (r *room) restore(file string) {
	r.t.Helper()
	r.gw.kill()
	r.run("queue", "restore", "-c", r.file, "--set-aside", file)
	r.start()
}

// originRestored: the plant comes back from a backup that has as waiting what hq has had
// since. That is duplicate there, and what the plant accepts now is not.
func originRestored(t *testing.T, l *links, n int) {
	l.begin()
	third := n / 3
	l.send("/orders", 0, third).Wait()
	l.arrived("/orders", third)
	l.cable(false)
	l.send("/orders", third, 2*third).Wait()
	file := l.plant.backup("plant.backup")
	l.cable(true)
	l.arrived("/orders", 2*third)
	l.plant.restore(file)
	l.send("/orders", 2*third, 3*third).Wait()
	l.arrived("/orders", 3*third)
	if !eventually(patience, func() bool {
		return len(l.plant.list("orders", "pending"))+len(l.plant.list("orders", "retrying")) == 0
	}) {
		t.Errorf("what hq has already had waits\n%s", l.plant.gw.tail())
	}
	l.once()
	l.judge(3 * third)
	if n := l.hq.audited("repeated"); n == 0 {
		t.Error("hq has no line about messages that came again")
	}
	l.stop()
}

// audited is of how many messages a site has written down a finding.
func (r *room) audited(kind string) (n int) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(r.file), "audit.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var l struct {
			Action string
			What   struct {
				Kind  string
				Count int
			}
		}
		if err := json.Unmarshal(line, &l); err != nil {
			r.t.Fatalf("audit.log: %q: %v", line, err)
		}
		if l.Action == "site" && l.What.Kind == kind {
			n += l.What.Count
		}
	}
	return n
}

// farRestored: hq comes back from a backup that lacks what it had answered for. No gateway can
// bring that back by itself, as it is gone at its origin; but the plant says how many
// messages it is, nothing else is taken for a repeat, and where the plant keeps what it has
// delivered a replay brings them all.
func farRestored(t *testing.T, l *links, n int) {
	l.stores = "keep_delivered: 1h"
	l.begin()
	third := n / 3
	l.send("/orders", 0, third).Wait()
	l.arrived("/orders", third)
	file := l.hq.backup("hq.backup")
	since := time.Now()
	l.sink.close(true)
	l.send("/orders", third, 2*third).Wait()
	if !eventually(patience, func() bool {
		return len(l.plant.list("orders", "delivered", "--since", since.Format(time.RFC3339Nano))) == third
	}) {
		t.Fatalf("the link has not taken all messages\n%s", l.plant.gw.tail())
	}
	l.hq.restore(file)
	l.sink.close(false)

	// One message of a key of its own makes the sites meet.
	l.one(linkKeys, 2*third)
	l.arrived("/orders", third+1)
	if lost := l.plant.audited("lost"); lost != third {
		t.Errorf("the plant says that %d messages are lost at hq, want %d", lost, third)
	}
	if got := l.sink.unique("/orders"); got != third+1 {
		t.Errorf("%d messages have come, want %d", got, third+1)
	}
	ids := l.plant.list("orders", "delivered", "--since", since.Format(time.RFC3339Nano))
	for len(ids) > 0 {
		some := ids[:min(200, len(ids))]
		ids = ids[len(some):]
		l.plant.run(append([]string{"queue", "replay", "--admin", "http://" + l.plant.gw.admin}, some...)...)
	}
	l.arrived("/orders", 2*third+1)
	l.send("/orders", 2*third+1, 3*third).Wait()
	l.arrived("/orders", 3*third)
	l.judge(3 * third)
	l.stop()
}

// one posts a message with a key until it is accepted.
func (l *links) one(key, n int) {
	l.t.Helper()
	c := &http.Client{Timeout: 10 * time.Second}
	defer c.CloseIdleConnections()
	if !eventually(patience, func() bool { return l.post(c, "/orders", key, n) }) {
		l.t.Fatalf("message %d is not accepted\n%s", n, l.plant.gw.tail())
	}
}

// enrol makes an invitation at hq and takes it up at the plant.
func (l *links) enrol(first bool) {
	l.t.Helper()
	args := []string{"site", "invite", "plant", "--host", hqLink}
	if first {
		args = append(args, "--route", "orders")
	}
	token := strings.TrimSpace(string(l.hq.run(args...)))
	if first {
		l.hq.start()
	}
	l.plant.run("site", "join", "https://"+hqLink+":8443", token)
}

// clocks: the clock of one site is more than an hour ahead of the other's while they join,
// send, and renew; then somebody mends it, and sets the other wrong. What would expire in half an
// hour does not.
func clocks(t *testing.T, l *links, n int, ahead, other *room) {
	l.enrolled, l.expire = true, "30m"
	ahead.shift = time.Hour + 100*time.Second
	l.configure()
	l.enrol(true)
	l.plant.start()
	part := n / 4
	l.send("/orders", 0, part).Wait()
	l.arrived("/orders", part)
	// Some wait at either side, accepted by a clock that is wrong.
	l.sink.close(true)
	l.send("/orders", part, 2*part).Wait()
	if !eventually(patience, func() bool {
		return len(l.plant.list("orders", "pending"))+len(l.plant.list("orders", "retrying")) == 0
	}) {
		t.Fatalf("messages wait at the plant\n%s", l.plant.gw.tail())
	}
	l.cable(false)
	l.send("/orders", 2*part, 3*part).Wait()
	l.again(ahead, 0)
	l.again(other, time.Hour+100*time.Second)
	l.cable(true)
	l.sink.close(false)
	l.arrived("/orders", 3*part)
	l.send("/orders", 3*part, 4*part).Wait()
	l.arrived("/orders", 4*part)
	for _, r := range []*room{l.plant, l.hq} {
		if dead := r.list("orders", "dead"); len(dead) > 0 {
			t.Errorf("%d dead letters for clocks that differ", len(dead))
		}
	}
	l.once()
	l.judge(4 * part)
	l.stop()
}

// again stops a site in an orderly way and starts it with another clock.
func (l *links) again(r *room, shift time.Duration) {
	l.t.Helper()
	if err := r.gw.stop(); err != nil {
		l.t.Fatal(err)
	}
	r.shift = shift
	r.start()
}

// aYear: the certificates of an invitation are renewed in time by themselves, that of the link
// and that of the listener; a site that was off for longer needs another invitation, says
// so, and loses nothing.
func aYear(t *testing.T, l *links, n int) {
	const day = 24 * time.Hour
	l.enrolled = true
	l.configure()
	l.enrol(true)
	l.plant.start()
	part := n / 5
	sent := 0
	later := func(shift time.Duration, arrives bool) {
		t.Helper()
		for _, r := range []*room{l.plant, l.hq} {
			if err := r.gw.stop(); err != nil {
				t.Fatal(err)
			}
			r.shift = shift
		}
		l.hq.start()
		l.plant.start()
		l.send("/orders", sent, sent+part).Wait()
		if sent += part; arrives {
			l.arrived("/orders", sent)
		}
	}
	later(0, true)
	later(70*day, true) // 90 days, of which 20 are left
	if !eventually(patience, func() bool { return strings.Contains(l.plant.gw.log.String(), "the certificate of a link was renewed") }) {
		t.Fatalf("the plant has not renewed its certificate\n%s", l.plant.gw.tail())
	}
	later(120*day, true) // would have expired by now
	later(300*day, false)
	why := ""
	if !eventually(patience, func() bool { why = l.plant.lastError("orders"); return strings.Contains(why, "certificate") }) {
		t.Errorf("the plant says %q of a link whose certificate has expired", why)
	}
	t.Logf("after a year the plant says: %s", why)
	if got := l.sink.unique("/orders"); got != sent-part {
		t.Errorf("%d messages have come, want the %d from before", got, sent-part)
	}
	l.enrol(false)
	l.arrived("/orders", sent)
	l.once()
	l.judge(sent)
	l.stop()
}
