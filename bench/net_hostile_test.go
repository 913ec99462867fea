package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/memnet"
)

// A rawControl is a control connection in the hands of somebody who keeps to no
// protocol.
type rawControl struct {
	conn net.Conn
	r    *bufio.Reader
}

func (c *rawControl) send(t *testing.T, v netLine) {
	t.Helper()
	if err := json.NewEncoder(c.conn).Encode(v); err != nil {
		t.Fatalf("send %s: %v", v.Step, err)
	}
}

// read returns the next line that is no beat.
func (c *rawControl) read() (v netLine, err error) {
	for {
		line, err := c.r.ReadBytes('\n')
		if err != nil {
			return v, err
		}
		v = netLine{}
		if err := json.Unmarshal(line, &v); err != nil || v.Step != "beat" {
			return v, err
		}
	}
}

func (c *rawControl) expect(t *testing.T, step string) netLine {
	t.Helper()
	v, err := c.read()
	if err != nil {
		t.Fatalf("waiting for %s: %v", step, err)
	}
	if v.Step != step {
		t.Fatalf("got %+v, want %s", v, step)
	}
	return v
}

// enter goes through hello with token.
func (c *rawControl) enter(t *testing.T, token string) {
	t.Helper()
	greet := c.expect(t, "greet")
	nonce := netNonce()
	c.send(t, netLine{Step: "hello", Version: netVersion, Nonce: nonce, Proof: netProof(token, "client", greet.Nonce, nonce)})
	ok := c.expect(t, "ok")
	if !proves(ok.Proof, token, "server", greet.Nonce, nonce) {
		t.Error("the server does not show that it has the token")
	}
}

// dialControl connects over TCP and goes through hello.
func dialControl(t *testing.T, address, token string) *rawControl {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &rawControl{conn, bufio.NewReader(conn)}
	c.enter(t, token)
	return c
}

// inNetServer calls f with a server that sees no clock but that of the bubble.
func inNetServer(t *testing.T, o NetServerOptions, f func(t *testing.T, connect func() *rawControl, events chan NetEvent)) {
	synctest.Test(t, func(t *testing.T) {
		ln := memnet.Listen()
		events := make(chan NetEvent, 100)
		o.Event = func(e NetEvent) { events <- e }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- NetServe(ctx, ln, o) }()
		f(t, func() *rawControl {
			conn, err := ln.Dial(ctx, "", "")
			if err != nil {
				t.Fatal(err)
			}
			return &rawControl{conn, bufio.NewReader(conn)}
		}, events)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("NetServe: %v", err)
		}
	})
}

// TestNetHostileClients: whatever a client does before its test, it is let go in
// time, the reason is known, and the next one is served.
func TestNetHostileClients(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, c *rawControl)
		want error
		said string // step of the last line that the client gets; "" for none
	}{
		{"silent", func(t *testing.T, c *rawControl) { c.expect(t, "greet") }, ErrNetSilent, "error"},
		{"deaf", func(*testing.T, *rawControl) {}, ErrNetSilent, ""},
		{"beats and nothing else", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			for range 9 {
				c.send(t, netLine{Step: "beat"})
				time.Sleep(time.Second)
			}
		}, ErrNetSilent, "error"},
		{"leaves", func(t *testing.T, c *rawControl) { c.expect(t, "greet"); c.conn.Close() }, nil, ""},
		{"wrong token", func(t *testing.T, c *rawControl) {
			greet := c.expect(t, "greet")
			c.send(t, netLine{Step: "hello", Version: netVersion, Nonce: "n", Proof: netProof("guess", "client", greet.Nonce, "n")})
		}, ErrNetDenied, "denied"},
		{"no token", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			c.send(t, netLine{Step: "hello", Version: netVersion})
		}, ErrNetDenied, "denied"},
		{"the proof of the server", func(t *testing.T, c *rawControl) {
			greet := c.expect(t, "greet")
			c.send(t, netLine{Step: "hello", Version: netVersion, Nonce: "n", Proof: netProof("secret", "server", greet.Nonce, "n")})
		}, ErrNetDenied, "denied"},
		{"the proof of another time", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			c.send(t, netLine{Step: "hello", Version: netVersion, Nonce: "n", Proof: netProof("secret", "client", netNonce(), "n")})
		}, ErrNetDenied, "denied"},
		{"another version", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			c.send(t, netLine{Step: "hello", Version: netVersion + 1})
		}, ErrNetVersion, "error"},
		{"a huge line", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			_, _ = c.conn.Write([]byte(`{"step":"hello","nonce":"` + strings.Repeat("x", 2*netLineLimit)))
		}, ErrNetPeer, ""},
		{"no JSON", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			_, _ = c.conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}, ErrNetPeer, "error"},
		{"no step", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			_, _ = c.conn.Write([]byte("{}\n"))
		}, ErrNetPeer, "error"},
		{"another step", func(t *testing.T, c *rawControl) {
			c.expect(t, "greet")
			c.send(t, netLine{Step: "go", Pass: 1, Buffers: 1})
		}, ErrNetPeer, "error"},
		{"params that make no sense", func(t *testing.T, c *rawControl) {
			c.enter(t, "secret")
			c.send(t, netLine{Step: "params", Params: &netParams{"raw", "oneway", "sideways", 1 << 40, -1}})
		}, ErrNetPeer, "error"},
		{"params of none", func(t *testing.T, c *rawControl) {
			c.enter(t, "secret")
			c.send(t, netLine{Step: "params"})
		}, ErrNetPeer, "error"},
		{"silent behind hello", func(t *testing.T, c *rawControl) { c.enter(t, "secret") }, ErrNetSilent, "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inNetServer(t, NetServerOptions{Token: "secret"}, func(t *testing.T, connect func() *rawControl, events chan NetEvent) {
				began := time.Now()
				c := connect()
				tt.do(t, c)
				last := ""
				for tt.name != "deaf" {
					v, err := c.read()
					if err != nil {
						break
					}
					last = v.Step
				}
				e := lastEvent(t, events)
				if took := time.Since(began); took > 2*netStep {
					t.Errorf("it took %v", took)
				}
				if e.Err == nil || tt.want != nil && !errors.Is(e.Err, tt.want) {
					t.Errorf("the server says %v, want %v", e.Err, tt.want)
				}
				if last != tt.said {
					t.Errorf("the last line was %q, want %q", last, tt.said)
				}
				c.conn.Close()
				next := connect()
				next.enter(t, "secret")
				next.conn.Close()
				lastEvent(t, events)
			})
		})
	}
}

// TestNetBusy: there is one test at a time, and who has no token is not told
// whether there is one.
func TestNetBusy(t *testing.T) {
	inNetServer(t, NetServerOptions{Token: "secret"}, func(t *testing.T, connect func() *rawControl, events chan NetEvent) {
		first := connect()
		first.enter(t, "secret")
		for token, want := range map[string]string{"secret": "busy", "guess": "denied"} {
			c := connect()
			greet := c.expect(t, "greet")
			c.send(t, netLine{Step: "hello", Version: netVersion, Nonce: "n", Proof: netProof(token, "client", greet.Nonce, "n")})
			c.expect(t, want)
			lastEvent(t, events)
			c.conn.Close()
		}
		first.conn.Close()
		lastEvent(t, events)
		again := connect()
		again.enter(t, "secret")
		again.conn.Close()
		lastEvent(t, events)
	})
}

// TestNetManyStrangers: those who say nothing cannot take more than their share of
// connections, and are gone after ten seconds.
func TestNetManyStrangers(t *testing.T) {
	inNetServer(t, NetServerOptions{}, func(t *testing.T, connect func() *rawControl, events chan NetEvent) {
		var strangers []*rawControl
		for range netHandshakes {
			c := connect()
			c.expect(t, "greet")
			strangers = append(strangers, c)
		}
		one := connect()
		if v, err := one.read(); err == nil {
			t.Errorf("one more was served: %+v", v)
		}
		for _, c := range strangers {
			c.expect(t, "error")
			c.conn.Close()
			lastEvent(t, events)
		}
		next := connect()
		next.enter(t, "")
		next.conn.Close()
		lastEvent(t, events)
	})
}

// TestNetHostileServers: whatever a server does, the client ends in time and says
// why.
func TestNetHostileServers(t *testing.T) {
	hello := func(t *testing.T, c *rawControl, token string) {
		nonce := netNonce()
		c.send(t, netLine{Step: "greet", Version: netVersion, Nonce: nonce})
		v := c.expect(t, "hello")
		c.send(t, netLine{Step: "ok", Proof: netProof(token, "server", nonce, v.Nonce), Caps: &netCaps{Bytes: 1 << 30, MS: 1000}})
	}
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, c *rawControl)
		want error
	}{
		{"silent", func(*testing.T, *rawControl) {}, ErrNetSilent},
		{"another version", func(t *testing.T, c *rawControl) { c.send(t, netLine{Step: "greet", Version: 7}) }, ErrNetVersion},
		{"busy", func(t *testing.T, c *rawControl) {
			c.send(t, netLine{Step: "greet", Version: netVersion})
			c.expect(t, "hello")
			c.send(t, netLine{Step: "busy"})
		}, ErrNetBusy},
		{"denied", func(t *testing.T, c *rawControl) {
			c.send(t, netLine{Step: "greet", Version: netVersion})
			c.expect(t, "hello")
			c.send(t, netLine{Step: "denied"})
		}, ErrNetDenied},
		{"without the token", func(t *testing.T, c *rawControl) { hello(t, c, "guess") }, ErrNetDenied},
		{"without caps", func(t *testing.T, c *rawControl) {
			c.send(t, netLine{Step: "greet", Version: netVersion, Nonce: "s"})
			v := c.expect(t, "hello")
			c.send(t, netLine{Step: "ok", Proof: netProof("secret", "server", "s", v.Nonce)})
		}, ErrNetPeer},
		{"silent after params", func(t *testing.T, c *rawControl) { hello(t, c, "secret"); c.expect(t, "params") }, ErrNetSilent},
		{"a huge line", func(t *testing.T, c *rawControl) {
			_, _ = c.conn.Write([]byte(strings.Repeat("x", 2*netLineLimit)))
		}, ErrNetPeer},
		{"leaves", func(t *testing.T, c *rawControl) { c.conn.Close() }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				done := make(chan error, 1)
				go func() {
					_, err := netClientOver(t.Context(), near, NetOptions{Token: "secret"}.withDefaults())
					done <- err
				}()
				c := &rawControl{far, bufio.NewReader(far)}
				tt.do(t, c)
				began := time.Now()
				go func() { // takes what is said, and says nothing
					for {
						if _, err := c.read(); err != nil {
							return
						}
					}
				}()
				err := <-done
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("NetClient: %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took > 2*netStep {
					t.Errorf("it took %v", took)
				}
				far.Close()
			})
		})
	}
}

// idleEnd never moves anything until it is cut.
type idleEnd struct{ stop chan struct{} }

func (e idleEnd) pass(int64) error { <-e.stop; return net.ErrClosed }
func (e idleEnd) cut()             { close(e.stop) }

// TestNetStandstill: a pass in which nothing moves ends after ten seconds although
// both ends are alive; one that moves at all goes on.
func TestNetStandstill(t *testing.T) {
	for _, moves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			control, other := newNetControl(near), newNetControl(far)
			defer control.close()
			defer other.close()
			s := &netSession{control: control, params: NetOptions{}.withDefaults().params(), client: true, end: idleEnd{make(chan struct{})}, moved: &netMoved{}}
			s.start()
			told := int64(0)
			other.beat(func() int64 {
				if moves && told < 30 {
					told++
				}
				return told
			}, func(int64) {})
			began := time.Now()
			_, _, err := s.pass(t.Context(), 1, 1, began)
			if !errors.Is(err, ErrNetSilent) {
				t.Errorf("pass: %v, want %v", err, ErrNetSilent)
			}
			want := netStep
			if moves {
				want += 30 * netBeat
			}
			if took := time.Since(began); took < want || took > want+3*netBeat {
				t.Errorf("moves %v: it took %v, want %v", moves, took, want)
			}
		})
	}
}

// TestNetResultsOfStrangers: what a client tells of its results is printed without
// what would work on a terminal, and only if the test was really run.
func TestNetResultsOfStrangers(t *testing.T) {
	p := NetOptions{}.withDefaults().params()
	good := NetResult{Protocol: p.Protocol, Mode: p.Mode, Dir: p.Dir, Size: p.Size, Window: p.Window, Passes: make([]NetPass, 2), Client: NetHost{Name: "a\x1b[31mb\n" + strings.Repeat("c", 200)}}
	r, err := good.checked(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	if name := r.Client.Name; strings.ContainsAny(name, "\x1b\n") || len(name) > 80 {
		t.Errorf("name %q", name)
	}
	other := good
	other.Size++
	for name, bad := range map[string]*NetResult{"none": nil, "no passes": {}, "another test": &other} {
		if _, err := bad.checked(p, 2); !errors.Is(err, ErrNetPeer) {
			t.Errorf("%s: %v, want %v", name, err, ErrNetPeer)
		}
	}
	if _, err := good.checked(p, 1); !errors.Is(err, ErrNetPeer) {
		t.Errorf("more passes than were run: %v, want %v", err, ErrNetPeer)
	}
}
