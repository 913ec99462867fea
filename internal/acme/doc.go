// Package acme gets the certificates of a listener from an authority and renews
// them (RFC 8555), by certmagic on a cache and a configuration of its own for
// each [Manager]; certmagic's package defaults are neither read for what matters
// here nor changed. It knows nothing of listeners: the one that shows the
// certificates answers the challenge tls-alpn-01 by showing what
// [Manager.GetCertificate] gives, and any that serves HTTP in the clear answers
// http-01 by [KeyAuthorization].
//
// # State
//
// Account, keys and certificates are in Options.Dir, readable by the owner alone,
// in certmagic's layout. A folder that is lost costs a new account and new
// certificates, of which authorities give only so many a week. Gateways may
// share one: they take turns by lock files.
//
// # Lifecycle
//
// New starts nothing. Run begins with what the folder has, so that a restart
// shows its certificates at once and needs no authority; it asks for what is
// missing and tries again, after a minute at first and later less often, until it
// is cancelled. A renewal begins when a third of the life of a certificate is
// left, or when the authority says so (ARI). What certmagic has under way ends
// with Run's context and is not waited for.
//
// # Limits
//
// No wildcard names, which need a challenge by DNS. No OCSP. One challenge of a
// name at a time in a process.
//
// # Specifications
//
// RFC 8555 §8.3 (http-01), RFC 8737 (tls-alpn-01), RFC 8738 (IP addresses), RFC
// 9773 (ARI).
package acme
