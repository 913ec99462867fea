package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Options configures a [Group]; the zero value works.
type Options struct {
	// Failures is how many failures in a row eject a node, if they lie within
	// Within. Defaults 5 and 30s.
	Failures int
	Within   time.Duration

	// Eject is how long the first ejection takes. Default 30s.
	Eject time.Duration

	// UnhealthyAfter and HealthyAfter are how many checks in a row take a node
	// out and bring it back. Defaults 2 and 1.
	UnhealthyAfter, HealthyAfter int
}

func (o Options) withDefaults() Options {
	if o.Failures <= 0 {
		o.Failures = 5
	}
	if o.Within <= 0 {
		o.Within = 30 * time.Second
	}
	if o.Eject <= 0 {
		o.Eject = 30 * time.Second
	}
	if o.UnhealthyAfter <= 0 {
		o.UnhealthyAfter = 2
	}
	if o.HealthyAfter <= 0 {
		o.HealthyAfter = 1
	}
	return o
}

const (
	// longest bounds an ejection, unless Eject itself is longer.
	longest = 5 * time.Minute
	// ramp is how long a node takes from its return to its whole share.
	ramp = 10 * time.Second
	// firstShare is the part of its share, in percent, that it begins with.
	firstShare = 10
)

// Group is the health of the nodes of one backend, numbered from 0.
type Group struct {
	opt   Options
	nodes []node

	mu    sync.Mutex
	down  bool                      // as last told
	watch func(up bool, why string) // guarded by mu
}

// node is the state of one. All but quiet is guarded by Group.mu.
type node struct {
	// quiet says that there is nothing to know: no failure in the row, not out,
	// back for longer than ramp.
	quiet atomic.Bool

	row       []time.Time // failures in a row
	until     time.Time   // ejected before this
	trial     bool        // ejected, and without a success since
	ejections int         // in short order
	lasted    time.Duration
	returned  time.Time // end of the last ejection, or of the last time that checks had it out
	sick      bool      // by checks
	bad, good int       // checks in a row
	why       string    // the reason that put it out
}

// NewGroup returns the health of n nodes, all of them well.
func NewGroup(n int, opt Options) *Group {
	g := &Group{opt: opt.withDefaults(), nodes: make([]node, n)}
	for i := range g.nodes {
		g.nodes[i].quiet.Store(true)
	}
	return g
}

// Len is the number of nodes.
func (g *Group) Len() int { return len(g.nodes) }

// Watch makes f be told when the last node has gone out, and when, after that,
// one has proved that it is back. f is called with the group locked: it must
// return at once and not call the group. What is so already is told at once.
func (g *Group) Watch(f func(up bool, why string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watch = f
	if g.down && f != nil {
		f(false, g.nodes[0].why)
	}
}

// Share returns what node i gets now of a share of full: nothing while it is out.
func (g *Group) Share(i int, full int64) int64 {
	n := &g.nodes[i]
	if n.quiet.Load() {
		return full
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if n.out(now) {
		return 0
	}
	back := now.Sub(n.returned)
	if n.returned.IsZero() || back >= ramp {
		n.settle(now)
		return full
	}
	return max(1, full*(firstShare+(100-firstShare)*int64(back)/int64(ramp))/100)
}

// Up tells whether node i is not out.
func (g *Group) Up(i int) bool {
	if g.nodes[i].quiet.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.nodes[i].out(time.Now())
}

// State tells whether node i is not out; if it is, why, and until when if that is
// a matter of time.
func (g *Group) State(i int) (up bool, why string, until time.Time) {
	n := &g.nodes[i]
	if n.quiet.Load() {
		return true, "", until
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	switch {
	case n.sick:
		return false, n.why, until
	case now.Before(n.until):
		return false, n.why, n.until
	}
	return true, "", until
}

// Down tells whether every node is out.
func (g *Group) Down() bool {
	for i := range g.nodes {
		if g.Up(i) {
			return false
		}
	}
	return len(g.nodes) > 0
}

// out is called with Group.mu held.
func (n *node) out(now time.Time) bool { return n.sick || now.Before(n.until) }

// settle makes the node quiet if there is nothing left to know about it.
func (n *node) settle(now time.Time) {
	if len(n.row) == 0 && !n.trial && !n.out(now) && now.Sub(n.returned) >= ramp {
		n.quiet.Store(true)
	}
}

// Failed counts an outcome against node i; why is for logs.
func (g *Group) Failed(i int, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, now := &g.nodes[i], time.Now()
	n.quiet.Store(false)
	if now.Before(n.until) {
		return // sent there for want of better, or before the ejection
	}
	old := 0
	for old < len(n.row) && now.Sub(n.row[old]) > g.opt.Within {
		old++
	}
	n.row = append(n.row[:0], n.row[old:]...)
	n.row = append(n.row, now)
	if len(n.row) < g.opt.Failures && !n.trial {
		return
	}
	if now.Sub(n.returned) > n.lasted { // it has held out long enough
		n.ejections = 0
	}
	n.ejections++
	n.lasted = min(g.opt.Eject*time.Duration(min(n.ejections, 100)), max(longest, g.opt.Eject))
	n.until = now.Add(n.lasted)
	n.returned = n.until
	n.row, n.trial, n.why = nil, true, why
	g.tell(now)
}

// Succeeded ends a row of failures of node i, and brings it back if it was
// ejected.
func (g *Group) Succeeded(i int) {
	n := &g.nodes[i]
	if n.quiet.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	n.row, n.trial = n.row[:0], false
	if now.Before(n.until) {
		n.until, n.returned = now, now
	}
	if g.down && !n.sick {
		g.proved()
	}
	n.settle(now)
}

// checked takes the result of a check of node i; why is for logs.
func (g *Group) checked(i int, ok bool, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, now := &g.nodes[i], time.Now()
	if !ok {
		n.good = 0
		n.bad++
		if n.bad >= g.opt.UnhealthyAfter && !n.sick {
			n.quiet.Store(false)
			n.sick, n.why = true, why
			g.tell(now)
		}
		return
	}
	n.bad = 0
	n.good = min(n.good+1, g.opt.HealthyAfter)
	if !n.sick || n.good < g.opt.HealthyAfter {
		return
	}
	n.sick, n.returned = false, now
	if now.Before(n.until) {
		n.until = now // what ejected it is over; still on trial
	}
	if g.down {
		g.proved()
	}
}

// tell looks whether the last node has gone out. g.mu is held.
func (g *Group) tell(now time.Time) {
	if g.down {
		return
	}
	why := ""
	for i := range g.nodes {
		if !g.nodes[i].out(now) {
			return
		}
		if why == "" {
			why = g.nodes[i].why
		}
	}
	g.down = true
	if g.watch != nil {
		g.watch(false, why)
	}
}

// proved tells that a node is back. g.mu is held.
func (g *Group) proved() {
	g.down = false
	if g.watch != nil {
		g.watch(true, "")
	}
}
