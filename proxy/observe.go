package proxy

import (
	"time"

	"soapway/soapcodec"
)

// Outcome says in one word how an exchange ended.
type Outcome string

// The outcomes; they are the values of the label outcome of
// gateway_requests_total.
const (
	OutcomeAnswered  Outcome = "answered"  // the backend's answer was passed on
	OutcomeFault     Outcome = "fault"     // the backend's answer was a SOAP fault
	OutcomeStored    Outcome = "stored"    // kept for later delivery
	OutcomeRepeated  Outcome = "repeated"  // kept before, and not again
	OutcomeFollowed  Outcome = "followed"  // the caller of a stored message asked what has become of it
	OutcomeUnknown   Outcome = "unknown"   // perhaps kept for later delivery
	OutcomeRejected  Outcome = "rejected"  // refused here: no route, a bad message, a limit
	OutcomeFailed    Outcome = "failed"    // the backend was down, timed out, broke off or answered non-SOAP
	OutcomeBusy      Outcome = "busy"      // refused for load
	OutcomeCancelled Outcome = "cancelled" // the caller left or broke off
	OutcomeInternal  Outcome = "internal"  // a fault of this program
)

// ExchangeEvent tells an [Observer] how one exchange went, once it is over.
type ExchangeEvent struct {
	ID       string
	Listener string
	Route    string // "" if none was found

	// Operation is one that the description of the service or the route's own
	// condition names, so that a caller cannot make up values of a metric's label.
	Operation string

	// Exchange is the request, for the time of the call.
	Exchange *Exchange
	Node     string // of the last try, "" if there was none

	Version    soapcodec.Version
	Status     int
	Outcome    Outcome
	Code       soapcodec.Code // of the fault or refusal made here, else ""
	Attempts   int
	Duration   time.Duration // from Received to the close of the reply
	CodecBytes int64         // octets that the envelope codec looked at

	// The octets of the two bodies, as on the wire: those read of the request, and
	// those of the answer. -1 is not known: a node may still read the one, the other
	// has reached the caller in part.
	RequestOctets, ReplyOctets int64

	// NormalizeSkipped says that the message was not normalized, as its route
	// asks for, because that could have broken a signature.
	NormalizeSkipped bool

	Trace Trace // its place, if it is traced
}

// AttemptEvent tells an [Observer] how one try went.
type AttemptEvent struct {
	ID, Route, Backend, Node string
	Class                    Class
	Timeout                  bool
	Status                   int // 0 if there was no answer
	Duration                 time.Duration

	Trace   Trace     // its place, if it is traced
	Attempt int       // of a stored message, from 1; 0 for others
	Waited  time.Time // of the first try for a stored message: since when it has waited
}

// Observer is told about exchanges, tries and copies, for metrics. The tries of
// copies are none of these. Its methods are
// called from many goroutines and must not block.
type Observer interface {
	ObserveExchange(e ExchangeEvent)
	ObserveAttempt(e AttemptEvent)
	ObserveShadow(e ShadowEvent)
}
