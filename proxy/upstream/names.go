package upstream

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lookupTime bounds a look-up that nobody waits for.
const lookupTime = 5 * time.Second

// names are the addresses of one name, and how old they are.
type names struct {
	host  string
	opt   DialOptions
	moved func() // called without a lock when addresses are gone

	version atomic.Uint64 // counts the changes
	fresh   atomic.Int64  // until then, as time since birth, the addresses are used; 0 before the first look-up
	birth   time.Time

	ctx    context.Context // ends with the node
	cancel context.CancelFunc
	again  sync.WaitGroup // look-ups that nobody waits for; one at a time

	mu      sync.Mutex
	addrs   []netip.Addr // guarded by mu, in the resolver's order
	turn    int          // guarded by mu; of the address that is tried first
	looking bool         // guarded by mu; a look-up that nobody waits for is under way
	closed  bool         // guarded by mu
}

func newNames(host string, opt DialOptions, moved func()) *names {
	n := &names{host: host, opt: opt, moved: moved, birth: time.Now()}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

func (n *names) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.again.Wait()
}

// tick starts a look-up if the addresses are too old. It costs a look at the
// clock.
func (n *names) tick() {
	if until := n.fresh.Load(); until == 0 || time.Since(n.birth) < time.Duration(until) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.looking || n.closed {
		return
	}
	n.looking = true
	n.again.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, lookupTime)
		defer cancel()
		addrs, err := n.opt.Lookup(ctx, n.host)
		if err != nil {
			addrs = nil
		}
		n.take(addrs)
		n.mu.Lock()
		n.looking = false
		n.mu.Unlock()
	})
}

// addresses returns those to connect to, in the order in which to try them, and
// the version they are of. Of the family that the resolver prefers each is the
// first in its turn, so that new connections are spread over them.
func (n *names) addresses(ctx context.Context) ([]netip.Addr, uint64, error) {
	n.tick()
	n.mu.Lock()
	known := len(n.addrs) > 0
	n.mu.Unlock()
	if !known {
		addrs, err := n.opt.Lookup(ctx, n.host)
		if err == nil && len(addrs) == 0 {
			err = fmt.Errorf("upstream: %s has no address", n.host)
		}
		if err != nil {
			return nil, 0, err
		}
		n.take(addrs)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	preferred := 0
	for preferred < len(n.addrs) && n.addrs[preferred].Is4() == n.addrs[0].Is4() {
		preferred++
	}
	out := make([]netip.Addr, 0, len(n.addrs))
	for i := range preferred {
		out = append(out, n.addrs[(n.turn+i)%preferred])
	}
	n.turn++
	return append(out, n.addrs[preferred:]...), n.version.Load(), nil
}

// take takes the result of a look-up; none changes nothing but the time of the
// next.
func (n *names) take(addrs []netip.Addr) {
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	n.mu.Lock()
	missing := func(a netip.Addr) bool { return !slices.Contains(addrs, a) }
	gone := len(addrs) > 0 && slices.ContainsFunc(n.addrs, missing)
	if len(addrs) > 0 {
		n.addrs = addrs
	}
	if gone {
		n.version.Add(1)
	}
	n.fresh.Store(int64(time.Since(n.birth) + n.opt.Resolve))
	n.mu.Unlock()
	if gone {
		n.moved()
	}
}

// gone tells whether an address is none of the name's any more; version is that
// of the time when it was one.
func (n *names) gone(at netip.Addr, version uint64) bool {
	if n.version.Load() == version {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.Contains(n.addrs, at)
}
