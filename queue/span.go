package queue

import (
	"encoding/binary"
	"slices"
	"sort"
)

// A span is the numbers from a first to a last one.
type span struct{ from, to uint64 }

// spans is a set of numbers that are dense: in order, none touches the next.
type spans []span

// find is the index of the first span that ends at n or behind it.
func (s spans) find(n uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].to >= n })
}

func (s spans) has(n uint64) bool {
	i := s.find(n)
	return i < len(s) && s[i].from <= n
}

// add reports whether n was not yet in s.
func (s *spans) add(n uint64) bool {
	i := s.find(n)
	if i < len(*s) && (*s)[i].from <= n {
		return false
	}
	before := i > 0 && (*s)[i-1].to == n-1
	behind := i < len(*s) && (*s)[i].from == n+1
	switch {
	case before && behind:
		(*s)[i-1].to = (*s)[i].to
		*s = slices.Delete(*s, i, i+1)
	case before:
		(*s)[i-1].to = n
	case behind:
		(*s)[i].from = n
	default:
		*s = slices.Insert(*s, i, span{n, n})
	}
	return true
}

// top is the highest number, 0 if there is none.
func (s spans) top() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].to
}

// append writes the distances between the ends, each as a varint.
func (s spans) append(b []byte) []byte {
	last := uint64(0)
	for _, r := range s {
		b = binary.AppendUvarint(b, r.from-last)
		b = binary.AppendUvarint(b, r.to-r.from)
		last = r.to
	}
	return b
}

// parseSpans reads what append has written.
func parseSpans(b []byte) (spans, error) {
	var s spans
	last := uint64(0)
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errFormat
		}
		b = b[n:]
		length, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errFormat
		}
		b = b[n:]
		r := span{last + gap, last + gap + length}
		if gap == 0 || len(s) > 0 && gap < 2 || r.from < last || r.to < r.from {
			return nil, errFormat
		}
		s, last = append(s, r), r.to
	}
	return s, nil
}
