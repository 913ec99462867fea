package xmlstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// unlimited leaves the scanner alone with its algorithms.
var unlimited = Limits{-1, -1, -1, -1, -1, -1, -1}

// Time is linear in the input, whatever it holds: four times the input may
// take no more than three times four times the time.
func TestLinearTime(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	repeat := func(before, s, after string) func(n int) string {
		return func(n int) string { return before + strings.Repeat(s, n/len(s)) + after }
	}
	tests := []struct {
		name string
		doc  func(n int) string
		one  bool // also octet by octet
	}{
		{"ampersands", repeat("<a>", "&amp;", "</a>"), true},
		{"ampersands in a value", repeat("<a b='", "&lt;", "'/>"), true},
		{"ampersands in a CDATA section", repeat("<a><![CDATA[", "&", "]]></a>"), true},
		{"brackets", repeat("<a>", "]", "</a>"), true},
		{"brackets in a CDATA section", repeat("<a><![CDATA[", "]", "]]></a>"), true},
		{"hyphens", repeat("<a><!--", "- ", "--></a>"), true},
		{"question marks", repeat("<a><?p ", "?", "?></a>"), true},
		{"text", repeat("<a>", "x", "</a>"), true},
		{"not ASCII", repeat("<a>", "\u20AC", "</a>"), true},
		{"one long name", func(n int) string { return "<" + strings.Repeat("n", n/2) + "></" + strings.Repeat("n", n/2) + ">" }, true},
		{"one long value", repeat("<a b='", "v", "'/>"), true},
		{"white space in a tag", repeat("<a", " ", "/>"), true},
		{"zeros in a reference", repeat("<a>&#", "0", "65;</a>"), true},
		{"line ends", repeat("<a>", "\r", "</a>"), true},
		{"depth", func(n int) string { return strings.Repeat("<a>", n/7) + strings.Repeat("</a>", n/7) }, true},
		{"empty elements", repeat("<a>", "<b/>", "</a>"), true},
		{"one tag of attributes", func(n int) string {
			return "<a" + list(n/12, func(i int) string { return fmt.Sprintf(" a%07d=''", i) }) + "/>"
		}, true},
		{"one tag of qualified attributes", func(n int) string {
			return "<a xmlns:p='u' xmlns:q='v'" + list(n/28, func(i int) string { return fmt.Sprintf(" p:a%07d='' q:a%07d=''", i, i) }) + "/>"
		}, false},
		{"one tag of namespaces", func(n int) string {
			return "<a" + list(n/40, func(i int) string {
				return fmt.Sprintf(" xmlns:p%07d='u%07d' p%07d:a=''", i, i, i)
			}) + "/>"
		}, false},
		{"prefixes far up", func(n int) string {
			// One element declares half of the octets; each other uses one of the oldest.
			return "<a" + list(n/36, func(i int) string { return fmt.Sprintf(" xmlns:p%d='u'", i) }) + ">" + strings.Repeat("<p0:b/>", n/14) + "</a>"
		}, false},
		{"a prefix bound at every depth", func(n int) string {
			d := n / 38
			return strings.Repeat("<a xmlns:p='u' xmlns:q='v'>", d) + strings.Repeat("</a>", d)
		}, false},
		{"tags that are learnt and never come again", func(n int) string {
			return "<r>" + list(n/24, func(i int) string { return fmt.Sprintf("<a%07d/><a%07d/>", i, i) }) + "</r>"
		}, true},
		{"one name in ever new forms", func(n int) string {
			return "<r>" + list(n/16, func(i int) string { return fmt.Sprintf("<a b%07d=''/>", i) }) + "</r>"
		}, true},
		{"ever new declarations", func(n int) string {
			return "<r>" + list(n/32, func(i int) string { return fmt.Sprintf("<p:a xmlns:p='u%07d' p:b=''/>", i) }) + "</r>"
		}, true},
		{"forms that nearly match", func(n int) string {
			long := strings.Repeat("v", 900)
			return "<r>" + list(n/1000, func(i int) string { return fmt.Sprintf("<a xmlns:p='%s' b='%s' c%d=''/>", long, "", i%7) }) + "</r>"
		}, false},
		{"values that end in what needs care", func(n int) string {
			return "<r>" + list(n/120, func(i int) string { return "<a b='" + strings.Repeat("v", 100) + "&amp;'/>" }) + "</r>"
		}, true},
		{"long equal-looking namespaces", func(n int) string {
			// Attributes that differ in nothing but the last octet of a long URI.
			k := int(math.Sqrt(float64(n)))
			long := strings.Repeat("u", k)
			return "<a" + list(k, func(i int) string { return fmt.Sprintf(" xmlns:p%d='%s%d' p%d:a=''", i, long, i, i) }) + "/>"
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const n = 50_000
			measure := func(doc []byte, one bool) time.Duration {
				best := time.Duration(math.MaxInt64)
				for range 3 {
					s := NewScanner(unlimited)
					if one {
						s.Reset(iotest.OneByteReader(bytes.NewReader(doc)))
					} else {
						s.ResetBytes(doc)
					}
					start := time.Now()
					if err := drain(s); err != nil {
						t.Fatal(err)
					}
					best = min(best, time.Since(start))
				}
				return best
			}
			ways := []bool{false}
			if tt.one {
				ways = append(ways, true)
			}
			for _, one := range ways {
				var short, long time.Duration
				linear := false
				for range 10 { // a busy machine is no fault of the algorithm's
					short = measure([]byte(tt.doc(n)), one)
					long = measure([]byte(tt.doc(4*n)), one)
					// Below a millisecond the clock and the caches speak.
					if linear = long <= 12*max(short, time.Millisecond); linear {
						break
					}
				}
				if !linear {
					t.Errorf("octet by octet %v: %v for %d octets, %v for four times as many", one, short, n, long)
				}
			}
		})
	}
}

// The scopes of namespaces and the tables of attributes agree with maps, also
// beyond the sizes from which they hash.
func TestManyNames(t *testing.T) {
	const n = 300
	var doc strings.Builder
	doc.WriteString("<r>")
	for i := range n {
		fmt.Fprintf(&doc, "<e xmlns:p%d='u%d' xmlns:all='v%d' xmlns='w%d'>", i, i%7, i, i%3)
	}
	for range n {
		doc.WriteString("</e>")
	}
	doc.WriteString("</r>")
	s := NewScanner(Limits{Depth: -1})
	for range 2 {
		s.ResetBytes([]byte(doc.String()))
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if k != Start && k != End {
				continue
			}
			d := s.Depth() - 1 // elements e
			want := map[string]string{"": ""}
			for i := range d {
				want[fmt.Sprintf("p%d", i)] = fmt.Sprintf("u%d", i%7)
				want["all"] = fmt.Sprintf("v%d", i)
				want[""] = fmt.Sprintf("w%d", i%3)
			}
			for _, p := range []string{"", "all", "p0", "p8", "p9", "p63", "p64", "p299", "none", fmt.Sprintf("p%d", d)} {
				uri, ok := s.Lookup([]byte(p))
				if w, in := want[p]; ok != in || string(uri) != w {
					t.Fatalf("Lookup(%s) at %s %d deep: got %q, %v, want %q, %v", p, k, d, uri, ok, w, in)
				}
			}
			if k == End && string(s.Name().Space) != want[""] {
				t.Fatalf("Name at depth %d: got %v, want namespace %s", d, s.Name(), want[""])
			}
		}
	}
	if uri, ok := s.Lookup([]byte("xml")); !ok || string(uri) != xmlSpace {
		t.Errorf("Lookup(xml): got %q, %v", uri, ok)
	}
	if uri, ok := s.Lookup([]byte("xmlns")); !ok || string(uri) != xmlnsSpace {
		t.Errorf("Lookup(xmlns): got %q, %v", uri, ok)
	}
}

// Scopes against a model, on random trees that bind and forget many prefixes
// and namespaces.
func TestScopeModel(t *testing.T) {
	for round := range uint64(8) {
		rnd := rand.New(rand.NewPCG(round, 1))
		var doc strings.Builder
		type scope = map[string]string
		model := []scope{{"": "", "xml": xmlSpace, "xmlns": xmlnsSpace}}
		var want []scope // at each Start and End
		var walk func(depth int)
		walk = func(depth int) {
			in := maps.Clone(model[len(model)-1])
			doc.WriteString("<e")
			declared := map[string]bool{}
			for range rnd.IntN(5) {
				prefix, uri := fmt.Sprintf("p%d", rnd.IntN(40)), fmt.Sprintf("u%d", rnd.IntN(40))
				if rnd.IntN(6) == 0 {
					prefix = ""
				}
				if declared[prefix] {
					continue
				}
				declared[prefix], in[prefix] = true, uri
				if prefix == "" {
					fmt.Fprintf(&doc, " xmlns='%s'", uri)
				} else {
					fmt.Fprintf(&doc, " xmlns:%s='%s'", prefix, uri)
				}
			}
			doc.WriteString(">")
			want = append(want, in)
			model = append(model, in)
			for range rnd.IntN(4) {
				if depth < 40 && len(want) < 2000 {
					walk(depth + 1)
				}
			}
			model = model[:len(model)-1]
			want = append(want, in)
			doc.WriteString("</e>")
		}
		doc.WriteString("<r>")
		for len(want) < 1000 {
			walk(0)
		}
		doc.WriteString("</r>")

		s := NewScanner(Limits{})
		s.ResetBytes([]byte(doc.String()))
		for at := -1; ; {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := len(s.scope.bindings); s.scope.prefixes.heads != nil && len(s.scope.prefixes.heads) < n || n > fewBindings && s.scope.prefixes.heads == nil {
				t.Fatalf("%d bindings in %d buckets", n, len(s.scope.prefixes.heads))
			}
			if k != Start && k != End || s.Depth() == 1 {
				continue
			}
			at++
			for i := range 42 {
				prefix := fmt.Sprintf("p%d", i)
				if i > 40 {
					prefix = ""
				}
				uri, ok := s.Lookup([]byte(prefix))
				if w, in := want[at][prefix]; ok != in || string(uri) != w {
					t.Fatalf("round %d: Lookup(%q) at %v %d: got %q, %v, want %q, %v", round, prefix, k, s.Offset(), uri, ok, w, in)
				}
			}
			if got := string(s.Name().Space); got != want[at][""] {
				t.Fatalf("round %d: Name at %v %d: got namespace %q, want %q", round, k, s.Offset(), got, want[at][""])
			}
			interned := map[string]bool{}
			for i := range s.scope.uris {
				uri := string(s.scope.uri(i))
				if interned[uri] {
					t.Fatalf("round %d: namespace %q is interned twice", round, uri)
				}
				interned[uri] = true
			}
		}
	}
}

// The last of many attributes repeats any other one.
func TestManyAttributes(t *testing.T) {
	for _, n := range []int{2, fewAttributes - 1, fewAttributes, fewAttributes + 1, 100} {
		for twin := range n {
			tag := func(spell func(i int) string) string {
				return "<a xmlns:p='u' xmlns:q='u'" + list(n, func(i int) string { return " " + spell(i) + "=''" })
			}
			raw := tag(func(i int) string { return fmt.Sprintf("a%d", i) })
			check(t, raw+fmt.Sprintf(" a%d=''/>", twin), ErrDuplicate)
			check(t, raw+fmt.Sprintf(" p:a%d=''/>", twin), nil)
			qualified := tag(func(i int) string { return fmt.Sprintf("p:a%d", i) })
			check(t, qualified+fmt.Sprintf(" p:a%d=''/>", twin), ErrDuplicate)
			check(t, qualified+fmt.Sprintf(" q:a%d=''/>", twin), ErrNamespace)
			check(t, qualified+fmt.Sprintf(" a%d=''/>", twin), nil)
			check(t, qualified+" q:a=''/>", nil)
		}
	}
}

func check(t *testing.T, doc string, want error) {
	t.Helper()
	if err := result(doc, Limits{}); !errors.Is(err, want) {
		t.Errorf("Next(%.60q): got %v, want %v", doc, err, want)
	}
}
