package balance

import (
	"hash/fnv"
	"math"
	"sync"
)

// Hash gives all messages of one key to one node, by rendezvous: each pair of
// key and node has a score, and the node with the highest one has the key. When
// a node goes away only its own keys move, spread over the others, and when it
// comes back it gets just these again. Gateways with the same nodes agree,
// whatever the order in which they list them, without telling each other.
//
// A key may also be bound to a node that has not its highest score, see Bind.
// Messages without a key go by another policy.
type Hash struct {
	seeds   []uint64
	weights []float64
	even    bool // all weights are the same
	keyless Policy
	bound   bindings
}

var _ Policy = (*Hash)(nil)

// HashNode is what a [Hash] must know of a node: a name that is its own and
// stays the same, and its weight, at least 1. A node's share of the keys is that
// of its weight.
type HashNode struct {
	Name   string
	Weight int
}

// NewHash returns a policy over nodes in the order of their numbers. Messages
// without a key go by the policy keyless.
func NewHash(nodes []HashNode, keyless Policy) *Hash {
	h := &Hash{even: true, keyless: keyless}
	for _, n := range nodes {
		h.seeds = append(h.seeds, KeyOf(n.Name))
		h.weights = append(h.weights, float64(max(1, n.Weight)))
		h.even = h.even && h.weights[0] == h.weights[len(h.weights)-1]
	}
	return h
}

// KeyOf makes a key of text. It is the same on every machine and in every run.
func KeyOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return mix(h.Sum64())
}

// Pick implements [Policy].
func (p *Hash) Pick(n Nodes) int {
	key, ok := n.Key()
	if !ok {
		return p.keyless.Pick(n)
	}
	if i, ok := p.bound.get(key); ok && i < n.Len() && n.Weight(i) > 0 {
		return i
	}
	return p.home(key, func(i int) bool { return i < n.Len() && n.Weight(i) > 0 })
}

// Bind makes node i the one of a key, because something about the key is there
// and nowhere else: a session that it has opened. What is bound is remembered
// in memory, the last 32,768 keys at least.
func (p *Hash) Bind(key uint64, i int) {
	home := p.home(key, func(int) bool { return true })
	p.bound.put(key, i, i == home)
}

// home is the usable node with the highest score, -1 if none is usable.
func (p *Hash) home(key uint64, usable func(i int) bool) int {
	best, top := -1, math.Inf(-1)
	for i, seed := range p.seeds {
		if !usable(i) {
			continue
		}
		if s := p.score(i, mix(key^seed)); best < 0 || s > top {
			best, top = i, s
		}
	}
	return best
}

// score grows with the hash. With weights w it is -w/ln(u) for a u that is
// uniform in (0,1), which is the highest of all with the probability w over
// their sum; where all are the same the order of the hashes is that of u, and
// no logarithm is needed.
func (p *Hash) score(i int, hash uint64) float64 {
	u := (float64(hash>>11) + 0.5) / (1 << 53)
	if p.even {
		return u
	}
	return -p.weights[i] / math.Log(u)
}

// mix is the finalizer of a 64-bit hash (SplitMix64's): each bit of the input
// turns each bit of the output with the probability of a half.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// bindings are the keys that are bound to nodes: two generations of bounded
// size, of which the older one is forgotten when the younger is full. A key
// that is used moves to the younger one.
type bindings struct {
	mu         sync.Mutex
	young, old map[uint64]int // guarded by mu
}

// generation is how many keys one generation has.
const generation = 1 << 15

func (b *bindings) get(key uint64) (node int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if node, ok = b.young[key]; ok {
		return node, true
	}
	if node, ok = b.old[key]; ok {
		delete(b.old, key)
		b.add(key, node)
	}
	return node, ok
}

// put binds a key, or forgets it where it is at home anyway.
func (b *bindings) put(key uint64, node int, home bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.old, key)
	if home {
		delete(b.young, key)
		return
	}
	b.add(key, node)
}

// add is called with mu held.
func (b *bindings) add(key uint64, node int) {
	if _, known := b.young[key]; !known && len(b.young) >= generation {
		b.old, b.young = b.young, nil
	}
	if b.young == nil {
		b.young = map[uint64]int{}
	}
	b.young[key] = node
}
