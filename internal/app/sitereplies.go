package app

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"soapway/config"
	"soapway/proxy"
	"soapway/queue"
	"soapway/queue/relay"
)

// The answer to a message that another site has taken comes back as an item of that
// site. Here it becomes what the answer of a backend would have become: it is kept for
// the caller, sent to wsa:ReplyTo, or handed on to the site before.

// The fields of an item that is an answer, beside its Content-Type.
const (
	fieldFate   = "Gateway-Fate"   // dead, of a message that is a dead letter there
	fieldReason = "Gateway-Reason" // why, in one line
	fieldStatus = "Gateway-Status" // of the backend's answer
	fateDead    = "dead"
)

// returning reports whether a destination of the queue is a site that answers go back
// to, and which.
func returning(destination string) (site string, ok bool) {
	return strings.CutPrefix(destination, proxy.ReturnBackend(""))
}

// returnRoutes are the routes by which answers go back to the sites whose messages are
// taken here.
func returnRoutes(cfg *config.Config, known map[string]bool, classes map[string]uint8) (routes []queue.Route, dests []queue.Destination) {
	if cfg.Sites == nil {
		return nil, nil
	}
	for i := range cfg.Sites.Accept {
		a := &cfg.Sites.Accept[i]
		name := proxy.ReturnBackend(a.Name)
		if len(a.Routes) == 0 || known[name] {
			continue
		}
		known[name] = true
		r := queue.Route{Name: proxy.ReturnRoute(a.Name), Destination: name}
		overLink(&r)
		routes = append(routes, r)
		dests = append(dests, queue.Destination{Name: name, Link: a.Name, Class: classes[a.Name], Parallel: linkParallel})
	}
	return routes, dests
}

// idleReturn reports whether a route is one by which answers go back to a site, and has
// none: a hub has one for each site, and most are never used.
func idleReturn(s *queue.RouteStats) bool {
	_, back := returning(s.Destination)
	return back && s.Pending+s.Retrying+s.Dead+s.Orphaned == 0 && !s.Paused && s.Held == ""
}

// Awaits implements [relay.Home].
func (s *sites) Awaits(site string) bool {
	p := s.depot.present.Load()
	return p != nil && p.queue.AwaitedOf(site) > 0
}

// sendReturns makes one attempt to give answers back to a site. Under their labels it is
// safe to send them again.
func (s *sites) sendReturns(ctx context.Context, site string, ds []*queue.Delivery) []queue.Outcome {
	out := make([]queue.Outcome, len(ds))
	var items []*relay.Item
	var places []int // of items, in out
	for i, d := range ds {
		it, err := returnItem(d)
		if err != nil {
			out[i] = queue.Outcome{Verdict: queue.Dead, Reason: err.Error()}
			continue
		}
		items, places = append(items, it), append(places, i)
	}
	if len(items) == 0 {
		return out
	}
	results, err := s.hub.SendAll(ctx, site, items)
	for k, i := range places {
		out[i] = returnOutcome(ctx, site, &results[k], err)
	}
	return out
}

// returnItem is an answer as a link takes it.
func returnItem(d *queue.Delivery) (*relay.Item, error) {
	a, err := proxy.ReadReturn(d.Meta)
	if err != nil {
		return nil, err
	}
	if d.Label == nil {
		return nil, errors.New("answers go back over links only")
	}
	it := &relay.Item{
		Label: *d.Label, ID: a.ID, Reply: true, SOAP: a.SOAP, Accepted: d.Accepted, Doubt: a.Doubt || d.PossibleDuplicate, Trace: a.Sites,
		Body: d.Body, Size: d.Size(), Fields: fieldsOfAnswer(a),
	}
	if d.Blob != nil {
		it.Body, it.Open = nil, d.Blob.Open
	}
	return it, nil
}

// returnOutcome is a result as the queue takes it; err is why there is none.
func returnOutcome(ctx context.Context, site string, r *relay.Result, err error) queue.Outcome {
	why := "site " + site + ": " + r.Reason
	switch r.Outcome {
	case "":
		if ctx.Err() != nil {
			return queue.Outcome{Verdict: queue.Aborted}
		}
		return queue.Outcome{Verdict: queue.Retry, Unhealthy: errors.Is(err, relay.ErrDown), Reason: err.Error()}
	case relay.Stored, relay.Duplicate:
		return queue.Outcome{}
	case relay.Refused:
		return queue.Outcome{Verdict: queue.Dead, Reason: "site " + site + " refuses the answer: " + r.Reason}
	case relay.Denied:
		return queue.Outcome{Verdict: queue.Retry, Denied: true, Reason: why}
	}
	return queue.Outcome{Verdict: queue.Retry, Unhealthy: r.Outcome != relay.Early, Reason: why, RetryAfter: time.Duration(r.RetryAfter) * time.Second}
}

func fieldsOfAnswer(a *proxy.FarAnswer) [][2]string {
	fields := [][2]string{{fieldStatus, strconv.Itoa(a.Status)}}
	if a.Type != "" {
		fields = append(fields, [2]string{"Content-Type", a.Type})
	}
	if a.Dead {
		fields = append(fields, [2]string{fieldFate, fateDead}, [2]string{fieldReason, a.Reason})
	}
	return fields
}

// answerOf reads an item that is an answer.
func answerOf(it *relay.Item) *proxy.FarAnswer {
	a := &proxy.FarAnswer{ID: it.ID, SOAP: it.SOAP, Sites: it.Trace, Doubt: it.Doubt}
	for _, f := range it.Fields {
		switch f[0] {
		case "Content-Type":
			a.Type = f[1]
		case fieldFate:
			a.Dead = f[1] == fateDead
		case fieldReason:
			a.Reason = f[1]
		case fieldStatus:
			a.Status, _ = strconv.Atoi(f[1]) // 0 is none
		}
	}
	return a
}

// takeReply takes the answer to a message that from has taken. One to a message that
// from does not have is refused: nobody answers for another, or twice.
func (s *sites) takeReply(ctx context.Context, stock *stock, from relay.Peer, it *relay.Item, before bool) relay.Result {
	far := answerOf(it)
	if before {
		if err := stock.queue.Repeated(ctx, it.ID, from.Site, far.Dead, far.Reason); err != nil {
			return relay.Result{Outcome: relay.Later, Reason: err.Error()}
		}
		return relay.Result{Outcome: relay.Duplicate}
	}
	a, err := stock.queue.Awaited(ctx, it.ID, from.Site)
	if err != nil {
		if errors.Is(err, queue.ErrNotAwaited) && it.Doubt {
			return s.onceMore(ctx, stock, from, it)
		}
		return s.answered(from, it, err)
	}
	body, err := bodyOf(it)
	if err != nil {
		return relay.Result{Outcome: relay.Later, Reason: err.Error()}
	}
	if body == nil && it.Size > 0 {
		return relay.Result{Outcome: relay.Refused, Reason: "the answer is larger than can be kept"}
	}
	g := s.door.enter()
	defer g.leave()
	r, err := s.handler.Answer(ctx, &proxy.Stored{ID: a.ID, Route: a.Route, Accepted: a.Accepted, Meta: a.Meta}, far, body)
	if err != nil {
		s.log.Error("the answer of another site cannot be taken", "site", from.Site, "id", it.ID, "route", a.Route, "err", err)
		return relay.Result{Outcome: relay.Refused, Reason: err.Error()}
	}
	own := &queue.Answer{Dead: far.Dead, Reason: r.Reason, Keep: keptAs(r.Kept), Next: nextAs(r.Next)}
	label := it.Label
	return s.answered(from, it, stock.queue.Answer(ctx, &label, it.ID, from.Site, own))
}

// onceMore takes a second answer to a message that was delivered twice, or may have
// been answered before: the first one counts.
func (s *sites) onceMore(ctx context.Context, stock *stock, from relay.Peer, it *relay.Item) relay.Result {
	s.log.Warn("a site answers once more; the first answer counts", "site", from.Site, "subject", from.Subject, "client", from.Address, "id", it.ID)
	label := it.Label
	if err := stock.queue.Consume(ctx, &label); err != nil {
		return relay.Result{Outcome: relay.Later, Reason: err.Error()}
	}
	return relay.Result{Outcome: relay.Duplicate}
}

// answered is what another site is told of its answer.
func (s *sites) answered(from relay.Peer, it *relay.Item, err error) relay.Result {
	switch {
	case err == nil:
		return relay.Result{Outcome: relay.Stored}
	case errors.Is(err, queue.ErrSeen):
		return relay.Result{Outcome: relay.Duplicate}
	case errors.Is(err, queue.ErrBusy):
		return relay.Result{Outcome: relay.Early, Reason: "the message is not known to have been taken yet", RetryAfter: 1}
	case errors.Is(err, queue.ErrNotAwaited):
		s.log.Error("a site answers a message that it does not have, or has answered before", "site", from.Site, "subject", from.Subject, "client", from.Address, "id", it.ID)
		return relay.Result{Outcome: relay.Refused, Reason: "no message of this id waits for an answer of site " + from.Site}
	case errors.Is(err, queue.ErrTooLarge):
		return relay.Result{Outcome: relay.Refused, Reason: "the answer is larger than can be kept"}
	}
	return relay.Result{Outcome: relay.Later, Reason: err.Error(), RetryAfter: 2}
}

// bodyOf is the body of an item in memory, nil if it is larger than an answer may be.
func bodyOf(it *relay.Item) ([]byte, error) {
	if it.Open == nil {
		return it.Body, nil
	}
	if it.Size > proxy.MaxKept {
		return nil, nil
	}
	r, err := it.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body := make([]byte, it.Size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	_, err = r.Read(make([]byte, 1)) // the checksum comes with the end
	if err != io.EOF {
		return nil, errors.Join(errors.New("an answer is longer than it was said to be"), err)
	}
	return body, nil
}

func keptAs(k *proxy.KeptReply) *queue.Reply {
	if k == nil {
		return nil
	}
	return &queue.Reply{Meta: k.Meta, Body: k.Body, Until: k.Until}
}

func nextAs(m *proxy.Stored) *queue.Message {
	if m == nil {
		return nil
	}
	return &queue.Message{Route: m.Route, Destination: m.Backend, Operation: m.Operation, Meta: m.Meta, Body: m.Body}
}

// LastWord implements [queue.Mourner]: a site that waits for an answer is told that
// none will come.
func (p *depot) LastWord(m *queue.Message, reason, text string) *queue.Message {
	return nextAs(proxy.LastWord(m.Meta, reason+": "+text))
}

var _ queue.Mourner = (*depot)(nil)

// repeatedText is why a message has no answer of its own that the far route takes for
// a repeat.
const repeatedText = "repeat: the route there takes it for a repeat of another message, which gets the answer"

// noAnswers tells the sites that messages have come from, and that wait for answers, that
// those which are repeats have none of their own. It comes before the labels of the
// messages are noted, so that no crash loses it.
func (s *stock) noAnswers(ctx context.Context, all []*queue.Message, receipts []proxy.Receipt) error {
	var last []*queue.Message
	for i, m := range all {
		if m.Came == nil || receipts[i].Repeat == "" {
			continue
		}
		if next := nextAs(proxy.LastWord(m.Meta, repeatedText)); next != nil {
			next.ID, next.Accepted, next.After = m.ID, m.Accepted, queue.FateDead
			last = append(last, next)
		}
	}
	if len(last) == 0 {
		return nil
	}
	for _, r := range s.queue.PutAll(ctx, last) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
