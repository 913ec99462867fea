package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

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

// field returns the values of a field by its canonical name, whatever its
// spelling in h.
func field(h http.Header, canonical string) []string {
	if v, ok := h[canonical]; ok {
		return v
	}
	for k, v := range h {
		if len(k) == len(canonical) && strings.EqualFold(k, canonical) {
			return v
		}
	}
	return nil
}

func first(h http.Header, canonical string) string {
	if v := field(h, canonical); len(v) > 0 {
		return v[0]
	}
	return ""
}

// hopByHop reports whether a field, by its canonical name, is for one
// connection only (RFC 9110 §7.6.1, and its predecessors), or is one that
// every hop writes itself.
func hopByHop(key string) bool {
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
func named(h http.Header) []string {
	var names []string
	for _, v := range field(h, "Connection") {
		for part := range strings.SplitSeq(v, ",") {
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
	for k, vv := range ex.Header {
		for _, v := range vv {
			n += len(k) + len(v) + len(": \r\n")
		}
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
func (f *forwarding) requestHeader(decoded bool) http.Header {
	in := f.ex.Header
	out := make(http.Header, len(in)+8)
	drop := named(in)
	for k, vv := range in {
		key := canonical(k)
		switch {
		case hopByHop(key), key == "Expect":
			continue
		case slices.Contains(drop, key) && !Protected(key):
			continue
		case !f.trusted && forProxies(key):
			continue
		case key == "Via", forProxies(key):
			k = key // so that what is extended below is one field
		case key == soapActionKey:
			k = soapActionName
		case key == "Accept-Encoding":
			out[key] = []string{acceptable(vv)}
			continue
		case decoded && (key == "Content-Encoding" || digest(key)):
			continue
		}
		add(out, k, vv)
	}
	f.addTrace(out)
	return out
}

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
func (b *backend) addOwn(h http.Header) {
	for k, v := range b.Headers {
		for old := range h {
			if len(old) == len(k) && strings.EqualFold(hyphened(old), hyphened(k)) {
				delete(h, old)
			}
		}
		h[k] = []string{v}
	}
}

// digest reports whether a field has a digest of the content's octets, which is
// wrong once they change.
func digest(key string) bool {
	return key == "Content-Digest" || key == "Content-Md5" || key == "Digest"
}

// addTrace appends Via and extends or makes the X-Forwarded fields and
// Forwarded (RFC 7239). Every message pays for it, so what it adds shares few
// allocations; nobody changes the values of a field in place.
func (f *forwarding) addTrace(out http.Header) {
	if out["Via"] == nil {
		out["Via"] = f.table.viaField
	} else {
		appendTo(out, "Via", f.table.via)
	}
	own := make([]string, 0, 3) // values of fields that have one
	set := func(key, element string) {
		if out[key] != nil {
			appendTo(out, key, element)
			return
		}
		own = append(own, element)
		out[key] = own[len(own)-1 : len(own) : len(own)]
	}

	var buf [192]byte
	fwd := append(buf[:0], "for="...)
	if a := f.ex.Client.Addr(); a.IsValid() {
		a = a.Unmap().WithZone("")
		if a.Is6() {
			fwd = append(fwd, `"[`...)
		}
		start := len(fwd)
		fwd = a.AppendTo(fwd)
		client := string(fwd[start:])
		if a.Is6() {
			fwd = append(fwd, `]"`...)
		}
		set("X-Forwarded-For", client)
	} else {
		fwd = append(fwd, "unknown"...)
	}
	if f.host != "" {
		if _, ok := out["X-Forwarded-Host"]; !ok {
			set("X-Forwarded-Host", f.host)
		}
		fwd = append(append(fwd, ";host="...), quoteToken(f.host)...)
	}
	if f.scheme != "" {
		if _, ok := out["X-Forwarded-Proto"]; !ok {
			out["X-Forwarded-Proto"] = schemeFields[f.scheme]
		}
		fwd = append(append(fwd, ";proto="...), f.scheme...)
	}
	set("Forwarded", string(fwd))
}

// schemeFields are the values of X-Forwarded-Proto.
var schemeFields = map[string][]string{"http": {"http"}, "https": {"https"}}

// add shares the values with the field they came in, which nobody changes: an
// append to them copies.
func add(h http.Header, key string, values []string) {
	if old, ok := h[key]; ok {
		values = append(old, values...)
	}
	h[key] = values[:len(values):len(values)]
}

// appendTo adds an element to a list field, on one line.
func appendTo(h http.Header, key, element string) {
	old := h[key]
	switch len(old) {
	case 0:
		h[key] = []string{element}
	case 1:
		if old[0] == "" {
			h[key] = []string{element}
			return
		}
		h[key] = []string{old[0] + ", " + element}
	default:
		h[key] = []string{strings.Join(old, ", ") + ", " + element}
	}
}

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
func (f *forwarding) replyHeader(in http.Header) http.Header {
	out := make(http.Header, len(in)+1)
	drop := named(in)
	for k, vv := range in {
		key := canonical(k)
		if hopByHop(key) || slices.Contains(drop, key) && !Protected(key) {
			continue
		}
		if key == "Via" {
			k = key
		}
		add(out, k, vv)
	}
	if out["Via"] == nil {
		out["Via"] = f.table.viaField
	} else {
		appendTo(out, "Via", f.table.via)
	}
	return out
}

// setType sets Content-Type, whatever the spelling it has in h.
func setType(h http.Header, value string) {
	for k := range h {
		if k != "Content-Type" && strings.EqualFold(k, "Content-Type") {
			delete(h, k)
		}
	}
	h["Content-Type"] = []string{value}
}

// framedHeader makes the fields of a message that came without any (SPEC.md §3,
// "Framed → HTTP").
func framedHeader(out http.Header, v soapcodec.Version, action string) {
	ct := v.MediaType() + "; charset=utf-8"
	switch v {
	case soapcodec.V11:
		out[soapActionName] = []string{`"` + headerSafe(action) + `"`}
	case soapcodec.V12:
		if action != "" {
			ct += `; action="` + headerSafe(action) + `"`
		}
	}
	out["Content-Type"] = []string{ct}
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
