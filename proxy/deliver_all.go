package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// DeliverAll is Deliver for many stored messages. Those for one [BatchNode] go to it
// together. One that is Behind another is tried only where that is taken, or goes with it
// to the node, which sees to that.
func (h *Handler) DeliverAll(ctx context.Context, ms []*Stored, tries []Try) []DeliveryResult {
	g := group{ctx: ctx, all: make([]*delivery, len(ms))}
	table := h.table.Load()
	for i, m := range ms {
		g.all[i] = h.delivery(ctx, table, m, tries[i])
	}
	func() {
		defer func() {
			if p := recover(); p != nil {
				h.opt.Log.Error("delivery panicked", "messages", len(ms), "panic", fmt.Sprint(p), slog.String("stack", string(debug.Stack())))
			}
		}()
		for i := range g.all {
			g.deliver(i)
		}
		g.send()
	}()
	results := make([]DeliveryResult, len(ms))
	for i, d := range g.all {
		d.c.tries.end()
		if results[i] = d.result; !d.over {
			results[i] = DeliveryResult{Verdict: VerdictRetry, Maybe: true, Reason: "internal error"}
		}
	}
	return results
}

// group is stored messages that are delivered together.
type group struct {
	ctx  context.Context
	all  []*delivery
	node BatchNode // of those that wait
	wait []*together
}

// together is a delivery that waits for others to go with it.
type together struct {
	*delivery
	req   *Request
	place Trace
	began time.Time
}

// deliver prepares a delivery to go with others, or makes it.
func (g *group) deliver(i int) {
	d := g.all[i]
	behind := d.m.Behind && i > 0
	if behind && !g.taken(i-1) {
		d.end(DeliveryResult{Verdict: VerdictBehind})
		return
	}
	if !d.prepare() {
		return
	}
	node := d.batchNode()
	if node == nil || g.node != nil && node != g.node {
		g.send()
		if behind && !g.taken(i-1) {
			d.end(DeliveryResult{Verdict: VerdictBehind})
			return
		}
	}
	if node == nil {
		d.send()
		d.c.tries.end()
		return
	}
	d.req.Follows = behind && len(g.wait) > 0 && g.wait[len(g.wait)-1].delivery == g.all[i-1]
	g.node = node
	g.join(d)
}

// taken reports whether a message was taken, or waits to be.
func (g *group) taken(i int) bool {
	d := g.all[i]
	return !d.over || d.result.Verdict == VerdictDelivered
}

// batchNode is the node of the backend, if it has one and that takes many messages.
func (d *delivery) batchNode() BatchNode {
	nodes := d.c.route.backend.Nodes
	if len(nodes) != 1 {
		return nil
	}
	n, _ := nodes[0].(BatchNode)
	return n
}

// join makes a delivery wait, as attempt and try do before they send.
func (g *group) join(d *delivery) {
	c, b := d.c, d.c.route.backend
	c.tries = tries{nodes: b.Nodes}
	if len(g.wait) == 0 { // together they are one exchange
		if err := c.takePlace(); err != nil {
			d.answered(nil, 0, err)
			return
		}
	}
	w := &together{delivery: d, began: time.Now()}
	d.req.Rest = c.route.rest(b.urls[0], string(d.meta.Tail))
	err := c.fill(d.req, b.address(0, d.req.Rest))
	if err == nil {
		c.attempts++
		c.node = b.Nodes[0].Name()
		w.place = c.traceTry(d.req)
		w.req, err = c.packed(b, 0, d.req)
	}
	if err != nil {
		d.answered(nil, 0, err)
		c.tries.end()
		return
	}
	g.wait = append(g.wait, w)
}

// send sends what waits and judges the answers.
func (g *group) send() {
	wait, node := g.wait, g.node
	g.wait, g.node = nil, nil
	if len(wait) == 0 {
		return
	}
	reqs := make([]*Request, len(wait))
	for i, w := range wait {
		reqs[i] = w.req
	}
	sent := node.SendAll(g.ctx, reqs)
	for i, w := range wait {
		if errors.Is(sent[i].Err, ErrBehind) {
			w.end(DeliveryResult{Verdict: VerdictBehind})
			continue
		}
		resp, err := w.c.tried(0, w.place, w.began, sent[i].Response, sent[i].Err, nil)
		if err != nil {
			err = w.c.blame(err)
		}
		w.answered(resp, 0, err)
	}
}
