package proxy

import (
	"io"
	"sync"
	"sync/atomic"
)

// A CallerConn is one connection of a caller, for as long as it is open. A node may
// take all that comes on one of its connections for the same caller's, once he has
// proved there who he is (NTLM, Negotiate; RFC 4559): such connections to nodes are
// bound to the one of the caller, carry nothing of anybody else, and end with it.
//
// The zero value is ready. A listener has one for each connection that carries one
// exchange at a time, and closes it with the connection.
type CallerConn struct {
	bound atomic.Int32 // len(conns)

	mu     sync.Mutex
	conns  []boundConn // guarded by mu; few
	closed bool        // guarded by mu
}

type boundConn struct {
	node Node
	conn io.Closer
}

// Take takes out the connection that is bound at node n, for one try; nil if there
// is none. k may be nil.
func (k *CallerConn) Take(n Node) io.Closer {
	if k == nil || k.bound.Load() == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, b := range k.conns {
		if b.node == n {
			k.conns = append(k.conns[:i], k.conns[i+1:]...)
			k.bound.Store(int32(len(k.conns)))
			return b.conn
		}
	}
	return nil
}

// Bind gives the caller a connection to node n, of which nothing is under way. It
// reports false if the caller has gone; the connection is then not his. One that he
// had at that node is closed.
func (k *CallerConn) Bind(n Node, c io.Closer) bool {
	old := k.Take(n)
	if old != nil {
		old.Close()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.conns = append(k.conns, boundConn{n, c})
	k.bound.Store(int32(len(k.conns)))
	return true
}

// Close closes what is bound, now and from now on.
func (k *CallerConn) Close() {
	k.mu.Lock()
	conns := k.conns
	k.conns, k.closed = nil, true
	k.bound.Store(0)
	k.mu.Unlock()
	for _, b := range conns {
		b.conn.Close()
	}
}

// node is the number of the first of these nodes at which a connection is bound,
// -1 if there is none: what a caller has proved is known there and nowhere else.
func (k *CallerConn) node(nodes []Node) int {
	if k == nil || k.bound.Load() == 0 {
		return -1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, n := range nodes {
		for _, b := range k.conns {
			if b.node == n {
				return i
			}
		}
	}
	return -1
}

// callerConn is the connection of the caller, if it can be told to be one caller's:
// those of a trusted proxy carry messages of many.
func (c *call) callerConn() *CallerConn {
	if c.fwd.trusted {
		return nil
	}
	return c.ex.Caller
}
