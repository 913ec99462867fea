package telemetry

import "github.com/prometheus/client_golang/prometheus"

// BackendSample is what a scrape tells of a backend.
type BackendSample struct {
	Name  string
	Down  bool   // no node is up, or stored messages have shown it to be down
	Held  string // stored messages wait for an "operator", or for "credentials" that are refused
	Nodes []NodeSample
}

// circuit is the value of gateway_circuit_state.
func (b *BackendSample) circuit() float64 {
	switch {
	case b.Held == "operator":
		return 3
	case b.Held == "credentials":
		return 2
	case b.Down:
		return 1
	}
	return 0
}

// NodeSample is what a scrape tells of a node.
type NodeSample struct {
	Name string
	Up   bool // it gets messages
}

// WatchBackends adds the state of the backends, which is looked up at every
// scrape. It may be called once.
func (m *Metrics) WatchBackends(source func() []BackendSample) {
	m.registry.MustRegister(&backendCollector{
		source: source,
		up: prometheus.NewDesc("gateway_backend_up",
			"1 if the node gets messages, 0 while checks or failures in a row keep them from it.", []string{"backend", "node"}, nil),
		circuit: prometheus.NewDesc("gateway_circuit_state",
			"0 if stored messages are sent to the backend; they wait with 1 because it is down, 2 because it refuses the gateway's credentials, 3 because an operator holds it.", []string{"backend"}, nil),
	})
}

type backendCollector struct {
	source      func() []BackendSample
	up, circuit *prometheus.Desc
}

var _ prometheus.Collector = (*backendCollector)(nil)

// Describe implements [prometheus.Collector].
func (c *backendCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.circuit
}

// Collect implements [prometheus.Collector].
func (c *backendCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, b := range c.source() {
		gauge(c.circuit, b.circuit(), b.Name)
		told := map[string]bool{}
		for _, n := range b.Nodes {
			if !told[n.Name] { // one that differs only in its query has the same name
				told[n.Name] = true
				up := 0.0
				if n.Up {
					up = 1
				}
				gauge(c.up, up, b.Name, n.Name)
			}
		}
	}
}
