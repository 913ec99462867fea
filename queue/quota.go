package queue

import "fmt"

// quantity is a number of messages and the octets of their envelopes.
type quantity struct {
	messages int
	bytes    int64
}

func (n *quantity) add(messages, bytes int) {
	n.messages += messages
	n.bytes += int64(bytes)
}

// reserve makes room for a message on its route. Between the moment at which it
// is durable and unreserve it counts twice, so that the bounds are never passed
// and a message is refused a little early at worst.
func (q *Queue) reserve(m *Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.route(m.Route)
	if most := r.cfg.MaxMessages; most > 0 && r.waiting+r.coming.messages >= most {
		return fmt.Errorf("%w: route %q has %d messages waiting, its quota", ErrFull, m.Route, most)
	}
	if most := r.cfg.MaxBytes; most > 0 && r.bytes+r.coming.bytes+int64(len(m.Body)) > most {
		return fmt.Errorf("%w: route %q has %d octets waiting, its quota is %d", ErrFull, m.Route, r.bytes, most)
	}
	r.coming.add(1, len(m.Body))
	return nil
}

func (q *Queue) unreserve(m *Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.route(m.Route).coming.add(-1, -len(m.Body))
}
