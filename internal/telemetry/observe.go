package telemetry

import (
	"encoding/hex"

	"soapway/proxy"
)

var _ proxy.Observer = (*Metrics)(nil)

// ObserveExchange implements [proxy.Observer].
func (m *Metrics) ObserveExchange(e proxy.ExchangeEvent) {
	if e.Trace.On() {
		m.traced(e.Route, e.Operation, string(e.Outcome), e.Duration, hex.EncodeToString(e.Trace.ID[:]))
	} else {
		m.Request(e.Route, e.Operation, string(e.Outcome), e.Duration)
	}
	m.Scanned(e.CodecBytes)
	if e.NormalizeSkipped {
		m.NormalizeSkipped(e.Route)
	}
	if e.Code != "" {
		m.Fault(e.Route, string(e.Code))
	}
}

// ObserveAttempt implements [proxy.Observer].
func (m *Metrics) ObserveAttempt(e proxy.AttemptEvent) { m.Attempt(e.Route, e.Class.String()) }

// ObserveShadow implements [proxy.Observer].
func (m *Metrics) ObserveShadow(e proxy.ShadowEvent) { m.Shadow(e.Route, string(e.Result)) }
