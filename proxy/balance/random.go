package balance

// Random draws a node, each as likely as its weight. The zero value is ready.
type Random struct {
	// Rand is the source of the draws. Default: the runtime's own.
	Rand Rand
}

var _ Policy = (*Random)(nil)

// Pick implements [Policy].
func (p *Random) Pick(n Nodes) int {
	total := sum(n, -1)
	if total == 0 {
		return -1
	}
	return at(n, -1, draw(p.Rand, total))
}
