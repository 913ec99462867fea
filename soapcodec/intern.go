package soapcodec

// An interner hands out one string for equal octets, so that names which
// repeat from message to message allocate once. It is bounded: a peer that
// sends ever new names makes it start afresh, not grow.
type interner map[string]string

const (
	maxInterned       = 512
	maxInternedLength = 256
)

func (in interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > maxInternedLength {
		return s
	}
	if len(in) >= maxInterned {
		clear(in)
	}
	in[s] = s
	return s
}
