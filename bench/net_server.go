package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// netHandshakes is how many connections may be without proof at a time; more are
// closed at once.
const netHandshakes = 16

// netDenyAfter slows down whoever tries tokens.
const netDenyAfter = time.Second

// NetServerOptions is a server of tests over the network. The zero value takes
// clients without a token, for five minutes and 64 GiB each.
type NetServerOptions struct {
	// Token is what a client must have. Where it is empty a client must have
	// none: the caller binds such a server to the loopback only.
	Token string
	// OneOff ends the server after one test, whether it went well or not. Who
	// is busy or denied had no test.
	OneOff bool
	// MaxDuration and MaxBytes bound one test. Defaults 5m, 64 GiB.
	MaxDuration time.Duration
	MaxBytes    int64
	// DataPort is the port of the data connections; 0 is any.
	DataPort int
	// Host says who this end is.
	Host NetHost
	// Event is told of each connection: who, and what became of it. Calls do
	// not overlap. It may be nil.
	Event func(NetEvent)
}

// NetEvent is what became of one control connection.
type NetEvent struct {
	Client string     // address
	Began  bool       // a test has begun: nothing more is known yet
	Result *NetResult // nil if there is none
	Err    error
}

func (o NetServerOptions) withDefaults() NetServerOptions {
	if o.MaxDuration <= 0 {
		o.MaxDuration = 5 * time.Minute
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 30
	}
	if o.Event == nil {
		o.Event = func(NetEvent) {}
	}
	return o
}

// NetServe serves tests to those who connect to ln, one at a time, until ctx is
// cancelled or a one-off server has had its test. It closes ln, and returns once
// nothing of it is left running.
func NetServe(ctx context.Context, ln net.Listener, o NetServerOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &netServer{o: o.withDefaults(), stop: cancel, turn: make(chan struct{}, 1), strangers: make(chan struct{}, netHandshakes)}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		_ = ln.Close()
	})
	var err error
	for {
		var conn net.Conn
		if conn, err = ln.Accept(); err != nil {
			break
		}
		select {
		case s.strangers <- struct{}{}:
			wg.Go(func() { s.serve(ctx, conn) })
		default:
			_ = conn.Close()
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	wg.Wait()
	return err
}

type netServer struct {
	o         NetServerOptions
	stop      context.CancelFunc
	turn      chan struct{} // held by the one test that is under way
	strangers chan struct{}
	mu        sync.Mutex // held while Event is called
}

func (s *netServer) event(e NetEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Event(e)
}

func (s *netServer) serve(ctx context.Context, conn net.Conn) {
	c := newNetControl(conn)
	defer c.close()
	e := NetEvent{Client: conn.RemoteAddr().String()}
	e.Err = s.hello(ctx, c)
	<-s.strangers
	if e.Err == nil {
		over := sync.OnceFunc(func() { <-s.turn })
		s.event(NetEvent{Client: e.Client, Began: true})
		e.Result, e.Err = s.test(ctx, c, over)
		over()
		if s.o.OneOff {
			defer s.stop()
		}
	}
	if e.Err != nil && !errors.Is(e.Err, ErrNetBusy) && !errors.Is(e.Err, ErrNetDenied) {
		c.fail(e.Err)
	}
	s.event(e)
}

// hello lets in who has the token and comes while nobody else is tested; then
// the turn is taken.
func (s *netServer) hello(ctx context.Context, c *netControl) error {
	nonce := netNonce()
	if err := c.send(netLine{Step: "greet", Version: netVersion, Nonce: nonce}); err != nil {
		return err
	}
	hello, err := c.next(ctx, netStep, "hello")
	if err != nil {
		return err
	}
	if hello.Version != netVersion {
		return fmt.Errorf("%w: that end has version %d, this one %d", ErrNetVersion, hello.Version, netVersion)
	}
	if !proves(hello.Proof, s.o.Token, "client", nonce, hello.Nonce) {
		select {
		case <-time.After(netDenyAfter):
		case <-ctx.Done():
		}
		_ = c.send(netLine{Step: "denied"})
		return ErrNetDenied
	}
	select {
	case s.turn <- struct{}{}:
	default:
		_ = c.send(netLine{Step: "busy"})
		return ErrNetBusy
	}
	err = c.send(netLine{
		Step: "ok", Proof: netProof(s.o.Token, "server", nonce, hello.Nonce),
		Caps: &netCaps{Bytes: s.o.MaxBytes, MS: s.o.MaxDuration.Milliseconds()},
	})
	if err != nil {
		<-s.turn
	}
	return err
}

// test serves one test, from params to bye. It calls over when the next one may
// begin, at the latest before it says bye: a client that has its results may ask
// for more at once.
func (s *netServer) test(ctx context.Context, c *netControl, over func()) (*NetResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.MaxDuration, fmt.Errorf("%w: %v for one test", ErrNetCap, s.o.MaxDuration))
	defer cancel()
	ask, err := c.next(ctx, netStep, "params")
	if err != nil {
		return nil, err
	}
	if ask.Params == nil {
		return nil, fmt.Errorf("%w: params without any", ErrNetPeer)
	}
	if errs := ask.Params.validate(); errs != nil {
		return nil, fmt.Errorf("%w: %w", ErrNetPeer, errors.Join(errs...))
	}
	key, moved := netNonce(), &netMoved{}
	end, address, err := listenNetEnd(ctx, *ask.Params, dataListenAddress(c.conn, s.o.DataPort), key, moved)
	if err != nil {
		return nil, err
	}
	defer end.cut()
	if err := c.send(netLine{Step: "ready", Address: address, Key: key, Host: &s.o.Host}); err != nil {
		return nil, err
	}
	session := &netSession{control: c, params: *ask.Params, end: end, moved: moved}
	session.start()
	r, err := s.passes(ctx, session)
	if err != nil {
		return nil, err
	}
	if err := c.send(netLine{Step: "results", Host: &s.o.Host}); err != nil {
		return nil, err
	}
	if _, err := c.next(ctx, netStep, "bye"); err != nil {
		return nil, err
	}
	end.cut()
	over()
	return r, c.send(netLine{Step: "bye"})
}

// passes takes part in passes until the client has its results.
func (s *netServer) passes(ctx context.Context, session *netSession) (*NetResult, error) {
	var used int64
	for number := 1; ; number++ {
		v, err := session.control.next(ctx, netStep, "go", "results")
		if err != nil {
			return nil, err
		}
		if v.Step == "results" {
			return v.Result.checked(session.params, number-1)
		}
		if v.Pass != number || v.Buffers < 1 || v.Buffers > 1e9 {
			return nil, fmt.Errorf("%w: go %d with %d buffers", ErrNetPeer, v.Pass, v.Buffers)
		}
		if used += v.Buffers * int64(session.params.Size); used > s.o.MaxBytes {
			return nil, fmt.Errorf("%w: %d octets for one test", ErrNetCap, s.o.MaxBytes)
		}
		began := v.at
		if session.params.streamsDown() {
			if err := session.control.send(netLine{Step: "begin", Pass: number}); err != nil {
				return nil, err
			}
		}
		if _, _, err := session.pass(ctx, number, v.Buffers, began); err != nil {
			return nil, err
		}
	}
}

// checked is what a server makes of results that a client tells: text that can
// be printed, and a test that was really run.
func (r *NetResult) checked(p netParams, passes int) (*NetResult, error) {
	if r == nil || len(r.Passes) == 0 || len(r.Passes) > passes ||
		(netParams{Protocol: r.Protocol, Mode: r.Mode, Dir: r.Dir, Size: r.Size, Window: r.Window}) != p {
		return nil, fmt.Errorf("%w: results of another test", ErrNetPeer)
	}
	r.Client, r.Server = r.Client.harmless(), r.Server.harmless()
	return r, nil
}

func (h NetHost) harmless() NetHost {
	cut := func(s string) string { return fmt.Sprintf("%.80s", printable(s)) }
	h.Name, h.Gateway, h.System = cut(h.Name), cut(h.Gateway), cut(h.System)
	return h
}

// dataListenAddress is that of the control connection at this end, with another
// port: data goes the same way.
func dataListenAddress(control net.Conn, port int) string {
	host, _, err := net.SplitHostPort(control.LocalAddr().String())
	if err != nil {
		host = ""
	}
	return net.JoinHostPort(host, fmt.Sprint(port))
}
