package proxy

import (
	"bytes"
	"context"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"soapway/proxy/guard"
	"soapway/soapcodec"
)

// Handler answers exchanges by its table of routes.
type Handler struct {
	opt   Options
	table atomic.Pointer[Table]
	large chan struct{} // holds one for each large message of unknown length that is read into memory
	began time.Time     // with a monotonic reading

	swapped chan struct{} // has something when there is a new table: for Learn
	shadows shadows
	types   mediaTypes
}

var _ Server = (*Handler)(nil)

// now is the time by which replies expire: the wall clock as it was when the handler
// was made, and what has passed since, so that no change of it ends them early.
func (h *Handler) now() time.Time { return h.began.Add(time.Since(h.began)) }

// NewHandler returns a handler that routes by t.
func NewHandler(t *Table, opt Options) *Handler {
	h := &Handler{opt: opt.withDefaults(), large: make(chan struct{}, manyUnsure), began: time.Now(), swapped: make(chan struct{}, 1)}
	h.table.Store(t)
	h.shadows.ctx, h.shadows.cut = context.WithCancelCause(context.Background())
	return h
}

// Swap puts a new table in place. Exchanges under way keep theirs.
func (h *Handler) Swap(t *Table) {
	h.table.Store(t)
	wakeUp(h.swapped)
}

// Serve implements [Server].
func (h *Handler) Serve(ctx context.Context, ex *Exchange) *Reply {
	c := &call{h: h, t: h.table.Load(), ex: ex, ctx: ctx}
	reply := c.guarded((*call).serve)
	c.finishOnClose(reply)
	return reply
}

// guarded returns the reply that a stage has made, and never nil: an error, or a panic,
// is a reply of the gateway's own.
func (c *call) guarded(stage func(*call) (*Reply, error)) (reply *Reply) {
	defer func() {
		if p := recover(); p != nil {
			c.close()
			reply = c.answer(&panicError{value: p, stack: debug.Stack()})
			reply.CloseConnection = true
		}
	}()
	reply, err := stage(c)
	if err != nil {
		c.close()
		reply = c.answer(err)
	}
	return reply
}

// serve is the way of a message, one line a stage. Every error is an answer of
// the gateway's own; answer knows which.
func (c *call) serve() (*Reply, error) {
	c.begin()
	if err := c.aim(); err != nil {
		return nil, err
	}
	if c.following {
		return c.fateOf()
	}
	if way, err := c.admit(); err != nil {
		return nil, err
	} else if way != nil {
		if err := c.enter(c.route); err != nil {
			return nil, err
		}
		return way(c)
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
	if !c.route.prompt {
		c.waits()
	}
	if err := c.checkOperation(); err != nil {
		return nil, err
	}
	switch c.route.Delivery {
	case Queue:
		return c.enqueue()
	case SyncThenQueue:
		return c.tryThenEnqueue()
	}
	c.sendShadow()
	resp, node, err := c.attempt(c.request(), c.route.tail(c.target.path))
	if err != nil {
		return nil, err
	}
	reply, err := c.reply(resp, node)
	c.judge(node, resp.Status, err)
	return reply, err
}

// call is one exchange under way.
type call struct {
	h   *Handler
	t   *Table
	ex  *Exchange
	ctx context.Context

	target  target
	fwd     forwarding
	cand    candidates
	route   *route // nil until chosen
	typ     string // the request's Content-Type field
	ct      soapcodec.ContentType
	coding  coding
	src     *body // the request's body; nil until it is read
	version soapcodec.Version
	decoded bool   // a content coding was removed
	recoded bool   // the charset was converted, or Content-Type names the wrong one
	changed bool   // octets differ from those received
	action  string // wsa:Action

	charset   string          // of the message as received, and
	agrees    bool            // whether all that names it agrees: for strict routes only
	canonical bool            // a stream is made canonical while it passes
	child     soapcodec.QName // the first child of Body
	keys      []string        // Facts.Keys
	identity  *Identity       // nil: the message is no repeat of anything
	asks      *answerWish     // nil: the answer is sent nowhere
	keeps     bool            // the answer is kept for the caller, since the message asks for it here
	laneOf    string          // Stored.Lane, of a stored message
	patient   bool            // is stored, and can wait for its turn at a busy backend
	envelope  bool            // the answer is one
	following bool            // asks what has become of a stored message
	before    bool            // has come from another site before

	until time.Time // when a try that waits for an answer is given up; zero = as the backend says
	doubt bool      // a backend may have processed the message that is stored

	shadowed bool // whether a copy is due was decided, or this is one

	guard     *guard.Guard
	entered   bool   // Guard.Leave is due
	caller    string // who the caller has proved to be; "" for nobody
	proofOpen bool   // the envelope has to prove it

	msg   message
	tries tries
	large bool // counted in Handler.large

	// What is known for the observer and the log.
	outcome  Outcome
	code     soapcodec.Code
	logged   error
	delivery soapcodec.Delivery // what a header block tells nodes, but for the id
	attempts int
	node     string       // of the last try
	trace    Trace        // of the exchange, or of the one that has stored the message
	waited   time.Time    // since when a stored message has, until its first try is told
	sent     int64        // octets of a reply that streams
	partly   bool         // the caller has got only a part of it
	codec    atomic.Int64 // octets checked; a stream adds to it while it passes
	asIs     atomic.Bool  // a signature forbade normalization; a stream may tell late

	status int     // of the reply
	length int64   // of its body; -1 if its head does not tell
	inner  func()  // its own Close
	buf    *buffer // what it lies in; nil if the garbage collector owns that
	closed atomic.Bool

	// Room for what most exchanges need once, in one piece of memory.
	srcRoom   body
	answering answer
	replyRoom Reply
	out       bytes.Reader
}

func (c *call) begin() {
	if c.ex.Received.IsZero() {
		c.ex.Received = time.Now()
	}
	c.ex.ID = newID(c.ex.Received)
	c.beginTrace()
	c.fwd = forwarding{table: c.t, ex: c.ex, trusted: c.t.trusts(c.ex.Client.Addr()), host: c.ex.Host}
	if a := c.ex.Arrival; a != nil {
		c.fwd.trusted, c.caller, c.doubt = true, siteCaller(a), a.Doubt
	}
	if !c.ex.Framed {
		c.fwd.scheme = "http"
		if c.ex.TLS {
			c.fwd.scheme = "https"
		}
	}
}

// aim takes the target apart and finds the routes that the head allows.
func (c *call) aim() error {
	c.typ = c.ex.Header.Get("Content-Type")
	if name := c.ex.Route; name != "" {
		r := c.t.byName[name]
		if r == nil {
			return refuse(statusNoRoute, soapcodec.CodeNoRoute)
		}
		c.cand.fixed = r
	}
	if c.ex.Framed {
		if c.cand.fixed == nil {
			c.cand.list = c.t.framed
		}
	} else {
		var err error
		if c.target, err = parseTarget(c.ex.Target); err != nil {
			return refuse(statusBadTarget, "")
		}
		if c.target.authority != "" {
			c.fwd.host = c.target.authority
		}
		if c.following = strings.HasPrefix(c.target.path, messagesPath); c.following {
			return nil
		}
		if reserved(c.target.path) {
			return refuse(statusNoRoute, soapcodec.CodeNoRoute)
		}
		if c.cand.fixed == nil {
			c.cand.list = c.t.index.find(c.target.path)
			c.cand.head, c.cand.path = headFacts{host: c.fwd.host, header: c.ex.Header}, c.target.path
		}
	}
	if c.cand.first() == nil {
		return refuse(statusNoRoute, soapcodec.CodeNoRoute)
	}
	if l := c.cand.limits(); headBytes(c.ex) > l.HeaderBytes {
		return refuse(statusHeaderTooLarge, soapcodec.CodeTooLarge)
	}
	return nil
}

// admit decides by the method (SPEC.md §3.2): SOAP goes on, for which it
// returns nil; descriptions and unchecked methods have ways of their own; others
// are refused.
func (c *call) admit() (way func(*call) (*Reply, error), err error) {
	if c.ex.Framed || c.ex.Method == "POST" {
		return nil, nil
	}
	r := c.cand.withoutBody()
	wsdl := (c.ex.Method == "GET" || c.ex.Method == "HEAD") && wsdlQuery(c.target.query)
	switch {
	case r == nil && wsdl:
		return nil, refuse(statusNoRoute, soapcodec.CodeNoRoute)
	case r == nil:
		return nil, refuse(statusMethod, "").with("Allow", c.cand.first().allow)
	}
	c.route = r
	switch {
	case wsdl && r.front != nil:
		return (*call).describe, nil
	case r.passes(c.ex.Method), wsdl && r.WSDLPass:
		return (*call).passThrough, nil
	}
	return nil, refuse(statusMethod, "").with("Allow", r.allow)
}

// checkHead refuses what the fields tell before the body is read (SPEC.md §3.3).
func (c *call) checkHead() error {
	if !c.ex.Framed {
		ct, err := c.h.types.parse(c.typ)
		if err != nil || !ct.IsSOAP() && !ct.IsPackage() || c.ex.Header.Count("Content-Type") > 1 {
			return refuse(statusMediaType, "")
		}
		c.ct = ct
		c.coding = contentCoding(c.ex.Header)
		if c.coding == codingUnknown {
			return refuse(statusMediaType, "").with("Accept-Encoding", acceptEncoding)
		}
	}
	if c.ex.Length > c.cand.limits().MaxMessage {
		return errTooLarge
	}
	return nil
}

// waits tells the listener that the exchange is about to wait.
func (c *call) waits() {
	if w := c.ex.Waits; w != nil {
		c.ex.Waits = nil
		w.Wait()
	}
}

// close lets go of everything that the exchange holds.
func (c *call) close() {
	c.tries.end()
	c.msg.close()
	if c.buf != nil {
		c.buf.release()
		c.buf = nil
	}
	c.leave()
	c.letGo()
}

// letGo gives back the place of a large message in memory.
func (c *call) letGo() {
	if c.large {
		c.large = false
		<-c.h.large
	}
}

// finishOnClose makes the reply's Close, which the listener calls once the
// reply is written, release everything and report the exchange.
func (c *call) finishOnClose(r *Reply) {
	c.status, c.length, c.inner = r.Status, r.Length, r.Close
	if r.Body == nil {
		c.length = 0 // it may be that of what GET would bring
	}
	r.Cut, r.Close = c.cutShort, c.finish
}

// cutShort is the Cut of the reply.
func (c *call) cutShort(err error) {
	c.partly = true
	if c.logged == nil {
		c.outcome, c.logged = OutcomeCancelled, &goneError{context.Cause(c.ctx), err}
	}
}

// finish is the Close of the reply.
func (c *call) finish() {
	if !c.closed.CompareAndSwap(false, true) {
		return
	}
	if c.inner != nil {
		c.inner()
	}
	c.close()
	c.report(c.status, c.length)
}

// operation is the name that metrics may carry: only one that the description of
// the service or the route names.
func (c *call) operation() string {
	if c.route == nil {
		return ""
	}
	if op := c.described(); op != nil {
		if name := c.route.front.Label(op); name != "" {
			return name
		}
	}
	if c.route.MatchNone {
		return ""
	}
	return c.route.Match.Operation.Local
}

// cut shortens untrusted text for logs.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
