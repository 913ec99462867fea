package proxy

import (
	"bytes"
	"slices"
	"strings"
)

// ownCredentials reports whether what an answer refuses are the credentials of the
// gateway, or that it has none, rather than those of the caller, which are the
// message's own affair (SPEC.md §4). Those of WS-Security are part of the message;
// that their namespace stands anywhere in it is taken for them.
func (c *call) ownCredentials(a *answerFacts, meta *storedMeta) bool {
	signed := bytes.Contains(c.msg.data, []byte("secext"))
	if a.security() {
		return !signed
	}
	b := c.route.backend
	if len(b.Headers) > 0 || b.Certificate {
		return true
	}
	return !signed && !slices.ContainsFunc(meta.Header, func(f [2]octets) bool { return credential(string(f[0])) })
}

// credentialWords in the name of a field make it one that proves who the caller is.
// Authorization is kept only where a route says so, cookies never.
var credentialWords = []string{"auth", "token", "api-key", "apikey", "access-key", "secret", "passw", "credential", "session"}

func credential(field string) bool {
	field = strings.ToLower(field)
	return slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(field, w) })
}
