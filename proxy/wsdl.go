package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"soapway/proxy/describe"
	"soapway/soapcodec"
	"soapway/soapcodec/wsdl"
)

// WSDL says how a route answers requests for its description (SPEC.md §3.2):
// with that of the backend unless File or URL names another one.
type WSDL struct {
	// File is a document on disk, which may refer to others beside it.
	File string
	// URL is that of a document elsewhere.
	URL string
	// Hosts may be asked for documents beside the backend and that of URL: a name
	// or an address, with or without a port.
	Hosts []string
	// Check refuses messages whose first child of Body no operation has.
	Check bool
	// Shelf keeps documents between runs; nil keeps them in memory.
	Shelf *describe.Shelf
	// Fresh is how long a document is handed out before its source is asked
	// again. Default [describe.DefaultFresh].
	Fresh time.Duration
	// Log is told when a source cannot be asked. Default: discard.
	Log *slog.Logger
}

// front answers for the descriptions of a compiled route.
type front struct {
	*describe.Front
	opt    WSDL
	route  *route
	files  *describe.Files
	client *describe.Client
	hosts  []string // of opt, and that of opt.URL
}

func compileFront(r *route) *front {
	if r.WSDL == nil || r.WSDL.File == "" && r.WSDL.URL == "" && r.backend.needsLength {
		return nil // a framed node has no description
	}
	f := &front{opt: *r.WSDL, route: r, hosts: slices.Clone(r.WSDL.Hosts)}
	opt := describe.Options{
		Name: r.Name, Fetch: f.fetch, Resolve: f.resolve, Shelf: r.WSDL.Shelf, Fresh: r.WSDL.Fresh, Log: r.WSDL.Log,
	}
	switch {
	case r.WSDL.File != "":
		f.files = describe.NewFiles(r.WSDL.File)
		opt.Shelf, opt.Fresh = nil, time.Nanosecond // it is here
	case r.WSDL.URL != "":
		if u, err := url.Parse(r.WSDL.URL); err == nil {
			f.hosts = append(f.hosts, u.Host)
		}
	}
	if r.backend.urls[0].scheme == "" { // built in
		opt.Shelf = nil
	}
	f.client = describe.NewClient(f.hosts)
	f.Front = describe.NewFront(opt)
	return f
}

// own reports whether the route has a description of its own, in place of the
// backend's.
func (f *front) own() bool { return f.opt.File != "" || f.opt.URL != "" }

// root is where the description of the service begins that a path of the route
// leads to.
func (f *front) root(tail string) describe.Location {
	switch {
	case f.files != nil:
		return f.files.Root()
	case f.opt.URL != "":
		return describe.Location(f.opt.URL)
	}
	return f.onNode(tail, "wsdl")
}

// onNode is the place of a document of the backend, as its first node has it.
func (f *front) onNode(tail, query string) describe.Location {
	u := f.route.backend.urls[0]
	p := u.path
	if rest := f.route.rest(u, tail); rest != "" {
		p = trimSlash(p) + rest
	}
	if p == "" {
		p = "/"
	}
	return describe.Location(p + "?" + query)
}

// resolve finds the document that a reference in another one leads to.
func (f *front) resolve(from describe.Location, ref string) (describe.Location, bool) {
	scheme, rest, absolute := strings.Cut(ref, "://")
	if !absolute || strings.ContainsAny(scheme, "/?#") {
		if !strings.HasPrefix(string(from), "/") || strings.HasPrefix(ref, "//") {
			return describe.Follow(from, ref, f.hosts)
		}
		return relative(string(from), ref)
	}
	i := strings.IndexAny(rest, "/?#")
	if i < 0 {
		i = len(rest)
	}
	authority, target := rest[:i], rest[i:]
	for _, u := range f.route.backend.urls {
		if u.at(scheme, authority) {
			target, _, _ = strings.Cut(target, "#")
			if target == "" || target[0] == '?' {
				target = "/" + target
			}
			if dots(target) {
				return "", false
			}
			return describe.Location(f.canonical(u, target)), true
		}
	}
	return describe.Follow(from, ref, f.hosts)
}

// canonical is a path on node u as the first node has it.
func (f *front) canonical(u nodeURL, target string) string {
	p, query, ok := strings.Cut(target, "?")
	p = moved(p, u, f.route.backend.urls[0])
	if ok {
		p += "?" + query
	}
	return p
}

// relative resolves a reference between documents of the backend.
func relative(from, ref string) (describe.Location, bool) {
	u, err := url.Parse(ref)
	if err != nil || u.Scheme != "" || u.Host != "" || ref == "" || ref[0] == '#' {
		return "", false
	}
	base, _, _ := strings.Cut(from, "?")
	p, query, hasQuery := strings.Cut(ref, "?")
	query, _, _ = strings.Cut(query, "#")
	p, _, _ = strings.Cut(p, "#")
	switch {
	case p == "":
		p = base
	case p[0] != '/':
		p = path.Join(path.Dir(base), p)
	default:
		p = path.Clean(p)
	}
	if dots(p) {
		return "", false
	}
	if hasQuery {
		p += "?" + query
	}
	return describe.Location(p), true
}

// fetch gets a document from its source.
func (f *front) fetch(ctx context.Context, at describe.Location, etag, modified string) (*describe.Copy, error) {
	switch {
	case strings.HasPrefix(string(at), "/"):
		return f.fromBackend(ctx, string(at), describe.Ask(etag, modified))
	case f.files != nil && strings.HasPrefix(string(at), "file:"):
		return f.files.Fetch(at)
	}
	return f.client.Fetch(ctx, at, etag, modified)
}

// fromBackend asks one node after the other, healthy ones first: asking twice
// does no harm.
func (f *front) fromBackend(ctx context.Context, at string, header http.Header) (*describe.Copy, error) {
	b := f.route.backend
	b.addOwn(header)
	p, query, hasQuery := strings.Cut(at, "?")
	order := make([]int, 0, len(b.Nodes))
	for _, healthy := range []bool{true, false} {
		for i := range b.Nodes {
			if (b.share(i) > 0) == healthy && !b.urls[i].framed {
				order = append(order, i)
			}
		}
	}
	failed := errors.New("proxy: the backend has no node that could be asked")
	for _, i := range order {
		resp, err := b.Nodes[i].Send(ctx, &Request{
			Method: http.MethodGet, Path: moved(p, b.urls[0], b.urls[i]),
			Query: query, HasQuery: hasQuery, Header: header,
			Body: func() (io.ReadCloser, error) { return http.NoBody, nil }, Timeouts: Timeouts{Connect: b.Connect, Answer: b.Answer},
		})
		if err != nil {
			failed = err
			if ctx.Err() != nil {
				break
			}
			continue
		}
		var body io.Reader
		if resp.Body != nil {
			defer resp.Body.Close()
			body = resp.Body
		}
		return describe.Answer(resp.Status, resp.Header, body)
	}
	return nil, failed
}

// moved is a path below that of one node below that of another one.
func moved(p string, from, to nodeURL) string {
	if rest, ok := strings.CutPrefix(p, trimSlash(from.path)); ok && (rest == "" || rest[0] == '/') {
		return trimSlash(to.path) + rest
	}
	return p
}

// describe answers a request for a description.
func (c *call) describe() (*Reply, error) {
	f := c.route.front
	if err := c.within(c.route); err != nil {
		return nil, err
	}
	at, err := f.asked(c.ctx, c.route.tail(c.target.path), c.target.query)
	var doc *describe.Document
	if err == nil {
		doc, err = f.Get(c.ctx, at)
	}
	if err != nil {
		return c.undescribed(err)
	}
	m := mapper{c: c, f: f, at: at, base: c.publicBase()}
	if f.own() {
		m.all = !m.namesNode(doc.Body)
	}
	body, err := wsdl.Rewrite(make([]byte, 0, len(doc.Body)+len(doc.Body)/16), doc.Body, m.public)
	if err != nil {
		return nil, &backendError{soapcodec.CodeBackendNotSOAP, err}
	}
	sum := sha256.Sum256(body)
	h := c.stamped(http.Header{
		"Content-Type": {doc.Type}, "Etag": {`"` + hex.EncodeToString(sum[:12]) + `"`}, "Cache-Control": {"no-cache"},
	})
	c.outcome = OutcomeAnswered
	r := &Reply{Status: http.StatusOK, Header: h, Length: int64(len(body)), CloseConnection: c.bodyLeft()}
	switch {
	case matches(field(c.ex.Header, "If-None-Match"), first(h, "Etag")):
		r.Status, r.Length = http.StatusNotModified, 0
	case c.ex.Method != http.MethodHead:
		r.Body = strings.NewReader(string(body))
	}
	return r, nil
}

// asked finds the document that a query asks for.
func (f *front) asked(ctx context.Context, tail, query string) (describe.Location, error) {
	name, value, _ := strings.Cut(query, "=")
	switch {
	case strings.HasPrefix(value, "~") && !strings.Contains(value, "&"):
		return f.Find(ctx, f.root(tail), value)
	case !f.own():
		return f.onNode(tail, query), nil
	case value == "" && !strings.EqualFold(name, "xsd"):
		return f.root(tail), nil
	}
	return "", describe.ErrNotFound
}

// undescribed answers where there is no document.
func (c *call) undescribed(err error) (*Reply, error) {
	var status *describe.StatusError
	switch {
	case c.ctx.Err() != nil:
		return nil, &goneError{context.Cause(c.ctx), err}
	case errors.Is(err, describe.ErrNotFound):
		return nil, refuse(statusNoRoute, soapcodec.CodeNoRoute)
	case errors.As(err, &status) && status.Status >= 300 && status.Status < 500:
		c.outcome, c.logged = OutcomeFailed, err
		code := status.Status
		if code < 400 { // a redirect of the source is no business of the caller
			code = http.StatusNotFound
		}
		return &Reply{Status: code, Header: c.stamped(status.Header.Clone()), CloseConnection: c.bodyLeft()}, nil
	}
	var sent *SendError
	if errors.As(err, &sent) {
		return nil, sent
	}
	return nil, &backendError{soapcodec.CodeBackendNotSOAP, err}
}

// matches compares entity tags weakly (RFC 9110 §13.1.2).
func matches(fields []string, etag string) bool {
	for _, v := range fields {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == etag || part == "*" {
				return true
			}
		}
	}
	return false
}

// mapper makes of the references of a document those that callers can follow.
type mapper struct {
	c    *call
	f    *front
	at   describe.Location
	base string
	all  bool // the addresses name no node: all are meant to be ours
}

// namesNode reports whether an address in a document is that of a node.
func (m *mapper) namesNode(doc []byte) bool {
	found := false
	_ = wsdl.References(doc, func(r wsdl.Ref) { // or the rewriting will tell
		if r.Use == wsdl.Address && !found {
			_, found = m.c.t.publicURL(m.c.route, r.Value, m.base)
		}
	})
	return found
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
	if !strings.Contains(r.Value, "://") && strings.HasPrefix(string(m.at), "/") {
		return "", false
	}
	to, ok := m.f.resolve(m.at, r.Value)
	if !ok {
		return "", false
	}
	kind := "xsd"
	if r.Use == wsdl.Import {
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

func (r *route) checksOperations() bool { return r.front != nil && r.front.opt.Check }

// checkOperation refuses what the description of the service does not have
// (CONFIG.md wsdl_check).
func (c *call) checkOperation() error {
	f := c.route.front
	if !c.route.checksOperations() || c.version == soapcodec.V0 { // nothing was read: an empty POST
		return nil
	}
	s, err := f.Service(c.ctx, f.root(c.route.tail(c.target.path)))
	if err != nil {
		if c.ctx.Err() != nil {
			return &goneError{context.Cause(c.ctx), err}
		}
		return &backendError{soapcodec.CodeBackendUnavailable, fmt.Errorf("proxy: the description of the service is not to be had: %w", err)}
	}
	if !s.Takes(c.child) {
		return &soapcodec.Fault{Code: soapcodec.CodeUnknownOperation, Reason: "The service has no operation for the message " + cut(c.child.Local, 100) + "."}
	}
	return nil
}

// described is the name that the description gives to the operation that the
// message asks for, if it is known.
func (c *call) described() string {
	if c.route == nil || c.route.front == nil || c.child.IsZero() {
		return ""
	}
	if s := c.route.front.Known(c.route.front.root(c.route.tail(c.target.path))); s != nil {
		if op, ok := s.Operation(c.child); ok {
			return op.Name
		}
	}
	return ""
}

// Described is what the description of a route's service says.
type Described struct {
	Route string
	// Root is where the description begins: a path on the backend, a file, or a URL.
	Root    string
	Service *describe.Service // nil if it is not to be had
	Err     error             // then: why
	// Unmapped are addresses that callers will be sent to although they do not
	// lead to this gateway.
	Unmapped []string
}

// Describe reads the descriptions of all routes that have one, in the order of
// the list. A prefix route, which may stand for many services, is asked at its
// own path.
func (t *Table) Describe(ctx context.Context) []Described {
	var all []Described
	for i := range t.opt.Routes {
		r := t.byName[t.opt.Routes[i].Name]
		if r.front == nil {
			continue
		}
		d := Described{Route: r.Name, Root: string(r.front.root(""))}
		if d.Service, d.Err = r.front.Service(ctx, r.front.root("")); d.Err == nil && !r.front.own() {
			for _, s := range d.Service.Services {
				for _, p := range s.Ports {
					if _, ok := t.publicURL(r, p.Address, ""); !ok {
						d.Unmapped = append(d.Unmapped, p.Address)
					}
				}
			}
		}
		all = append(all, d)
	}
	return all
}
