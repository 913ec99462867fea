package upstream

import (
	"net/http"
	"strings"
)

// provesConnection reports whether a message has credentials by which a node may
// take all that comes later on its connection for the same caller's (NTLM, and
// Negotiate, which may be NTLM; RFC 4559). Connections are shared among callers,
// so such a one must carry no other message.
func provesConnection(h http.Header) bool {
	for _, v := range h["Authorization"] {
		scheme, _, _ := strings.Cut(strings.TrimSpace(v), " ")
		if strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate") {
			return true
		}
	}
	return false
}
