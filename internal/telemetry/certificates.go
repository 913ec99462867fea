package telemetry

import "time"

// CertificateSample is what a scrape tells of the certificate of a listener.
type CertificateSample struct {
	Listener string
	Until    time.Time // when it expires; the zero value while there is none
}

// WatchCertificates adds the time that certificates have left, which is looked
// up at every scrape. It may be called once.
func (m *Metrics) WatchCertificates(source func() []CertificateSample) {
	left := gauges("gateway_certificate_expiry_seconds",
		"Seconds until the first of the listener's certificates expires, negative once one has, 0 while one is missing.", "listener")
	m.registry.lookup(func(put putter) {
		for _, s := range source() {
			if s.Until.IsZero() {
				put(left, 0, s.Listener)
			} else {
				put(left, time.Until(s.Until).Seconds(), s.Listener)
			}
		}
	}, left)
}
