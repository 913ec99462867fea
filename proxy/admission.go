package proxy

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"soapway/proxy/guard"
	"soapway/soapcodec"
)

// enter asks the guard of the route for this exchange, once. It comes before the
// body is read wherever the head decides about the route (SPEC.md §3.3:
// Expect: 100-continue is answered once route, authentication and size are known).
func (c *call) enter(r *route) error {
	if c.entered || r.Guard == nil || c.ex.Arrival != nil {
		return nil
	}
	c.waits() // a password takes its time
	name, open, denial := r.Guard.Enter(c.asked())
	if denial != nil {
		c.route = r
		return c.denied(denial)
	}
	c.entered, c.guard = true, r.Guard
	c.caller, c.proofOpen = name, open
	return nil
}

// screen refuses before the body what every candidate would refuse after it.
func (c *call) screen() error {
	if r := c.cand.settled(); r != nil {
		return c.enter(r)
	}
	var refusing *route
	for _, r := range c.cand.list {
		if !r.takesHead(&c.cand.head) {
			continue
		}
		if r.Guard == nil {
			return nil
		}
		c.waits()
		if r.Guard.Screen(c.asked()) == nil {
			return nil
		}
		if refusing == nil {
			refusing = r
		}
		if !r.body {
			break // those behind it cannot be met
		}
	}
	if refusing == nil {
		return nil
	}
	return c.enter(refusing) // which counts the refusal: guessing is bounded here too
}

func (c *call) asked() *guard.Caller {
	return &guard.Caller{Addr: c.fwd.client(), Header: c.ex.Header, Certificate: c.ex.Certificate}
}

// denied makes the answer of a denial (SPEC.md §3, "Answers of the gateway itself").
func (c *call) denied(d *guard.Denial) error {
	code := soapcodec.CodeNotAuthorised
	switch d.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		code = soapcodec.CodeBusy
	}
	r := refuse(d.Status, code)
	r.reason = d
	if len(d.Challenges) > 0 {
		for _, v := range d.Challenges {
			r.header.Add("Www-Authenticate", v)
		}
	}
	if d.After > 0 {
		r.with("Retry-After", strconv.Itoa(int(math.Ceil(d.After.Seconds()))))
	}
	return r
}

// prove looks into the envelope for who the caller is, if nothing before it has
// told. doc has the octets of its header, from its first on.
func (c *call) prove(doc []byte, f *soapcodec.Facts) error {
	if !c.proofOpen {
		return nil
	}
	c.proofOpen = false
	tok, err := soapcodec.FindUsernameToken(doc, f)
	if err == nil {
		c.caller, err = c.guard.Username((*guard.UsernameToken)(tok))
	}
	if err == nil {
		return nil
	}
	return &unproved{err}
}

// unproved is a refusal by what the envelope says; err is for the log alone, as
// the caller must not learn what of it was wrong.
type unproved struct{ err error }

func (e *unproved) Error() string { return "proxy: " + e.err.Error() }

// leave gives the exchange's place in its route back.
func (c *call) leave() {
	if c.entered {
		c.guard.Leave()
		c.entered = false
	}
}

// client is the address of the caller: of those in X-Forwarded-For, which trusted
// proxies have appended to from the left, the last that is not one of theirs.
func (f *forwarding) client() netip.Addr {
	client := f.ex.Client.Addr()
	if !f.trusted {
		return client
	}
	values := f.ex.Header.Values("X-Forwarded-For")
	for i := len(values) - 1; i >= 0; i-- {
		rest := values[i]
		for rest != "" {
			last := rest
			if j := strings.LastIndexByte(rest, ','); j >= 0 {
				last, rest = rest[j+1:], rest[:j]
			} else {
				rest = ""
			}
			a, ok := parseNode(strings.TrimSpace(last))
			if !ok {
				return client // what stands to the left of nonsense proves nothing
			}
			if client = a; !f.table.trusts(a) {
				return client
			}
		}
	}
	return client
}

// parseNode reads an address as proxies write it, with a port or without.
func parseNode(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a, true
	}
	if p, err := netip.ParseAddrPort(s); err == nil {
		return p.Addr(), true
	}
	return netip.Addr{}, false
}
