package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// The fields that tell a backend about the attempts of a stored message.
const (
	attemptField   = "Gateway-Attempt"
	duplicateField = "Gateway-Possible-Duplicate"
)

// Try says which attempt of a stored message is made.
type Try struct {
	Attempt           int  // from 1
	PossibleDuplicate bool // an earlier attempt may have been processed
}

// DeliveryResult is how an attempt for a stored message ended.
type DeliveryResult struct {
	Verdict Verdict

	// Unhealthy counts against the backend: not sent, maybe processed, or a 502,
	// 503 or 504 that is not SOAP.
	Unhealthy bool

	// Denied says that credentials were refused which are not the caller's: every
	// message for the backend would be.
	Denied bool

	// Maybe says that the backend may have processed the message all the same.
	Maybe bool

	Status     int           // of the answer, 0 if there was none
	Reason     string        // one line for an operator, without content of the message; "" when delivered
	RetryAfter time.Duration // what the backend asked for
	Reply      []byte        // the start of the answer, at most 64 KiB, unless it was delivered
	ReplyType  string        // its Content-Type

	// Kept is what the caller finds later, of a message that was delivered; nil
	// where its answer is discarded.
	Kept *KeptReply

	// Awaits is what [Handler.Answer] needs of a message that was delivered to another
	// site, which is to answer it later; nil where nothing is to come.
	Awaits []byte

	// Next is the answer as a message to whom it is to go, of a message that was
	// delivered or, if it is a fault, is dead; nil where it goes nowhere. The
	// store gives it an id.
	Next *Stored
}

// keptReply is how much of an answer a dead letter keeps.
const keptReply = 64 << 10

// Deliver makes one attempt for a stored message, by the present settings of
// its route and backend: the nodes are tried as for any other message, the next
// one as long as nothing was sent. When ctx ends before the answer is complete
// the verdict is Aborted.
func (h *Handler) Deliver(ctx context.Context, m *Stored, try Try) (result DeliveryResult) {
	d := h.delivery(ctx, h.table.Load(), m, try)
	defer d.recovered(&result)
	if d.prepare() {
		d.send()
	}
	return d.result
}

// delivery is an attempt for a stored message.
type delivery struct {
	c      *call
	m      *Stored
	meta   *storedMeta
	try    Try
	req    *Request
	result DeliveryResult
	over   bool // result is the result
}

func (h *Handler) delivery(ctx context.Context, t *Table, m *Stored, try Try) *delivery {
	return &delivery{m: m, try: try, c: &call{h: h, t: t, ctx: ctx, ex: &Exchange{ID: m.ID, Method: http.MethodPost}, laneOf: m.Lane, patient: true}}
}

// recovered ends the attempt, to be deferred: a panic is its result.
func (d *delivery) recovered(result *DeliveryResult) {
	d.c.tries.end()
	if p := recover(); p != nil {
		d.c.h.opt.Log.Error("delivery panicked", "id", d.m.ID, "route", d.m.Route, "panic", fmt.Sprint(p), slog.String("stack", string(debug.Stack())))
		*result = DeliveryResult{Verdict: VerdictRetry, Maybe: true, Reason: "internal error"}
	}
}

// end sets the result. It returns false, for those who have come to none but this.
func (d *delivery) end(r DeliveryResult) bool {
	d.result, d.over = r, true
	return false
}

// prepare makes the request; false means that there is none, and the result says why.
func (d *delivery) prepare() bool {
	c, m := d.c, d.m
	r := c.t.byName[m.Route]
	if r == nil {
		r = c.t.answers[m.Route]
	}
	if r == nil {
		return d.end(DeliveryResult{Verdict: VerdictAborted, Reason: "the route is gone"})
	}
	c.choose(r)
	meta, err := readMeta(m.Meta)
	if err != nil {
		return d.end(DeliveryResult{Verdict: VerdictDead, Reason: oneLine(err.Error())})
	}
	d.meta = meta
	d.try.PossibleDuplicate = d.try.PossibleDuplicate || meta.Doubt
	c.resumeTrace(meta.Header, m.Accepted, d.try.Attempt)
	c.version = meta.version()
	if c.msg.data, c.msg.length = m.Body, int64(len(m.Body)); m.Blob != nil {
		c.msg.file, c.msg.length = m.Blob, m.Blob.Size()
	}
	c.delivery = soapcodec.Delivery{Attempt: d.try.Attempt, PossibleDuplicate: d.try.PossibleDuplicate}
	req := c.storedRequest(meta, d.try)
	if req.Label = m.Label; req.Label != nil {
		req.WantsReply = meta.wanted()
		req.Host, req.Doubt, req.Action, req.Accepted = string(meta.Host), d.try.PossibleDuplicate, string(meta.Action), m.Accepted
		for _, s := range meta.Sites {
			req.Sites = append(req.Sites, string(s))
		}
	}
	if reason := c.aimAnswer(req, string(meta.To)); reason != "" {
		return d.end(DeliveryResult{Verdict: VerdictDead, Reason: reason})
	}
	d.req = req
	return true
}

// send sends the request and judges the answer.
func (d *delivery) send() {
	resp, node, err := d.c.attempt(d.req, string(d.meta.Tail))
	d.answered(resp, node, err)
}

func (d *delivery) answered(resp *Response, node int, err error) {
	if err != nil {
		d.end(d.c.notAnswered(err))
		return
	}
	d.end(d.c.takeAnswer(resp, node, d.m, d.meta, d.try))
}

// storedRequest is a stored message as nodes get it.
func (c *call) storedRequest(meta *storedMeta, try Try) *Request {
	b := c.route.backend
	h := make(field.List, 0, len(meta.Header)+4)
	for _, f := range meta.Header {
		h.Add(string(f[0]), string(f[1]))
	}
	h.Set(messageID, c.ex.ID)
	h.Set(attemptField, strconv.Itoa(try.Attempt))
	if try.PossibleDuplicate {
		h.Set(duplicateField, "true")
	}
	b.addOwn(&h)
	c.ct, _ = soapcodec.ParseContentType(h.Get("Content-Type")) // one that cannot be read is that of no package
	req := &Request{
		Multipart: c.ct.IsMultipart(),
		ID:        c.ex.ID, Method: c.ex.Method, Query: string(meta.Query), HasQuery: meta.HasQuery,
		Header: h, Body: c.msg.open, Length: c.msg.length, Version: c.version,
		Timeouts: Timeouts{Connect: b.Connect, Answer: b.Answer},
	}
	if b.HostClient {
		req.Host = string(meta.Host)
	}
	return req
}

// notAnswered is the result of an attempt without an answer.
func (c *call) notAnswered(err error) DeliveryResult {
	if errors.Is(err, errRedirects) {
		return DeliveryResult{Verdict: VerdictDead, Reason: oneLine(errRedirects.Error())}
	}
	var message *soapcodec.Error
	if errors.As(err, &message) {
		// Refused before anything was sent: the route has changed since.
		return DeliveryResult{Verdict: VerdictDead, Reason: "the message can not be changed as its route asks: " + string(message.Code)}
	}
	var sent *SendError
	if !errors.As(err, &sent) {
		sent = &SendError{Class: Maybe, Err: err}
	}
	if c.ctx.Err() != nil {
		return DeliveryResult{Verdict: VerdictAborted, Maybe: sent.Class != NotSent, Reason: oneLine(err.Error())}
	}
	return judgeError(sent)
}

// takeAnswer reads an answer to its end, under the same checks as for a caller
// that waits, and judges it. node is the number of its node. What the caller is to
// find later, or to get, must fit one record of the store.
func (c *call) takeAnswer(resp *Response, node int, m *Stored, meta *storedMeta, try Try) DeliveryResult {
	a := &answerFacts{status: resp.Status, oneway: c.route.OneWay, told: resp.Reason}
	keep := &keeper{most: keptReply}
	if meta.wanted() {
		keep.most = MaxKept
	}
	err := c.readAnswer(resp, a, keep)
	c.tries.end()
	if err != nil {
		// It broke off: not a complete answer, so the message is maybe processed.
		if c.ctx.Err() == nil {
			c.route.backend.mark(node, false, oneLine(err.Error()))
		}
		return c.notAnswered(&SendError{Class: Maybe, Timeout: timedOut(err), Err: err})
	}
	c.route.backend.mark(node, !a.gateway(), statusReason(a.status))
	a.ownCredentials = a.refused() && c.ownCredentials(a)
	if a.content == contentOther && a.status < 300 {
		a.oneway = c.oneWay(m, meta)
	}
	r := a.judge()
	if r.Verdict == VerdictRetry {
		r.RetryAfter = retryWish(resp.Header, time.Now())
	}
	if resp.Later && r.Verdict == VerdictDelivered && meta.wanted() {
		r.Awaits = meta.awaited()
		return r
	}
	if err := c.passOn(&r, resp, node, a, keep.b, meta, try, nil); err != nil {
		// It was processed, and what has come of it is worth a person's look.
		r = DeliveryResult{Verdict: VerdictDead, Maybe: true, Status: a.status, Reason: "the answer can not be kept or sent on: " + oneLine(err.Error())}
	}
	if r.Verdict != VerdictDelivered && len(keep.b) > 0 {
		r.Reply, r.ReplyType = keep.b[:min(len(keep.b), keptReply)], resp.Header.Get("Content-Type")
	}
	return r
}

// passOn makes what is kept for the caller, and what is sent on, of a judged answer
// with these octets. A fault that is worth another try is not the last word. sites are
// those that the answer has passed.
func (c *call) passOn(r *DeliveryResult, resp *Response, node int, a *answerFacts, body []byte, meta *storedMeta, try Try, sites []string) (err error) {
	if meta.Back != nil {
		if r.Verdict == VerdictDelivered || r.Verdict == VerdictDead {
			r.Next, err = c.returned(r, resp, node, a, body, meta.Back, try.PossibleDuplicate, sites)
		}
		return err
	}
	if r.Verdict == VerdictDelivered && meta.Reply != nil {
		if r.Kept, err = c.keepAnswer(resp, node, a, body, meta.Reply); err != nil {
			return err
		}
	}
	if meta.Answer == nil {
		return nil
	}
	var to *answerTarget
	switch {
	case r.Verdict == VerdictDelivered && a.content == contentSOAP:
		to = meta.Answer.Reply
	case r.Verdict == VerdictDead && a.content == contentFault:
		to = meta.Answer.Fault
	}
	if to != nil {
		r.Next, err = c.answerMessage(resp, node, a, body, meta.Answer, to, try.PossibleDuplicate)
	}
	return err
}

// readAnswer reads the answer and fills in what it consists of. Its error is
// one of the transport: the answer is not complete.
func (c *call) readAnswer(resp *Response, a *answerFacts, keep *keeper) error {
	if resp.Body == nil || resp.Length == 0 || bodiless(c.ex.Method, resp.Status) {
		return nil
	}
	lim := c.route.replyLimits
	if keep.most > keptReply {
		lim.MaxMessage = min(lim.MaxMessage, int64(keep.most))
	}
	ct, err := soapcodec.ParseContentType(resp.Header.Get("Content-Type"))
	coding := contentCoding(resp.Header)
	if resp.Framed {
		ct, err, coding = soapcodec.ContentType{}, nil, codingIdentity
	}
	known := err == nil && (ct.IsSOAP() || ct.IsPackage()) && coding != codingUnknown
	if coding == codingUnknown {
		coding = codingIdentity
	}
	src := newBody(resp.Body, coding, lim)
	keep.r = src
	err = errNotEnvelope
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	if known {
		err = c.checkAnswer(dec, keep, ct)
	}
	c.codec.Add(src.n)
	if err != nil {
		// What is left may tell that the answer is cut or too large; else it
		// frees the connection for the next message.
		if _, rest := io.Copy(io.Discard, keep); rest != nil {
			err = rest
		}
	}
	var broken *bodyError
	switch {
	case errors.As(err, &broken):
		return broken
	case keep.n == 0 && src.wire.n == 0:
	case errors.Is(err, errTooLarge):
		a.content = contentLarge
	case err != nil:
		a.content = contentOther
	default:
		f := dec.Facts()
		a.content, a.version = contentSOAP, f.Version
		if isFault(f) {
			a.content = contentFault
			if f.Fault != nil {
				a.code, a.sub = f.Fault.Code, f.Fault.Subcodes
			}
			if resp.Framed {
				// A frame has no status; that of the version's HTTP binding stands for it.
				a.status = http.StatusInternalServerError
			}
		}
	}
	return nil
}

var errNotEnvelope = errors.New("proxy: the answer is not an envelope")

// checkAnswer reads an answer with bounded memory.
func (c *call) checkAnswer(dec *soapcodec.Decoder, r io.Reader, ct soapcodec.ContentType) error {
	if ct.IsMultipart() {
		return newRelated(dec, c.route.check, c.route.replyLimits, "").from(r, ct).check(nil)
	}
	rd, err := xmlstream.NewReader(r, ct.Charset)
	if err != nil {
		return err
	}
	dec.SetOptions(c.route.check)
	dec.Reset(rd)
	return dec.Finish()
}

// keeper keeps the first octets that are read through it.
type keeper struct {
	r    io.Reader
	b    []byte
	n    int64
	most int
}

func (k *keeper) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	k.n += int64(n)
	if room := k.most - len(k.b); room > 0 {
		k.b = append(k.b, p[:min(n, room)]...)
	}
	return n, err
}

// Probe asks whether a backend can be reached, by checking its nodes all at
// once: one is enough. The error is that of the first in their order.
func (h *Handler) Probe(ctx context.Context, name string) error {
	b := h.table.Load().backends[name]
	if b == nil {
		return fmt.Errorf("proxy: no route leads to a backend %s", cut(strconv.Quote(name), 100))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(b.Nodes))
	var wg sync.WaitGroup
	var up sync.Once
	reached := false
	for i := range b.Nodes {
		wg.Go(func() {
			if errs[i] = b.CheckNode(ctx, i); errs[i] == nil {
				up.Do(func() { reached = true; cancel() })
			}
		})
	}
	wg.Wait()
	if reached {
		return nil
	}
	return fmt.Errorf("proxy: %s", strings.TrimPrefix(errs[0].Error(), "proxy: "))
}
