package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultPage = 100
	maxPage     = 1000

	// breath is how many messages a listing looks at before it lets go of the
	// index: who looks for something rare must not hold up what is on its way.
	breath = 4096
)

// List returns a page of the messages that f selects: those that wait in the
// order of acceptance, then the dead letters by id. next continues behind the
// page; it is empty behind the last.
//
// What f.Route and f.State leave out costs nothing: the first page of a million
// messages takes as long as that of a thousand (BenchmarkFirstPage). The other
// filters look at each message.
func (q *Queue) List(f Filter) (page []Entry, next string, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	limit = min(limit, maxPage)
	seq, deadAfter, err := cursor(f.After)
	if err != nil {
		return nil, "", err
	}
	if f.State == StateAwaiting {
		page, next = q.listAwaited(f, strings.TrimPrefix(f.After, "a"), limit)
		return page, next, nil
	}
	if f.State == StateDelivered {
		return q.listDelivered(f, seq+1, limit)
	}
	p := pager{filter: &f, limit: limit, seq: seq, left: -1, dead: deadAfter}
	if f.State != StateDead && deadAfter == "" {
		q.inBreaths(func() bool { return q.pageWaiting(&p) })
	}
	if !p.full && (f.State == "" || f.State == StateDead) {
		q.inBreaths(func() bool { return q.pageDead(&p) })
	}
	if !p.full {
		p.next = ""
	}
	return p.page, p.next, nil
}

// inBreaths calls do with mu held until it has nothing left to do.
func (q *Queue) inBreaths(do func() (more bool)) {
	for more := true; more; {
		q.mu.Lock()
		more = do()
		q.mu.Unlock()
	}
}

// pager is a page in the making.
type pager struct {
	filter *Filter
	limit  int
	page   []Entry
	next   string
	full   bool // the page, and there is more

	seq  uint64 // the waiting messages up to here were looked at
	left int    // of these, how many are still to come; -1 is unknown
	dead string // the dead letters up to here were
}

// take looks at a message whose place is at; false ends the page.
func (p *pager) take(e *Entry, at string) bool {
	if !p.filter.selects(e) {
		return true
	}
	if len(p.page) == p.limit {
		p.full = true
		return false
	}
	if p.page == nil {
		p.page = make([]Entry, 0, p.limit)
	}
	p.page = append(p.page, *e)
	p.next = at
	return true
}

// pageWaiting takes the next of the messages that wait. mu is held.
func (q *Queue) pageWaiting(p *pager) (more bool) {
	if p.seq == 0 {
		p.left = 0
		for _, r := range q.routes {
			if f := p.filter; f.Route == "" || r.name == f.Route {
				p.left += r.count(f.State)
			}
		}
	}
	looked := 0
	for it := range q.waitingAfter(p.filter, p.seq) {
		if p.left == 0 {
			return false // what follows are others: there may be a million of them
		}
		if looked++; looked > breath {
			return true
		}
		p.seq = it.seq
		if it.where == gone || !it.isIn(p.filter.State) {
			continue
		}
		p.left--
		e := q.entry(it)
		if !p.take(&e, "w"+strconv.FormatUint(it.seq, 10)) {
			return false
		}
	}
	return false
}

// isIn reports whether the message has the state, or "" is asked for. It costs
// less than an Entry.
func (it *item) isIn(s State) bool {
	switch s {
	case "":
		return true
	case StateOrphaned:
		return it.route.dest == nil
	}
	return it.route.dest != nil && (it.attempts() > 0) == (s == StateRetrying)
}

// waitingAfter yields the messages in the logs of the routes that can have some of
// what f selects, behind a sequence number, in order.
func (q *Queue) waitingAfter(f *Filter, seq uint64) func(yield func(*item) bool) {
	var logs [][]*item
	for _, r := range q.routes {
		if (f.Route == "" || r.name == f.Route) && r.count(f.State) > 0 {
			if log := r.log.after(seq); len(log) > 0 {
				logs = append(logs, log)
			}
		}
	}
	return func(yield func(*item) bool) {
		for len(logs) > 0 {
			first := 0
			for i := range logs {
				if logs[i][0].seq < logs[first][0].seq {
					first = i
				}
			}
			it := logs[first][0]
			if logs[first] = logs[first][1:]; len(logs[first]) == 0 {
				logs = slices.Delete(logs, first, first+1)
			}
			if !yield(it) {
				return
			}
		}
	}
}

// count is how many messages of the route wait in a state; "" is any.
func (r *routeState) count(s State) int {
	switch {
	case s == "":
		return r.waiting
	case r.dest == nil && s == StateOrphaned:
		return r.waiting
	case r.dest != nil && s == StatePending:
		return r.waiting - r.retried
	case r.dest != nil && s == StateRetrying:
		return r.retried
	}
	return 0
}

// pageDead takes the next of the dead letters. mu is held.
func (q *Queue) pageDead(p *pager) (more bool) {
	looked := 0
	for id := range q.idsAfter(p.filter.Route, p.dead, func(r *routeState) *idList { return &r.letters }) {
		if looked++; looked > breath {
			return true
		}
		p.dead = id
		e := &q.buried.byID[id].Entry
		if !p.take(e, "d"+id) {
			return false
		}
	}
	return false
}

// idsAfter yields the ids of a list of a route, or of all for "", behind one, in
// order.
func (q *Queue) idsAfter(route, id string, list func(*routeState) *idList) func(yield func(string) bool) {
	if route != "" {
		if r := q.routes[route]; r != nil {
			return list(r).after(id)
		}
		return func(func(string) bool) {}
	}
	return func(yield func(string) bool) {
		for at := id; ; {
			first := "" // the least of the first of every route
			for _, r := range q.routes {
				for each := range list(r).after(at) {
					if first == "" || each < first {
						first = each
					}
					break
				}
			}
			if first == "" || !yield(first) {
				return
			}
			at = first
		}
	}
}

// ErrCursor: Filter.After is not what a List has returned.
var ErrCursor = errors.New("queue: cursor is none of ours")

// cursor takes Filter.After apart.
func cursor(after string) (seq uint64, dead string, err error) {
	kind, rest := "", ""
	if after != "" {
		kind, rest = after[:1], after[1:]
	}
	switch kind {
	case "":
		return 0, "", nil
	case "d", "a":
		return 0, rest, nil
	case "w", "k":
		if seq, err = strconv.ParseUint(rest, 10, 63); err == nil {
			return seq, "", nil
		}
	}
	return 0, "", fmt.Errorf("%w: %.40q", ErrCursor, after)
}

func (f *Filter) selects(e *Entry) bool {
	return (f.Route == "" || e.Route == f.Route) &&
		(f.State == "" || e.State == f.State) &&
		(f.Operation == "" || e.Operation == f.Operation) &&
		(f.Since.IsZero() || !e.Accepted.Before(f.Since)) &&
		(f.Text == "" || strings.Contains(e.ID, f.Text) || !f.NoLane && strings.Contains(e.Lane, f.Text) ||
			strings.Contains(e.Reason, f.Text) || strings.Contains(e.Text, f.Text))
}

func (q *Queue) entry(it *item) Entry {
	e := Entry{
		ID: it.id(), Route: it.route.name, Operation: it.op.Value(), State: StatePending, InFlight: it.where == inFlight,
		Accepted: q.clock.time(it.accepted), Size: int64(it.size), Attempts: it.attempts(),
	}
	if due := it.due(); due != 0 {
		e.NextAttempt = q.clock.time(due)
	}
	if it.lane != nil {
		e.Lane, e.WaitsFor = it.lane.key, it.waitsFor()
	}
	if h := it.history(); len(h) > 0 {
		e.Reason = h[len(h)-1].Reason
	}
	switch d := it.route.dest; {
	case d == nil:
		e.State = StateOrphaned
	case e.Attempts > 0:
		e.Destination, e.State = d.cfg.Name, StateRetrying
	default:
		e.Destination = d.cfg.Name
	}
	return e
}

// itemLog has the messages of a route by their sequence numbers, those that are
// gone included until they are many.
type itemLog struct {
	items   []*item
	head    int // items before it are gone
	dropped int // items from it on that are gone
}

func (l *itemLog) push(it *item) { l.items = append(l.items, it) }

// after returns the items behind a sequence number. They hold while mu is held.
func (l *itemLog) after(seq uint64) []*item {
	live := l.items[l.head:]
	at, _ := slices.BinarySearchFunc(live, seq+1, func(it *item, seq uint64) int { return cmp.Compare(it.seq, seq) })
	return live[at:]
}

// drop notes that one more item is gone. What is gone at the head is passed over,
// what is gone between others stays until it is a quarter.
func (l *itemLog) drop() {
	l.dropped++
	for l.head < len(l.items) && l.items[l.head].where == gone {
		l.items[l.head] = nil
		l.head++
		l.dropped--
	}
	n := len(l.items) - l.head
	if l.head < 1024 && l.dropped < 1024 || l.head < n && l.dropped*4 < n {
		return
	}
	live := l.items[:0]
	for _, it := range l.items[l.head:] {
		if it.where != gone {
			live = append(live, it)
		}
	}
	clear(l.items[len(live):])
	l.items, l.head, l.dropped = live, 0, 0
}
