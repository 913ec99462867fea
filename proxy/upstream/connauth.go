package upstream

import (
	"slices"
	"strings"
	"time"

	"soapway/internal/field"
	"soapway/proxy"
)

// provesConnection reports whether a message has credentials by which a node may
// take all that comes later on its connection for the same caller's (NTLM, and
// Negotiate, which may be NTLM; RFC 4559). Such a connection must carry no message
// of anybody else.
func provesConnection(h field.List) bool {
	for i := range h {
		if !h[i].Is("Authorization") {
			continue
		}
		scheme, _, _ := strings.Cut(strings.TrimSpace(h[i].Value), " ")
		if strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate") {
			return true
		}
	}
	return false
}

// owned is a connection that belongs to one of a caller. While it is idle the pool
// has it too, which may need its place, or close.
type owned struct {
	p *pool
	c *conn
}

// Close implements [io.Closer]: the caller has gone.
func (o *owned) Close() error {
	if o.p.claim(o.c) {
		o.p.drop(o.c)
	}
	return nil
}

// claim takes an idle connection of a caller; false if it is gone.
func (p *pool) claim(c *conn) bool {
	p.ownMu.Lock()
	defer p.ownMu.Unlock()
	i := slices.Index(p.own, c)
	if i < 0 {
		return false
	}
	p.own = slices.Delete(p.own, i, i+1)
	return true
}

// ownConn takes the connection that belongs to a caller's; nil if there is none, or
// if it is of no more use: then the node will ask the caller again who he is.
func (n *HTTP) ownConn(k *proxy.CallerConn) *conn {
	o, _ := k.Take(n).(*owned)
	if o == nil || !n.pool.claim(o.c) {
		return nil
	}
	if o.c.stale() {
		n.pool.drop(o.c)
		return nil
	}
	return o.c
}

// keep makes a connection that can be used again, and may have been proved to be
// a caller's, part of that caller's: nobody else will ever get it.
func (n *HTTP) keep(c *conn, k *proxy.CallerConn) {
	p := &n.pool
	c.in.Release()
	c.idleSince = time.Now()
	p.ownMu.Lock()
	p.own = append(p.own, c)
	p.ownMu.Unlock()
	o := &owned{p, c}
	if !k.Bind(n, o) || p.closed.Load() {
		o.Close()
	}
}
