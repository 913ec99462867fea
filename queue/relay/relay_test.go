package relay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"soapway/queue"
)

// TestDayLongOutage: the link is down for a day while messages come; they arrive by
// themselves once it is back, each once, in the order of their keys.
func TestDayLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, w := pair(t)
		fill(t, plant, 0, 100, 10)
		hq.await(t, 100, time.Minute)
		w.set(true)
		fill(t, plant, 100, 2000, 50)
		time.Sleep(12 * time.Hour)
		fill(t, plant, 2100, 2000, 50)
		time.Sleep(12 * time.Hour)
		if s := states(plant.hub, "hq"); s.Up || s.LastError == "" {
			t.Errorf("state of a link that is down: %+v", s)
		}
		w.set(false)
		hq.await(t, 4100, 2*time.Minute)
		time.Sleep(time.Minute)
		verify(t, hq, 4100)
		if got := hq.count(); got != 4100 {
			t.Errorf("%d deliveries, want 4100: none twice", got)
		}
		if n := plant.queue.Waiting(); n != 0 {
			t.Errorf("%d messages wait at the plant, want none", n)
		}
		s := states(plant.hub, "hq")
		if !s.Up || s.Sent != 4100 || s.InFlight != 0 || s.BytesOut == 0 {
			t.Errorf("state of the link: %+v", s)
		}
		if batches := w.count(pathBatch); batches > 1000 {
			t.Errorf("%d batches for 4100 messages and an outage", batches)
		}
	})
}

// TestLostAnswers: every third request and every third answer is lost, and each side
// is killed now and then; what arrives twice is marked.
func TestLostAnswers(t *testing.T) {
	for _, kills := range []bool{false, true} {
		t.Run(fmt.Sprintf("kills=%v", kills), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plant, hq, w := pair(t)
				w.lossy = rand.New(rand.NewPCG(3, 4))
				const n = 1500
				for i := range 50 { // a batch or two each
					fill(t, plant, i*n/50, n/50, 30)
					time.Sleep(20 * time.Second)
					if kills && i%15 == 5 {
						hq.restart(t, Options{}, nil, []string{"plant"})
					}
					if kills && i%15 == 10 {
						plant.restart(t, over(map[string]*wire{"hq": w}), []Link{{Name: "hq", URL: "https://hq"}}, nil)
					}
				}
				for end := time.Now().Add(2 * time.Hour); plant.queue.Waiting() > 0 && time.Now().Before(end); {
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				verify(t, hq, n)
				if got := hq.count(); !kills && got != n {
					t.Errorf("%d deliveries, want %d: none twice", got, n)
				}
				if s := states(plant.hub, "hq"); !kills && s.Duplicates == 0 {
					t.Error("no answer was duplicate, so nothing was tested")
				}
				if len(hq.findings(FoundRepeated)) == 0 {
					t.Error("nothing is found of items that came again")
				}
				if f := plant.findings(FoundLost); len(f) > 0 {
					t.Errorf("found: %+v, and nothing was lost", f)
				}
			})
		})
	}
}

// TestFarSideLost: the far side comes back with another store, without what it had
// answered for. The link says how much that is, once, and goes on; a new configuration
// of the link does not forget it.
func TestFarSideLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, w := pair(t)
		fill(t, plant, 0, 50, 10)
		hq.await(t, 50, time.Minute)
		plant.hub.Configure("plant", []Link{{Name: "hq", URL: "https://hq", Bandwidth: 1 << 30}}, nil)
		hq.stop() // so quickly that no exchange fails
		hq.store = queue.NewMemory()
		hq.open(t, Options{}, nil, []string{"plant"})
		fill(t, plant, 50, 7, 7)
		hq.await(t, 57, 5*time.Minute)
		verify(t, hq, 57)
		if f := plant.findings(FoundLost); len(f) != 1 || f[0].Items != 50 || f[0].Peer.Site != "hq" {
			t.Errorf("found: %+v, want 50 messages that hq has lost", f)
		}
		for range 3 {
			w.set(true)
			fill(t, plant, hq.count(), 1, 1)
			time.Sleep(time.Minute)
			w.set(false)
			hq.await(t, hq.count()+1, 5*time.Minute)
		}
		hq.restart(t, Options{}, nil, []string{"plant"}) // with its own store
		fill(t, plant, 60, 1, 1)
		hq.await(t, 61, 5*time.Minute)
		s := states(plant.hub, "hq")
		if f := plant.findings(FoundLost); len(f) != 1 || s.Lost != 50 || s.LostAt.IsZero() {
			t.Errorf("found: %+v, state %+v; want it once", f, s)
		}
	})
}

// TestRefused: an item that the far side refuses is a dead letter at its origin with
// the reason, its number is not used again, and those behind it go on.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, _ := pair(t)
		hq.refuse = func(it *Item) *Result {
			if string(it.Body) == "k 1" {
				return &Result{Outcome: Refused, Reason: "500 Client: no such customer"}
			}
			return nil
		}
		bad := ""
		for i := range 4 {
			id := plant.put(t, "k", fmt.Sprintf("k %d", i))
			if i == 1 {
				bad = id
			}
		}
		hq.await(t, 3, time.Minute)
		verify(t, hq, 3)
		dead, err := plant.store.Dead(bad)
		if err != nil {
			t.Fatal(err)
		}
		if dead.Reason != queue.ReasonPermanent || !strings.Contains(dead.Text, "no such customer") {
			t.Errorf("dead letter: %s, %q", dead.Reason, dead.Text)
		}
		hq.refuse = nil
		if err := plant.queue.Replay(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		hq.await(t, 4, time.Minute)
	})
}

// TestFarSideFull: while the far side has no room messages wait, and none is lost.
func TestFarSideFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, _ := pair(t)
		hq.store.SetFull(true)
		fill(t, plant, 0, 200, 20)
		time.Sleep(time.Hour)
		if got := hq.count(); got != 0 {
			t.Fatalf("%d messages have arrived in a full store", got)
		}
		hq.store.SetFull(false)
		hq.await(t, 200, 2*time.Minute)
		verify(t, hq, 200)
	})
}

// TestChain: plant to region to hq, and a circle is refused.
func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant := &place{name: "plant", next: "region", store: queue.NewMemory()}
		region := &place{name: "region", next: "hq", store: queue.NewMemory()}
		hq := &place{name: "hq", store: queue.NewMemory()}
		peer := func(name string) Peer { return Peer{Site: name, Routes: []string{"orders"}} }
		hq.open(t, Options{}, nil, []string{"region"})
		region.open(t, over(map[string]*wire{"hq": {to: hq, peer: peer("region")}}), []Link{{Name: "hq", URL: "https://hq"}}, []string{"plant"})
		plant.open(t, over(map[string]*wire{"region": {to: region, peer: peer("plant")}}), []Link{{Name: "region", URL: "https://region"}}, nil)
		fill(t, plant, 0, 500, 20)
		hq.await(t, 500, time.Minute)
		verify(t, hq, 500)

		// The region sends what has come from the plant back to it.
		region.stop()
		region.next, region.store = "plant", region.store.Reopen()
		region.open(t, over(map[string]*wire{"plant": {to: plant, peer: peer("region")}}), []Link{{Name: "plant", URL: "https://plant"}}, []string{"plant"})
		plant.put(t, "k", "k 1000")
		time.Sleep(10 * time.Minute)
		n := 0
		err := region.store.ScanDead(t.Context(), func(d *queue.DeadLetter, _ int64) error {
			n++
			if !strings.Contains(d.Text, "loop") {
				t.Errorf("dead letter of a circle: %q", d.Text)
			}
			return nil
		})
		if err != nil || n != 1 {
			t.Errorf("%d dead letters at the region (%v), want 1", n, err)
		}
	})
}

// TestPull: a site that cannot be reached fetches what is for it.
func TestPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hq := &place{name: "hq", next: "plant", store: queue.NewMemory()}
		plant := &place{name: "plant", store: queue.NewMemory()}
		hq.open(t, Options{}, nil, []string{"plant"})
		w := &wire{to: hq, peer: Peer{Site: "plant"}, trip: 10 * time.Millisecond}
		opt := over(map[string]*wire{"hq": w})
		links := []Link{{Name: "hq", URL: "https://hq", Pull: true, Routes: []string{"orders"}}}
		fill(t, hq, 0, 300, 20)
		time.Sleep(10 * time.Minute)
		if s := states(hq.hub, "plant"); s.Up || s.Direction != "pulled" {
			t.Errorf("state of a link that nobody has fetched over: %+v", s)
		}
		plant.open(t, opt, links, nil)
		plant.await(t, 300, time.Minute)
		if s := states(hq.hub, "plant"); !s.Up || s.Sent != 300 {
			t.Errorf("state of a link that is fetched over: %+v", s)
		}
		w.mu.Lock()
		w.lossy = rand.New(rand.NewPCG(5, 6))
		w.mu.Unlock()
		fill(t, hq, 300, 300, 20)
		plant.await(t, 600, time.Hour)
		plant.restart(t, opt, links, nil)
		hq.restart(t, Options{}, nil, []string{"plant"})
		fill(t, hq, 600, 300, 20)
		for end := time.Now().Add(time.Hour); hq.queue.Waiting() > 0 && time.Now().Before(end); {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		verify(t, plant, 900)
	})
}

// TestLargeBody: what is not held in memory goes too, either way, and is what it was.
func TestLargeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, w := pair(t)
		bodies := []string{"k 0" + strings.Repeat(" ", 3<<20), "k 1", "k 2" + strings.Repeat(" .", 1<<20)}
		w.lossy = rand.New(rand.NewPCG(7, 8))
		for _, b := range bodies {
			plant.put(t, "k", b)
		}
		hq.await(t, 3, time.Hour)
		hq.mu.Lock()
		for i, a := range hq.got {
			if a.body != bodies[i] {
				t.Errorf("body %d: %d octets, want %d, or other ones", i, len(a.body), len(bodies[i]))
			}
		}
		hq.mu.Unlock()

		back := &place{name: "hq", next: "plant", store: queue.NewMemory()}
		far := &place{name: "plant", store: queue.NewMemory()}
		back.open(t, Options{}, nil, []string{"plant"})
		pull := &wire{to: back, peer: Peer{Site: "plant"}, lossy: rand.New(rand.NewPCG(9, 10))}
		far.open(t, over(map[string]*wire{"hq": pull}), []Link{{Name: "hq", URL: "https://hq", Pull: true, Routes: []string{"orders"}}}, nil)
		for _, b := range bodies {
			back.put(t, "k", b)
		}
		far.await(t, 3, time.Hour)
		if far.got[0].body != bodies[0] || far.got[2].body != bodies[2] {
			t.Error("a body that was fetched is not what it was")
		}
	})
}

// TestLimits: a link takes no more than its bandwidth.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hq := &place{name: "hq", store: queue.NewMemory()}
		hq.open(t, Options{}, nil, []string{"plant"})
		plant := &place{name: "plant", next: "hq", store: queue.NewMemory()}
		w := &wire{to: hq, peer: Peer{Site: "plant", Routes: []string{"orders"}}}
		plant.open(t, over(map[string]*wire{"hq": w}), []Link{{Name: "hq", URL: "https://hq", Bandwidth: 10_000}}, nil)
		noise := rand.New(rand.NewPCG(1, 1))
		began := time.Now()
		for i := range 100 {
			b := make([]byte, 1000)
			for k := range b {
				b[k] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[noise.IntN(64)]
			}
			plant.put(t, "", fmt.Sprintf(" %d %s", i, b))
		}
		hq.await(t, 100, time.Hour)
		if took, least := time.Since(began), 6*time.Second; took < least {
			t.Errorf("75 kB of information over 10 kB/s took %v, want at least %v", took, least)
		}
	})
}

// batchOf is a batch as a peer might send it.
func batchOf(from head, items ...*Item) []byte {
	var b bytes.Buffer
	_ = writeBatch(&b, from, items)
	return b.Bytes()
}

func itemOf(n uint64, trace ...string) *Item {
	return &Item{
		Label: queue.Label{Stream: queue.Stream{Epoch: 9, Link: "hq"}, N: n}, ID: fmt.Sprintf("id-%d", n), Route: "orders", SOAP: "1.1",
		Trace: trace, Fields: [][2]string{{"Lane", "k"}}, Body: fmt.Appendf(nil, "k %d", n), Size: int64(len(fmt.Sprintf("k %d", n))),
	}
}

// TestHostile: what a peer must not do is refused, and what is right beside it is taken.
func TestHostile(t *testing.T) {
	zip := func(b []byte) []byte {
		e, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.EncodeAll(b, nil)
	}
	mine := head{"plant", "store-1"}
	big := itemOf(1, "plant")
	big.Body = make([]byte, 1<<20)
	big.Size = 1 << 20
	var bomb []*Item
	for i := range 40 {
		one := *big
		one.Label.N = uint64(i + 1)
		bomb = append(bomb, &one)
	}
	many := make([]*Item, MaxItems+1)
	for i := range many {
		many[i] = itemOf(uint64(i+1), "plant")
	}
	good := batchOf(mine, itemOf(1, "plant"), itemOf(2, "plant"))
	flipped := slices.Clone(good)
	flipped[len(flipped)-8] ^= 1
	long := make([]string, MaxTrace)
	for i := range long {
		long[i] = fmt.Sprintf("s%d", i)
	}
	long[MaxTrace-1] = "plant"
	route := itemOf(1, "plant")
	route.Route = "secrets"
	for _, c := range []struct {
		name   string
		body   []byte
		coding string
		status int
		want   string // in the answer
		stored int
		kind   Kind // of what is found, "" for nothing
	}{
		{"good", good, "", 200, `"stored"`, 2, ""},
		{"packed", zip(good), "zstd", 200, `"stored"`, 2, ""},
		{"forged name", batchOf(head{"hq-backup", "store-1"}, itemOf(1, "hq-backup")), "", 403, "belongs to site plant", 0, FoundForged},
		{"forged way", batchOf(mine, itemOf(1, "branch")), "", 200, `"refused"`, 0, FoundForged},
		{"store of another", batchOf(head{"plant", "../hq/x"}, itemOf(1, "plant")), "", 400, "id of the store", 0, ""},
		{"circle", batchOf(mine, itemOf(1, "hq", "plant")), "", 200, "loop", 0, FoundLoop},
		{"endless way", batchOf(mine, itemOf(1, long...)), "", 200, "loop", 0, FoundLoop},
		{"route of others", batchOf(mine, route, itemOf(2, "plant")), "", 200, `"denied"`, 1, FoundDenied},
		{"twice in one", batchOf(mine, itemOf(1, "plant"), itemOf(1, "plant")), "", 200, `"duplicate"`, 1, FoundRepeated},
		{"too many", batchOf(mine, many...), "", 400, "items", 0, FoundBroken},
		{"too large", batchOf(mine, bomb...), "", 400, "octets", 0, FoundBroken},
		{"bomb", zip(batchOf(mine, bomb...)), "zstd", 413, "decompress", 0, FoundBomb},
		{"flipped", flipped, "", 400, "checksum", 0, FoundBroken},
		{"cut", good[:len(good)-5], "", 503, "broke off", 0, ""},
		{"no end", good[:len(good)-1], "", 503, "broke off", 0, ""},
		{"more behind", append(slices.Clone(good), 0), "", 400, "follows", 0, FoundBroken},
		{"nothing", nil, "", 503, "broke off", 0, ""},
		{"no batch", []byte("<Envelope/>"), "", 400, "begins with", 0, FoundBroken},
		{"no zstd", good, "zstd", 400, "not a batch", 0, FoundBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hq := &place{name: "hq", store: queue.NewMemory()}
				hq.open(t, Options{}, nil, []string{"plant"})
				r := &Request{Method: "POST", Path: pathBatch, Header: http.Header{"Content-Type": {typeBatch}}, Body: bytes.NewReader(c.body)}
				if c.coding != "" {
					r.Header.Set("Content-Encoding", c.coding)
				}
				a := hq.hub.Serve(t.Context(), Peer{Site: "plant", Routes: []string{"orders"}}, r)
				var b bytes.Buffer
				if a.Body != nil {
					_, _ = b.ReadFrom(a.Body)
				}
				if a.Status != c.status || !strings.Contains(b.String(), c.want) {
					t.Errorf("answer: %d %s, want %d and %q", a.Status, b.String(), c.status, c.want)
				}
				time.Sleep(time.Minute)
				if got := hq.count(); got != c.stored {
					t.Errorf("%d messages were stored, want %d", got, c.stored)
				}
				want := 1
				if c.kind == "" {
					want = 0
				}
				if all, some := len(hq.found), hq.findings(c.kind); all != want || len(some) != want || want == 1 && (some[0].Peer.Site != "plant" || some[0].Reason == "" && c.kind != FoundRepeated) {
					t.Errorf("found: %+v, want %q", hq.found, c.kind)
				}
			})
		})
	}
}

// TestReplayedBatch: the same batch again, at once, later and after a kill, is answered
// duplicate; the same numbers from another site or store are other ones.
func TestReplayedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hq := &place{name: "hq", store: queue.NewMemory()}
		hq.open(t, Options{}, nil, []string{"plant", "branch"})
		send := func(site, store string) string {
			t.Helper()
			r := &Request{Method: "POST", Path: pathBatch, Header: http.Header{"Content-Type": {typeBatch}}}
			r.Body = bytes.NewReader(batchOf(head{site, store}, itemOf(1, site), itemOf(2, site), itemOf(4, site)))
			a := hq.hub.Serve(t.Context(), Peer{Site: site, Routes: []string{"orders"}}, r)
			var b bytes.Buffer
			_, _ = b.ReadFrom(a.Body)
			return b.String()
		}
		all := func(answer string, o Outcome) {
			t.Helper()
			if n := strings.Count(answer, `"`+string(o)+`"`); n != 3 {
				t.Errorf("answer: %s, want three times %s", answer, o)
			}
		}
		all(send("plant", "a"), Stored)
		all(send("plant", "a"), Duplicate)
		time.Sleep(time.Minute)
		all(send("plant", "a"), Duplicate)
		hq.restart(t, Options{}, nil, []string{"plant", "branch"})
		all(send("plant", "a"), Duplicate)
		all(send("plant", "b"), Stored)
		all(send("branch", "a"), Stored)
		time.Sleep(time.Minute)
		if got := hq.count(); got != 9 {
			t.Errorf("%d deliveries, want 9", got)
		}
	})
}

// FuzzBatch: whatever comes, what is read is written as the same, and nothing larger
// than the bounds is held.
func FuzzBatch(f *testing.F) {
	f.Add(batchOf(head{"plant", "s"}, itemOf(1, "plant"), itemOf(2, "a", "plant")))
	f.Add(batchOf(head{"plant", "s"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readBatch(bytes.NewReader(b))
		if err != nil {
			return
		}
		var items []*Item
		for {
			it, err := r.next()
			if err != nil || it.Open != nil {
				break
			}
			items = append(items, it)
		}
		again, err := readBatch(bytes.NewReader(batchOf(r.from, items...)))
		if err != nil || again.from != r.from {
			t.Fatalf("head %v is written as what reads %v, %v", r.from, again, err)
		}
		for _, want := range items {
			got, err := again.next()
			if err != nil || got.Label != want.Label || got.ID != want.ID || !bytes.Equal(got.Body, want.Body) || !slices.Equal(got.Fields, want.Fields) ||
				!slices.Equal(got.Trace, want.Trace) || got.Tail != want.Tail || got.Query != want.Query || got.HasQuery != want.HasQuery || got.Doubt != want.Doubt {
				t.Fatalf("item %+v is written as what reads %+v, %v", want, got, err)
			}
		}
	})
}
