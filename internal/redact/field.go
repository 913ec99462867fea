package redact

import (
	"slices"
	"strings"
)

// secretWords in the name of a field make its value one that is never shown:
// Authorization and its kin, cookies, and what applications invent.
var secretWords = []string{"auth", "cookie", "token", "secret", "passw", "credential", "api-key", "apikey", "access-key", "session", "signature"}

// Field reports whether the value of a header field of this name is hidden.
func Field(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(name, w) })
}
