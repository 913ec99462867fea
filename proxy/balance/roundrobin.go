package balance

import "sync/atomic"

// RoundRobin takes the nodes in turn: each message moves the turn on by one,
// however many nodes it is tried at, so that a dead node is the first choice of
// its share of the messages and of no more. The zero value is ready and begins
// with node 0.
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
	turn := p.turn.Load()
	if fresh(n) {
		turn = p.turn.Add(1) - 1
	}
	first := int(turn % uint64(count))
	for k := range count {
		if i := (first + k) % count; !n.Tried(i) {
			return i
		}
	}
	return -1
}

// fresh reports whether no node was tried for the message yet.
func fresh(n Nodes) bool {
	for i := range n.Len() {
		if n.Tried(i) {
			return false
		}
	}
	return true
}
