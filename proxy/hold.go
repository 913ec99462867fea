package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"soapway/soapcodec"
)

// errHeld ends a try of a route with delivery: sync-then-queue that has not
// answered in time.
var errHeld = fmt.Errorf("proxy: no answer in the time that the route waits: %w", context.DeadlineExceeded)

// tryThenEnqueue is delivery: sync-then-queue (SPEC.md §3.7): the caller gets the
// backend's answer if there is one in time, else the message is stored, if that
// cannot deliver it twice or the route bears it.
func (c *call) tryThenEnqueue() (*Reply, error) {
	if c.msg.stream != nil {
		return nil, errNotWhole
	}
	c.sendShadow()
	if !c.route.backend.usable() {
		return c.enqueue()
	}
	c.until = time.Now().Add(c.route.Hold)
	resp, node, err := c.attempt(c.request(), c.route.tail(c.target.path))
	if err == nil {
		var reply *Reply
		if reply, err = c.reply(resp, node); err == nil {
			return reply, nil
		}
	}
	store, doubt := c.storable(err)
	if !store {
		return nil, err
	}
	c.tries.end()
	c.doubt = doubt
	reply, storeErr := c.enqueue()
	if storeErr != nil && doubt && !errors.Is(storeErr, ErrStoreUnknown) {
		// A refusal would promise that nothing was delivered; that nobody knows
		// whether it is stored promises nothing.
		return nil, err
	}
	return reply, storeErr
}

// storable reports whether a message that got no answer is to be stored, and
// whether a backend may have processed it. Who has left wants nothing stored:
// it cannot know that it was.
func (c *call) storable(err error) (store, doubt bool) {
	if c.ctx.Err() != nil {
		return false, false
	}
	var (
		sent    *SendError
		backend *backendError
	)
	switch {
	case errors.As(err, &backend):
		broke := backend.code == soapcodec.CodeBackendBroken || backend.code == soapcodec.CodeBackendTimeout
		return broke && c.route.StoreMaybe, true
	case !errors.As(err, &sent), sent.Source, sent.Permanent:
		return false, false
	case sent.Class == NotSent:
		return true, false
	}
	return c.route.StoreMaybe, true
}

// usable reports whether the backend has a node that is not out.
func (b *backend) usable() bool {
	for i := range b.Nodes {
		if b.share(i) > 0 {
			return true
		}
	}
	return false
}
