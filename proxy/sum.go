package proxy

import (
	"crypto/sha256"
	"hash"

	"soapway/soapcodec"
)

// bodySum hashes the content of Body while an envelope passes: what is compared of
// a message and its repeat, see [call.identify].
type bodySum struct {
	hash hash.Hash
	dec  *soapcodec.Decoder
}

func newBodySum(dec *soapcodec.Decoder) *bodySum { return &bodySum{sha256.New(), dec} }

// add takes octets that the decoder has settled, so that it knows whether they are
// in Body.
func (s *bodySum) add(at int64, octets []byte) {
	f := s.dec.Facts()
	if f.BodyStart == 0 {
		return // it has not begun
	}
	end := at + int64(len(octets))
	if f.BodyEnd > 0 {
		end = min(end, f.BodyEnd)
	}
	if from := max(at, f.BodyStart); from < end {
		_, _ = s.hash.Write(octets[from-at : end-at]) // a hash takes everything
	}
}

func (s *bodySum) sum() (sum [sha256.Size]byte) {
	s.hash.Sum(sum[:0])
	return sum
}

// partSum hashes a message with attachments while it passes, as [call.sumPackage]
// does one that is whole in memory.
type partSum struct {
	parts hash.Hash // of the hashes of the parts but the root
	part  hash.Hash // of the present one, nil if there is none
	body  *bodySum  // of the root
	held  tee       // what the decoder has read of a root that goes on as it came
}

func newPartSum(dec *soapcodec.Decoder) *partSum {
	return &partSum{parts: sha256.New(), body: newBodySum(dec)}
}

// piece takes a piece of the package.
func (s *partSum) piece(kind soapcodec.PartKind, root bool, octets []byte) {
	switch kind {
	case soapcodec.PartHeader:
		s.end()
		if !root {
			s.part = sha256.New()
		}
	case soapcodec.PartContent:
		if s.part != nil {
			_, _ = s.part.Write(octets)
		}
	case soapcodec.CloseDelimiter:
		s.end()
	}
}

// end ends the present part.
func (s *partSum) end() {
	if s.part != nil {
		_, _ = s.parts.Write(s.part.Sum(nil))
		s.part = nil
	}
}

// settle takes what the decoder has done with, all of it at the end of the root.
func (s *partSum) settle(all bool) {
	upto := s.held.total()
	if !all {
		upto = min(upto, s.body.dec.Settled())
	}
	if n := upto - s.held.at(); n > 0 {
		s.held.drop(int(n))
	}
}

func (s *partSum) sum() (sum [sha256.Size]byte) {
	s.end()
	body := s.body.sum()
	_, _ = s.parts.Write(body[:])
	s.parts.Sum(sum[:0])
	return sum
}
