package balance

import "math/rand/v2"

// LeastRequests is the power of two choices: of two different nodes drawn at
// random, each as likely as its weight, it takes the one that would have fewer
// tries under way for its weight, and the first draw when both would have the
// same or both are idle. With one or two nodes left that is exactly the least
// loaded one. Drawing two keeps a slow node from getting its full share, and
// keeps many gateways from rushing at the same idle node. Idle nodes get their
// share by the draw: by the load alone the heaviest would get every message of
// a quiet backend. The zero value is ready.
type LeastRequests struct {
	// Rand is the source of the draws. Default: the runtime's own.
	Rand Rand
}

var _ Policy = (*LeastRequests)(nil)

// Pick implements [Policy].
func (p *LeastRequests) Pick(n Nodes) int {
	total := sum(n, -1)
	if total == 0 {
		return -1
	}
	i := at(n, -1, draw(p.Rand, total))
	rest := total - n.Weight(i)
	if rest == 0 {
		return i
	}
	j := at(n, i, draw(p.Rand, rest))
	a, b := n.Load(i), n.Load(j)
	if (a > 0 || b > 0) && (b+1)*n.Weight(i) < (a+1)*n.Weight(j) {
		return j
	}
	return i
}

// draw returns a number in [0,n).
func draw(r Rand, n int64) int64 {
	if r != nil {
		return int64(r.IntN(int(n)))
	}
	return rand.Int64N(n)
}
