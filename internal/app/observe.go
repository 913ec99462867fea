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
	if w.access.On() || e.Trace.On() {
		told := e // apart, or each event would be made on the heap
		w.access.Exchange(&told)
		w.traces.Exchange(&told)
	}
}

// ObserveAttempt implements [proxy.Observer].
func (w *watchers) ObserveAttempt(e proxy.AttemptEvent) {
	w.metrics.ObserveAttempt(e)
	if e.Trace.On() {
		told := e
		w.traces.Attempt(&told)
	}
}

// ObserveShadow implements [proxy.Observer].
func (w *watchers) ObserveShadow(e proxy.ShadowEvent) { w.metrics.ObserveShadow(e) }
