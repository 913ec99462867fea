package queue

import (
	"cmp"
	"errors"
	"slices"
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

	// StateAwaiting is that of messages that another site has taken and is to answer,
	// see [Awaited]. They, too, are listed only where they are asked for.
	StateAwaiting State = "awaiting"
)

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	return s == StatePending || s == StateRetrying || s == StateDead || s == StateOrphaned || s == StateDelivered || s == StateAwaiting
}

// RouteStats counts the messages of one route.
type RouteStats struct {
	Route       string `json:"route"`
	Destination string `json:"destination,omitempty"`
	Pending     int    `json:"pending"`
	Retrying    int    `json:"retrying"`
	Dead        int    `json:"dead"`
	Orphaned    int    `json:"orphaned"`
	// Awaiting is how many other sites have taken and are to answer.
	Awaiting int       `json:"awaiting,omitempty"`
	InFlight int       `json:"in_flight"`
	Bytes    int64     `json:"bytes"` // of the bodies that wait
	Oldest   time.Time `json:"oldest,omitzero"`
	Paused   bool      `json:"paused,omitempty"`
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
	Site        string    `json:"site,omitempty"`   // awaiting: which has it
	Handed      time.Time `json:"handed,omitzero"`  // and since when
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
	NoLane    bool      // Text is not looked for in lanes
	After     string    // cursor: what the page before returned as next
	Limit     int       // default 100, at most 1000
}

// burial is the index of the dead letters. Those of a route stand in
// routeState.letters too.
type burial struct {
	byID map[string]*deadEntry
}

type deadEntry struct {
	Entry
	same *[16]byte // key of Message.Identity, nil for none
	came *Label    // Message.Came
}

// bury adds a dead letter to the index.
func (q *Queue) bury(d *DeadLetter, size int64) {
	n := 0
	for _, a := range d.Attempts {
		n = max(n, a.N)
	}
	r := q.route(d.Route)
	if old := q.buried.byID[d.ID]; old == nil {
		r.letters.add(d.ID)
	} else if old.Stops {
		r.start(r.lane(old.Lane), d.ID)
	}
	if d.Stops {
		r.stop(r.lane(d.Lane), d.ID)
	}
	if !d.Identity.IsZero() {
		q.ids.set(&d.Identity, d.ID, d.Route, FateDead)
	}
	q.buried.byID[d.ID] = &deadEntry{same: d.key(), came: d.Came, Entry: Entry{
		ID: d.ID, Route: d.Route, Destination: d.Destination, Lane: d.Lane, Operation: d.Operation,
		State: StateDead, Accepted: d.Accepted, Died: d.Died, Size: size, Attempts: n,
		Reason: d.Reason, Text: d.Text, Stops: d.Stops,
	}}
}

// exhume takes a dead letter out of the index.
func (q *Queue) exhume(id string) {
	if e := q.buried.byID[id]; e != nil {
		r := q.routes[e.Route]
		r.letters.remove(id)
		delete(q.buried.byID, id)
		if e.Stops {
			r.start(r.lane(e.Lane), id)
		}
	}
}

// Stats returns the counts of every route that has messages or is configured,
// by name.
func (q *Queue) Stats() []RouteStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := make([]RouteStats, 0, len(q.routes))
	for _, r := range q.routes {
		s := RouteStats{
			Route: r.name, Dead: r.letters.len(), Awaiting: r.awaited.len(), InFlight: r.flying, Bytes: r.bytes,
			Paused: r.paused, Stopped: r.stopped, IDs: q.ids.count(r.name), LastError: r.last, Loading: !q.loaded,
		}
		if it := r.oldest(); it != nil {
			s.Oldest = q.clock.time(it.accepted)
		}
		switch d := r.dest; {
		case d == nil && r.waiting+r.letters.len()+r.awaited.len() == 0:
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
	if d, err := q.getAwaited(id); !errors.Is(err, ErrNotFound) {
		return d, err
	}
	return q.getDelivered(id)
}
