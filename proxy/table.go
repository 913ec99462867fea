package proxy

import (
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"soapway/soapcodec"
)

// Table is a compiled [TableOptions]. It is immutable; an exchange keeps the
// table it began with.
type Table struct {
	opt    TableOptions
	via    string // value of our Via entry
	byName map[string]*route
	// backends has those that a route leads to, by name.
	backends map[string]*backend
	answers  map[string]*route // by which answers to stored messages go on, by name
	index    index
	strict   bool     // a route is strict
	framed   []*route // in list order: routes that a framed exchange can match
	ordered  []*route // in list order: all that have conditions
	wake     chan struct{}
	copies   sync.WaitGroup // to shadow backends, under way
}

// route is a compiled [Route].
type route struct {
	Route
	order   int
	limits  Limits // of requests
	backend *backend

	path     string // exact path, or the path before "/*"
	pathKind pathKind
	host     string // lower case; "" = any
	hostPort bool   // host has a port
	headers  []fieldMatch
	body     bool // a condition looks into the envelope

	replyLimits Limits
	orderBy     keyPlace
	dedup       *dedup            // nil: none
	answers     map[string]*route // of ReplyAt, by origin
	origin      string            // where answers go by this route; "" for any other
	front       *front            // nil: no descriptions
	shadow      *shadow           // nil: no copies
	twin        bool              // it is that of copies

	// prompt: from the whole message on nobody is waited for.
	prompt bool

	decode soapcodec.Options // of requests
	check  soapcodec.Options // of replies
	allow  string            // value of Allow
}

type pathKind uint8

const (
	anyPath pathKind = iota
	exactPath
	prefixPath
)

type fieldMatch struct{ name, value string }

// backend is a compiled [Backend].
type backend struct {
	Backend
	urls []nodeURL
	// needsLength: a framed node may get the message, so its length must be
	// known before it is sent.
	needsLength bool
	framedOnly  bool // no node takes attachments
	inside      bool // all nodes are in this process
	// bare: nobody looks at the fields of a message that came in a frame.
	bare bool
}

// Compile checks the options and builds the table. The error names every bad
// option.
func Compile(opt TableOptions) (*Table, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	opt.TrustedProxies = slices.Clone(opt.TrustedProxies)
	t := &Table{opt: opt, via: "1.1 " + opt.Via, byName: make(map[string]*route, len(opt.Routes)), backends: map[string]*backend{}, answers: map[string]*route{}, wake: make(chan struct{}, 1)}

	// Routes that share a Backend share its compiled form, and so its policy's state.
	backends := map[*Backend]*backend{}
	compile := func(b *Backend) *backend {
		c := backends[b]
		if c == nil {
			c = compileBackend(b)
			backends[b] = c
		}
		return c
	}
	var ordered []*route
	for i := range opt.Routes {
		b := compile(opt.Routes[i].Backend)
		r := compileRoute(opt.Routes[i], i, b)
		if r.front != nil {
			r.front.begin(t.wake)
		}
		t.compileAnswers(r, compile)
		t.byName[r.Name] = r
		t.strict = t.strict || r.Strict
		t.backends[b.Name] = b
		if s := r.Shadow; s != nil {
			other := compile(s.Backend)
			r.shadow = compileShadow(r, other)
			t.backends[other.Name] = other
		}
		if r.MatchNone {
			continue
		}
		ordered = append(ordered, r)
		if r.pathKind == anyPath && r.host == "" && len(r.headers) == 0 {
			t.framed = append(t.framed, r)
		}
	}
	t.index, t.ordered = buildIndex(ordered), ordered
	return t, nil
}

func compileBackend(b *Backend) *backend {
	c := &backend{Backend: b.withDefaults()}
	for _, n := range c.Nodes {
		c.urls = append(c.urls, parseNodeURL(n.Name()))
	}
	c.needsLength = c.framed()
	c.inside = !slices.ContainsFunc(c.urls, func(u nodeURL) bool { return !u.inside })
	c.bare = c.HashBy.Kind == HashNone && c.Compress == CompressNone &&
		!slices.ContainsFunc(c.urls, func(u nodeURL) bool { return !u.inside && !u.framed })
	c.framedOnly = !slices.ContainsFunc(c.urls, func(u nodeURL) bool { return !u.framed })
	return c
}

func compileRoute(r Route, order int, b *backend) *route {
	c := &route{Route: r, order: order, limits: r.Limits.withDefaults(), backend: b}
	c.replyLimits = c.limits
	if c.Hold <= 0 {
		c.Hold = defaultHold
	}
	if c.ReplyKeep == 0 {
		c.ReplyKeep = defaultReplyKeep
	}
	m := r.Match
	if r.MatchNone {
		m = Match{}
	}
	switch {
	case m.Path == "":
	case strings.HasSuffix(m.Path, "/*"):
		c.pathKind, c.path = prefixPath, strings.TrimSuffix(m.Path, "/*")
	default:
		c.pathKind, c.path = exactPath, m.Path
	}
	if m.Host != "" {
		c.host = strings.ToLower(m.Host)
		_, port := splitPort(c.host)
		c.hostPort = port != ""
	}
	for name, value := range m.Headers {
		c.headers = append(c.headers, fieldMatch{textproto.CanonicalMIMEHeaderKey(name), value})
	}
	c.body = m.Action != "" || m.Operation != soapcodec.QName{}
	c.decode = soapcodec.Options{
		Limits: r.Limits.XML, Accept11: r.Accept11, Accept12: r.Accept12,
		Normalize: r.Normalize, Node: r.Node,
		Translate: r.Translate, Strict: r.Strict, Add: r.Add, LateTo: r.WSATo, LateMark: r.Mark,
	}
	if c.stores() || b.HashBy.Kind == HashKey || r.Shadow != nil && r.Shadow.Backend.HashBy.Kind == HashKey {
		c.orderBy = compileKey(r.OrderBy, &c.decode)
	}
	if r.Delivery == Queue {
		c.dedup = compileDedup(r.Dedup, &c.decode)
	}
	c.check = soapcodec.Options{Limits: r.Limits.XML}
	c.WSDLPass = c.WSDLPass && !b.needsLength
	c.front = compileFront(c)
	c.prompt = c.Delivery == Sync && c.Guard == nil && !c.checksOperations() && b.Places == nil && b.inside

	allowed := []string{"POST"}
	for _, m := range r.Methods {
		if !slices.Contains(allowed, m) {
			allowed = append(allowed, m)
		}
	}
	c.allow = strings.Join(allowed, ", ")
	return c
}

// stores reports whether messages of the route may be stored.
func (r *route) stores() bool { return r.Delivery != Sync }

// edits reports whether the route may change octets of a message that is
// already UTF-8.
func (r *route) edits() bool {
	return r.Node || r.Normalize != soapcodec.Keep || r.Translate != soapcodec.V0 || len(r.Add) > 0 || r.Mark
}

// passes reports whether requests of this method go through unchecked because
// the route's methods list it.
func (r *route) passes(method string) bool {
	return method != "POST" && slices.Contains(r.Methods, method)
}

// Trusts reports whether a peer is one of the trusted proxies of the present
// table.
func (h *Handler) Trusts(peer netip.Addr) bool { return h.table.Load().trusts(peer) }

// trusts reports whether the caller is one of the trusted proxies.
func (t *Table) trusts(a netip.Addr) bool {
	if len(t.opt.TrustedProxies) == 0 || !a.IsValid() {
		return false
	}
	a = a.Unmap()
	for _, p := range t.opt.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// splitPort splits "host:port"; an IPv6 literal keeps its brackets.
func splitPort(hostport string) (host, port string) {
	i := strings.LastIndexByte(hostport, ':')
	if i < 0 || strings.HasSuffix(hostport, "]") || strings.Contains(hostport[:i], ":") && hostport[0] != '[' {
		return hostport, ""
	}
	return hostport[:i], hostport[i+1:]
}
