package queue

// pace bounds how many attempts are under way to one destination. It begins with
// few and lets each success add one until the first failure, so that a destination
// that is back is not met by everything that has waited for it at once, and yet has
// its full share after as many round trips as doublings are needed (8 to 64: three).
// From its first failure on, each takes one away and a whole set of successes adds
// a few: a destination that can bear only so many settles there, within a round
// trip, and one that loses every tenth still has half of what it may have.
//
// A fault is an answer and no failure: it says nothing of how much the destination
// can bear.
type pace struct {
	limit  float64 // attempts under way, at least 1
	gentle bool    // there was a failure
	full   bool    // messages wait because of it
}

const (
	// firstPace is with how many attempts at once a destination is begun.
	firstPace = 8
	// gentleSteps is by how much a set of successes raises a pace that has met
	// failures.
	gentleSteps = 4
)

func newPace() pace { return pace{limit: firstPace} }

// room reports whether one more attempt may begin beside those that are flying, to
// a destination that takes parallel at once.
func (p *pace) room(flying, parallel int) bool {
	p.full = flying >= max(1, min(int(p.limit), parallel))
	return !p.full
}

// succeeded counts an attempt that the destination has answered. A pace that keeps
// nothing waiting proves nothing, and does not grow.
func (p *pace) succeeded(parallel int) {
	switch {
	case !p.full:
	case p.gentle:
		p.limit += gentleSteps / p.limit
	default:
		p.limit++
	}
	p.limit = max(1, min(p.limit, float64(parallel)))
}

// failed counts an attempt that the destination could not take.
func (p *pace) failed(parallel int) {
	p.limit = max(1, min(p.limit, float64(parallel))-1)
	p.gentle = true
}
