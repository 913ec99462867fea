package proxy

import "strings"

// nodeURL is a node's name taken apart, for the mapping of Location.
type nodeURL struct {
	scheme, authority, path string
	framed                  bool
	inside                  bool // a node in this process
}

func parseNodeURL(name string) nodeURL {
	scheme, rest, ok := strings.Cut(name, "://")
	if !ok {
		return nodeURL{inside: strings.HasPrefix(name, "builtin:")}
	}
	u := nodeURL{scheme: strings.ToLower(scheme)}
	u.framed = strings.HasPrefix(u.scheme, "framed")
	u.authority, u.path = rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		u.authority, u.path = rest[:i], rest[i:]
	}
	u.path, _, _ = strings.Cut(u.path, "?")
	return u
}

// at reports whether an absolute URL's scheme and authority are those of the
// node; a default port may be written or not.
func (u nodeURL) at(scheme, authority string) bool {
	return u.scheme == strings.ToLower(scheme) &&
		strings.EqualFold(defaultPort(scheme, authority), defaultPort(u.scheme, u.authority))
}

func defaultPort(scheme, authority string) string {
	host, port := splitPort(authority)
	if port == "80" && strings.EqualFold(scheme, "http") || port == "443" && strings.EqualFold(scheme, "https") {
		return host
	}
	return authority
}

// appends reports whether the request's path, or what is left of it behind the
// route's prefix, is appended to the node's path. Besides prefix routes these
// are routes without a path condition whose node URL names no path either: the
// node then stands for the whole server.
func (r *route) appends(u nodeURL) bool {
	switch r.pathKind {
	case prefixPath:
		return true
	case anyPath:
		return !r.MatchNone && (u.path == "" || u.path == "/")
	}
	return false
}

// tail is what follows the route's own path in that of a request; it outlives
// a change of the route's path where a message is stored.
func (r *route) tail(path string) string {
	if path == "" || r.MatchNone {
		return ""
	}
	return path[len(r.path):]
}

// rest is what is appended to the path of node u for a request with that tail.
func (r *route) rest(u nodeURL, tail string) string {
	if !r.appends(u) {
		return ""
	}
	return tail
}

// mapLocation turns a node's Location into the one that the caller can use
// (SPEC.md §3: "3xx pass on, Location mapped"): the node's URL becomes the
// route's path below base, which is the public URL or what the caller used.
// What names no node of this backend, or a place that no request on this route
// can reach, is left as it is.
func (r *route) mapLocation(location, base string, node nodeURL) string {
	scheme, after, absolute := strings.Cut(location, "://")
	var authority, path string
	switch {
	case absolute && !strings.ContainsAny(scheme, "/?#"):
		i := strings.IndexAny(after, "/?#")
		if i < 0 {
			i = len(after)
		}
		authority, path = after[:i], after[i:]
		known := false
		for _, u := range r.backend.urls {
			if u.at(scheme, authority) {
				node, known = u, true
				if _, ok := r.publicPath(u, path); ok {
					break
				}
			}
		}
		if !known {
			return location
		}
	case strings.HasPrefix(location, "//"):
		i := strings.IndexAny(location[2:], "/?#")
		if i < 0 {
			i = len(location) - 2
		}
		authority, path = location[2:2+i], location[2+i:]
		if !node.at(node.scheme, authority) {
			return location
		}
	case strings.HasPrefix(location, "/"):
		if p, ok := r.publicPath(node, location); ok {
			return pathOf(base) + p // stays relative, below the path that a public URL may have
		}
		return location
	default:
		return location // relative to the request's own path: means the same on both sides
	}
	if p, ok := r.publicPath(node, path); ok {
		return base + p
	}
	return location
}

// pathOf is the path of an absolute URL that has no query.
func pathOf(base string) string {
	_, after, _ := strings.Cut(base, "://")
	if i := strings.IndexByte(after, '/'); i >= 0 {
		return after[i:]
	}
	return ""
}

// publicPath maps path (with query and fragment) below the node's path to the
// path below the route.
func (r *route) publicPath(u nodeURL, path string) (string, bool) {
	end := strings.IndexAny(path, "?#")
	if end < 0 {
		end = len(path)
	}
	path, tail := path[:end], path[end:]
	if !r.appends(u) {
		if r.pathKind != exactPath || trimSlash(path) != trimSlash(u.path) {
			return "", false
		}
		return r.path + tail, true
	}
	own := trimSlash(u.path)
	if !under(path, own) && path != own {
		return "", false
	}
	p := r.path + path[len(own):]
	if p == "" {
		p = "/"
	}
	return p + tail, true
}

func trimSlash(s string) string { return strings.TrimSuffix(s, "/") }
