package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"soapway/soapcodec"
)

// maxHops is how many redirects one message follows (SPEC.md §3).
const maxHops = 5

var errRedirects = errors.New("proxy: the service redirects without end")

// follow goes where an answer points to, as long as it asks for the same message
// to be sent again to a node of the same backend, and returns the answer that it
// comes to. Only 307 and 308 ask for that (RFC 9110 §15.4.8, §15.4.9): any other
// redirect would turn the message into a GET, and one to another host or
// scheme would take credentials there, so these pass on; and so does one of a
// message of which nothing is left to be sent.
func (c *call) follow(req *Request, resp *Response, node int) (*Response, int, error) {
	b := c.route.backend
	if !b.Follow {
		return resp, node, nil
	}
	for hops := 0; c.msg.stream == nil; hops++ {
		to, i, ok := b.redirected(req, resp, node)
		if !ok {
			break
		}
		if hops == maxHops {
			c.tries.end()
			return nil, 0, &backendError{soapcodec.CodeBackendNotSOAP, errRedirects}
		}
		b.mark(node, true, "")
		if resp.Body != nil { // a short note is read, or its connection is lost
			_, _ = io.CopyN(io.Discard, resp.Body, maxNote)
		}
		place := c.tries.place
		c.tries.place = nil // kept for the next try
		c.tries.end()
		c.tries.place = place
		next := *req
		next.Path, next.Rest = to.EscapedPath(), ""
		next.Query, next.HasQuery = to.RawQuery, to.RawQuery != "" || to.ForceQuery
		if next.Path == "" {
			next.Path = "/"
		}
		var err error
		if resp, err = c.try(b, i, &next, time.Now()); err != nil {
			return nil, 0, c.blame(err)
		}
		req, node = &next, i
	}
	return resp, node, nil
}

// maxNote is how much of a redirect's own content is read for the sake of its
// connection.
const maxNote = 4 << 10

// redirected returns where an answer sends the message, and the node that is
// there. Of several nodes at one place it is the one that has answered, if that
// is among them.
func (b *backend) redirected(req *Request, resp *Response, node int) (to *url.URL, i int, ok bool) {
	if resp.Framed || resp.Status != http.StatusTemporaryRedirect && resp.Status != http.StatusPermanentRedirect {
		return nil, 0, false
	}
	places := resp.Header.Values("Location")
	if len(places) != 1 || places[0] == "" {
		return nil, 0, false
	}
	ref, err := url.Parse(places[0])
	if err != nil || ref.User != nil || ref.Opaque != "" {
		return nil, 0, false
	}
	u := b.urls[node]
	base := &url.URL{Scheme: u.scheme, Host: u.authority, Path: "/"}
	if p, err := url.Parse(req.at(u)); err == nil {
		base.Path, base.RawPath = p.Path, p.RawPath
	}
	to = base.ResolveReference(ref)
	if dots(to.EscapedPath()) || strings.ContainsFunc(to.RawQuery, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, 0, false // a target that we refuse ourselves
	}
	if u.at(to.Scheme, to.Host) {
		return to, node, true
	}
	for i, u := range b.urls {
		if !u.framed && u.at(to.Scheme, to.Host) {
			return to, i, true
		}
	}
	return nil, 0, false
}

// at is the path of a request at node u.
func (r *Request) at(u nodeURL) string {
	switch {
	case r.Path != "":
		return r.Path
	case r.Rest != "":
		return strings.TrimSuffix(u.path, "/") + r.Rest
	}
	return u.path
}
