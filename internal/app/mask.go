package app

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/redact"
	"soapway/proxy"
	"soapway/queue"
)

// masks say what of stored messages people must not see (CONFIG.md, `redact`).
type masks struct {
	routes map[string]routeMask
	others routeMask // of routes that the configuration does not have
}

// routeMask is what is hidden of the messages of a route.
type routeMask struct {
	*redact.Mask
	key  bool            // the order key is read from what is hidden
	keys map[string]bool // the fields, in lower case, in which callers of any route send their API keys
}

// field reports whether the value of a header field is hidden.
func (m routeMask) field(name string) bool {
	return redact.Field(name) || m.keys[strings.ToLower(name)]
}

// masksOf returns the masks of cfg. Messages of a route that is gone, and answers
// that wait to be sent on, have what any route hides hidden: nobody knows better.
func masksOf(cfg *config.Config) *masks {
	m := &masks{routes: make(map[string]routeMask, len(cfg.Routes))}
	var all []*redact.Mask
	keys := map[string]bool{}
	for i := range cfg.Routes {
		if a := cfg.Routes[i].Auth; a != nil && a.APIKey != nil {
			keys[strings.ToLower(a.APIKey.Header)] = true
		}
	}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		mask := routeMask{Mask: maskOf(r.Redact), keys: keys}
		mask.key = mask.field(r.OrderBy.HTTP)
		for _, step := range r.OrderBy.Path {
			mask.key = mask.key || mask.Reaches(redact.Name{Space: step.Space, Local: step.Local, AnySpace: step.AnySpace})
		}
		m.routes[r.Name] = mask
		all = append(all, mask.Mask)
	}
	m.others = routeMask{Mask: redact.Join(all...), keys: keys}
	m.others.key = m.others.Named()
	return m
}

func maskOf(names []config.QName) *redact.Mask {
	list := make([]redact.Name, len(names))
	for i, n := range names {
		list[i] = redact.Name{Space: n.Space, Local: n.Local, AnySpace: n.AnySpace}
	}
	return redact.New(list...)
}

func (m *masks) of(route string) routeMask {
	if mask, ok := m.routes[route]; ok {
		return mask
	}
	return m.others
}

// hiddenText stands for an order key that is hidden.
const hiddenText = "***"

// lane is the order key as it may be shown.
func (m routeMask) lane(key string) string {
	if m.key && key != "" {
		return hiddenText
	}
	return key
}

// errNotShown says why what is neither XML nor a harmless text is not shown.
var errNotShown = errors.New("it is not XML, so that what is to be hidden in it cannot be found")

// reply is an answer as it may be shown. What is hidden of the message is hidden
// there too.
func (m routeMask) reply(doc []byte, contentType string, msg *queue.Message) redact.Shown {
	s := m.Document(doc, contentType)
	switch {
	case s.Err == nil:
	case m.Plain(doc): // such as the error page of a server
		s = redact.Shown{XML: doc}
	case len(s.XML) == 0:
		s.Err = errNotShown
	}
	shown, n := m.quotes(msg).Document(s.XML)
	s.XML, s.Hidden = shown, s.Hidden+n
	return s
}

// quotes are the values of the message that are hidden. One that cannot be read has
// none: its envelope is not shown either, but for what came before the fault.
func (m routeMask) quotes(msg *queue.Message) *redact.Quotes {
	var body io.Reader = bytes.NewReader(msg.Body)
	if msg.Blob != nil {
		r, err := msg.Blob.Open()
		if err != nil {
			return new(redact.Quotes)
		}
		defer r.Close()
		body = &blobReader{r: r, most: mostShown}
	}
	q := m.Quotes(body, contentTypeOf(msg.Meta))
	fields, _ := proxy.StoredFields(msg.Meta)
	for _, f := range fields {
		if !m.field(f[0]) {
			continue
		}
		q.Add(f[1])
		if scheme, rest, found := strings.Cut(f[1], " "); found {
			q.Add(rest)
			if user, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && strings.EqualFold(scheme, "Basic") {
				_, password, _ := strings.Cut(string(user), ":")
				q.Add(password)
			}
		}
	}
	return q
}

// mostShown is how much of an envelope that is in no memory is shown.
const mostShown = 1 << 20

// envelope is the start of the body of a message as it may be shown. cut says that
// there is more.
func (m routeMask) envelope(msg *queue.Message, contentType string) (s redact.Shown, cut bool, err error) {
	if msg.Blob == nil {
		return m.Document(msg.Body, contentType), false, nil
	}
	var out bytes.Buffer
	in := &blobReader{most: mostShown}
	s.Hidden, s.Attachments, s.Err = in.mask(m.Mask, &out, msg.Blob, contentType)
	if in.failed != nil {
		return s, false, in.failed
	}
	if s.XML, cut = out.Bytes(), in.n == mostShown && msg.Blob.Size() > mostShown; cut {
		s.Err = nil // that it ends there is what cut says
	}
	return s, cut, nil
}

// blobReader reads a body of the store, and remembers why it could not.
type blobReader struct {
	r       io.Reader
	n, most int64 // read, and at most to be read
	failed  error
}

func (b *blobReader) Read(p []byte) (int, error) {
	if b.n >= b.most {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.most-b.n)])
	b.n += int64(n)
	if err != nil && err != io.EOF {
		b.failed = err
	}
	return n, err
}

// mask copies a body to w. The error is about its content, or is in b.failed too.
func (b *blobReader) mask(m *redact.Mask, w io.Writer, blob queue.Blob, contentType string) (hidden, attachments int, err error) {
	r, err := blob.Open()
	if err != nil {
		b.failed = err
		return 0, 0, err
	}
	b.r = r
	hidden, attachments, err = m.Copy(w, b, contentType)
	if e := r.Close(); e != nil && b.failed == nil {
		b.failed, err = e, e
	}
	return hidden, attachments, err
}

// contentTypeOf is the Content-Type that is kept with a message.
func contentTypeOf(meta []byte) string {
	fields, err := proxy.StoredFields(meta)
	if err != nil {
		return ""
	}
	for _, f := range fields {
		if strings.EqualFold(f[0], "Content-Type") {
			return f[1]
		}
	}
	return ""
}

// mask hides in out what must not be seen of message m.
func (m routeMask) mask(out *admin.Detail, msg *queue.Message) error {
	s, cut, err := m.envelope(msg, contentTypeOf(msg.Meta))
	if err != nil {
		return err
	}
	out.Envelope, out.EnvelopeCut, out.Attachments, out.Hidden = s.XML, cut, s.Attachments, s.Hidden
	if s.Err != nil {
		out.EnvelopeError = s.Err.Error()
	}
	if out.Reply == nil {
		return nil
	}
	r := m.reply(out.Reply, out.ReplyType, msg)
	out.Reply, out.Hidden = r.XML, out.Hidden+r.Hidden
	if r.Err != nil {
		out.ReplyError = r.Err.Error()
	}
	return nil
}
