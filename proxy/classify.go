package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// Statuses of answers that have no envelope (SPEC.md §3, "Answers of the
// gateway itself").
const (
	statusBadTarget      = http.StatusBadRequest
	statusNoRoute        = http.StatusNotFound
	statusMethod         = http.StatusMethodNotAllowed
	statusMediaType      = http.StatusUnsupportedMediaType
	statusTooLarge       = http.StatusRequestEntityTooLarge
	statusHeaderTooLarge = http.StatusRequestHeaderFieldsTooLarge
	statusBusy           = http.StatusServiceUnavailable
)

// retryAfter is what a caller that met overload is told, in seconds.
const retryAfter = "1"

// refusal is an answer that has no envelope over HTTP.
type refusal struct {
	status int
	code   soapcodec.Code
	header field.List
	reason error // for the log; nil where the status says all
}

func refuse(status int, code soapcodec.Code) *refusal {
	return &refusal{status: status, code: code}
}

func (r *refusal) with(key, value string) *refusal {
	r.header.Set(key, value)
	return r
}

func (r *refusal) Error() string {
	s := fmt.Sprintf("proxy: refused with %d %s", r.status, http.StatusText(r.status))
	if r.reason != nil {
		s += ": " + r.reason.Error()
	}
	return s
}

// backendError is what went wrong with an answer after its head had come.
type backendError struct {
	code soapcodec.Code
	err  error
}

func (e *backendError) Error() string { return fmt.Sprintf("proxy: %s: %v", e.code, e.err) }
func (e *backendError) Unwrap() error { return e.err }

// panicError is a fault of this program, met while serving.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("proxy: panic: %v", e.value) }

// Reasons of the faults that tell of a backend. They name no node, no address
// and no cause.
var backendReasons = map[soapcodec.Code]string{
	soapcodec.CodeBackendUnavailable: "The service is not reachable; the message was not delivered.",
	soapcodec.CodeBackendTimeout:     "The service did not answer in time; it may have processed the message.",
	soapcodec.CodeBackendBroken:      "The service broke off before its answer was complete; it may have processed the message.",
	soapcodec.CodeBackendNotSOAP:     "The service gave an answer that is not a SOAP message.",
	soapcodec.CodeReplyTooLarge:      "The answer of the service is larger than the limit.",
	soapcodec.CodeSigned:             "The answer of the service is signed and can not be translated.",
	soapcodec.CodeInternal:           "The message could not be processed.",
}

// answer is the one place where an error becomes the caller's answer, an
// outcome and a code.
func (c *call) answer(err error) *Reply {
	c.logged = err
	var (
		refused *refusal
		unsure  *unproved
		fault   *soapcodec.Fault
		message *soapcodec.Error
		coding  *codingError
		broken  *bodyError
		gone    *goneError
		backend *backendError
		disk    *spoolError
		sent    *SendError
	)
	switch {
	case errors.As(err, &gone):
		return c.cancelled()
	case errors.As(err, &backend):
		// Before the message's own errors: what is wrong with an answer has the
		// same types and is not the caller's fault.
		c.outcome = OutcomeFailed
		return c.backendFault(backend.code)
	case errors.Is(err, ErrStoreUnknown):
		c.outcome = OutcomeUnknown
		return c.plain(refuse(statusBusy, soapcodec.CodeOutcomeUnknown).with("Gateway-Outcome", "unknown").with("Retry-After", retryAfter))
	case errors.Is(err, ErrDeadLettered):
		c.outcome = OutcomeFailed
		return c.fault(&soapcodec.Fault{Code: soapcodec.CodeDeadLettered})
	case errors.Is(err, ErrOtherContent):
		c.outcome = OutcomeRejected
		return c.fault(&soapcodec.Fault{Code: soapcodec.CodeIDReused})
	case errors.Is(err, ErrStoreTooLarge):
		c.outcome = OutcomeRejected
		return c.plain(refuse(statusTooLarge, soapcodec.CodeTooLarge))
	case errors.Is(err, ErrStoreBusy):
		c.outcome = OutcomeBusy
		return c.plain(refuse(statusBusy, soapcodec.CodeBusy).with("Retry-After", retryAfter))
	case errors.As(err, &disk):
		c.outcome = OutcomeBusy
		return c.plain(refuse(statusBusy, soapcodec.CodeBusy).with("Retry-After", retryAfter))
	case errors.As(err, &unsure):
		c.outcome = OutcomeRejected
		return c.fault(&soapcodec.Fault{Code: soapcodec.CodeFailedAuthentication})
	case errors.As(err, &refused):
		c.outcome = OutcomeRejected
		if refused.code == soapcodec.CodeBusy {
			c.outcome = OutcomeBusy
		}
		return c.plain(refused)
	case errors.Is(err, errTooLarge):
		c.outcome = OutcomeRejected
		r := c.plain(refuse(statusTooLarge, soapcodec.CodeTooLarge))
		r.CloseConnection = r.CloseConnection || !c.ex.Framed
		return r
	case errors.Is(err, soapcodec.ErrRootType):
		c.outcome = OutcomeRejected
		return c.plain(refuse(statusMediaType, ""))
	case errors.As(err, &fault):
		c.outcome = OutcomeRejected
		return c.fault(fault)
	case errors.As(err, &message):
		c.outcome = OutcomeRejected
		return c.fault(message.Fault())
	case errors.As(err, &coding):
		c.outcome = OutcomeRejected
		return c.fault(&soapcodec.Fault{
			Code:   soapcodec.CodeContentEncoding,
			Reason: "The content coding of the request is corrupt.",
		})
	case errors.As(err, &broken):
		if c.ctx.Err() != nil {
			return c.cancelled()
		}
		return c.incomplete()
	case errors.As(err, &sent):
		return c.sendFault(sent)
	}
	c.outcome = OutcomeInternal
	return c.backendFault(soapcodec.CodeInternal)
}

// sendFault answers for a message that no node took.
func (c *call) sendFault(err *SendError) *Reply {
	c.outcome = OutcomeFailed
	switch {
	case errors.Is(err, ErrNoConnection):
		c.outcome = OutcomeBusy
		return c.plain(refuse(statusBusy, soapcodec.CodeBusy).with("Retry-After", retryAfter))
	case err.Source:
		// The body was not what was announced; errors of the message itself
		// were told apart before.
		return c.incomplete()
	case errors.Is(err, ErrMultipart):
		c.outcome = OutcomeRejected
		return c.plain(refuse(statusMediaType, ""))
	case err.Permanent:
		c.outcome = OutcomeRejected
		return c.fault(&soapcodec.Fault{
			Code:   soapcodec.CodeTooLarge,
			Reason: "The message is larger than the service can take.",
		})
	case err.Class == NotSent:
		return c.backendFault(soapcodec.CodeBackendUnavailable)
	case err.Timeout:
		return c.backendFault(soapcodec.CodeBackendTimeout)
	}
	return c.backendFault(soapcodec.CodeBackendBroken)
}

// incomplete is for a request that broke off, which the caller may still be
// there to hear.
func (c *call) incomplete() *Reply {
	c.outcome = OutcomeCancelled
	r := c.fault(&soapcodec.Fault{Code: soapcodec.CodeIncomplete, Reason: "The request broke off before its end."})
	r.CloseConnection = true
	return r
}

// cancelled is for a caller that has left, and for one that is cut off because
// the listener gives up: the answer will hardly be read.
func (c *call) cancelled() *Reply {
	r := c.backendFault(soapcodec.CodeBackendBroken)
	c.outcome = OutcomeCancelled
	c.code, r.Code = "", "" // it is no fault of the service, and hardly anybody's answer
	r.CloseConnection = true
	return r
}

func (c *call) backendFault(code soapcodec.Code) *Reply {
	return c.fault(&soapcodec.Fault{Code: code, Reason: backendReasons[code]})
}

// fault makes the reply that carries a fault of our own.
func (c *call) fault(f *soapcodec.Fault) *Reply {
	c.code = f.Code
	v := f.Version
	if v == soapcodec.V0 {
		v = soapcodec.FaultVersion(c.version, c.ct.EnvelopeType())
	}
	buf := newBuffer()
	buf.b = f.Append(buf.b, v)
	h := field.List{{Name: "Content-Type", Value: f.ContentType(v)}}
	if f.Code == soapcodec.CodeBusy {
		h.Add("Retry-After", retryAfter)
	}
	return &Reply{
		Status: f.Status(v), Header: c.stamped(h),
		Body: bytes.NewReader(buf.b), Length: int64(len(buf.b)),
		Version: v, Code: f.Code, Close: buf.release,
		CloseConnection: c.bodyLeft(),
	}
}

// plain makes a reply without an envelope. A framed listener makes a fault of
// it by its code.
func (c *call) plain(r *refusal) *Reply {
	c.code = r.code
	return &Reply{
		Status: r.status, Header: c.stamped(r.header), Code: r.code,
		Version:         soapcodec.FaultVersion(c.version, c.ct.EnvelopeType()),
		CloseConnection: c.bodyLeft(),
	}
}

// stamped adds the id, so that a caller can quote what the log has.
func (c *call) stamped(h field.List) field.List {
	h.Set(messageID, c.ex.ID)
	return h
}

// bodyLeft reports whether so much of the request may be unread that it is
// better to close the connection than to read on for the next request.
func (c *call) bodyLeft() bool {
	const small = 256 << 10
	switch {
	case c.ex.Framed:
		return false
	case c.msg.stream != nil:
		return !c.msg.stream.ended() // a node may still be reading it
	case c.src == nil:
		return c.ex.Length > small
	case c.src.wire.err != nil:
		return false
	}
	return c.ex.Length < 0 || c.ex.Length-c.src.wire.n > small
}

// report tells the observer and the log how the exchange went. length is that of
// the body of the answer as its head told it, -1 if it did not.
func (c *call) report(status int, length int64) {
	took := time.Since(c.ex.Received)
	name := ""
	if r := c.route; r != nil {
		name = r.Name
	} else if r := c.cand.settled(); r != nil {
		name = r.Name // failed before the body, which does not matter to its choice
	}
	if o := c.h.opt.Observer; o != nil {
		e := ExchangeEvent{
			ID: c.ex.ID, Listener: c.ex.Listener, Route: name, Operation: c.operation(),
			Version: c.version, Status: status, Outcome: c.outcome, Code: c.code,
			Attempts: c.attempts, Duration: took, CodecBytes: c.codec.Load(),
			NormalizeSkipped: c.asIs.Load(), Exchange: c.ex, Node: c.node, Trace: c.trace, RequestOctets: c.requestOctets(), ReplyOctets: max(length, c.sent),
		}
		if c.partly {
			e.ReplyOctets = -1
		}
		o.ObserveExchange(e)
	}
	if c.logged != nil {
		c.log(name, status, took)
	}
}

// requestOctets is how much was read of the request's body, -1 while a node may
// still read it.
func (c *call) requestOctets() int64 {
	switch {
	case c.src == nil:
		return 0
	case c.msg.stream != nil && c.msg.stream.busy():
		return -1
	}
	return c.src.wire.n
}
