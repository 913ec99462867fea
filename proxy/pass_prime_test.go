package proxy

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"soapway/soapcodec"
)

// TestPrimeKeepsEdits: what the decoder edits while the pass is primed must
// reach the octets that the first Read gives away.
func TestPrimeKeepsEdits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	opt := soapcodec.Options{Normalize: soapcodec.Envelope}
	doc := bytes.Replace(bigEnvelope(rng, 4*holdBack), []byte("xmlns"), []byte(" \n\txmlns"), 1)
	dec := soapcodec.NewDecoder(opt)
	dec.ResetBytes(doc)
	if err := dec.Finish(); err != nil {
		t.Fatal(err)
	}
	want := soapcodec.Apply(nil, doc, dec.TakeEdits())
	if bytes.Equal(want, doc) {
		t.Fatal("the document needs no edit")
	}
	for _, n := range []int64{1, 200, holdBack + 500, int64(len(doc))} {
		p := newPass(&random{rng: rng, data: doc, max: 5000}, opt)
		if err := p.prime(n); err != nil {
			t.Fatal(err)
		}
		if got, err := drain(t, p, rng, 40_000); err != nil || !bytes.Equal(got, want) {
			t.Errorf("primed to %d: got %d octets, %v, want %d; first difference at %d", n, len(got), err, len(want), firstDiff(got, want))
		}
	}
}
