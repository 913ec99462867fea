package proxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// facts11 is what routing sees of a request.
type facts11 struct {
	path, host string
	header     field.List
	action     string
	operation  soapcodec.QName
}

// listScan is the rule as SPEC.md §3.1 says it: the first route in the list all
// of whose conditions hold.
func listScan(routes []Route, f facts11) string {
	for _, r := range routes {
		if r.MatchNone {
			continue
		}
		m := r.Match
		if m.Path != "" {
			if base, ok := strings.CutSuffix(m.Path, "/*"); ok {
				if f.path != base && !strings.HasPrefix(f.path, base+"/") {
					continue
				}
			} else if f.path != m.Path {
				continue
			}
		}
		if m.Host != "" {
			h := f.host
			if !strings.Contains(m.Host, ":") {
				h, _, _ = strings.Cut(h, ":")
			}
			if !strings.EqualFold(h, m.Host) {
				continue
			}
		}
		ok := true
		for k, v := range m.Headers {
			found := false
			for _, have := range f.header.Values(k) {
				found = found || have == v
			}
			ok = ok && found
		}
		if !ok || m.Action != "" && m.Action != f.action ||
			m.Operation.Local != "" && (m.Operation.Local != f.operation.Local || !m.AnyNamespace && m.Operation.Space != f.operation.Space) {
			continue
		}
		return r.Name
	}
	return ""
}

func TestIndexEqualsList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	segs := func() string {
		var b strings.Builder
		for range rng.IntN(4) {
			b.WriteString("/" + pick("a", "b", "ab", ""))
		}
		return b.String()
	}
	backend := &Backend{Nodes: []Node{newNode("http://node.test/")}}
	for range 3000 {
		var routes []Route
		for i := range 1 + rng.IntN(8) {
			r := Route{Name: fmt.Sprint("r", i), Backend: backend}
			switch rng.IntN(4) {
			case 0:
				r.Match.Path = "/" + strings.TrimPrefix(segs(), "/")
			case 1, 2:
				r.Match.Path = segs() + "/*"
			}
			if rng.IntN(3) == 0 {
				r.Match.Host = pick("h", "H", "g", "h:81")
			}
			if rng.IntN(4) == 0 {
				r.Match.Headers = map[string]string{pick("X-A", "x-b"): pick("1", "2")}
			}
			if rng.IntN(4) == 0 {
				r.Match.Action = pick("urn:1", "urn:2")
			}
			if rng.IntN(4) == 0 {
				r.Match.Operation = soapcodec.QName{Space: pick("urn:o", ""), Local: pick("X", "Y")}
				r.Match.AnyNamespace = rng.IntN(2) == 0
			}
			r.MatchNone = rng.IntN(10) == 0
			routes = append(routes, r)
		}
		tab := mustCompile(t, TableOptions{Routes: routes})
		for range 20 {
			f := facts11{path: "/" + strings.TrimPrefix(segs(), "/"), host: pick("h", "g", "h:81", "H:80", "x"), header: field.List{}}
			for range rng.IntN(3) {
				f.header.Add(pick("X-A", "X-B"), pick("1", "2", "3"))
			}
			f.action = pick("", "urn:1", "urn:2")
			if rng.IntN(3) > 0 {
				f.operation = soapcodec.QName{Space: pick("urn:o", "", "urn:q"), Local: pick("X", "Y", "Z")}
			}
			c := candidates{list: tab.index.find(f.path), head: headFacts{host: f.host, header: f.header}, path: f.path}
			got := ""
			if r := c.choose(&bodyFacts{action: f.action, operation: f.operation}); r != nil {
				got = r.Name
			}
			want := listScan(routes, f)
			if got != want {
				t.Fatalf("routes %+v\nfor %+v: got %q, want %q", routes, f, got, want)
			}
			// What the head alone decides must be what the whole decides.
			if r := c.settled(); r != nil && r.Name != want {
				t.Fatalf("routes %+v\nfor %+v: settled on %q, want %q", routes, f, r.Name, want)
			}
			f.action, f.operation = "", soapcodec.QName{}
			got = ""
			if r := c.withoutBody(); r != nil {
				got = r.Name
			}
			if want := listScan(routes, f); got != want {
				t.Fatalf("routes %+v\nfor %+v without a body: got %q, want %q", routes, f, got, want)
			}
		}
	}
}

// TestPathMatch: the same path conditions, one at a time.
func TestPathMatch(t *testing.T) {
	for _, c := range []struct {
		match, path string
		want        bool
	}{
		{"/orders", "/orders", true},
		{"/orders", "/orders/", false},
		{"/orders", "/Orders", false},
		{"/orders", "/orders%20", false},
		{"/orders/*", "/orders", true},
		{"/orders/*", "/orders/", true},
		{"/orders/*", "/orders/a/b", true},
		{"/orders/*", "/ordersx", false},
		{"/orders/*", "/order", false},
		{"/orders/*", "//orders/a", false},
		{"/orders/*", "/%6frders/a", false},
		{"/*", "/", true},
		{"/*", "/a", true},
		{"", "/a", true},
		{"/a/", "/a/", true},
		{"/a/", "/a", false},
	} {
		tab := mustCompile(t, TableOptions{Routes: []Route{{
			Name: "r", Match: Match{Path: c.match},
			Backend: &Backend{Nodes: []Node{newNode("http://node.test/")}},
		}}})
		if got := len(tab.index.find(c.path)) == 1; got != c.want {
			t.Errorf("match %q, path %q: got %v, want %v", c.match, c.path, got, c.want)
		}
	}
}

func TestHostilePathIsCheap(t *testing.T) {
	tab := mustCompile(t, TableOptions{Routes: []Route{{
		Name: "r", Match: Match{Path: "/a/b/*"},
		Backend: &Backend{Nodes: []Node{newNode("http://node.test/")}},
	}}})
	path := strings.Repeat("/", 64<<10)
	if got := tab.index.find(path); len(got) != 0 {
		t.Errorf("find(////…): got %d routes", len(got))
	}
	if tab.index.longest != len("/a/b") {
		t.Errorf("longest: got %d", tab.index.longest)
	}
	// At most one look-up per octet of the longest prefix, so no allocation and
	// no time that grows with the square of the path.
	if a := testing.AllocsPerRun(10, func() { tab.index.find(path) }); a != 0 {
		t.Errorf("find allocates %v times", a)
	}
}

func TestAction(t *testing.T) {
	for _, c := range []struct {
		field, param string
		facts        soapcodec.Facts
		want         string
	}{
		{`"urn:s"`, "urn:p", soapcodec.Facts{Version: soapcodec.V11, Action: "urn:w"}, "urn:s"},
		{`urn:s`, "", soapcodec.Facts{Version: soapcodec.V11}, "urn:s"},
		{`"urn:s"`, "urn:p", soapcodec.Facts{Version: soapcodec.V12, Action: "urn:w"}, "urn:p"},
		{`"urn:s"`, "", soapcodec.Facts{Version: soapcodec.V12, Action: "urn:w"}, "urn:s"},
		{`""`, "", soapcodec.Facts{Version: soapcodec.V11, Action: "urn:w"}, "urn:w"},
		{"", "", soapcodec.Facts{Version: soapcodec.V12, Action: "urn:w"}, "urn:w"},
		{"", "urn:p", soapcodec.Facts{Version: soapcodec.V11, Action: "urn:w"}, "urn:p"},
		{"", "", soapcodec.Facts{Version: soapcodec.V11}, ""},
	} {
		h := field.List{}
		if c.field != "" {
			h.Set("SOAPAction", c.field)
		}
		if got := action(h, soapcodec.ContentType{Action: c.param}, &c.facts); got != c.want {
			t.Errorf("action(%q, %q, %+v): got %q, want %q", c.field, c.param, c.facts, got, c.want)
		}
	}
}

func TestWidest(t *testing.T) {
	got := widest(xmlstream.Limits{Depth: 10, Elements: -1, Name: 5000}, xmlstream.Limits{Depth: 600, Text: 1})
	want := xmlstream.Limits{Depth: 600, Elements: -1, Name: 5000, Attributes: 256, Namespaces: 256, AttributeValue: 64 << 10, Text: 64 << 20}
	if got != want {
		t.Errorf("widest: got %+v, want %+v", got, want)
	}
}

func TestCompileReportsEverything(t *testing.T) {
	_, err := Compile(TableOptions{
		PublicURL: "gw.test", Via: "a b",
		Routes: []Route{
			{},
			{Name: "x", Match: Match{Path: "a"}, Methods: []string{"GE T"}, Backend: &Backend{}},
			{Name: "x", Match: Match{Path: "/a/../b"}},
		},
	})
	if err == nil {
		t.Fatal("Compile: got no error")
	}
	for _, want := range []string{
		"PublicURL", "Via", "option Name is empty", "taken by an earlier", "Backend has no node",
		`Match.Path: got "a"`, `Methods: got "GE T"`, `"/a/../b"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Compile: the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := Compile(TableOptions{}); err != nil {
		t.Errorf("Compile of the zero value: %v", err)
	}
}

func BenchmarkFind(b *testing.B) {
	var routes []Route
	backend := &Backend{Nodes: []Node{newNode("http://node.test/")}}
	for i := range 500 {
		routes = append(routes, Route{Name: fmt.Sprint("r", i), Match: Match{Path: fmt.Sprintf("/svc/%d/*", i)}, Backend: backend})
	}
	tab := mustCompile(b, TableOptions{Routes: routes})
	for b.Loop() {
		if len(tab.index.find("/svc/321/a/b")) != 1 {
			b.Fatal("not found")
		}
	}
}
