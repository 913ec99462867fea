package xmlstream

import "hash/maphash"

// fewAttributes is how many are compared pair by pair before a hash pays.
const fewAttributes = 12

// twins finds two attributes of one tag with the same name, in linear time
// however many there are. Its table is open-addressed; an entry counts only
// in the round that wrote it, so a new tag need not clear the table.
type twins struct {
	slots []twinSlot
	round uint64
}

type twinSlot struct {
	round uint64
	index int
	hash  uint64
}

func (t *twins) reset() {
	t.slots = recycle(t.slots)
	t.slots = t.slots[:cap(t.slots)]
}

// find returns the index of the first attribute whose name an earlier one has,
// or -1. It compares names as written, or expanded names of the prefixed
// attributes; an unprefixed name can equal only another unprefixed one.
func (t *twins) find(seed maphash.Seed, w []byte, a []attrSpan, expanded bool) int {
	if len(a) <= fewAttributes {
		for i := 1; i < len(a); i++ {
			for k := range i {
				if same(w, &a[i], &a[k], expanded) {
					return i
				}
			}
		}
		return -1
	}
	size := 64
	for size < 2*len(a) {
		size *= 2
	}
	if len(t.slots) < size {
		t.slots = make([]twinSlot, size)
	}
	t.round++
	mask := uint64(len(t.slots) - 1)
	for i := range a {
		n := a[i].name
		from := n.start
		if expanded {
			from = n.colon + 1
		}
		h := maphash.Bytes(seed, w[from:n.end])
		if expanded {
			// Indices of namespaces are small and dense: spread them.
			h ^= uint64(a[i].uri) * 0x9E3779B97F4A7C15
		}
		for p := h & mask; ; p = (p + 1) & mask {
			slot := &t.slots[p]
			if slot.round != t.round {
				*slot = twinSlot{t.round, i, h}
				break
			}
			if slot.hash == h && same(w, &a[i], &a[slot.index], expanded) {
				return i
			}
		}
	}
	return -1
}

func same(w []byte, a, b *attrSpan, expanded bool) bool {
	if expanded {
		return a.uri == b.uri &&
			string(w[a.name.colon+1:a.name.end]) == string(w[b.name.colon+1:b.name.end])
	}
	return string(w[a.name.start:a.name.end]) == string(w[b.name.start:b.name.end])
}
