// Package admin serves what the operator of one gateway looks at: health,
// readiness, metrics and profiles, on a listener of its own.
//
// # Paths
//
//	/             names the others
//	/healthz      the process answers: 200 "ok"
//	/readyz       200 "ready", or 503 with the reasons, a line each
//	/metrics      Prometheus exposition
//	/debug/pprof  profiles of the Go runtime
//
// All are GET and HEAD. Errors are problem documents (RFC 9457).
//
// # Access
//
// The listener is meant for the loopback. With a token every path but /healthz
// and /readyz asks for it as a bearer token; those two stay open, because a
// load balancer holds no secrets and they tell nothing but a state. Without a
// token a request must name an IP address or localhost as its host, so that no
// web page can reach the listener through a name that it has pointed at
// 127.0.0.1 (DNS rebinding).
//
// # Limits
//
// Heads are bounded to 16 KiB, bodies are not read, and every phase of a
// connection has a deadline; a profile's deadline is its own length and some
// time more.
package admin
