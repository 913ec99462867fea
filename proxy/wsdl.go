package proxy

import (
	"context"
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

	"soapway/internal/field"
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
	asks   bool     // the route asks for an operation: it has to know the description
	wishes wishes
	plain  describe.Location // root of no tail, where that is at the backend
}

func compileFront(r *route) *front {
	if r.WSDL == nil || r.WSDL.File == "" && r.WSDL.URL == "" && r.backend.needsLength {
		return nil // a framed node has no description
	}
	f := &front{opt: *r.WSDL, route: r, hosts: slices.Clone(r.WSDL.Hosts), asks: !r.MatchNone && !r.Match.Operation.IsZero()}
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
	f.plain = f.onNode("", "wsdl")
	f.client = describe.NewClient(f.hosts)
	f.Front = describe.NewFront(opt)
	return f
}

// begin prepares what is to be learned. What a route asks for, and is here, is
// known from its first message on.
func (f *front) begin(wake chan<- struct{}) {
	f.wishes = wishes{roots: map[describe.Location]*wish{}, wake: wake}
	root := f.root("")
	if f.asks {
		_, _ = f.Recall(context.Background(), root) // or it is not here
	}
	f.wishes.want(root, f.asks)
	for _, at := range f.opt.Shelf.Roots(f.route.Name) {
		f.wishes.want(at, false)
	}
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
	if tail == "" {
		return f.plain
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
		return f.files.Fetch(at, etag)
	}
	return f.client.Fetch(ctx, at, etag, modified)
}

// fromBackend asks one node after the other, healthy ones first: asking twice
// does no harm.
func (f *front) fromBackend(ctx context.Context, at string, asks http.Header) (*describe.Copy, error) {
	b := f.route.backend
	header := field.Of(asks)
	b.addOwn(&header)
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
		body, err := f.uncoded(resp)
		if err != nil {
			return nil, err
		}
		return describe.Answer(resp.Status, resp.Header.HTTP(), body)
	}
	return nil, failed
}

// uncoded is the body of a node's answer without its content coding: none was
// asked for, which allows all (RFC 9110 §12.5.3).
func (f *front) uncoded(resp *Response) (io.ReadCloser, error) {
	if resp.Body == nil {
		return nil, nil
	}
	lim := f.route.replyLimits
	lim.MaxMessage = describe.MaxDocument + 1<<20 // package describe says first that it is too large
	coding := contentCoding(resp.Header)
	switch coding {
	case codingUnknown:
		resp.Body.Close()
		return nil, errType(resp.Header.Get("Content-Encoding"))
	case codingIdentity:
	default:
		resp.Header.Del("Content-Length")
	}
	return struct {
		io.Reader
		io.Closer
	}{newBody(resp.Body, coding, lim), resp.Body}, nil
}

// moved is a path below that of one node below that of another one.
func moved(p string, from, to nodeURL) string {
	if rest, ok := strings.CutPrefix(p, trimSlash(from.path)); ok && (rest == "" || rest[0] == '/') {
		return trimSlash(to.path) + rest
	}
	return p
}

// An answered document is what a query asks for: either there, or on its way.
type answered struct {
	at     describe.Location
	doc    *describe.Document
	coming *describe.Stream
	flat   bool // doc is to be put together with what it refers to
}

// document gets the document that a query asks for; with parts it need not be there
// as a whole.
func (f *front) document(ctx context.Context, tail, query string, parts bool) (a answered, err error) {
	a.at, a.flat, err = f.asked(ctx, tail, query)
	single := !f.own() && !a.flat && strings.EqualFold(query, "singleWsdl")
	switch {
	case err != nil:
	case parts && !a.flat && !single:
		a.doc, a.coming, err = f.Open(ctx, a.at)
	default:
		a.doc, err = f.Get(ctx, a.at)
	}
	if single && ctx.Err() == nil && (err != nil || a.doc.Kind != wsdl.WSDL11 && a.doc.Kind != wsdl.WSDL20) {
		// The backend does not know this query: most do not.
		a.at, a.flat = f.root(tail), true
		a.doc, err = f.Get(ctx, a.at)
	}
	return a, err
}

// asked finds the document that a query asks for.
func (f *front) asked(ctx context.Context, tail, query string) (at describe.Location, flat bool, err error) {
	name, value, _ := strings.Cut(query, "=")
	single := strings.EqualFold(name, "singleWsdl")
	switch {
	case strings.HasPrefix(value, "~") && !strings.Contains(value, "&"):
		at, err = f.Find(ctx, f.root(tail), value)
		return at, single, err
	case !f.own():
		return f.onNode(tail, query), false, nil
	case value == "" && !strings.EqualFold(name, "xsd"):
		return f.root(tail), single, nil
	}
	return "", false, describe.ErrNotFound
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
	// Unnamed says that nothing in the description has the name of the operation
	// that the route asks for.
	Unnamed bool
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
		d.Unnamed = d.Service != nil && r.front.asks && !d.Service.Names(r.Match.Operation, r.Match.AnyNamespace)
		all = append(all, d)
	}
	return all
}
