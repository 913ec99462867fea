package faultlab

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	linkMessages = flag.Int("link", 0, "messages of TestLink; 0 = some hundreds with few faults, and none with -short")
	linkFlaps    = flag.Int("flaps", 20, "how often TestLink takes the link away, with -link")
)

// network is what the addresses of the lab begin with: a /16 of private ones, of which
// each run has a part of its own.
func network(part int) string { return fmt.Sprintf("10.213.%d.", (os.Getpid()%80)*3+part) }

// The addresses between the sites, and between each of them and the process of the
// test, which is sender and backend.
var (
	plantLink, hqLink  = network(0) + "1", network(0) + "2"
	toPlant, plantSide = network(1) + "1", network(1) + "2"
	toHQ, hqSide       = network(2) + "1", network(2) + "2"
	plantBackend       = network(1) + "3" // beside toPlant, so that it can be taken away
)

// linkKeys is how many keys the messages have.
const linkKeys = 100

// A room is a network namespace with a gateway in it and a disk of its own.
type room struct {
	t      testing.TB
	name   string // of the namespace
	disk   *disk
	file   string // the configuration
	gw     *gateway
	powers int
	shift  time.Duration // of its wall clock, see shiftedBinary
	cpu    string        // the only processor that it may use; all if empty
}

// links is two rooms with a cable between them.
type links struct {
	t         testing.TB
	dir       string
	plant, hq *room
	sink      *ledgerNode
	port      string // of the sink
	issuer    issuer
	rnd       *mathrand.Rand

	// What the configurations have besides.
	at       string // where the link of the plant leads to; hq itself if empty
	stores   string // keys of both stores
	expire   string // of retry, where that is more than a link
	enrolled bool   // both know each other by an invitation
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// newLinks makes rooms and cables, or skips the test where that cannot be done.
func newLinks(t testing.TB) *links {
	t.Helper()
	for _, tool := range []string{"ip", "nsenter", "taskset"} {
		if _, err := exec.LookPath(tool); err != nil || os.Geteuid() != 0 {
			t.Skip("network namespaces need root and " + tool)
		}
	}
	l := &links{t: t, rnd: mathrand.New(mathrand.NewPCG(uint64(time.Now().UnixNano()), 1))}
	dir, err := os.MkdirTemp(scratch, "links-")
	if err != nil {
		t.Fatal(err)
	}
	l.dir = dir
	t.Cleanup(func() { os.RemoveAll(dir) })
	sweepRooms()
	tag := strconv.Itoa(os.Getpid())
	l.plant, l.hq = l.room("plant", "sw"+tag+"p"), l.room("hq", "sw"+tag+"h")
	for _, c := range []struct{ a, b, nsA, nsB, addrA, addrB string }{
		{"sw" + tag + "l0", "sw" + tag + "l1", l.plant.name, l.hq.name, plantLink, hqLink},
		{"sw" + tag + "p0", "sw" + tag + "p1", "", l.plant.name, toPlant, plantSide},
		{"sw" + tag + "h0", "sw" + tag + "h1", "", l.hq.name, toHQ, hqSide},
	} {
		if err := ip("link", "add", c.a, "type", "veth", "peer", "name", c.b); err != nil {
			t.Skip(err)
		}
		for _, end := range [][3]string{{c.a, c.nsA, c.addrA}, {c.b, c.nsB, c.addrB}} {
			in := []string{}
			if end[1] != "" {
				if err := ip("link", "set", end[0], "netns", end[1]); err != nil {
					t.Fatal(err)
				}
				in = []string{"-n", end[1]}
			} else {
				t.Cleanup(func() { _ = ip("link", "del", end[0]) }) // gone with its namespace otherwise
			}
			for _, args := range [][]string{{"addr", "add", end[2] + "/24", "dev", end[0]}, {"link", "set", end[0], "up"}, {"link", "set", "lo", "up"}} {
				if err := ip(append(append([]string{}, in...), args...)...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := ip("addr", "add", plantBackend+"/24", "dev", "sw"+tag+"p0"); err != nil {
		t.Fatal(err)
	}
	l.certificates()
	l.sink = newLedgerNode(t)
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: l.sink}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) })
	t.Cleanup(func() { server.Close(); serving.Wait() })
	_, l.port, _ = net.SplitHostPort(ln.Addr().String())
	return l
}

// sweepRooms takes away what a run that was killed has left: namespaces are named by the
// process that made them.
func sweepRooms() {
	out, err := exec.Command("ip", "netns").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "sw"), "p"), "h"))
		if !strings.HasPrefix(name, "sw") || err != nil {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			continue
		}
		pids, _ := exec.Command("ip", "netns", "pids", name).Output()
		for p := range strings.FieldsSeq(string(pids)) {
			if n, err := strconv.Atoi(p); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		_ = ip("netns", "del", name)
	}
}

func (l *links) room(name, ns string) *room {
	l.t.Helper()
	if err := ip("netns", "add", ns); err != nil {
		l.t.Skip(err)
	}
	r := &room{t: l.t, name: ns, disk: mountDisk(l.t, 512<<20), file: filepath.Join(l.dir, name, "gateway.yaml")}
	if err := os.Mkdir(filepath.Dir(r.file), 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if r.gw != nil && r.gw.alive() {
			r.gw.kill()
		}
		if err := ip("netns", "del", ns); err != nil {
			l.t.Error(err)
		}
	})
	return r
}

// cable takes the link between the sites away, or brings it back.
func (l *links) cable(up bool) {
	l.t.Helper()
	state := map[bool]string{true: "up", false: "down"}[up]
	if err := ip("-n", l.plant.name, "link", "set", "dev", l.plant.name[:len(l.plant.name)-1]+"l0", state); err != nil {
		l.t.Fatal(err)
	}
}

// An issuer is the authority of both sites.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// certificates writes those of an authority and of both sites.
func (l *links) certificates() {
	l.t.Helper()
	l.issue("ca", 24*time.Hour)
	l.issue("hq", 24*time.Hour)
	l.issue("plant", 24*time.Hour)
}

// issue writes a certificate, and its key, that holds for so long.
func (l *links) issue(name string, life time.Duration) {
	l.t.Helper()
	fail := func(err error) {
		if err != nil {
			l.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	l.issuer.next++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(l.issuer.next), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(hqLink), net.ParseIP(toPlant)},
	}
	if l.issuer.cert == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
		l.issuer.cert, l.issuer.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, l.issuer.cert, &key.PublicKey, l.issuer.key)
	fail(err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if c.IsCA {
		fail(os.WriteFile(filepath.Join(l.dir, name+".pem"), text, 0o600))
		return
	}
	der, err = x509.MarshalECPrivateKey(key)
	fail(err)
	// One file, put in place by one step: what watches it sees no half of it.
	file := filepath.Join(l.dir, name+".pem")
	fail(os.WriteFile(file+".new", append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...), 0o600))
	fail(os.Rename(file+".new", file))
}

// configure writes both configurations. The plant has a route to hq and one of its own
// to the same backend.
func (l *links) configure() {
	l.t.Helper()
	const common = "admin: {address: \"127.0.0.1:0\", audit: audit.log}\nstore: {dir: %s/store, min_free: 16MiB%s}\n"
	more := ""
	if l.stores != "" {
		more = ", " + l.stores
	}
	const link = "retry: {initial: 50ms, max: 200ms}" // where nothing expires
	quick := "retry: {initial: 50ms, max: 200ms, expire: " + cmp.Or(l.expire, "120h") + "}"
	const probe = "probe: {initial: 100ms, max: 200ms}"
	links := fmt.Sprintf(`links: [{name: hq, url: "https://%s", certificate: ../plant.pem, key: ../plant.pem, ca: ../ca.pem}]`, cmp.Or(l.at, hqLink+":8443"))
	tls := "certificate: ../hq.pem, key: ../hq.pem, client_ca: ../ca.pem"
	accept := `accept: [{name: plant, subjects: ["CN=plant"], routes: [orders]}]`
	if l.enrolled {
		links, accept = "", "ca_dir: sites"
		tls = "certificate: sites/server.pem, key: sites/server.pem, client_ca: sites/ca.crt"
	}
	plant := fmt.Sprintf(common+`
listeners: [{name: http, address: "%s:8080"}]
sites:
  name: plant
  %s
routes:
  - {name: orders, match: {path: /orders}, backend: hq, delivery: queue, order_by: "http:X-Key", dedup: {by: "http:X-Id"}, %[9]s}
  - {name: local, match: {path: /local}, backend: local, delivery: queue, order_by: "http:X-Key", dedup: {by: "http:X-Id"}, %[5]s}
backends:
  hq: {nodes: ["site:hq/orders"], %[6]s}
  local: {nodes: ["http://%[7]s:%[8]s/local"], %[6]s}
`, l.plant.disk.mount, more, plantSide, links, quick, probe, plantBackend, l.port, link)
	hq := fmt.Sprintf(common+`
listeners: [{name: sites, address: "0.0.0.0:8443", tls: {%s, client_auth: request}}]
sites:
  name: hq
  %s
routes: [{name: orders, match: {path: /orders}, backend: orders, delivery: queue, order_by: "http:X-Key", %s}]
backends: {orders: {nodes: ["http://%s:%s/orders"], %s}}
`, l.hq.disk.mount, more, tls, accept, quick, toHQ, l.port, probe)
	for file, text := range map[string]string{l.plant.file: plant, l.hq.file: hq} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
}

// start starts the gateway. It must not be by "ip netns exec", which holds mounts of its
// own, so that a disk would not be gone when it is unmounted.
func (r *room) start() {
	r.t.Helper()
	bin, err := r.binary()
	if err == nil {
		r.gw, err = launchBy(r.enter(), bin, r.file, nil)
	}
	if err == nil {
		err = r.gw.awaitReady()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// enter is what a command begins with that runs in the room, by its clock.
func (r *room) enter() []string {
	enter := []string{"nsenter", "--net=/run/netns/" + r.name, "env", clockEnv + "=" + strconv.Itoa(int(r.shift/time.Second))}
	if r.cpu != "" {
		enter = append(enter, "taskset", "-c", r.cpu)
	}
	return enter
}

// apart gives each gateway a processor of its own, as sites have machines of their
// own: what one of them does must not slow the other down. Where there are not two
// they share what there is.
func (l *links) apart() {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() < 2 {
		l.t.Log("the gateways share a processor")
		return
	}
	var cpus []string
	for cpu := 0; len(cpus) < 2; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, strconv.Itoa(cpu))
		}
	}
	l.plant.cpu, l.hq.cpu = cpus[0], cpus[1]
}

// binary is the gateway, with a clock that can be shifted if it is to be.
func (r *room) binary() (string, error) {
	if r.shift != 0 {
		return shiftedBinary()
	}
	return build()
}

// run runs a command of the gateway in the room and returns what it prints on stdout.
func (r *room) run(args ...string) []byte {
	r.t.Helper()
	bin, err := r.binary()
	if err != nil {
		r.t.Fatal(err)
	}
	all := append(append(r.enter(), bin), args...)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(r.file), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("gateway %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.Bytes()
}

// strike is kill -9, or a power cut, and a new start.
func (r *room) strike(power bool) {
	r.t.Helper()
	if power {
		r.powers++
		if err := r.disk.cut(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.gw.kill()
	if power {
		if err := r.disk.off(); err != nil {
			r.t.Fatal(err)
		}
		if err := r.disk.on(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.start()
}

// A ledgerNode is the backend of both sites.
type ledgerNode struct {
	t  testing.TB
	mu sync.Mutex
	// got counts, by path, what came; the rest is about messages by path and number.
	got                  map[string]int
	seen                 map[string]bool
	last                 map[string]int
	first, end           map[string]time.Time
	changed, reordered   int
	unmarked, duplicates int
	again                []string // what came twice, for who looks for a reason
	shut                 bool     // nothing is taken, and each is told so
}

func newLedgerNode(t testing.TB) *ledgerNode {
	return &ledgerNode{t: t, got: map[string]int{}, seen: map[string]bool{}, last: map[string]int{}, first: map[string]time.Time{}, end: map[string]time.Time{}}
}

// envelopeOf is message n of some 2 KB.
func envelopeOf(n int) []byte {
	return fmt.Appendf(nil, `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><t:Order xmlns:t="urn:test"><t:N>%d</t:N><t:Text>%s</t:Text></t:Order></e:Body></e:Envelope>`,
		n, strings.Repeat(fmt.Sprintf("line %d of a lot of text; ", n*7919%10007), 75))
}

// ServeHTTP takes a message.
func (s *ledgerNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	n, e := strconv.Atoi(r.Header.Get("X-Id"))
	if err != nil || e != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	now := time.Now()
	path, key := r.URL.Path, r.URL.Path+" "+r.Header.Get("X-Key")
	id := path + " " + strconv.Itoa(n)
	if s.got[path] == 0 {
		s.first[path] = now
	}
	s.got[path]++
	if !bytes.Equal(body, envelopeOf(n)) {
		s.changed++
	}
	switch marked := r.Header.Get("Gateway-Possible-Duplicate") == "true"; {
	case s.seen[id]:
		s.duplicates++
		s.again = append(s.again, fmt.Sprintf("%s mark=%v %v", id, marked, r.Header))
		if !marked {
			s.unmarked++
		}
	case s.last[key] > n:
		s.reordered++
	default:
		s.last[key] = n
	}
	if !s.seen[id] {
		s.end[path] = now
	}
	s.seen[id] = true
	w.WriteHeader(http.StatusAccepted)
}

// close makes the backend take nothing, or something again. What is on its way then has
// its answer: the route to a backend that is cut off may hold octets of a process that
// is killed meanwhile.
func (s *ledgerNode) close(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = yes
}

// unique is how many messages have come to a path.
func (s *ledgerNode) unique(path string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.seen {
		if strings.HasPrefix(id, path+" ") {
			n++
		}
	}
	return n
}

// rate is how many came each second, from the first to the last, since forget.
func (s *ledgerNode) rate(path string, n int) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(n) / s.end[path].Sub(s.first[path]).Seconds()
}

func (s *ledgerNode) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[path] = 0
}

// send posts messages from..to to a route of the plant, those of one key one after the
// other, each until it is accepted.
func (l *links) send(path string, from, to int) *sync.WaitGroup {
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: linkKeys}, Timeout: 10 * time.Second}
	for k := range linkKeys {
		wg.Go(func() {
			for n := from; n < to; n++ {
				if n%linkKeys != k {
					continue
				}
				for !l.post(client, path, k, n) {
					pause(50 * time.Millisecond)
				}
			}
		})
	}
	return &wg
}

func (l *links) post(c *http.Client, path string, key, n int) bool {
	r, err := http.NewRequest(http.MethodPost, "http://"+plantSide+":8080"+path, bytes.NewReader(envelopeOf(n)))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "text/xml; charset=utf-8")
	r.Header.Set("X-Key", "k"+strconv.Itoa(key))
	r.Header.Set("X-Id", strconv.Itoa(n))
	resp, err := c.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusAccepted
}

// TestLink: two gateways, each in a network and on a disk of its own, with a cable
// between them that is taken away again and again, kill -9 and power cuts of either
// side. Then both empty a backlog, the plant to a backend of its own and over the link,
// and the two rates are told.
func TestLink(t *testing.T) {
	n, flaps := *linkMessages, *linkFlaps
	if n == 0 {
		if testing.Short() {
			t.Skip("two gateways with disks take some seconds; -link asks for them")
		}
		n, flaps = 600, 4
	}
	l := newLinks(t)
	l.apart()
	l.configure()
	l.hq.start()
	l.plant.start()

	l.cable(false)
	l.send("/orders", 0, n/2).Wait()
	rest := l.send("/orders", n/2, n)
	for i := range flaps {
		l.cable(true)
		pause(time.Duration(50+l.rnd.IntN(400)) * time.Millisecond)
		if i%2 == 1 { // under way, in turn: kill hq, kill plant, cut hq, cut plant
			r := []*room{l.hq, l.plant}[i/2%2]
			r.strike(i/4%2 == 1)
		}
		l.cable(false)
		pause(time.Duration(l.rnd.IntN(300)) * time.Millisecond)
	}
	l.cable(true)
	rest.Wait()
	l.arrived("/orders", n)
	t.Logf("messages=%d flaps=%d power cuts=%d", n, flaps, l.hq.powers+l.plant.powers)
	l.judge(n)

	l.cable(false)
	l.send("/orders", n, 2*n).Wait()
	l.sink.forget("/orders")
	l.cable(true)
	l.arrived("/orders", 2*n)
	over := l.sink.rate("/orders", n)
	l.plant.pausing(true)
	l.send("/local", 0, n).Wait()
	l.plant.pausing(false)
	l.arrived("/local", n)
	local := l.sink.rate("/local", n)
	t.Logf("backlog of %d: over the link %.0f/s, local %.0f/s, ratio %.2f", n, over, local, over/local)
	l.stop()
}

// stop ends both gateways in an orderly way.
func (l *links) stop() {
	l.t.Helper()
	for _, r := range []*room{l.plant, l.hq} {
		if err := errors.Join(r.gw.stop(), r.gw.complaint()); err != nil {
			l.t.Error(err)
		}
	}
}

// judge compares what has come to orders with the n messages that were accepted.
func (l *links) judge(n int) {
	l.t.Helper()
	s := l.sink
	s.mu.Lock()
	changed, unmarked, reordered, marked := s.changed, s.unmarked, s.reordered, s.duplicates-s.unmarked
	s.mu.Unlock()
	lost := n - s.unique("/orders")
	l.t.Logf("lost=%d changed=%d unmarked=%d reordered=%d (messages=%d, duplicates with a mark=%d)", lost, changed, unmarked, reordered, n, marked)
	if lost != 0 || changed != 0 || unmarked != 0 || reordered != 0 {
		s.mu.Lock()
		again := s.again[:min(len(s.again), 400)]
		s.mu.Unlock()
		l.t.Errorf("a link has broken its promise\n%s\n%s\n%s", strings.Join(again, "\n"), l.plant.gw.tail(), l.hq.gw.tail())
	}
}

// once: nothing has come twice, not even with a mark.
func (l *links) once() {
	l.t.Helper()
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	if l.sink.duplicates != 0 {
		l.t.Errorf("%d messages came twice, want none: nobody was killed", l.sink.duplicates)
	}
}

// pausing keeps the plant from its own backend, or lets it go on: the address of the
// backend is taken away.
func (r *room) pausing(yes bool) {
	r.t.Helper()
	verb := map[bool]string{true: "add", false: "del"}[yes]
	if err := ip("-n", r.name, "route", verb, "unreachable", plantBackend+"/32"); err != nil {
		r.t.Fatal(err)
	}
}

// arrived waits until so many have come to a path.
func (l *links) arrived(path string, n int) {
	l.t.Helper()
	if !eventually(3*time.Minute, func() bool { return l.sink.unique(path) >= n }) {
		l.t.Fatalf("%d messages have come to %s, want %d\n%s\n%s", l.sink.unique(path), path, n, l.plant.gw.tail(), l.hq.gw.tail())
	}
}
