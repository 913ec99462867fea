package h2

import (
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Names of fields that are common here, as they are spelled in HTTP/2 and in
// HTTP/1.1.
var (
	canonicals = map[string]string{}
	lowers     = map[string]string{}
)

func init() {
	for _, name := range []string{
		"accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "cache-control",
		"content-encoding", "content-id", "content-language", "content-length", "content-location",
		"content-transfer-encoding", "content-type", "cookie", "date", "etag", "expect", "expires", "forwarded", "from",
		"if-match", "if-modified-since", "if-none-match", "last-modified", "location", "max-forwards", "mime-version",
		"origin", "pragma", "proxy-authorization", "referer", "retry-after", "server", "set-cookie", "soapaction",
		"strict-transport-security", "te", "traceparent", "tracestate", "user-agent", "vary", "via", "warning",
		"www-authenticate", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id",
	} {
		c := textproto.CanonicalMIMEHeaderKey(name)
		canonicals[name], lowers[c] = c, name
	}
}

// canonicalName spells the name of a field as net/textproto does; "" is none
// (RFC 9113 §8.2.1).
func canonicalName(name string) string {
	if c, ok := canonicals[name]; ok {
		return c
	}
	if !httpguts.ValidHeaderFieldName(name) || strings.ContainsFunc(name, isUpper) {
		return ""
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// lowerName spells the name of a field as HTTP/2 does; "" is none.
func lowerName(name string) string {
	if l, ok := lowers[name]; ok {
		return l
	}
	if !httpguts.ValidHeaderFieldName(name) {
		return ""
	}
	return strings.ToLower(name)
}

func isUpper(r rune) bool { return 'A' <= r && r <= 'Z' }

// validValue reports whether v may be the value of a field (RFC 9113 §8.2.1).
func validValue(v string) bool {
	if v == "" {
		return true
	}
	return httpguts.ValidHeaderFieldValue(v) && !isBlank(v[0]) && !isBlank(v[len(v)-1])
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// ownField reports whether the name is that of a field which belongs to a
// connection (RFC 9113 §8.2.2, RFC 9110 §7.6.1) or to the framing.
func ownField(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length":
		return true
	}
	return false
}
