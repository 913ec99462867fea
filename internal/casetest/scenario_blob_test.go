package casetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var parcelHead = fields{{"Content-Type", parcelType}, {"SOAPAction", `"urn:test#Known"`}}

// blobs are the files of large messages in the store.
func (g *gateway) blobs(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(g.dir, "data", "blobs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (g *gateway) waitBlobs(t testing.TB, want int) {
	t.Helper()
	if !eventually(patience, func() bool { return len(g.blobs(t)) == want }) {
		t.Fatalf("%d files of large messages, want %d", len(g.blobs(t)), want)
	}
}

// TestLargeStored: a message of 64 MiB goes through the store octet for octet, in
// little memory, through kills at every stage; callers that break off and messages
// that are bad at their end leave nothing.
func TestLargeStored(t *testing.T) {
	addr := refusedAddr(t)
	config := queueConfig(ordersRoute(addr, "limits: {max_message: 128MiB}, "+quick))
	g := start(t, config)
	msg := parcelOf("1.1", 64<<20, true, knownOp)
	octets := request("/orders", parcelHead, msg)
	var a *answer
	grown := g.growth(t, func() { a = exchange(t, g.addr["http"], octets) })
	if a.Status != 202 || grown > 32<<20 {
		t.Fatalf("stored: %s, memory grew by %d MiB", a, grown>>20)
	}
	id := a.Fields.get("Gateway-Message-Id")
	g.waitBlobs(t, 1)

	c := dial(t, g.addr["http"]) // breaks off in the middle
	_ = c.send(octets[:len(octets)/2])
	g.waitBlobs(t, 2)
	c.Close()
	g.waitBlobs(t, 1)
	bad := bytes.Replace(msg, []byte("\r\n--=_b 1--"), []byte("\r\n--=_b 2--"), 1)
	if a := exchange(t, g.addr["http"], request("/orders", parcelHead, bad)); a.Status != 500 {
		t.Errorf("without its end: %s", a)
	}
	g.waitBlobs(t, 1)

	c = dial(t, g.addr["http"]) // killed while it comes
	_ = c.send(octets[:len(octets)/2])
	g.waitBlobs(t, 2)
	g.crash(t)
	c.Close()
	g = startAgain(t, g, config)
	g.waitBlobs(t, 1)

	b, err := newBackendAt(addr, 0) // killed while it goes
	if err != nil {
		t.Fatal(err)
	}
	under := make(chan bool)
	var once sync.Once
	b.take(func(p *peer) {
		_, _ = io.CopyN(io.Discard, p, 20<<20)
		once.Do(func() { close(under) })
		_, _ = io.Copy(io.Discard, p)
	})
	<-under
	g.crash(t)
	b.close()
	var sum [sha256.Size]byte
	got := make(chan http.Header, 1)
	s := serveHTTP(t, addr, func(r *http.Request, body io.Reader) int {
		h := sha256.New()
		if _, err := io.Copy(h, body); err != nil {
			return 500
		}
		h.Sum(sum[:0])
		got <- r.Header
		return 202
	})
	defer s()
	g = startAgain(t, g, config)
	var head http.Header
	grown = g.growth(t, func() { head = <-got })
	if sum != sha256.Sum256(msg) || head.Get("Content-Type") != parcelType || head.Get("Gateway-Message-Id") != id || head.Get("Gateway-Possible-Duplicate") != "true" {
		t.Errorf("delivered %v, other octets: %v", head, sum != sha256.Sum256(msg))
	}
	if grown > 48<<20 {
		t.Errorf("delivering: memory grew by %d MiB", grown>>20)
	}
	g.waitBlobs(t, 0)
}

// serveHTTP serves requests at an address until it is called.
func serveHTTP(t testing.TB, addr string, take func(r *http.Request, body io.Reader) int) func() {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(take(r, r.Body))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	return func() { _ = s.Close(); <-done }
}

// TestManyLargeStored: 64 messages with attachments at once, of lengths that are
// known and not, stay in bounded memory on their way in and on their way out.
func TestManyLargeStored(t *testing.T) {
	const callers = 64
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	config := queueConfig(ordersRoute(addr, quick))
	g := start(t, config)
	msg := parcelOf("1.2", 6<<20, true, knownOp)
	head := fields{{"Content-Type", parcelType}}
	want := sha256.Sum256(msg)
	grown := g.growth(t, func() {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				octets := request("/orders", head, msg)
				if i%2 == 1 {
					chunkedHead := appendHead(nil, "POST /orders HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, head...))
					octets = append(chunkedHead, chunked(msg, 1, len(msg)/2, len(msg)-1)...)
				}
				if a := exchange(t, g.addr["http"], octets); a.Status != 202 {
					t.Errorf("not stored: %s", a)
				}
			})
		}
		wg.Wait()
	})
	t.Logf("taking %d messages of %d MiB at once: memory grew by %d MiB", callers, len(msg)>>20, grown>>20)
	if grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	var mu sync.Mutex
	good, other := map[string]bool{}, 0
	defer serveHTTP(t, addr, func(r *http.Request, body io.Reader) int {
		h := sha256.New()
		_, err := io.Copy(h, body)
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Gateway-Message-Id")
		switch {
		case err != nil: // not whole
		case [sha256.Size]byte(h.Sum(nil)) != want, good[id] && r.Header.Get("Gateway-Possible-Duplicate") != "true":
			other++
		default:
			good[id] = true
		}
		return 202
	})()
	count := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return len(good), other
	}
	grown = g.growth(t, func() {
		if !eventually(patience+20*time.Second, func() bool { return g.waiting(t) == 0 }) {
			t.Errorf("%d still wait", g.waiting(t))
		}
	})
	t.Logf("giving them: memory grew by %d MiB", grown>>20)
	if n, bad := count(); n != callers || bad != 0 || grown > 64<<20 {
		t.Errorf("%d were delivered, %d were other octets or came again without the mark; memory grew by %d MiB", n, bad, grown>>20)
	}
	g.waitBlobs(t, 0)
}

// TestLargeDamaged: a large message that is not what was accepted becomes a dead
// letter and is never given whole; others go on. What is shown of one is bounded.
func TestLargeDamaged(t *testing.T) {
	addr := refusedAddr(t)
	config := queueConfig(ordersRoute(addr, quick))
	g := start(t, config)
	var ids []string
	for range 2 {
		a := exchange(t, g.addr["http"], request("/orders", xml11("urn:test"), large("1.1", 3<<20, "")))
		if a.Status != 202 {
			t.Fatalf("not stored: %s", a)
		}
		ids = append(ids, a.Fields.get("Gateway-Message-Id"))
	}
	text, err := g.get("/api/v1/messages/" + ids[0])
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Envelope    string
		EnvelopeCut bool `json:"envelope_cut"`
		Message     struct{ Size int }
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil || !shown.EnvelopeCut || len(shown.Envelope) > 1<<20 || len(shown.Envelope) < 1<<20-100 || !strings.Contains(text, fmt.Sprint(len(large("1.1", 3<<20, "")))) {
		t.Errorf("shown: cut %v, %d octets, %v", shown.EnvelopeCut, len(shown.Envelope), err)
	}
	g.crash(t)
	file := g.blobs(t)[0] // the first, since names are in the order of time
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all[len(all)/2] ^= 1
	if err := os.WriteFile(file, all, 0o600); err != nil {
		t.Fatal(err)
	}
	b := listenAt(t, addr)
	g = startAgain(t, g, config, b)
	if !eventually(patience, func() bool { return g.waiting(t) == 0 && len(g.dead(t, "orders")) == 1 }) {
		t.Fatalf("%d wait, %d are dead", g.waiting(t), len(g.dead(t, "orders")))
	}
	if d := g.dead(t, "orders")[0]; d.ID != ids[0] || d.Reason != "damaged" {
		t.Errorf("dead letter %+v", d)
	}
	if b.gotComplete() != 1 {
		t.Errorf("%d whole messages reached the backend, want 1", b.gotComplete())
	}
	if n := g.metricSum(t, "gateway_dead_letters_total", `reason="damaged"`); n != 1 {
		t.Errorf("gateway_dead_letters_total tells of %v", n)
	}
}
