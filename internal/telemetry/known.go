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
	mu  sync.Mutex // of add
}

func (m *known[K, V]) get(k K) (v V, ok bool) {
	if now := m.now.Load(); now != nil {
		v, ok = (*now)[k]
	}
	return v, ok
}

// all returns the map as it is now, which nobody may change.
func (m *known[K, V]) all() map[K]V {
	if now := m.now.Load(); now != nil {
		return *now
	}
	return nil
}

// add returns what has the key k, which is what fresh returns where nothing had it.
func (m *known[K, V]) add(k K, fresh func() V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.get(k); ok {
		return v
	}
	next := map[K]V{}
	if now := m.now.Load(); now != nil {
		next = maps.Clone(*now)
	}
	v := fresh()
	next[k] = v
	m.now.Store(&next)
	return v
}
