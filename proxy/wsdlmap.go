package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"

	"soapway/proxy/describe"
	"soapway/soapcodec/wsdl"
)

// mapper makes of the references of a document those that callers can follow.
type mapper struct {
	c    *call
	f    *front
	at   describe.Location
	base string
	all  bool // the addresses name no node: all are meant to be ours
	flat bool // what the document refers to is in it, and relative references would lead elsewhere
}

// of is the mapper of a document, the whole of which is known.
func (m mapper) of(doc *describe.Document) *mapper {
	m.at, m.all = doc.Location, m.f.own() && !m.namesNode(doc)
	return &m
}

// namesNode reports whether an address in a document is that of a node.
func (m *mapper) namesNode(doc *describe.Document) bool {
	return slices.ContainsFunc(doc.Refs(), func(r wsdl.Ref) bool {
		_, ok := m.c.t.publicURL(m.c.route, r.Value, m.base)
		return ok && r.Use == wsdl.Address
	})
}

// flatten puts a description together with what it refers to.
func (m *mapper) flatten(doc *describe.Document) (body pieces, tag string, err error) {
	sources, octets := map[describe.Location]*wsdl.Source{}, len(doc.Body)
	var source func(d *describe.Document) *wsdl.Source
	source = func(d *describe.Document) *wsdl.Source {
		own := m.of(d)
		s := &wsdl.Source{Doc: d.Body, Map: own.public, Target: func(r wsdl.Ref) *wsdl.Source {
			at, ok := m.f.resolve(d.Location, r.Value)
			if !ok {
				return nil
			}
			if s, ok := sources[at]; ok {
				return s
			}
			if len(sources) >= describe.MaxDocuments {
				return nil
			}
			t, err := m.f.Get(m.c.ctx, at)
			if err == nil {
				octets += len(t.Body)
			}
			if err != nil || octets > describe.MaxService {
				sources[at] = nil // stays a reference
				return nil
			}
			return source(t)
		}}
		sources[d.Location] = s
		return s
	}
	flat, err := wsdl.Flatten(source(doc))
	if err == nil {
		err = m.c.ctx.Err()
	}
	sum := sha256.Sum256(flat)
	return pieces{list: [][]byte{flat}}, hex.EncodeToString(sum[:12]), err
}

// pieces is a body that is not in one piece.
type pieces struct {
	list [][]byte
	at   int // octets of the first that are read
}

func (p *pieces) length() (n int64) {
	for _, b := range p.list {
		n += int64(len(b))
	}
	return n
}

func (p *pieces) Read(b []byte) (n int, err error) {
	for n < len(b) && len(p.list) > 0 {
		k := copy(b[n:], p.list[0][p.at:])
		n += k
		if p.at += k; p.at == len(p.list[0]) {
			p.list, p.at = p.list[1:], 0
		}
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (m *mapper) public(r wsdl.Ref) (string, bool) {
	if to, ok := m.c.t.publicURL(m.c.route, r.Value, m.base); ok {
		return to, true
	}
	own := m.base + m.c.target.path
	if r.Use == wsdl.Address {
		web := r.Value == "" || strings.HasPrefix(r.Value, "http://") || strings.HasPrefix(r.Value, "https://") || !strings.Contains(r.Value, ":")
		return own, m.all && web
	}
	// A reference that is relative to a document on the backend leads to the
	// right place on this side too, and stays (SPEC.md §3, CONFIG.md wsdl).
	if !m.flat && !strings.Contains(r.Value, "://") && strings.HasPrefix(string(m.at), "/") {
		return "", false
	}
	to, ok := m.f.resolve(m.at, r.Value)
	if !ok {
		return "", false
	}
	kind := "xsd"
	switch {
	case r.Use == wsdl.Import && m.flat:
		kind = "singleWsdl"
	case r.Use == wsdl.Import:
		kind = "wsdl"
	}
	return own + "?" + kind + "=" + m.f.Token(to), true
}

// publicURL maps an absolute URL that names a node to the one under which
// callers reach it: by the route itself if it does, else by the first one of
// the table.
func (t *Table) publicURL(r *route, ref, base string) (string, bool) {
	if to, ok := r.publicURL(ref, base); ok {
		return to, true
	}
	for _, o := range t.ordered {
		if o != r {
			if to, ok := o.publicURL(ref, base); ok {
				return to, true
			}
		}
	}
	return "", false
}

func (r *route) publicURL(ref, base string) (string, bool) {
	scheme, rest, ok := strings.Cut(ref, "://")
	for i, u := range r.backend.urls {
		if ref == r.backend.Nodes[i].Name() && !ok { // builtin:echo
			return base + r.path, true
		}
		if !ok || r.MatchNone {
			continue
		}
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		if !u.at(scheme, rest[:end]) {
			continue
		}
		if p, ok := r.publicPath(u, rest[end:]); ok {
			return r.hostBase(base) + p, true
		}
	}
	return "", false
}

// hostBase is the base of a route that asks for a host of its own.
func (r *route) hostBase(base string) string {
	scheme, rest, ok := strings.Cut(base, "://")
	if r.host == "" || !ok {
		return base
	}
	authority, below, _ := strings.Cut(rest, "/")
	host, port := splitPort(authority)
	if strings.EqualFold(authority, r.host) || strings.EqualFold(host, r.host) {
		return base
	}
	to := r.host
	if port != "" && !r.hostPort {
		to += ":" + port
	}
	if below != "" {
		below = "/" + below
	}
	return scheme + "://" + to + below
}
