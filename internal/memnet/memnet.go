// Package memnet is a network of pipes for tests: a server and its clients meet
// without ports, so they can run inside a synctest bubble, where time-outs and
// idle limits are tested on a fake clock.
package memnet

import (
	"context"
	"net"
	"sync"
)

var _ net.Listener = (*Listener)(nil)

// A Listener accepts the connections that its own Dial makes.
type Listener struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns an open Listener.
func Listen() *Listener {
	return &Listener{accept: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener and blocks until the connection is accepted.
// Its signature is that of http.Transport.DialContext; the network and the
// address are ignored. After Close it returns [net.ErrClosed].
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accept <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]; it may be called more than once.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memnet" }
func (addr) String() string  { return "memnet" }
