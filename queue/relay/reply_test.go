package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/queue"
)

// ask is put for a message whose answer is wanted.
func (p *place) ask(t *testing.T, body string) string {
	t.Helper()
	id := strings.ReplaceAll(body, " ", "-")
	m := &queue.Message{ID: id, Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte(body), Meta: []byte(wants)}
	if err := p.queue.Put(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return id
}

// What stands in the Meta of the messages of these tests, before the sites that they
// have passed: that an answer is wanted, and of a message that has come, by whom and
// for which id; of an answer, which id it is for.
const (
	wants    = "wants"
	goesBack = "back"
	isAnswer = "answers"
)

// asking is a Deliverer and a Home around a place, for messages whose answers are
// wanted: "echo" of the body of each.
type asking struct{ *place }

func (p asking) Deliver(ctx context.Context, d *queue.Delivery) queue.Outcome {
	what := strings.Fields(string(d.Meta))
	if len(what) > 0 && what[0] == isAnswer {
		it := &Item{Label: *d.Label, ID: what[1], Reply: true, SOAP: "1.1", Accepted: d.Accepted, Doubt: d.PossibleDuplicate, Trace: what[2:], Body: d.Body, Size: d.Size()}
		if d.Blob != nil {
			it.Open = d.Blob.Open
		}
		return p.outcome(p.now().Send(ctx, strings.TrimPrefix(d.Destination, "to-"), it))
	}
	if p.next == "" {
		body, err := wholeOf(d)
		if err != nil {
			return queue.Outcome{Verdict: queue.Retry, Reason: err.Error()}
		}
		p.mu.Lock()
		p.got = append(p.got, arrived{string(body), d.Lane, d.PossibleDuplicate, time.Now()})
		held := p.hold
		p.mu.Unlock()
		switch {
		case len(what) == 0 || what[0] != goesBack:
			return queue.Outcome{}
		case held:
			<-ctx.Done()
			return queue.Outcome{Verdict: queue.Aborted}
		}
		text := "echo " + string(body)
		if strings.HasSuffix(text, "99") {
			text += strings.Repeat(" and more", 200_000) // beyond what is held in memory
		}
		return queue.Outcome{Next: answerTo(what[1], what[2], text, nil)}
	}
	it := &Item{Label: *d.Label, ID: d.ID, Route: "orders", SOAP: "1.1", Accepted: d.Accepted, Doubt: d.PossibleDuplicate, Fields: [][2]string{{"Lane", d.Lane}}, Body: d.Body, Size: d.Size()}
	if d.Blob != nil {
		it.Open = d.Blob.Open
	}
	meta := string(d.Meta)
	if it.WantsReply = len(what) > 0; it.WantsReply && what[0] == goesBack {
		it.Trace = what[3:]
	}
	o := p.outcome(p.now().Send(ctx, p.next, it))
	if o.Verdict == queue.Delivered && it.WantsReply {
		o.Awaits = &queue.Awaited{Site: p.next, Meta: []byte(meta)}
	}
	return o
}

// answerTo is an answer on its way to a site.
func answerTo(site, id, body string, passed []string) *queue.Message {
	return &queue.Message{Route: "replies-" + site, Destination: "to-" + site, Meta: []byte(strings.Join(append([]string{isAnswer, id}, passed...), " ")), Body: []byte(body)}
}

func wholeOf(d *queue.Delivery) ([]byte, error) {
	if d.Blob == nil {
		return d.Body, nil
	}
	r, err := d.Blob.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (asking) outcome(r Result, err error) queue.Outcome {
	switch {
	case err != nil:
		return queue.Outcome{Verdict: queue.Retry, Unhealthy: true, Reason: err.Error()}
	case r.Outcome == Stored || r.Outcome == Duplicate:
		return queue.Outcome{}
	case r.Outcome == Refused:
		return queue.Outcome{Verdict: queue.Dead, Reason: r.Reason}
	}
	return queue.Outcome{Verdict: queue.Retry, Unhealthy: r.Outcome != Early, Status: 503, Reason: r.Reason}
}

func (p asking) Probe(ctx context.Context, destination string) error {
	if site, ok := strings.CutPrefix(destination, "to-"); ok {
		return p.now().Probe(ctx, site)
	}
	return p.place.Probe(ctx, destination)
}

func (p asking) Heard(site string) {
	p.index().Tell("depot", true, "")
	p.index().Tell("to-"+site, true, "")
}

// DeliverAll implements queue.BatchDeliverer.
func (p asking) DeliverAll(ctx context.Context, ds []*queue.Delivery) []queue.Outcome {
	out := make([]queue.Outcome, len(ds))
	var wg sync.WaitGroup
	for i, d := range ds {
		wg.Go(func() { out[i] = p.Deliver(ctx, d) })
	}
	wg.Wait()
	return out
}

// Take takes questions and answers as the product does, without SOAP.
func (p asking) Take(ctx context.Context, from Peer, items []*Item) []Result {
	results := make([]Result, len(items))
	var wg sync.WaitGroup
	for i, it := range items {
		wg.Go(func() { results[i] = p.take(ctx, from, it) })
	}
	wg.Wait()
	return results
}

func (p asking) take(ctx context.Context, from Peer, it *Item) Result {
	label, q := it.Label, p.index() // which a restart replaces
	body := it.Body
	if it.Open != nil {
		r, err := it.Open()
		if err != nil {
			return Result{Outcome: Later, Reason: err.Error()}
		}
		if body, err = io.ReadAll(r); err != nil {
			return Result{Outcome: Later, Reason: err.Error()}
		}
	}
	var err error
	if it.Reply {
		var a *queue.Awaited
		before := false
		if before, _, err = q.Seen(ctx, &label); err == nil && before {
			if err = q.Repeated(ctx, it.ID, from.Site, false, ""); err == nil {
				err = queue.ErrSeen
			}
		}
		if err == nil {
			a, err = q.Awaited(ctx, it.ID, from.Site)
		}
		if err == nil {
			answer := &queue.Answer{Keep: &queue.Reply{Body: bytes.Clone(body)}}
			if what := strings.Fields(string(a.Meta)); what[0] == goesBack {
				answer = &queue.Answer{Next: answerTo(what[1], what[2], string(body), it.Trace)}
			}
			err = q.Answer(ctx, &label, it.ID, from.Site, answer)
		}
	} else {
		m := &queue.Message{ID: p.name + "-" + it.ID, Route: "orders", Destination: "depot", Accepted: time.Now(), Body: bytes.Clone(body), Came: &label}
		if it.WantsReply {
			m.Meta, m.Forwards = []byte(strings.Join(append([]string{goesBack, from.Site, it.ID}, it.Trace...), " ")), true
		}
		err = q.Put(ctx, m)
	}
	switch {
	case err == nil:
		return Result{Outcome: Stored}
	case errors.Is(err, queue.ErrBusy):
		return Result{Outcome: Early}
	case errors.Is(err, queue.ErrNotAwaited) && it.Doubt:
		if err := q.Consume(ctx, &label); err != nil {
			return Result{Outcome: Later, Reason: err.Error()}
		}
		return Result{Outcome: Duplicate}
	case errors.Is(err, queue.ErrSeen):
		return Result{Outcome: Duplicate}
	case errors.Is(err, queue.ErrNotAwaited):
		return Result{Outcome: Refused, Reason: err.Error()}
	}
	return Result{Outcome: Later, Reason: err.Error(), RetryAfter: 1}
}

// answered waits until a place has the answers to all of these, and compares them.
func (p *place) answered(t *testing.T, ids []string, bodies map[string]string, most time.Duration) {
	t.Helper()
	missing := slices.Clone(ids)
	for end := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
		missing = slices.DeleteFunc(missing, func(id string) bool {
			r, err := p.store.Reply(id)
			if err == nil && strings.TrimRight(strings.ReplaceAll(string(r.Body), " and more", ""), " ") != "echo "+bodies[id] {
				t.Errorf("the answer to %s is %.60q", id, r.Body)
			}
			return err == nil
		})
		if len(missing) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("site %s: %d of %d answers are missing after %v", p.name, len(missing), len(ids), most)
		}
	}
}

// questions puts messages whose answers are wanted.
func (p *place) questions(t *testing.T, from, n int) (ids []string, bodies map[string]string) {
	t.Helper()
	bodies = map[string]string{}
	for i := from; i < from+n; i++ {
		body := fmt.Sprintf("q %d", i)
		id := p.ask(t, body)
		ids, bodies[id] = append(ids, id), body
	}
	return ids, bodies
}

// TestAnswersComeBack: over links that are pushed over, fetched over and through a
// chain, over a line that loses requests and answers, with kills of every side, each
// answer comes back once, and nothing is awaited for ever.
func TestAnswersComeBack(t *testing.T) {
	links := func(to string, pull bool) []Link {
		return []Link{{Name: to, URL: "https://" + to, Pull: pull, Routes: []string{"orders"}}}
	}
	type site struct {
		*place
		opt     Options
		links   []Link
		accepts []string
	}
	peer := func(name string) Peer { return Peer{Site: name, Subject: "CN=" + name, Routes: []string{"orders"}} }
	for _, c := range []struct {
		name string
		make func() []*site // from the one that asks to the one that answers
	}{
		{"answers are fetched", func() []*site {
			hq := &site{place: &place{name: "hq"}, accepts: []string{"plant"}}
			w := &wire{to: hq.place, peer: peer("plant"), trip: 5 * time.Millisecond}
			plant := &site{place: &place{name: "plant", next: "hq"}, opt: over(map[string]*wire{"hq": w}), links: links("hq", false)}
			return []*site{plant, hq}
		}},
		{"both have links", func() []*site {
			plant, hq := &place{name: "plant", next: "hq"}, &place{name: "hq"}
			there := &wire{to: hq, peer: peer("plant"), trip: 5 * time.Millisecond}
			back := &wire{to: plant, peer: peer("hq"), trip: 5 * time.Millisecond}
			return []*site{
				{place: plant, opt: over(map[string]*wire{"hq": there}), links: links("hq", false), accepts: []string{"hq"}},
				{place: hq, opt: over(map[string]*wire{"plant": back}), links: links("plant", false), accepts: []string{"plant"}},
			}
		}},
		{"questions are fetched", func() []*site {
			hq := &site{place: &place{name: "hq", next: "plant"}, accepts: []string{"plant"}}
			w := &wire{to: hq.place, peer: peer("plant"), trip: 5 * time.Millisecond}
			plant := &site{place: &place{name: "plant"}, opt: over(map[string]*wire{"hq": w}), links: links("hq", true)}
			return []*site{hq, plant}
		}},
		{"a chain", func() []*site {
			hq := &site{place: &place{name: "hq"}, accepts: []string{"region"}}
			region := &site{place: &place{name: "region", next: "hq"}, accepts: []string{"plant"}, links: links("hq", false)}
			region.opt = over(map[string]*wire{"hq": {to: hq.place, peer: peer("region"), trip: 5 * time.Millisecond}})
			plant := &site{place: &place{name: "plant", next: "region"}, links: links("region", false)}
			plant.opt = over(map[string]*wire{"region": {to: region.place, peer: peer("plant"), trip: 5 * time.Millisecond}})
			return []*site{plant, region, hq}
		}},
	} {
		for _, hard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/hard=%t", c.name, hard), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sites := c.make()
					for _, s := range sites {
						s.asks = true
						s.store = queue.NewMemory()
					}
					for _, s := range slices.Backward(sites) {
						s.open(t, s.opt, s.links, s.accepts)
					}
					first, last := sites[0], sites[len(sites)-1]
					ids, bodies := first.questions(t, 0, 200)
					first.answered(t, ids, bodies, time.Minute)
					if !hard {
						if got := last.count(); got != 200 {
							t.Errorf("%d deliveries, want 200", got)
						}
					}
					const n = 300
					for i, s := range sites {
						for _, l := range s.links {
							if w, ok := s.opt.Transport(l).(*wire); ok && hard {
								w.mu.Lock()
								w.lossy = rand.New(rand.NewPCG(11, uint64(i)))
								w.mu.Unlock()
							}
						}
					}
					for round := range 6 {
						more, texts := first.questions(t, 200+round*n/6, n/6)
						ids = append(ids, more...)
						maps.Copy(bodies, texts)
						time.Sleep(time.Duration(round*700) * time.Millisecond)
						if hard {
							s := sites[round%len(sites)]
							s.restart(t, s.opt, s.links, s.accepts)
						}
					}
					first.answered(t, ids, bodies, 2*time.Hour)
					time.Sleep(10 * time.Minute)
					for i, s := range sites {
						waiting, awaited := s.queue.Waiting(), 0
						for _, other := range sites {
							awaited += s.queue.AwaitedOf(other.name)
						}
						if f := s.findings(FoundLost); len(f) > 0 {
							t.Errorf("site %d: something counts as lost: %+v", i, f)
						}
						if waiting != 0 || awaited != 0 {
							t.Errorf("site %d: %d messages wait and %d answers are awaited in the end", i, waiting, awaited)
						}
						err := s.store.ScanDead(t.Context(), func(d *queue.DeadLetter, _ int64) error {
							t.Errorf("site %d has the dead letter %s: %s", i, d.ID, d.Text)
							return nil
						})
						if err != nil {
							t.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// TestForgedAnswers: a site answers what it has been asked, once, and nothing else.
func TestForgedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant := &place{name: "plant", next: "hq", store: queue.NewMemory(), asks: true}
		hq := &place{name: "hq", store: queue.NewMemory(), asks: true}
		hq.open(t, Options{}, nil, []string{"plant"})
		w := &wire{to: hq, peer: Peer{Site: "plant", Routes: []string{"orders"}}, trip: 5 * time.Millisecond}
		plant.open(t, over(map[string]*wire{"hq": w}), []Link{{Name: "hq", URL: "https://hq"}}, []string{"hq", "branch"})
		number := uint64(100)
		answer := func(site, id, body string, doubt bool) string {
			t.Helper()
			number++
			it := itemOf(number, site)
			it.ID, it.Route, it.Reply, it.Doubt, it.Body, it.Size = id, "", true, doubt, []byte(body), int64(len(body))
			r := &Request{Method: "POST", Path: pathBatch, Header: http.Header{"Content-Type": {typeBatch}}, Body: bytes.NewReader(batchOf(head{site, "forger"}, it))}
			a := plant.hub.Serve(t.Context(), Peer{Site: site}, r)
			var b bytes.Buffer
			_, _ = b.ReadFrom(a.Body)
			return b.String()
		}
		want := func(when, got string, o Outcome) {
			t.Helper()
			if !strings.Contains(got, `"`+string(o)+`"`) {
				t.Errorf("%s: answered %s, want %s", when, got, o)
			}
		}
		w.set(true)
		waits := plant.ask(t, "q 1")
		time.Sleep(time.Minute)
		want("before it was taken", answer("hq", waits, "forged", false), Early)
		w.set(false)
		hq.await(t, 1, time.Minute)
		plant.answered(t, []string{waits}, map[string]string{waits: "q 1"}, time.Minute)
		want("once more", answer("hq", waits, "forged", false), Refused)
		want("once more, in doubt", answer("hq", waits, "forged", true), Duplicate)
		want("of no message", answer("hq", "q-7", "forged", false), Refused)

		// One that hq has, and has not answered.
		hq.mu.Lock()
		hq.hold = true
		hq.mu.Unlock()
		open := plant.ask(t, "q 2")
		time.Sleep(time.Minute)
		want("by another site", answer("branch", open, "forged", false), Refused)
		if _, err := plant.store.Reply(open); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("Reply: got %v, want none", err)
		}
		want("by hq", answer("hq", open, "echo q 2", false), Stored)
		plant.answered(t, []string{open}, map[string]string{open: "q 2"}, time.Minute)
	})
}

// TestNobodyAsks: over a link without questions nothing is fetched.
func TestNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, w := pair(t)
		fill(t, plant, 0, 10, 2)
		hq.await(t, 10, time.Minute)
		time.Sleep(time.Hour)
		if n := w.count(pathPull); n != 0 {
			t.Errorf("%d fetches, want none", n)
		}
	})
}
