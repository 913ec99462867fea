package guard

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"soapway/internal/field"
)

// Options configures a [Guard]; the zero value lets everybody in.
type Options struct {
	// Allow are the networks that may send. Default: all.
	Allow []netip.Prefix

	// Rate bounds the exchanges of the route, PerClient those of each caller: of
	// one that has proved who it is by that name, of others by their address,
	// an IPv6 one by its first 64 bits. Default: no bound.
	Rate, PerClient Rate

	// Concurrency is how many exchanges may be under way. Default 0: any number.
	Concurrency int

	// Basic, Bearer and Keys are ways of proof by a field; Usernames is the one
	// by the envelope. nil: not accepted. All nil, and Subjects: no proof is
	// needed.
	Basic     *Passwords
	Bearer    *Tokens
	Keys      *Tokens
	KeyHeader string // canonical name of the field that has one of Keys
	Usernames *Usernames

	// Subjects is the way of proof by a certificate, which whoever accepts the
	// connection has verified.
	Subjects *Subjects
}

// Rate is a number of events in a time. As many may come at once; then one each
// Per/Events. The zero value is no bound.
type Rate struct {
	Events int
	Per    time.Duration
}

func (r Rate) none() bool { return r.Events == 0 }

// validate reports every bad field at once.
func (o Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for name, r := range map[string]Rate{"Rate": o.Rate, "PerClient": o.PerClient} {
		if !r.none() && (r.Events < 0 || r.Per <= 0 || r.Per/time.Duration(r.Events) == 0) {
			bad("option %s: got %d in %v, want at least 1, and no more than one a nanosecond", name, r.Events, r.Per)
		}
	}
	if o.Concurrency < 0 {
		bad("option Concurrency: got %d, want at least 1, or 0 for any number", o.Concurrency)
	}
	if (o.Keys == nil) != (o.KeyHeader == "") {
		bad("option KeyHeader: want the field in which Keys come, and none without them")
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("guard: options: %w", err)
	}
	return nil
}

// A Guard keeps one route. It is safe for concurrent use.
type Guard struct {
	opt      Options
	start    time.Time // of the clock of the rates; monotonic, steps of the wall clock do not move it
	route    *limiter
	clients  *limiters
	underway atomic.Int64
}

// KeyHeader is the canonical name of the field that may prove by a key who a
// caller is; "" if none does.
func (g *Guard) KeyHeader() string { return g.opt.KeyHeader }

// New returns a guard.
func New(opt Options) (*Guard, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	g := &Guard{opt: opt, start: time.Now()}
	g.opt.Allow = slices.Clone(opt.Allow)
	if !opt.Rate.none() {
		g.route = newLimiter(opt.Rate)
	}
	if !opt.PerClient.none() {
		g.clients = newLimiters(opt.PerClient, maxClients)
	}
	return g, nil
}

// A Denial is a refusal. It is an error for the log, and names no secret.
type Denial struct {
	// Status is 401, 403, 429 or 503.
	Status int
	// Challenges are the values of WWW-Authenticate that a 401 has.
	Challenges []string
	// After is when to come again; 0 tells nothing.
	After time.Duration
	// Reason is for the log.
	Reason string
}

// Error is for the log.
func (d *Denial) Error() string { return "guard: " + d.Reason }

// Caller is what a guard looks at before the body.
type Caller struct {
	// Addr is the caller's address, behind the proxies that are trusted.
	Addr netip.Addr
	// Header has the fields; nil for callers that have none.
	Header field.List
	// Certificate is that of the connection, verified; nil if there is none.
	Certificate *Certificate
}

// Screen tells whether Enter would refuse c for its address or its proof. It
// counts nothing: it is for a route that is only one of several possible ones.
func (g *Guard) Screen(c *Caller) *Denial {
	if g == nil {
		return nil
	}
	if !g.allowed(c.Addr) {
		return &Denial{Status: http.StatusForbidden, Reason: "the caller's network is not allowed"}
	}
	_, _, denial := g.prove(c)
	return denial
}

// Enter asks for one exchange. It returns the name that the caller has proved
// to have, "" for none, and whether a UsernameToken must still prove it; then
// [Guard.Username] must be asked. Unless it refuses, Leave must be called at the
// end of the exchange.
func (g *Guard) Enter(c *Caller) (name string, open bool, denial *Denial) {
	if g == nil {
		return "", false, nil
	}
	if !g.allowed(c.Addr) {
		return "", false, &Denial{Status: http.StatusForbidden, Reason: "the caller's network is not allowed"}
	}
	now := time.Since(g.start)
	address := addressKey(c.Addr)
	// Before the proof is looked at: guessing is bounded like sending.
	if g.clients != nil && g.proves() {
		if wait := g.clients.peek(address, now); wait > 0 {
			return "", false, overRate("the caller", wait)
		}
	}
	name, open, denial = g.prove(c)
	if denial != nil {
		if g.clients != nil {
			g.clients.take(address, now)
		}
		return "", false, denial
	}
	if g.clients != nil {
		key := address
		if name != "" {
			key = name
		}
		if wait := g.clients.take(key, now); wait > 0 {
			return "", false, overRate("the caller", wait)
		}
	}
	if g.route != nil {
		if wait := g.route.take(now); wait > 0 {
			return "", false, overRate("the route", wait)
		}
	}
	if n := g.underway.Add(1); g.opt.Concurrency > 0 && n > int64(g.opt.Concurrency) {
		g.underway.Add(-1)
		return "", false, &Denial{
			Status: http.StatusServiceUnavailable, After: time.Second,
			Reason: "the route has as many exchanges under way as it may",
		}
	}
	return name, open, nil
}

// Leave ends an exchange that Enter let in.
func (g *Guard) Leave() {
	if g != nil {
		g.underway.Add(-1)
	}
}

func overRate(who string, wait time.Duration) *Denial {
	return &Denial{Status: http.StatusTooManyRequests, After: wait, Reason: who + " is over the rate"}
}

func (g *Guard) allowed(a netip.Addr) bool {
	if len(g.opt.Allow) == 0 {
		return true
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(g.opt.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Unproved is the denial of a caller that has left the proof to an envelope, and
// has none.
func (g *Guard) Unproved() *Denial {
	d := &Denial{Status: http.StatusForbidden, Reason: "only an envelope could prove who the caller is"}
	if c := g.challenges(); len(c) > 0 {
		d.Status, d.Challenges = http.StatusUnauthorized, c
	}
	return d
}

// proves reports whether a proof is needed.
func (g *Guard) proves() bool {
	return g.opt.Basic != nil || g.opt.Bearer != nil || g.opt.Keys != nil || g.opt.Usernames != nil || g.opt.Subjects != nil
}

// prove looks for a proof in the fields. open says that there was none, and that
// the envelope may have one.
func (g *Guard) prove(c *Caller) (name string, open bool, denial *Denial) {
	if !g.proves() {
		return "", false, nil
	}
	offered := false
	for _, v := range c.Header.Values("Authorization") {
		scheme, rest, _ := strings.Cut(v, " ")
		rest = strings.TrimLeft(rest, " ")
		switch {
		case g.opt.Basic != nil && strings.EqualFold(scheme, "Basic"):
			offered = true
			user, err := g.opt.Basic.check(rest)
			switch err {
			case nil:
				return "basic:" + user, false, nil
			case errBusy:
				return "", false, busy()
			}
		case g.opt.Bearer != nil && strings.EqualFold(scheme, "Bearer"):
			offered = true
			if who, ok := g.opt.Bearer.check(rest); ok {
				return "bearer:" + who, false, nil
			}
		}
	}
	if g.opt.Keys != nil {
		for _, v := range c.Header.Values(g.opt.KeyHeader) {
			offered = true
			if who, ok := g.opt.Keys.check(v); ok {
				return "key:" + who, false, nil
			}
		}
	}
	reason := "the caller has not proved who it is"
	if g.opt.Subjects != nil && c.Certificate != nil {
		if who, ok := g.opt.Subjects.check(c.Certificate, time.Now()); ok {
			return "mtls:" + who, false, nil
		}
		// It belongs to the connection and not to the route, so it does not
		// count as offered: the envelope may still have a proof.
		reason = "the caller's certificate is not one of the route's, or has expired"
	}
	if !offered && g.opt.Usernames != nil {
		return "", true, nil
	}
	if offered {
		reason = "the caller's credentials are wrong"
	}
	denial = &Denial{Status: http.StatusUnauthorized, Challenges: g.challenges(), Reason: reason}
	if len(denial.Challenges) == 0 {
		// There is no challenge for a certificate, and a 401 must have one.
		denial.Status = http.StatusForbidden
	}
	return "", false, denial
}

func busy() *Denial {
	return &Denial{Status: http.StatusServiceUnavailable, After: time.Second, Reason: errBusy.Error()}
}

// challenges are the values of WWW-Authenticate (RFC 9110 §11.6.1), which a 401
// must have.
func (g *Guard) challenges() []string {
	var list []string
	if g.opt.Basic != nil {
		list = append(list, `Basic realm="gateway", charset="UTF-8"`)
	}
	if g.opt.Bearer != nil {
		list = append(list, `Bearer realm="gateway"`)
	}
	if g.opt.Keys != nil {
		list = append(list, `ApiKey realm="gateway", header="`+g.opt.KeyHeader+`"`)
	}
	return list
}
