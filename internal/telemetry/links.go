package telemetry

import dto "github.com/prometheus/client_model/go"

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
	up := gauges("gateway_link_up", "1 if the last exchange with the other site has worked.", "link")
	age := gauges("gateway_link_lag_seconds", "Age of the oldest message that waits for the other site.", "link")
	items := newFamily(dto.MetricType_COUNTER, "gateway_link_items_total", "Messages by what became of them at the other end.", "direction", "link", "outcome")
	octets := newFamily(dto.MetricType_COUNTER, "gateway_link_bytes_total", "Octets of batches, as they were on the wire.", "direction", "link")
	m.registry.lookup(func(put putter) {
		for _, l := range source() {
			if !l.Idle {
				put(up, truth(l.Up), l.Name)
				put(age, l.LagSeconds, l.Name)
			}
			for outcome, n := range l.Sent {
				put(items, float64(n), "out", l.Name, outcome)
			}
			for outcome, n := range l.Received {
				put(items, float64(n), "in", l.Name, outcome)
			}
			put(octets, float64(l.BytesOut), "out", l.Name)
			put(octets, float64(l.BytesIn), "in", l.Name)
		}
	}, up, age, items, octets)
}
