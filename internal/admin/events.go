package admin

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds of events.
const (
	EventDead    = "dead"     // a stored message has become a dead letter
	EventDown    = "down"     // a backend is taken for down
	EventUp      = "up"       // it is back
	EventClock   = "clock"    // the wall clock was set by much
	EventReload  = "reload"   // the configuration was read again, and taken or not
	EventStore   = "store"    // the store has failed, or is damaged
	EventChange  = "change"   // somebody has changed something through the API
	EventTest    = "selftest" // a self-test has started beside the gateway, or is over
	EventRefused = "refused"  // a request to the admin listener was refused
)

// An Event is something that an operator may want to know of as it happens.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Route   string    `json:"route,omitempty"`
	Backend string    `json:"backend,omitempty"`
	Text    string    `json:"text,omitempty"`
	OK      bool      `json:"ok,omitempty"`     // of a reload and a change: it was done; of a self-test: it was good
	Missed  int       `json:"missed,omitempty"` // events of this kind that were left out before this one
}

const (
	// keptEvents is how many events a reader can be behind and still get them all.
	keptEvents = 1000
	// readerEvents is how many events wait for a reader before it is dropped.
	readerEvents = 256
	// maxReaders bounds those who read events at once.
	maxReaders = 32
	// eventsAtOnce of a kind are kept at once, then one in each eventPause: a backend
	// that is down makes 100,000 dead letters, and nobody reads so many lines.
	eventsAtOnce = 50
	eventPause   = 100 * time.Millisecond
)

// Events are what has happened lately, and those who read it as it does. Its zero
// value works.
type Events struct {
	mu      sync.Mutex
	epoch   string // of this run, in ids; "" until the first reader
	last    uint64 // number of the latest event; the first is 1
	kept    []Event
	readers map[*reader]struct{}
	pace    map[string]*bucket
	missed  map[string]int
}

// A numbered event has its place in the run.
type numbered struct {
	Event
	n uint64
}

// reader is one who reads.
type reader struct {
	ch   chan numbered
	slow chan struct{} // closed when it was dropped
}

// Publish tells all readers of an event, whose time is set. It never waits: it may
// be called under any lock. One who does not keep up is dropped.
func (s *Events) Publish(e Event) {
	e.Time = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pace == nil {
		s.pace, s.missed = map[string]*bucket{}, map[string]int{}
	}
	b := s.pace[e.Kind]
	if b == nil {
		b = &bucket{most: eventsAtOnce, pause: eventPause}
		s.pace[e.Kind] = b
	}
	if !b.take(e.Time) {
		s.missed[e.Kind]++
		return
	}
	e.Missed, s.missed[e.Kind] = s.missed[e.Kind], 0
	s.last++
	if len(s.kept) >= 2*keptEvents {
		s.kept = append(s.kept[:0], s.kept[keptEvents:]...)
	}
	s.kept = append(s.kept, e)
	for r := range s.readers {
		select {
		case r.ch <- numbered{e, s.last}:
		default:
			close(r.slow)
			delete(s.readers, r)
		}
	}
}

// subscribe adds a reader; ok is false if there are too many. It gets what has
// happened since the event with the id lastID, or the latest events for "". gap says
// that events were lost in between, or that there was a restart.
func (s *Events) subscribe(lastID string) (r *reader, before []numbered, gap, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readers) >= maxReaders {
		return nil, nil, false, false
	}
	kept := s.kept[max(0, len(s.kept)-keptEvents):]
	first := s.last - uint64(len(kept)) // the number before the first that is kept
	from := first
	if lastID != "" {
		epoch, n, cut := strings.Cut(lastID, "-")
		number, err := strconv.ParseUint(n, 10, 64)
		switch {
		case !cut || err != nil || epoch != s.run() || number > s.last || number < first:
			gap = true
		default:
			from = number
		}
	}
	for i, e := range kept[from-first:] {
		before = append(before, numbered{e, from + uint64(i) + 1})
	}
	r = &reader{ch: make(chan numbered, readerEvents), slow: make(chan struct{})}
	if s.readers == nil {
		s.readers = map[*reader]struct{}{}
	}
	s.readers[r] = struct{}{}
	return r, before, gap, true
}

// leave takes a reader out.
func (s *Events) leave(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, r)
}

// run names this run of the gateway, so that the numbers of another are not taken
// for its own. mu is held.
func (s *Events) run() string {
	if s.epoch == "" {
		var b [4]byte
		_, _ = rand.Read(b[:]) // it never fails
		s.epoch = hex.EncodeToString(b[:])
	}
	return s.epoch
}

// id is the id of an event.
func (s *Events) id(n uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run() + "-" + strconv.FormatUint(n, 10)
}
