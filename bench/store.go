package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// storing is how many callers fill a store.
const storing = 64

// store sends n messages to a route that stores them. Every one must be accepted.
func store(ctx context.Context, t Target, n int) error {
	message, err := NewPing(1, PingSize)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(storing, n) {
		wg.Go(func() {
			c, err := DialRaw(ctx, t)
			if err != nil {
				stop(err)
				return
			}
			defer c.Close()
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil; i = next.Add(1) {
				if _, err := c.Call(ctx, message.Clone(uint64(i)).Next()); err != nil {
					stop(fmt.Errorf("message %d of %d was not stored: %w", i, n, err))
					return
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
