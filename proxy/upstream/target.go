package upstream

import (
	"net/url"
	"strings"

	"soapway/proxy"
)

// base is a node's URL, cut into the pieces of a request target. Nothing is
// decoded: what the operator wrote is what the node gets.
type base struct {
	scheme, host string // host with port, as it goes into Host
	path         string // "" or with leading slash
	query        string
	hasQuery     bool
	user         *url.Userinfo
}

// newBase cuts raw, which HTTPOptions.validate has found to be a URL.
func newBase(raw string) (base, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return base{}, err
	}
	b := base{scheme: u.Scheme, host: u.Host, user: u.User}
	_, rest, _ := strings.Cut(raw, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		b.path, b.query, b.hasQuery = strings.Cut(rest[end:], "?")
	}
	return b, nil
}

// name is the URL without credentials and query.
func (b *base) name() string { return b.scheme + "://" + b.host + b.path }

// target joins the node's path and query with those of the request. A rest
// begins with a slash of its own, so that one slash at the end of the node's
// path gives way to it: http://node/ plus /a is /a, not //a.
func (b *base) target(req *proxy.Request) (path, query string, hasQuery bool) {
	if req.Path != "" {
		return req.Path, req.Query, req.HasQuery
	}
	path = b.path
	if req.Rest != "" {
		path = strings.TrimSuffix(path, "/") + req.Rest
	}
	if path == "" {
		path = "/"
	}
	switch {
	case b.query != "" && req.Query != "":
		return path, b.query + "&" + req.Query, true
	case req.Query != "":
		return path, req.Query, true
	}
	return path, b.query, b.hasQuery || req.HasQuery
}
