package upstream

import (
	"context"
	"fmt"

	"soapway/proxy"
)

// Probe implements [proxy.Node]: it connects, with TLS where the node has it,
// and closes the connection again.
func (n *HTTP) Probe(ctx context.Context) error {
	c, err := n.connect(ctx, n.opt.ConnectTimeout)
	if err != nil {
		return fmt.Errorf("upstream: %s: %w", n.Name(), err)
	}
	return c.Close()
}

// Probe implements [proxy.Node]: it connects, with TLS where the node has it,
// and closes the connection again.
func (n *Framed) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.opt.ConnectTimeout)
	defer cancel()
	c, _, err := n.dialer.dial(ctx, n.opt.Address, true)
	if err == nil && n.opt.TLS != nil {
		c, err = handshake(ctx, c, n.opt.TLS, n.opt.Address)
	}
	if err != nil {
		return fmt.Errorf("upstream: %s: %w", n.Name(), err)
	}
	return c.Close()
}

// Probe implements [proxy.Node]: what is inside the process can be reached.
func (b *builtin) Probe(context.Context) error {
	if b.closed.Load() {
		return &proxy.SendError{Class: proxy.NotSent, Err: ErrClosed}
	}
	return nil
}
