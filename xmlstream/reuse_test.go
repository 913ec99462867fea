package xmlstream

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzReuse checks that a scanner keeps nothing of one document, which may have
// been left in its middle, that changes what it says about the next one, also
// under other limits. The reference has read nothing before and gets its octets
// one by one.
func FuzzReuse(f *testing.F) {
	add := func(doc []byte) {
		f.Add(doc, doc, uint16(0), uint8(0))
		f.Add(doc, doc, uint16(5), uint8(3))
	}
	seed(f, add)
	list := []byte(`<r xmlns:p="urn:p"><p:i a="1" p:b='2'>x</p:i><p:i a="3" p:b='4'>y</p:i><p:i a="5" p:b='6'/></r>`)
	add(list)
	for _, change := range [][2]string{{"urn:p", "urn:q"}, {`p:b`, `p:a`}, {`a="`, `b="`}, {"'6'/", "'6'"}, {"<p:i a", "<q:i a"}, {"xmlns:p", "xmlns"}, {`"3"`, `"<"`}, {`'4'`, `'4"`}} {
		f.Add(list, bytes.Replace(list, []byte(change[0]), []byte(change[1]), 1), uint16(3), uint8(0))
	}
	f.Fuzz(func(t *testing.T, before, doc []byte, tokens uint16, limits uint8) {
		lim := Limits{}
		if limits > 0 {
			n := int(limits)
			lim = Limits{Depth: n, Attributes: n, Namespaces: n, Name: n, AttributeValue: 2 * n, Elements: int64(2 * n), Text: int64(4 * n)}
		}
		fresh := NewScanner(lim)
		fresh.Reset(iotest.OneByteReader(bytes.NewReader(doc)))
		want := dump(fresh)
		for _, first := range []Limits{{}, lim} {
			for name, reset := range map[string]func(s *Scanner, doc []byte){
				"bytes":    (*Scanner).ResetBytes,
				"a reader": func(s *Scanner, doc []byte) { s.Reset(newChunks(doc, uint64(len(before)))) },
			} {
				used := NewScanner(first)
				reset(used, before)
				for range tokens {
					if _, err := used.Next(); err != nil && err != io.EOF {
						break
					}
				}
				used.SetLimits(lim)
				for range 2 { // the second time it has read this one too
					reset(used, doc)
					if got := dump(used); got != want {
						t.Fatalf("Next(%q) over %s, after %d tokens of %q: got\n%s\nwant\n%s", doc, name, tokens, before, got, want)
					}
				}
			}
		}
	})
}
