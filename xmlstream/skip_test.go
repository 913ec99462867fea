package xmlstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// skipByNext is what Skip must be, token by token.
func skipByNext(s *Scanner, depth int) (Kind, error) {
	for {
		k, err := s.Next()
		if err != nil {
			return 0, err
		}
		inside := s.Depth() > depth || s.Depth() == depth && k != Start && k != End
		if !inside {
			return k, nil
		}
	}
}

// dumpSkipping renders what the scanner says when it is told to skip now and then.
func dumpSkipping(s *Scanner, seed uint64, skip func(*Scanner, int) (Kind, error)) string {
	rnd := rand.New(rand.NewPCG(seed, 11))
	var out strings.Builder
	for {
		var k Kind
		var err error
		if depth := rnd.IntN(6); depth > 0 {
			k, err = skip(s, depth)
			fmt.Fprintf(&out, "skip %d: ", depth)
		} else {
			k, err = s.Next()
		}
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err)
			if se, ok := errors.AsType[*SyntaxError](err); ok {
				fmt.Fprintf(&out, "offset %d line %d column %d path %q\n", se.Offset, se.Line, se.Column, se.Path)
			}
			if _, again := skip(s, 1); again != err {
				fmt.Fprintf(&out, "and then %v\n", again)
			}
			return out.String()
		}
		writeToken(&out, s, k)
	}
}

func TestSkip(t *testing.T) {
	const doc = `<a x="1">t<b><c/>u</b><!--v--><b>w<![CDATA[x]]></b></a><!--y-->`
	for _, tt := range []struct {
		before int // tokens that Next has told
		depth  int
		want   string
	}{
		{0, 1, "start 0-9"},
		{1, 1, "end 51-55"},
		{1, 2, "text 9-10"},
		{2, 2, "start 10-13"},
		{3, 2, "end 18-22"},
		{3, 3, "start 13-17"},
		{4, 2, "end 18-22"},
		{4, 3, "end 17-17"},
		{4, 1, "end 51-55"},
		{5, 2, "end 18-22"},
		{7, 2, "comment 22-30"},
		{7, 1, "end 51-55"},
		{12, 1, "end 51-55"},
		{13, 1, "comment 55-63"},
		{14, 1, "EOF"},
	} {
		for _, src := range sources {
			s := NewScanner(Limits{})
			for range 3 { // the third time all its tags are known
				src.reset(s, []byte(doc))
				for range tt.before {
					if _, err := s.Next(); err != nil {
						t.Fatal(err)
					}
				}
				k, err := s.Skip(tt.depth)
				got := fmt.Sprintf("%v %d-%d", k, s.Offset(), s.InputOffset())
				if err != nil {
					got = err.Error()
				}
				if got != tt.want {
					t.Errorf("Skip(%d) after %d tokens, over %s: got %s, want %s", tt.depth, tt.before, src.name, got, tt.want)
				}
			}
		}
	}
}

// Skip stops where Next would, with the same error at the same place, whatever
// the scanner has learnt.
func TestSkipEvents(t *testing.T) {
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
		seed := uint64(i)
		careful.Reset(bytes.NewReader(doc))
		want := dumpSkipping(careful, seed, skipByNext)
		bothWays(t, func(t *testing.T) {
			fresh := NewScanner(Limits{})
			for range 3 {
				for _, s := range []*Scanner{fresh, learnt} {
					s.ResetBytes(doc)
					if got := dumpSkipping(s, seed, (*Scanner).Skip); got != want {
						t.Fatalf("Skip(%.2000q), wide %v: got\n%s\nwant\n%s", doc, vector, got, want)
					}
					s.Reset(iotest.HalfReader(bytes.NewReader(doc)))
					if got := dumpSkipping(s, seed, (*Scanner).Skip); got != want {
						t.Fatalf("Skip(%.2000q) over a reader, wide %v: got\n%s\nwant\n%s", doc, vector, got, want)
					}
				}
			}
		})
	}
}

// FuzzSkip compares Skip, by a scanner that has read other documents and this
// one, with Next by one that has not, under any limits.
func FuzzSkip(f *testing.F) {
	add := func(before, doc []byte) {
		f.Add(before, doc, uint64(1), uint8(0))
		f.Add(before, doc, uint64(2), uint8(3))
		f.Add(before, doc, uint64(3), uint8(40))
	}
	seed(f, func(doc []byte) { add(doc, doc) })
	list := []byte(`<r xmlns:p="urn:p"><b><p:i a="1" p:b='2'>x<n>1</n></p:i><p:i a="3" p:b='4'>y<n>2</n></p:i><p:i a="5" p:b='6'/></b><trailing-to-have-room/></r>`)
	for _, change := range [][2]string{
		{"urn:p", "urn:q"},
		{`p:b`, `p:a`},
		{`a="`, `b="`},
		{"'6'/", "'6'"},
		{"<p:i a", "<q:i a"},
		{"xmlns:p", "xmlns"},
		{`"3"`, `"<"`},
		{`'4'`, `'4"`},
		{"</n>", "</m>"},
		{"</n>", "</n >"},
		{"x<", "]]><"},
		{"x<", "&#0;<"},
		{"x<", "\xC3<"},
		{"<n>", "<n xmlns='u'>"},
		{"</b>", ""},
		{"<n>1", "<n a='' a=''>1"},
	} {
		add(list, bytes.Replace(list, []byte(change[0]), []byte(change[1]), 1))
	}
	f.Fuzz(func(t *testing.T, before, doc []byte, rnd uint64, limits uint8) {
		lim := Limits{}
		if n := int(limits); n > 127 { // those under which forms are used
			lim = Limits{Depth: n - 127, Elements: int64(2 * (n - 127)), Text: int64(4 * (n - 127))}
		} else if n > 0 {
			lim = Limits{Depth: n, Attributes: n, Namespaces: n, Name: n, AttributeValue: 2 * n, Elements: int64(2 * n), Text: int64(4 * n)}
		}
		fresh := NewScanner(lim)
		fresh.roomy = false
		fresh.Reset(iotest.OneByteReader(bytes.NewReader(doc)))
		want := dumpSkipping(fresh, rnd, skipByNext)
		for _, src := range []source{
			{"bytes", (*Scanner).ResetBytes},
			{"a reader", func(s *Scanner, doc []byte) { s.Reset(newChunks(doc, rnd)) }},
		} {
			used := NewScanner(Limits{})
			for range 2 {
				src.reset(used, before)
				for {
					if _, err := used.Skip(1); err != nil {
						break
					}
				}
			}
			used.SetLimits(lim)
			for range 3 { // from the second time on it has read this one too
				src.reset(used, doc)
				if got := dumpSkipping(used, rnd, (*Scanner).Skip); got != want {
					t.Fatalf("Skip(%q) over %s, after %q: got\n%s\nwant\n%s", doc, src.name, before, got, want)
				}
			}
		}
	})
}

// skipAll checks a document as a user does whom its content does not concern.
func skipAll(s *Scanner) error {
	for {
		if _, err := s.Skip(1); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func BenchmarkSkip(b *testing.B) {
	for _, set := range benchSets() {
		for _, way := range []struct {
			name string
			scan func(*Scanner) error
		}{{"skip", skipAll}, {"next", drain}} {
			b.Run(set.name+"/"+way.name, func(b *testing.B) {
				s := NewScanner(Limits{})
				size := 0
				for _, doc := range set.docs {
					size += len(doc)
				}
				b.SetBytes(int64(size))
				best := time.Duration(math.MaxInt64)
				b.ReportAllocs()
				for b.Loop() {
					began := time.Now()
					for _, doc := range set.docs {
						s.ResetBytes(doc)
						if err := way.scan(s); err != nil {
							b.Fatal(err)
						}
					}
					best = min(best, time.Since(began))
				}
				b.ReportMetric(float64(best.Nanoseconds()), "best-ns/op")
			})
		}
	}
}
