package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// tokenField names a batch that is fetched, so that its results can be told from
// those of another.
const tokenField = "Gateway-Batch"

// fetched is a batch that the other site has fetched and not answered yet.
type fetched struct {
	token string
	batch []*pending
	items []*Item // of batch
}

// pullBody is what a site sends that fetches: the results of its last batch.
type pullBody struct {
	Site    string   `json:"site"`
	Store   string   `json:"store"`
	Token   string   `json:"token,omitempty"`
	Results []Result `json:"results,omitempty"`
}

// polled reports whether the other site has fetched lately. mu is held.
func (l *line) polled(now time.Time) bool {
	return !l.stats.last.IsZero() && now.Sub(l.stats.last) < l.hub.opt.Quiet
}

func (l *line) silent() error {
	return fmt.Errorf("%w: site %s has not fetched for %v", ErrDown, l.cfg.Name, l.hub.opt.Quiet)
}

// probe asks whether the far side can be reached.
func (l *line) probe(ctx context.Context) error {
	l.mu.Lock()
	if l.client == nil {
		defer l.mu.Unlock()
		if !l.polled(time.Now()) {
			return l.silent()
		}
		return nil
	}
	l.greeted = false
	l.mu.Unlock()
	if err := l.greet(ctx); err != nil {
		l.mu.Lock()
		l.failed(err)
		l.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrDown, err)
	}
	return nil
}

// greet exchanges marks, unless that was done since the link was down last.
func (l *line) greet(ctx context.Context) error {
	l.mu.Lock()
	done := l.greeted
	had := maps.Clone(l.confirmed) // other batches may be answered while this one asks
	l.mu.Unlock()
	if done {
		return nil
	}
	home := l.hub.opt.Home
	g := greeting{Site: l.hub.Site(), Store: home.Store()}
	for _, m := range home.Marks(l.cfg.Name) {
		g.Marks = append(g.Marks, markBody{Epoch: m.Epoch, Link: m.Link, Class: m.Class, N: m.Given})
	}
	b, err := json.Marshal(g)
	if err != nil {
		return err
	}
	resp, err := l.post(ctx, pathHello, typeJSON, "", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	var far greeting
	if err := l.read(ctx, resp, &far); err != nil {
		return err
	}
	if far.Site != l.cfg.Name {
		return fmt.Errorf("relay: %s is site %.60q and not %s", l.cfg.URL, far.Site, l.cfg.Name)
	}
	given := map[markBody]uint64{} // by now: some may have been given, and sent, since
	for _, m := range home.Marks(l.cfg.Name) {
		given[markBody{Epoch: m.Epoch, Link: m.Link, Class: m.Class}] = m.Given
	}
	for _, m := range far.Marks {
		if n, ok := given[markBody{Epoch: m.Epoch, Link: m.Link, Class: m.Class}]; ok && m.N > n {
			l.hub.opt.Log.Error("the far side has numbers that this store has never given: is a copy of this machine running?", "site", l.cfg.Name, "given", n, "there", m.N)
			l.hub.found(Finding{Kind: FoundCopy, Peer: l.peer(), Reason: fmt.Sprintf("number %d was given last, and number %d is there", n, m.N)})
			home.NewEpoch()
			break
		}
	}
	l.compare(&far, had)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stats.up {
		l.hub.opt.Log.Info("link is up", "site", l.cfg.Name, "store", far.Store, "streams", len(far.Marks))
	}
	l.greeted, l.run = true, far.Run
	l.stats.worked(time.Now())
	return nil
}

// servePull gives a site that fetches what waits for it.
func (h *Hub) servePull(ctx context.Context, peer Peer, r *Request) *Response {
	var p pullBody
	b, err := io.ReadAll(io.LimitReader(r.Body, answerMost))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the request cannot be read")
	}
	if _, resp := h.origin(peer, head{p.Site, p.Store}); resp != nil {
		return resp
	}
	l := h.line(peer.Site)
	if l == nil {
		return refuse(http.StatusForbidden, "site "+peer.Site+" is not accepted")
	}
	if l.client != nil {
		return refuse(http.StatusConflict, "there is a link to site "+peer.Site+", it need not fetch")
	}
	l.answered(p.Token, p.Results)
	h.opt.Home.Heard(peer.Site)
	batch, token := l.await(ctx)
	if batch == nil {
		return &Response{Status: http.StatusNoContent, Header: http.Header{}}
	}
	return l.give(batch, token)
}

// answered takes the results of the batch that was fetched last. Without them its
// items wait again, before all others.
func (l *line) answered(token string, results []Result) {
	l.mu.Lock()
	now := time.Now()
	l.stats.worked(now)
	l.watch()
	f := l.fetched
	l.fetched = nil
	good := f != nil && f.token == token && check(f.items, results) == nil
	if f != nil {
		l.stats.underway -= len(f.items)
	}
	if f != nil && !good {
		l.waiting = append(f.batch, l.waiting...)
		for _, p := range f.batch {
			l.items += len(p.items)
			l.octets += p.octets
		}
	}
	for _, r := range results {
		if good {
			l.stats.sent(r.Outcome)
		}
	}
	l.mu.Unlock()
	if good {
		answers(f.batch, results, nil)
	}
}

// watch fails what waits once the other site has not fetched for too long. mu is held.
func (l *line) watch() {
	if l.closed != nil {
		return
	}
	if l.quiet != nil {
		l.quiet.Reset(l.hub.opt.Quiet)
		return
	}
	l.quiet = time.AfterFunc(l.hub.opt.Quiet, func() {
		l.mu.Lock()
		waiting := l.waiting
		l.waiting, l.items, l.octets = nil, 0, 0
		if l.fetched != nil {
			waiting = append(waiting, l.fetched.batch...)
			l.stats.underway -= len(l.fetched.items)
			l.fetched = nil
		}
		err := l.silent()
		if l.closed == nil {
			l.failed(err)
		}
		l.mu.Unlock()
		for _, p := range waiting {
			p.answer(nil, err)
		}
	})
}

// await waits until something is there to be fetched, and takes it. A later fetch
// ends an earlier one, whose connection may be dead.
func (l *line) await(ctx context.Context) ([]*pending, string) {
	ctx, cancel := context.WithTimeout(ctx, l.hub.opt.Wait)
	defer cancel()
	l.mu.Lock()
	l.fetch++
	mine := l.fetch
	l.mu.Unlock()
	select { // the one before is to look
	case l.wake <- struct{}{}:
	default:
	}
	for {
		l.mu.Lock()
		if l.fetch != mine || l.closed != nil {
			l.mu.Unlock()
			return nil, ""
		}
		if len(l.waiting) > 0 {
			batch := l.take()
			items := itemsOf(batch)
			l.fetched = &fetched{rand.Text(), batch, items}
			l.stats.underway += len(items)
			token := l.fetched.token
			l.mu.Unlock()
			return batch, token
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-ctx.Done():
			return nil, ""
		case <-l.ctx.Done():
			return nil, ""
		}
	}
}

// give is the answer that has a batch.
func (l *line) give(batch []*pending, token string) *Response {
	items := itemsOf(batch)
	coding := "zstd"
	if items[0].Open != nil {
		coding = "" // what has begun cannot be begun again, should it be too dense
	}
	body, coding, _ := l.encode(head{l.hub.Site(), l.hub.opt.Home.Store()}, items, coding)
	length := int64(-1)
	if m, ok := body.(memory); ok {
		length = int64(m.Len())
	}
	if len(batch) == 1 {
		l.mu.Lock()
		batch[0].cancel = func(err error) {
			_ = body.Close() // nobody reads the item any more when it returns
			l.abandon(token, err)
		}
		l.mu.Unlock()
	}
	h := http.Header{"Content-Type": {typeBatch}, tokenField: {token}}
	if coding != "" {
		h["Content-Encoding"] = []string{coding}
	}
	return &Response{Status: http.StatusOK, Length: length, Header: h, Body: &given{ReadCloser: body, line: l}}
}

// abandon ends the wait for the results of a batch that was fetched.
func (l *line) abandon(token string, err error) {
	l.mu.Lock()
	f := l.fetched
	if f == nil || f.token != token {
		l.mu.Unlock()
		return
	}
	l.fetched = nil
	l.stats.underway -= len(f.items)
	l.mu.Unlock()
	for _, p := range f.batch {
		p.answer(nil, err)
	}
}

// given is a batch on its way to the site that fetches it; while it moves the site
// is there.
type given struct {
	io.ReadCloser
	line *line
}

func (g *given) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	g.line.mu.Lock()
	defer g.line.mu.Unlock()
	g.line.stats.out += uint64(n)
	g.line.stats.last = time.Now()
	g.line.watch()
	return n, err
}

// fetchAll fetches what the other site has for this one, until the line ends.
func (l *line) fetchAll() {
	var last pullBody
	for l.ctx.Err() == nil {
		if !l.fetches(&last) {
			l.rest(l.hub.opt.Retry)
			continue
		}
		err := l.fetchOne(&last)
		if err == nil || l.ctx.Err() != nil {
			continue
		}
		pause := l.hub.opt.Retry
		if l.needless(err) {
			pause = l.hub.opt.Quiet
		} else {
			l.mu.Lock()
			l.failed(err)
			l.mu.Unlock()
		}
		l.rest(pause)
	}
}

// fetchOne tells the results of the last batch, fetches one and takes it.
func (l *line) fetchOne(last *pullBody) error {
	home := l.hub.opt.Home
	if last.Site, last.Store = l.hub.Site(), home.Store(); last.Store == "" {
		return errors.New("relay: there is no store to fetch for")
	}
	b, err := json.Marshal(last)
	if err != nil {
		return err
	}
	resp, err := l.post(l.ctx, pathPull, typeJSON, "", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	l.mu.Lock()
	l.stats.worked(time.Now())
	l.mu.Unlock()
	switch resp.StatusCode {
	case http.StatusNoContent:
		*last = pullBody{}
		return nil
	case http.StatusOK:
	default:
		var none struct{}
		return l.read(l.ctx, resp, &none)
	}
	*last = pullBody{}
	body, err := decoded(&slow{l.ctx, resp.Body, l.rate, func(n int) { l.count(0, n) }}, resp.Header.Get("Content-Encoding"))
	if err != nil {
		return err
	}
	defer body.Close()
	peer := Peer{Site: l.cfg.Name, Subject: l.cfg.URL}
	if l.cfg.Pull {
		peer.Routes = l.cfg.Routes
	}
	results, refused := l.hub.takeBatch(l.ctx, peer, body)
	if refused != nil {
		return fmt.Errorf("relay: what site %s has given cannot be taken (%d)", l.cfg.Name, refused.Status)
	}
	last.Token, last.Results = resp.Header.Get(tokenField), results
	return nil
}
