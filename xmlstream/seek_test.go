package xmlstream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// watched are the names that these tests look for: some of the documents' elements.
func watched(local []byte) bool { return len(local) > 0 && local[0]%3 == 0 }

// seek is Seek in the shape of Skip.
func seek(s *Scanner, _ int) (Kind, error) { return s.Seek() }

// seekByNext is what Seek must be, token by token.
func seekByNext(s *Scanner, _ int) (Kind, error) {
	for {
		k, err := s.Next()
		switch {
		case err != nil:
			return 0, err
		case s.Depth() == 0, k == End && s.Depth() == 1, k == Start && watched(s.Local()):
			return k, nil
		}
	}
}

func TestSeek(t *testing.T) {
	const doc = `<?xml version="1.0"?><a x="1">t<b><c/>u</b><!--v--><p:c xmlns:p="u">w<c>x</c></p:c></a><!--y-->`
	want := "declaration 0-21, start 34-38, start 51-68, start 69-72, end 83-87, comment 87-95, EOF"
	for _, src := range sources {
		s := NewScanner(Limits{})
		s.Watch(func(local []byte) bool { return string(local) == "c" })
		for range 3 { // the third time all its tags are known
			src.reset(s, []byte(doc))
			var got strings.Builder
			for {
				k, err := s.Seek()
				if err != nil {
					got.WriteString(err.Error())
					break
				}
				fmt.Fprintf(&got, "%v %d-%d, ", k, s.Offset(), s.InputOffset())
			}
			if got.String() != want {
				t.Errorf("over %s: got %s, want %s", src.name, got.String(), want)
			}
		}
		s.Watch(nil)
		src.reset(s, []byte(doc[:87]))
		for _, want := range []Kind{Declaration, End} {
			if k, err := s.Seek(); k != want || err != nil {
				t.Errorf("over %s, for nothing: got %v, %v, want %v", src.name, k, err, want)
			}
		}
		if _, err := s.Seek(); err != io.EOF {
			t.Errorf("over %s: got %v at the end", src.name, err)
		}
	}
}

// Seek stops where Next would, with the same error at the same place, whatever
// the scanner has learnt; what it looked for before does not count.
func TestSeekEvents(t *testing.T) {
	var docs [][]byte
	for _, tt := range cases {
		docs = append(docs, []byte(tt.doc))
	}
	for i := range uint64(200) {
		docs = append(docs, randomDocument(rand.New(rand.NewPCG(i, 3))))
	}
	for _, set := range benchSets()[:2] {
		docs = append(docs, set.docs[0][:min(len(set.docs[0]), 8<<10)], set.docs[0])
	}
	careful, learnt := NewScanner(Limits{}), NewScanner(Limits{})
	careful.roomy = false
	for i, doc := range docs {
		careful.Reset(bytes.NewReader(doc))
		want := dumpSkipping(careful, uint64(i), seekByNext)
		learnt.Watch(nil)
		learnt.ResetBytes(doc)
		_ = skipAll(learnt) // its errors are those of the others
		learnt.Watch(watched)
		fresh := NewScanner(Limits{})
		fresh.Watch(watched)
		for range 3 {
			for _, s := range []*Scanner{fresh, learnt} {
				for _, src := range []source{
					{"bytes", (*Scanner).ResetBytes},
					{"halves", func(s *Scanner, doc []byte) { s.Reset(iotest.HalfReader(bytes.NewReader(doc))) }},
				} {
					src.reset(s, doc)
					if got := dumpSkipping(s, uint64(i), seek); got != want {
						t.Fatalf("Seek(%.2000q) over %s: got\n%s\nwant\n%s", doc, src.name, got, want)
					}
				}
			}
		}
	}
}

// FuzzSeek compares Seek, by a scanner that has read other documents and this one,
// with Next by one that has not.
func FuzzSeek(f *testing.F) {
	seed(f, func(doc []byte) { f.Add(doc, doc, uint64(1)) })
	f.Add([]byte("<r>\n  <a/>\n  <b>\n  </b>\n  <a/>\n</r>"), []byte("<r>\n  <f a='1'/>\n  <c>\n</c>\n \n<f a='2'/>\n</r>\n"), uint64(3))
	f.Fuzz(func(t *testing.T, before, doc []byte, rnd uint64) {
		fresh := NewScanner(Limits{})
		fresh.roomy = false
		fresh.Reset(iotest.OneByteReader(bytes.NewReader(doc)))
		want := dumpSkipping(fresh, rnd, seekByNext)
		for _, src := range []source{
			{"bytes", (*Scanner).ResetBytes},
			{"a reader", func(s *Scanner, doc []byte) { s.Reset(newChunks(doc, rnd)) }},
		} {
			used := NewScanner(Limits{})
			used.Watch(watched)
			src.reset(used, before)
			_ = skipAll(used)
			for range 3 { // from the second time on it has read this one too
				src.reset(used, doc)
				if got := dumpSkipping(used, rnd, seek); got != want {
					t.Fatalf("Seek(%q) over %s, after %q: got\n%s\nwant\n%s", doc, src.name, before, got, want)
				}
			}
		}
	})
}

func BenchmarkSeek(b *testing.B) {
	for _, set := range benchSets() {
		b.Run(set.name, func(b *testing.B) {
			s := NewScanner(Limits{})
			s.Watch(func(local []byte) bool { return string(local) == "address" })
			size := 0
			for _, doc := range set.docs {
				size += len(doc)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, doc := range set.docs {
					s.ResetBytes(doc)
					for {
						if _, err := s.Seek(); err == io.EOF {
							break
						} else if err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		})
	}
}
