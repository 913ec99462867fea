package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"soapway/proxy"
)

func addresses(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// TestRace: the first address that takes the connection is it, at the latest a
// moment after its turn has come, and none is left open behind.
func TestRace(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		takes map[string]time.Duration // how long until it connects; negative: until it refuses
		want  string                   // "" = all refuse
		after time.Duration
	}{
		{"the first", map[string]time.Duration{"1.1.1.1": 10, "1.1.1.2": 10, "1.1.1.3": 10}, "1.1.1.1", 10},
		{"slow first", map[string]time.Duration{"1.1.1.1": 900, "1.1.1.2": 10, "1.1.1.3": 10}, "1.1.1.2", 260},
		{"slow first, but it comes", map[string]time.Duration{"1.1.1.1": 300, "1.1.1.2": 900, "1.1.1.3": 900}, "1.1.1.1", 300},
		{"refuses", map[string]time.Duration{"1.1.1.1": -5, "1.1.1.2": -5, "1.1.1.3": 10}, "1.1.1.3", 20},
		{"all refuse", map[string]time.Duration{"1.1.1.1": -5, "1.1.1.2": -400, "1.1.1.3": -5}, "", 405},
		{"black hole", map[string]time.Duration{"1.1.1.1": 1e6, "1.1.1.2": 1e6, "1.1.1.3": 1e6}, "", 3000},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				var open atomic.Int64
				began := time.Now()
				conn, at, err := race(ctx, addresses("1.1.1.1", "1.1.1.2", "1.1.1.3"), func(ctx context.Context, a netip.Addr) (net.Conn, error) {
					d := c.takes[a.String()] * time.Millisecond
					select {
					case <-time.After(max(d, -d)):
					case <-ctx.Done():
						if d > 0 && d < time.Second { // too late: it has connected meanwhile
							open.Add(1)
							return &counted{&open, nil}, nil
						}
						return nil, ctx.Err()
					}
					if d < 0 {
						return nil, refused
					}
					open.Add(1)
					return &counted{&open, nil}, nil
				})
				if took := time.Since(began); took != c.after*time.Millisecond {
					t.Errorf("took %v, want %v", took, c.after*time.Millisecond)
				}
				if c.want == "" {
					if err == nil || open.Load() != 0 {
						t.Errorf("got %v, %d connections are open", err, open.Load())
					}
					return
				}
				if err != nil || at.String() != c.want || conn == nil || open.Load() != 1 {
					t.Errorf("got %v, %v, %d connections are open; want %s and one", at, err, open.Load(), c.want)
				}
			})
		})
	}
}

type counted struct {
	open *atomic.Int64
	net.Conn
}

func (c *counted) Close() error { c.open.Add(-1); return nil }

// TestNames: addresses are used for as long as they may be, looked up behind the
// back of messages, kept when that fails, and each is the first in its turn.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, fail := addresses("10.0.0.1", "10.0.0.2", "2001:db8::1"), false
		lookups, moves := 0, 0
		n := newNames("node.test", DialOptions{Resolve: 30 * time.Second, Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			lookups++
			if fail {
				return nil, errors.New("no such host")
			}
			return slices.Clone(answer), nil
		}}, func() { moves++ })
		defer n.close()
		n.tick() // nothing was asked yet
		var firsts []string
		var version uint64
		for range 4 {
			got, v, err := n.addresses(t.Context())
			if err != nil || len(got) != 3 || got[2] != answer[2] {
				t.Fatalf("addresses: got %v, %v", got, err)
			}
			firsts, version = append(firsts, got[0].String()), v
		}
		if want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"}; !slices.Equal(firsts, want) {
			t.Errorf("first addresses: got %v, want %v", firsts, want)
		}
		time.Sleep(29 * time.Second)
		n.tick()
		synctest.Wait()
		if lookups != 1 {
			t.Errorf("%d look-ups within 30s, want 1", lookups)
		}
		fail = true
		time.Sleep(2 * time.Second)
		for range 100 {
			n.tick()
			synctest.Wait()
		}
		if got, _, err := n.addresses(t.Context()); err != nil || len(got) != 3 || lookups != 2 || moves != 0 {
			t.Errorf("after a look-up that failed: %v, %v, %d look-ups, %d moves", got, err, lookups, moves)
		}
		fail, answer = false, addresses("::ffff:10.0.0.2", "10.0.0.3")
		time.Sleep(31 * time.Second)
		n.tick()
		synctest.Wait()
		if moves != 1 || !n.gone(netip.MustParseAddr("10.0.0.1"), version) || n.gone(netip.MustParseAddr("10.0.0.2"), version) {
			t.Errorf("%d moves; 10.0.0.1 is gone: %v, 10.0.0.2: %v", moves, n.gone(netip.MustParseAddr("10.0.0.1"), version), n.gone(netip.MustParseAddr("10.0.0.2"), version))
		}
		answer = nil // an empty answer is none
		time.Sleep(31 * time.Second)
		n.tick()
		synctest.Wait()
		if got, _, err := n.addresses(t.Context()); err != nil || len(got) != 2 || moves != 1 {
			t.Errorf("after an empty answer: %v, %v, %d moves", got, err, moves)
		}
	})
}

// TestNamesFirstLookup: without addresses there is no connection, and the error
// is that of the look-up.
func TestNamesFirstLookup(t *testing.T) {
	boom := errors.New("no such host")
	n := newHTTP(t, HTTPOptions{URL: "http://node.test/", Dial: DialOptions{Resolve: time.Minute, Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, boom }}})
	_, err := n.Send(t.Context(), request("<r/>"))
	if e := sendError(t, err); e.Class != proxy.NotSent || !errors.Is(e, boom) {
		t.Errorf("got %v", e)
	}
}

// TestCloseEndsALookup: a node that is closed leaves no look-up behind.
func TestCloseEndsALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		n := newNames("node.test", DialOptions{Resolve: time.Second, Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			if first {
				first = false
				return addresses("10.0.0.1"), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}, func() {})
		if _, _, err := n.addresses(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		n.tick()
		synctest.Wait()
		n.close()
		n.tick()
	})
}

// TestMovesWithItsName: when the name of a node leads elsewhere, messages follow
// within a moment, though pooled connections to the old place are good.
func TestMovesWithItsName(t *testing.T) {
	noLeaks(t)
	type place struct {
		ln    net.Listener
		asked atomic.Int64
	}
	listen := func(addr string) *place {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("there is no second loopback address here: %v", err)
		}
		return &place{ln: ln}
	}
	for name, speak := range map[string]func(p *peer, asked *atomic.Int64){
		"http": func(p *peer, asked *atomic.Int64) {
			for r, _ := p.request(); r != nil; r, _ = p.request() {
				asked.Add(1)
				p.send(okReply)
			}
		},
		"framed": func(p *peer, asked *atomic.Int64) {
			for s, err := p.frame(); err == nil; s, err = p.frame() {
				asked.Add(1)
				p.send(framed(s))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := listen("127.0.0.1:0")
			_, port, _ := net.SplitHostPort(old.ln.Addr().String())
			fresh := listen("127.0.0.2:" + port)
			for _, p := range []*place{old, fresh} {
				serve(t, p.ln, func(c *peer) { speak(c, &p.asked) })
			}
			var at atomic.Pointer[netip.Addr]
			at.Store(new(netip.MustParseAddr("127.0.0.1")))
			dial := DialOptions{Resolve: 5 * time.Millisecond, Lookup: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{*at.Load()}, nil }}
			var n proxy.Node
			if name == "http" {
				n = newHTTP(t, HTTPOptions{URL: "http://node.test:" + port + "/x", IdleTimeout: time.Minute, Dial: dial})
			} else {
				n = newFramed(t, FramedOptions{Address: "node.test:" + port, IdleTimeout: time.Minute, Dial: dial})
			}
			send := func() {
				resp, err := n.Send(t.Context(), request("<r/>"))
				if err != nil {
					t.Fatal(err)
				}
				body(t, resp)
			}
			for range 20 {
				send()
			}
			if old.asked.Load() != 20 {
				t.Fatalf("%d messages at the old place, want 20", old.asked.Load())
			}
			at.Store(new(netip.MustParseAddr("127.0.0.2")))
			until(t, "messages at the new place", func() bool { send(); return fresh.asked.Load() > 0 })
			before := old.asked.Load()
			for range 20 {
				send()
			}
			if got := old.asked.Load() - before; got != 0 {
				t.Errorf("%d messages at the old place after the first at the new one", got)
			}
		})
	}
}

// middle is an HTTP proxy: it notes what it is asked for, and does it.
type middle struct {
	addr  string
	mu    sync.Mutex
	asked []string // request lines with credentials
}

func newMiddle(t *testing.T, cfg *tls.Config) *middle {
	t.Helper()
	m := &middle{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg != nil {
		ln = tls.NewListener(ln, cfg)
	}
	m.addr = serve(t, ln, func(p *peer) {
		for r, body := p.request(); r != nil; r, body = p.request() {
			m.mu.Lock()
			m.asked = append(m.asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
			m.mu.Unlock()
			if r.Method != "CONNECT" {
				p.send(strings.Replace(okReply, "<r/>", "<p/>", 1))
				if body == "" || r.Host == "" {
					t.Errorf("asked for %s with Host %q and %q", r.RequestURI, r.Host, body)
				}
				continue
			}
			far, err := net.Dial("tcp", r.RequestURI)
			if err != nil {
				p.send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
				return
			}
			p.send("HTTP/1.1 200 Connection established\r\nX-Note: a\r\n\r\n")
			var wg sync.WaitGroup
			wg.Go(func() { io.Copy(far, p.r); far.(*net.TCPConn).CloseWrite() })
			io.Copy(p, far)
			p.Close()
			far.Close()
			wg.Wait()
			return
		}
	})
	return m
}

func (m *middle) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.asked
	m.asked = nil
	return got
}

// TestProxy: http nodes are asked for in absolute-form, all others are reached
// through a tunnel, with credentials for the proxy alone, which may itself be
// behind TLS.
func TestProxy(t *testing.T) {
	noLeaks(t)
	ca, _, pair := identity(t, "node.test")
	server := &tls.Config{Certificates: []tls.Certificate{pair}}
	trust, err := TLSConfig(TLSOptions{CA: ca, ServerName: "node.test"})
	if err != nil {
		t.Fatal(err)
	}
	clean := func(p *peer) {
		for r, _ := p.request(); r != nil; r, _ = p.request() {
			if r.Header.Get("Proxy-Authorization") != "" {
				t.Error("the node got the credentials for the proxy")
			}
			p.send(okReply)
		}
	}
	secure, frames, tlsFrames := tlsNode(t, server, clean), node(t, echoFrames), tlsNode(t, server, echoFrames)
	m := newMiddle(t, nil)
	dial := DialOptions{Proxy: &url.URL{Scheme: "http", Host: m.addr, User: url.UserPassword("gw", "s3")}, Resolve: time.Minute}
	const credentials = "Basic Z3c6czM="
	for _, c := range []struct {
		n         proxy.Node
		first     string
		forwarded bool
	}{
		{newHTTP(t, HTTPOptions{URL: "http://node.test:81/svc?a=b", Dial: dial}), "POST http://node.test:81/svc/x?a=b&q ", true},
		{newHTTP(t, HTTPOptions{URL: "https://" + secure + "/svc", TLS: trust, Dial: dial}), "CONNECT " + secure + " ", false},
		{newFramed(t, FramedOptions{Address: frames, Dial: dial}), "CONNECT " + frames + " ", false},
		{newFramed(t, FramedOptions{Address: tlsFrames, TLS: trust, Dial: dial}), "CONNECT " + tlsFrames + " ", false},
	} {
		for range 3 {
			req := request("<r/>")
			req.Rest, req.Query, req.HasQuery = "/x", "q", true
			resp, err := c.n.Send(t.Context(), req)
			if err != nil {
				t.Fatalf("%s: %v", c.n.Name(), err)
			}
			if got := body(t, resp); got != "<r/>" && got != "<p/>" {
				t.Errorf("%s: got %q", c.n.Name(), got)
			}
		}
		got := m.take()
		want := []string{c.first + credentials}
		if c.forwarded {
			want = []string{want[0], want[0], want[0]}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the proxy was asked %q, want %q", c.n.Name(), got, want)
		}
		if err := c.n.Probe(t.Context()); err != nil {
			t.Errorf("%s: Probe: %v", c.n.Name(), err)
		}
		m.take()
	}
}

// TestProxyRefuses: what goes wrong on the way to a node is not sent.
func TestProxyRefuses(t *testing.T) {
	noLeaks(t)
	for name, answer := range map[string]script{
		"refuses":        func(p *peer) { p.request(); p.send("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") },
		"speaks no HTTP": func(p *peer) { p.request(); p.send("220 hello\r\n\r\n") },
		"never ends": func(p *peer) {
			p.request()
			p.send("HTTP/1.1 200 OK\r\n")
			p.send(strings.Repeat("X: y\r\n", 5000))
			p.gone()
		},
		"closes":    func(p *peer) { p.request() },
		"is silent": func(p *peer) { p.gone() },
	} {
		addr := node(t, answer)
		dial, wait := DialOptions{Proxy: &url.URL{Scheme: "http", Host: addr}}, patience
		if name == "is silent" {
			wait = 200 * time.Millisecond
		}
		for _, n := range []proxy.Node{
			newHTTP(t, HTTPOptions{URL: "https://node.test/", ConnectTimeout: wait, Dial: dial}),
			newFramed(t, FramedOptions{Address: "node.test:7", ConnectTimeout: wait, Dial: dial}),
		} {
			_, err := n.Send(t.Context(), request("<r/>"))
			if e := sendError(t, err); e.Class != proxy.NotSent || e.Timeout != (name == "is silent") {
				t.Errorf("%s: a proxy that %s: got %+v", n.Name(), name, e)
			}
			if err := n.Probe(t.Context()); err == nil {
				t.Errorf("%s: Probe by a proxy that %s: got no error", n.Name(), name)
			}
		}
	}
}

func TestDialOptions(t *testing.T) {
	for _, bad := range []DialOptions{{Resolve: -1}, {Proxy: &url.URL{Scheme: "socks5", Host: "h:1"}}, {Proxy: &url.URL{Scheme: "http"}}} {
		if _, err := NewHTTP(HTTPOptions{URL: "http://h/", Dial: bad}); err == nil {
			t.Errorf("NewHTTP(%+v): got no error", bad)
		}
		if _, err := NewFramed(FramedOptions{Address: "h:1", Dial: bad}); err == nil {
			t.Errorf("NewFramed(%+v): got no error", bad)
		}
	}
	if got := fmt.Sprint(DialOptions{}.validate()); got != "[]" {
		t.Errorf("validate of the zero value: got %s", got)
	}
}
