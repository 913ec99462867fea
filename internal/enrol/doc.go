// Package enrol gives sites the certificates by which they know each other: a
// site with an [Authority], the hub, invites another by name, which joins with a
// one-time [Token] and gets a certificate of the hub's own authority in return.
//
// # Authority
//
// Everything is in one directory (sites.ca_dir), files that are written aside,
// synced and renamed: ca.crt and ca.key, server.pem, certificates and key,
// for the hub's listener, invites/ with one file for each open invitation, certificates/ with
// one for each certificate that was given. Commands and a running gateway use it
// at the same time; what one does the other sees with the next request.
//
// # Tokens
//
// A token has 128 random bits, which the hub keeps only as their SHA-256, and the
// SHA-256 of the certificate of the hub's authority, by which whoever joins knows
// that it speaks with the hub before it gives the secret away. It works once. The
// same key may present it again until it expires, and gets the same certificate:
// an answer that was lost on the way costs no second invitation.
//
// # Life of a certificate
//
// 90 days. [RenewFile] renews it, with a new key, by showing the old one; it is
// [Due] when a third is left. A certificate that is revoked, or that the directory
// does not know, is refused with the next request, also on connections that are
// open. What a site may do is not in the certificate: sites.accept says it.
//
// # Specifications
//
//   - RFC 5280: certificates. The authority signs with a path length of 0; a
//     site's name is the common name and the URI urn:soapway:site:NAME.
//   - RFC 2986: the request for a certificate. Only its key is looked at; names in
//     it are not believed.
//   - RFC 8446 by crypto/tls: the connections.
//
// There is no CRL and no OCSP: only the hub checks the certificates it has given.
package enrol
