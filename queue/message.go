package queue

import (
	"context"
	"time"
)

// Message is one that waits to be delivered. The queue knows bytes, a
// destination and an order, and nothing of SOAP or HTTP.
type Message struct {
	// ID is the gateway's message id (UUIDv7), unique for all time. Attempt
	// records and dead letters are kept under it, never under a sequence number,
	// which a power cut can give out again.
	ID string

	// Route is the name of the route that accepted the message; its policy
	// decides about retries and expiry for as long as the route exists.
	Route string

	// Destination names the backend: messages of one destination share its circuit.
	Destination string

	// Lane is the order key; messages of one lane are delivered in the order of
	// their acceptance, one at a time. Empty means no order.
	Lane string

	// Operation is the local name of the first child of Body, for listings.
	Operation string

	// Accepted is when the message was accepted, by the wall clock.
	Accepted time.Time

	// Meta is what the deliverer needs beside the body (header fields, version);
	// the queue keeps it and does not look inside.
	Meta []byte

	// Body is the envelope, octet for octet; nil where Blob has it.
	Body []byte

	// Blob is the envelope of a message that is not held in memory. A store makes
	// one of a large Body; a message that it gives back has either.
	Blob Blob

	// Identity says what is a repeat of it; the zero value is no identity.
	Identity Identity

	// First puts the message before all that waits in its lane: it is the dead
	// letter for which the lane has stood still, replayed.
	First bool

	// Anew says that a Replay or a Move has put it into the log anew, perhaps on
	// another route: it holds against an older record of the same id, which only a
	// crash can have left.
	Anew bool

	// Again says that it was delivered before and is replayed: an answer that is
	// kept may be that of an earlier time.
	Again bool

	// Forwards says that the answer to it may be a message of its own, see
	// [Outcome.Next].
	Forwards bool

	// After is what became of the message that this one follows from;
	// FateWaiting for one that follows from none.
	After Fate

	// Behind says, in a [Queue.PutAll], that the message must not be kept unless the one
	// before it is, or was before. It is in no record.
	Behind bool

	// Came is the label under which the message has come from another site; nil for
	// one that has not. Under one label one message is kept ([ErrSeen]).
	Came *Label

	// Link is its own label, given when it enters the log on a route that leads to a
	// link; nil for others.
	Link *Label
}

// Delivery is the input of one attempt.
type Delivery struct {
	*Message

	// Attempt counts from 1 and survives a restart.
	Attempt int

	// PossibleDuplicate says that an earlier attempt may have been processed.
	PossibleDuplicate bool

	// Label is the number of the message on the link that it goes over, the same in
	// every attempt; nil if its destination is no link.
	Label *Label

	// Follows says, in [BatchDeliverer.DeliverAll], that the destination must not take the
	// message unless it takes the one before it, or did before: they are of one lane.
	Follows bool
}

// Verdict is what an attempt means for its message.
type Verdict uint8

// The verdicts.
const (
	// Delivered ends the message.
	Delivered Verdict = iota
	// Retry keeps it for a later attempt.
	Retry
	// Dead makes it a dead letter: no retry can mend the reason.
	Dead
	// Aborted means that the attempt was cut off by a stop of the gateway. It
	// is not counted.
	Aborted
	// Behind means that nothing was tried, since the message before it in a batch, which
	// it follows, was not taken.
	Behind
)

// Outcome is how an attempt ended.
type Outcome struct {
	Verdict Verdict

	// Unhealthy counts against the destination: not sent, maybe processed, or a
	// non-SOAP 502, 503 or 504. A SOAP fault never does.
	Unhealthy bool

	// Denied says that the destination has refused credentials that are not the
	// message's own, so that it would refuse every message: it is held, and the
	// attempt is not charged. With it, Unhealthy says nothing.
	Denied bool

	// Maybe says that the destination may have processed the message although
	// no answer came: the next attempt is marked.
	Maybe bool

	// Status is that of the answer, 0 if there was none.
	Status int

	// Reason is one line for an operator; it has no message content.
	Reason string

	// RetryAfter is what the destination asked for, 0 if nothing.
	RetryAfter time.Duration

	// Reply is the answer's body, at most 64 KiB, kept with a dead letter.
	Reply     []byte
	ReplyType string

	// Keep is the whole answer to a message that is Delivered, to be kept before
	// the message goes; its ID and Route are filled in by the queue. Nil is none.
	Keep *Reply

	// Awaits says of a message that is Delivered that another site has taken it, and
	// has what its answer will need: Site and Meta, the queue fills in the rest. It is
	// durable before the message goes. See [Queue.Answer].
	Awaits *Awaited

	// Next is a message that follows from one that Forwards and is Delivered or
	// Dead: its answer, on the way to somebody else. It is durable before the
	// first one goes; its ID, Accepted and After are filled in by the queue.
	Next *Message
}

// A Deliverer hands messages to destinations. Both methods are called from many goroutines.
type Deliverer interface {
	// Deliver makes one attempt. When ctx is cancelled the gateway stops: the
	// outcome is then Aborted unless the answer had come.
	Deliver(ctx context.Context, d *Delivery) Outcome

	// Probe asks whether a destination that is down can be reached, by
	// connecting to it. It is no attempt of any message.
	Probe(ctx context.Context, destination string) error
}

// A BatchDeliverer is a Deliverer that can hand many messages to a link at once. Those
// of one lane are then in one batch, one after the other.
type BatchDeliverer interface {
	Deliverer

	// DeliverAll makes one attempt for each of them, which are all for one destination,
	// and returns the outcomes in their order. It is called from many goroutines, never
	// with messages of one lane from two.
	DeliverAll(ctx context.Context, ds []*Delivery) []Outcome
}

// AttemptRecord is what is kept of one finished attempt.
type AttemptRecord struct {
	N         int       `json:"n"`
	At        time.Time `json:"at"`
	Status    int       `json:"status,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Maybe     bool      `json:"maybe,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"` // when the next attempt is due

	// Open says that the attempt had begun and that its end is not known; only
	// routes that deliver at most once note it, and only in a store.
	Open bool `json:"open,omitempty"`

	// Reply is the last answer so far, cut to 8 KiB. Only the newest record in
	// a store has it: a message that expires while it waits dies with it.
	Reply     []byte `json:"reply,omitempty"`
	ReplyType string `json:"reply_type,omitempty"`
}

// DeadLetter is a message that is not tried any more, until it is replayed,
// exported or dropped.
type DeadLetter struct {
	*Message
	Died      time.Time
	Reason    string // stable word: permanent, expired, attempts, outcome-unknown, damaged
	Text      string // one line for an operator
	Attempts  []AttemptRecord
	Reply     []byte
	ReplyType string

	// Stops says that it was the head of a lane that stands still for it, see
	// [Route].
	Stops bool
}
