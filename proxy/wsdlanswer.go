package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"soapway/internal/field"
	"soapway/proxy/describe"
	"soapway/soapcodec"
)

// describe answers a request for a description.
func (c *call) describe() (*Reply, error) {
	f := c.route.front
	if err := c.within(c.route); err != nil {
		return nil, err
	}
	tail := c.route.tail(c.target.path)
	a, err := f.document(c.ctx, tail, c.target.query, c.takesParts())
	if err != nil {
		return c.undescribed(err)
	}
	m := mapper{c: c, f: f, at: a.at, base: c.publicBase(), flat: a.flat}
	if a.coming != nil {
		return c.describeComing(a, &m), nil
	}
	var body pieces
	var tag string
	if a.flat {
		body, tag, err = m.flatten(a.doc)
	} else {
		body.list, tag = a.doc.Rewrite(m.of(a.doc).public)
	}
	if err != nil {
		return nil, &backendError{soapcodec.CodeBackendNotSOAP, err}
	}
	h := c.stamped(field.List{
		{Name: "Content-Type", Value: a.doc.Type},
		{Name: "Etag", Value: `"` + tag + `"`},
		{Name: "Cache-Control", Value: "no-cache"},
	})
	c.outcome = OutcomeAnswered
	c.learns(a.at)
	r := &Reply{Status: http.StatusOK, Header: h, Length: body.length(), CloseConnection: c.bodyLeft()}
	switch {
	case matches(c.ex.Header.Values("If-None-Match"), h.Get("Etag")):
		r.Status, r.Length = http.StatusNotModified, 0
	case c.ex.Method != http.MethodHead:
		r.Body = &body
	}
	return r, nil
}

// takesParts reports whether the document may go to the caller while it comes from
// its source. HEAD and If-None-Match ask for what is made of the whole; and in a
// description that is not the backend's it depends on all addresses whether one is
// meant to be ours (mapper.all).
func (c *call) takesParts() bool {
	return c.ex.Method == http.MethodGet && !c.route.front.own() && !c.ex.Header.Has("If-None-Match")
}

// describeComing answers with a document that is on its way. Its length and its tag are not
// known yet. If it turns bad the caller's connection is cut (SPEC.md §3.5).
func (c *call) describeComing(a answered, m *mapper) *Reply {
	a.coming.Rewrite(m.public)
	h := c.stamped(field.List{
		{Name: "Content-Type", Value: a.coming.Type()},
		{Name: "Cache-Control", Value: "no-cache"},
	})
	c.outcome = OutcomeAnswered
	return &Reply{
		Status: http.StatusOK, Header: h, Length: -1, CloseConnection: c.bodyLeft(),
		Body: &replyBody{call: c, r: &comingBody{c, a}}, Close: a.coming.Close,
	}
}

// comingBody is a document that is on its way. Once the caller has it, and so
// the gateway too, its operations are learned.
type comingBody struct {
	call *call
	answered
}

func (b *comingBody) Read(p []byte) (int, error) {
	n, err := b.coming.Read(p)
	if err == io.EOF {
		b.call.learns(b.at)
	}
	return n, err
}

// learns notes that the caller has got the document there: if it is the root of a
// description, he will use its operations.
func (c *call) learns(at describe.Location) {
	f := c.route.front
	if root := f.root(c.route.tail(c.target.path)); at == root {
		if s := f.Known(root); s == nil || s.Old() {
			f.wishes.found(root)
		}
	}
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
		return &Reply{Status: code, Header: c.stamped(field.Of(status.Header)), CloseConnection: c.bodyLeft()}, nil
	}
	var sent *SendError
	var broken *bodyError
	switch {
	case errors.As(err, &broken):
		return nil, c.broken(broken)
	case errors.As(err, &sent):
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
