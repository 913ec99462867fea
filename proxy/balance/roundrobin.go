package balance

import "sync"

// RoundRobin takes the nodes in turn, each as often as its weight and spread as
// evenly as that can be (the smooth weighted round robin): every node gains
// its weight with each message, the one with the most is picked and pays what
// all have gained. Weights 5, 1, 1 give a a b a c a a, not a a a a a b c.
//
// A message moves the turn on once, however many nodes it is tried at, so that
// a dead node is the first choice of its share of the messages and of no more.
// The zero value is ready and begins with the first of the heaviest nodes.
type RoundRobin struct {
	mu    sync.Mutex
	gains []int64 // what each node has gained and not paid; guarded by mu
}

var _ Policy = (*RoundRobin)(nil)

// Pick implements [Policy].
func (p *RoundRobin) Pick(n Nodes) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.gains) < n.Len() {
		p.gains = append(p.gains, 0)
	}
	first := !n.Again()
	best, total := -1, int64(0)
	for i := range n.Len() {
		w := n.Weight(i)
		if w == 0 {
			continue
		}
		if first {
			p.gains[i] += w
			total += w
		}
		if best < 0 || p.gains[i] > p.gains[best] {
			best = i
		}
	}
	if best >= 0 {
		p.gains[best] -= total
	}
	return best
}
