package proxy

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// Verdict is what an attempt means for a stored message.
type Verdict uint8

// The verdicts.
const (
	VerdictDelivered Verdict = iota // it is done
	VerdictRetry                    // it is tried again later
	VerdictDead                     // no retry can mend it: a dead letter
	VerdictAborted                  // the attempt was cut off by a stop and does not count
	VerdictBehind                   // nothing was tried: the message before it in a batch was not taken
)

// String is the word for logs.
func (v Verdict) String() string {
	switch v {
	case VerdictDelivered:
		return "delivered"
	case VerdictRetry:
		return "retry"
	case VerdictDead:
		return "dead"
	case VerdictBehind:
		return "behind"
	}
	return "aborted"
}

// content is what a complete answer consists of.
type content uint8

const (
	contentEmpty content = iota
	contentSOAP          // an envelope that is no fault
	contentFault
	contentOther // not SOAP, or an envelope that fails the checks
	contentLarge // more than max_message
)

// facts of a complete answer, as far as they decide.
type answerFacts struct {
	status  int
	content content
	code    soapcodec.QName // of the fault
	sub     []soapcodec.QName
	version soapcodec.Version

	ownCredentials bool   // what was refused, if it was, is not the caller's
	told           string // Response.Reason
	oneway         OneWay
}

// faultCode is the local name of a code that SOAP itself defines, without what
// SOAP 1.1 §4.4.1 lets follow behind a dot; "" for any other code. An
// unqualified code counts in 1.1, where many senders forget the prefix.
func (a *answerFacts) faultCode() string {
	if a.content != contentFault {
		return ""
	}
	if a.version == soapcodec.V12 {
		if a.code.Space != soapcodec.NS12 {
			return ""
		}
		return a.code.Local
	}
	if a.code.Space != soapcodec.NS11 && a.code.Space != "" {
		return ""
	}
	local, _, _ := strings.Cut(a.code.Local, ".")
	return local
}

func (a *answerFacts) faultIs(names ...string) bool {
	code := a.faultCode()
	return code != "" && slices.Contains(names, code)
}

func (a *answerFacts) statusIs(list ...int) bool { return slices.Contains(list, a.status) }

// security reports a fault of WS-Security (SOAP Message Security 1.1 §12).
func (a *answerFacts) security() bool {
	ours := func(q soapcodec.QName) bool { return strings.Contains(q.Space, "secext") }
	return a.content == contentFault && (ours(a.code) || slices.ContainsFunc(a.sub, ours))
}

// refused reports an answer that credentials, or their lack, are the reason of.
func (a *answerFacts) refused() bool { return a.statusIs(401, 403) || a.security() }

// An answerRow is one line of the table of SPEC.md §4, "Stored messages follow
// the answer, fault code before status".
type answerRow struct {
	why     string
	when    func(a *answerFacts) bool
	verdict Verdict
	// maybe: though there was an answer, the backend may have done the work, so
	// the next attempt is marked.
	maybe bool
	// hold: what is wrong is wrong for every message, so that all of them wait, as
	// SPEC.md §4 asks for refused credentials.
	hold bool
}

// answerTable decides about complete answers; the first row that fits counts.
//
// Where the contract is silent: an answer of success that is not SOAP may come
// from the service or from anything before it, so it is tried again, with the
// mark; a route with `oneway: yes` has said that it expects no envelope, and
// takes it. A fault on a status of success with a code of the service's own is
// no success, and the message is kept where a person sees it.
var answerTable = []answerRow{
	{"the credentials of the gateway are refused", func(a *answerFacts) bool { return a.refused() && a.ownCredentials }, VerdictRetry, false, true},
	{"not authorised", func(a *answerFacts) bool { return a.statusIs(401, 403) }, VerdictDead, false, false},
	{"security fault", (*answerFacts).security, VerdictDead, false, false},
	{"fault", func(a *answerFacts) bool { return a.faultIs("Server", "Receiver") }, VerdictRetry, false, false},
	{"fault", func(a *answerFacts) bool {
		return a.faultIs("Client", "Sender", "VersionMismatch", "MustUnderstand", "DataEncodingUnknown")
	}, VerdictDead, false, false},
	{"try again", func(a *answerFacts) bool { return a.statusIs(408, 425, 429) || a.status >= 500 }, VerdictRetry, false, false},
	{"refused", func(a *answerFacts) bool { return a.status >= 400 }, VerdictDead, false, false},
	{"redirect", func(a *answerFacts) bool { return a.status >= 300 }, VerdictDead, false, false},
	{"fault", func(a *answerFacts) bool { return a.content == contentFault }, VerdictDead, false, false},
	{"answer larger than the limit", func(a *answerFacts) bool { return a.content == contentLarge }, VerdictDead, true, false},
	{"delivered", func(a *answerFacts) bool { return a.content == contentSOAP || a.oneway == OneWayYes }, VerdictDelivered, false, false},
	{"answer is not SOAP", func(a *answerFacts) bool { return a.content == contentOther }, VerdictRetry, true, false},
	{"answer is empty", func(a *answerFacts) bool { return a.status == http.StatusOK && a.oneway == OneWayNo }, VerdictRetry, true, false},
	{"delivered", func(*answerFacts) bool { return true }, VerdictDelivered, false, false},
}

// gateway reports an answer of whoever stands before the service: a 502, 503 or
// 504 that is not SOAP.
func (a *answerFacts) gateway() bool {
	return gatewayStatus(a.status) && a.content != contentFault && a.content != contentSOAP
}

// judge looks an answer up.
func (a *answerFacts) judge() DeliveryResult {
	for i := range answerTable {
		row := &answerTable[i]
		if !row.when(a) {
			continue
		}
		r := DeliveryResult{Verdict: row.verdict, Maybe: row.maybe, Denied: row.hold, Status: a.status}
		// SPEC.md §4: of answers only a 502, 503 or 504 that is not SOAP counts
		// against the node; a fault proves that the service is there.
		r.Unhealthy = a.gateway()
		if row.verdict != VerdictDelivered {
			r.Reason = a.reason(row.why)
		}
		return r
	}
	panic("proxy: the last row of answerTable takes everything")
}

// reason is one line without content of the message or of the answer.
func (a *answerFacts) reason(why string) string {
	s := "status " + strconv.Itoa(a.status) + ": " + why
	if a.told != "" {
		s += ": " + oneLine(a.told)
	}
	if a.content == contentFault {
		if a.code.Local == "" {
			return s + ", fault without a code"
		}
		s += ", fault code " + cut(strconv.Quote(a.code.Local), 100)
	}
	return s
}

// judgeError is the verdict about an attempt that got no complete answer.
func judgeError(err *SendError) DeliveryResult {
	r := DeliveryResult{Verdict: VerdictRetry, Unhealthy: true, Reason: oneLine(err.Error())}
	switch {
	case err.Class != NotSent:
		r.Maybe = true
	case errors.Is(err, errNoPlace): // no news of the backend
		r.Unhealthy = false
	case err.Permanent: // not the node's fault
		r.Verdict, r.Unhealthy = VerdictDead, false
	}
	return r
}

// oneLine makes an error fit for a listing.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return cut(strings.TrimPrefix(s, "proxy: "), 300)
}

// retryWish is what Retry-After asks for (RFC 9110 §10.2.3: seconds or a date),
// 0 for nothing that can be understood.
func retryWish(h field.List, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
