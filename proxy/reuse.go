package proxy

import (
	"context"

	"soapway/internal/field"
)

// What an exchange needs is kept for the next one on the same connection of a
// caller. Memory that is new for each is never in the processor's cache: it lies
// anywhere in the garbage that the collector has yet to find.
//
// Never is it shared between callers, and never put back while anybody might still
// look at it: alone lists what is known to be over with the exchange, and all else
// is left to the collector.

// reuseFields bounds the lists that are kept.
const reuseFields = 64

// newCall begins the call of an exchange.
func (h *Handler) newCall(ctx context.Context, ex *Exchange) *call {
	var c *call
	if k := ex.Caller; k != nil {
		if c = k.spare.Swap(nil); c != nil {
			c.closed.Store(false)
		}
	}
	if c == nil {
		c = new(call)
	}
	c.h, c.t, c.ex, c.ctx = h, h.table.Load(), ex, ctx
	return c
}

// giveBack keeps the call, which is finished, for the next exchange of its caller.
func (c *call) giveBack() {
	k := c.ex.Caller
	if k == nil || !c.alone() {
		return
	}
	request, reply := emptied(c.reqRoom.Header), emptied(c.replyRoom.Header)
	closing, cutting, opening := c.closing, c.cutting, c.opening
	*c = call{closing: closing, cutting: cutting, opening: opening, requestFields: request, replyFields: reply}
	c.closed.Store(true) // to close its reply once more does nothing
	k.spare.Store(c)
}

// alone reports whether nobody has anything of the call any more: a message that was
// whole in memory went to one HTTP node, once and as a whole, and its answer was
// whole in memory and is with the caller. Nothing was stored, copied, translated or
// compressed on the way, and nothing went wrong.
func (c *call) alone() bool {
	r := c.route
	switch {
	case !c.simple, c.attempts != 1, c.partly, c.logged != nil, c.inner != nil, c.decoded:
	case c.ex.Framed, c.ex.Arrival != nil, c.patient, c.ct.IsMultipart():
	case c.msg.stream != nil, c.msg.file != nil, len(c.msg.also) > 0, len(c.msg.data) > reuseMost:
	case r == nil, r.Delivery != Sync, r.shadow != nil, r.twin, r.late(), r.backend.Compress != CompressNone:
	default:
		return c.outcome == OutcomeAnswered || c.outcome == OutcomeFault
	}
	return false
}

// reuseMost is what a node surely writes at once, before it reads the answer.
const reuseMost = 64 << 10

// emptied is the memory of a list, without what it had.
func emptied(l field.List) field.List {
	if cap(l) > reuseFields {
		return nil
	}
	clear(l[:cap(l)])
	return l[:0]
}

// roomFor is an empty list with room for n fields: l, if that has it.
func roomFor(l field.List, n int) field.List {
	if cap(l) >= n {
		return l[:0]
	}
	return make(field.List, 0, n)
}
