package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
)

// known is a map that is read all the time and grows seldom: readers share one
// that nobody changes any more. The zero value is empty.
type known[K comparable, V any] struct {
	now atomic.Pointer[map[K]V]
	mu  sync.Mutex // of put
}

func (m *known[K, V]) get(k K) (v V, ok bool) {
	if now := m.now.Load(); now != nil {
		v, ok = (*now)[k]
	}
	return v, ok
}

func (m *known[K, V]) put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]V{}
	if now := m.now.Load(); now != nil {
		next = maps.Clone(*now)
	}
	next[k] = v
	m.now.Store(&next)
}
