package faultlab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// kind of a violation.
type kind string

// The first four are the zeros of the last line.
const (
	isLost      kind = "lost"
	isChanged   kind = "changed"
	isReordered kind = "reordered"
	isUnmarked  kind = "unmarked"

	isLeaked   kind = "refused_but_delivered"
	isTwice    kind = "stored_twice"   // though it was sent again under the same id
	isMisnamed kind = "wrong_id"       // another Gateway-Message-Id than the caller's
	isRepeated kind = "repeated"       // delivered again though nothing was broken
	isStuck    kind = "left_waiting"   // in the end, with everything healed
	isUnsaid   kind = "dead_unsaid"    // a dead letter without a reason
	isMourned  kind = "taken_yet_dead" // taken by the backend, and a dead letter without a doubt
	isAgain    kind = "given_twice"    // on a route that delivers at most once
	isAnswer   kind = "wrong_answer"   // to what was sent again
)

// A violation is one broken promise, with everything that happened to the message.
type violation struct {
	Kind     kind
	Key      string
	Text     string
	Timeline []string
}

func (v violation) String() string {
	return fmt.Sprintf("%s: message %s: %s\n\t%s", v.Kind, v.Key, v.Text, strings.Join(v.Timeline, "\n\t"))
}

// A report is what the checker found.
type report struct {
	Accepted, Refused, Unknown int
	Answered, Failed           int // by a backend, on routes that store only what gets no answer
	Delivered                  int // messages taken by a backend
	Dead                       int
	Repeats                    int // requests for a message that had been taken or lost
	Violations                 []violation
}

func (r *report) count(k kind) (n int) {
	for _, v := range r.Violations {
		if v.Kind == k {
			n++
		}
	}
	return n
}

// add sums up the reports of several runs.
func (r *report) add(o report) {
	r.Accepted += o.Accepted
	r.Refused += o.Refused
	r.Unknown += o.Unknown
	r.Answered += o.Answered
	r.Failed += o.Failed
	r.Delivered += o.Delivered
	r.Dead += o.Dead
	r.Repeats += o.Repeats
	r.Violations = append(r.Violations, o.Violations...)
}

// String is the last line of a run.
func (r *report) String() string {
	return fmt.Sprintf("accepted=%d refused=%d unknown=%d delivered=%d dead=%d lost=%d changed=%d unmarked=%d reordered=%d",
		r.Accepted, r.Refused, r.Unknown, r.Delivered, r.Dead,
		r.count(isLost), r.count(isChanged), r.count(isUnmarked), r.count(isReordered))
}

// grace is how long after a delivery a breach can undo what the gateway has
// noted about it: its store syncs within a second when it is idle.
const grace = 5 * time.Second

// A story is what is known of one message.
type story struct {
	op       *op
	receipts []int // places in the ledger
	dead     *burial
}

// check judges a history. It is complete: every message is looked at.
func check(h *history) report {
	c := &checker{h: h, stories: map[string]*story{}}
	c.collect()
	for _, key := range c.keys {
		c.judge(key, c.stories[key])
	}
	c.order()
	c.echoes()
	if h.Waiting > 0 {
		c.found(isStuck, "", "%d messages wait although every backend is up", h.Waiting)
	}
	return c.r
}

type checker struct {
	h       *history
	keys    []string // in the order in which they appear
	stories map[string]*story
	r       report
}

func (c *checker) story(key string) *story {
	s := c.stories[key]
	if s == nil {
		s = &story{}
		c.stories[key] = s
		c.keys = append(c.keys, key)
	}
	return s
}

// collect sorts everything by message.
func (c *checker) collect() {
	byID := map[string]string{}
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		c.story(o.Key).op = o
		switch o.Outcome {
		case accepted:
			c.r.Accepted++
			if o.ID == "" && o.Unnamed {
				break
			}
			if other, ok := byID[o.ID]; ok || o.ID == "" {
				c.found(isMisnamed, o.Key, "accepted with the id %q, which is that of %q too", o.ID, other)
			}
			byID[o.ID] = o.Key
		case refused:
			c.r.Refused++
		case unknown:
			c.r.Unknown++
		case answered:
			c.r.Answered++
		case failed:
			c.r.Failed++
		}
	}
	for i := range c.h.Receipts {
		x := &c.h.Receipts[i]
		if x.Fate == cut {
			continue
		}
		s := c.story(x.Key)
		s.receipts = append(s.receipts, i)
	}
	for i := range c.h.Dead {
		d := &c.h.Dead[i]
		c.r.Dead++
		c.story(d.Key).dead = d
	}
}

// judge looks at one message by itself.
func (c *checker) judge(key string, s *story) {
	if s.dead != nil && s.dead.Reason == "" {
		c.found(isUnsaid, key, "dead letter without a reason")
	}
	if s.op == nil {
		c.found(isChanged, key, "a request or a dead letter with a body that nobody sent")
		return
	}
	if d := s.dead; d != nil && (d.Hash != s.op.Hash && d.Hash != "" || d.Route != s.op.Route) {
		c.found(isChanged, key, "dead letter: body %s on route %s, sent was %s on %s", d.Hash, d.Route, s.op.Hash, s.op.Route)
	}
	if d := s.dead; d != nil && s.op.ID != "" && d.ID != s.op.ID {
		c.found(isMisnamed, key, "dead letter has the id %q", d.ID)
	}
	if c.h.Once[s.op.Route] {
		c.once(key, s)
	}
	seen, took, repeated, marked := false, false, false, false // by a request before this one
	var again time.Duration                                    // since then it should not come any more
	for _, i := range s.receipts {
		x := &c.h.Receipts[i]
		if x.Hash != s.op.Hash || x.Route != s.op.Route {
			c.found(isChanged, key, "request %d: body %s on route %s, sent was %s on %s", i, x.Hash, x.Route, s.op.Hash, s.op.Route)
		}
		if s.op.ID != "" && x.ID != s.op.ID && !x.Unmarkable {
			c.found(isMisnamed, key, "request %d carries the id %q", i, x.ID)
		}
		if seen {
			c.r.Repeats++
			// One that was given up may be read after its repeat.
			if !x.Marked && !x.Unmarkable && !(x.Late && marked) {
				c.found(isUnmarked, key, "request %d has no mark, and one before it may have been processed", i)
			}
		}
		marked = marked || x.Marked
		if took && !repeated && !x.Late && !c.h.AtMost[s.op.Route] && !c.broken(again, s.op.Route) {
			repeated = true
			c.found(isRepeated, key, "request %d: it had been taken at %v, and nothing was broken after that", i, again)
		}
		switch x.Fate {
		case taken:
			seen, took, again = true, true, x.At
		case lost:
			seen = true
		}
	}
	if c.h.AtMost[s.op.Route] {
		c.atMost(key, s)
	}
	if took {
		c.r.Delivered++
	}
	switch s.op.Outcome {
	case accepted:
		if !took && s.dead == nil {
			c.found(isLost, key, "accepted, taken by no backend, and no dead letter")
		}
	case refused:
		if len(s.receipts) > 0 || s.dead != nil {
			c.found(isLeaked, key, "refused (%s), and yet delivered or kept", s.op.Why)
		}
	case answered, failed:
		c.notStored(key, s)
	}
	if took && s.dead != nil && !c.broken(again, s.op.Route) {
		c.found(isMourned, key, "taken at %v, and a dead letter (%s)", again, s.dead.Reason)
	}
}

// atMost: on a route that delivers at most once nothing comes after a request
// that may have been processed, and a message that is dead all the same says
// that nobody knows.
func (c *checker) atMost(key string, s *story) {
	first := -1
	for _, i := range s.receipts {
		if first >= 0 {
			c.found(isAgain, key, "request %d, after request %d may have been processed", i, first)
			return
		}
		if f := c.h.Receipts[i].Fate; f == taken || f == lost {
			first = i
		}
	}
	if first >= 0 && s.dead != nil && s.dead.Reason != "outcome-unknown" {
		c.found(isMourned, key, "request %d may have been processed, and the dead letter says %q", first, s.dead.Reason)
	}
}

// slack is how much later than its caller's answer a request may be read that was
// sent before it.
const slack = time.Second

// notStored: a message whose caller had an answer, or a fault, in place of a
// receipt was seen before it, and is not delivered after it.
func (c *checker) notStored(key string, s *story) {
	if s.dead != nil {
		c.found(isLeaked, key, "%s, and yet a dead letter", s.op.Outcome)
	}
	took := false
	for _, i := range s.receipts {
		x := &c.h.Receipts[i]
		took = took || x.Fate == taken
		if x.At > s.op.End+slack && !x.Late {
			c.found(isLeaked, key, "%s, and yet request %d came", s.op.Outcome, i)
			return
		}
	}
	if s.op.Outcome == answered && !took {
		c.found(isLost, key, "its caller has an answer, and no backend took it")
	}
}

// once looks for a second message with the same id of its sender.
func (c *checker) once(key string, s *story) {
	id := s.op.ID
	for _, i := range s.receipts {
		x := &c.h.Receipts[i]
		if id == "" {
			id = x.ID
		}
		if x.ID != id {
			c.found(isTwice, key, "request %d carries the id %s, another %s", i, x.ID, id)
			return
		}
	}
}

// echoes looks at the answers to what was sent again (SPEC.md §4, "Dedup").
func (c *checker) echoes() {
	for _, e := range c.h.Echoes {
		s := c.story(e.Key)
		switch {
		case e.Other:
			if e.Why != reusedID {
				c.found(isAnswer, e.Key, "sent again with another content: %q, want %s", e.Why, reusedID)
			}
		case e.Dead && s.dead == nil:
			c.found(isTwice, e.Key, "sent again: it is said to be dead, and there is no dead letter")
		case !e.Dead && e.ID == "":
			c.found(isTwice, e.Key, "sent again: %s", e.Why)
		case !e.Dead && s.op != nil && s.op.ID != "" && e.ID != s.op.ID:
			c.found(isTwice, e.Key, "sent again: accepted with the id %s, at first %s", e.ID, s.op.ID)
		case e.Replied && !c.took(s, e.At, ""):
			c.found(isAnswer, e.Key, "sent again: it has a reply, and no backend took it before")
		case e.Final && !e.Dead && s.dead != nil:
			c.found(isAnswer, e.Key, "sent again when it was dead: accepted, want that it is said")
		case e.Final && !e.Dead && !e.Replied && s.op != nil && c.h.Kept[s.op.Route] && !c.took(s, e.At, noReply):
			c.found(isAnswer, e.Key, "sent again when it was answered: no reply")
		}
	}
}

// The answers that echoes knows.
const (
	reusedID = "IDReused"
	noReply  = "202" // of a backend: it has nothing to say
)

// took reports whether a backend took the message before t, with that answer if
// one is asked for.
func (c *checker) took(s *story, t time.Duration, answer string) bool {
	for _, i := range s.receipts {
		if x := &c.h.Receipts[i]; x.Fate == taken && x.Done <= t && (answer == "" || x.Answer == answer) {
			return true
		}
	}
	return false
}

// broken reports whether there was a breach near enough to a delivery on the
// route at t to have undone what the gateway knew of it.
func (c *checker) broken(t time.Duration, route string) bool {
	for _, b := range c.h.Lasting {
		if t+grace >= b.At && t-time.Second <= b.Until {
			return true
		}
	}
	at, _ := slices.BinarySearchFunc(c.h.Breaches, t-time.Second, func(b breach, t time.Duration) int { return cmp.Compare(b.At, t) })
	for _, b := range c.h.Breaches[at:] {
		if b.At > t+grace {
			break
		}
		if b.Route == "" || b.Route == route {
			return true
		}
	}
	return false
}

// order finds, on the routes that keep order, messages that came to the backend
// before one that had been accepted when they were sent; where a dead letter stops
// its key, also those that came before it was dropped.
func (c *checker) order() {
	type event struct {
		place int  // in the ledger, counted by two: a drop stands between two requests
		end   bool // the message is taken, or dropped; else it arrives for the first time
		key   string
		op    *op
	}
	lanes := map[string][]event{}
	for _, key := range c.keys {
		s := c.stories[key]
		if s.op == nil || !c.h.Ordered[s.op.Route] || len(s.receipts) == 0 {
			continue
		}
		lane := s.op.Route + " " + s.op.Lane
		events := lanes[lane]
		events = append(events, event{2 * s.receipts[0], false, key, s.op})
		for _, i := range s.receipts {
			if c.h.Receipts[i].Fate == taken {
				events = append(events, event{2 * i, true, key, s.op})
				break
			}
		}
		if at, ok := c.h.Dropped[key]; ok && c.h.Stops[s.op.Route] {
			events = append(events, event{2*at - 1, true, key, s.op})
		}
		lanes[lane] = events
	}
	for _, events := range lanes {
		slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.place, b.place) })
		var last *event // of those that have arrived, the one that was sent last
		for i := range events {
			e := &events[i]
			switch {
			case !e.end:
				if last == nil || e.op.Start > last.op.Start {
					last = e
				}
			case e.op.Outcome == accepted && last != nil && last.op.Start > e.op.End:
				c.found(isReordered, e.key, "accepted at %v; %s was sent at %v and yet arrived before this one was taken",
					e.op.End, last.key, last.op.Start)
				tl := &c.r.Violations[len(c.r.Violations)-1].Timeline
				*tl = append(*tl, "--- "+last.key)
				*tl = append(*tl, c.timeline(last.key)...)
			}
		}
	}
}

func (c *checker) found(k kind, key, format string, args ...any) {
	c.r.Violations = append(c.r.Violations, violation{k, key, fmt.Sprintf(format, args...), c.timeline(key)})
}

// timeline tells the story of a message, with the breaches around it.
func (c *checker) timeline(key string) []string {
	s := c.stories[key]
	if s == nil {
		return nil
	}
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	var first, last time.Duration = 1 << 62, 0
	add := func(at time.Duration, format string, args ...any) {
		first, last = min(first, at), max(last, at)
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	if o := s.op; o != nil {
		add(o.Start, "sent on %s, body %s", o.Route, o.Hash)
		add(o.End, "%s %s %s", o.Outcome, o.ID, o.Why)
	}
	for _, i := range s.receipts {
		x := &c.h.Receipts[i]
		add(x.At, "request %d: id %s attempt %s marked %t late %t body %s", i, x.ID, x.Attempt, x.Marked, x.Late, x.Hash)
		if x.Done > 0 {
			add(x.Done, "request %d: %s, %s", i, x.Fate, x.Answer)
		}
	}
	for _, b := range c.h.Breaches {
		if b.At >= first-grace && b.At <= last+grace && (b.Route == "" || s.op == nil || b.Route == s.op.Route) {
			lines = append(lines, line{b.At, "*** " + b.What})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	out := make([]string, 0, len(lines)+1)
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%11.6f %s", l.at.Seconds(), l.text))
	}
	if s.dead != nil {
		out = append(out, fmt.Sprintf("        end dead letter %s: %q", s.dead.ID, s.dead.Reason))
	}
	return out
}
