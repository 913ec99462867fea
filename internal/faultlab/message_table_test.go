package faultlab

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

func TestBodies(t *testing.T) {
	w := newWriter(7)
	rnd := rand.New(rand.NewPCG(7, 7))
	small, large := 0, 0
	for i := range 400 {
		n := size(rnd)
		b := w.body("3-14", n, i%2 == 0, rnd)
		if len(b) < smallest-64 || len(b) > largest {
			t.Fatalf("body(%d): %d octets, want %d to %d", n, len(b), smallest, largest)
		}
		switch {
		case len(b) < 5_000:
			small++
		case len(b) > 20_000:
			large++
		}
		if key := keyOf(b); key != "3-14" {
			t.Fatalf("keyOf: got %q, want 3-14", key)
		}
		if got := bytes.Contains(b, []byte(poison)); got != (i%2 == 0) {
			t.Fatalf("body: poison %t", got)
		}
		for d := xml.NewDecoder(bytes.NewReader(b)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("body(%d) is not well-formed: %v\n%s", n, err, b)
			}
		}
	}
	if small < 120 || large < 40 {
		t.Errorf("sizes: %d below 5 KB and %d above 20 KB of 400", small, large)
	}
	one := w.body("1-1", 9000, false, rand.New(rand.NewPCG(1, 1)))
	two := newWriter(7).body("1-1", 9000, false, rand.New(rand.NewPCG(1, 1)))
	if !bytes.Equal(one, two) {
		t.Error("the same seeds make another body")
	}
	if keyOf([]byte("no key")) != "" || keyOf([]byte(keyStart+"cut off")) != "" {
		t.Error("keyOf finds a key where there is none")
	}
}
