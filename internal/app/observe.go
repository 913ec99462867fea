package app

import (
	"soapway/internal/telemetry"
	"soapway/proxy"
)

// watchers are all that is told of exchanges and tries.
type watchers struct {
	metrics *telemetry.Metrics
	history *telemetry.History
	access  *telemetry.Access
	traces  *telemetry.Tracer
}

var _ proxy.Observer = (*watchers)(nil)

// ObserveExchange implements [proxy.Observer].
func (w *watchers) ObserveExchange(e proxy.ExchangeEvent) {
	w.metrics.ObserveExchange(e)
	w.history.ObserveExchange(e)
	w.access.Exchange(&e)
	w.traces.Exchange(&e)
}

// ObserveAttempt implements [proxy.Observer].
func (w *watchers) ObserveAttempt(e proxy.AttemptEvent) {
	w.metrics.ObserveAttempt(e)
	w.traces.Attempt(&e)
}

// ObserveShadow implements [proxy.Observer].
func (w *watchers) ObserveShadow(e proxy.ShadowEvent) { w.metrics.ObserveShadow(e) }
