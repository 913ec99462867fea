package xmlstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// list joins f(0) … f(n-1).
func list(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

// Every limit at its value and one beyond, set and by default, and lifted.
func TestLimits(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	attrs := func(n int) string {
		return "<a xmlns='u'" + list(n, func(i int) string { return fmt.Sprintf(" a%d=''", i) }) + "/>"
	}
	spaces := func(n int) string {
		return "<a b=''" + list(n, func(i int) string { return fmt.Sprintf(" xmlns:a%d='u%d'", i, i) }) + "/>"
	}
	elements := func(n int) string { return "<r>" + strings.Repeat("<a/>", n-1) + "</r>" }
	repeat := func(before, s, after string) func(n int) string {
		return func(n int) string { return before + strings.Repeat(s, n) + after }
	}
	tests := []struct {
		limit  string
		lim    func(n int) Limits
		doc    func(n int) string
		n, def int
		at     func(n int) int // of the fault, in doc(n+1)
	}{
		{"depth", func(n int) Limits { return Limits{Depth: n} }, nest, 3, 256, func(n int) int { return 3 * n }},
		{"elements", func(n int) Limits { return Limits{Elements: int64(n)} }, elements, 5, 4 << 20, func(n int) int { return 3 + 4*(n-1) }},
		{"attributes", func(n int) Limits { return Limits{Attributes: n} }, attrs, 3, 256, func(n int) int { return len(attrs(n)) - 1 }},
		{"namespaces", func(n int) Limits { return Limits{Namespaces: n} }, spaces, 3, 256, func(n int) int { return len(spaces(n)) - 1 }},
		{"name", func(n int) Limits { return Limits{Name: n} }, repeat("<", "n", "/>"), 9, 1 << 10, func(n int) int { return 1 + n }},
		{"name", func(n int) Limits { return Limits{Name: n} }, repeat("<a ", "n", "=''/>"), 9, 1 << 10, func(n int) int { return 3 + n }},
		{"name", func(n int) Limits { return Limits{Name: n} }, repeat("<?", "n", "?><a/>"), 9, 1 << 10, func(n int) int { return 2 + n }},
		{"attribute_value", func(n int) Limits { return Limits{AttributeValue: n} }, repeat("<a b='", "v", "'/>"), 7, 64 << 10, func(n int) int { return 6 + n }},
		{"attribute_value", func(n int) Limits { return Limits{AttributeValue: n} }, repeat("<a b=\"", "'", "\"/>"), 7, 64 << 10, func(n int) int { return 6 + n }},
		{"attribute_value", func(n int) Limits { return Limits{AttributeValue: n} }, repeat("<a", " ", "/>"), 7, 64 << 10, func(n int) int { return 2 + n }},
		{"attribute_value", func(n int) Limits { return Limits{AttributeValue: n} }, repeat("<a></a", "\n", ">"), 7, 64 << 10, func(n int) int { return 6 + n }},
		{"text", func(n int) Limits { return Limits{Text: int64(n)} }, repeat("<a>", "t", "</a>"), 33, 64 << 20, func(n int) int { return 3 + n }},
		{"text", func(n int) Limits { return Limits{Text: int64(n)} }, repeat("<a><![CDATA[", "t", "]]></a>"), 33, 64 << 20, func(n int) int { return 12 + n }},
		{"text", func(n int) Limits { return Limits{Text: int64(n)} }, repeat("<a><!--", "t", "--></a>"), 33, 64 << 20, func(n int) int { return 7 + n }},
		{"text", func(n int) Limits { return Limits{Text: int64(n)} }, repeat("<a><?p ", "t", "?></a>"), 33, 64 << 20, func(n int) int { return 7 + n }},
		{"text", func(n int) Limits { return Limits{Text: int64(n)} }, repeat("", "\n", "<a/>"), 33, 64 << 20, func(n int) int { return n }},
	}
	check := func(t *testing.T, doc string, lim Limits, most, at int, limit string) {
		t.Helper()
		err := result(doc, lim)
		se, _ := errors.AsType[*SyntaxError](err)
		le, ok := errors.AsType[*LimitError](err)
		if !ok || se == nil || !errors.Is(err, ErrLimit) {
			t.Fatalf("Next: got %v, want a *SyntaxError with a *LimitError", err)
		}
		if *le != (LimitError{limit, int64(most)}) || se.Offset != int64(at) {
			t.Errorf("Next: got %+v at %d, want %s of %d at %d", *le, se.Offset, limit, most, at)
		}
	}
	for _, tt := range tests {
		t.Run(tt.limit+" "+shorten(tt.doc(1)), func(t *testing.T) {
			n := tt.n
			for _, piece := range []int{0, 16} {
				everyWay(t, []byte(tt.doc(n)), tt.lim(n), piece)
				everyWay(t, []byte(tt.doc(n+1)), tt.lim(n), piece)
			}
			if err := result(tt.doc(n), tt.lim(n)); err != nil {
				t.Errorf("Next at the limit: got %v", err)
			}
			check(t, tt.doc(n+1), tt.lim(n), n, tt.at(n), tt.limit)
			if tt.def > 1<<20 {
				return // TestDefaults has these; scanning that much is slow with -race
			}
			if err := result(tt.doc(tt.def), Limits{}); err != nil {
				t.Errorf("Next at the default limit: got %v", err)
			}
			check(t, tt.doc(tt.def+1), Limits{}, tt.def, tt.at(tt.def), tt.limit)
			if err := result(tt.doc(tt.def+1), tt.lim(-1)); err != nil {
				t.Errorf("Next without a limit: got %v", err)
			}
		})
	}
}

// The defaults are those of the configuration's reference.
func TestDefaults(t *testing.T) {
	got := Limits{}.withDefaults()
	want := Limits{Depth: 256, Attributes: 256, Namespaces: 256, Name: 1024, AttributeValue: 65536, Elements: 4194304, Text: 67108864}
	if got != want {
		t.Errorf("withDefaults: got %+v, want %+v", got, want)
	}
	if got := want.withDefaults(); got != want {
		t.Errorf("withDefaults of the defaults: got %+v", got)
	}
}

func shorten(doc string) string {
	if len(doc) > 20 {
		return doc[:20]
	}
	return doc
}

// A limit is per run, per element and per tag, not per document.
func TestLimitsStartAnew(t *testing.T) {
	doc := "<a>" + strings.Repeat("12345678<b c='1' d='2' xmlns:p='u'  /><!--12345678-->", 100) + "</a>"
	lim := Limits{Text: 8, Attributes: 2, Namespaces: 1, AttributeValue: 5, Depth: 2, Name: 7}
	if err := result(doc, lim); err != nil {
		t.Errorf("Next: got %v", err)
	}
}

// Leading zeros must not make a reference grow without bound.
func TestReferenceLimit(t *testing.T) {
	for _, before := range []string{"&#", "&#x"} {
		doc := root(before + strings.Repeat("0", 2000) + "65;")
		err := result(doc, Limits{})
		if le, ok := errors.AsType[*LimitError](err); !ok || le.Limit != limitName {
			t.Errorf("Next: got %v, want the limit on names", err)
		}
		everyWay(t, []byte(doc), Limits{}, 0)
		if err := result(doc, Limits{Name: -1}); err != nil {
			t.Errorf("Next without a limit: got %v", err)
		}
		if err := result(root(before+"000065;"), Limits{Name: 1}); err != nil {
			t.Errorf("Next with a low limit: got %v", err)
		}
	}
}

// TestNamespacesInForce: declarations are kept while their elements are open,
// so what a document may open at once bounds them together.
func TestNamespacesInForce(t *testing.T) {
	long := strings.Repeat("u", 32<<10)
	nest := func(n int) string {
		return list(n, func(i int) string { return fmt.Sprintf("<a xmlns:p%d='%s%d'>", i, long, i) }) + strings.Repeat("</a>", n)
	}
	var le *LimitError
	if err := result(nest(250), Limits{}); !errors.As(err, &le) || le.Limit != limitScope || le.Max != leastScope {
		t.Errorf("8 MiB of namespaces in force: got %v, want the limit %q", err, limitScope)
	}
	if err := result(nest(250), Limits{AttributeValue: 4 << 20}); err != nil {
		t.Errorf("the same with values of 4 MiB allowed: got %v", err)
	}
	if err := result(nest(250), Limits{AttributeValue: -1}); err != nil {
		t.Errorf("the same without a limit on values: got %v", err)
	}
	one := "<a xmlns:p='" + long + "'>"
	if err := result("<r>"+strings.Repeat(one+"</a>", 250)+strings.Repeat(one, 100)+strings.Repeat("</a>", 100)+"</r>", Limits{}); err != nil {
		t.Errorf("declarations that ended or are equal: got %v", err)
	}
}
