package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"soapway/internal/field"
)

// Shadow sends a copy of a share of the messages of a route to another backend.
// Nobody waits for a copy: what becomes of it is counted, and its answer is
// read and thrown away.
type Shadow struct {
	Backend *Backend

	// Percent of the messages are copied, drawn by chance: above 0 to 100.
	Percent float64
}

// ShadowResult says in one word what became of a copy.
type ShadowResult string

// The results; they are the values of the label result of gateway_shadow_total.
const (
	ShadowAnswered ShadowResult = "answered" // an envelope that is no fault, or an empty answer below 300
	ShadowFault    ShadowResult = "fault"    // a SOAP fault
	ShadowFailed   ShadowResult = "failed"   // no whole answer, or one that is not SOAP
	ShadowDropped  ShadowResult = "dropped"  // not sent, since too much was under way
	ShadowLarge    ShadowResult = "large"    // not sent, since the message is larger than Limits.Buffer
)

// ShadowEvent tells an [Observer] what became of one copy.
type ShadowEvent struct {
	ID, Route, Backend string
	Result             ShadowResult
	Status             int           // of the answer; 0 if there was none
	Duration           time.Duration // from the first try to the end of the answer
}

const (
	// shadowMost is how many copies of one route are under way at most, and
	// shadowOctets how much all copies hold in memory; one message may be larger.
	shadowMost   = 256
	shadowOctets = 32 << 20

	// shadowLongest bounds the life of a copy whose backend has no sooner end.
	shadowLongest = 5 * time.Minute
)

// shadowField tells a shadow backend that the message is a copy.
const shadowField = "Gateway-Shadow"

var (
	errShadowLate = errors.New("proxy: the copy took too long")
	errShadowCut  = errors.New("proxy: the gateway is stopping")
)

// shadow is a compiled [Shadow].
type shadow struct {
	route   *route // as the route itself, but to the other backend
	percent float64
	under   atomic.Int64 // copies under way
}

func compileShadow(r *route, b *backend) *shadow {
	twin := *r
	twin.backend, twin.Delivery, twin.shadow, twin.twin = b, Sync, nil, true
	return &shadow{route: &twin, percent: r.Shadow.Percent}
}

// shadows is what all copies of a Handler share.
type shadows struct {
	octets atomic.Int64 // that they hold
	ctx    context.Context
	cut    context.CancelCauseFunc
}

// take has room for one more copy of n octets, or does nothing.
func (all *shadows) take(s *shadow, n int64) bool {
	if all.ctx.Err() != nil {
		return false
	}
	if s.under.Add(1) > shadowMost {
		s.under.Add(-1)
		return false
	}
	if held := all.octets.Add(n); held > shadowOctets && held > n {
		all.give(s, n)
		return false
	}
	return true
}

func (all *shadows) give(s *shadow, n int64) {
	all.octets.Add(-n)
	s.under.Add(-1)
}

// CutShadows ends the copies that are under way, and begins no more.
func (h *Handler) CutShadows() { h.shadows.cut(errShadowCut) }

// Wait returns once nothing is under way that exchanges by this table have left
// behind: copies to shadow backends, and descriptions that are being kept. Call it
// when no exchange can use the table any more.
func (t *Table) Wait() {
	t.copies.Wait()
	for _, r := range t.byName {
		if r.front != nil {
			r.front.Front.Wait()
		}
	}
}

// shadowCopy is a copy of a message before it is sent.
type shadowCopy struct {
	call
	shadow *shadow
	octets int64
}

// sendShadow sends a copy of the message, if one is due, and does not wait for it.
func (c *call) sendShadow() { c.newShadow().send() }

// newShadow makes the copy of a message that has passed every check; nil if none
// is due, or none is possible. Either send or drop must follow.
func (c *call) newShadow() *shadowCopy {
	s := c.route.shadow
	if s == nil || c.shadowed || c.msg.bound {
		return nil
	}
	c.shadowed = true // also if it is not drawn: a message is drawn once
	if s.percent < 100 && rand.Float64()*100 >= s.percent {
		return nil
	}
	if c.msg.stream != nil || c.msg.file != nil {
		c.tellShadow(s, ShadowEvent{Result: ShadowLarge})
		return nil
	}
	octets := int64(len(c.msg.data))
	if !c.h.shadows.take(s, octets) {
		c.tellShadow(s, ShadowEvent{Result: ShadowDropped})
		return nil
	}
	ex := *c.ex
	ex.Header, ex.Body, ex.Caller, ex.Waits = c.withoutCredentials(), nil, nil, nil
	p := &shadowCopy{shadow: s, octets: octets, call: call{
		h: c.h, t: c.t, ex: &ex, route: s.route, target: c.target, fwd: c.fwd, typ: c.typ, ct: c.ct,
		version: c.version, decoded: c.decoded, recoded: c.recoded, changed: c.changed, canonical: c.canonical,
		action: c.action, child: c.child, keys: c.keys, shadowed: true,
	}}
	p.fwd.ex = &ex
	p.msg.data, p.msg.length = c.msg.data, c.msg.length
	switch {
	case c.route.stores():
		p.msg.data = slices.Clone(c.msg.data) // they will be the store's
	case c.msg.buf != nil:
		p.msg.buf = c.msg.buf
		p.msg.buf.retain()
	}
	return p
}

// withoutCredentials are the caller's fields without those that prove to the
// route's own backend, or to the gateway, who it is: a shadow backend is another
// system, which must not be able to speak for the caller.
func (c *call) withoutCredentials() field.List {
	key := ""
	if c.route.Guard != nil {
		key = c.route.Guard.KeyHeader()
	}
	h := c.ex.Header.Clone()
	h.DelFunc(func(f *field.Field) bool { return f.Is("Authorization") || f.Is("Cookie") || key != "" && f.Is(key) })
	return h
}

// drop gives a copy up: its message was not accepted, or it has been sent.
func (p *shadowCopy) drop() {
	if p != nil {
		p.msg.close()
		p.h.shadows.give(p.shadow, p.octets)
	}
}

// send sends the copy in a goroutine of its own.
func (p *shadowCopy) send() {
	if p == nil {
		return
	}
	req := p.request()
	if req.Header != nil {
		req.Header.Set(shadowField, "true")
	}
	p.t.copies.Go(func() {
		defer p.drop()
		began := time.Now()
		e := p.exchange(req)
		e.Duration = time.Since(began)
		p.tellShadow(p.shadow, e)
	})
}

// exchange sends the copy to a node, and to the next one as long as it was not
// sent, and reads the answer to its end.
func (p *shadowCopy) exchange(req *Request) (e ShadowEvent) {
	b := p.route.backend
	limit := shadowLongest
	if b.Answer < shadowLongest/2 {
		limit = min(limit, b.Connect+2*b.Answer)
	}
	ctx, cancel := context.WithTimeoutCause(p.h.shadows.ctx, limit, errShadowLate)
	defer cancel()
	p.ctx = ctx
	e.Result = ShadowFailed
	defer func() {
		p.tries.end()
		if v := recover(); v != nil {
			p.h.opt.Log.Error("copy panicked", "id", p.ex.ID, "route", p.route.Name, "panic", fmt.Sprint(v), slog.String("stack", string(debug.Stack())))
		}
	}()
	resp, node, err := p.attempt(req, p.route.tail(p.target.path))
	if err != nil {
		p.failed(err)
		return e
	}
	e.Status = resp.Status
	a := &answerFacts{status: resp.Status}
	if err := p.readAnswer(resp, a, new(keeper)); err != nil {
		if ctx.Err() == nil {
			b.mark(node, false, oneLine(err.Error()))
		}
		p.failed(err)
		return e
	}
	b.mark(node, !a.gateway(), statusReason(a.status))
	switch {
	case a.content == contentFault:
		e.Result = ShadowFault
	case a.content == contentSOAP, a.content == contentEmpty && a.status < 300:
		e.Result = ShadowAnswered
	}
	return e
}

// failed notes why a copy came to nothing. The counters are for operators; the
// single case is for whoever looks for it.
func (p *shadowCopy) failed(err error) {
	p.h.opt.Log.Debug("copy to the shadow backend failed", "id", p.ex.ID, "route", p.route.Name, "backend", p.route.backend.Name, "error", cut(err.Error(), 1024))
}

// tellShadow tells the observer of a copy.
func (c *call) tellShadow(s *shadow, e ShadowEvent) {
	if o := c.h.opt.Observer; o != nil {
		e.ID, e.Route, e.Backend = c.ex.ID, c.route.Name, s.route.backend.Name
		o.ObserveShadow(e)
	}
}
