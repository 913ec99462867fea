package proxy

import (
	"errors"
	"strings"
)

// target is a raw request target, split but never decoded (SPEC.md §3.1).
type target struct {
	path     string
	query    string
	hasQuery bool
	// authority is that of an absolute-form target, which then counts instead
	// of the Host field (RFC 9112 §3.2.2); else "".
	authority string
}

var errTarget = errors.New("proxy: bad request target")

// parseTarget splits a target in origin form or absolute form. It refuses what
// has a ".." segment, control octets, blanks or a fragment.
func parseTarget(raw string) (target, error) {
	var t target
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c == 0x7f || c == '#' {
			return t, errTarget
		}
	}
	rest := raw
	if raw == "" || raw[0] != '/' {
		scheme, after, ok := strings.Cut(raw, "://")
		if !ok || (!strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https")) {
			return t, errTarget
		}
		end := strings.IndexAny(after, "/?")
		if end < 0 {
			end = len(after)
		}
		t.authority, rest = after[:end], after[end:]
		if t.authority == "" || strings.Contains(t.authority, "@") {
			return t, errTarget
		}
	}
	t.path, t.query, t.hasQuery = strings.Cut(rest, "?")
	if t.path == "" {
		t.path = "/"
	}
	if dots(t.path) {
		return t, errTarget
	}
	return t, nil
}

// dots reports whether path has a segment that a node might take for "..".
// Besides the plain one these are percent-encoded dots, segments that end at a
// backslash or at an encoded slash or backslash, and those with parameters
// ("..;x", which servlet containers clean to ".."). Nothing is decoded for the
// way on; such paths are only refused.
func dots(path string) bool {
	// A segment is at issue only if it begins with two dots in some spelling.
	for i := 0; i < len(path); {
		n := sepLen(path[i:])
		if n == 0 && i > 0 {
			i++
			continue
		}
		i += n
		rest := path[i:]
		one := dotLen(rest)
		if one == 0 {
			if n == 0 {
				i++
			}
			continue
		}
		two := dotLen(rest[one:])
		if two == 0 {
			i += one
			continue
		}
		end := rest[one+two:]
		if end == "" || end[0] == ';' || sepLen(end) > 0 {
			return true
		}
		i += one + two
	}
	return false
}

// sepLen is the length of the segment border at the start of s, 0 if none.
func sepLen(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == '/' || s[0] == '\\':
		return 1
	case len(s) >= 3 && s[0] == '%':
		if c := s[1:3]; c == "2f" || c == "2F" || c == "5c" || c == "5C" {
			return 3
		}
	}
	return 0
}

// dotLen is the length of the dot at the start of s, 0 if none.
func dotLen(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == '.':
		return 1
	case len(s) >= 3 && s[0] == '%' && s[1] == '2' && (s[2] == 'e' || s[2] == 'E'):
		return 3
	}
	return 0
}

// reserved reports whether path belongs to the gateway itself (CONFIG.md,
// "Reserved paths") and is never routed.
func reserved(path string) bool {
	return under(path, "/_gateway") || under(path, "/_site") || under(path, "/.well-known/acme-challenge")
}

// under reports whether path is base or below it, at a segment border.
func under(path, base string) bool {
	return strings.HasPrefix(path, base) && (len(path) == len(base) || path[len(base)] == '/')
}

// wsdlQuery reports whether a query asks for a description: one of its
// parameters is named wsdl, singleWsdl or xsd, whatever the case.
func wsdlQuery(query string) bool {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(part, "=")
		if strings.EqualFold(name, "wsdl") || strings.EqualFold(name, "singleWsdl") || strings.EqualFold(name, "xsd") {
			return true
		}
	}
	return false
}
