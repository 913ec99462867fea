// Package admin serves what the operator of one gateway looks at: a dashboard,
// health, readiness, metrics, profiles and the stored messages, on a listener of
// its own.
//
// # Paths
//
//	/             the dashboard; its files are below /ui/
//	/healthz      the process answers: 200 "ok"
//	/readyz       200 "ready", or 503 with the reasons, a line each
//	/metrics      Prometheus exposition
//	/debug/pprof  profiles of the Go runtime; heap?free=1 gives free memory back to the system first
//	/api/v1       the API: how the gateway is, what is stored, and what can be done
//
// All but the API's changes are GET and HEAD. Errors are problem documents
// (RFC 9457).
//
// # API
//
// openapi.yaml, which is served too, describes every path, and a test keeps it
// and the handlers together. The API sees the gateway through the interfaces
// [Queue] and [Gateway] only; [Local] serves it without a listener, for a store
// whose gateway is stopped. What it does not know it refuses: paths, methods,
// parameters, filters. Values of header fields whose names speak of credentials
// are never shown. Every change, and every attempt at one, is a line of the log that
// says what, by whom and whether it was done, and one of the [Audit] file with what
// it was like before and after. [Events] are told to whoever reads them (server-sent
// events); one who does not keep up is dropped. Self-tests are started through
// [SelfTest] and run apart from the gateway.
//
// # Dashboard
//
// Plain HTML, CSS and JavaScript, embedded as they stand in ui/. It uses nothing but
// the API. Text of messages becomes text of the page and nothing else: the policy
// of the page forbids every way to make markup or script of it.
//
// # Access
//
// The listener is meant for the loopback. With a token every path asks for it as a
// bearer token, but for /healthz and /readyz, since a load balancer holds no
// secrets, and for the files of the dashboard, which ask for it themselves; these
// tell nothing but a state. An address that sends wrong tokens is not heard for a
// while. Without a token a request must name an IP address or localhost as its
// host, so that no web page can reach the listener through a name that it has
// pointed at 127.0.0.1 (DNS rebinding), and a change must not look like what a form
// can send. With or without one a request must not come from a page of another
// origin.
//
// # Limits
//
// Heads are bounded to 16 KiB, bodies to 64 KiB, pages to 1000 messages, readers of
// events to 32, and every phase of a connection has a deadline; a profile's deadline
// is its own length and some time more, that of a change of many messages an hour.
package admin
