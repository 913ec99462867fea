package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/frame"
	"soapway/proxy"
)

// Framed is a listener for length-prefixed messages over TCP.
type Framed struct {
	opt FramedOptions
	srv proxy.Server
	ln  *bounded

	sizes   atomic.Pointer[framedSizes]
	workers workers // serve requests

	cut   context.Context // done when the drain is to end before its time
	cutIt context.CancelFunc
}

// framedSizes are the limits that a running listener may change.
type framedSizes struct {
	message int64 // longest payload, in both directions
	buffer  int64
}

// SetSizes changes FramedOptions.MaxMessage and Buffer for connections that are
// made from now on. Values below 1 leave what there is.
func (l *Framed) SetSizes(maxMessage, buffer int64) {
	now := *l.sizes.Load()
	if maxMessage > 0 {
		now.message = min(maxMessage, frame.MaxPayload(l.opt.Length))
	}
	if buffer > 0 {
		now.buffer = buffer
	}
	l.sizes.Store(&now)
}

// NewFramed returns a listener that is not bound yet.
func NewFramed(opt FramedOptions, srv proxy.Server) (*Framed, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	l := &Framed{opt: opt, srv: srv}
	l.sizes.Store(&framedSizes{opt.limit(), opt.Buffer})
	l.cut, l.cutIt = context.WithCancel(context.Background())
	return l, nil
}

// Listen binds the address.
func (l *Framed) Listen() error {
	ln, err := bind(l.opt.Name, l.opt.Address, l.opt.MaxConnections)
	if err != nil {
		return err
	}
	if l.opt.TLS != nil || l.opt.Proxies != nil {
		ln.entry = newEntrance(l.opt.Name, l.opt.Timeouts, l.opt.Log)
		ln.entry.proxies = l.opt.Proxies
		if l.opt.TLS != nil {
			ln.entry.set(l.opt.TLS)
		}
	}
	l.ln = ln
	return nil
}

// SetTLS changes FramedOptions.TLS for connections that are made from now on;
// call it after Listen. A listener without TLS stays so.
func (l *Framed) SetTLS(cfg *tls.Config) {
	if l.opt.TLS != nil {
		l.ln.entry.set(cfg)
	}
}

// Addr is the bound address, nil before Listen.
func (l *Framed) Addr() net.Addr {
	if l.ln == nil {
		return nil
	}
	return l.ln.Addr()
}

// Close gives the address back when Run is never called. After Run it does
// nothing.
func (l *Framed) Close() error {
	if l.ln == nil {
		return nil
	}
	return l.ln.Close()
}

// Cut ends the drain of a Run whose context is cancelled, now or later, as if
// FramedOptions.Drain were over.
func (l *Framed) Cut() { l.cutIt() }

// Run serves until ctx is cancelled, then takes no further connection or frame,
// gives what is under way FramedOptions.Drain to finish and cuts the rest: its
// context ends with [ErrShutdown]. It returns once no goroutine of its own is
// left; nil means a clean stop. Call it once, after Listen.
func (l *Framed) Run(ctx context.Context) error {
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	stop, halt := context.WithCancel(context.Background())
	defer halt()

	var conns sync.WaitGroup
	accepted := make(chan error, 1)
	go func() { accepted <- l.acceptLoop(work, stop, &conns) }()

	var err error
	running := true
	select {
	case err = <-accepted:
		running = false
	case <-ctx.Done():
	}
	l.ln.Close()
	halt()
	if running {
		<-accepted
	}
	idle := make(chan struct{})
	go func() { conns.Wait(); close(idle) }()
	patience := time.NewTimer(max(l.opt.Drain, 0))
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		abort(ErrShutdown)
	case <-l.cut.Done():
		abort(ErrShutdown)
	}
	<-idle
	l.workers.close()
	l.ln.wait()
	return err
}

// acceptLoop serves connections until the socket is closed. It waits out what
// passes by itself, above all the lack of descriptors.
func (l *Framed) acceptLoop(work, stop context.Context, conns *sync.WaitGroup) error {
	pause := 5 * time.Millisecond
	for {
		c, err := l.ln.accept()
		if err == nil {
			pause = 5 * time.Millisecond
			conns.Add(1)
			l.workers.run(newFramedConn(l, c, work, stop, conns.Done).goOn)
			continue
		}
		var temporary interface{ Temporary() bool }
		if errors.Is(err, net.ErrClosed) || !errors.As(err, &temporary) || !temporary.Temporary() {
			return err
		}
		l.opt.Log.Warn("accept failed", "listener", l.opt.Name, "err", err)
		select {
		case <-time.After(pause):
		case <-stop.Done():
			return net.ErrClosed
		}
		pause = min(2*pause, time.Second)
	}
}
