package balance

// Nodes is what a policy sees of a backend, for one message.
type Nodes interface {
	// Len is the number of nodes; they are numbered from 0.
	Len() int

	// Load is the number of tries that node i has under way.
	Load(i int) int64

	// Tried tells whether node i must not be picked for this message again.
	Tried(i int) bool
}

// Policy picks nodes.
type Policy interface {
	// Pick returns the number of an untried node, or -1 if there is none.
	Pick(n Nodes) int
}

// Rand is a source of uniform numbers; *math/rand/v2.Rand has the method. A
// Rand that is given to a policy must be safe for concurrent use.
type Rand interface {
	// IntN returns a number in [0,n).
	IntN(n int) int
}
