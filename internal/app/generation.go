package app

import (
	"context"
	"sync/atomic"

	"soapway/proxy"
)

// A generation is the time between two reloads. It counts the exchanges that
// began in it, since these may use the nodes that were in place then until
// they are over.
type generation struct {
	users  atomic.Int64               // exchanges, and 1 while the generation is the present one
	idle   chan struct{}              // closed when users has become 0, which is final
	before atomic.Pointer[generation] // nil once every earlier one is idle
}

func newGeneration(before *generation) *generation {
	g := &generation{idle: make(chan struct{})}
	g.before.Store(before)
	g.users.Store(1)
	return g
}

// enter counts an exchange; false means that the generation has ended.
func (g *generation) enter() bool {
	for {
		n := g.users.Load()
		if n == 0 {
			return false
		}
		if g.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *generation) leave() {
	if g.users.Add(-1) == 0 {
		close(g.idle)
	}
}

// wait returns when this generation and all before it are idle. One goroutine
// waits for a generation, after it has ended.
func (g *generation) wait() {
	for e := g; e != nil; e = e.before.Load() {
		<-e.idle
	}
	g.before.Store(nil) // lets the garbage collector have them
}

// door lets exchanges through to the handler and counts them in the present
// generation.
//
// The handler has its new table before the door has its new generation. So an
// exchange that is counted in the new one never uses the old table, and when
// the old generation is idle no exchange uses the nodes that only the old
// table knows.
type door struct {
	server  proxy.Server
	present atomic.Pointer[generation]
}

var _ proxy.Server = (*door)(nil)

// next begins a generation and returns the one that it ends.
func (d *door) next() *generation {
	ended := d.present.Load()
	d.present.Store(newGeneration(ended))
	ended.leave()
	return ended
}

// enter counts an exchange, or a delivery, in the present generation.
func (d *door) enter() *generation {
	g := d.present.Load()
	for !g.enter() {
		g = d.present.Load()
	}
	return g
}

// Serve implements [proxy.Server].
func (d *door) Serve(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
	g := d.enter()
	served := false
	defer func() {
		if !served { // a panic passes through here
			g.leave()
		}
	}()
	reply := d.server.Serve(ctx, ex)
	served = true
	release := reply.Close
	reply.Close = func() {
		if release != nil {
			release()
		}
		g.leave()
	}
	return reply
}
