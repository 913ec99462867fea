// Package telemetry owns what the process tells about itself: its Prometheus
// registry and the making of its logger.
//
// # Metrics
//
// [Metrics] has a registry of its own, never the global one, so that two
// gateways in one process (tests) do not meet. What the gateway counts is kept,
// gathered and written here, since package prometheus takes eight times as long for
// it; the figures of the Go runtime and of the process come from there. The names
// are those of the product contract; a metric appears here only once something
// feeds it.
//
// Labels are bounded whatever a sender does. Routes come from the
// configuration, outcomes and results are enumerations. Operations and fault
// codes get label values of their own up to [maxOperations] for a route;
// everything beyond is counted as "other".
//
// [History] keeps the last hour in memory, for the dashboard.
//
// # Logs
//
// [Log] makes a slog logger whose level and format can change while it is in
// use, since a reload may change both.
//
// All types are safe for concurrent use. Nothing here fails at run time.
package telemetry
