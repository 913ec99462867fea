package guard

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// maxClients is how many callers a route keeps count of: some 5 MiB. Beyond it
// a caller chosen at random is forgotten, and may begin anew.
const maxClients = 1 << 16

// spacing is a rate as the generic cell rate algorithm counts it: events are due
// one step apart, and each may come up to slack before it is due. It is a bucket
// that holds Events tokens, kept as one number.
type spacing struct{ step, slack time.Duration }

func spacingOf(r Rate) spacing {
	step := r.Per / time.Duration(r.Events)
	return spacing{step, step * time.Duration(r.Events-1)}
}

// next returns when the event after this one is due, or, if this one comes too
// early, how long it has to wait.
func (s spacing) next(due, now time.Duration) (after, wait time.Duration) {
	due = max(due, now)
	if early := due - now; early > s.slack {
		return 0, early - s.slack
	}
	return due + s.step, 0
}

// limiter bounds one rate.
type limiter struct {
	spacing
	due atomic.Int64
}

func newLimiter(r Rate) *limiter { return &limiter{spacing: spacingOf(r)} }

// take counts an event, or returns how long to wait for the next.
func (l *limiter) take(now time.Duration) (wait time.Duration) {
	for {
		due := l.due.Load()
		after, wait := l.next(time.Duration(due), now)
		if wait > 0 {
			return wait
		}
		if l.due.CompareAndSwap(due, int64(after)) {
			return 0
		}
	}
}

// limiters bound a rate for each of many callers.
type limiters struct {
	spacing
	seed   maphash.Seed
	shards [16]shard
	each   int // callers in a shard
}

type shard struct {
	mu    sync.Mutex
	due   map[string]time.Duration
	sweep time.Duration // when to look next for callers that no longer count
}

func newLimiters(r Rate, most int) *limiters {
	l := &limiters{spacing: spacingOf(r), seed: maphash.MakeSeed()}
	l.each = max(1, most/len(l.shards))
	for i := range l.shards {
		l.shards[i].due = make(map[string]time.Duration)
	}
	return l
}

func (l *limiters) shard(key string) *shard {
	return &l.shards[maphash.String(l.seed, key)%uint64(len(l.shards))]
}

// peek returns how long take would tell to wait.
func (l *limiters) peek(key string, now time.Duration) time.Duration {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, wait := l.next(s.due[key], now)
	return wait
}

// take counts an event of a caller, or returns how long it has to wait.
func (l *limiters) take(key string, now time.Duration) time.Duration {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	due, known := s.due[key]
	after, wait := l.next(due, now)
	if wait > 0 {
		return wait
	}
	if !known && len(s.due) >= l.each {
		s.shrink(now, l.each, l.step+l.slack)
	}
	s.due[key] = after
	return 0
}

// shrink makes room for one caller. Those whose bucket is full again are the
// same as new ones; looking for them costs a walk, so it is done only now and
// then.
func (s *shard) shrink(now time.Duration, most int, full time.Duration) {
	if now >= s.sweep {
		for k, due := range s.due {
			if due <= now {
				delete(s.due, k)
			}
		}
		s.sweep = now + max(full/4, time.Second)
	}
	for k := range s.due { // in random order
		if len(s.due) < most {
			return
		}
		delete(s.due, k)
	}
}

// addressKey is what callers are counted by that have proved nothing. Whoever
// has one IPv6 address has the 2^64 beside it.
func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			a = p.Addr()
		}
	}
	b := a.As16()
	return string(b[:])
}
