package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// Arrival says that a request has come from another site over a link, and not from a
// listener: whoever takes links has proved the site and that it may send to
// Exchange.Route, so the guard of the route is not asked. The message is stored.
type Arrival struct {
	Site  string   // that sends it
	Sites []string // all that it has passed, Site last
	Label any      // for the store, see [Stored].Came
	Doubt bool     // it may have been processed before

	// Behind says that it must not be stored unless the one before it, of those that
	// have come together, is, or was before.
	Behind bool

	// WantsReply is the id that the message has at Site, if its answer is to go back
	// there; else "". What the route does with answers does not count then.
	WantsReply string

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
	// Behind says that it was not looked at, or not stored, since the one before it was
	// not; it may come again.
	Behind bool
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

// arrival is a message that has come from another site and passed the checks.
type arrival struct {
	c      *call
	i      int // among those that have come together
	shadow *shadowCopy
}

// Arrive stores messages that have come from another site, after the same checks as for
// any other of their routes. They share what the store does for safety.
func (h *Handler) Arrive(ctx context.Context, exs []*Exchange) []Arrived {
	out := make([]Arrived, len(exs))
	table := h.table.Load()
	var list []arrival
	var ms []*Stored
	// Of those behind one another so far: one was refused; one is among ms.
	broken, follows := false, false
	for i, ex := range exs {
		if !ex.Arrival.Behind || i == 0 {
			broken, follows = false, false
		}
		if broken {
			out[i] = Arrived{Behind: true}
			continue
		}
		a := arrival{c: &call{h: h, t: table, ex: ex, ctx: ctx}, i: i}
		m, refused := a.receive()
		if m == nil {
			out[i], broken = refused, true
			continue
		}
		m.Behind, follows = follows, true
		list, ms = append(list, a), append(ms, m)
	}
	receipts, errs := h.enqueueAll(ctx, ms)
	for k := range list {
		a := &list[k]
		out[a.i] = a.concluded(&receipts[k], errs[k])
	}
	return out
}

// receive is what comes before the store. A nil message has become what is returned.
func (a *arrival) receive() (*Stored, Arrived) {
	c := a.c
	name := c.ex.Route
	r := c.t.byName[name]
	if r == nil || !r.stores() {
		return nil, Arrived{NoRoute: true, Outcome: OutcomeRejected, Reason: "there is no route " + name + " that stores messages"}
	}
	path := r.path
	if !r.MatchNone && r.pathKind != exactPath {
		path += c.ex.Arrival.Tail
	}
	if path == "" {
		path = "/"
	}
	c.ex.Target = path + c.ex.Target
	var m *Stored
	reply := c.guarded(func(c *call) (_ *Reply, err error) {
		if m, err = c.checked(); err == nil {
			a.shadow = c.newShadow()
		}
		return nil, err
	})
	if reply != nil {
		return nil, c.arrived(reply)
	}
	return m, Arrived{}
}

// checked is the message for the store, once it has passed the checks: the stages are
// those of serve.
func (c *call) checked() (*Stored, error) {
	c.begin()
	if err := c.aim(); err != nil {
		return nil, err
	}
	if c.following { // what is kept here is not for other sites to ask for
		return nil, refuse(statusNoRoute, soapcodec.CodeNoRoute)
	}
	if err := c.screen(); err != nil {
		return nil, err
	}
	if err := c.checkHead(); err != nil {
		return nil, err
	}
	if err := c.read(); err != nil {
		return nil, err
	}
	if err := c.checkOperation(); err != nil {
		return nil, err
	}
	return c.toStore()
}

// enqueueAll stores messages.
func (h *Handler) enqueueAll(ctx context.Context, ms []*Stored) ([]Receipt, []error) {
	if len(ms) == 0 {
		return nil, nil
	}
	ctx = context.WithoutCancel(ctx) // as in enqueue
	if all, ok := h.opt.Enqueuer.(BatchEnqueuer); ok {
		return all.EnqueueAll(ctx, ms)
	}
	receipts, errs := make([]Receipt, len(ms)), make([]error, len(ms))
	for i, m := range ms {
		if m.Behind && errs[i-1] != nil {
			errs[i] = ErrBehind
			continue
		}
		receipts[i], errs[i] = h.opt.Enqueuer.Enqueue(ctx, m)
	}
	return receipts, errs
}

// concluded ends the exchange of a message that the store was asked to keep.
func (a *arrival) concluded(receipt *Receipt, err error) Arrived {
	if err != nil || receipt.Repeat != "" {
		a.shadow.drop()
	} else {
		a.shadow.send()
	}
	behind := errors.Is(err, ErrBehind)
	reply := a.c.guarded(func(c *call) (*Reply, error) {
		switch {
		case behind:
			return nil, ErrStoreBusy
		case err != nil:
			return nil, err
		}
		return c.accepted(receipt)
	})
	out := a.c.arrived(reply)
	out.Behind = behind
	return out
}

// arrived is what has become of the message, of which reply tells.
func (c *call) arrived(reply *Reply) Arrived {
	c.finishOnClose(reply)
	a := Arrived{Outcome: c.outcome, Before: c.before}
	if a.Outcome == OutcomeRepeated {
		a.Kept = reply.Header.Get(messageID)
	}
	if reply.Status != http.StatusAccepted {
		a.Reason = c.whyRefused(reply)
		a.RetryAfter, _ = strconv.Atoi(reply.Header.Get("Retry-After"))
	}
	reply.Close()
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
