package main

import "fmt"

// A tally is what a contender saw: the proof that it did the work.
type tally struct {
	starts, ends uint64
	attrs        uint64 // namespace declarations are none
	names        uint64 // sum of the first octets of local names, of elements and attributes
	values       uint64 // octets of attribute values, references replaced
	text         uint64 // octets of text in the root, references replaced
	spaced       uint64 // names of elements and attributes in a namespace
}

const tallyFormat = "%d %d %d %d %d %d %d"

func (t *tally) String() string {
	return fmt.Sprintf(tallyFormat, t.starts, t.ends, t.attrs, t.names, t.values, t.text, t.spaced)
}

func parseTally(s string) (t tally, err error) {
	_, err = fmt.Sscanf(s, tallyFormat, &t.starts, &t.ends, &t.attrs, &t.names, &t.values, &t.text, &t.spaced)
	return t, err
}

// times is the tally of n equal passes.
func (t tally) times(n uint64) tally {
	return tally{t.starts * n, t.ends * n, t.attrs * n, t.names * n, t.values * n, t.text * n, t.spaced * n}
}
