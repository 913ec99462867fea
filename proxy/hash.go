package proxy

import (
	"net/netip"
	"strings"

	"soapway/internal/field"
	"soapway/proxy/balance"
)

// HashBy says by what messages are hashed onto nodes; its zero value is nothing.
type HashBy struct {
	Kind HashKind
	// Name is that of the cookie or of the field.
	Name string
}

// HashKind is a kind of what messages are hashed by.
type HashKind uint8

// The kinds.
const (
	HashNone   HashKind = iota
	HashCookie          // the value of a cookie
	HashHeader          // the value of a header field
	HashClient          // the address of the caller
	HashKey             // the key that orders the messages of the route
)

// hashKey is what the message is hashed by. A message without it goes by the
// backend's other policy: stored messages have no cookies (SPEC.md §3.8).
func (c *call) hashKey(req *Request) (key uint64, ok bool) {
	by := &c.route.backend.HashBy
	text := ""
	switch by.Kind {
	case HashCookie:
		text = cookie(req.Header.Values("Cookie"), by.Name)
	case HashHeader:
		text = strings.Join(req.Header.Values(by.Name), ",")
	case HashClient:
		text = c.t.caller(req.Header)
	case HashKey:
		text = c.orderKey()
	}
	return balance.KeyOf(text), text != ""
}

// binder is a policy that remembers where a key belongs.
type binder interface{ Bind(key uint64, node int) }

// bind notes a session that node i has opened by a cookie: what follows in it
// belongs there, wherever the hash of its cookie would lead, since nobody else
// knows the session. The first request of a session has no cookie yet.
func (c *call) bind(i int, resp *Response) {
	b := c.route.backend
	if b.HashBy.Kind != HashCookie {
		return
	}
	p, ok := b.Policy.(binder)
	if !ok {
		return
	}
	for _, line := range resp.Header.Values("Set-Cookie") {
		pair, _, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		if value = strings.TrimSpace(value); strings.TrimSpace(name) == b.HashBy.Name && value != "" {
			p.Bind(balance.KeyOf(value), i)
		}
	}
}

// cookie is the value of the first cookie of that name (RFC 6265 §5.4), "" if
// there is none. It is compared as it is written, quotes included.
func cookie(lines []string, name string) string {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if n, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.TrimSpace(n) == name {
				return strings.TrimSpace(v)
			}
		}
	}
	return ""
}

// caller is the address of who sent a message, from the X-Forwarded-For field
// that nodes get: the last one that is not a trusted proxy's, or the first if
// all are.
func (t *Table) caller(h field.List) string {
	who := ""
	rest := strings.Join(h.Values("X-Forwarded-For"), ",")
	for more := true; more; {
		i := strings.LastIndexByte(rest, ',')
		entry := strings.TrimSpace(rest[i+1:])
		if more = i >= 0; more {
			rest = rest[:i]
		}
		if entry == "" {
			continue
		}
		a, err := netip.ParseAddr(entry)
		if err != nil {
			if a, err = addrOfPort(entry); err != nil {
				return who // nobody can be told apart behind that
			}
		}
		who = a.Unmap().String()
		if !t.trusts(a) {
			return who
		}
	}
	return who
}

// addrOfPort reads an address with a port, which some proxies write.
func addrOfPort(s string) (netip.Addr, error) {
	a, err := netip.ParseAddrPort(s)
	return a.Addr(), err
}

// orderKey is the key that orders the messages of the route, "" if there is
// none. That of a message which streams may stand behind what has been read.
func (c *call) orderKey() string {
	key := c.laneOf
	if by := &c.route.orderBy; key == "" && (by.index < len(c.keys) || by.Source != KeyHeader && by.Source != KeyBody) {
		key, _ = by.value(c) // one that is too long is none
	}
	if key == NoKey {
		return ""
	}
	return key
}
