package proxy

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// soapActionKey is how net/http spells the field; soapActionName is how the
// SOAP world does and how it is sent on.
const (
	soapActionKey  = "Soapaction"
	soapActionName = "SOAPAction"
)

// canonical is the name under which a field is looked up and compared. The one
// name that is not sent in that form costs no allocation.
func canonical(name string) string {
	if name == soapActionName {
		return soapActionKey
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// messageID is the field that carries Exchange.ID to the backend, and to the
// caller with an answer that the gateway made.
const messageID = "Gateway-Message-Id"

// hopByHop reports whether a field, by its canonical name, is for one
// connection only (RFC 9110 §7.6.1, and its predecessors), or is one that
// every hop writes itself, also where only CGI takes it for that field.
func hopByHop(key string) bool {
	if strings.IndexByte(key, '_') >= 0 {
		key = textproto.CanonicalMIMEHeaderKey(hyphened(key))
	}
	switch key {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Content-Length", "Host":
		return true
	}
	return false
}

// Protected reports whether a field, by its canonical name, is kept even when
// Connection names it. RFC 9110 §7.6.1 forbids a sender to name fields that are
// meant for all recipients; one that does wants the next one to miss them.
func Protected(key string) bool {
	switch key {
	case soapActionKey, "Authorization", "Cookie", "Set-Cookie", "Www-Authenticate", "Cache-Control", "Date",
		"Mime-Version", "Traceparent", "Tracestate", "Location", "Retry-After", "Allow", "Via", "Accept", "Accept-Encoding":
		return true
	}
	return strings.HasPrefix(key, "Content-")
}

// named returns the canonical names of the fields that Connection lists.
func named(h field.List) []string {
	var names []string
	for i := range h {
		if !h[i].Is("Connection") {
			continue
		}
		for part := range strings.SplitSeq(h[i].Value, ",") {
			if part = strings.TrimSpace(part); part != "" && isToken(part) {
				names = append(names, textproto.CanonicalMIMEHeaderKey(part))
			}
		}
	}
	return names
}

// headBytes is what limits.header_bytes counts: the octets of the head as
// HTTP/1.1 writes it. A framed request has none.
func headBytes(ex *Exchange) int64 {
	if ex.Framed {
		return 0
	}
	n := len(ex.Method) + len(ex.Target) + len("  HTTP/1.1\r\n\r\n")
	if ex.Host != "" { // is not among the fields
		n += len("Host: \r\n") + len(ex.Host)
	}
	for i := range ex.Header {
		n += len(ex.Header[i].Name) + len(ex.Header[i].Value) + len(": \r\n")
	}
	return int64(n)
}

// forwarding is what the fields towards a node depend on.
type forwarding struct {
	table   *Table
	ex      *Exchange
	trusted bool
	host    string // what the caller asked for
	scheme  string // http or https, "" for framed
}

// requestHeader makes the end-to-end fields of a request (SPEC.md §3.8), but for
// the id and the backend's own. With decoded, the content coding was removed.
func (f *forwarding) requestHeader(decoded bool) field.List {
	in := f.ex.Header
	out := make(field.List, 0, len(in)+ownFields)
	drop := named(in)
	accepts := false
	for _, line := range in {
		key := canonical(line.Name)
		switch {
		case hopByHop(key), key == "Expect":
			continue
		case len(drop) > 0 && slices.Contains(drop, key) && !Protected(key):
			continue
		case !f.trusted && forProxies(key):
			continue
		case key == "Via", forProxies(key):
			line.Name = key // so that what is extended below is one field
		case key == soapActionKey:
			line.Name = soapActionName
		case key == "Accept-Encoding":
			if accepts {
				continue
			}
			accepts = true
			line = field.Field{Name: key, Value: acceptable(in.Values(key))}
		case decoded && (key == "Content-Encoding" || digest(key)):
			continue
		}
		out = append(out, line)
	}
	f.addTrace(&out)
	return out
}

// ownFields is how many fields the gateway adds to those of a caller at most,
// but for the backend's own.
const ownFields = 8

// forProxies reports whether a field, by its canonical name, is one that only a
// trusted proxy may set.
func forProxies(key string) bool {
	if strings.IndexByte(key, '_') >= 0 {
		key = textproto.CanonicalMIMEHeaderKey(hyphened(key))
	}
	return key == "Forwarded" || strings.HasPrefix(key, "X-Forwarded-") || strings.HasPrefix(key, "Gateway-")
}

// hyphened writes a field's name as CGI understands it, to which underscores
// and hyphens are the same (RFC 3875 §4.1.18): what PHP or WSGI behind the
// gateway takes for a field must be treated as that field.
func hyphened(name string) string { return strings.ReplaceAll(name, "_", "-") }

// addOwn sets the backend's own fields in place of the caller's.
func (b *backend) addOwn(h *field.List) {
	for k, v := range b.Headers {
		h.DelFunc(func(f *field.Field) bool {
			return len(f.Name) == len(k) && strings.EqualFold(hyphened(f.Name), hyphened(k))
		})
		h.Add(k, v)
	}
}

// digest reports whether a field has a digest of the content's octets, which is
// wrong once they change.
func digest(key string) bool {
	return key == "Content-Digest" || key == "Content-Md5" || key == "Digest"
}

// addTrace appends Via and extends or makes the X-Forwarded fields and
// Forwarded (RFC 7239).
func (f *forwarding) addTrace(out *field.List) {
	set := out.Add
	if f.trusted {
		set = out.Extend // there may be such fields
	}
	f.addVia(out)
	var buf [192]byte
	fwd := append(buf[:0], "for="...)
	client := span{}
	if a := f.ex.Client.Addr(); a.IsValid() {
		a = a.Unmap().WithZone("")
		if a.Is6() {
			fwd = append(fwd, `"[`...)
		}
		client.start = len(fwd)
		fwd = a.AppendTo(fwd)
		client.end = len(fwd)
		if a.Is6() {
			fwd = append(fwd, `]"`...)
		}
	} else {
		fwd = append(fwd, "unknown"...)
	}
	if f.host != "" {
		fwd = append(append(fwd, ";host="...), quoteToken(f.host)...)
	}
	if f.scheme != "" {
		fwd = append(append(fwd, ";proto="...), f.scheme...)
	}
	text := string(fwd)
	if client.end > 0 {
		set("X-Forwarded-For", text[client.start:client.end])
	}
	if f.host != "" && !(f.trusted && out.Has("X-Forwarded-Host")) {
		out.Add("X-Forwarded-Host", f.host)
	}
	if f.scheme != "" && !(f.trusted && out.Has("X-Forwarded-Proto")) {
		out.Add("X-Forwarded-Proto", f.scheme)
	}
	set("Forwarded", text)
}

// span is a part of a text.
type span struct{ start, end int }

// addVia appends to Via, or makes it.
func (f *forwarding) addVia(h *field.List) { h.Extend("Via", f.table.via) }

// quoteToken writes s as a token if it is one, else as a quoted-string.
func quoteToken(s string) string {
	if isToken(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// acceptable keeps of an Accept-Encoding field the codings that we can decode,
// with their weights, so that a reply can be checked. If nothing is left the
// caller takes no coding that we know: "identity".
func acceptable(values []string) string {
	var keep []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			part = strings.TrimSpace(part)
			name, _, _ := strings.Cut(part, ";")
			switch c := codingOf(strings.TrimSpace(name)); c {
			case codingUnknown:
			case codingIdentity:
				if name != "" {
					keep = append(keep, part)
				}
			default:
				keep = append(keep, part)
			}
		}
	}
	if len(keep) == 0 {
		return "identity"
	}
	return strings.Join(keep, ", ")
}

// replyHeader makes the end-to-end fields of a reply from those of a response.
func (f *forwarding) replyHeader(in field.List) field.List {
	out := make(field.List, 0, len(in)+2)
	drop := named(in)
	for _, line := range in {
		key := canonical(line.Name)
		if hopByHop(key) || len(drop) > 0 && slices.Contains(drop, key) && !Protected(key) {
			continue
		}
		if key == "Via" {
			line.Name = key
		}
		out = append(out, line)
	}
	f.addVia(&out)
	return out
}

// setType sets Content-Type.
func setType(h *field.List, value string) { h.Set("Content-Type", value) }

// framedHeader makes the fields of a message that came without any (SPEC.md §3,
// "Framed → HTTP").
func framedHeader(out *field.List, v soapcodec.Version, action string) {
	ct := v.MediaType() + "; charset=utf-8"
	switch v {
	case soapcodec.V11:
		out.Set(soapActionName, `"`+headerSafe(action)+`"`)
	case soapcodec.V12:
		if action != "" {
			ct += `; action="` + headerSafe(action) + `"`
		}
	}
	out.Set("Content-Type", ct)
}

// headerSafe makes an action fit between double quotes in a field: an action is
// a URI, so what may not stand there is percent-encoded and no message can
// inject a field.
func headerSafe(s string) string {
	ok := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '\\' }
	for i := range len(s) {
		if ok(s[i]) {
			continue
		}
		b := make([]byte, 0, len(s)+16)
		for i := range len(s) {
			if ok(s[i]) {
				b = append(b, s[i])
				continue
			}
			b = append(b, '%')
			if s[i] < 0x10 {
				b = append(b, '0')
			}
			b = append(b, strings.ToUpper(strconv.FormatUint(uint64(s[i]), 16))...)
		}
		return string(b)
	}
	return s
}
