package bench

import (
	"context"
	"fmt"
)

// netScenario is the network test on one machine: both ends are processes of it.
type netScenario struct {
	lab      *Lab
	protocol string
	size     int
	limits   *Limits

	server *Child
	first  *NetResult // found how many buffers take long enough
}

// NewNet returns the scenario of a protocol over the loopback, with buffers of size
// octets. limits may be nil.
func NewNet(lab *Lab, protocol string, size int, limits *Limits) Scenario {
	return &netScenario{lab: lab, protocol: protocol, size: size, limits: limits}
}

// Prepare implements [Scenario].
func (s *netScenario) Prepare(ctx context.Context) (err error) {
	if s.server, err = s.lab.start(s.lab.Dir(), "bench", "net", "server", "-port", "0", "-json"); err != nil {
		return err
	}
	if err := s.server.await(ctx); err != nil {
		return err
	}
	s.first, err = s.test(ctx, 0, 2)
	return err
}

func (s *netScenario) test(ctx context.Context, buffers int64, passes int) (*NetResult, error) {
	return NetClient(ctx, NetOptions{Server: s.server.Ready.Address, Protocol: s.protocol, Size: s.size, Buffers: buffers, Passes: passes})
}

// Spec implements [Scenario].
func (s *netScenario) Spec() Spec {
	r := s.first
	p := Spec{
		Name: "net", Combo: r.combo(), Label: r.label() + ", loopback", Loop: LoopClosed, Processes: "separate", Unit: "Mbit/s", Conns: 1, Size: r.Size,
		Params: map[string]any{"mode": r.Mode, "dir": r.Dir, "window": r.Window, "buffers": r.Buffers},
		// A run has a cold pass of its own.
		NoCold: true, Serial: r.Protocol != NetRaw,
	}
	if s.server != nil {
		p.Servers = []int{s.server.PID()}
	}
	if l := s.limits; l != nil && s.protocol == NetRaw && s.size == 1500 && l.Stream1500 > 0 {
		p.Limit = &Limit{Name: "loopback stream by 1,500 octets", Value: l.Stream1500}
	}
	return p
}

// Once implements [Scenario]: one cold pass and one that counts.
func (s *netScenario) Once(ctx context.Context, m *Meter) error {
	m.Start()
	r, err := s.test(ctx, s.first.Buffers, 2)
	m.Stop()
	if err != nil {
		return err
	}
	m.Score(r.Avg)
	if r.Exchange > 0 {
		m.Measure("exchange", r.Exchange/1e6, "s")
	}
	return nil
}

// Close implements [Scenario].
func (s *netScenario) Close() error {
	if s.server == nil {
		return nil
	}
	if err := s.server.Stop(); err != nil {
		return fmt.Errorf("the server of %s: %w", s.protocol, err)
	}
	return nil
}
