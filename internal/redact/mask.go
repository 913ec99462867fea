package redact

import (
	"bytes"
	"unicode/utf8"

	"soapway/xmlstream"
)

// Name is that of elements and attributes to hide.
type Name struct {
	Space, Local string
	// AnySpace means that the namespace does not count.
	AnySpace bool
}

// Mask says what is hidden. Make it with [New].
type Mask struct {
	names map[string][]Name // by Local
}

// New returns a mask that hides names, and what is always hidden.
func New(names ...Name) *Mask {
	m := &Mask{names: make(map[string][]Name, len(names))}
	for _, n := range names {
		m.names[n.Local] = append(m.names[n.Local], n)
	}
	return m
}

// Join returns a mask that hides what any of masks does.
func Join(masks ...*Mask) *Mask {
	var all []Name
	for _, m := range masks {
		for _, names := range m.names {
			all = append(all, names...)
		}
	}
	return New(all...)
}

// Named reports whether the mask has names of its own.
func (m *Mask) Named() bool { return len(m.names) > 0 }

// Reaches reports whether an element that n may mean is hidden.
func (m *Mask) Reaches(n Name) bool {
	for _, name := range m.names[n.Local] {
		if name.AnySpace || n.AnySpace || name.Space == n.Space {
			return true
		}
	}
	return isSecret(xmlstream.Name{Space: []byte(n.Space), Local: []byte(n.Local)})
}

// hides reports whether the content of {space}local is hidden.
func (m *Mask) hides(n xmlstream.Name) bool {
	for _, name := range m.names[string(n.Local)] {
		if name.AnySpace || name.Space == string(n.Space) {
			return true
		}
	}
	return isSecret(n)
}

// trust are the namespaces of WS-Trust: 1.3 and 1.4, then its drafts.
var trust = [...]string{
	"http://docs.oasis-open.org/ws-sx/ws-trust/200512",
	"http://schemas.xmlsoap.org/ws/2005/02/trust",
	"http://schemas.xmlsoap.org/ws/2004/04/trust",
}

// isSecret tells the names that are always hidden.
func isSecret(n xmlstream.Name) bool {
	switch string(n.Local) {
	case "Password":
		return bytes.Contains(n.Space, []byte("secext")) // of WS-Security and all its drafts
	case "BinarySecret":
		for _, space := range trust {
			if string(n.Space) == space {
				return true
			}
		}
	}
	return false
}

// Plain reports whether octets that are no XML may be shown as they are: the mask
// has no names that could not be found in them, they are text, and nothing in it is
// a password or what else a header field, a form or JSON would name a secret. An error
// page of a server is such a text, one that repeats the request is not.
func (m *Mask) Plain(doc []byte) bool {
	return !m.Named() && utf8.Valid(doc) && !told.Match(doc)
}
