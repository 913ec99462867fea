package proxy

import (
	"context"
	"errors"
	"time"

	"soapway/internal/field"
	"soapway/proxy/balance"
	"soapway/soapcodec"
)

// tries is what a policy sees of the backend for one message, and the try that
// is under way.
type tries struct {
	nodes  []Node
	states []nodeState
	few    [4]nodeState // memory of states, for most backends
	again  bool
	key    uint64
	keyed  bool
	cancel context.CancelCauseFunc // of the try under way, if it has a context of its own
	resp   *Response
	place  *Places // to give back; nil if none was taken
}

// nodeState is what the tries of one message know of a node.
type nodeState struct {
	tried  bool
	weight int64 // in the next pick; 0 = not to be picked
}

var _ balance.Nodes = (*tries)(nil)

func (t *tries) Len() int            { return len(t.nodes) }
func (t *tries) Load(i int) int64    { return t.nodes[i].InFlight() }
func (t *tries) Weight(i int) int64  { return t.states[i].weight }
func (t *tries) Again() bool         { return t.again }
func (t *tries) Key() (uint64, bool) { return t.key, t.keyed }

// pick takes the next node, -1 if all were tried.
func (t *tries) pick(b *backend) int {
	usable := false
	for i := range t.states {
		n := &t.states[i]
		n.weight = 0
		if !n.tried {
			n.weight = b.share(i)
			usable = usable || n.weight > 0
		}
	}
	if !usable {
		// Better a node that is out than none: see package health.
		for i := range t.states {
			if n := &t.states[i]; !n.tried {
				n.weight = b.weight(i)
			}
		}
	}
	i := b.Policy.Pick(t)
	if i >= 0 {
		t.take(i)
	}
	return i
}

func (t *tries) take(i int) { t.states[i].tried, t.again = true, true }

// end closes the response, which ends the try under way, and gives the place at
// the backend back.
func (t *tries) end() {
	if t.resp != nil && t.resp.Body != nil {
		t.resp.Body.Close()
	}
	t.resp = nil
	if t.cancel != nil {
		t.cancel(errDone)
		t.cancel = nil
	}
	if t.place != nil {
		t.place.give()
		t.place = nil
	}
}

var (
	errDone = errors.New("proxy: exchange is over")
	errGone = errors.New("proxy: the exchange was cut short")
)

// attempt sends the message to a node, and to the next one as long as it was
// not sent, another node is left and the backend's timeout has not run out
// (SPEC.md §4: sync tries again only not sent). It returns the answer's head
// and the number of the node. tail is the end of the request's path that nodes
// may get, see route.tail.
func (c *call) attempt(req *Request, tail string) (*Response, int, error) {
	b := c.route.backend
	began := time.Now()
	now := began
	c.tries.end()
	c.tries = tries{nodes: b.Nodes}
	if c.tries.states = c.tries.few[:0]; len(b.Nodes) > len(c.tries.few) {
		c.tries.states = make([]nodeState, 0, len(b.Nodes))
	}
	c.tries.states = c.tries.states[:len(b.Nodes)]
	c.tries.key, c.tries.keyed = c.hashKey(req)
	if err := c.takePlace(); err != nil {
		return nil, 0, err
	}
	var failed error
	for own := c.callerConn().node(b.Nodes); ; own = -1 {
		i := own
		if i >= 0 {
			c.tries.take(i)
		} else {
			i = c.tries.pick(b)
		}
		if i < 0 {
			return nil, 0, failed
		}
		req.Rest = c.route.rest(b.urls[i], tail)
		if err := c.fill(req, b.address(i, req.Rest)); err != nil {
			return nil, 0, err
		}
		resp, err := c.try(b, i, req, now)
		if err == nil {
			return c.follow(req, resp, i)
		}
		if blame := c.blame(err); blame != err {
			return nil, 0, blame
		}
		failed = graver(failed, err)
		var sent *SendError
		if !errors.As(err, &sent) || sent.Class != NotSent || sent.Source || !c.msg.again() ||
			time.Since(began) >= b.Answer || !c.until.IsZero() && !time.Now().Before(c.until) {
			return nil, 0, failed
		}
		now = time.Now()
	}
}

// blame returns the error that a failed try is to be told by: err unless the
// message or the caller is the cause.
func (c *call) blame(err error) error {
	if cause := c.msg.failure(); cause != nil {
		return cause // whatever the node makes of it
	}
	if c.ctx.Err() != nil {
		return &goneError{context.Cause(c.ctx), err}
	}
	return err
}

// try makes one try at node i. On success the response stays open until tries.end.
func (c *call) try(b *backend, i int, req *Request, began time.Time) (*Response, error) {
	c.attempts++
	c.node = b.Nodes[i].Name()
	ctx := c.ctx
	var cancel context.CancelCauseFunc
	if !c.until.IsZero() {
		ctx, cancel = context.WithCancelCause(ctx)
		held := time.AfterFunc(time.Until(c.until), func() { cancel(errHeld) })
		defer held.Stop()
	}
	place := c.traceTry(req)
	var resp *Response
	req, err := c.packed(b, i, req)
	if err == nil {
		resp, err = b.Nodes[i].Send(ctx, req)
	}
	return c.tried(i, place, began, resp, err, cancel)
}

// tried takes up how a try at node i has ended, which began with a place in a trace;
// cancel is that of its context, if it has one of its own.
func (c *call) tried(i int, place Trace, began time.Time, resp *Response, err error, cancel context.CancelCauseFunc) (*Response, error) {
	e := AttemptEvent{
		ID: c.ex.ID, Route: c.route.Name, Backend: c.route.backend.Name, Node: c.node,
		Duration: time.Since(began), Trace: place, Attempt: c.delivery.Attempt, Waited: c.waited,
	}
	c.waited = time.Time{}
	if err != nil {
		if cancel != nil {
			cancel(errDone)
		}
		var sent *SendError
		if !errors.As(err, &sent) {
			sent = &SendError{Class: Maybe, Err: err}
			err = sent
		}
		e.Class, e.Timeout = sent.Class, sent.Timeout
		c.failedTry(i, sent)
	} else {
		e.Status = resp.Status
		c.tries.resp, c.tries.cancel = resp, cancel
		c.bind(i, resp)
	}
	if o := c.h.opt.Observer; o != nil && !c.route.twin {
		o.ObserveAttempt(e)
	}
	return resp, err
}

// request is the message as nodes get it, but for Rest.
func (c *call) request() *Request {
	b := c.route.backend
	req := &Request{
		ID: c.ex.ID, Method: c.ex.Method,
		Query: c.target.query, HasQuery: c.target.hasQuery,
		Once:      c.msg.stream != nil,
		Version:   c.outgoing(),
		Caller:    c.callerConn(),
		Multipart: c.ct.IsMultipart(), Timeouts: Timeouts{Connect: b.Connect, Answer: b.Answer},
	}
	if !c.ex.Framed || !b.bare {
		req.Header = c.fields()
		req.Header.Set(messageID, c.ex.ID)
		b.addOwn(&req.Header)
	}
	if b.HostClient {
		req.Host = c.fwd.host
	}
	return req
}

// fields are those that describe the message and its way here, for a node or a
// store.
func (c *call) fields() field.List {
	h := c.fwd.requestHeader(c.decoded)
	switch {
	case c.ex.Framed:
		framedHeader(&h, c.outgoing(), c.action)
	case c.translated():
		c.translateFields(&h)
	case c.recoded:
		setType(&h, soapcodec.WithCharset(c.typ, "utf-8"))
	}
	if c.changed || c.decoded {
		h.DelFunc(func(f *field.Field) bool { return digest(canonical(f.Name)) })
	}
	return h
}

// graver chooses which of two errors of tries at different nodes is told: that
// one node is only busy before that one is down, and both before that the
// message does not fit a third.
func graver(a, b error) error {
	rank := func(err error) int {
		var s *SendError
		switch {
		case err == nil:
			return -1
		case !errors.As(err, &s) || s.Class != NotSent:
			return 3
		case errors.Is(err, ErrNoConnection):
			return 2
		case s.Permanent:
			return 0
		}
		return 1
	}
	if rank(b) >= rank(a) {
		return b
	}
	return a
}

// goneError says that the exchange ended before its answer was at the caller:
// the caller left, or was cut off. cause tells which.
type goneError struct{ cause, err error }

func (e *goneError) Error() string {
	s := errGone.Error()
	if e.cause != nil {
		s += " (" + e.cause.Error() + ")"
	}
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

func (e *goneError) Unwrap() error { return e.err }
