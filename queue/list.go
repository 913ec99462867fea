package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State of a message.
type State string

// The states of a message that the queue still has.
const (
	StatePending  State = "pending"  // no attempt charged yet
	StateRetrying State = "retrying" // tried, and waiting for the next attempt
	StateDead     State = "dead"
	StateOrphaned State = "orphaned" // its route is gone

	// StateDelivered is that of messages that are kept, see [Queue.SetKeepDelivered].
	// They are listed only where they are asked for.
	StateDelivered State = "delivered"
)

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	return s == StatePending || s == StateRetrying || s == StateDead || s == StateOrphaned || s == StateDelivered
}

// RouteStats counts the messages of one route.
type RouteStats struct {
	Route       string    `json:"route"`
	Destination string    `json:"destination,omitempty"`
	Pending     int       `json:"pending"`
	Retrying    int       `json:"retrying"`
	Dead        int       `json:"dead"`
	Orphaned    int       `json:"orphaned"`
	InFlight    int       `json:"in_flight"`
	Bytes       int64     `json:"bytes"` // of the bodies that wait
	Oldest      time.Time `json:"oldest,omitzero"`
	Paused      bool      `json:"paused,omitempty"`
	// Stopped is how many order keys stand still for a dead letter.
	Stopped int `json:"stopped_keys,omitempty"`
	// IDs is how many identities are known, see [Queue.PutOnce].
	IDs       int       `json:"dedup_ids,omitempty"`
	Down      bool      `json:"down,omitempty"` // its destination
	NextProbe time.Time `json:"next_probe,omitzero"`
	// Held says that the destination gets no attempts though it can be reached, and why.
	Held      Held   `json:"held,omitempty"`
	LastError string `json:"last_error,omitempty"`
	// Loading: the index is still being rebuilt and the counts are too low.
	Loading bool `json:"loading,omitempty"`
}

// Entry is a message in a listing.
type Entry struct {
	ID          string    `json:"id"`
	Route       string    `json:"route"`
	Destination string    `json:"destination,omitempty"`
	Lane        string    `json:"lane,omitempty"`
	Operation   string    `json:"operation,omitempty"`
	State       State     `json:"state"`
	InFlight    bool      `json:"in_flight,omitempty"`
	Accepted    time.Time `json:"accepted"`
	Died        time.Time `json:"died,omitzero"`
	Delivered   time.Time `json:"delivered,omitzero"`
	Size        int64     `json:"size"` // octets of the envelope
	Attempts    int       `json:"attempts"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	Reason      string    `json:"reason,omitempty"` // dead: the stable word; else of the last attempt
	Text        string    `json:"text,omitempty"`   // dead: one line
	// Stops says of a dead letter that its order key stands still for it.
	Stops bool `json:"stops_key,omitempty"`
	// WaitsFor is the id of the dead letter for which the order key of a waiting
	// message stands still.
	WaitsFor string `json:"waits_for,omitempty"`
}

// Detail is all that is known of one message.
type Detail struct {
	Entry
	Message   *Message
	History   []AttemptRecord
	Reply     []byte // the last answer, if there was one: of one that waits its first 8 KiB
	ReplyType string
}

// Filter selects messages; a zero field does not restrict.
type Filter struct {
	Route     string
	State     State
	Operation string
	Since     time.Time // accepted at or after
	Text      string    // part of the id, the lane or the reason
	After     string    // cursor: what the page before returned as next
	Limit     int       // default 100, at most 1000
}

const (
	defaultPage = 100
	maxPage     = 1000
)

// burial is the index of the dead letters.
type burial struct {
	byID   map[string]*deadEntry
	sorted []string // ids; good unless dirty
	dirty  bool
}

type deadEntry struct {
	Entry
	same *[16]byte // key of Message.Identity, nil for none
}

// bury adds a dead letter to the index.
func (q *Queue) bury(d *DeadLetter, size int64) {
	n := 0
	for _, a := range d.Attempts {
		n = max(n, a.N)
	}
	r := q.route(d.Route)
	if old := q.buried.byID[d.ID]; old == nil {
		r.dead++
		q.buried.dirty = true
	} else if old.Stops {
		r.start(r.lane(old.Lane), d.ID)
	}
	if d.Stops {
		r.stop(r.lane(d.Lane), d.ID)
	}
	if !d.Identity.IsZero() {
		q.ids.set(&d.Identity, d.ID, d.Route, FateDead)
	}
	q.buried.byID[d.ID] = &deadEntry{same: d.key(), Entry: Entry{
		ID: d.ID, Route: d.Route, Destination: d.Destination, Lane: d.Lane, Operation: d.Operation,
		State: StateDead, Accepted: d.Accepted, Died: d.Died, Size: size, Attempts: n,
		Reason: d.Reason, Text: d.Text, Stops: d.Stops,
	}}
}

// exhume takes a dead letter out of the index.
func (q *Queue) exhume(id string) {
	if e := q.buried.byID[id]; e != nil {
		r := q.routes[e.Route]
		r.dead--
		delete(q.buried.byID, id)
		q.buried.dirty = true
		if e.Stops {
			r.start(r.lane(e.Lane), id)
		}
	}
}

// ids returns the ids of the dead letters in order.
func (b *burial) ids() []string {
	if b.dirty {
		b.sorted = b.sorted[:0]
		for id := range b.byID {
			b.sorted = append(b.sorted, id)
		}
		slices.Sort(b.sorted)
		b.dirty = false
	}
	return b.sorted
}

// Stats returns the counts of every route that has messages or is configured,
// by name.
func (q *Queue) Stats() []RouteStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := make([]RouteStats, 0, len(q.routes))
	for _, r := range q.routes {
		s := RouteStats{
			Route: r.name, Dead: r.dead, InFlight: r.flying, Bytes: r.bytes,
			Paused: r.paused, Stopped: r.stopped, IDs: q.ids.count(r.name), LastError: r.last, Loading: !q.loaded,
		}
		if it := r.oldest(); it != nil {
			s.Oldest = q.clock.time(it.accepted)
		}
		switch d := r.dest; {
		case d == nil && r.waiting+r.dead == 0:
			continue
		case d == nil:
			s.Orphaned = r.waiting
		default:
			s.Destination = d.cfg.Name
			s.Retrying = r.retried
			s.Pending = r.waiting - r.retried
			s.Held = d.why()
			if s.Down = d.circuit.open && !d.circuit.denied; d.circuit.open && !d.held {
				s.NextProbe = q.clock.time(d.circuit.next)
			}
		}
		stats = append(stats, s)
	}
	slices.SortFunc(stats, func(a, b RouteStats) int { return cmp.Compare(a.Route, b.Route) })
	return stats
}

// Loaded reports whether the index is complete: until then Stats count too
// little, List leaves messages out and Get may not find one.
func (q *Queue) Loaded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.loaded
}

// Waiting is how many messages wait or are under way.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.early)
	for _, r := range q.routes {
		n += r.waiting
	}
	return n
}

// List returns a page of the messages that f selects: those that wait in the
// order of acceptance, then the dead letters by id. next continues behind the
// page; it is empty behind the last.
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
	if f.State == StateDelivered {
		return q.listDelivered(f, seq+1, limit)
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	if f.State != StateDead && deadAfter == "" {
		at, _ := slices.BinarySearchFunc(q.log, seq+1, func(it *item, seq uint64) int { return cmp.Compare(it.seq, seq) })
		for _, it := range q.log[at:] {
			if it.where == gone || f.Route != "" && it.route.name != f.Route {
				continue
			}
			e := q.entry(it)
			if !f.selects(&e) {
				continue
			}
			if len(page) == limit {
				return page, next, nil
			}
			page = append(page, e)
			next = "w" + strconv.FormatUint(it.seq, 10)
		}
	}
	if f.State == "" || f.State == StateDead {
		ids := q.buried.ids()
		at, found := slices.BinarySearch(ids, deadAfter)
		if found {
			at++
		}
		for _, id := range ids[at:] {
			e := q.buried.byID[id].Entry
			if !f.selects(&e) {
				continue
			}
			if len(page) == limit {
				return page, next, nil
			}
			page = append(page, e)
			next = "d" + id
		}
	}
	return page, "", nil
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
	case "d":
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
		(f.Text == "" || strings.Contains(e.ID, f.Text) || strings.Contains(e.Lane, f.Text) ||
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

// Get returns all of one message. ErrNotFound.
func (q *Queue) Get(id string) (*Detail, error) {
	q.mu.Lock()
	it := q.byID[keyOf(id)]
	dead := q.buried.byID[id]
	var d Detail
	var seq uint64
	replied := false
	switch {
	case it != nil:
		d.Entry, d.History, seq, replied = q.entry(it), it.history(), it.seq, it.replied
	case dead != nil:
		d.Entry = dead.Entry
	}
	q.mu.Unlock()
	switch {
	case it != nil:
		m, err := q.store.Get(seq)
		d.Message = m
		if replied && err == nil {
			d.Reply, d.ReplyType = q.replyOf(id)
		}
		return &d, err
	case dead != nil:
		l, err := q.store.Dead(id)
		if err != nil {
			return nil, err
		}
		d.Message, d.History, d.Reply, d.ReplyType = l.Message, l.Attempts, l.Reply, l.ReplyType
		return &d, nil
	}
	return q.getDelivered(id)
}
