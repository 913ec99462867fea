package proxy

import (
	"testing"

	"soapway/internal/field"
)

// TestTableResolve: the look-up alone finds the route that an exchange would take.
func TestTableResolve(t *testing.T) {
	b := &Backend{Name: "b", Nodes: []Node{newNode("http://node/")}}
	table, err := Compile(TableOptions{Routes: []Route{
		{Name: "first", Match: Match{Path: "/a", Host: "one.example", Action: "urn:x"}, Backend: b},
		{Name: "fields", Match: Match{Path: "/a", Headers: map[string]string{"X-Tenant": "north"}}, Backend: b},
		{Name: "tree", Match: Match{Path: "/tree/*"}, Backend: b},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, target, action string
		header               field.List
		want                 string
	}{
		{"one.example", "/a?q", "urn:x", nil, "first"},
		{"one.example", "/a", "urn:y", nil, ""},
		{"two.example", "/a", "urn:x", field.List{{Name: "X-Tenant", Value: "north"}}, "fields"},
		{"", "/tree/x/y", "", nil, "tree"},
		{"", "/tree/../a", "", nil, ""},
		{"", "/none", "", nil, ""},
	} {
		if got := table.Resolve(tt.host, tt.target, tt.action, tt.header); got != tt.want {
			t.Errorf("Resolve(%q, %q, %q): got %q, want %q", tt.host, tt.target, tt.action, got, tt.want)
		}
	}
}
