package balance

// Nodes is what a policy sees of a backend, for one message. Nothing of it
// changes while Pick runs, but for Load.
type Nodes interface {
	// Len is the number of nodes; they are numbered from 0.
	Len() int

	// Load is the number of tries that node i has under way.
	Load(i int) int64

	// Weight is the share of node i at this moment, in relation to those of the
	// others: at most [MaxWeight]. 0 says that it must not be picked for this
	// message: it was tried already, or others are healthier.
	Weight(i int) int64

	// Again tells whether the message was tried at a node already.
	Again() bool

	// Key is what the message is hashed by, see [KeyOf]; false if it has nothing
	// of the kind.
	Key() (key uint64, ok bool)
}

// MaxWeight bounds the weight of a node, so that the sum over a thousand nodes
// still fits 32 bits: Rand is asked for numbers below such sums.
const MaxWeight = 1_000_000

// Policy picks nodes.
type Policy interface {
	// Pick returns the number of a node whose weight is not 0, or -1 if there
	// is none.
	Pick(n Nodes) int
}

// Rand is a source of uniform numbers; *math/rand/v2.Rand has the method. A
// Rand that is given to a policy must be safe for concurrent use.
type Rand interface {
	// IntN returns a number in [0,n).
	IntN(n int) int
}

// sum adds up the weights of all nodes but one; without = -1 leaves none out.
func sum(n Nodes, without int) (total int64) {
	for i := range n.Len() {
		if i != without {
			total += n.Weight(i)
		}
	}
	return total
}

// at returns the node at the place of a draw in [0, sum): each node takes up as
// much room as it has weight.
func at(n Nodes, without int, draw int64) int {
	for i := range n.Len() {
		if i == without {
			continue
		}
		if draw -= n.Weight(i); draw < 0 {
			return i
		}
	}
	return -1
}
