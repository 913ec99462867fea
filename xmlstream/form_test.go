package xmlstream

import (
	"fmt"
	"strings"
	"testing"
)

// What a scanner keeps of the tags that it has seen is bounded, whatever it is
// given, and a message that is not good leaves nothing behind that harms.
func TestFormsBounded(t *testing.T) {
	s := NewScanner(Limits{Attributes: -1, Elements: -1})
	for round := range 20 {
		doc := "<r>" + list(400, func(i int) string {
			tag := fmt.Sprintf("<a%d.%d b='%s' xmlns:p='%s' p:c=''/>", round, i, strings.Repeat("v", i), strings.Repeat("u", i+1))
			return tag + tag
		}) + list(100, func(i int) string {
			return "<x" + list(i, func(k int) string { return fmt.Sprintf(" a%d=''", k) }) + "/>"
		}) + "</r>"
		s.ResetBytes([]byte(doc))
		if err := drain(s); err != nil {
			t.Fatal(err)
		}
		m := &s.forms
		if len(m.list) > maxForms || len(m.octets) > maxAllOctets || len(m.attrs) > maxAllAttrs {
			t.Fatalf("after round %d: %d forms of %d octets with %d attributes are kept", round, len(m.list), len(m.octets), len(m.attrs))
		}
		s.ResetBytes([]byte("<r><a0.1 b='x' xmlns:p='u' q:c=''/></r>"))
		if err := drain(s); err == nil {
			t.Fatal("an unbound prefix is accepted")
		}
	}
}

// A form that is known is no way around a limit that is lower than it was when
// the form was learnt, nor around those that count through the document.
func TestFormsKeepLimits(t *testing.T) {
	const element = "<a b='1234567890' xmlns:p='u' c='2' p:d='3'></a>"
	doc := []byte("<r>" + strings.Repeat(element, 4) + "</r>")
	for _, tt := range []struct {
		lim  Limits
		want string
	}{
		{Limits{}, ""},
		{Limits{Attributes: 2}, limitAttributes},
		{Limits{Namespaces: -1, Attributes: 16, Elements: 3}, limitElements},
		{Limits{Depth: 1}, limitDepth},
		{Limits{AttributeValue: 9}, limitAttributeValue},
		{Limits{Name: 2}, limitName},
		{Limits{Text: 1}, ""},
	} {
		s := NewScanner(Limits{})
		for range 3 {
			s.ResetBytes(doc)
			if err := drain(s); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.forms.list) < 2 {
			t.Fatal("nothing was learnt")
		}
		s.SetLimits(tt.lim)
		s.ResetBytes(doc)
		got := ""
		if err := drain(s); err != nil {
			got = err.Error()
		}
		fresh := NewScanner(tt.lim)
		fresh.ResetBytes(doc)
		want := ""
		if err := drain(fresh); err != nil {
			want = err.Error()
		}
		if got != want || !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("limits %+v: got %q, a scanner that knows no forms says %q, want it about %q", tt.lim, got, want, tt.want)
		}
	}
	s := NewScanner(Limits{AttributeValue: 2 << 10})
	for _, n := range []int{10, 10, 10, 2 << 10, 2<<10 + 1} {
		s.ResetBytes([]byte("<a b='" + strings.Repeat("v", n) + "'/>"))
		if err := drain(s); (err == nil) != (n <= 2<<10) {
			t.Errorf("a value of %d octets: got %v", n, err)
		}
	}
	// Namespaces in force are bounded together, also where every tag is known.
	deep := strings.Repeat("<a xmlns:"+strings.Repeat("p", 900)+"='u'>", 1500)
	quick, careful := NewScanner(Limits{Depth: -1}), NewScanner(Limits{Depth: -1})
	careful.roomy = false
	quick.ResetBytes([]byte(deep))
	careful.ResetBytes([]byte(deep))
	got, want := drain(quick), drain(careful)
	if got == nil || got.Error() != want.Error() || !strings.Contains(got.Error(), limitScope) {
		t.Errorf("many namespaces: got %v, want %v", got, want)
	}
}

// The same tag means what the bindings around it say, in one document and in
// the next.
func TestFormsAndScopes(t *testing.T) {
	s := NewScanner(Limits{})
	for round := range 6 {
		for _, outer := range []string{"u", "v", "w"} {
			doc := "<r xmlns:p='" + outer + "' xmlns='d" + outer + "'>" +
				"<p:a p:b='1'/><x/>" +
				"<s xmlns:p='inner'><p:a p:b='1'/><x/></s>" +
				"<p:a p:b='1'/><x/>" +
				"<s xmlns='inner'><p:a p:b='1'/><x/></s>" +
				"<p:a p:b='1'/><x/></r>"
			var got []string
			s.ResetBytes([]byte(doc))
			for {
				k, err := s.Next()
				if err != nil {
					break
				}
				if k != Start {
					continue
				}
				if n := s.Name(); string(n.Local) == "a" || string(n.Local) == "x" {
					got = append(got, n.String())
				}
				attrs := s.Attrs()
				for i := range attrs {
					if string(attrs[i].Name.Local) == "b" {
						got = append(got, attrs[i].Name.String())
					}
				}
			}
			p, d := "{"+outer+"}", "{d"+outer+"}"
			want := []string{
				p + "a", p + "b", d + "x",
				"{inner}a", "{inner}b", d + "x",
				p + "a", p + "b", d + "x",
				p + "a", p + "b", "{inner}x",
				p + "a", p + "b", d + "x",
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("round %d, outer %s: got\n%v\nwant\n%v", round, outer, got, want)
			}
		}
	}
	s.ResetBytes([]byte("<r><p:a p:b='1'/></r>"))
	if err := drain(s); err == nil || !strings.Contains(err.Error(), errUnbound.Error()) {
		t.Errorf("a known tag whose prefix is not bound: got %v", err)
	}
}
