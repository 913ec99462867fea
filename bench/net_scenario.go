package bench

import (
	"context"
	"fmt"
	"time"
)

// netScenario is the network test on one machine: both ends are processes of it.
type netScenario struct {
	lab      *Lab
	protocol string
	size     int
	pass     time.Duration // about how long a pass lasts
	limits   *Limits

	buffers int64 // of a pass

	server *Child
	first  *NetResult // found how many buffers take long enough
}

// NewNet returns the scenario of a protocol over the loopback, with buffers of size
// octets in passes that last about as long as pass says, at least as long as those
// of the network test. limits may be nil.
func NewNet(lab *Lab, protocol string, size int, pass time.Duration, limits *Limits) Scenario {
	return &netScenario{lab: lab, protocol: protocol, size: size, pass: max(pass, netLongEnough*5/4), limits: limits}
}

// Prepare implements [Scenario].
func (s *netScenario) Prepare(ctx context.Context) (err error) {
	if s.server, err = s.lab.start(s.lab.Dir(), "bench", "net", "server", "-port", "0", "-json"); err != nil {
		return err
	}
	if err := s.server.await(ctx); err != nil {
		return err
	}
	if s.first, err = s.test(ctx, 0, 2); err != nil {
		return err
	}
	// The number that it has found lasts up to ten times as long as is enough.
	last := s.first.Passes[len(s.first.Passes)-1]
	s.buffers = max(1, int64(float64(last.Buffers)*s.pass.Seconds()/max(last.Seconds, 1e-6)))
	return nil
}

func (s *netScenario) test(ctx context.Context, buffers int64, passes int) (*NetResult, error) {
	return NetClient(ctx, NetOptions{Server: s.server.Ready.Address, Protocol: s.protocol, Size: s.size, Buffers: buffers, Passes: passes})
}

// Spec implements [Scenario].
func (s *netScenario) Spec() Spec {
	r := s.first
	p := Spec{
		Name: "net", Combo: r.combo(), Label: r.label() + ", loopback", Loop: LoopClosed, Processes: "separate", Unit: "Mbit/s", Conns: 1, Size: r.Size,
		Params: map[string]any{"mode": r.Mode, "dir": r.Dir, "window": r.Window, "buffers": s.buffers},
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
	r, err := s.test(ctx, s.buffers, 2)
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
