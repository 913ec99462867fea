package proxy

import (
	"slices"
	"strings"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// index finds, for a path, the routes whose path condition it meets, in list
// order, by one or a few map look-ups. What it finds is what a walk over the
// whole list would find (TestIndexEqualsList).
type index struct {
	exact  map[string][]*route // a path that some route names exactly: all routes that take it
	prefix map[string][]*route // a path before "/*": all routes that take a path below it
	any    []*route            // all routes without a path condition
	// longest is the length of the longest key of prefix, so that a hostile
	// path with thousands of segments costs no more than a short one.
	longest int
}

// buildIndex merges, for each key, every route that matches there, so that a
// look-up needs no merge of its own. routes are in list order.
func buildIndex(routes []*route) index {
	x := index{exact: map[string][]*route{}, prefix: map[string][]*route{}}
	for _, r := range routes {
		switch r.pathKind {
		case anyPath:
			x.any = append(x.any, r)
		case exactPath:
			x.exact[r.path] = nil
		case prefixPath:
			x.prefix[r.path] = nil
			x.longest = max(x.longest, len(r.path))
		}
	}
	for p := range x.exact {
		for _, r := range routes {
			if r.takesPath(p) {
				x.exact[p] = append(x.exact[p], r)
			}
		}
	}
	for p := range x.prefix {
		// A path that is found here is not a key of exact and has no longer
		// prefix, so the routes that take it are those with a prefix of p.
		for _, r := range routes {
			if r.pathKind == anyPath || r.pathKind == prefixPath && under(p, r.path) {
				x.prefix[p] = append(x.prefix[p], r)
			}
		}
	}
	return x
}

// find returns the routes whose path condition holds, in list order.
func (x *index) find(path string) []*route {
	if l, ok := x.exact[path]; ok {
		return l
	}
	if len(x.prefix) > 0 {
		p := path
		if len(p) > x.longest {
			// The longest border at or before x.longest.
			if p[x.longest] == '/' {
				p = p[:x.longest]
			} else {
				p = p[:max(0, strings.LastIndexByte(p[:x.longest], '/'))]
			}
		}
		for {
			if l, ok := x.prefix[p]; ok {
				return l
			}
			i := strings.LastIndexByte(p, '/')
			if i < 0 {
				break
			}
			p = p[:i]
		}
	}
	return x.any
}

func (r *route) takesPath(path string) bool {
	switch r.pathKind {
	case exactPath:
		return path == r.path
	case prefixPath:
		return under(path, r.path)
	}
	return true
}

// headFacts is what routing knows of a request before its body is read.
type headFacts struct {
	host   string
	header field.List
}

// takesHead reports whether the conditions on host and fields hold.
func (r *route) takesHead(f *headFacts) bool {
	if r.host != "" {
		h := f.host
		if !r.hostPort {
			h, _ = splitPort(h)
		}
		if !strings.EqualFold(h, r.host) {
			return false
		}
	}
	for _, m := range r.headers {
		if !slices.Contains(f.header.Values(m.name), m.value) {
			return false
		}
	}
	return true
}

// bodyFacts is what routing knows of an envelope.
type bodyFacts struct {
	action    string          // see action
	addressed string          // wsa:Action
	operation soapcodec.QName // first child of Body
}

// takesBody reports whether the conditions on the envelope hold. An operation is
// the first child of Body, or what the description of the service calls a message
// with that child (SPEC.md §3.1: one without never matches).
func (r *route) takesBody(f *bodyFacts, path string) bool {
	if a := r.Match.Action; a != "" && a != f.action {
		return false
	}
	q := r.Match.Operation
	switch {
	case q.IsZero():
		return true
	case f.operation.IsZero():
		return false
	case q.Local == f.operation.Local && (r.Match.AnyNamespace || q.Space == f.operation.Space):
		return true
	}
	return r.front != nil && r.front.names(r.tail(path), f, q, r.Match.AnyNamespace)
}

// candidates are the routes that an exchange may still take once its head is
// known: those up to and with the first whose conditions all hold.
type candidates struct {
	fixed *route // by the listener; then no condition is looked at
	list  []*route
	head  headFacts
	path  string
}

// first returns the first candidate, nil if there is none.
func (c *candidates) first() *route {
	if c.fixed != nil {
		return c.fixed
	}
	for _, r := range c.list {
		if r.takesHead(&c.head) {
			return r
		}
	}
	return nil
}

// settled returns the route if the head alone decides, else nil.
func (c *candidates) settled() *route {
	if c.fixed != nil {
		return c.fixed
	}
	if r := c.first(); r != nil && !r.body {
		return r
	}
	return nil
}

// stores reports whether the route, as far as it is known, may be one that
// stores messages.
func (c *candidates) stores() bool {
	if r := c.settled(); r != nil {
		return r.stores()
	}
	for _, r := range c.list {
		if !r.takesHead(&c.head) {
			continue
		}
		if r.stores() {
			return true
		}
		if !r.body {
			break // those behind it cannot be met
		}
	}
	return false
}

// choose returns the route once the envelope is known.
func (c *candidates) choose(f *bodyFacts) *route {
	if c.fixed != nil {
		return c.fixed
	}
	for _, r := range c.list {
		if r.takesHead(&c.head) && r.takesBody(f, c.path) {
			return r
		}
	}
	return nil
}

// withoutBody returns the route of a request that has no envelope.
func (c *candidates) withoutBody() *route {
	if c.fixed != nil {
		return c.fixed
	}
	for _, r := range c.list {
		if !r.body && r.takesHead(&c.head) {
			return r
		}
	}
	return nil
}

// limits are those under which the body is read while the route is not chosen:
// of each limit the widest among the candidates.
func (c *candidates) limits() Limits {
	if r := c.settled(); r != nil {
		return r.limits
	}
	var l Limits
	for _, r := range c.list {
		if !r.takesHead(&c.head) {
			continue
		}
		l.MaxMessage = max(l.MaxMessage, r.limits.MaxMessage)
		l.Buffer = max(l.Buffer, r.limits.Buffer)
		l.DecodeRatio = max(l.DecodeRatio, r.limits.DecodeRatio)
		l.HeaderBytes = max(l.HeaderBytes, r.limits.HeaderBytes)
		l.XML = widest(l.XML, r.limits.XML)
		if !r.body {
			break
		}
	}
	return l
}

// action is the action that routing compares: that of the binding if the
// request has one, the other version's if it has not (input is taken
// leniently), else wsa:Action.
func action(h field.List, ct soapcodec.ContentType, f *soapcodec.Facts) string {
	soapAction, _ := soapcodec.ParseSOAPAction(h.Values(soapActionKey))
	own, other := soapAction, ct.Action
	if f.Version == soapcodec.V12 {
		own, other = other, own
	}
	switch {
	case own != "":
		return own
	case other != "":
		return other
	}
	return f.Action
}

// widest takes of each limit the wider one. Zero counts as the default, which
// is then the least it returns; every route applies its own limits afterwards.
func widest(a, b xmlstream.Limits) xmlstream.Limits {
	return xmlstream.Limits{
		Depth:          wider(a.Depth, b.Depth, 256),
		Attributes:     wider(a.Attributes, b.Attributes, 256),
		Namespaces:     wider(a.Namespaces, b.Namespaces, 256),
		Name:           wider(a.Name, b.Name, 1<<10),
		AttributeValue: wider(a.AttributeValue, b.AttributeValue, 64<<10),
		Elements:       wider(a.Elements, b.Elements, 4<<20),
		Text:           wider(a.Text, b.Text, 64<<20),
	}
}

func wider[T int | int64](a, b, def T) T {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b, def)
}
