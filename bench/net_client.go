package bench

import (
	"context"
	"fmt"
	"net"
	"time"
)

// NetClient runs one test against the server that o names. It returns when the
// test is over, has failed, or ctx is cancelled; nothing is left running.
func NetClient(ctx context.Context, o NetOptions) (*NetResult, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: netStep}
	conn, err := d.DialContext(ctx, "tcp", o.Server)
	if err != nil {
		return nil, err
	}
	return netClientOver(ctx, conn, o)
}

// netClientOver runs the test over a control connection, and closes that.
func netClientOver(ctx context.Context, conn net.Conn, o NetOptions) (*NetResult, error) {
	c := &netClient{o: o, control: newNetControl(conn)}
	defer c.control.close()
	r, err := c.run(ctx)
	if err != nil {
		c.control.fail(err)
		return nil, err
	}
	return r, nil
}

type netClient struct {
	o       NetOptions
	control *netControl
	caps    netCaps
	session *netSession
	used    int64 // payload asked for so far
	passes  int   // run so far
}

func (c *netClient) run(ctx context.Context) (*NetResult, error) {
	if err := c.hello(ctx); err != nil {
		return nil, err
	}
	p := c.o.params()
	if err := c.control.send(netLine{Step: "params", Params: &p}); err != nil {
		return nil, err
	}
	ready, err := c.control.next(ctx, netStep, "ready")
	if err != nil {
		return nil, err
	}
	if ready.Host == nil {
		return nil, fmt.Errorf("%w: ready without host", ErrNetPeer)
	}
	moved := &netMoved{}
	end, err := dialNetEnd(ctx, p, c.dataAddress(ready.Address), ready.Key, moved)
	if err != nil {
		return nil, fmt.Errorf("the data connection: %w", err)
	}
	defer end.cut()
	c.session = &netSession{control: c.control, params: p, client: true, end: end, moved: moved}
	c.session.start()

	began := time.Now()
	rtt, line := connFacts(c.control.conn) // before data holds up the other end
	r := &NetResult{Protocol: p.Protocol, Mode: p.Mode, Dir: p.Dir, Size: p.Size, Window: p.Window, Client: c.o.Host, Server: ready.Host.harmless()}
	if err := c.measure(ctx, r); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.RTT, r.Line = rtt, line
	r.summarise()
	if err := c.control.send(netLine{Step: "results", Result: r}); err != nil {
		return nil, err
	}
	if _, err := c.control.next(ctx, netStep, "results"); err != nil {
		return nil, err
	}
	if err := c.control.send(netLine{Step: "bye"}); err != nil {
		return nil, err
	}
	_, err = c.control.next(ctx, netStep, "bye")
	return r, err
}

// hello makes both ends know that the other has the token.
func (c *netClient) hello(ctx context.Context) error {
	greet, err := c.control.next(ctx, netStep, "greet")
	if err != nil {
		return err
	}
	if greet.Version != netVersion {
		return fmt.Errorf("%w: that end has version %d, this one %d", ErrNetVersion, greet.Version, netVersion)
	}
	nonce := netNonce()
	if err := c.control.send(netLine{Step: "hello", Version: netVersion, Nonce: nonce, Proof: netProof(c.o.Token, "client", greet.Nonce, nonce)}); err != nil {
		return err
	}
	answer, err := c.control.next(ctx, netStep, "ok", "busy", "denied")
	switch {
	case err != nil:
		return err
	case answer.Step == "busy":
		return ErrNetBusy
	case answer.Step == "denied":
		return ErrNetDenied
	case !proves(answer.Proof, c.o.Token, "server", greet.Nonce, nonce):
		return fmt.Errorf("%w: the server has not shown that it has the token", ErrNetDenied)
	case answer.Caps == nil || answer.Caps.Bytes <= 0:
		return fmt.Errorf("%w: ok without caps", ErrNetPeer)
	}
	c.caps = *answer.Caps
	return nil
}

// dataAddress is where the data goes: the port that the server names, on the
// machine that the control connection leads to, whatever that calls itself.
func (c *netClient) dataAddress(told string) string {
	_, port, err := net.SplitHostPort(told)
	host, _, err2 := net.SplitHostPort(c.control.conn.RemoteAddr().String())
	if err != nil || err2 != nil {
		return told
	}
	return net.JoinHostPort(host, port)
}

// measure runs the passes. The first of all is cold and is kept apart. In a test
// that finds its own number of buffers, a pass that was too short makes the next
// ten times as long; the number stands once two passes in a row were long
// enough, since a single one may have been slow by chance. There are as many dots
// as passes were asked for, also where the first of them count for nothing.
func (c *netClient) measure(ctx context.Context, r *NetResult) error {
	buffers, grow := c.o.Buffers, c.o.Buffers == 0
	if grow {
		buffers = netFirstBuffers
	}
	for dots, long := 0, 0; dots < c.o.Passes; {
		p, err := c.pass(ctx, buffers)
		if err != nil {
			return err
		}
		first := c.passes == 1
		if first {
			r.Cold = p
		}
		if grow && p.Seconds < netLongEnough.Seconds() && c.mayGrow(buffers) {
			buffers, long = 10*buffers, 0
			r.Passes = nil
			c.mark('+')
			continue
		}
		dots++
		long++
		grow = grow && long < 2
		c.mark('.')
		if !first || c.o.Passes == 1 {
			r.Passes = append(r.Passes, p)
		}
	}
	r.Buffers = r.Passes[0].Buffers
	return nil
}

func (c *netClient) mark(symbol byte) {
	if c.o.Mark != nil {
		c.o.Mark(symbol)
	}
}

// mayGrow reports whether the server's caps leave room for all passes with ten
// times the buffers.
func (c *netClient) mayGrow(buffers int64) bool {
	next := 10 * buffers * int64(c.o.Size)
	return next*int64(c.o.Passes) <= c.caps.Bytes-c.used
}

func (c *netClient) pass(ctx context.Context, buffers int64) (NetPass, error) {
	c.passes++
	c.used += buffers * int64(c.o.Size)
	if c.used > c.caps.Bytes {
		return NetPass{}, fmt.Errorf("%w: %d octets in one test, and this one wants %d so far", ErrNetCap, c.caps.Bytes, c.used)
	}
	if err := c.control.send(netLine{Step: "go", Pass: c.passes, Buffers: buffers}); err != nil {
		return NetPass{}, err
	}
	began := time.Now()
	if c.session.params.streamsDown() {
		begin, err := c.control.next(ctx, netStep, "begin")
		if err != nil {
			return NetPass{}, err
		}
		began = begin.at
	}
	mine, theirs, err := c.session.pass(ctx, c.passes, buffers, began)
	if err != nil {
		return NetPass{}, err
	}
	by := theirs // the receiving end
	if c.session.params.clientReceives() {
		by = mine
	}
	p := NetPass{
		Buffers: buffers, Bytes: by.Bytes, Seconds: float64(by.NS) / 1e9,
		ClientCPU: float64(mine.CPU) / 1e6, ServerCPU: float64(theirs.CPU) / 1e6,
	}
	p.Mbit = float64(p.Bytes) * 8 / 1e6 / p.Seconds
	return p, nil
}
