package relay

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"soapway/queue"
)

// place is a site: a store, a queue and a hub, with one route, orders. What arrives
// there stays there, unless next names the site that it goes on to.
type place struct {
	name  string
	next  string
	store *queue.Memory
	queue *queue.Queue
	hub   *Hub
	stop  func()
	asks  bool // answers are wanted: see asking

	mu     sync.Mutex
	got    []arrived
	hold   bool                // answers nothing that is asked
	refuse func(*Item) *Result // what Take answers, nil for no answer of its own
	found  []Finding
}

type arrived struct {
	body, lane string
	dup        bool
	at         time.Time
}

var (
	_ Home                 = (*place)(nil)
	_ queue.BatchDeliverer = (*place)(nil)
)

// open starts a site over a store.
func (p *place) open(t *testing.T, opt Options, links []Link, accepts []string) {
	t.Helper()
	var by queue.Deliverer = p
	opt.Home = p
	if p.asks {
		by, opt.Home = asking{p}, asking{p}
	}
	q, err := queue.New(p.store, by, queue.Options{Drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	opt.Found = func(f Finding) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.found = append(p.found, f)
	}
	p.mu.Lock()
	p.hub, p.queue = NewHub(opt), q
	p.mu.Unlock()
	d := queue.Destination{Name: "depot"}
	r := queue.Route{Name: "orders", Destination: "depot"}
	if p.next != "" {
		d.Link, d.Parallel, r.Retry.Expire = p.next, 256, -1
	}
	routes, dests := []queue.Route{r}, []queue.Destination{d}
	for _, site := range accepts {
		back := queue.Route{Name: "replies-" + site, Destination: "to-" + site}
		back.Retry.Expire = -1
		routes, dests = append(routes, back), append(dests, queue.Destination{Name: "to-" + site, Link: site, Parallel: 256})
	}
	for _, l := range links {
		if !l.Pull || slices.Contains(accepts, l.Name) {
			continue
		}
		back := queue.Route{Name: "replies-" + l.Name, Destination: "to-" + l.Name}
		back.Retry.Expire = -1
		routes, dests = append(routes, back), append(dests, queue.Destination{Name: "to-" + l.Name, Link: l.Name, Parallel: 256})
	}
	if err := p.queue.Configure(routes, dests); err != nil {
		t.Fatal(err)
	}
	p.hub.Configure(p.name, links, accepts)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Errorf("site %s: Run: %v", p.name, err)
		}
	})
	hubCtx, end := context.WithCancel(t.Context())
	hub := p.hub
	wg.Go(func() { _ = hub.Run(hubCtx) })
	var once sync.Once
	p.stop = func() { once.Do(func() { cancel(); end(); wg.Wait() }) }
	t.Cleanup(p.stop)
}

// now is the hub of the present start.
func (p *place) now() *Hub {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hub
}

// index is the queue of the present start.
func (p *place) index() *queue.Queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue
}

// restart is a kill and a new start.
func (p *place) restart(t *testing.T, opt Options, links []Link, accepts []string) {
	t.Helper()
	p.stop()
	p.store = p.store.Reopen()
	p.open(t, opt, links, accepts)
}

func (p *place) put(t *testing.T, lane, body string) string {
	t.Helper()
	id := cryptorand.Text()
	err := p.queue.Put(t.Context(), &queue.Message{
		ID: id, Route: "orders", Destination: "depot", Lane: lane, Accepted: time.Now(), Body: []byte(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (p *place) Deliver(ctx context.Context, d *queue.Delivery) queue.Outcome {
	if p.next == "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		body := string(d.Body)
		if d.Blob != nil {
			r, err := d.Blob.Open()
			if err != nil {
				return queue.Outcome{Verdict: queue.Retry, Reason: err.Error()}
			}
			defer r.Close()
			b, err := io.ReadAll(r)
			if err != nil {
				return queue.Outcome{Verdict: queue.Retry, Reason: err.Error()}
			}
			body = string(b)
		}
		p.got = append(p.got, arrived{body, d.Lane, d.PossibleDuplicate, time.Now()})
		return queue.Outcome{}
	}
	r, err := p.now().Send(ctx, p.next, p.item(d))
	return outcomeOf(ctx, r, err)
}

// item is a message as it goes over the link.
func (p *place) item(d *queue.Delivery) *Item {
	it := &Item{
		Label: *d.Label, ID: d.ID, Route: "orders", SOAP: "1.1", Accepted: d.Accepted, Doubt: d.PossibleDuplicate,
		Fields: [][2]string{{"Lane", d.Lane}}, Body: d.Body, Size: d.Size(), Behind: d.Follows,
	}
	if len(d.Meta) > 0 {
		it.Trace = strings.Split(string(d.Meta), " ")
	}
	if d.Blob != nil {
		it.Open = d.Blob.Open
	}
	return it
}

// DeliverAll implements queue.BatchDeliverer as the product does, without SOAP.
func (p *place) DeliverAll(ctx context.Context, ds []*queue.Delivery) []queue.Outcome {
	items := make([]*Item, len(ds))
	for i, d := range ds {
		items[i] = p.item(d)
	}
	results, err := p.now().SendAll(ctx, p.next, items)
	out := make([]queue.Outcome, len(ds))
	for i := range ds {
		if out[i] = outcomeOf(ctx, results[i], err); results[i].Outcome == "" && ds[i].Follows {
			out[i] = queue.Outcome{Verdict: queue.Behind}
		}
	}
	return out
}

func outcomeOf(ctx context.Context, r Result, err error) queue.Outcome {
	switch {
	case r.Outcome == "" && ctx.Err() != nil:
		return queue.Outcome{Verdict: queue.Aborted}
	case r.Outcome == "":
		return queue.Outcome{Verdict: queue.Retry, Unhealthy: true, Reason: err.Error()}
	}
	switch r.Outcome {
	case Stored, Duplicate:
		return queue.Outcome{}
	case Behind:
		return queue.Outcome{Verdict: queue.Behind}
	case Refused:
		return queue.Outcome{Verdict: queue.Dead, Reason: r.Reason}
	}
	return queue.Outcome{Verdict: queue.Retry, Unhealthy: true, Status: 503, Reason: r.Reason}
}

func (p *place) Probe(ctx context.Context, _ string) error {
	if p.next == "" {
		return nil
	}
	return p.now().Probe(ctx, p.next)
}

func (p *place) Store() string                  { return "store-" + p.name }
func (p *place) Marks(link string) []queue.Mark { return p.index().Marks(link) }
func (p *place) SeenMarks(_ context.Context, origin string) ([]queue.SeenMark, bool) {
	q := p.index() // which a restart replaces
	whole := q.Loaded()
	return q.SeenMarks(origin), whole
}
func (p *place) NewEpoch()               { p.index().NewEpoch() }
func (p *place) Heard(string)            { p.index().Tell("depot", true, "") }
func (p *place) Awaits(site string) bool { return p.index().AwaitedOf(site) > 0 }

// Take implements Home as the product does, without SOAP.
func (p *place) Take(ctx context.Context, _ Peer, items []*Item) []Result {
	results := make([]Result, len(items))
	var ms []*queue.Message
	var places []int
	follows := false
	for i, it := range items {
		behind := it.Behind && i > 0
		if follows = follows && behind; behind && results[i-1].Outcome != "" {
			results[i].Outcome = Behind
			continue
		}
		if p.refuse != nil {
			if r := p.refuse(it); r != nil {
				results[i] = *r
				continue
			}
		}
		body := it.Body
		if it.Open != nil {
			r, err := it.Open()
			if err == nil {
				body, err = io.ReadAll(r)
			}
			if err != nil {
				results[i] = Result{Outcome: Later, Reason: err.Error()}
				continue
			}
		}
		label := it.Label
		ms = append(ms, &queue.Message{
			ID: cryptorand.Text(), Route: "orders", Destination: "depot", Lane: it.Fields[0][1], Accepted: time.Now(),
			Body: bytes.Clone(body), Came: &label, Meta: []byte(strings.Join(it.Trace, " ")), Behind: follows,
		})
		places, follows = append(places, i), true
	}
	for k, r := range p.index().PutAll(ctx, ms) {
		switch i := places[k]; {
		case r.Err == nil:
			results[i].Outcome = Stored
		case errors.Is(r.Err, queue.ErrSeen):
			results[i].Outcome = Duplicate
		case errors.Is(r.Err, queue.ErrBehind):
			results[i].Outcome = Behind
		default:
			results[i] = Result{Outcome: Later, Reason: r.Err.Error(), RetryAfter: 1}
		}
	}
	return results
}

// wire is the way from a site to another, without a network.
type wire struct {
	to   *place
	peer Peer

	mu    sync.Mutex
	down  bool
	lossy *rand.Rand     // loses requests and answers, a tenth each
	storm *rand.Rand     // also cuts requests off, and brings some once more, later
	late  sync.WaitGroup // those
	trip  time.Duration
	paths []string
}

var errCut = errors.New("the cable is cut")

func (w *wire) set(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	down, loses, trip := w.down, 0, w.trip
	if w.lossy != nil {
		loses = w.lossy.IntN(10)
	}
	cut, again := -1, time.Duration(0)
	if w.storm != nil {
		trip += time.Duration(w.storm.IntN(50)) * time.Millisecond
		if w.storm.IntN(10) == 0 {
			cut = w.storm.IntN(5000)
		}
		if w.storm.IntN(5) == 0 {
			again = time.Duration(w.storm.IntN(3000)) * time.Millisecond
		}
	}
	w.paths = append(w.paths, r.URL.Path)
	w.mu.Unlock()
	<-time.After(trip)
	if down || loses == 1 {
		return nil, errCut
	}
	body := r.Body
	if body == nil {
		body = http.NoBody
	}
	if again > 0 {
		b, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		body = io.NopCloser(bytes.NewReader(b))
		w.late.Go(func() { // what somebody has kept, or a network was slow with
			<-time.After(again)
			a := w.to.now().Serve(context.Background(), w.peer, &Request{Method: r.Method, Path: r.URL.Path, Header: r.Header, Body: bytes.NewReader(b)})
			if a.Body != nil {
				_ = a.Body.Close()
			}
		})
	}
	if cut >= 0 {
		body = io.NopCloser(io.MultiReader(io.LimitReader(body, int64(cut)), iotest.ErrReader(errCut)))
	}
	a := w.to.now().Serve(r.Context(), w.peer, &Request{Method: r.Method, Path: r.URL.Path, Header: r.Header, Body: body})
	<-time.After(trip)
	if loses == 2 {
		if a.Body != nil {
			_ = a.Body.Close()
		}
		return nil, errCut
	}
	if a.Body == nil {
		a.Body = http.NoBody
	}
	return &http.Response{StatusCode: a.Status, Header: a.Header, Body: a.Body, ContentLength: a.Length, Request: r}, nil
}

// over makes hubs use a wire for each link, by its name.
func over(wires map[string]*wire) Options {
	return Options{Transport: func(l Link) http.RoundTripper { return wires[l.Name] }}
}

// pair is a plant with a link to hq.
func pair(t *testing.T) (plant, hq *place, w *wire) {
	t.Helper()
	plant = &place{name: "plant", next: "hq", store: queue.NewMemory()}
	hq = &place{name: "hq", store: queue.NewMemory()}
	w = &wire{to: hq, peer: Peer{Site: "plant", Subject: "CN=plant", Routes: []string{"orders"}}, trip: 5 * time.Millisecond}
	hq.open(t, Options{}, nil, []string{"plant"})
	plant.open(t, over(map[string]*wire{"hq": w}), []Link{{Name: "hq", URL: "https://hq"}}, nil)
	return plant, hq, w
}

// fill puts messages with keys in turn: their bodies are "KEY NUMBER".
func fill(t *testing.T, p *place, from, n, keys int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		k := fmt.Sprintf("k%d", i%keys)
		p.put(t, k, fmt.Sprintf("%s %d", k, i))
	}
}

// verify compares what has arrived with what was put.
func verify(t *testing.T, p *place, n int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := map[string]int{}
	seen := map[string]bool{}
	for _, a := range p.got {
		var k string
		var i int
		if _, err := fmt.Sscanf(a.body, "%s %d", &k, &i); err != nil || k != a.lane {
			t.Fatalf("arrived: %.60q in lane %q", a.body, a.lane)
		}
		if seen[a.body] && !a.dup {
			t.Errorf("%q has arrived twice without a mark", a.body)
		}
		if !seen[a.body] {
			if before, ok := last[k]; ok && before > i {
				t.Errorf("%q has arrived after number %d of its key", a.body, before)
			}
			last[k] = i
		}
		seen[a.body] = true
	}
	if len(seen) != n {
		t.Errorf("%d messages have arrived, want %d", len(seen), n)
	}
}

func (p *place) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

// await waits, on the fake clock, until n have arrived.
func (p *place) await(t *testing.T, n int, most time.Duration) {
	t.Helper()
	for end := time.Now().Add(most); p.count() < n; <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("site %s: %d messages have arrived after %v, want %d", p.name, p.count(), most, n)
		}
	}
}

// findings are those of a kind.
func (p *place) findings(kind Kind) (some []Finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.found {
		if f.Kind == kind {
			some = append(some, f)
		}
	}
	return some
}

func (w *wire) count(path string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.paths {
		if p == path {
			n++
		}
	}
	return n
}

func states(h *Hub, name string) LinkState {
	i := slices.IndexFunc(h.States(), func(s LinkState) bool { return s.Name == name })
	if i < 0 {
		return LinkState{}
	}
	return h.States()[i]
}
