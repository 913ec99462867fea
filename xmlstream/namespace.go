package xmlstream

import (
	"bytes"
	"hash/maphash"
)

// The two namespaces that need no declaration (Namespaces in XML 1.0 §3).
const (
	xmlSpace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsSpace = "http://www.w3.org/2000/xmlns/"
)

// The first namespaces of every scope, by index.
const (
	noURI = iota
	xmlURI
	xmlnsURI
	fixedURIs
)

// noBindings is the generation of a scope without any.
const noBindings = 1

// fewBindings is how many are searched one by one before a hash pays.
const fewBindings = 16

// scope is the namespace bindings in force, a stack. Namespaces are interned,
// so that two are equal if their indices are: comparing 64 KiB URIs once for
// every pair of attributes would be a way to attack.
//
// Both stacks are searched through hash chains once they are long. A chain is
// newest first, so the head of a bucket is always the entry to pop, and a
// lookup finds the innermost binding of a prefix first.
type scope struct {
	bindings []binding
	uris     []uriEntry
	text     []byte // prefixes and URIs, pushed and popped with their entries
	prefixes chains
	spaces   chains
	seed     maphash.Seed

	// generation names the bindings in force: two times have the same only if
	// nothing was declared in between that is still, or no longer, in force.
	// It is never 0, and noBindings when there are none.
	generation, newest uint64
}

type binding struct {
	prefix, prefixEnd int // text[prefix:prefixEnd]
	uri               int
	uris              int    // len(scope.uris) before this declaration
	generation        uint64 // before this declaration
	key               uint64 // prefixKey
	hash              uint64
	next              int // older entry of the same bucket, or -1
}

type uriEntry struct {
	start, end int // text[start:end]
	hash       uint64
	next       int
}

func (x *scope) reset() {
	x.bindings = recycle(x.bindings)
	x.generation = noBindings
	x.newest = max(x.newest, noBindings)
	x.prefixes.reset()
	x.spaces.reset()
	x.uris, x.text = recycle(x.uris), recycle(x.text)
	// What recycle emptied still holds the fixed entries.
	if cap(x.uris) > 0 && cap(x.text) > 0 {
		x.uris = x.uris[:fixedURIs]
		x.text = x.text[:x.uris[fixedURIs-1].end]
		return
	}
	x.uris, x.text = nil, nil
	x.pushURI(nil)
	x.pushURI([]byte(xmlSpace))
	x.pushURI([]byte(xmlnsSpace))
}

func (x *scope) uri(id int) []byte {
	u := &x.uris[id]
	return x.text[u.start:u.end:u.end]
}

// pushURI adds a namespace that is not there yet.
func (x *scope) pushURI(uri []byte) int {
	id := len(x.uris)
	if id < cap(x.uris) {
		x.uris = x.uris[:id+1]
	} else {
		x.uris = append(x.uris, uriEntry{})
	}
	e := &x.uris[id]
	e.start, e.end, e.hash, e.next = len(x.text), len(x.text)+len(uri), 0, -1
	x.text = append(x.text, uri...)
	if len(uri) > 0 && x.spaces.heads != nil {
		e.hash = maphash.Bytes(x.seed, uri)
	}
	if x.spaces.on(len(x.uris)) {
		for i := range x.uris {
			u := &x.uris[i]
			if u.start < u.end {
				u.hash = maphash.Bytes(x.seed, x.uri(i))
			}
			u.next = x.spaces.push(u.hash, i)
		}
	} else if x.spaces.heads != nil {
		e.next = x.spaces.push(e.hash, id)
	}
	return id
}

// intern returns the index of uri.
func (x *scope) intern(uri []byte) int {
	if len(uri) == 0 {
		return noURI
	}
	if x.spaces.heads == nil {
		for i := len(x.uris) - 1; i >= 0; i-- {
			if bytes.Equal(x.uri(i), uri) {
				return i
			}
		}
		return x.pushURI(uri)
	}
	h := maphash.Bytes(x.seed, uri)
	for i := x.spaces.head(h); i >= 0; i = x.uris[i].next {
		if x.uris[i].hash == h && bytes.Equal(x.uri(i), uri) {
			return i
		}
	}
	return x.pushURI(uri)
}

// declare binds prefix to uri.
func (x *scope) declare(prefix, uri []byte) {
	before := len(x.uris)
	x.bind(prefix, x.intern(uri), before)
}

// bind binds prefix to the namespace with index uri; before this declaration
// there were so many namespaces.
func (x *scope) bind(prefix []byte, uri, before int) {
	id := len(x.bindings)
	if id < cap(x.bindings) {
		x.bindings = x.bindings[:id+1]
	} else {
		x.bindings = append(x.bindings, binding{})
	}
	b := &x.bindings[id] // in place, as an element; see push
	b.uri, b.uris, b.generation, b.next = uri, before, x.generation, -1
	x.newest++
	x.generation = x.newest
	b.prefix = len(x.text)
	x.text = append(x.text, prefix...)
	b.prefixEnd = len(x.text)
	b.key = prefixKey(prefix)
	if x.prefixes.heads != nil {
		b.hash = maphash.Bytes(x.seed, prefix)
	}
	if x.prefixes.on(len(x.bindings)) {
		for i := range x.bindings {
			b := &x.bindings[i]
			b.hash = maphash.Bytes(x.seed, x.text[b.prefix:b.prefixEnd])
			b.next = x.prefixes.push(b.hash, i)
		}
	} else if x.prefixes.heads != nil {
		b.next = x.prefixes.push(b.hash, id)
	}
}

// longPrefix is the least key of the prefixes that their key does not tell
// apart.
const longPrefix = 8 << 56

// prefixKey returns a number that is different for different prefixes of up to
// seven octets, and at least longPrefix for longer ones.
func prefixKey(prefix []byte) uint64 {
	k := uint64(min(len(prefix), 8)) << 56
	for i := range min(len(prefix), 7) {
		k |= uint64(prefix[i]) << (8 * i)
	}
	return k
}

// truncate takes back all declarations but the first n.
func (x *scope) truncate(n int) {
	if n == len(x.bindings) {
		return
	}
	for i := len(x.bindings) - 1; i >= n; i-- {
		b := &x.bindings[i]
		x.prefixes.pop(b.hash, b.next)
		for k := len(x.uris) - 1; k >= b.uris; k-- {
			x.spaces.pop(x.uris[k].hash, x.uris[k].next)
		}
		start := b.prefix
		if b.uris < len(x.uris) {
			start = x.uris[b.uris].start
		}
		x.uris = x.uris[:b.uris]
		x.text = x.text[:start]
	}
	x.generation = x.bindings[n].generation
	x.bindings = x.bindings[:n]
}

// lookup returns the index of the namespace that prefix is bound to. The empty
// prefix is always bound, to no namespace if nothing else.
func (x *scope) lookup(prefix []byte) (uri int, ok bool) {
	if x.prefixes.heads == nil {
		key := prefixKey(prefix)
		for i := len(x.bindings) - 1; i >= 0; i-- {
			b := &x.bindings[i]
			if b.key == key && (key < longPrefix || string(x.text[b.prefix:b.prefixEnd]) == string(prefix)) {
				return b.uri, true
			}
		}
	} else {
		h := maphash.Bytes(x.seed, prefix)
		for i := x.prefixes.head(h); i >= 0; i = x.bindings[i].next {
			b := &x.bindings[i]
			if b.hash == h && string(x.text[b.prefix:b.prefixEnd]) == string(prefix) {
				return b.uri, true
			}
		}
	}
	switch string(prefix) {
	case "":
		return noURI, true
	case "xml":
		return xmlURI, true
	case "xmlns":
		return xmlnsURI, true
	}
	return 0, false
}

// chains are the buckets of a hash over a stack whose entries link to older
// ones of their bucket. They are off (heads is nil) while the stack is short.
type chains struct {
	heads []int // newest entry of a bucket plus one; 0 = none
	store []int // what heads is a part of, kept for the next document
}

func (c *chains) reset() {
	c.heads, c.store = nil, recycle(c.store)
}

// on reports that the stack, now n long, has outgrown the buckets: the caller
// must push all entries again, oldest first.
func (c *chains) on(n int) bool {
	if n <= fewBindings || n <= len(c.heads) {
		return false
	}
	size := 4 * fewBindings
	for size < 2*n {
		size *= 2
	}
	if cap(c.store) < size {
		c.store = make([]int, size)
	}
	c.heads = c.store[:size]
	clear(c.heads)
	return true
}

func (c *chains) head(hash uint64) int { return c.heads[hash&uint64(len(c.heads)-1)] - 1 }

// push makes entry id the head of its bucket and returns the one before it.
func (c *chains) push(hash uint64, id int) (next int) {
	h := &c.heads[hash&uint64(len(c.heads)-1)]
	next, *h = *h-1, id+1
	return next
}

// pop undoes the push of the newest entry.
func (c *chains) pop(hash uint64, next int) {
	if c.heads != nil {
		c.heads[hash&uint64(len(c.heads)-1)] = next + 1
	}
}
