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
// # The first time
//
// A document that is not here is fetched once, by a goroutine that [Front.Wait]
// waits for, for all who want it meanwhile. [Front.Get] waits for the whole;
// [Front.Open] hands out one of 64 KiB and more while it comes, token by token
// behind a wsdl.Reading, to any number of readers, each at its own pace: they
// share the octets, so a slow one holds nobody and costs no memory of its own. What
// goes out is octet for octet what is made of the kept document. It is kept only
// once all of it was good; if it turns bad, or is cut, readers get an error before
// the end of its root. When nobody wants it any more the fetch is given up.
//
// # Limits
//
// A document has [MaxDocument] octets at most. A service has at most
// [MaxDocuments] documents, with [MaxService] octets together, which refer to each other at most [MaxDepth] deep.
// What refers to itself is fetched once. A source has 10 s for a document, and a minute while somebody reads
// it; 2 s where an older copy will do.
package describe
