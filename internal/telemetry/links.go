package telemetry

import "github.com/prometheus/client_golang/prometheus"

// TrafficSample is what a scrape tells of a link besides the messages that wait for it.
type TrafficSample struct {
	Name       string
	Up         bool
	Idle       bool    // nothing is ever sent to the other site, which comes by itself: it is not up or down
	LagSeconds float64 // age of the oldest message that waits
	// Sent and Received are items by their answers, since the start.
	Sent, Received    map[string]uint64
	BytesOut, BytesIn uint64
}

// WatchLinks adds the state of the links, which is looked up at every scrape. It may be
// called once.
func (m *Metrics) WatchLinks(source func() []TrafficSample) {
	m.registry.MustRegister(&linkCollector{
		source: source,
		up:     prometheus.NewDesc("gateway_link_up", "1 if the last exchange with the other site has worked.", []string{"link"}, nil),
		age:    prometheus.NewDesc("gateway_link_lag_seconds", "Age of the oldest message that waits for the other site.", []string{"link"}, nil),
		items:  prometheus.NewDesc("gateway_link_items_total", "Messages by what became of them at the other end.", []string{"link", "direction", "outcome"}, nil),
		bytes:  prometheus.NewDesc("gateway_link_bytes_total", "Octets of batches, as they were on the wire.", []string{"link", "direction"}, nil),
	})
}

type linkCollector struct {
	source                func() []TrafficSample
	up, age, items, bytes *prometheus.Desc
}

var _ prometheus.Collector = (*linkCollector)(nil)

// Describe implements [prometheus.Collector].
func (c *linkCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.age, c.items, c.bytes} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *linkCollector) Collect(ch chan<- prometheus.Metric) {
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, l := range c.source() {
		up := 0.0
		if l.Up {
			up = 1
		}
		if !l.Idle {
			tell(c.up, prometheus.GaugeValue, up, l.Name)
			tell(c.age, prometheus.GaugeValue, l.LagSeconds, l.Name)
		}
		for outcome, n := range l.Sent {
			tell(c.items, prometheus.CounterValue, float64(n), l.Name, "out", outcome)
		}
		for outcome, n := range l.Received {
			tell(c.items, prometheus.CounterValue, float64(n), l.Name, "in", outcome)
		}
		tell(c.bytes, prometheus.CounterValue, float64(l.BytesOut), l.Name, "out")
		tell(c.bytes, prometheus.CounterValue, float64(l.BytesIn), l.Name, "in")
	}
}
