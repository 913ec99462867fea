package relay

import (
	"context"
	"sync"
)

// together lets the items of a batch wait for each other before they are stored: what
// comes to a store at the same moment shares one sync, and a batch costs one and not
// as many as its items come in parts.
type together struct {
	mu   sync.Mutex
	left int // that neither wait nor are over
	all  chan struct{}
}

// member is one item in a together.
type member struct {
	of   *together
	once sync.Once
}

func (m *member) arrive() {
	m.once.Do(func() {
		m.of.mu.Lock()
		defer m.of.mu.Unlock()
		if m.of.left--; m.of.left == 0 {
			close(m.of.all)
		}
	})
}

type memberKey struct{}

// Gather waits, in a [Home.Take] with the context of that, until all other items of the
// batch are as far, or over. It is to be called right before the item is stored, by
// whoever holds nothing that another item could wait for.
func Gather(ctx context.Context) {
	m, ok := ctx.Value(memberKey{}).(*member)
	if !ok {
		return
	}
	m.arrive()
	select {
	case <-m.of.all:
	case <-ctx.Done():
	}
}
