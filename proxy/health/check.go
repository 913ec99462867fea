package health

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Checks says how nodes are checked.
type Checks struct {
	// Interval is the time from one check of a node to its next, give or take a
	// tenth, so that many gateways do not ask at the same moment. Timeout bounds
	// a check. Defaults 10s and 2s.
	Interval, Timeout time.Duration

	// Check checks node i; nil says that it is well. It must return when its
	// context ends.
	Check func(ctx context.Context, i int) error
}

// Run checks the nodes, each for itself, from now until ctx ends, and returns
// once no check is under way any more.
func (g *Group) Run(ctx context.Context, c Checks) {
	if c.Interval <= 0 {
		c.Interval = 10 * time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = 2 * time.Second
	}
	var wg sync.WaitGroup
	for i := range g.nodes {
		wg.Go(func() { g.watchOver(ctx, c, i) })
	}
	wg.Wait()
}

func (g *Group) watchOver(ctx context.Context, c Checks, i int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := c.once(ctx, i)
		if ctx.Err() != nil {
			return // cut off, which says nothing about the node
		}
		why := ""
		if err != nil {
			why = err.Error()
		}
		g.checked(i, err == nil, why)
		timer.Reset(c.Interval*9/10 + rand.N(c.Interval/5+1))
	}
}

func (c *Checks) once(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.Check(ctx, i)
}
