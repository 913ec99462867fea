package queue

import (
	"iter"
	"slices"
	"sort"
)

// idList is a set of ids in order. Adding, removing and finding a place cost the
// same with a million of them as with a few: it is kept in pieces of bounded
// length.
type idList struct {
	pieces [][]string // none of them empty
	n      int
}

// idPiece is the most ids of a piece.
const idPiece = 512

func (l *idList) len() int { return l.n }

// piece is the index of the piece in which id is, or would be; it may be one too
// far.
func (l *idList) piece(id string) int {
	return sort.Search(len(l.pieces), func(i int) bool {
		p := l.pieces[i]
		return p[len(p)-1] >= id
	})
}

// add puts id in; one that is in stays.
func (l *idList) add(id string) {
	i := l.piece(id)
	if i == len(l.pieces) {
		if i == 0 {
			l.pieces = append(l.pieces, []string{id})
			l.n++
			return
		}
		i-- // behind all others
	}
	at, found := slices.BinarySearch(l.pieces[i], id)
	if found {
		return
	}
	l.n++
	l.pieces[i] = slices.Insert(l.pieces[i], at, id)
	if p := l.pieces[i]; len(p) > idPiece {
		half := len(p) / 2
		if at == len(p)-1 && i == len(l.pieces)-1 {
			half = len(p) - 1 // they come in order: leave full pieces behind
		}
		l.pieces[i] = slices.Clip(p[:half])
		l.pieces = slices.Insert(l.pieces, i+1, slices.Clone(p[half:]))
	}
}

// remove takes id out; one that is not in is no error.
func (l *idList) remove(id string) {
	i := l.piece(id)
	if i == len(l.pieces) {
		return
	}
	at, found := slices.BinarySearch(l.pieces[i], id)
	if !found {
		return
	}
	l.n--
	if l.pieces[i] = slices.Delete(l.pieces[i], at, at+1); len(l.pieces[i]) == 0 {
		l.pieces = slices.Delete(l.pieces, i, i+1)
	}
}

// after yields the ids behind one, which need not be in, in order.
func (l *idList) after(id string) iter.Seq[string] {
	return func(yield func(string) bool) {
		i := l.piece(id)
		if i == len(l.pieces) {
			return
		}
		at, found := slices.BinarySearch(l.pieces[i], id)
		if found {
			at++
		}
		for ; i < len(l.pieces); i++ {
			for _, each := range l.pieces[i][at:] {
				if !yield(each) {
					return
				}
			}
			at = 0
		}
	}
}
