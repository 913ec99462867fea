package h2

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"soapway/internal/field"
	"soapway/internal/h1"
)

// fieldCost is what the line of a field has in HTTP/1.1 beside name and value.
const fieldCost = len(": \r\n")

// A head is the one that a connection is reading: of a request, or of trailers,
// of which nothing is kept.
type head struct {
	open   bool      // it has begun and not ended
	since  time.Time // when it began, if it was not complete at once
	id     uint32
	end    bool    // the stream ends with it
	of     *stream // of trailers
	late   bool    // of trailers of a stream that is over
	block  int     // octets of it that have come
	size   int     // octets of its fields
	large  bool    // too many of them
	broken bool    // malformed (RFC 9113 §8.1.1)
	status int     // with which it is refused; 0 is none

	regular                               bool // fields that are not pseudo fields have begun
	method, target, authority, scheme     string
	seenMethod, seenTarget, seenAuthority bool
	host                                  string
	hosts                                 int
	lengths                               []string
	cookie                                int      // its index in fields, -1 if there is none
	crumbs                                []string // its parts, if there are several
	expect                                bool
	fields                                field.List
}

// begin makes h ready for the next head.
func (h *head) begin(id uint32, end bool, of *stream) {
	*h = head{open: true, id: id, end: end, of: of, cookie: -1, lengths: h.lengths[:0]}
	if of == nil {
		h.fields = make(field.List, 0, 12)
	}
}

// add takes in a field, in the order of the head.
func (h *head) add(f hpack.HeaderField) {
	name, value := f.Name, f.Value
	h.size += len(name) + len(value) + fieldCost
	switch {
	case name == "" || !validValue(value):
		h.broken = true
	case name[0] == ':':
		h.broken = h.broken || h.regular || h.of != nil || !h.pseudo(name, value)
	default:
		h.regular = true
		canonical := canonicalName(name)
		if canonical == "" {
			h.broken = true
			return
		}
		if h.of == nil {
			h.field(name, canonical, value)
		}
	}
}

// pseudo takes in a pseudo field (RFC 9113 §8.3.1) and reports whether it may
// stand there.
func (h *head) pseudo(name, value string) bool {
	at, seen := (*string)(nil), (*bool)(nil)
	switch name {
	case ":method":
		at, seen = &h.method, &h.seenMethod
	case ":path":
		at, seen = &h.target, &h.seenTarget
	case ":authority":
		at, seen = &h.authority, &h.seenAuthority
	case ":scheme":
		if h.scheme != "" || value != "http" && value != "https" {
			return false
		}
		h.scheme = value
		return true
	default:
		return false
	}
	if *seen {
		return false
	}
	*at, *seen = value, true
	return true
}

// field takes in any other field.
func (h *head) field(name, canonical, value string) {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		h.refuse(http.StatusBadRequest)
		return
	case "te":
		if value != "trailers" {
			h.refuse(http.StatusBadRequest)
		}
	case "trailer":
		return
	case "expect":
		if !strings.EqualFold(value, "100-continue") {
			h.refuse(http.StatusExpectationFailed)
		}
		h.expect = true
		return
	case "host":
		h.host = value
		h.hosts++
		return
	case "content-length":
		h.lengths = append(h.lengths, value)
	case "cookie": // one field again (RFC 9113 §8.2.3)
		if h.cookie >= 0 {
			if len(h.crumbs) == 0 {
				h.crumbs = append(h.crumbs, h.fields[h.cookie].Value)
			}
			h.crumbs = append(h.crumbs, value)
			return
		}
		h.cookie = len(h.fields)
	}
	h.fields = append(h.fields, field.Field{Name: canonical, Value: value})
}

func (h *head) refuse(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// request fills r with a complete head. It reports false for one that is
// malformed. One that is refused has a status instead.
func (h *head) request(r *Request) bool {
	if h.large {
		h.status = http.StatusRequestHeaderFieldsTooLarge
		return true
	}
	connect := h.method == http.MethodConnect
	switch {
	case h.broken, h.method == "",
		!connect && (h.target == "" || h.scheme == ""),
		connect && (h.seenTarget || h.scheme != ""),
		strings.Contains(h.authority, "@"):
		return false
	case h.hosts > 1, h.hosts == 1 && h.seenAuthority && h.host != h.authority:
		h.refuse(http.StatusBadRequest)
	}
	if len(h.crumbs) > 0 {
		h.fields[h.cookie].Value = strings.Join(h.crumbs, "; ")
	}
	host := h.authority
	if !h.seenAuthority {
		host = h.host
	}
	length, err := h1.ContentLength(h.lengths)
	if err == nil {
		err = h1.CheckRequest(h.method, h.target, host)
	}
	if refusal, ok := errors.AsType[*h1.Refusal](err); ok {
		h.refuse(refusal.Status)
	}
	if !connect && h.target[0] != '/' && h.target != "*" || h.end && length > 0 {
		h.refuse(http.StatusBadRequest)
	}
	r.Method, r.Target, r.Host, r.Header, r.Length = h.method, h.target, host, h.fields, length
	return true
}
