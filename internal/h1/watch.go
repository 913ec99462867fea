package h1

import (
	"net"
	"time"
)

const (
	// watchEvery is the pause between two looks at the connections, and how old
	// an exchange is before it is looked at.
	watchEvery = 100 * time.Millisecond

	// halfGrace is how long the answer to a whole request may take once its
	// sender has closed its side.
	halfGrace = time.Second
)

// watched is what the watch keeps of a connection. Nobody else touches it.
type watched struct {
	exchange int64     // since, of the exchange that the rest is about
	next     time.Time // of the next look
	half     time.Time // when the FIN was seen
}

// watch looks for callers that have left while their exchange is under way.
func (s *Server) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var due []*conn
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.conns.Each(func(c *conn) {
				if since := c.since.Load(); since != 0 && now.UnixNano()-since >= int64(watchEvery) {
					due = append(due, c)
				}
			})
			for _, c := range due {
				c.look(now)
			}
			clear(due)
			due = due[:0]
		}
	}
}

// look looks at the connection of an exchange; less and less often when it takes
// long.
func (c *conn) look(now time.Time) {
	since := c.since.Load()
	if since == 0 {
		return
	}
	w := &c.watched
	if w.exchange != since {
		*w = watched{exchange: since}
	}
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(min(now.Sub(time.Unix(0, since))/8, halfGrace/2))
	switch stateOf(c.raw) {
	case peerGone:
		c.cancel(ErrGone)
	case peerHalf:
		// Half a request is for the reader of its body to judge.
		if b := c.body.Load(); b == nil || !b.eof.Load() {
			return
		}
		if w.half.IsZero() {
			w.half = now
		} else if now.Sub(w.half) >= halfGrace {
			c.cancel(ErrGone)
		}
	}
}

// peerState is what can be seen of a peer without reading.
type peerState int

const (
	peerHere peerState = iota
	peerHalf           // it has sent a FIN
	peerGone           // the connection is broken
)

// stateOf looks at the connection under c. Where it cannot, the peer is here.
func stateOf(c net.Conn) peerState {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	return socketState(c)
}
