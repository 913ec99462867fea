package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSeqSet compares with a map, around the borders of chunks and with full chunks.
func TestSeqSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	const top = 4 * chunkBits
	var s seqSet
	model := make(map[uint64]bool)
	add := func(seq uint64) {
		if got := s.add(seq); got == model[seq] {
			t.Fatalf("add(%d): got %v", seq, got)
		}
		model[seq] = true
	}
	for seq := uint64(chunkBits); seq < 2*chunkBits; seq++ { // a full one
		add(seq)
	}
	for range 20000 {
		add(rnd.Uint64N(top))
	}
	for _, seq := range []uint64{2*chunkBits - 1, 2 * chunkBits, 3*chunkBits - 1, 3 * chunkBits} {
		add(seq)
	}
	check := func(when string, s *seqSet) {
		t.Helper()
		next, high := uint64(top), uint64(0)
		for seq := uint64(top); seq > 0; {
			seq--
			if s.has(seq) != model[seq] {
				t.Fatalf("%s: has(%d): got %v", when, seq, !model[seq])
			}
			if !model[seq] {
				next = seq
			} else {
				high = max(high, seq)
			}
			if seq%97 == 0 || seq%chunkBits < 3 {
				if got := s.skip(seq); got != next {
					t.Fatalf("%s: skip(%d): got %d, want %d", when, seq, got, next)
				}
			}
		}
		if got := s.max(); got != high {
			t.Fatalf("%s: max: got %d, want %d", when, got, high)
		}
	}
	check("added", &s)
	copied := s.clone()
	var read seqSet
	for k := range s.chunks {
		if err := read.unmarshalChunk(k, s.marshalChunk(k)); err != nil {
			t.Fatal(err)
		}
	}
	check("read back", &read)
	for seq := range model {
		if seq > chunkBits+100 {
			delete(model, seq)
		}
	}
	changed := s.dropAbove(chunkBits + 100)
	slices.Sort(changed)
	if !slices.Equal(changed, []uint64{1, 2, 3}) {
		t.Errorf("dropAbove: changed %v", changed)
	}
	check("dropped above", &s)
	if dropped := copied.dropBelow(2*chunkBits + 5); len(dropped) != 2 || copied.has(chunkBits) {
		t.Errorf("dropBelow: dropped %v", dropped)
	}
	if err := s.unmarshalChunk(0, make([]byte, 7)); err == nil {
		t.Error("unmarshalChunk of 7 octets: no error")
	}
}
