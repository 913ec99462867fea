package queue

import "fmt"

// quantity is a number of messages and the octets of their envelopes.
type quantity struct {
	messages int
	bytes    int64
}

func (n *quantity) add(messages int, bytes int64) {
	n.messages += messages
	n.bytes += bytes
}

// reserve makes room for a message on its route. Between the moment at which it
// is durable and unreserve it counts twice, so that the bounds are never passed
// and a message is refused a little early at worst.
func (q *Queue) reserve(route string, size int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.route(route).reserve(size)
}

// reserve is that for a caller that holds mu.
func (r *routeState) reserve(size int64) error {
	if most := r.cfg.MaxMessages; most > 0 && r.waiting+r.coming.messages >= most {
		return fmt.Errorf("%w: route %q has %d messages waiting, its quota", ErrFull, r.name, most)
	}
	if most := r.cfg.MaxBytes; most > 0 && r.bytes+r.coming.bytes+size > most {
		return fmt.Errorf("%w: route %q has %d octets waiting, its quota is %d", ErrFull, r.name, r.bytes, most)
	}
	r.coming.add(1, size)
	return nil
}

func (q *Queue) unreserve(route string, size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.route(route).coming.add(-1, -size)
}
