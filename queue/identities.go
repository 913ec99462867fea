package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
)

// ErrOtherContent: another message was accepted with the same identity, of
// which other octets are the same in a repeat; nothing was kept.
var ErrOtherContent = errors.New("queue: a message with this identity and other content was accepted before")

// Kept is under which id a message with an identity is kept.
type Kept struct {
	ID string
	// Repeat says that it had been accepted before; Fate is what has become of
	// it since.
	Repeat bool
	Fate   Fate
}

// identities is the index of the messages with an identity. It is derived from the
// store: from the log, the dead letters, and what is kept of messages that are
// gone. So it knows nothing that is not durable, and a message that is being
// committed is not in known but in pending. It is guarded by Queue.mu.
//
// One of them takes about 150 octets (TestIDsMemory).
type identities struct {
	base    time.Time // times are seconds since then, by the monotonic clock
	known   map[[16]byte]knownID
	buckets map[int32][][16]byte // keys by until / bucketSeconds, of what is or was known
	oldest  int32                // no bucket below
	pending map[[16]byte]*pendingID
	names   []string // of routes, for knownID.route
	numbers map[string]uint16
	counts  []int // of known, by route
	most    int   // mostIDs
}

// knownID is kept small: there is one for each message of the window.
type knownID struct {
	sum   [16]byte
	id    uuid.UUID
	until int32 // seconds since base
	route uint16
	fate  Fate
}

// pendingID is a message whose commit is under way, or whose outcome is not
// known: then it stays until the store tells of it after all.
type pendingID struct {
	id   string
	sum  [16]byte
	done chan struct{} // closed once err is set
	err  error
}

const bucketSeconds = 60

// mostIDs bounds the index: callers could fill the memory with messages that
// each have an id of their own. It is 115 new ids a second for a day.
const mostIDs = 10_000_000

func newIdentities() *identities {
	return &identities{
		base: time.Now(), known: map[[16]byte]knownID{}, buckets: map[int32][][16]byte{}, oldest: math.MaxInt32,
		pending: map[[16]byte]*pendingID{}, numbers: map[string]uint16{}, most: mostIDs,
	}
}

func (x *identities) seconds(t time.Time) int32 {
	s := t.Sub(x.base) / time.Second
	return int32(min(max(s, math.MinInt32), math.MaxInt32-bucketSeconds))
}

// number returns the number of a route. Should there ever be more than fit, the
// last one counts for all others.
func (x *identities) number(route string) uint16 {
	n, ok := x.numbers[route]
	if ok {
		return n
	}
	if len(x.names) > math.MaxUint16 {
		return math.MaxUint16
	}
	n = uint16(len(x.names))
	x.names, x.counts, x.numbers[route] = append(x.names, route), append(x.counts, 0), n
	return n
}

// set takes up what is known of a message, in place of what was known before.
// What is over is passed over.
func (x *identities) set(i *Identity, id, route string, fate Fate) {
	until := x.seconds(i.Until) + 1
	u, err := uuid.Parse(id)
	if err != nil || until <= x.seconds(time.Now()) {
		return
	}
	old, ok := x.known[i.Key]
	if ok {
		x.counts[old.route]--
	}
	n := x.number(route)
	x.counts[n]++
	x.known[i.Key] = knownID{sum: i.Sum, id: u, until: until, route: n, fate: fate}
	if b := until / bucketSeconds; !ok || old.until/bucketSeconds != b {
		x.buckets[b] = append(x.buckets[b], i.Key)
		x.oldest = min(x.oldest, b)
	}
}

// find returns what is known of a key within its window.
func (x *identities) find(key [16]byte) (knownID, bool) {
	k, ok := x.known[key]
	return k, ok && k.until > x.seconds(time.Now())
}

// settle notes the fate of a message and returns what the store has to keep of
// it, false if nothing is known of it.
func (x *identities) settle(key *[16]byte, id string, fate Fate) (Known, bool) {
	if key == nil {
		return Known{}, false
	}
	k, ok := x.known[*key]
	if !ok || k.id.String() != id {
		return Known{}, false
	}
	k.fate = fate
	x.known[*key] = k
	return Known{
		Identity: Identity{Key: *key, Sum: k.sum, Until: x.base.Add(time.Duration(k.until) * time.Second)},
		ID:       id, Route: x.names[k.route], Fate: fate,
	}, true
}

// expire forgets what is over, at most so many at a time.
func (x *identities) expire(most int) {
	now := x.seconds(time.Now())
	for ; most > 0 && len(x.buckets) > 0 && (x.oldest+1)*bucketSeconds <= now; x.oldest++ {
		keys := x.buckets[x.oldest]
		n := min(most, len(keys))
		for _, key := range keys[:n] {
			if k, ok := x.known[key]; ok && k.until <= now {
				delete(x.known, key)
				x.counts[k.route]--
			}
		}
		if most -= n; n < len(keys) {
			x.buckets[x.oldest] = keys[n:]
			return
		}
		delete(x.buckets, x.oldest)
	}
	if len(x.buckets) == 0 {
		x.oldest = math.MaxInt32
	}
}

// count is how many messages of a route are known.
func (x *identities) count(route string) int {
	if n, ok := x.numbers[route]; ok {
		return x.counts[n]
	}
	return 0
}

// loadPatience is how long a message with an identity waits for the index
// after a start.
const loadPatience = 10 * time.Second

// PutOnce is Put for a message with an identity: one that repeats another
// within its window is not kept again, and Kept tells of the first. A repeat of
// a message that is being committed at this moment waits for that and shares its
// outcome. Besides the errors of Put: ErrOtherContent; ErrFull while the index
// is not complete after a start, and when it has ten million identities.
func (q *Queue) PutOnce(ctx context.Context, m *Message) (Kept, error) {
	if _, err := uuid.Parse(m.ID); err != nil || m.Identity.IsZero() {
		return Kept{}, fmt.Errorf("queue: message %q has no identity, or its id is no UUID", cut(m.ID, 100))
	}
	patience := time.NewTimer(loadPatience)
	defer patience.Stop()
	select {
	case <-q.complete:
	case <-patience.C:
		return Kept{}, fmt.Errorf("%w: the index of identities is being rebuilt", ErrFull)
	case <-ctx.Done():
		return Kept{}, fmt.Errorf("%w: %w", ErrClosed, context.Cause(ctx))
	}
	for {
		kept, p, err := q.claim(m)
		switch {
		case err != nil || p == nil:
			return kept, err
		case p.id == m.ID:
			return q.commit(ctx, m, p)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return Kept{}, fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
		}
		switch {
		case p.err == nil: // now it is known
		case p.sum == m.Identity.Sum || errors.Is(p.err, ErrUnknown):
			return Kept{}, p.err
		}
	}
}

// claim looks a message up. It is known; or another with its identity is being
// committed; or p is its own, and it is to be committed.
func (q *Queue) claim(m *Message) (kept Kept, p *pendingID, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ids.claim(m)
}

func (x *identities) claim(m *Message) (kept Kept, p *pendingID, err error) {
	key := m.Identity.Key
	if p = x.pending[key]; p != nil {
		return Kept{}, p, nil
	}
	k, ok := x.find(key)
	switch {
	case !ok && len(x.known)+len(x.pending) >= x.most:
		return Kept{}, nil, fmt.Errorf("%w: %d identities are known", ErrFull, len(x.known))
	case !ok:
		p = &pendingID{id: m.ID, sum: m.Identity.Sum, done: make(chan struct{})}
		x.pending[key] = p
		return Kept{}, p, nil
	case k.sum != m.Identity.Sum:
		return Kept{}, nil, ErrOtherContent
	}
	return Kept{ID: k.id.String(), Repeat: true, Fate: k.fate}, nil, nil
}

// commit puts a message that nobody else is committing.
func (q *Queue) commit(ctx context.Context, m *Message, p *pendingID) (Kept, error) {
	err := q.Put(ctx, m)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ids.conclude(m, p, err)
	if err != nil {
		return Kept{}, err
	}
	return Kept{ID: m.ID}, nil
}

// conclude tells those who wait what has become of a message that was committed.
func (x *identities) conclude(m *Message, p *pendingID, err error) {
	p.err = err
	close(p.done)
	if !errors.Is(err, ErrUnknown) {
		delete(x.pending, m.Identity.Key)
	}
}

// identify takes up a message that is durable.
func (q *Queue) identify(m *Message) {
	if m.Identity.IsZero() {
		return
	}
	q.ids.set(&m.Identity, m.ID, m.Route, FateWaiting)
	if p := q.ids.pending[m.Identity.Key]; p != nil && p.id == m.ID {
		delete(q.ids.pending, m.Identity.Key) // also where its outcome was not known
	}
}

// key is what the index needs of an identity, nil for none.
func (m *Message) key() *[16]byte {
	if m.Identity.IsZero() {
		return nil
	}
	key := m.Identity.Key
	return &key
}
