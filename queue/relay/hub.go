package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"soapway/queue"
)

// ErrDown: an item was not answered. It may be at the far side all the same; under
// its label it is safe to send it again.
var ErrDown = errors.New("relay: the link is down")

// errClosed: the hub has stopped.
var errClosed = fmt.Errorf("%w: the gateway stops", ErrDown)

// Outcome is what has become of an item at the far side.
type Outcome string

// The outcomes. Stored, Duplicate and Refused are final (SPEC.md §6).
const (
	Stored    Outcome = "stored"    // it is durable there
	Duplicate Outcome = "duplicate" // it has been for some time
	Refused   Outcome = "refused"   // no retry can mend it
	Later     Outcome = "later"     // there is no room for it now
	Denied    Outcome = "denied"    // this site may not send to its route, or there is none
	Behind    Outcome = "behind"    // it was not looked at, since the one before it was not taken
	// Early says of an answer that it is here before the news that its item was taken;
	// it may come again.
	Early Outcome = "early"
)

// taken reports whether the far side has the item, so that what is behind it may come.
func (o Outcome) taken() bool { return o == Stored || o == Duplicate }

// Result is the answer to an item.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"` // one line, without content of the message
	// RetryAfter is in how many seconds it may be tried again.
	RetryAfter int `json:"retry_after,omitempty"`

	kind Kind // of the finding that it is, where the outcome does not tell
}

// Peer is another site, as the mount has proved it.
type Peer struct {
	// Site is its name among those that are accepted: the only one that is believed.
	Site string
	// Subject is that of its certificate, for logs.
	Subject string
	// Routes are those that it may send to.
	Routes []string
	// Address is where it connects from.
	Address netip.AddrPort
}

// Home is what a site does with items, and what it knows of labels. Its methods are
// called from many goroutines.
type Home interface {
	// Store is the id of the store, "" while there is none.
	Store() string
	// Take returns once items are durable, or with the reason why they are not, a result
	// for each. It has read the bodies by then, or never will. One that is Behind the one
	// before it is stored after that, and only if that is, or was before. An item with a
	// body that is not in memory comes alone.
	Take(ctx context.Context, from Peer, items []*Item) []Result
	// Marks are how far the labels of a link of this site have come.
	Marks(link string) []queue.Mark
	// SeenMarks are what is known of the labels of an origin, once the log has been read
	// to its end; whole is false if that takes longer than one should wait.
	SeenMarks(ctx context.Context, origin string) (marks []queue.SeenMark, whole bool)
	// NewEpoch begins a new epoch of labels.
	NewEpoch()
	// Awaits reports whether a site is to answer items that it has taken.
	Awaits(site string) bool
	// Heard says that another site has shown that it can be reached.
	Heard(site string)
}

// Options configures a [Hub].
type Options struct {
	// Home is needed.
	Home Home
	// Log gets what an operator should know. Default: discard.
	Log *slog.Logger
	// Found is told what may have to be looked up later. It is called from many
	// goroutines, and while another site waits for its answer. Default: nobody.
	Found func(Finding)
	// Retry is the pause of a link that fetches after a failure. Default 5 s.
	Retry time.Duration
	// Wait is how long a fetch waits for items. Default 20 s.
	Wait time.Duration
	// Quiet is for how long a site that fetches may be silent before its link counts
	// as down. Default 1 min.
	Quiet time.Duration
	// Transport makes the connections of a link. Default: HTTP/2 over TLS, HTTP/1.1
	// where the other side knows no better.
	Transport func(Link) http.RoundTripper
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Retry == 0 {
		o.Retry = 5 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 20 * time.Second
	}
	if o.Quiet == 0 {
		o.Quiet = time.Minute
	}
	if o.Transport == nil {
		o.Transport = func(l Link) http.RoundTripper { return transport(l.TLS) }
	}
	return o
}

// Link is one way to another site.
type Link struct {
	// Name is the other site's.
	Name string
	// URL is where it listens, scheme and authority.
	URL string
	// TLS has the certificates; nil for http.
	TLS *tls.Config
	// Expires is when that of this side expires; zero if there is none.
	Expires time.Time
	// Bandwidth is octets per second in each direction; 0 is unlimited.
	Bandwidth int64
	// Priority orders links: while one has items under way, those below it wait.
	Priority uint8
	// Pull also fetches what the other site has for this one. Without it only answers
	// are fetched, as long as some are awaited ([Home.Awaits]).
	Pull bool
	// Routes are those that the other site may send to when it is fetched from.
	Routes []string
}

// same reports whether nothing has changed that needs new connections.
func (l *Link) same(o *Link) bool {
	return l.URL == o.URL && l.TLS == o.TLS && l.Bandwidth == o.Bandwidth && l.Priority == o.Priority && l.Pull == o.Pull && slices.Equal(l.Routes, o.Routes)
}

// A Hub has the links of a site. It may be used from many goroutines.
type Hub struct {
	opt      Options
	gate     gate
	encoders sync.Pool
	// run names this run of the process: whoever has greeted another one greets anew.
	run string

	mu     sync.Mutex
	site   string
	lines  map[string]*line
	closed bool
	ctx    context.Context // of everything that the hub does; ends when Run does
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewHub returns a hub without links.
func NewHub(opt Options) *Hub {
	h := &Hub{opt: opt.withDefaults(), lines: map[string]*line{}, encoders: sync.Pool{New: newEncoder}, run: rand.Text()}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Configure replaces the name of the site and its links. accepts are the sites that
// may link to this one: those without a link of ours fetch what is for them. Links
// that are the same keep their connections.
func (h *Hub) Configure(site string, links []Link, accepts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.site = site
	fresh := map[string]*line{}
	for _, l := range links {
		fresh[l.Name] = h.lineOf(l)
	}
	for _, name := range accepts {
		if fresh[name] == nil {
			fresh[name] = h.lineOf(Link{Name: name})
		}
	}
	for name, old := range h.lines {
		if fresh[name] != old {
			old.close(fmt.Errorf("%w: the link has changed", ErrDown))
		}
	}
	for name, l := range fresh {
		if h.lines[name] != l && l.client != nil {
			h.wg.Go(l.fetchAll)
		}
	}
	h.lines = fresh
}

// lineOf returns the line of a link, made unless there is one that is the same. mu is held.
func (h *Hub) lineOf(l Link) *line {
	old := h.lines[l.Name]
	if old != nil && old.cfg.same(&l) {
		return old
	}
	fresh := newLine(h, l)
	if old != nil {
		old.mu.Lock()
		defer old.mu.Unlock()
		fresh.confirmed, fresh.stats.lost, fresh.stats.lostAt = maps.Clone(old.confirmed), old.stats.lost, old.stats.lostAt
	}
	return fresh
}

// line returns the line to a site, nil if there is none.
func (h *Hub) line(site string) *line {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[site]
}

// Site is the name of this site.
func (h *Hub) Site() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.site
}

// Run returns once ctx has ended and nothing of the hub is under way. It must be
// called once.
func (h *Hub) Run(ctx context.Context) error {
	<-ctx.Done()
	h.mu.Lock()
	h.closed = true
	for _, l := range h.lines {
		l.close(errClosed)
	}
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
	return nil
}

// Send takes an item to a site and returns the answer. The error is, or wraps,
// ErrDown, or that of ctx, or what keeps the body from being read.
func (h *Hub) Send(ctx context.Context, site string, it *Item) (Result, error) {
	results, err := h.SendAll(ctx, site, []*Item{it})
	if results[0].Outcome != "" {
		err = nil
	}
	return results[0], err
}

// SendAll is Send for items that go together, at most 1,024: those that are Behind others
// in one batch with them. One without an Outcome was not answered, and the error says why.
// The body of an item must be in memory, unless it is alone.
func (h *Hub) SendAll(ctx context.Context, site string, items []*Item) ([]Result, error) {
	results := make([]Result, len(items))
	l := h.line(site)
	if l == nil {
		return results, fmt.Errorf("%w: there is no link to site %s", ErrDown, site)
	}
	own := h.Site()
	out := make([]*Item, 0, len(items))
	var places []int // of out, in results
	for i, it := range items {
		switch behind := it.Behind && i > 0; {
		case behind && results[i-1].Outcome != "":
			results[i].Outcome = Behind
			continue
		case slices.Contains(it.Trace, site):
			results[i] = Result{Outcome: Refused, Reason: "loop: it has passed site " + site + " before"}
			continue
		}
		mine := *it
		mine.Behind = it.Behind && i > 0
		mine.Trace = append(slices.Clone(it.Trace), own)
		out, places = append(out, &mine), append(places, i)
	}
	if len(out) == 0 {
		return results, nil
	}
	answers, err := l.send(ctx, out)
	for k, i := range places {
		results[i] = answers[k]
	}
	return results, err
}

// Probe asks whether a site can be reached, and exchanges marks with it.
func (h *Hub) Probe(ctx context.Context, site string) error {
	l := h.line(site)
	if l == nil {
		return fmt.Errorf("%w: there is no link to site %s", ErrDown, site)
	}
	return l.probe(ctx)
}

// InFlight is how many items are under way to a site.
func (h *Hub) InFlight(site string) int64 {
	if l := h.line(site); l != nil {
		return int64(l.state().InFlight)
	}
	return 0
}

// The directions of a link.
const (
	Push   = "push"   // this site connects
	Pulled = "pulled" // the other site connects, and fetches
)

// LinkState is what an operator is told of a link.
type LinkState struct {
	Name      string
	Direction string // Push or Pulled
	Pull      bool   // we fetch from it, too
	// Up: the last exchange has worked; of one that is pulled, it has fetched lately.
	Up        bool
	Since     time.Time // when that began
	LastError string    // one line
	LastSeen  time.Time // when an exchange has worked last
	LastHeard time.Time // when an item of the other site was answered last
	RTT       time.Duration
	InFlight  int
	// Items by their answers since the start, sent and received.
	Sent, Duplicates, Refused                     uint64
	Received, ReceivedDuplicates, ReceivedRefused uint64
	BytesOut, BytesIn                             uint64 // bodies of requests and answers, as they were on the wire

	// Lost is how many the far side had answered for and did not have when it was met
	// again, since the start, and LostAt when that was noticed last.
	Lost   uint64
	LostAt time.Time
	Rate   float64 // items a second that the far side has stored, over ten seconds
}

// States are those of all links, by their names.
func (h *Hub) States() []LinkState {
	h.mu.Lock()
	lines := h.lines
	h.mu.Unlock()
	states := make([]LinkState, 0, len(lines))
	for _, l := range lines {
		states = append(states, l.state())
	}
	slices.SortFunc(states, func(a, b LinkState) int { return cmp.Compare(a.Name, b.Name) })
	return states
}
