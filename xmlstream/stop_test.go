package xmlstream

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// bothWays runs f with the wide search and without it. Where the processor or
// the build has none, it runs f once.
func bothWays(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func(v bool) { vector = v }(vector)
	for vector = false; ; vector = true {
		f(t)
		if vector || !hasAVX2 {
			return
		}
	}
}

// checkStops compares the searches with the table of classes, from every index
// that from lists.
func checkStops(t *testing.T, b []byte, from ...int) {
	t.Helper()
	naive := func(i int, stop uint8) int {
		for i < len(b) && class[b[i]]&stop == 0 {
			i++
		}
		return i
	}
	for _, i := range from {
		if got, want := textStop(b, i), naive(i, stopText); got != want {
			t.Fatalf("wide %v: textStop(%q, %d): got %d, want %d", vector, b, i, got, want)
		}
		if got, want := valueStop(b, i, '"'), naive(i, stopDouble); got != want {
			t.Fatalf("wide %v: valueStop(%q, %d, double): got %d, want %d", vector, b, i, got, want)
		}
		if got, want := valueStop(b, i, '\''), naive(i, stopSingle); got != want {
			t.Fatalf("wide %v: valueStop(%q, %d, single): got %d, want %d", vector, b, i, got, want)
		}
		if got, want := classStop(b, i, stopCDATA, cdataNibbles), naive(i, stopCDATA); got != want {
			t.Fatalf("wide %v: classStop(%q, %d, CDATA): got %d, want %d", vector, b, i, got, want)
		}
		if got, want := classStop(b, i, stopOther, otherNibbles), naive(i, stopOther); got != want {
			t.Fatalf("wide %v: classStop(%q, %d, other): got %d, want %d", vector, b, i, got, want)
		}
		changed := i
		for changed < len(b) && b[changed] != '&' && b[changed] != '\r' {
			changed++
		}
		if got := changes(b, i); got != changed {
			t.Fatalf("changes(%q, %d): got %d, want %d", b, i, got, changed)
		}
	}
}

// Every octet stops where it should, at every place of a text of any length up
// to some blocks, also behind an octet of every kind.
func TestStops(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for c := range 256 {
			for _, n := range []int{1, 9, 33, 64, 97, 200} {
				for _, at := range []int{0, 7, 8, 32, 63, 64, 95, 96, 128, 199} {
					if at >= n {
						break
					}
					b := bytes.Repeat([]byte{'x'}, n)
					b[at] = byte(c)
					checkStops(t, b, 0, at, at+1)
					b[0] = '\n'
					checkStops(t, b, 1)
				}
			}
		}
		long := bytes.Repeat([]byte("0123456789abcde\n"), wideMost/8)
		for _, at := range []int{wideMost - 1, wideMost, wideMost + wideFrom, len(long) - 1} {
			b := bytes.Clone(long)
			b[at] = '<'
			checkStops(t, b, 0, 1, 33)
		}
	})
}

// FuzzClassify holds the searches to the table of classes, with and without
// the wide search.
func FuzzClassify(f *testing.F) {
	f.Add([]byte(""), uint16(0))
	f.Add([]byte("some text of more than thirty-two octets, and then <a/>"), uint16(3))
	f.Add(bytes.Repeat([]byte("\t\r\n &]<\"'-?\x00\x1F\x7F\x80\xFF"), 12), uint16(1))
	f.Add([]byte(strings.Repeat("x", 200)+"\x80"), uint16(70))
	f.Fuzz(func(t *testing.T, b []byte, from uint16) {
		bothWays(t, func(t *testing.T) { checkStops(t, b, min(int(from), len(b)), 0) })
	})
}

// Neither the wide search nor what a scanner has learnt, from this document or
// from others, makes a difference to any event. The reference reads octet by
// octet, where no token lies in the window as a whole, and knows no forms.
func TestQuickEvents(t *testing.T) {
	var docs [][]byte
	for _, tt := range cases {
		docs = append(docs, []byte(tt.doc))
	}
	const random = 200
	for i := range uint64(random) {
		docs = append(docs, randomDocument(rand.New(rand.NewPCG(i, 3))))
	}
	careful, learnt, accepted := NewScanner(Limits{}), NewScanner(Limits{}), 0
	careful.roomy = false
	for i, doc := range docs {
		careful.Reset(iotest.OneByteReader(bytes.NewReader(doc)))
		want := dump(careful)
		if i >= len(docs)-random && strings.HasSuffix(want, "eof\n") {
			accepted++
		}
		bothWays(t, func(t *testing.T) {
			fresh := NewScanner(Limits{})
			for range 3 {
				for _, s := range []*Scanner{fresh, learnt} {
					s.ResetBytes(doc)
					if got := dump(s); got != want {
						t.Fatalf("Next(%q), wide %v: got\n%s\nwant\n%s", doc, vector, got, want)
					}
					s.Reset(iotest.HalfReader(bytes.NewReader(doc)))
					if got := dump(s); got != want {
						t.Fatalf("Next(%q) over a reader, wide %v: got\n%s\nwant\n%s", doc, vector, got, want)
					}
				}
			}
		})
	}
	if accepted < random/3 || accepted == random {
		t.Errorf("%d of %d random documents are accepted", accepted, random)
	}
	if n := len(careful.forms.list); n != 1 {
		t.Errorf("the reference knows %d forms", n-1)
	}
	if n := len(learnt.forms.list); n < 20 {
		t.Errorf("only %d forms are known in the end", n-1)
	}
}

// randomDocument writes tags that repeat with other attributes, values,
// namespaces and spellings, and every so often a fault.
func randomDocument(rnd *rand.Rand) []byte {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	fault := func(good string, bad ...string) string {
		if rnd.IntN(400) == 0 {
			return pick(bad...)
		}
		return good
	}
	var b strings.Builder
	if rnd.IntN(2) == 0 {
		b.WriteString(pick(`<?xml version="1.0"?>`, `<?xml version="1.0" encoding="UTF-8"?>`+"\n", "<?xml version='1.1'?>"))
	}
	value := func() string {
		return fault(pick("", "v", "a longer value, of more than thirty-two octets", "&lt;", "é", "\t", "x'y", "ボルト"), "<", "&", "\x01", "\xC3")
	}
	var element func(depth int)
	element = func(depth int) {
		name := pick("a", "p:a", "q:a", "item", "p:a-name-of-more-than-thirty-two-octets", "element1", "p:element")
		b.WriteString("<" + name)
		if depth == 0 || rnd.IntN(6) == 0 {
			b.WriteString(pick(` xmlns:p="u" xmlns:q="v"`, ` xmlns:p="u"`+"\n"+` xmlns:q='u'`, ` xmlns:q="w" xmlns:p="v" xmlns="x"`))
		}
		for _, a := range [...]string{"id", "p:id", "q:id", "q:type", "xml:lang"} {
			if rnd.IntN(4) == 0 {
				b.WriteString(pick(" ", " ", " ", "\n\t") + a + pick("=", "=", " = "))
				if v := value(); rnd.IntN(4) == 0 && !strings.Contains(v, "'") {
					b.WriteString("'" + v + "'")
				} else {
					b.WriteString(`"` + v + fault(`"`, "'", "") + "")
				}
			}
		}
		if rnd.IntN(6) == 0 {
			b.WriteString(pick("/>", " />"))
			return
		}
		b.WriteString(fault(">", "", "/"))
		for range rnd.IntN(5) {
			if depth < 6 && rnd.IntN(2) == 0 {
				element(depth + 1)
			} else {
				b.WriteString(fault(pick("\n   ", "text", "a text of more than thirty-two octets, and some", "&amp;&#65;", "]", "ü€", "<!--c-->", "<![CDATA[ ]] ]]>", "<?p i?>", "\r\n"), "]]>", "&x;", "\xFF", "\x02"))
			}
		}
		b.WriteString(fault("</"+name+pick(">", ">", " >"), "</"+name, "</x>", ""))
	}
	element(0)
	b.WriteString(pick("", "\n", "<!--c-->"))
	return []byte(b.String())
}
