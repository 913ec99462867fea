package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"
)

// DialOptions says how the connections of a node are made. The zero value looks
// its name up for each connection and goes straight to it.
type DialOptions struct {
	// Resolve is for how long the addresses of a name are used; then it is looked
	// up again, and connections to addresses that are gone are used no more. A
	// look-up that fails changes nothing. Default: each connection looks it up.
	Resolve time.Duration

	// Proxy is an HTTP proxy on the way, by an http or https URL; its user
	// information becomes basic credentials. Requests to http nodes are given to
	// it in absolute-form, all other connections are tunnelled by CONNECT (RFC
	// 9110 §9.3.6). Default: none.
	Proxy *url.URL

	// Lookup looks a name up. Default: the system's way.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (o DialOptions) withDefaults() DialOptions {
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return o
}

func (o DialOptions) validate() (errs []error) {
	if o.Resolve < 0 {
		errs = append(errs, fmt.Errorf("option Dial.Resolve: got %v, want more than 0", o.Resolve))
	}
	if p := o.Proxy; p != nil && (p.Scheme != "http" && p.Scheme != "https" || p.Hostname() == "") {
		errs = append(errs, errors.New("option Dial.Proxy: want http(s)://host:port"))
	}
	return errs
}

// dialer makes the connections of one node.
type dialer struct {
	opt   DialOptions
	names *names // nil: net looks names up
}

// newDialer returns a dialer to the host of a node. moved is called when addresses
// of it have gone.
func newDialer(opt DialOptions, host string, moved func()) dialer {
	d := dialer{opt: opt.withDefaults()}
	if opt.Proxy != nil {
		host = opt.Proxy.Hostname()
	}
	if _, err := netip.ParseAddr(host); err != nil && opt.Resolve > 0 {
		d.names = newNames(host, d.opt, moved)
	}
	return d
}

// close ends what is under way by itself.
func (d *dialer) close() {
	if d.names != nil {
		d.names.close()
	}
}

// tick is called for each try: it sees to it that names are looked up again
// also where no connection is made for long.
func (d *dialer) tick() {
	if d.names != nil {
		d.names.tick()
	}
}

// dial connects to a node's host:port, by way of the proxy if there is one, with
// a tunnel if that is asked for. raw is the connection where octets are counted:
// c itself, or below it.
func (d *dialer) dial(ctx context.Context, addr string, tunnel bool) (c net.Conn, raw *countConn, err error) {
	proxy := d.opt.Proxy
	if proxy == nil {
		if raw, err = d.tcp(ctx, addr); err != nil {
			return nil, nil, err
		}
		return raw, raw, nil
	}
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	via := net.JoinHostPort(proxy.Hostname(), port)
	if raw, err = d.tcp(ctx, via); err != nil {
		return nil, nil, fmt.Errorf("proxy: %w", err)
	}
	c = raw
	if proxy.Scheme == "https" {
		if c, err = handshake(ctx, raw, &tls.Config{MinVersion: tls.VersionTLS12}, via, "http/1.1"); err != nil {
			return nil, nil, fmt.Errorf("proxy: %w", err)
		}
	}
	if tunnel {
		if err := openTunnel(ctx, c, addr, basicOf(proxy.User)); err != nil {
			c.Close()
			return nil, nil, fmt.Errorf("proxy: %w", err)
		}
	}
	return c, raw, nil
}

// tcp connects to host:port.
func (d *dialer) tcp(ctx context.Context, addr string) (*countConn, error) {
	var plain net.Dialer
	if d.names == nil {
		c, err := plain.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &countConn{Conn: c}, nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	addrs, version, err := d.names.addresses(ctx)
	if err != nil {
		return nil, err
	}
	c, at, err := race(ctx, addrs, func(ctx context.Context, a netip.Addr) (net.Conn, error) {
		return plain.DialContext(ctx, "tcp", net.JoinHostPort(a.String(), port))
	})
	if err != nil {
		return nil, err
	}
	return &countConn{Conn: c, names: d.names, version: version, at: at}, nil
}

// stagger is how long an address is tried alone before the next one is tried as
// well (RFC 8305 §5: 250 ms).
const stagger = 250 * time.Millisecond

// race connects to the first of several addresses that takes the connection. They
// are tried in their order: the next one when one has failed, or has been silent
// for long enough.
func race(ctx context.Context, addrs []netip.Addr, connect func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, netip.Addr, error) {
	if len(addrs) == 1 {
		c, err := connect(ctx, addrs[0])
		return c, addrs[0], err
	}
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		c   net.Conn
		at  netip.Addr
		err error
	}
	results := make(chan result)
	next, flying := 0, 0
	start := func() {
		at := addrs[next]
		next++
		flying++
		go func() {
			c, err := connect(ctx, at)
			results <- result{c, at, err}
		}()
	}
	defer func() { // nobody is left behind
		cancel()
		for ; flying > 0; flying-- {
			if r := <-results; r.err == nil {
				r.c.Close()
			}
		}
	}()
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	start()
	var failed error
	for {
		select {
		case r := <-results:
			flying--
			if r.err == nil {
				return r.c, r.at, nil
			}
			if failed == nil {
				failed = r.err
			}
			if next == len(addrs) && flying == 0 {
				return nil, netip.Addr{}, failed
			}
		case <-timer.C:
		}
		if next < len(addrs) {
			start()
			timer.Reset(stagger)
		}
	}
}
