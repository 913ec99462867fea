package admin

import (
	"net/netip"
	"sync"
	"time"
)

// A bucket lets through so many at once, and one more in each pause.
type bucket struct {
	most  int
	pause time.Duration
	used  float64
	last  time.Time
}

// take reports whether one more may pass, and counts it then.
func (b *bucket) take(now time.Time) bool {
	b.refill(now)
	if b.used > float64(b.most-1) {
		return false
	}
	b.used++
	return true
}

func (b *bucket) refill(now time.Time) {
	b.used = max(0, b.used-float64(now.Sub(b.last))/float64(b.pause))
	b.last = now
}

const (
	// failuresAtOnce tokens may be wrong from one address, then one each failurePause:
	// a token of 6 random letters holds out for two years.
	failuresAtOnce = 10
	failurePause   = time.Second
	// mostAddresses bounds those that are remembered; beyond, all others share one.
	mostAddresses = 10_000
)

// guesses counts wrong tokens by the address that they come from.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Addr]*bucket // guarded by mu
}

// source is what guesses are counted by: an address, or the /64 that somebody with
// IPv6 has to himself.
func source(client string) netip.Addr {
	at, err := netip.ParseAddrPort(client)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// barred reports whether an address has guessed too often to be heard.
func (g *guesses) barred(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.from[g.known(source(client))]
	if b == nil {
		return false
	}
	b.refill(time.Now())
	return b.used > float64(b.most-1)
}

// known is the address itself, or the one that stands for all that found no room.
func (g *guesses) known(a netip.Addr) netip.Addr {
	if g.from[a] == nil && len(g.from) >= mostAddresses {
		return netip.Addr{}
	}
	return a
}

// wrong counts a wrong token.
func (g *guesses) wrong(client string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.from == nil {
		g.from = map[netip.Addr]*bucket{}
	}
	if len(g.from) >= mostAddresses {
		for a, b := range g.from {
			if b.refill(now); b.used == 0 {
				delete(g.from, a)
			}
		}
	}
	a := g.known(source(client))
	if g.from[a] == nil {
		g.from[a] = &bucket{most: failuresAtOnce, pause: failurePause}
	}
	g.from[a].take(now)
}

// refusals bounds what is written of requests that were refused: strangers must
// not fill the disk.
type refusals struct {
	mu     sync.Mutex
	lines  bucket // guarded by mu
	missed int    // guarded by mu
}

// note reports whether a refusal gets a line, and how many had none since the last.
func (l *refusals) note() (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines.most == 0 {
		l.lines = bucket{most: 100, pause: time.Second}
	}
	if !l.lines.take(time.Now()) {
		l.missed++
		return 0, false
	}
	missed, l.missed = l.missed, 0
	return missed, true
}
