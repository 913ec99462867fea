package telemetry

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
	up := gauges("gateway_backend_up",
		"1 if the node gets messages, 0 while checks or failures in a row keep them from it.", "backend", "node")
	circuit := gauges("gateway_circuit_state",
		"0 if stored messages are sent to the backend; they wait with 1 because it is down, 2 because it refuses the gateway's credentials, 3 because an operator holds it.", "backend")
	m.registry.lookup(func(put putter) {
		for _, b := range source() {
			put(circuit, b.circuit(), b.Name)
			for _, n := range b.Nodes { // of those that differ only in their query the first counts: they have one name
				put(up, truth(n.Up), b.Name, n.Name)
			}
		}
	}, up, circuit)
}
