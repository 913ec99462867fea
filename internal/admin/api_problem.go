package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// problemURN prefixes the types of problems. What follows is stable: callers
// decide by it, and openapi.yaml lists it.
const problemURN = "urn:soapway:problem:"

// A kind of problem: its type without the prefix, its title and its status.
type kind struct {
	name   string
	title  string
	status int
}

var (
	kindToken      = kind{"token-required", "A valid token is required", http.StatusUnauthorized}
	kindHost       = kind{"misdirected", "The request names another host", http.StatusMisdirectedRequest}
	kindOrigin     = kind{"cross-origin", "Web pages of other origins are not answered", http.StatusForbidden}
	kindGuesses    = kind{"too-many-failures", "Too many wrong tokens", http.StatusTooManyRequests}
	kindReaders    = kind{"too-many-readers", "Too many read the events", http.StatusServiceUnavailable}
	kindConfig     = kind{"bad-configuration", "The configuration was not taken", http.StatusConflict}
	kindPath       = kind{"no-such-path", "There is nothing at this path", http.StatusNotFound}
	kindRoute      = kind{"no-such-route", "There is no such route", http.StatusNotFound}
	kindMessage    = kind{"no-such-message", "There is no such message", http.StatusNotFound}
	kindMethod     = kind{"method-not-allowed", "The method is not allowed here", http.StatusMethodNotAllowed}
	kindParameter  = kind{"bad-parameter", "A parameter is not valid", http.StatusBadRequest}
	kindBody       = kind{"bad-body", "The body is not valid", http.StatusBadRequest}
	kindType       = kind{"unsupported-media-type", "The body is not JSON", http.StatusUnsupportedMediaType}
	kindLarge      = kind{"body-too-large", "The body is too large", http.StatusRequestEntityTooLarge}
	kindTarget     = kind{"bad-target", "Nothing can be moved to this route", http.StatusConflict}
	kindInvalid    = kind{"bad-file", "The file of exported messages is not valid", http.StatusBadRequest}
	kindBusy       = kind{"message-busy", "The message is being delivered", http.StatusConflict}
	kindBackup     = kind{"backup-running", "A backup is being made", http.StatusConflict}
	kindTesting    = kind{"selftest-running", "A self-test is running", http.StatusConflict}
	kindNoTest     = kind{"selftest-not-running", "No self-test is running", http.StatusConflict}
	kindNoRoom     = kind{"selftest-no-room", "The disk has too little room for a self-test", http.StatusConflict}
	kindReport     = kind{"no-such-report", "There is no such report", http.StatusNotFound}
	kindStopped    = kind{"gateway-stopped", "This needs a running gateway", http.StatusConflict}
	kindLoading    = kind{"store-loading", "The gateway is still reading its store", http.StatusServiceUnavailable}
	kindFull       = kind{"store-full", "The store has no room", http.StatusServiceUnavailable}
	kindClosed     = kind{"store-unavailable", "The store is closed or has failed", http.StatusServiceUnavailable}
	kindUnknown    = kind{"outcome-unknown", "Whether the change was kept is not known", http.StatusServiceUnavailable}
	kindDamaged    = kind{"message-damaged", "The message cannot be read", http.StatusInternalServerError}
	kindUnexpected = kind{"internal", "The gateway could not do this", http.StatusInternalServerError}
)

// kinds are all, for the test that compares them with openapi.yaml.
var kinds = []kind{
	kindToken, kindHost, kindOrigin, kindPath, kindRoute, kindMessage, kindMethod, kindParameter, kindBody, kindType,
	kindGuesses, kindReaders, kindConfig, kindBackup, kindLarge, kindTarget, kindInvalid, kindBusy, kindTesting, kindNoTest, kindNoRoom, kindReport, kindStopped, kindLoading, kindFull, kindClosed, kindUnknown, kindDamaged, kindUnexpected,
}

// Problem is a problem document (RFC 9457).
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"` // the path that was asked for
	Count    int    `json:"count,omitempty"`    // of messages that a broken-off change has changed
	// Problems are those of a configuration that was not taken.
	Problems []string `json:"problems,omitempty"`
}

// Error makes a Problem what a client returns.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Is compares with the errors of this package.
func (p *Problem) Is(target error) bool {
	for _, r := range reasons {
		if r.err == target {
			return p.Type == problemURN+r.kind.name
		}
	}
	return false
}

// refusal is a problem on its way to the caller.
type refusal struct {
	kind   kind
	detail string
	count  int

	problems []string
}

func (e *refusal) Error() string { return e.detail }

func refusef(k kind, format string, args ...any) error {
	return &refusal{kind: k, detail: fmt.Sprintf(format, args...)}
}

// reasons are the problems that the errors of a Queue are.
var reasons = []struct {
	err  error
	kind kind
}{
	{ErrNoRoute, kindRoute},
	{ErrNoMessage, kindMessage},
	{ErrBusy, kindBusy},
	{ErrBackup, kindBackup},
	{ErrTarget, kindTarget},
	{ErrInvalid, kindInvalid},
	{ErrCursor, kindParameter},
	{ErrDamaged, kindDamaged},
	{ErrFull, kindFull},
	{ErrUnknown, kindUnknown},
	{ErrClosed, kindClosed},
	{ErrStopped, kindStopped},
}

// asRefusal turns any error of a handler into what the caller is told.
func asRefusal(err error) *refusal {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return &refusal{kind: r.kind, detail: err.Error()}
		}
	}
	return &refusal{kind: kindUnexpected, detail: err.Error()}
}

// problem is the document for a request.
func (e *refusal) problem(r *http.Request) *Problem {
	return &Problem{problemURN + e.kind.name, e.kind.title, e.kind.status, e.detail, r.URL.EscapedPath(), e.count, e.problems}
}

// answer writes the problem document.
func (e *refusal) answer(w http.ResponseWriter, r *http.Request) {
	doc, err := json.Marshal(e.problem(r))
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if e.kind.status == http.StatusServiceUnavailable || e.kind.status == http.StatusTooManyRequests {
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(e.kind.status)
	_, _ = w.Write(append(doc, '\n'))
}

// quote writes what a caller has sent so that it can be shown.
func quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
