package config

import (
	"iter"
	"strings"
)

// conditions are those of a match but for its header fields. The zero value of
// each field is no condition.
type conditions struct {
	host      string
	path      PathPattern
	action    string // never empty where it is a condition
	operation QName
}

// matchIndex finds among many routes one that takes everything that another
// one would take.
type matchIndex map[conditions][]indexedMatch

type indexedMatch struct {
	path    string // of the route
	headers map[string]string
}

func conditionsOf(m *Match) conditions {
	c := conditions{host: m.Host, path: m.Path, operation: m.Operation}
	if m.Action != nil {
		c.action = *m.Action
	}
	return c
}

func (x matchIndex) add(m *Match, path string) {
	c := conditionsOf(m)
	x[c] = append(x[c], indexedMatch{path, m.Headers})
}

// covering returns the path of a route whose conditions every message has that
// has those of m, "" if there is none, and whether they are the same
// conditions.
func (x matchIndex) covering(m *Match) (path string, same bool) {
	own := conditionsOf(m)
	for c := range wider(own) {
		for _, other := range x[c] {
			if !implied(other.headers, m.Headers) {
				continue
			}
			if path = other.path; c == own && len(other.headers) == len(m.Headers) {
				return path, true
			}
		}
	}
	return path, false
}

// wider yields every conditions that all messages meet which meet c, c last.
func wider(c conditions) iter.Seq[conditions] {
	return func(yield func(conditions) bool) {
		for path := range widerPaths(c.path) {
			for _, host := range distinct("", c.host) {
				for _, action := range distinct("", c.action) {
					for _, operation := range distinct(QName{}, localPart(c.operation), c.operation) {
						if !yield(conditions{host, path, action, operation}) {
							return
						}
					}
				}
			}
		}
	}
}

// distinct drops repetitions, which stand side by side.
func distinct[T comparable](values ...T) []T {
	out := values[:1]
	for _, v := range values[1:] {
		if v != out[len(out)-1] {
			out = append(out, v)
		}
	}
	return out
}

func localPart(q QName) QName {
	if q.IsZero() {
		return q
	}
	return QName{Local: q.Local, AnySpace: true}
}

// widerPaths yields the patterns that match whatever p does, p last.
func widerPaths(p PathPattern) iter.Seq[PathPattern] {
	return func(yield func(PathPattern) bool) {
		if !yield(PathPattern{}) || p.IsZero() {
			return
		}
		for i := range len(p.Path) {
			if p.Path[i] == '/' && !yield(PathPattern{Path: p.Path[:i], Prefix: true}) {
				return
			}
		}
		// /a/* matches /a too.
		if !p.Prefix && !yield(PathPattern{Path: p.Path, Prefix: true}) {
			return
		}
		yield(p)
	}
}

// implied reports whether every field of headers is asked for by others too.
func implied(headers, others map[string]string) bool {
	for name, value := range headers {
		found := false
		for other, v := range others {
			found = found || strings.EqualFold(name, other) && v == value
		}
		if !found {
			return false
		}
	}
	return true
}
