package proxy

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"soapway/internal/field"
)

// Arrival says that a request has come from another site over a link, and not from a
// listener: whoever takes links has proved the site and that it may send to
// Exchange.Route, so the guard of the route is not asked. The message is stored.
type Arrival struct {
	Site  string   // that sends it
	Sites []string // all that it has passed, Site last
	Label any      // for the store, see [Stored].Came
	Doubt bool     // it may have been processed before

	// Tail is what stood behind the path of the route at the site before; the target
	// of the Exchange has the query alone.
	Tail string
}

// Arrived is what has become of a message of another site.
type Arrived struct {
	// Outcome is OutcomeStored or OutcomeRepeated where it is durable, OutcomeBusy,
	// OutcomeUnknown, OutcomeCancelled or OutcomeInternal where it may come again, and
	// any other where it is refused for good.
	Outcome Outcome
	// Before says that a message with this label has come before.
	Before bool
	// NoRoute says that there is no such route, or that it does not store.
	NoRoute bool
	// Kept is the id of the message that it repeats, for a route with dedup.
	Kept string
	// Reason is one line, without content of the message.
	Reason     string
	RetryAfter int // seconds, 0 for none
}

// Arrive stores a message that has come from another site, after the same checks as
// for any other of its route.
func (h *Handler) Arrive(ctx context.Context, ex *Exchange) Arrived {
	r := h.table.Load().byName[ex.Route]
	if r == nil || !r.stores() {
		return Arrived{NoRoute: true, Outcome: OutcomeRejected, Reason: "there is no route " + ex.Route + " that stores messages"}
	}
	var path string
	switch tail := ex.Arrival.Tail; {
	case r.MatchNone || r.pathKind == exactPath:
		path = r.path
	default:
		path = r.path + tail
	}
	if path == "" {
		path = "/"
	}
	ex.Target = path + ex.Target
	c, reply := h.serveCall(ctx, ex)
	a := Arrived{Outcome: c.outcome, Before: c.before}
	if a.Outcome == OutcomeRepeated {
		a.Kept = reply.Header.Get(messageID)
	}
	if reply.Status != http.StatusAccepted {
		a.Reason = c.whyRefused(reply)
		a.RetryAfter, _ = strconv.Atoi(reply.Header.Get("Retry-After"))
	}
	if reply.Close != nil {
		reply.Close()
	}
	return a
}

// whyRefused is one line for an operator at the other site.
func (c *call) whyRefused(reply *Reply) string {
	why := strconv.Itoa(reply.Status)
	if code := c.code; code != "" {
		why += " " + string(code)
	}
	if c.logged != nil {
		why += ": " + strings.TrimPrefix(strings.TrimPrefix(c.logged.Error(), "proxy: "), "soapcodec: ")
	}
	return oneLine(why)
}

// siteCaller is the caller of a message that has come from another site.
func siteCaller(a *Arrival) string { return "site:" + a.Site }

// siteFields are the fields of the gateway's own that go with a message from site to
// site.
const originField = "Gateway-Origin"

// WithoutGateway removes the fields that a site writes anew: all that begin with
// Gateway-, but that which names the origin of the message.
func WithoutGateway(h *field.List) {
	h.DelFunc(func(f *field.Field) bool {
		c := canonical(f.Name)
		return strings.HasPrefix(c, "Gateway-") && c != originField
	})
}

// SetOrigin notes which site a message comes from and its id there, unless an earlier
// site has.
func SetOrigin(h *field.List, site, id string) {
	if h.Get(originField) == "" {
		h.Set(originField, site+"/"+id)
	}
}
