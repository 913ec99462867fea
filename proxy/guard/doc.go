// Package guard decides who may send to a route and how much: networks, rates,
// exchanges at once, and the ways in which callers prove who they are.
//
// A [Guard] belongs to one route and is asked twice. [Guard.Enter] comes before
// the body is read and looks at the address and the fields; what it refuses
// costs no more than a head. [Guard.Username] comes once the header of the
// envelope is known, where WS-Security user names are accepted.
//
// Several ways of proof are alternatives: one that holds is enough, and one that
// is offered and does not hold is a refusal. A client certificate is not offered
// to a route, it belongs to the connection: one that is not among the [Subjects]
// is as good as none. Where nothing else would do, the refusal is 403. What is compared is compared as
// digests under a random key, so that time tells nothing about it; bcrypt, which
// is slow on purpose, runs for one password of a route at a time and once for
// each that is right.
//
// # Specifications
//
//   - RFC 9110 §11: authentication, WWW-Authenticate
//   - RFC 7617: Basic, credentials are UTF-8
//   - RFC 6750 §2.1, §3: Bearer, in the Authorization field only
//   - RFC 6585 §4: 429 Too Many Requests
//   - RFC 4514 §2, §3: names of subjects; values are compared octet for octet
//   - WS-Security UsernameToken Profile 1.1 §3: PasswordText and PasswordDigest
//
// Deviations: the realm is always "gateway". A UsernameToken without a password,
// and one from which a key is derived, proves nothing here and is refused.
package guard
