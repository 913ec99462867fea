package balance

import "math/rand/v2"

// LeastRequests is the power of two choices: of two different nodes drawn at
// random it takes the one with fewer tries under way, either of them when both
// have the same. With one or two nodes left that is exactly the least loaded
// one. Drawing two keeps a slow node from getting its full share, and keeps
// many gateways from rushing at the same idle node. The zero value is ready.
type LeastRequests struct {
	// Rand is the source of the draws. Default: the runtime's own.
	Rand Rand
}

var _ Policy = (*LeastRequests)(nil)

// Pick implements [Policy].
func (p *LeastRequests) Pick(n Nodes) int {
	left := 0
	for i := range n.Len() {
		if !n.Tried(i) {
			left++
		}
	}
	switch left {
	case 0:
		return -1
	case 1:
		return nth(n, 0)
	}
	a := p.intN(left)
	b := p.intN(left - 1)
	if b >= a {
		b++ // a uniform draw from the others
	}
	i, j := nth(n, a), nth(n, b)
	if n.Load(j) < n.Load(i) {
		return j
	}
	return i // of equals the first draw, which is uniform
}

func (p *LeastRequests) intN(n int) int {
	if p.Rand != nil {
		return p.Rand.IntN(n)
	}
	return rand.IntN(n)
}

// nth returns the number of the k-th untried node.
func nth(n Nodes, k int) int {
	for i := range n.Len() {
		if n.Tried(i) {
			continue
		}
		if k == 0 {
			return i
		}
		k--
	}
	return -1
}
