package balance

import "sync/atomic"

// RoundRobin takes the nodes in turn. A node that was tried already is passed
// over for this message and keeps its turn for the next. The zero value is
// ready and begins with node 0.
type RoundRobin struct {
	turn atomic.Uint64
}

var _ Policy = (*RoundRobin)(nil)

// Pick implements [Policy].
func (p *RoundRobin) Pick(n Nodes) int {
	count := n.Len()
	if count == 0 {
		return -1
	}
	first := int((p.turn.Add(1) - 1) % uint64(count))
	for k := range count {
		if i := (first + k) % count; !n.Tried(i) {
			return i
		}
	}
	return -1
}
