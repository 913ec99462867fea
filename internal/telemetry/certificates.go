package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CertificateSample is what a scrape tells of the certificate of a listener.
type CertificateSample struct {
	Listener string
	Until    time.Time // when it expires; the zero value while there is none
}

// WatchCertificates adds the time that certificates have left, which is looked
// up at every scrape. It may be called once.
func (m *Metrics) WatchCertificates(source func() []CertificateSample) {
	m.registry.MustRegister(&certificateCollector{
		source: source,
		left: prometheus.NewDesc("gateway_certificate_expiry_seconds",
			"Seconds until the first of the listener's certificates expires, negative once one has, 0 while one is missing.", []string{"listener"}, nil),
	})
}

type certificateCollector struct {
	source func() []CertificateSample
	left   *prometheus.Desc
}

var _ prometheus.Collector = (*certificateCollector)(nil)

// Describe implements [prometheus.Collector].
func (c *certificateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.left }

// Collect implements [prometheus.Collector].
func (c *certificateCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.source() {
		left := 0.0
		if !s.Until.IsZero() {
			left = time.Until(s.Until).Seconds()
		}
		ch <- prometheus.MustNewConstMetric(c.left, prometheus.GaugeValue, left, s.Listener)
	}
}
