package faultlab

import (
	"sync"
	"time"
)

// outcome is what a sender knows of a message it sent.
type outcome uint8

const (
	unknown  outcome = iota // it may be stored: broken off, timed out, or said so
	accepted                // 202
	refused                 // a definite error, or no connection: it is never delivered
	answered                // the backend's answer came back: it is not stored
	failed                  // no answer, and the backend may have seen it: it is not stored
)

func (o outcome) String() string {
	return [...]string{"unknown", "accepted", "refused", "answered", "failed"}[o]
}

// An op is one message as its sender knows it. Times count from the start of
// the lab.
type op struct {
	Key        string // sender and number, which the body carries too
	Route      string
	Lane       string // the order key in the body, on a route that keeps order by it
	Hash       string // of the body
	Start, End time.Duration
	Outcome    outcome
	ID         string // that the gateway gave, if accepted
	Unnamed    bool   // the protocol does not tell the id
	Why        string // status or error, if not accepted
}

// fate says what a backend did with a request.
type fate uint8

const (
	cut      fate = iota // the request did not come to its end
	taken                // answered that it was processed
	declined             // answered, completely, that it was not
	lost                 // processed, but the answer never left
)

func (f fate) String() string { return [...]string{"cut", "taken", "declined", "lost"}[f] }

// A receipt is one request as a backend got it.
type receipt struct {
	Key, Route, Hash string // as found in the request; no key = not one of ours
	ID               string
	Attempt          string
	Marked           bool
	Unmarkable       bool // the protocol has no place for a mark
	Late             bool // its sender had given it up when the backend came to read it
	At, Done         time.Duration
	Fate             fate
	Answer           string
}

// A burial is one dead letter of the gateway at the end, with what its envelope
// says it is. Hash is empty for one that is not shown to its end.
type burial struct{ ID, Route, Reason, Key, Hash string }

// A breach is something that the lab did, which may make the gateway deliver
// again what had arrived.
type breach struct {
	At    time.Duration
	What  string
	Route string        // whose backend it was done to; empty = it concerns every route
	Until time.Duration // its end, of one that lasts; else 0
}

// An echo is the answer to a message that was sent again under the same id,
// after it had been accepted.
type echo struct {
	Key  string
	ID   string
	Dead bool // the answer was that it is a dead letter
	Why  string

	At      time.Duration // when the answer came
	Replied bool          // the answer was the backend's, as it was kept
	Other   bool          // it was sent with another content
	Final   bool          // asked when nothing waited any more
}

// A history is everything that was seen of a run.
type history struct {
	Ops      []op
	Echoes   []echo
	Receipts []receipt // in the order of arrival
	Dead     []burial
	Waiting  int             // messages that are left in the end
	Ordered  map[string]bool // routes that keep order
	Once     map[string]bool // routes that take a message that is sent again for what it is
	AtMost   map[string]bool // routes that deliver at most once
	Kept     map[string]bool // routes that keep replies
	Stops    map[string]bool // routes on which a dead letter stops its key
	Dropped  map[string]int  // dead letters that an operator has dropped: how many requests had come before
	Breaches []breach        // in order of time
	Lasting  []breach        // those of them that lasted, once more
}

func newHistory() history {
	return history{Ordered: map[string]bool{}, Once: map[string]bool{}, AtMost: map[string]bool{}, Kept: map[string]bool{}, Stops: map[string]bool{}, Dropped: map[string]int{}}
}

// recorder collects a history from many goroutines.
type recorder struct {
	began time.Time
	mu    sync.Mutex
	h     history
}

func newRecorder() *recorder {
	return &recorder{began: time.Now(), h: newHistory()}
}

func (r *recorder) now() time.Duration { return time.Since(r.began) }

func (r *recorder) op(o op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Ops = append(r.h.Ops, o)
}

func (r *recorder) echo(e echo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = r.now()
	r.h.Echoes = append(r.h.Echoes, e)
}

// buried notes a dead letter that is about to be dropped.
func (r *recorder) buried(d burial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Dead = append(r.h.Dead, d)
	r.h.Dropped[d.Key] = len(r.h.Receipts)
}

// arrived puts a request into the ledger and returns its place. Whether it is late
// is asked when it has its place: its repeat can not be before it unless it is.
func (r *recorder) arrived(x receipt, late func() bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.At, x.Late = r.now(), late()
	r.h.Receipts = append(r.h.Receipts, x)
	return len(r.h.Receipts) - 1
}

// answered completes an entry of the ledger, before the answer is written.
func (r *recorder) answered(place int, f fate, answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &r.h.Receipts[place]
	x.Fate, x.Answer, x.Done = f, answer, r.now()
}

func (r *recorder) breach(route, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Breaches = append(r.h.Breaches, breach{At: r.now(), What: what, Route: route})
}

// lasting is a breach of every route that goes on until end is called.
func (r *recorder) lasting(what string) (end func()) {
	began := r.now()
	r.breach("", what)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.now()
		r.h.Breaches = append(r.h.Breaches, breach{At: now, What: "end of " + what})
		r.h.Lasting = append(r.h.Lasting, breach{At: began, What: what, Until: now})
	}
}

// counts returns how many messages were sent, accepted, and arrived.
func (r *recorder) counts() (ops, acc, receipts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.h.Ops {
		if r.h.Ops[i].Outcome == accepted {
			acc++
		}
	}
	return len(r.h.Ops), acc, len(r.h.Receipts)
}
