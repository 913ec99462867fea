// Package admin serves what the operator of one gateway looks at: health,
// readiness, metrics, profiles and the stored messages, on a listener of its own.
//
// # Paths
//
//	/             names the others
//	/healthz      the process answers: 200 "ok"
//	/readyz       200 "ready", or 503 with the reasons, a line each
//	/metrics      Prometheus exposition
//	/debug/pprof  profiles of the Go runtime
//	/api/v1       the API: what is stored, and what can be done with it
//
// All but the API's changes are GET and HEAD. Errors are problem documents
// (RFC 9457).
//
// # API
//
// openapi.yaml, which is served too, describes every path, and a test keeps it
// and the handlers together. The API sees the gateway through the interface
// [Queue] only; [Local] serves it without a listener, for a store whose gateway
// is stopped. What it does not know it refuses: paths, methods, parameters,
// filters. Values of header fields whose names speak of credentials are never
// shown. Every change, and every attempt at one, is a line of the log that says
// what, by whom and whether it was done.
//
// # Access
//
// The listener is meant for the loopback. With a token every path but /healthz
// and /readyz asks for it as a bearer token; those two stay open, because a
// load balancer holds no secrets and they tell nothing but a state. Without a
// token a request must name an IP address or localhost as its host, so that no
// web page can reach the listener through a name that it has pointed at
// 127.0.0.1 (DNS rebinding), and a change must not come from a page of another
// origin, nor look like what a form on such a page can send.
//
// # Limits
//
// Heads are bounded to 16 KiB, bodies to 64 KiB, pages to 1000 messages, and
// every phase of a connection has a deadline; a profile's deadline is its own
// length and some time more, that of a change of many messages an hour.
package admin
