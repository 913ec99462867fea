package proxy

import "testing"

func TestMapLocation(t *testing.T) {
	const node = "http://node.test:8080/parcel"
	for _, c := range []struct {
		match, node, location, want string
	}{
		// An exact route stands for the node's path only.
		{"/depot", node, "http://node.test:8080/parcel", "https://gw.test/depot"},
		{"/depot", node, "http://node.test:8080/parcel?a=b#c", "https://gw.test/depot?a=b#c"},
		{"/depot", node, "HTTP://NODE.test:8080/parcel/", "https://gw.test/depot"},
		{"/depot", node, "/parcel", "/depot"},
		{"/depot", node, "//node.test:8080/parcel", "https://gw.test/depot"},
		{"/depot", node, "/v2/parcel", "/v2/parcel"},
		{"/depot", node, "http://node.test:8080/v2", "http://node.test:8080/v2"},
		// A prefix route stands for everything below the node's path.
		{"/depot/*", node, "http://node.test:8080/parcel/v2/x?q", "https://gw.test/depot/v2/x?q"},
		{"/depot/*", node, "/parcel/v2", "/depot/v2"},
		{"/depot/*", node, "/parcel", "/depot"},
		{"/depot/*", node, "/parcels", "/parcels"},
		{"/depot/*", "http://node.test/", "http://node.test:80/a", "https://gw.test/depot/a"},
		{"/*", "http://node.test", "/a", "/a"},
		{"/*", "http://node.test", "http://node.test", "https://gw.test/"},
		{"", "http://node.test", "http://node.test/a", "https://gw.test/a"},
		{"", node, "http://node.test:8080/parcel", "http://node.test:8080/parcel"},
		// What is not the node is left alone.
		{"/depot/*", node, "http://169.254.10.10/latest", "http://169.254.10.10/latest"},
		{"/depot/*", node, "https://node.test:8080/parcel", "https://node.test:8080/parcel"},
		{"/depot/*", node, "http://node.test/parcel", "http://node.test/parcel"},
		{"/depot/*", node, "//other.test/parcel", "//other.test/parcel"},
		{"/depot/*", node, "v2/x", "v2/x"},
		{"/depot/*", node, "?x", "?x"},
		{"/depot/*", node, "/login?next=http://node.test:8080/parcel", "/login?next=http://node.test:8080/parcel"},
		{"/depot/*", "https://node.test/p", "https://node.test:443/p/x", "https://gw.test/depot/x"},
	} {
		r := compileRoute(Route{Match: Match{Path: c.match}}, 0, compileBackend(&Backend{Nodes: []Node{newNode(c.node)}}))
		if got := r.mapLocation(c.location, "https://gw.test", parseNodeURL(c.node)); got != c.want {
			t.Errorf("route %q, node %s: mapLocation(%q): got %q, want %q", c.match, c.node, c.location, got, c.want)
		}
	}
}

func TestMapLocationNamesAnotherNode(t *testing.T) {
	b := compileBackend(&Backend{Nodes: []Node{newNode("http://a.test/x"), newNode("http://b.test/y")}})
	r := compileRoute(Route{Match: Match{Path: "/depot"}}, 0, b)
	if got := r.mapLocation("http://b.test/y", "http://gw.test", parseNodeURL("http://a.test/x")); got != "http://gw.test/depot" {
		t.Errorf("mapLocation of the other node: got %q", got)
	}
}

// TestMapLocationBelowAPublicPath: the public URL may have a path of its own,
// which counts for a Location without scheme and host too.
func TestMapLocationBelowAPublicPath(t *testing.T) {
	const node = "http://node.test/base"
	r := compileRoute(Route{Match: Match{Path: "/depot/*"}}, 0, compileBackend(&Backend{Nodes: []Node{newNode(node)}}))
	for location, want := range map[string]string{
		"/base/b?c":                  "/gw/depot/b?c",
		"http://node.test/base/b?c":  "https://gw.test/gw/depot/b?c",
		"//node.test/base/b":         "https://gw.test/gw/depot/b",
		"/elsewhere":                 "/elsewhere",
		"https://partner.test/base/": "https://partner.test/base/",
	} {
		if got := r.mapLocation(location, "https://gw.test/gw", parseNodeURL(node)); got != want {
			t.Errorf("mapLocation(%q): got %q, want %q", location, got, want)
		}
	}
}

func TestRest(t *testing.T) {
	for _, c := range []struct {
		match, node, path, want string
	}{
		{"/depot", "http://n/x", "/depot", ""},
		{"/depot/*", "http://n/x", "/depot", ""},
		{"/depot/*", "http://n/x", "/depot/", "/"},
		{"/depot/*", "http://n/x", "/depot/a//b%2f", "/a//b%2f"},
		{"/*", "http://n/x", "/", "/"},
		{"/*", "http://n/x", "/a", "/a"},
		{"", "http://n/x", "/a", ""},
		{"", "http://n", "/a", "/a"},
		{"", "http://n/", "/a", "/a"},
		{"", "framed://n:1", "", ""},
	} {
		u := parseNodeURL(c.node)
		r := compileRoute(Route{Match: Match{Path: c.match}}, 0, compileBackend(&Backend{Nodes: []Node{newNode(c.node)}}))
		if got := r.rest(u, r.tail(c.path)); got != c.want {
			t.Errorf("route %q, node %s, path %q: rest is %q, want %q", c.match, c.node, c.path, got, c.want)
		}
	}
}

// TestNodeKinds: what is left out for nodes that nothing is sent to as HTTP is left
// out for no other, a link to another site among them.
func TestNodeKinds(t *testing.T) {
	for _, c := range []struct {
		nodes        []string
		inside, bare bool
	}{
		{[]string{"builtin:echo"}, true, true},
		{[]string{"framed://a:1", "framed+tls://a:2"}, false, true},
		{[]string{"framed://a:1", "builtin:echo"}, false, true},
		{[]string{"framed://a:1", "http://a/"}, false, false},
		{[]string{"https://a/"}, false, false},
		{[]string{"site:hq/orders"}, false, false},
		{[]string{"builtin:echo", "site:hq/orders"}, false, false},
	} {
		b := &Backend{Name: "b"}
		for _, name := range c.nodes {
			b.Nodes = append(b.Nodes, newNode(name))
		}
		if got := compileBackend(b); got.inside != c.inside || got.bare != c.bare {
			t.Errorf("%v: got inside %v, bare %v, want %v, %v", c.nodes, got.inside, got.bare, c.inside, c.bare)
		}
	}
}
