package soapcodec

// An interner hands out one string for equal octets, so that names which
// repeat from message to message allocate once. It is bounded: a peer that
// sends ever new names makes it start afresh, not grow. The zero value is
// ready for use.
type interner struct {
	recent [64]string // by a weak hash, to spare nearly all the map's strong one
	all    map[string]string
}

const (
	maxInterned       = 512
	maxInternedLength = 256
)

func (in *interner) get(b []byte) string {
	n := uint(len(b))
	if n == 0 {
		return ""
	}
	recent := &in.recent[(n+3*uint(b[0])+5*uint(b[n/2])+7*uint(b[n-1]))%uint(len(in.recent))]
	if *recent == string(b) {
		return *recent
	}
	if n > maxInternedLength {
		return string(b)
	}
	*recent = in.find(b)
	return *recent
}

func (in *interner) find(b []byte) string {
	if s, ok := in.all[string(b)]; ok {
		return s
	}
	if in.all == nil || len(in.all) >= maxInterned {
		in.all = make(map[string]string)
	}
	s := string(b)
	in.all[s] = s
	return s
}
