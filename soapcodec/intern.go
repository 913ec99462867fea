package soapcodec

// An interner hands out one string for equal octets, so that names which
// repeat from message to message allocate once. It is bounded: a peer that
// sends ever new names makes it start afresh, not grow. The zero value is
// ready for use.
type interner struct {
	recent [1 << recentBits]string // by a weak hash, to spare nearly all the map's strong one
	all    map[string]string
}

const (
	maxInterned       = 512
	maxInternedLength = 256
	recentBits        = 7
)

func (in *interner) get(b []byte) string {
	n := len(b)
	if n == 0 {
		return ""
	}
	h := (uint32(n) | uint32(b[0])<<8 | uint32(b[n/2])<<16 | uint32(b[n-1])<<24) * 0x9E3779B1
	recent := &in.recent[h>>(32-recentBits)]
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
