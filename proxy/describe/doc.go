// Package describe keeps the descriptions of the services behind a route: WSDL
// and the schemas that belong to it. It fetches them, remembers them in memory
// and on disk, asks again whether they have changed, and hands out what it has
// when their source cannot be reached. What a document means is the business of
// package wsdl; which place a reference leads to, and where clients find a
// document, that of package proxy.
//
// # Sources
//
// A [Location] is a path on the backend, a file beside the one that a route
// names, or a URL elsewhere. Those on the backend are fetched by the function
// that proxy gives, through the nodes of the backend like any message. [Files]
// and [Client] fetch the others, and no more than they were told: no path leaves
// the folder, and no host is asked that the configuration does not name, not
// by a redirect either. A host that is given by its name is not followed to an
// address of this machine or of its link, where cloud providers keep secrets
// (169.254.169.254), whatever DNS says.
//
// # Limits
//
// A document has [MaxDocument] octets at most. A service has at most
// [MaxDocuments] documents, with [MaxService] octets together, which refer to each other at most [MaxDepth] deep.
// What refers to itself is fetched once.
package describe
