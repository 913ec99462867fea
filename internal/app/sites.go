package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/field"
	"soapway/proxy"
	"soapway/queue"
	"soapway/queue/relay"
)

// sites is the side of a gateway that other sites see: its links, and what becomes of
// messages that come over them.
type sites struct {
	log     *slog.Logger
	depot   *depot
	door    *door
	handler *proxy.Handler // set before the first message
	hub     *relay.Hub

	enrolment atomic.Pointer[enrolment] // nil: this site invites nobody
	audit     atomic.Pointer[admin.Audit]

	mu    sync.Mutex
	known map[string]linkTLS // by the name of the link
	fresh []string           // links with other certificates than before

	given issuedCertificates // guarded by mu
}

// linkTLS is the TLS of a link and the content of the files that it was made of.
type linkTLS struct {
	files   [sha256.Size]byte
	tls     *tls.Config
	expires time.Time // of the certificate that it shows; zero for none
}

var _ relay.Home = (*sites)(nil)

func newSites(log *slog.Logger, p *depot, d *door) *sites {
	s := &sites{log: log, depot: p, door: d, known: map[string]linkTLS{}}
	s.hub = relay.NewHub(relay.Options{Home: s, Log: log, Found: s.found})
	return s
}

// build makes what a configuration says of other sites.
func (s *sites) build(cfg *config.Config) ([]relay.Link, peers, config.Problems) {
	links, problems := s.links(cfg)
	peers, more := peersOf(cfg)
	return links, peers, append(problems, more...)
}

// links are the links of cfg. Those whose files are the same have the same TLS.
func (s *sites) links(cfg *config.Config) ([]relay.Link, config.Problems) {
	if cfg.Sites == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var links []relay.Link
	var problems config.Problems
	for i := range cfg.Sites.Links {
		l := &cfg.Sites.Links[i]
		out := relay.Link{Name: l.Name, URL: linkURL(&l.URL), Priority: uint8(l.Priority), Pull: l.Pull, Routes: acceptedRoutes(cfg, l.Name)}
		if !l.Bandwidth.None() {
			out.Bandwidth = int64(l.Bandwidth)
		}
		if strings.HasPrefix(out.URL, "https:") {
			kept, files := s.known[l.Name], linkFiles(l)
			if kept.tls == nil || kept.files != files {
				t, err := tlsOfLink(l)
				if err != nil {
					problems = append(problems, refusals(cfg, "sites.links."+l.Name, err)...)
					continue
				}
				kept = linkTLS{files, t, expiryOf(t)}
				s.known[l.Name] = kept
				s.fresh = append(s.fresh, l.Name)
			}
			out.TLS, out.Expires = kept.tls, kept.expires
		}
		links = append(links, out)
	}
	return links, problems
}

// linkURL is scheme and authority of a URL.
func linkURL(u *config.URL) string {
	p, err := url.Parse(u.Reveal())
	if err != nil { // config has read it
		return ""
	}
	return strings.ToLower(p.Scheme) + "://" + p.Host
}

// acceptedRoutes are those that a site may send to.
func acceptedRoutes(cfg *config.Config, site string) []string {
	for i := range cfg.Sites.Accept {
		if a := &cfg.Sites.Accept[i]; a.Name == site {
			return a.Routes
		}
	}
	return nil
}

func linkFiles(l *config.Link) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range []config.File{l.Certificate, l.Key, l.CA} {
		data, _ := os.ReadFile(string(f)) // to complain is for who uses it
		h.Write([]byte(f))
		h.Write([]byte{0})
		h.Write(data)
	}
	h.Sum(sum[:0])
	return sum
}

// configure puts the links of cfg in place.
func (s *sites) configure(cfg *config.Config, links []relay.Link) {
	var site string
	var accepts []string
	if cfg.Sites != nil {
		site = cfg.Sites.Name
		for i := range cfg.Sites.Accept {
			accepts = append(accepts, cfg.Sites.Accept[i].Name)
		}
	}
	s.enrolment.Store(newEnrolment(cfg))
	s.hub.Configure(site, links, accepts)
}

// run is the part that has the links.
func (s *sites) run(stop, _ context.Context) error {
	var certificates sync.WaitGroup
	certificates.Go(func() { s.keepCertificates(stop) })
	err := s.hub.Run(stop)
	certificates.Wait()
	return err
}

// Store implements [relay.Home].
func (s *sites) Store() string {
	if stock, err := s.depot.taking(); err == nil {
		return stock.store.Info().ID
	}
	return ""
}

// Marks implements [relay.Home].
func (s *sites) Marks(link string) []queue.Mark {
	if p := s.depot.present.Load(); p != nil {
		return p.queue.Marks(link)
	}
	return nil
}

// SeenMarks implements [relay.Home].
func (s *sites) SeenMarks(ctx context.Context, origin string) (marks []queue.SeenMark, whole bool) {
	p := s.depot.present.Load()
	if p == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, marksPatience)
	defer cancel()
	if !p.queue.Loaded() && !p.loaded(ctx) {
		return nil, false
	}
	return p.queue.SeenMarks(origin), true
}

// marksPatience is how long another site waits for what is known of its labels.
const marksPatience = 5 * time.Second

// NewEpoch implements [relay.Home].
func (s *sites) NewEpoch() {
	if p := s.depot.present.Load(); p != nil {
		p.queue.NewEpoch()
	}
}

// Heard implements [relay.Home]: what waits for the site is tried at once.
func (s *sites) Heard(site string) {
	for _, name := range append(backendsTo(s.depot.cfg.Load(), site), proxy.ReturnBackend(site)) {
		s.depot.tell(name, true, "")
	}
}

// proven is for after a reload: a site that has refused the certificate of its link is
// asked again if the link has another one now.
func (s *sites) proven(cfg *config.Config) {
	s.mu.Lock()
	fresh := s.fresh
	s.fresh = nil
	s.mu.Unlock()
	for _, site := range fresh {
		for _, name := range append(backendsTo(cfg, site), proxy.ReturnBackend(site)) {
			s.depot.renewed(name)
		}
	}
}

// backendsTo are the backends of routes that lead to a site.
func backendsTo(cfg *config.Config, site string) (names []string) {
	if cfg == nil {
		return nil
	}
	for i := range cfg.Routes {
		if name, b := cfg.BackendOf(&cfg.Routes[i]); b != nil {
			if n, ok := b.SiteNode(); ok && n.Site == site {
				names = append(names, name)
			}
		}
	}
	return names
}

// Take implements [relay.Home].
func (s *sites) Take(ctx context.Context, from relay.Peer, items []*relay.Item) []relay.Result {
	results := make([]relay.Result, len(items))
	var exs []*proxy.Exchange
	var places []int // of exs, in results
	stock, broken := s.depot.taking()
	follows := false // the last of exs is one that the item is behind
	var replies []func()
	for i, it := range items {
		behind := it.Behind && i > 0
		follows = follows && behind
		if behind && results[i-1].Outcome != "" && results[i-1].Outcome != relay.Duplicate {
			results[i].Outcome = relay.Behind
			continue
		}
		if broken != nil {
			results[i] = relay.Result{Outcome: relay.Later, Reason: "the store takes no messages", RetryAfter: 5}
			continue
		}
		before, doubt, err := stock.queue.Seen(ctx, &it.Label)
		switch {
		case err != nil:
			results[i] = relay.Result{Outcome: relay.Later, Reason: "the index of the store is being rebuilt", RetryAfter: 2}
			continue
		case it.Reply:
			follows = false
			replies = append(replies, func() { results[i] = s.takeReply(ctx, stock, from, it, before) })
			continue
		case before:
			results[i].Outcome = relay.Duplicate
			continue
		}
		ex, err := exchangeOf(from, it, doubt)
		if err != nil {
			results[i] = relay.Result{Outcome: relay.Later, Reason: err.Error()}
			continue
		}
		ex.Arrival.Behind, follows = follows, true
		exs, places = append(exs, ex), append(places, i)
	}
	var answers sync.WaitGroup
	for _, take := range replies { // at once, so that they share syncs
		answers.Go(take)
	}
	defer answers.Wait()
	if len(exs) > 0 {
		g := s.door.enter()
		defer g.leave()
		arrived := s.handler.Arrive(ctx, exs)
		for k, i := range places {
			results[i] = resultOf(&arrived[k])
		}
	}
	return results
}

// exchangeOf is an item as the handler takes it.
func exchangeOf(from relay.Peer, it *relay.Item, doubt bool) (*proxy.Exchange, error) {
	label := it.Label
	ex := &proxy.Exchange{
		Route: it.Route, Client: from.Address, TLS: true, Method: http.MethodPost, Host: it.Host, Length: it.Size,
		Header: make(field.List, 0, len(it.Fields)+1), Body: bytes.NewReader(it.Body),
		Arrival: &proxy.Arrival{Site: from.Site, Sites: it.Trace, Label: &label, Doubt: it.Doubt || doubt, Tail: it.Tail},
	}
	if it.WantsReply {
		ex.Arrival.WantsReply = it.ID
	}
	if it.HasQuery {
		ex.Target = "?" + it.Query
	}
	for _, f := range it.Fields {
		ex.Header.Add(f[0], f[1])
	}
	proxy.WithoutGateway(&ex.Header)
	proxy.SetOrigin(&ex.Header, from.Site, it.ID)
	if it.Open != nil {
		r, err := it.Open()
		if err != nil {
			return nil, err
		}
		ex.Body = r
	}
	return ex, nil
}

// resultOf is what another site is told.
func resultOf(a *proxy.Arrived) relay.Result {
	r := relay.Result{Reason: a.Reason, RetryAfter: a.RetryAfter}
	switch {
	case a.Behind:
		return relay.Result{Outcome: relay.Behind}
	case a.NoRoute:
		r.Outcome = relay.Denied
	case a.Before:
		r.Outcome = relay.Duplicate
	case a.Outcome == proxy.OutcomeStored, a.Outcome == proxy.OutcomeRepeated:
		r.Outcome = relay.Stored
	case slices.Contains([]proxy.Outcome{proxy.OutcomeBusy, proxy.OutcomeUnknown, proxy.OutcomeCancelled, proxy.OutcomeInternal}, a.Outcome):
		r.Outcome = relay.Later
	default:
		r.Outcome = relay.Refused
	}
	return r
}

// leadsToSite reports whether a backend is another site, which is shown the
// certificate of this one.
func leadsToSite(c *config.Backend) bool {
	_, ok := c.SiteNode()
	return ok
}

// A siteNode is a route of another site.
type siteNode struct {
	hub  *relay.Hub
	node config.NodeURL
}

var _ proxy.BatchNode = (*siteNode)(nil)

// inlineSite is the largest body that is handed to a link in memory where it goes alone.
const inlineSite = 1 << 20

// Send implements [proxy.Node]. Under its label a message can be sent again whatever
// has become of it, so that no try that failed may have been processed.
func (n *siteNode) Send(ctx context.Context, req *proxy.Request) (*proxy.Response, error) {
	sent := n.sendAll(ctx, []*proxy.Request{req}, inlineSite)
	return sent[0].Response, sent[0].Err
}

// SendAll implements [proxy.BatchNode].
func (n *siteNode) SendAll(ctx context.Context, reqs []*proxy.Request) []proxy.Sent {
	return n.sendAll(ctx, reqs, 1<<62)
}

// sendAll sends those that have no more octets than inline from memory.
func (n *siteNode) sendAll(ctx context.Context, reqs []*proxy.Request, inline int64) []proxy.Sent {
	sent := make([]proxy.Sent, len(reqs))
	var items []*relay.Item
	var places []int // of items, in sent
	for i, req := range reqs {
		if req.Follows && i > 0 && sent[i-1].Err != nil {
			sent[i].Err = proxy.ErrBehind
			continue
		}
		it, err := n.item(req, inline)
		if err != nil {
			sent[i].Err = err
			continue
		}
		it.Behind = req.Follows && i > 0
		items, places = append(items, it), append(places, i)
	}
	if len(items) == 0 {
		return sent
	}
	results, err := n.hub.SendAll(ctx, n.node.Site, items)
	for k, i := range places {
		sent[i] = n.outcome(ctx, &results[k], err)
		if req := reqs[i]; results[k].Outcome == "" && req.Follows && i > 0 {
			sent[i] = proxy.Sent{Err: proxy.ErrBehind} // the one before it tells of the link
		}
	}
	return sent
}

// outcome is a result as the proxy takes it; err is why there is none.
func (n *siteNode) outcome(ctx context.Context, r *relay.Result, err error) proxy.Sent {
	notSent := func(e proxy.SendError) proxy.Sent {
		e.Class = proxy.NotSent
		return proxy.Sent{Err: &e}
	}
	switch r.Outcome {
	case "":
		return notSent(proxy.SendError{Err: err, Source: !errors.Is(err, relay.ErrDown) && ctx.Err() == nil})
	case relay.Behind:
		return proxy.Sent{Err: proxy.ErrBehind}
	case relay.Stored, relay.Duplicate:
		return proxy.Sent{Response: &proxy.Response{Status: http.StatusAccepted, Later: true}}
	case relay.Refused:
		return notSent(proxy.SendError{Permanent: true, Err: errors.New("site " + n.node.Site + " refuses it: " + r.Reason)})
	case relay.Denied:
		return proxy.Sent{Response: n.answer(http.StatusForbidden, r)}
	}
	return proxy.Sent{Response: n.answer(http.StatusServiceUnavailable, r)}
}

func (n *siteNode) answer(status int, r *relay.Result) *proxy.Response {
	h := field.List{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}}
	if r.RetryAfter > 0 {
		h.Add("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	text := "site " + n.node.Site + ": " + r.Reason
	return &proxy.Response{Status: status, Header: h, Body: io.NopCloser(bytes.NewReader([]byte(text))), Length: int64(len(text)), Reason: text}
}

// item is a request as a link takes it. The error is a *proxy.SendError.
func (n *siteNode) item(req *proxy.Request, inline int64) (*relay.Item, error) {
	label, _ := req.Label.(*queue.Label)
	if label == nil {
		return nil, &proxy.SendError{Class: proxy.NotSent, Permanent: true, Err: errors.New("only stored messages go over a link")}
	}
	it := &relay.Item{
		Label: *label, ID: req.ID, Route: n.node.Route, Tail: req.Rest, Query: req.Query, HasQuery: req.HasQuery, Host: req.Host,
		SOAP: req.Version.String(), Action: req.Action, Accepted: req.Accepted, Doubt: req.Doubt, WantsReply: req.WantsReply, Trace: req.Sites, Size: req.Length,
	}
	h := req.Header.Clone()
	proxy.WithoutGateway(&h)
	proxy.SetOrigin(&h, n.hub.Site(), req.ID)
	for _, f := range h {
		it.Fields = append(it.Fields, [2]string{f.Name, f.Value})
	}
	slices.SortStableFunc(it.Fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	switch {
	case req.Data != nil && req.Length == int64(len(req.Data)):
		it.Body = req.Data
		return it, nil
	case req.Length > inline, req.Length < 0 && inline == inlineSite:
		it.Open = req.Body
		return it, nil
	}
	var err error
	if it.Body, err = readBody(req); err != nil {
		return nil, &proxy.SendError{Class: proxy.NotSent, Source: true, Err: err}
	}
	it.Size = int64(len(it.Body))
	return it, nil
}

// readBody reads a body that fits in memory.
func readBody(req *proxy.Request) ([]byte, error) {
	r, err := req.Body()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if req.Length < 0 {
		return io.ReadAll(r)
	}
	b := make([]byte, req.Length)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	var one [1]byte
	if _, err := r.Read(one[:]); err != io.EOF { // the checksum of a body comes with its end
		return nil, errors.Join(errors.New("a body is longer than it was said to be"), err)
	}
	return b, nil
}

// Probe implements [proxy.Node].
func (n *siteNode) Probe(ctx context.Context) error { return n.hub.Probe(ctx, n.node.Site) }

// Name implements [proxy.Node].
func (n *siteNode) Name() string { return n.node.String() }

// InFlight implements [proxy.Node].
func (n *siteNode) InFlight() int64 { return n.hub.InFlight(n.node.Site) }

// Close implements [proxy.Node]: the link is not its own.
func (n *siteNode) Close() {}
