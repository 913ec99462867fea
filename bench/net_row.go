package bench

import "fmt"

// NetToken returns a new token for a server that was given none.
func NetToken() string { return netNonce()[:16] }

// Test makes a row of the result: each pass that counts is a run.
func (r *NetResult) Test() Test {
	spec := &Spec{
		Name: "net", Combo: r.combo(), Label: r.label(), Loop: LoopClosed, Processes: "separate", Unit: "Mbit/s", Conns: 1, Size: r.Size,
		Params: map[string]any{"mode": r.Mode, "dir": r.Dir, "window": r.Window, "buffers": r.Buffers},
	}
	if r.Line > 0 {
		spec.Limit = &Limit{Name: "what the network card carries of payload", Value: r.Line}
		spec.Line = r.Line
	}
	row := &row{runner: NewRunner(Options{}), spec: spec, all: histogram()}
	cold := r.run(r.Cold)
	row.cold = &cold
	for _, p := range r.Passes {
		run := r.run(p)
		judgeRun(&run, spec)
		row.runs = append(row.runs, run)
	}
	t := row.test(*spec)
	if r.RTT > 0 {
		t.Measures = append(t.Measures, Measure{"rtt", r.RTT / 1e6, "s"})
	}
	if r.Exchange > 0 {
		t.Measures = append(t.Measures, Measure{"exchange", r.Exchange / 1e6, "s"})
	}
	return t
}

// run makes a run of a pass.
func (r *NetResult) run(p NetPass) Run {
	return Run{
		Value: p.Mbit, Rate: float64(p.Buffers) / p.Seconds, Ops: p.Buffers, Seconds: p.Seconds,
		Client: Cost{CPU: p.ClientCPU}, Server: &Cost{CPU: p.ServerCPU}, Verdict: Valid,
	}
}

// combo is the protocol, and what is not as in the founding test.
func (r *NetResult) combo() string {
	c := r.Protocol
	if r.Mode == NetRoundTrip {
		c += "-roundtrip"
	} else if r.Dir == NetDown {
		c += "-down"
	}
	return c
}

// label says what goes over the network.
func (r *NetResult) label() string {
	what := map[string]string{
		NetRaw: "a stream of buffers", NetHTTP: "a POST for each buffer", NetRPC: "a NATS request for each buffer",
		NetSOAP: "a POST of a SOAP message for each buffer", NetFramed: "a framed SOAP message for each buffer",
	}[r.Protocol]
	if r.Mode == NetRoundTrip {
		what += ", and back"
	} else if r.Dir == NetDown {
		what += ", down"
	}
	if r.Window > 1 {
		what += fmt.Sprintf(", %d under way", r.Window)
	}
	return what
}

// Times says how long an exchange takes, and a round trip of the network, "" if
// neither is known.
func (r *NetResult) Times() (s string) {
	if r.Exchange > 0 {
		s += fmt.Sprintf(", %s an exchange", micros(r.Exchange))
	}
	if r.RTT > 0 {
		s += fmt.Sprintf(", round trip of the network %s", micros(r.RTT))
	}
	return s
}
