package upstream

import (
	"strings"

	"soapway/internal/field"
)

// provesConnection reports whether a message has credentials by which a node may
// take all that comes later on its connection for the same caller's (NTLM, and
// Negotiate, which may be NTLM; RFC 4559). Connections are shared among callers,
// so such a one must carry no other message.
func provesConnection(h field.List) bool {
	for i := range h {
		if !h[i].Is("Authorization") {
			continue
		}
		scheme, _, _ := strings.Cut(strings.TrimSpace(h[i].Value), " ")
		if strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate") {
			return true
		}
	}
	return false
}
