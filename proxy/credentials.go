package proxy

import "bytes"

// ownCredentials reports whether the credentials that an answer refuses are those
// that the gateway adds for every message, rather than the message's own affair
// (SPEC.md §4). Those of WS-Security are part of the message; that their namespace
// stands anywhere in it, and not in what the route adds, is taken for the caller's.
func (c *call) ownCredentials(a *answerFacts) bool {
	b := c.route.backend
	own := len(b.Headers) > 0 || b.Certificate
	if !a.security() {
		return own
	}
	security := []byte("secext")
	if bytes.Contains(c.route.Add, security) {
		return true
	}
	return own && !bytes.Contains(c.msg.data, security)
}
