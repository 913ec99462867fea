package xmlstream

import (
	"bytes"
	"cmp"
	"slices"
)

// longSpace is the length above which namespaces are not compared for each pair
// of attributes, but once, when they are first used. Elements of a few octets
// that use hundreds of long namespaces, alike but for their ends, were a way to
// attack.
const longSpace = 128

// attrOrder knows the order of the long namespaces that are in force in a scope.
// It follows the scope lazily: what is declared is sorted in once an attribute
// uses it, at a cost that its own length pays for.
type attrOrder struct {
	known int   // scope.uris[:known] have been looked at
	long  []int // indices of the long ones in their order
	ranks []int // the place in long, by index; valid for the long ones of known
	stale bool  // ranks are not up to date
}

func (o *attrOrder) reset() {
	o.known, o.stale = 0, false
	o.long, o.ranks = recycle(o.long), recycle(o.ranks)
}

// truncate follows the scope after declarations have been taken back.
func (o *attrOrder) truncate(x *scope) {
	if o.known <= len(x.uris) {
		return
	}
	o.known = len(x.uris)
	n := len(o.long)
	o.long = slices.DeleteFunc(o.long, func(id int) bool { return id >= o.known })
	o.stale = o.stale || len(o.long) < n
}

// rank returns the place of a long namespace of x.
func (o *attrOrder) rank(x *scope, id int) int {
	for ; o.known < len(x.uris); o.known++ {
		uri := x.uri(o.known)
		if len(uri) <= longSpace {
			continue
		}
		i, _ := slices.BinarySearchFunc(o.long, uri, func(id int, uri []byte) int { return bytes.Compare(x.uri(id), uri) })
		o.long = slices.Insert(o.long, i, o.known)
		o.stale = true
	}
	if o.stale {
		o.stale = false
		o.ranks = slices.Grow(o.ranks[:0], o.known)[:o.known]
		for i, id := range o.long {
			o.ranks[id] = i
		}
	}
	return o.ranks[id]
}

// orderedAttr is an attribute and the rank of its namespace, if that is long.
type orderedAttr struct {
	*Attr
	rank int // -1 for a short one
}

// compareAttrs orders by namespace, none first, then by local name. The octets
// of UTF-8 are in the order of the characters that they encode.
func compareAttrs(a, b orderedAttr) int {
	var order int
	if a.rank >= 0 && b.rank >= 0 {
		order = cmp.Compare(a.rank, b.rank)
	} else {
		order = bytes.Compare(a.Name.Space, b.Name.Space)
	}
	if order != 0 {
		return order
	}
	return bytes.Compare(a.Name.Local, b.Name.Local)
}
