package casetest

// notYet names the cases whose part is not built yet, and which part that is.
// It shrinks with each topic. A case that stands neither here nor in
// caseChecks fails.
var notYet = map[string]string{
	"09": "multipart/related (MTOM/XOP and SwA): the root part by start",
	"10": "multipart/related (MTOM/XOP and SwA): cid references",
	"11": "multipart/related (MTOM/XOP and SwA): missing start and start-info",
	"38": "empty_post: pass and session affinity come with the HTTP engine",
	"45": "messaging: WS-Addressing replies and reply-to",
	"46": "messaging: wsa_to rewriting",
	"48": "the WSDL front: fetching, rewriting, caching",
}

// notYetKeys names configuration that cases use in a part of their checks and
// that is still refused as "not available yet". A key that has become
// available and still stands here fails its case.
var notYetKeys = map[string]string{
	"redirects: follow": "case 44 is asserted for redirects: pass; following comes with the next topic of the proxy",
}
