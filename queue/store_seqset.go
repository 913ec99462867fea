package queue

import (
	"math/bits"
	"slices"
)

// chunkBits is how many sequence numbers share one chunk of a seqSet, which is
// also the unit in which a store keeps what it removed.
const chunkBits = 1 << 16

// seqSet is a set of sequence numbers that is mostly made of long runs. A full
// chunk costs nothing but its entry; any other 8 KiB.
type seqSet struct {
	chunks map[uint64]*seqChunk // by sequence / chunkBits
}

type seqChunk struct {
	n    int // members
	bits []uint64
}

func (s *seqSet) has(seq uint64) bool {
	c := s.chunks[seq/chunkBits]
	if c == nil {
		return false
	}
	i := seq % chunkBits
	return c.n == chunkBits || c.bits[i/64]&(1<<(i%64)) != 0
}

// add reports whether seq was not yet in s.
func (s *seqSet) add(seq uint64) bool {
	c := s.chunks[seq/chunkBits]
	if c == nil {
		if s.chunks == nil {
			s.chunks = make(map[uint64]*seqChunk)
		}
		c = &seqChunk{bits: make([]uint64, chunkBits/64)}
		s.chunks[seq/chunkBits] = c
	}
	i := seq % chunkBits
	if c.n == chunkBits || c.bits[i/64]&(1<<(i%64)) != 0 {
		return false
	}
	c.bits[i/64] |= 1 << (i % 64)
	if c.n++; c.n == chunkBits {
		c.bits = nil
	}
	return true
}

// skip returns the first number from seq on that is not in s.
func (s *seqSet) skip(seq uint64) uint64 {
	for {
		c := s.chunks[seq/chunkBits]
		switch {
		case c == nil:
			return seq
		case c.n == chunkBits:
			seq = (seq/chunkBits + 1) * chunkBits
			continue
		}
		i := seq % chunkBits
		if free := ^c.bits[i/64] >> (i % 64); free != 0 {
			return seq + uint64(bits.TrailingZeros64(free))
		}
		seq += 64 - i%64
	}
}

func (s *seqSet) clone() seqSet {
	c := seqSet{chunks: make(map[uint64]*seqChunk, len(s.chunks))}
	for k, v := range s.chunks {
		c.chunks[k] = &seqChunk{n: v.n, bits: slices.Clone(v.bits)}
	}
	return c
}

// dropBelow forgets whole chunks below seq and returns their numbers.
func (s *seqSet) dropBelow(seq uint64) (dropped []uint64) {
	for k := range s.chunks {
		if (k+1)*chunkBits <= seq {
			delete(s.chunks, k)
			dropped = append(dropped, k)
		}
	}
	return dropped
}

// max returns the highest member, 0 for the empty set.
func (s *seqSet) max() (top uint64) {
	for k, c := range s.chunks {
		if c.n == 0 || k*chunkBits+chunkBits-1 <= top {
			continue
		}
		if c.n == chunkBits {
			top = max(top, k*chunkBits+chunkBits-1)
			continue
		}
		for w := len(c.bits) - 1; w >= 0; w-- {
			if c.bits[w] != 0 {
				top = max(top, k*chunkBits+uint64(w*64+63-bits.LeadingZeros64(c.bits[w])))
				break
			}
		}
	}
	return top
}

// dropAbove forgets the members above seq and returns the chunks that changed.
func (s *seqSet) dropAbove(seq uint64) (changed []uint64) {
	for k, c := range s.chunks {
		first := k * chunkBits
		switch {
		case first+chunkBits-1 <= seq:
			continue
		case first > seq:
			delete(s.chunks, k)
		default:
			if c.n == chunkBits {
				c.bits = make([]uint64, chunkBits/64)
				for i := range c.bits {
					c.bits[i] = ^uint64(0)
				}
			}
			keep := seq - first + 1 // the first bits of the chunk
			c.n = 0
			for w := range c.bits {
				switch at := uint64(w * 64); {
				case at >= keep:
					c.bits[w] = 0
				case at+64 > keep:
					c.bits[w] &= 1<<(keep-at) - 1
				}
				c.n += bits.OnesCount64(c.bits[w])
			}
		}
		changed = append(changed, k)
	}
	return changed
}

// marshalChunk writes chunk k: nothing for a full one, else its words, little
// end first, without the zero words at the end.
func (s *seqSet) marshalChunk(k uint64) []byte {
	c := s.chunks[k]
	if c == nil {
		return make([]byte, 8)
	}
	if c.n == chunkBits {
		return nil
	}
	n := len(c.bits)
	for n > 1 && c.bits[n-1] == 0 {
		n--
	}
	b := make([]byte, 0, n*8)
	for _, w := range c.bits[:n] {
		for i := 0; i < 64; i += 8 {
			b = append(b, byte(w>>i))
		}
	}
	return b
}

// unmarshalChunk reads what marshalChunk wrote.
func (s *seqSet) unmarshalChunk(k uint64, b []byte) error {
	if len(b)%8 != 0 || len(b) > chunkBits/8 {
		return errFormat
	}
	if s.chunks == nil {
		s.chunks = make(map[uint64]*seqChunk)
	}
	if len(b) == 0 {
		s.chunks[k] = &seqChunk{n: chunkBits}
		return nil
	}
	c := &seqChunk{bits: make([]uint64, chunkBits/64)}
	for i, x := range b {
		c.bits[i/8] |= uint64(x) << (i % 8 * 8)
		c.n += bits.OnesCount8(x)
	}
	if c.n == chunkBits {
		c.bits = nil
	}
	if c.n > 0 {
		s.chunks[k] = c
	}
	return nil
}
